/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PRP and SGL as a stream of runs with fixed state (Base 2.0, 4.1.1 and 4.1.2): entries are copied
 * out of the host's lists TGT_DPTR_CACHE at a time when the walk gets there, checked, and used
 * from the copy. A host that changes its lists meanwhile changes where its own data goes, nothing
 * else: every address is resolved against the DMA map.
 *
 *   init: checks what the SQE says
 *   next: stretch of adjacent bus addresses --> resolve() --> one run
 *
 * Every loop is bounded by data handed out, by one list page, or by a limit of its own. Runs on
 * the queue's worker.
 */
#include "target/tgt_int.h"
#include <errno.h>
#include "base/container.h"
#include "base/must.h"

/* Adjacent pages become one run of at most this: a bound on list entries read in one call. */
#define DPTR_MERGE_MAX (2u << 20)
/* Descriptors in a row that carry no data, and segments in all: more is an attack or an error. */
#define DPTR_IDLE_MAX 256u
#define DPTR_SEGMENTS_MAX 16384u
/*
 * So many descriptors are free, each further one takes 16 bytes of data before it. Walking one
 * costs as much as moving half a KiB: a list of single bytes, or of nothing, would hold up whoever
 * shares this worker a thousand times as long as its data does.
 */
#define DPTR_DESCS_FREE 256u
#define DPTR_DESC_BYTES 16u

enum { DPTR_PRP, DPTR_SGL, DPTR_SGL_LAST /* inside a last segment */ };

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int dptr_fail(struct tgt_dptr *d, uint16_t status)
{
	d->status = status;
	return status == NVME_ST_DATA_TRANSFER ? -EFAULT : -EINVAL;
}

static int dptr_read_list(struct tgt_dptr *d, void *buf, uint32_t len)
{
	struct tgt_req *req = d->req;
	uint8_t *at = buf;
	struct mem_run run;

	while (len) {
		if (req->sq->ops->resolve(req, d->list, len, MEM_FROM_PEER, &run))
			return dptr_fail(d, NVME_ST_DATA_TRANSFER);
		must(run.len > 0 && run.len <= len);
		if (mem_peek(&run, at))
			return dptr_fail(d, NVME_ST_DATA_TRANSFER);
		at += run.len;
		d->list += run.len;
		len -= (uint32_t)run.len;
	}
	return 0;
}

/* The last entry of a list page points to the next page when one entry doesn't end the data. */
static int prp_follow(struct tgt_dptr *d)
{
	uint64_t next;
	int err = dptr_read_list(d, &next, sizeof(next));

	if (err)
		return err;
	if (next % TGT_PAGE)
		return dptr_fail(d, NVME_ST_PRP_OFFSET);
	d->list = next;
	return 0;
}

/*
 * Reads the entries of the next pages; `rest` bytes of data lie behind those that are known, >
 * 0.
 */
static int prp_fill(struct tgt_dptr *d, uint64_t rest)
{
	uint64_t nr_pages = (rest + TGT_PAGE - 1) / TGT_PAGE, nr;
	uint64_t in_page = (TGT_PAGE - d->list % TGT_PAGE) / 8;
	int err;

	if (in_page == 1 && nr_pages > 1) {
		err = prp_follow(d);
		if (err)
			return err;
		in_page = TGT_PAGE / 8;
	}
	nr = nr_pages <= in_page ? nr_pages : in_page - 1;
	nr = min_u64(nr, TGT_DPTR_CACHE);
	err = dptr_read_list(d, d->cache, (uint32_t)nr * 8);
	if (err)
		return err;
	d->cache_at = 0;
	d->cache_nr = (uint16_t)nr;
	return 0;
}

static int prp_stretch(struct tgt_dptr *d, uint64_t max)
{
	uint64_t want = min_u64(min_u64(max, d->left), DPTR_MERGE_MAX), page;
	int err;

	while (d->addr_len < want) {
		if (d->cache_at == d->cache_nr) {
			err = prp_fill(d, d->left - d->addr_len);
			if (err)
				return err;
		}
		page = d->cache[d->cache_at];
		if (page % TGT_PAGE)
			return dptr_fail(d, NVME_ST_PRP_OFFSET);
		if (d->addr_len == 0)
			d->addr = page;
		else if (page != d->addr + d->addr_len || page == 0)
			return 0;
		d->cache_at++;
		d->addr_len += min_u64(TGT_PAGE, d->left - d->addr_len);
	}
	return 0;
}

static uint16_t prp_init(struct tgt_dptr *d, const struct nvme_sqe *sqe)
{
	uint64_t rest;

	if (sqe->prp1 & 3)
		return NVME_ST_PRP_OFFSET;
	d->kind = DPTR_PRP;
	d->addr = sqe->prp1;
	d->addr_len = min_u64(d->left, TGT_PAGE - sqe->prp1 % TGT_PAGE);
	rest = d->left - d->addr_len;
	if (rest == 0)
		return NVME_ST_OK;
	if (rest <= TGT_PAGE) {
		if (sqe->prp2 % TGT_PAGE)
			return NVME_ST_PRP_OFFSET;
		d->cache[0] = sqe->prp2;
		d->cache_nr = 1;
		return NVME_ST_OK;
	}
	if (sqe->prp2 & 7)
		return NVME_ST_PRP_OFFSET;
	d->list = sqe->prp2;
	return NVME_ST_OK;
}

static int sgl_segment(struct tgt_dptr *d, const struct nvme_sgl *desc)
{
	bool is_last_in_segment = d->cache_at == d->cache_nr && d->list_left == 0;

	if (d->kind == DPTR_SGL_LAST)
		return dptr_fail(d, NVME_ST_SGL_SEGMENT);
	if (!is_last_in_segment)
		return dptr_fail(d, NVME_ST_SGL_COUNT);
	if (desc->len == 0 || desc->len % sizeof(*desc) || desc->addr & 7)
		return dptr_fail(d, NVME_ST_SGL_SEGMENT);
	if (desc->addr + desc->len < desc->addr)
		return dptr_fail(d, NVME_ST_DATA_TRANSFER);
	if (++d->nr_segments > DPTR_SEGMENTS_MAX)
		return dptr_fail(d, NVME_ST_SGL_COUNT);
	if (NVME_SGL_TYPE(desc->id) == NVME_SGL_LAST_SEGMENT)
		d->kind = DPTR_SGL_LAST;
	d->list = desc->addr;
	d->list_left = desc->len;
	return 0;
}

static int sgl_take(struct tgt_dptr *d, const struct nvme_sgl *desc)
{
	if (d->nr_descs++ >= DPTR_DESCS_FREE + d->given / DPTR_DESC_BYTES)
		return dptr_fail(d, NVME_ST_SGL_COUNT);
	if (desc->id & 0xf) /* sub types: offsets, which only capsules have */
		return dptr_fail(d, NVME_ST_SGL_TYPE);
	switch (NVME_SGL_TYPE(desc->id)) {
	case NVME_SGL_DATA_BLOCK:
		d->is_sink = false;
		d->addr = desc->addr;
		d->addr_len = min_u64(desc->len, d->left);
		if (d->addr + d->addr_len < d->addr)
			return dptr_fail(d, NVME_ST_DATA_TRANSFER);
		return 0;
	case NVME_SGL_BIT_BUCKET:
		/* Base 2.0, 4.1.2: as a source it has length 0, whatever it says. */
		d->is_sink = true;
		d->addr_len = d->dir == MEM_TO_PEER ? min_u64(desc->len, d->left) : 0;
		return 0;
	case NVME_SGL_SEGMENT:
	case NVME_SGL_LAST_SEGMENT:
		return sgl_segment(d, desc);
	default:
		return dptr_fail(d, NVME_ST_SGL_TYPE);
	}
}

static int sgl_fill(struct tgt_dptr *d)
{
	uint32_t nr = (uint32_t)min_u64(d->list_left / sizeof(struct nvme_sgl), TGT_DPTR_CACHE);
	int err;

	if (nr == 0) /* the descriptors end before the data */
		return dptr_fail(d, NVME_ST_SGL_LEN);
	err = dptr_read_list(d, d->cache, nr * sizeof(struct nvme_sgl));
	if (err)
		return err;
	d->list_left -= nr * sizeof(struct nvme_sgl);
	d->cache_at = 0;
	d->cache_nr = (uint16_t)nr;
	return 0;
}

static int sgl_stretch(struct tgt_dptr *d)
{
	struct nvme_sgl desc;
	unsigned nr_idle = 0;
	int err;

	while (d->addr_len == 0) {
		if (nr_idle++ == DPTR_IDLE_MAX)
			return dptr_fail(d, NVME_ST_SGL_COUNT);
		if (d->cache_at == d->cache_nr) {
			err = sgl_fill(d);
			if (err)
				return err;
		}
		memcpy(&desc, &d->cache[d->cache_at * 2], sizeof(desc));
		d->cache_at++;
		err = sgl_take(d, &desc);
		if (err)
			return err;
	}
	return 0;
}

static uint16_t sgl_init(struct tgt_dptr *d, const struct nvme_sqe *sqe)
{
	d->kind = DPTR_SGL;
	d->addr_len = 0;
	d->list_left = 0;
	d->nr_segments = 0;
	d->nr_descs = 0;
	if (sgl_take(d, &sqe->sgl))
		return d->status;
	/* One data block is the whole list. */
	if (d->list_left == 0 && d->addr_len < d->left)
		return NVME_ST_SGL_LEN;
	return NVME_ST_OK;
}

static int dptr_next(struct mem_iter *it, uint64_t max, struct mem_run *run)
{
	struct tgt_dptr *d = container_of(it, struct tgt_dptr, it);
	struct tgt_req *req = d->req;
	uint64_t want;
	int err;

	if (d->status)
		return dptr_fail(d, d->status);
	if (d->left == 0 || max == 0)
		return -ENODATA;
	err = d->kind == DPTR_PRP ? prp_stretch(d, max) : sgl_stretch(d);
	if (err)
		return err;
	want = min_u64(max, d->addr_len);
	if (d->is_sink) {
		/* The offset moves with the data, so that pieces of one chunk never overlap. */
		run->reg = req->sq->worker->sink;
		run->off = -d->left % TGT_SINK_BYTES;
		run->len = min_u64(want, TGT_SINK_BYTES - run->off);
	} else if (req->sq->ops->resolve(req, d->addr, want, d->dir, run)) {
		return dptr_fail(d, NVME_ST_DATA_TRANSFER);
	}
	must(run->len > 0 && run->len <= want);
	d->addr += run->len;
	d->addr_len -= run->len;
	d->left -= run->len;
	d->given += run->len;
	return 0;
}

uint16_t tgt_dptr_init(struct tgt_req *req, uint64_t len, enum mem_xfer_dir dir)
{
	struct tgt_dptr *d = &req->dptr;

	d->it = (struct mem_iter){.next = dptr_next};
	d->req = req;
	d->dir = dir;
	d->status = NVME_ST_OK;
	d->is_sink = false;
	d->left = len;
	d->given = 0;
	d->cache_at = 0;
	d->cache_nr = 0;
	req->iter = &d->it;
	if (len == 0)
		return NVME_ST_OK;
	switch (NVME_PSDT(req->sqe.flags)) {
	case 0:
		return prp_init(d, &req->sqe);
	case 1:
	case 2: /* MPTR would be an SGL too; nobody here has metadata */
		return sgl_init(d, &req->sqe);
	default:
		return NVME_ST_INVALID_FIELD;
	}
}
