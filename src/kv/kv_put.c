/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Store and STORE_EX: a value gets its bytes and seals in an unpublished buffer of the store, and
 * becomes visible whole or not at all.
 *
 *   STORE_BUF -> mem_xfer (copy in, seal what arrived) -> [seals given? same?] -> STORE_PUT -> CQE
 *        \______________ any failure: store_release, nothing was visible ___________/
 */
#include <errno.h>

#include "base/container.h"
#include "base/must.h"
#include "kv/kv_int.h"

static struct tgt_req *put_req(struct kv_put *put)
{
	return kv_req_of(container_of(put, struct kv_cmd, put));
}

static void put_published(struct store_io *io, int res)
{
	struct kv_put *put = container_of(io, struct kv_put, io);
	struct tgt_req *req = put_req(put);

	kv_cmd_count_write(req, res == 0 ? put->len : 0);
	tgt_req_complete(req, kv_cmd_status(res));
}

static void put_released(struct store_view *v)
{
	struct kv_put *put = container_of(v, struct kv_put, io.view);

	tgt_req_complete(put_req(put), put->status);
}

static void put_fail(struct kv_put *put, uint16_t status)
{
	put->status = status;
	store_release(&put->io.view, kv_home(put_req(put)), put_released);
}

/*
 * STORE_EX with seals: they follow the value, one per chunk, and must be those of the bytes that
 * arrived.
 */
static uint16_t put_check_seals(struct kv_put *put)
{
	struct tgt_req *req = put_req(put);
	const uint64_t *have = store_seals(&put->io.view);
	uint32_t nr = (put->len + MEM_CHUNK_BYTES - 1) / MEM_CHUNK_BYTES;
	uint64_t given[32];
	uint32_t i, n;
	uint16_t st;

	for (i = 0; i < nr; i += n) {
		n = min_t(uint32_t, nr - i, ARRAY_SIZE(given));
		st = tgt_req_iter_get(req, given, n * 8);
		if (st != NVME_ST_OK)
			return st;
		if (memcmp(given, have + i, n * 8))
			return NVME_ST_DATA_TRANSFER;
	}
	return NVME_ST_OK;
}

/* One with seals, or a watched one. */
static __attribute__((noinline, cold)) uint16_t put_xfer_odd(struct kv_put *put, int res)
{
	if (put_req(put)->watch & TGT_WATCH_TRACE)
		tgt_trace_stamp(put_req(put), TGT_STAMP_COPY);
	return put->has_seals && res == 0 ? put_check_seals(put) : NVME_ST_OK;
}

static void put_xfer_end(struct mem_xfer *x, int res)
{
	struct kv_put *put = container_of(x, struct kv_put, x);
	struct store_io *io = &put->io;
	uint16_t st = NVME_ST_OK;

	if (unlikely(put_req(put)->watch | put->has_seals))
		st = put_xfer_odd(put, res);
	if (res)
		st = kv_cmd_xfer_status(put_req(put), res);
	if (unlikely(st != NVME_ST_OK)) {
		put_fail(put, st);
		return;
	}
	io->op = STORE_PUT;
	io->end = put_published;
	store_submit(io->set, kv_home(put_req(put)), io);
}

static void put_buffered(struct store_io *io, int res)
{
	struct kv_put *put = container_of(io, struct kv_put, io);
	struct tgt_req *req = put_req(put);
	struct mem_xfer *x = &put->x;

	if (res) {
		kv_cmd_count_write(req, 0);
		tgt_req_complete(req, kv_cmd_status(res));
		return;
	}
	store_view_iter_init(&put->vi, &io->view, 0);
	x->dir = MEM_FROM_PEER;
	x->key_len = io->key.len;
	x->check = true;
	x->key_hash = io->key.hash;
	x->flow = req->sq->flow;
	x->off = 0;
	x->len = put->len;
	x->value_len = put->len;
	x->value = &put->vi.it;
	x->peer = req->iter;
	x->seals = store_seals(&io->view);
	x->end = put_xfer_end;
	mem_xfer_submit(req->sq->worker->engine, x);
}

/* Everything was checked, req->iter stands at the first value byte. */
static void put_start(struct tgt_req *req, uint32_t len, const struct store_meta *meta)
{
	struct kv_cmd *cmd = kv_cmd_of(req);
	struct kv_put *put = &cmd->put;
	struct store_io *io = &put->io;
	uint8_t opts = nvme_kv_options(&req->sqe);

	put->len = len;
	io->op = STORE_BUF;
	io->flags = (opts & NVME_KV_STORE_IF_EXISTS ? STORE_IF_PRESENT : 0) |
		    (opts & NVME_KV_STORE_IF_ABSENT ? STORE_IF_ABSENT : 0);
	io->key = cmd->key;
	io->off = 0;
	io->len = len;
	io->ver = 0;
	io->meta = meta;
	io->view.st = NULL;
	io->end = put_buffered;
	store_submit(kv_ns_of(req)->set, kv_home(req), io);
}

/* Both conditions at once can't be met: Invalid Field, as for the reserved bits. */
static uint16_t put_check(const struct tgt_req *req, uint64_t len)
{
	const struct kv_ns *kn = container_of(req->ns, struct kv_ns, ns);
	uint8_t opts = nvme_kv_options(&req->sqe);
	uint8_t both = NVME_KV_STORE_IF_EXISTS | NVME_KV_STORE_IF_ABSENT;

	if (kn->opts.is_read_only)
		return NVME_ST_NS_WRITE_PROTECTED;
	if ((opts & ~(both | NVME_KV_STORE_NO_COMPRESS)) || (opts & both) == both)
		return NVME_ST_INVALID_FIELD;
	if (len == 0 || len > kn->opts.value_max)
		return NVME_ST_INVALID_VALUE_SIZE;
	return NVME_ST_OK;
}

void kv_put_store(struct tgt_req *req)
{
	struct kv_put *put = &kv_cmd_of(req)->put;
	uint32_t len = req->sqe.cdw10;
	uint16_t st = put_check(req, len);

	if (st == NVME_ST_OK)
		st = req->sq->ops->data(req, len, MEM_FROM_PEER);
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	put->has_seals = false;
	put_start(req, len, NULL);
}

/* The block is copied out once, then checked, then used. */
static uint16_t put_ex_block(struct kv_put *put, const struct peal_store_ex *ex)
{
	struct store_meta *m = &put->meta;

	if (ex->parent_len > 16 || ex->group_len > 16)
		return NVME_ST_INVALID_KEY_SIZE;
	if (ex->flags & ~PEAL_STORE_EX_SEALS)
		return NVME_ST_INVALID_FIELD;
	if (!kv_class_is_known(kv_ns_of(put_req(put)), ex->cls))
		return PEAL_ST_CLASS;
	memset(m, 0, sizeof(*m));
	memcpy(m->parent, ex->parent, ex->parent_len);
	memcpy(m->group, ex->group, ex->group_len);
	memcpy(m->tag, ex->tag, sizeof(m->tag));
	m->parent_len = ex->parent_len;
	m->group_len = ex->group_len;
	m->cls = ex->cls;
	m->cost_us = ex->cost_us;
	m->seq = ex->seq;
	put->has_seals = ex->flags & PEAL_STORE_EX_SEALS;
	return NVME_ST_OK;
}

/*
 * Value bytes of a data length that also holds one seal of 8 bytes per chunk; 0 when no value has
 * that length.
 */
static uint64_t put_ex_value_len(uint64_t bytes)
{
	uint64_t nr = (bytes + MEM_CHUNK_BYTES + 7) / (MEM_CHUNK_BYTES + 8);
	uint64_t len = bytes > nr * 8 ? bytes - nr * 8 : 0;

	return (len + MEM_CHUNK_BYTES - 1) / MEM_CHUNK_BYTES == nr ? len : 0;
}

void kv_put_store_ex(struct tgt_req *req)
{
	struct kv_put *put = &kv_cmd_of(req)->put;
	uint64_t len = req->sqe.cdw10;
	struct peal_store_ex ex;
	uint16_t st;

	if (len <= PEAL_STORE_EX_BYTES) {
		tgt_req_fail(req, NVME_ST_INVALID_VALUE_SIZE);
		return;
	}
	st = req->sq->ops->data(req, len, MEM_FROM_PEER);
	if (st == NVME_ST_OK)
		st = tgt_req_iter_get(req, &ex, sizeof(ex));
	if (st == NVME_ST_OK)
		st = put_ex_block(put, &ex);
	if (st == NVME_ST_OK) {
		len -= PEAL_STORE_EX_BYTES;
		if (put->has_seals)
			len = put_ex_value_len(len);
		st = put_check(req, len);
	}
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	put_start(req, (uint32_t)len, &put->meta);
}
