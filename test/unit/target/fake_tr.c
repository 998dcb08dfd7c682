/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host half of the fake transport; see fake_tr.h.
 */
#include "fake_tr.h"
#include <errno.h>
#include <stdlib.h>
#include "base/must.h"
#include "fake_dev.h"
#include "peal/ring.h"

#define TR_STEPS_MAX 200000

/* ---- memory ---- */

static bool page_is_used(struct fake_tr *t, uint32_t page)
{
	return t->page_is_used[page / 64] >> page % 64 & 1;
}

static void pages_set(struct fake_tr *t, uint32_t page, uint32_t nr, bool is_used)
{
	for (; nr; nr--, page++) {
		must(page_is_used(t, page) != is_used);
		t->page_is_used[page / 64] ^= 1ull << page % 64;
	}
}

uint64_t fake_tr_alloc(struct fake_tr *t, uint64_t bytes)
{
	uint32_t nr = (uint32_t)((bytes + FAKE_PAGE - 1) / FAKE_PAGE), run = 0;

	nr = nr ? nr : 1;
	for (uint32_t page = 0; page < t->nr_pages; page++) {
		run = page_is_used(t, page) ? 0 : run + 1;
		if (run < nr)
			continue;
		page -= nr - 1;
		pages_set(t, page, nr, true);
		return FAKE_BUS + (uint64_t)page * FAKE_PAGE;
	}
	must_not_reach();
}

void fake_tr_free(struct fake_tr *t, uint64_t addr, uint64_t bytes)
{
	uint32_t nr = (uint32_t)((bytes + FAKE_PAGE - 1) / FAKE_PAGE);

	pages_set(t, (uint32_t)((addr - FAKE_BUS) / FAKE_PAGE), nr ? nr : 1, false);
}

uint8_t *fake_tr_ptr(struct fake_tr *t, uint64_t addr)
{
	must(addr >= FAKE_BUS && addr - FAKE_BUS < (uint64_t)t->nr_pages * FAKE_PAGE);
	return t->mem + (addr - FAKE_BUS);
}

void fake_tr_unmap(struct fake_tr *t, uint64_t addr)
{
	fake_dev_unmap(t->dev, addr);
}

void fake_tr_remap(struct fake_tr *t, uint64_t addr)
{
	fake_dev_map(t->dev, addr, NULL, 0); /* the one that is known */
}

/* ---- registers ---- */

uint64_t fake_tr_reg(struct fake_tr *t, uint32_t off, uint32_t len)
{
	uint64_t val = 0;

	must(!tgt_ctrl_reg_read(t->ctrl, off, len, &val));
	return val;
}

void fake_tr_reg_set(struct fake_tr *t, uint32_t off, uint32_t len, uint64_t val)
{
	must(!tgt_ctrl_reg_write(t->ctrl, off, len, val));
}

static void hostq_init(struct fake_tr *t, uint16_t qid, uint32_t size)
{
	struct fake_hostq *q = &t->q[qid];

	must(!q->cmds);
	*q = (struct fake_hostq){.size = size, .phase = 1};
	q->sq = fake_tr_alloc(t, size * 64ull);
	q->cq = fake_tr_alloc(t, size * 16ull);
	memset(fake_tr_ptr(t, q->cq), 0, size * 16ull);
	q->cmds = calloc(FAKE_CIDS, sizeof(*q->cmds));
	must(q->cmds);
}

static void lists_free(struct fake_tr *t, struct fake_cmd *cmd)
{
	while (cmd->nr_lists)
		fake_tr_free(t, cmd->lists[--cmd->nr_lists], FAKE_PAGE);
	free(cmd->lists);
	cmd->lists = NULL;
}

static void hostq_fini(struct fake_tr *t, uint16_t qid)
{
	struct fake_hostq *q = &t->q[qid];

	if (!q->cmds)
		return;
	for (unsigned cid = 0; cid < FAKE_CIDS; cid++)
		lists_free(t, &q->cmds[cid]);
	fake_tr_free(t, q->sq, q->size * 64ull);
	fake_tr_free(t, q->cq, q->size * 16ull);
	free(q->cmds);
	memset(q, 0, sizeof(*q));
}

static bool csts_is_ready(void *arg)
{
	return fake_tr_reg(arg, 0x1c, 4) & 1;
}

static bool csts_is_down(void *arg)
{
	return !(fake_tr_reg(arg, 0x1c, 4) & 1);
}

bool fake_tr_enable(struct fake_tr *t)
{
	uint32_t size = t->adminq_size;

	hostq_init(t, 0, size);
	fake_tr_reg_set(t, 0x24, 4, (size - 1) << 16 | (size - 1));
	fake_tr_reg_set(t, 0x28, 8, t->q[0].sq);
	fake_tr_reg_set(t, 0x30, 8, t->q[0].cq);
	fake_tr_reg_set(t, 0x14, 4, 0x00460000 | t->css << 4);
	fake_tr_reg_set(t, 0x14, 4, 0x00460001 | t->css << 4);
	return fake_node_run(t->n, csts_is_ready, t, TR_STEPS_MAX);
}

bool fake_tr_disable(struct fake_tr *t)
{
	bool ok;

	fake_tr_reg_set(t, 0x14, 4, 0x00460060);
	ok = fake_node_run(t->n, csts_is_down, t, TR_STEPS_MAX);
	for (uint16_t qid = 0; qid <= FAKE_QUEUES; qid++)
		hostq_fini(t, qid);
	return ok;
}

bool fake_tr_queue_create(struct fake_tr *t, uint16_t qid, uint32_t size)
{
	struct nvme_sqe sqe = {
		.opc = 0x05, .cdw10 = qid | (size - 1) << 16, .cdw11 = 3 | (uint32_t)qid << 16};

	hostq_init(t, qid, size);
	sqe.prp1 = t->q[qid].cq;
	if (fake_tr_exec(t, 0, &sqe, NULL) != NVME_ST_OK)
		return false;
	sqe.opc = 0x01;
	sqe.cdw11 = 1 | (uint32_t)qid << 16;
	sqe.prp1 = t->q[qid].sq;
	return fake_tr_exec(t, 0, &sqe, NULL) == NVME_ST_OK;
}

bool fake_tr_queue_delete(struct fake_tr *t, uint16_t qid)
{
	struct nvme_sqe sqe = {.opc = 0x00, .cdw10 = qid};
	bool ok = fake_tr_exec(t, 0, &sqe, NULL) == NVME_ST_OK;

	sqe.opc = 0x04;
	ok = ok && fake_tr_exec(t, 0, &sqe, NULL) == NVME_ST_OK;
	hostq_fini(t, qid);
	return ok;
}

/* ---- data pointers ---- */

static uint64_t list_page(struct fake_tr *t)
{
	uint64_t page = fake_tr_alloc(t, FAKE_PAGE);

	must(t->nr_lists < 64);
	t->lists[t->nr_lists++] = page;
	return page;
}

void fake_tr_prp_pages(struct fake_tr *t, struct nvme_sqe *sqe, const uint64_t *pages, unsigned nr,
		       uint32_t off)
{
	uint64_t *list;
	unsigned at = 0;

	must(nr > 0 && off < FAKE_PAGE);
	sqe->flags &= 0x3f;
	sqe->prp1 = pages[0] + off;
	sqe->prp2 = nr == 2 ? pages[1] : 0;
	if (nr <= 2)
		return;
	sqe->prp2 = list_page(t);
	list = (uint64_t *)fake_tr_ptr(t, sqe->prp2);
	for (unsigned i = 1; i < nr; i++) {
		if (at == FAKE_PAGE / 8 - 1 && i + 1 < nr) {
			list[at] = list_page(t);
			list = (uint64_t *)fake_tr_ptr(t, list[at]);
			at = 0;
		}
		list[at++] = pages[i];
	}
}

void fake_tr_prp(struct fake_tr *t, struct nvme_sqe *sqe, uint64_t addr, uint64_t len)
{
	uint32_t off = (uint32_t)(addr % FAKE_PAGE);
	unsigned nr = (unsigned)((off + len + FAKE_PAGE - 1) / FAKE_PAGE);
	uint64_t *pages;

	nr = nr ? nr : 1;
	pages = calloc(nr, sizeof(*pages));
	must(pages);
	for (unsigned i = 0; i < nr; i++)
		pages[i] = addr - off + (uint64_t)i * FAKE_PAGE;
	fake_tr_prp_pages(t, sqe, pages, nr, off);
	free(pages);
}

void fake_tr_sgl(struct fake_tr *t, struct nvme_sqe *sqe, const struct nvme_sgl *descs, unsigned nr,
		 unsigned per_segment)
{
	struct nvme_sgl *where = &sqe->sgl;
	unsigned room;
	uint64_t page;
	bool is_last;

	must(per_segment >= 2 && per_segment <= FAKE_PAGE / 16);
	sqe->flags = (sqe->flags & 0x3f) | 1 << 6;
	if (nr == 1) {
		*where = descs[0];
		return;
	}
	while (nr) {
		is_last = nr <= per_segment;
		room = is_last ? nr : per_segment - 1;
		page = list_page(t);
		*where = (struct nvme_sgl){
			.addr = page,
			.len = (room + !is_last) * 16,
			.id = (is_last ? NVME_SGL_LAST_SEGMENT : NVME_SGL_SEGMENT) << 4,
		};
		memcpy(fake_tr_ptr(t, page), descs, room * sizeof(*descs));
		where = (struct nvme_sgl *)fake_tr_ptr(t, page) + room;
		descs += room;
		nr -= room;
	}
}

/* ---- commands ---- */

static uint16_t cid_get(struct fake_hostq *q)
{
	uint16_t cid;

	must(q->nr_cmds < FAKE_CIDS);
	do {
		cid = q->next_cid;
		q->next_cid = (uint16_t)((cid + 1u) % FAKE_CIDS);
	} while (q->cmds[cid].is_used);
	return cid;
}

int fake_tr_submit(struct fake_tr *t, uint16_t qid, const struct nvme_sqe *sqe)
{
	struct fake_hostq *q = &t->q[qid];
	struct nvme_sqe mine = *sqe;
	struct fake_cmd *cmd;

	must(q->cmds);
	if (peal_ring_free(q->sq_head, q->tail, q->size) == 0)
		return -EAGAIN;
	mine.cid = cid_get(q);
	cmd = &q->cmds[mine.cid];
	cmd->is_used = true;
	cmd->is_done = false;
	if (t->nr_lists) {
		cmd->lists = calloc(t->nr_lists, sizeof(*cmd->lists));
		must(cmd->lists);
		memcpy(cmd->lists, t->lists, t->nr_lists * sizeof(*cmd->lists));
	}
	cmd->nr_lists = t->nr_lists;
	t->nr_lists = 0;
	memcpy(fake_tr_ptr(t, q->sq + q->tail * 64ull), &mine, 64);
	q->tail = peal_ring_next(q->tail, q->size);
	q->nr_cmds++;
	fake_dev_ring(t->dev, qid, q->tail);
	return mine.cid;
}

void fake_tr_reap(struct fake_tr *t, uint16_t qid)
{
	struct fake_hostq *q = &t->q[qid];
	struct fake_cmd *cmd;
	struct nvme_cqe cqe;
	bool any = false;

	for (;;) {
		memcpy(&cqe, fake_tr_ptr(t, q->cq + q->cq_head * 16ull), 16);
		if ((cqe.status & 1) != q->phase)
			break;
		q->phase = peal_ring_phase(q->cq_head, q->size, q->phase);
		q->cq_head = peal_ring_next(q->cq_head, q->size);
		q->sq_head = cqe.sq_head;
		any = true;
		cmd = &q->cmds[cqe.cid % FAKE_CIDS];
		if (cqe.cid >= FAKE_CIDS || !cmd->is_used || cmd->is_done || cqe.sq_id != qid) {
			t->nr_strays++;
			continue;
		}
		cmd->is_done = true;
		cmd->cqe = cqe;
	}
	if (any)
		fake_dev_cq_head(t->dev, qid, q->cq_head);
}

bool fake_tr_done(struct fake_tr *t, uint16_t qid, uint16_t cid, struct nvme_cqe *cqe)
{
	struct fake_hostq *q = &t->q[qid];
	struct fake_cmd *cmd = &q->cmds[cid];

	fake_tr_reap(t, qid);
	must(cmd->is_used);
	if (!cmd->is_done)
		return false;
	if (cqe)
		*cqe = cmd->cqe;
	lists_free(t, cmd);
	cmd->is_used = false;
	q->nr_cmds--;
	return true;
}

struct exec_wait {
	struct fake_tr *t;
	uint16_t qid, cid;
	struct nvme_cqe cqe;
};

static bool exec_is_over(void *arg)
{
	struct exec_wait *w = arg;

	return fake_tr_done(w->t, w->qid, w->cid, &w->cqe);
}

uint16_t fake_tr_exec(struct fake_tr *t, uint16_t qid, const struct nvme_sqe *sqe,
		      struct nvme_cqe *cqe)
{
	int cid = fake_tr_submit(t, qid, sqe);
	struct exec_wait w = {.t = t, .qid = qid, .cid = (uint16_t)cid};

	must(cid >= 0);
	must(fake_node_run(t->n, exec_is_over, &w, TR_STEPS_MAX));
	if (cqe)
		*cqe = w.cqe;
	return fake_tr_status(&w.cqe) & 0x7ff;
}

/* ---- life ---- */

struct fake_tr *fake_tr_create(struct fake_node *n, const struct fake_tr_opts *opts)
{
	struct fake_tr_opts o = opts ? *opts : (struct fake_tr_opts){0};
	struct fake_tr *t = calloc(1, sizeof(*t));
	uint64_t map_bytes, bytes;

	must(t);
	t->n = n;
	t->ss = o.ss ? o.ss : n->ss;
	t->nr_pages = o.mem_pages ? o.mem_pages : 4096;
	t->map_pages = o.map_pages ? o.map_pages : 64;
	t->css = 6;
	t->adminq_size = o.adminq_size ? o.adminq_size : 32;
	t->mem = aligned_alloc(FAKE_PAGE, (size_t)t->nr_pages * FAKE_PAGE);
	t->page_is_used = calloc(t->nr_pages / 64 + 1, 8);
	must(t->mem && t->page_is_used);
	memset(t->mem, 0, (size_t)t->nr_pages * FAKE_PAGE);
	t->dev = fake_dev_create(t, &o);
	t->ctrl = fake_dev_ctrl(t->dev);
	map_bytes = (uint64_t)t->map_pages * FAKE_PAGE;
	bytes = (uint64_t)t->nr_pages * FAKE_PAGE;
	for (uint64_t off = 0; off < bytes; off += map_bytes)
		fake_dev_map(t->dev, FAKE_BUS + off, t->mem + off,
			     map_bytes < bytes - off ? map_bytes : bytes - off);
	return t;
}

void fake_tr_destroy(struct fake_tr *t)
{
	must(t->nr_strays == 0);
	fake_dev_destroy(t->dev);
	for (uint16_t qid = 0; qid <= FAKE_QUEUES; qid++)
		hostq_fini(t, qid);
	free(t->page_is_used);
	free(t->mem);
	free(t);
}
