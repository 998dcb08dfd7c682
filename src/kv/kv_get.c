/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retrieve and RETRIEVE_EX: a store_read whose pieces are copied to the host and checked on the
 * way, one mem_xfer each.
 *
 *   store_read --piece--> mem_xfer (copy + seals) --> store_read_next --> ... --> end --> CQE
 *
 * A seal that does not fit makes the command a miss (Key Does Not Exist), the entry is dropped by
 * the store, an alert is raised. The host's buffer may then hold some bytes: a command that failed
 * promises nothing about them. Retrieve: CQE DW0 = size of the whole value; a smaller buffer gets
 * as much as fits and is no error (KV Command Set 1.0c, 3.2.5; SPDK's and Mooncake's clients retry
 * on it). RETRIEVE_EX: DW0 = value bytes delivered.
 */
#include <errno.h>

#include "base/container.h"
#include "base/must.h"
#include "kv/kv_int.h"
#include "store/store_read.h"

static struct tgt_req *get_req(struct kv_get *get)
{
	return kv_req_of(container_of(get, struct kv_cmd, get));
}

static void get_start(struct tgt_req *req);

/* RETRIEVE_EX: the block and the seals that this view has, before the first value byte. */
static uint16_t get_push_header(struct kv_get *get, const struct store_view *v)
{
	struct tgt_req *req = get_req(get);
	const struct store_meta *m = store_meta(v);
	struct peal_retrieve_ex ex = {
		.version = v->ver,
		.value_bytes = v->value_len,
		.cls = m->cls,
		.parent_len = m->parent_len,
		.group_len = m->group_len,
		.cost_us = m->cost_us,
		.seq = m->seq,
	};
	static const uint64_t zero[32];
	uint64_t first = get->off / MEM_CHUNK_BYTES - v->off / MEM_CHUNK_BYTES;
	uint32_t room = get->hdr_bytes - PEAL_RETRIEVE_EX_BYTES;
	uint64_t have;
	uint16_t st;

	memcpy(ex.parent, m->parent, sizeof(ex.parent));
	memcpy(ex.group, m->group, sizeof(ex.group));
	memcpy(ex.tag, m->tag, sizeof(ex.tag));
	have = (v->len + MEM_CHUNK_BYTES - 1) / MEM_CHUNK_BYTES - first;
	ex.nr_seals = min_t(uint32_t, (uint32_t)have, room / 8);
	st = tgt_req_iter_put(req, &ex, sizeof(ex));
	if (st == NVME_ST_OK && ex.nr_seals)
		st = tgt_req_iter_put(req, store_seals(v) + first, ex.nr_seals * 8);
	for (room -= ex.nr_seals * 8; st == NVME_ST_OK && room;
	     room -= min_t(uint32_t, room, sizeof(zero)))
		st = tgt_req_iter_put(req, zero, min_t(uint32_t, room, sizeof(zero)));
	return st;
}

/* A queue that isn't like others: its initiator checks by itself, or it is watched. */
static __attribute__((noinline, cold)) void get_marked(struct kv_get *get, struct mem_xfer *x)
{
	struct tgt_req *req = get_req(get);

	x->check = !(req->sq->marks & TGT_SQ_INITIATOR_SEALS);
	if (req->watch & TGT_WATCH_TRACE) {
		tgt_trace_stamp(req, TGT_STAMP_STORE);
		get->how |= KV_GET_TRACED;
	}
}

static uint64_t get_sent(const struct kv_get *get, uint64_t value_len)
{
	return value_len > get->off ? min_t(uint64_t, value_len - get->off, get->room) : 0;
}

/*
 * [off, off + len) of a value of value_len; get->vi stands at the chunk of off, seals[0] is that
 * chunk's.
 */
static struct mem_xfer *get_xfer(struct kv_get *get, uint64_t off, uint64_t len, uint32_t value_len)
{
	struct tgt_req *req = get_req(get);
	const struct store_key *key = &kv_cmd_of(req)->key;
	struct mem_xfer *x = &get->x;

	x->dir = MEM_TO_PEER;
	x->key_len = key->len;
	x->check = true;
	if (unlikely(req->sq->marks))
		get_marked(get, x);
	x->key_hash = key->hash;
	x->flow = req->sq->flow;
	x->off = off;
	x->len = len;
	x->value_len = value_len;
	x->value = &get->vi.it;
	x->peer = req->iter;
	return x;
}

/* The same of a whole value, of which `run` begins with the first byte. */
static void get_xfer_all(struct kv_get *get, const struct store_view *v, const struct mem_run *run)
{
	struct mem_engine *e = get_req(get)->sq->worker->engine;

	store_view_iter_init(&get->vi, v, 0);
	get->vi.pos = run->len;
	mem_xfer_submit_run(e, get_xfer(get, 0, get_sent(get, v->value_len), v->value_len), run);
}

static void get_piece_end(struct mem_xfer *x, int res)
{
	struct kv_get *get = container_of(x, struct kv_get, x);

	store_read_next(&get->read, res == -EILSEQ, res == -EILSEQ ? 0 : res);
}

static void get_piece(struct store_read *rd, const struct store_view *v, uint64_t off, uint64_t len)
{
	struct kv_get *get = container_of(rd, struct kv_get, read);
	uint64_t start = align_down(off, (uint64_t)MEM_CHUNK_BYTES);

	if (get->hdr_bytes && !get->has_hdr) {
		if (get_push_header(get, v) != NVME_ST_OK) {
			store_read_next(rd, false, -EFAULT);
			return;
		}
		get->has_hdr = true;
	}
	if (!get->room) { /* the block was all */
		store_read_next(rd, false, 0);
		return;
	}
	store_view_iter_init(&get->vi, v, start);
	get->x.seals = store_seals(v) + (start - v->off) / MEM_CHUNK_BYTES;
	get->x.end = get_piece_end;
	mem_xfer_submit(get_req(get)->sq->worker->engine, get_xfer(get, off, len, v->value_len));
}

/* RETRIEVE_EX, or traced. */
static __attribute__((noinline, cold)) void get_finish_other(struct kv_get *get, int res,
							     uint64_t sent, uint64_t value_len,
							     uint64_t ver)
{
	struct tgt_req *req = get_req(get);
	bool is_ex = get->how & KV_GET_EX;

	if (get->how & KV_GET_TRACED)
		tgt_trace_stamp(req, TGT_STAMP_COPY);
	if (res == 0) {
		req->dw0 = (uint32_t)(is_ex ? sent : value_len);
		req->dw1 = is_ex ? (uint32_t)ver : 0;
	}
	kv_cmd_count_read(req, sent);
	tgt_req_complete(req, kv_cmd_xfer_status(req, res));
}

/* CQE and counters. sent: value bytes that the host has; 0 when it failed. */
static void get_finish(struct kv_get *get, int res, uint64_t sent, uint64_t value_len, uint64_t ver)
{
	struct tgt_req *req = get_req(get);

	if (unlikely(get->how)) {
		get_finish_other(get, res, sent, value_len, ver);
		return;
	}
	if (res == 0)
		req->dw0 = (uint32_t)value_len;
	kv_cmd_count_read(req, sent);
	tgt_req_complete(req, kv_cmd_xfer_status(req, res));
}

/* ---- the short way: the whole value is in memory, on this reactor ---- */

static void get_now_end(struct mem_xfer *x, int res)
{
	struct kv_get *get = container_of(x, struct kv_get, x);
	struct store_view *v = &get->far.view;
	uint64_t value_len = v->value_len, ver = v->ver;

	v->is_bad = res == -EILSEQ;
	store_release(v, kv_home(get_req(get)), NULL); /* at once: we own the shard */
	if (res == -EILSEQ)
		res = -ENOENT;
	get_finish(get, res, res ? 0 : get_sent(get, value_len), value_len, ver);
}

/* False: this command has to go another way. */
static bool get_now(struct tgt_req *req)
{
	struct kv_get *get = &kv_cmd_of(req)->get;
	struct store_view *v = &get->far.view;
	int res = store_now(kv_ns_of(req)->set, kv_home(req), &kv_cmd_of(req)->key, 0, v);
	struct mem_run run;

	if (res == -ENOENT) {
		get_finish(get, res, 0, 0, 0);
		return true;
	}
	if (res)
		return false;
	must(v->off == 0 && v->len == v->value_len);
	must(store_runs(v, 0, &run, 1) == 1);
	get->x.seals = store_seals(v);
	get->x.end = get_now_end;
	get_xfer_all(get, v, &run);
	return true;
}

/* ---- the same on another reactor: only the look-up is done there ---- */

static void get_long(struct tgt_req *req);

static void get_far_dropped(struct store_far *far)
{
	struct kv_get *get = container_of(far, struct kv_get, far);

	get_finish(get, -ENOENT, 0, 0, 0);
}

static void get_far_end(struct mem_xfer *x, int res)
{
	struct kv_get *get = container_of(x, struct kv_get, x);
	const struct store_view *v = &get->far.view;

	if (res == -EILSEQ) {
		store_far_drop(&get->far, get_far_dropped);
		return;
	}
	store_far_put(&get->far); /* its pin goes home by itself */
	get_finish(get, res, res ? 0 : get_sent(get, v->value_len), v->value_len, v->ver);
}

static void get_far_found(struct store_far *far, int res)
{
	struct kv_get *get = container_of(far, struct kv_get, far);

	if (res == -EAGAIN) {
		get_long(get_req(get));
		return;
	}
	if (res) {
		get_finish(get, res, 0, 0, 0);
		return;
	}
	get->x.seals = far->seals;
	get->x.end = get_far_end;
	get_xfer_all(get, &far->view, &far->run);
}

static bool get_far(struct tgt_req *req)
{
	struct kv_get *get = &kv_cmd_of(req)->get;

	get->far.end = get_far_found;
	get->far.is_long = get->room > MEM_CHUNK_BYTES;
	return store_far_get(kv_ns_of(req)->set, kv_home(req), &kv_cmd_of(req)->key, &get->far);
}

/* ---- the long way: in pieces, from wherever they lie ---- */

static void get_end(struct store_read *rd, int res)
{
	struct kv_get *get = container_of(rd, struct kv_get, read);

	if (res == -ESTALE && rd->want_ver == 0 && get->nr_restarts < KV_RESTARTS_MAX) {
		get->nr_restarts++;
		get_start(get_req(get));
		return;
	}
	get_finish(get, res, res ? 0 : get_sent(get, rd->value_len), rd->value_len, rd->ver);
}

static void get_long(struct tgt_req *req)
{
	struct kv_cmd *cmd = kv_cmd_of(req);
	struct kv_get *get = &cmd->get;
	struct store_read *rd = &get->read;

	get->has_hdr = false;
	rd->want_ver = get->how & KV_GET_EX ? get->ver : 0;
	rd->set = kv_ns_of(req)->set;
	rd->home = kv_home(req);
	rd->key = cmd->key;
	rd->off = get->off;
	/* The block alone is a look, not a use; it takes a view to see it by. */
	rd->len = get->room ? get->room : 1;
	rd->flags = get->room ? 0 : STORE_NO_TOUCH;
	/* In memory it isn't, or RETRIEVE_EX has asked how long it is. */
	rd->is_eager = get->room > 4 * MEM_CHUNK_BYTES;
	rd->piece = get_piece;
	rd->end = get_end;
	store_read_start(rd);
}

static void get_start(struct tgt_req *req)
{
	struct kv_get *get = &kv_cmd_of(req)->get;
	uint16_t st = req->sq->ops->data(req, req->sqe.cdw10, MEM_TO_PEER);

	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	if (likely(!(get->how & KV_GET_EX)) && (get_now(req) || get_far(req)))
		return;
	get_long(req);
}

/* Retrieve with no buffer: the value's size. */
static void get_size_end(struct store_io *io, int res)
{
	struct tgt_req *req = kv_req_of(container_of(io, struct kv_cmd, one.io));

	req->dw0 = res == 0 ? io->view.value_len : 0;
	tgt_req_complete(req, kv_cmd_status(res));
}

static void get_look(struct tgt_req *req, store_end_fn *end)
{
	struct kv_cmd *cmd = kv_cmd_of(req);
	struct store_io *io = &cmd->one.io;

	io->op = STORE_EXIST;
	io->flags = 0;
	io->key = cmd->key;
	io->ver = 0;
	io->meta = NULL;
	io->view.st = NULL;
	io->end = end;
	store_submit(kv_ns_of(req)->set, kv_home(req), io);
}

void kv_get_retrieve(struct tgt_req *req)
{
	struct kv_get *get = &kv_cmd_of(req)->get;

	if (nvme_kv_options(&req->sqe) & ~NVME_KV_RETRIEVE_RAW) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	if (req->sqe.cdw10 == 0) {
		kv_cmd_count_read(req, 0);
		get_look(req, get_size_end);
		return;
	}
	get->off = 0;
	get->room = req->sqe.cdw10;
	get->hdr_bytes = 0;
	get->nr_restarts = 0;
	get->how = 0;
	get_start(req);
}

/*
 * Bytes before the value in the host's buffer: the block, and a place for each seal of the `left`
 * bytes at off.
 */
static uint32_t get_hdr_bytes(uint8_t opts, uint64_t off, uint64_t left)
{
	uint64_t chunks;

	if (!(opts & PEAL_RETRIEVE_EX_META))
		return 0;
	if (!(opts & PEAL_RETRIEVE_EX_SEALS))
		return PEAL_RETRIEVE_EX_BYTES;
	chunks = (off + left - 1) / MEM_CHUNK_BYTES - off / MEM_CHUNK_BYTES + 1;
	return PEAL_RETRIEVE_EX_BYTES + (uint32_t)chunks * 8;
}

/*
 * The value's size and version are known: they decide where the value lies behind the seals, and
 * pin the read.
 */
static void get_ex_sized(struct store_io *io, int res)
{
	struct tgt_req *req = kv_req_of(container_of(io, struct kv_cmd, one.io));
	struct kv_get *get = &kv_cmd_of(req)->get;
	uint64_t value_len = io->view.value_len, ver = io->ver;
	uint64_t off = (uint64_t)req->sqe.cdw12 * 4096;
	uint32_t want = req->sqe.cdw13, room = req->sqe.cdw10, hdr;
	uint8_t opts = nvme_kv_options(&req->sqe);

	if (res == 0 && want && (uint32_t)ver != want)
		res = -ENOENT;
	if (res) {
		tgt_req_complete(req, kv_cmd_status(res));
		return;
	}
	if (off >= value_len) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	hdr = get_hdr_bytes(opts, off, min_t(uint64_t, value_len - off, room));
	/* Exactly the block: no value, no seals. */
	if (hdr > room || (hdr == room && (opts & PEAL_RETRIEVE_EX_SEALS))) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	get->off = off;
	get->room = room - hdr;
	get->hdr_bytes = hdr;
	get->nr_restarts = KV_RESTARTS_MAX;
	get->how = KV_GET_EX;
	get->ver = ver;
	get_start(req);
}

void kv_get_retrieve_ex(struct tgt_req *req)
{
	uint8_t opts = nvme_kv_options(&req->sqe);

	if (opts & ~(NVME_KV_RETRIEVE_RAW | PEAL_RETRIEVE_EX_META | PEAL_RETRIEVE_EX_SEALS) ||
	    req->sqe.cdw10 == 0 ||
	    ((opts & PEAL_RETRIEVE_EX_SEALS) && !(opts & PEAL_RETRIEVE_EX_META))) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	get_look(req, get_ex_sized);
}
