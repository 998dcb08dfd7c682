/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fake_ns.h. Runs where its commands run.
 */
#include "fake_ns.h"
#include <stdlib.h>
#include <sys/mman.h>
#include "base/container.h"
#include "base/le.h"
#include "base/must.h"

static struct fake_ns *of(struct tgt_ns *ns)
{
	return container_of(ns, struct fake_ns, ns);
}

static void ns_move(struct fake_ns *f, struct tgt_req *req, bool is_write)
{
	uint64_t len = req->sqe.cdw10, off = req->sqe.cdw12;
	struct tgt_ns_stat *stat = &f->ns.stat[req->sq->worker->id];
	uint16_t st = NVME_ST_INVALID_FIELD;

	if (len <= FAKE_NS_BYTES && off <= FAKE_NS_BYTES - len)
		st = req->sq->ops->data(req, len, is_write ? MEM_FROM_PEER : MEM_TO_PEER);
	if (st == NVME_ST_OK && is_write)
		st = tgt_req_iter_get(req, f->bytes + off, (uint32_t)len);
	else if (st == NVME_ST_OK)
		st = tgt_req_iter_put(req, f->bytes + off, (uint32_t)len);
	counter_add(is_write ? &stat->writes : &stat->reads, 1);
	counter_add(is_write ? &stat->write_bytes : &stat->read_bytes, len);
	tgt_req_complete(req, st);
}

static void ns_prepare(struct tgt_req *req)
{
	of(req->ns)->nr_prepared++;
}

static void ns_prefetch(struct tgt_req *req)
{
	of(req->ns)->nr_prefetched++;
}

static void ns_execute(struct tgt_req *req)
{
	struct fake_ns *f = of(req->ns);

	f->nr_executed++;
	switch (req->sqe.opc) {
	case FAKE_WRITE:
		ns_move(f, req, true);
		return;
	case FAKE_READ:
		ns_move(f, req, false);
		return;
	case FAKE_PING:
		req->dw0 = req->sqe.cdw12;
		req->dw1 = req->sqe.cdw13;
		tgt_req_complete(req, NVME_ST_OK);
		return;
	case FAKE_HANG:
		must(f->nr_hung < 64);
		f->hung[f->nr_hung++] = req;
		return;
	default:
		tgt_req_fail(req, NVME_ST_INVALID_OPCODE);
	}
}

void fake_ns_let_go(struct fake_ns *f)
{
	unsigned nr = f->nr_hung;
	struct tgt_req *req;

	f->nr_hung = 0;
	for (unsigned i = 0; i < nr; i++) {
		req = f->hung[i];
		tgt_req_complete(req, req->is_aborted ? NVME_ST_ABORTED : NVME_ST_OK);
	}
}

static uint16_t ns_identify(struct tgt_ns *ns, uint8_t cns, void *buf)
{
	struct fake_ns *f = of(ns);

	le64_put(buf, f->capacity);	     /* NSZE */
	le64_put((uint8_t *)buf + 16, 4096); /* NUSE */
	if (cns == 0)
		le64_put((uint8_t *)buf + 8, f->capacity); /* NCAP */
	if (cns == 8)
		memset(buf, 0, 16);
	return NVME_ST_OK;
}

static void ns_sizes(struct tgt_ns *ns, uint64_t *capacity, uint64_t *used)
{
	*capacity = of(ns)->capacity;
	*used = 4096;
}

static void ns_resize(struct tgt_ns *ns, struct reactor *home, uint64_t bytes,
		      void (*done)(void *arg, uint16_t st), void *arg)
{
	of(ns)->capacity = bytes;
	done(arg, NVME_ST_OK);
}

static void ns_ctrl_gone(struct tgt_ns *ns, struct tgt_worker *w, uint16_t ctrl)
{
	of(ns)->nr_gone += w->id == 0;
}

static void ns_destroy(struct tgt_ns *ns, struct reactor *home,
		       void (*done)(void *arg, uint16_t st), void *arg)
{
	struct fake_ns *f = of(ns);

	must(f->nr_hung == 0);
	if (f->is_destroyed)
		*f->is_destroyed = true;
	munmap(f->bytes, FAKE_NS_BYTES);
	free(f);
	done(arg, NVME_ST_OK);
}

static const struct tgt_ns_ops ns_ops[2] = {
	[0] = {0, ns_prepare, ns_prefetch, ns_execute, ns_identify, ns_sizes, NULL, ns_ctrl_gone,
	       ns_destroy},
	[1] = {1, ns_prepare, ns_prefetch, ns_execute, ns_identify, ns_sizes, ns_resize,
	       ns_ctrl_gone, ns_destroy},
};

struct fake_ns *fake_ns_create(uint8_t csi, uint64_t capacity)
{
	struct fake_ns *f = aligned_alloc(64, (sizeof(*f) + 63) & ~(size_t)63);

	must(f && csi < 2);
	memset(f, 0, sizeof(*f));
	f->ns.ops = &ns_ops[csi];
	f->ns.nguid[15] = 7;
	f->ns.uuid[0] = 9;
	f->capacity = capacity;
	/* Not calloc(): there may be a thousand of us, and most bytes are never touched. */
	f->bytes = mmap(NULL, FAKE_NS_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(f->bytes != MAP_FAILED);
	return f;
}

static void csi_effects(uint32_t iocs[256])
{
	iocs[FAKE_WRITE] = NVME_KV_EFFECT_WRITE;
	iocs[FAKE_READ] = NVME_KV_EFFECT_READ;
}

static uint16_t csi_identify_ctrl(void *buf)
{
	le32_put(buf, 0x00010300);
	return NVME_ST_OK;
}

static void csi_create(void *arg, struct reactor *home, uint64_t bytes,
		       void (*done)(void *arg, uint16_t st, struct tgt_ns *ns), void *done_arg)
{
	done(done_arg, NVME_ST_OK, &fake_ns_create(1, bytes)->ns);
}

const struct tgt_csi_ops *fake_ns_csi(void)
{
	static const struct tgt_csi_ops ops = {
		.csi = 1,
		.effects = csi_effects,
		.identify_ctrl = csi_identify_ctrl,
		.create = csi_create,
		.oncs = 1 << 2,
	};

	return &ops;
}
