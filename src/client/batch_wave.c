/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waves, see batch_wave.h, whose numbers the comments here name. A request takes a place, sends its
 * commands into the ring, and ends when the last of them is over. In the queue's thread.
 */
#include "client/batch_wave.h"

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "client/errmsg.h"
#include "client/get.h"
#include "client/lease.h"

#define WAVE_GET_COPY_MAX 65536u /* larger ones by lease, as in get.c */
#define WAVE_LEASE_MS 2000u
#define WAVE_RING_BYTES (1u << 20) /* of puts: the daemon begins while the next is copied */
#define WAVE_REQS 64u
#define WAVE_WAIT_MS 1000u
#define WAVE_LOOK_MS 20u    /* while one can't begin: others may have given buffers back */
#define WAVE_RELEASES 16u   /* so many ring by themselves, */
#define WAVE_RELEASE_MS 20u /* and fewer after so long in which nothing came */
#define WAVE_UNIT 4096u

/* Not for this wave to decide (3). */
#define WAVE_ALONE 1

/* ---- what can go ---- */

static bool wave_has_block(const struct peal_req *req)
{
	return req->meta || req->want_tag;
}

static bool wave_is_leased(const struct peal_req *req)
{
	return req->op == PEAL_REQ_GET && req->bytes > WAVE_GET_COPY_MAX;
}

static uint32_t wave_lease_room(const struct peal_req *req)
{
	size_t most = req->bytes < PEAL_VALUE_MAX ? req->bytes : PEAL_VALUE_MAX;

	return (uint32_t)((lease_reply_bytes(most) + WAVE_UNIT - 1) & ~(size_t)(WAVE_UNIT - 1));
}

static bool wave_takes_get(const struct conn *c, const struct peal_req *req)
{
	if (!req->buf || req->flags & ~PEAL_PART || !conn_has_cmd(c, PEAL_OPC_RETRIEVE_EX))
		return false;
	if (!wave_is_leased(req))
		return wave_has_block(req) && req->bytes;
	return conn_has_cmd(c, PEAL_OPC_LEASE) && c->has_arena &&
	       wave_lease_room(req) <= c->data_max;
}

static bool wave_takes_put(const struct conn *c, const struct peal_req *req)
{
	const struct peal_meta *m = req->meta;
	uint32_t both = PEAL_IF_ABSENT | PEAL_IF_PRESENT;

	if (m && (m->parent.len > PEAL_KEY_MAX || m->group.len > PEAL_KEY_MAX ||
		  !conn_has_cmd(c, PEAL_OPC_STORE_EX)))
		return false;
	return req->buf && req->bytes && req->bytes <= c->ns.value_max &&
	       req->bytes <= WAVE_BYTES && req->bytes + PEAL_STORE_EX_BYTES <= c->bufs.shm.bytes &&
	       !(req->flags & ~both) && req->flags != both;
}

bool batch_wave_takes(const struct peal_queue *q, const struct peal_req *req)
{
	const struct conn *c = q->conn;

	if (!c || req->key.len < 1 || req->key.len > c->ns.key_max)
		return false;
	if (req->op == PEAL_REQ_GET)
		return wave_takes_get(c, req);
	return req->op == PEAL_REQ_PUT && wave_takes_put(c, req);
}

/* ---- sending ---- */

static void wave_ring(struct wave *w)
{
	if (w->nr_pushed + w->nr_released && w->q->conn)
		qp_ring(w->q->q);
	w->nr_pushed = w->nr_released = 0;
	w->pushed_bytes = 0;
}

static void wave_put_buf(struct wave *w, struct batch_cmd *cmd)
{
	if (cmd->buf.ptr)
		bufs_put(&w->conn->bufs, &cmd->buf);
}

/* Its data_bytes are set. -EAGAIN: no buffer now. */
static int wave_make(struct wave *w, struct batch_cmd *cmd, const struct peal_req *req, uint8_t opc,
		     uint8_t opts)
{
	cmd->sqe = (struct nvme_sqe){.opc = opc, .cdw10 = cmd->data_bytes};
	nvme_kv_key_set(&cmd->sqe, req->key.b, req->key.len, opts);
	return bufs_get(&w->conn->bufs, cmd->data_bytes, &cmd->buf, 0);
}

static int wave_make_get(struct wave *w, struct wave_one *o, const struct peal_req *req)
{
	int err = 0;

	if (wave_has_block(req)) {
		o->block.data_bytes = PEAL_RETRIEVE_EX_BYTES;
		o->block.data_bytes += wave_is_leased(req) ? 0 : (uint32_t)req->bytes;
		err = wave_make(w, &o->block, req, PEAL_OPC_RETRIEVE_EX, PEAL_RETRIEVE_EX_META);
	}
	if (err || !wave_is_leased(req))
		return err;
	o->lease.data_bytes = wave_lease_room(req);
	err = wave_make(w, &o->lease, req, PEAL_OPC_LEASE, 0);
	o->lease.sqe.cdw12 = WAVE_LEASE_MS;
	return err;
}

static int wave_make_put(struct wave *w, struct wave_one *o, const struct peal_req *req)
{
	size_t head = req->meta ? PEAL_STORE_EX_BYTES : 0;
	uint8_t opts = 0;
	int err;

	if (req->flags & PEAL_IF_ABSENT)
		opts = NVME_KV_STORE_IF_ABSENT;
	else if (req->flags & PEAL_IF_PRESENT)
		opts = NVME_KV_STORE_IF_EXISTS;
	o->block.data_bytes = (uint32_t)(head + req->bytes);
	err = wave_make(w, &o->block, req, head ? PEAL_OPC_STORE_EX : NVME_KV_STORE, opts);
	if (err)
		return err;
	if (head)
		call_fill_store_ex((struct peal_store_ex *)o->block.buf.ptr, req->meta);
	memcpy(o->block.buf.ptr + head, req->buf, req->bytes);
	return 0;
}

static int wave_push(struct wave *w, struct wave_one *o, struct batch_cmd *cmd)
{
	int err = cmd->data_bytes ? batch_push(w->q, cmd, w->deadline_ns) : 0;

	if (err || !cmd->data_bytes)
		return err;
	o->nr_left++;
	w->nr_pushed++;
	return 0;
}

static struct wave_one *wave_place(struct wave *w)
{
	for (unsigned i = 0; i < WAVE_MAX; i++)
		if (!w->one[i].req)
			return &w->one[i];
	return NULL;
}

/* Two, of which only one may be needed: what is sent is to be sent as a whole. */
static bool wave_is_full(const struct wave *w)
{
	return !w->q->conn || w->q->q->nr_free < 2;
}

/* 0: under way. -EAGAIN: not now. Another error: not this way (3). */
static int wave_start(struct wave *w, struct peal_req *req)
{
	struct wave_one *o = wave_place(w);
	int err;

	if (w->q->conn != w->conn || conn_is_dead(w->conn))
		return -ENOTCONN;
	if (!o || wave_is_full(w) || (w->nr_used && w->bytes + req->bytes > WAVE_BYTES))
		return -EAGAIN;
	*o = (struct wave_one){.bytes = req->bytes, .asked_ns = mono_ns()};
	err = req->op == PEAL_REQ_PUT ? wave_make_put(w, o, req) : wave_make_get(w, o, req);
	if (!err)
		err = wave_push(w, o, &o->block);
	if (!err)
		err = wave_push(w, o, &o->lease);
	o->is_half = err && o->nr_left;
	if (err && !o->is_half) {
		wave_put_buf(w, &o->block);
		wave_put_buf(w, &o->lease);
		return err;
	}
	o->req = req;
	w->nr_used++;
	w->bytes += o->bytes;
	w->pushed_bytes += req->op == PEAL_REQ_PUT ? o->bytes : 0;
	if (w->pushed_bytes >= WAVE_RING_BYTES)
		wave_ring(w);
	return 0;
}

/* ---- ends ---- */

static struct call wave_call(const struct wave *w, const struct peal_req *req,
			     const struct buf *buf)
{
	return (struct call){
		.p = w->q->p,
		.conn = w->conn,
		.verb = "get",
		.key = &req->key,
		.deadline_ns = w->deadline_ns,
		.buf = *buf,
	};
}

/* Of a get's command that is over (3). */
static int wave_status(const struct batch_cmd *cmd, const struct peal_req *req)
{
	int err = cmd->err ? cmd->err : errmsg_status(cmd->status, "get", &req->key);

	return !err || err == -ENOENT || err == -ETIMEDOUT || err == -ENOTCONN ? err : WAVE_ALONE;
}

/* Bytes that the caller gets. */
static int64_t wave_share(struct peal_req *req, uint64_t value_bytes)
{
	char key[ERRMSG_KEY_BYTES];

	req->value_bytes = value_bytes;
	if (value_bytes <= req->bytes)
		return (int64_t)value_bytes;
	if (req->flags & PEAL_PART)
		return (int64_t)req->bytes;
	return errmsg_set(-EMSGSIZE, "get %s: the value has %llu bytes, the buffer %zu",
			  errmsg_key(&req->key, key), (unsigned long long)value_bytes, req->bytes);
}

/* What the block says; nothing was copied yet (2). */
static int wave_check_block(struct wave *w, const struct wave_one *o, struct peal_retrieve_ex *x)
{
	const struct call call = wave_call(w, o->req, &o->block.buf);

	memcpy(x, o->block.buf.ptr, sizeof(*x));
	return get_check_tag(&call, o->req->want_tag, x);
}

static void wave_set_meta(const struct wave_one *o, const struct peal_retrieve_ex *x)
{
	if (o->req->meta)
		*o->req->meta = get_meta(x);
}

static int wave_end_small(struct wave *w, struct wave_one *o)
{
	struct peal_retrieve_ex x;
	int err = wave_status(&o->block, o->req);
	int64_t n;

	if (!err)
		err = wave_check_block(w, o, &x);
	if (err)
		return err;
	n = wave_share(o->req, x.value_bytes);
	if (n < 0)
		return (int)n;
	if (o->block.dw0 < n || o->block.dw0 > o->req->bytes || !n)
		return WAVE_ALONE;
	memcpy(o->req->buf, o->block.buf.ptr + PEAL_RETRIEVE_EX_BYTES, (size_t)n);
	wave_set_meta(o, &x);
	call_count(&w->q->p->bytes_out, (uint64_t)n);
	return 0;
}

/* The lease, if there is one to be ended (5), whatever comes of the request. */
static int wave_take_lease(struct wave *w, struct wave_one *o, struct peal_lease **l)
{
	struct call call = wave_call(w, o->req, &o->lease.buf);
	int err = wave_status(&o->lease, o->req);

	if (!err && o->lease.dw0 > o->lease.data_bytes)
		return WAVE_ALONE; /* nothing was leased */
	if (!err && lease_make(&call, o->lease.dw0, o->asked_ns, l) < 0)
		return WAVE_ALONE;
	if (!err && lease_map(&call, *l) < 0)
		return WAVE_ALONE;
	return err;
}

static int wave_copy(struct wave *w, struct wave_one *o, const struct peal_lease *l)
{
	struct peal *p = w->q->p;
	struct peal_retrieve_ex x = {0};
	int err = wave_has_block(o->req) ? wave_check_block(w, o, &x) : 0;
	int64_t n;

	if (!err && (o->block.dw0 || (wave_has_block(o->req) && x.version != l->version)))
		err = WAVE_ALONE;
	n = err ? err : wave_share(o->req, l->value_bytes);
	if (n < 0 || err)
		return (int)n;
	if (!n)
		return WAVE_ALONE;
	err = (int)lease_copy(l, 0, o->req->buf, (size_t)n);
	if (err < 0) {
		call_count(&p->bad_seals, err == -EILSEQ);
		return WAVE_ALONE;
	}
	wave_set_meta(o, &x);
	call_count(&p->bytes_out, (uint64_t)n);
	estimate_add(&p->ns_per_mib[ESTIMATE_MEMORY], (uint64_t)n, mono_ns() - w->last_ns);
	return 0;
}

static void wave_release(struct wave *w, struct peal_lease *l)
{
	struct nvme_sqe sqe;

	lease_release_sqe(l, &sqe);
	/* Without a CID, or with the daemon, it ends by itself (5). */
	if (w->q->conn == w->conn && !conn_is_dead(w->conn) && batch_post(w->q, &sqe) == 0)
		w->nr_released++;
	lease_forget(l);
}

static int wave_end_leased(struct wave *w, struct wave_one *o)
{
	struct peal_lease *l = NULL;
	int block = wave_has_block(o->req) ? wave_status(&o->block, o->req) : 0;
	int err = wave_take_lease(w, o, &l);

	if (block)
		err = block;
	if (!err)
		err = wave_copy(w, o, l);
	if (l)
		wave_release(w, l);
	return err;
}

static int wave_end_put(struct wave *w, struct wave_one *o)
{
	int err = o->block.err;

	if (!err)
		err = errmsg_status(o->block.status, "put", &o->req->key);
	if (!err)
		call_count(&w->q->p->bytes_in, o->req->bytes);
	return err;
}

static void wave_finish(struct wave *w, struct peal_req *req, int res)
{
	struct peal *p = w->q->p;

	req->res = res;
	w->nr_ok += !res;
	call_count(&p->calls, 1);
	call_count(&p->timeouts, res == -ETIMEDOUT);
	if (req->op != PEAL_REQ_GET)
		return;
	call_count(&p->hits, !res);
	call_count(&p->misses, res == -ENOENT);
}

static void wave_end(struct wave *w, struct wave_one *o)
{
	struct peal_req *req = o->req;
	int res;

	if (o->is_half)
		res = WAVE_ALONE;
	else if (req->op == PEAL_REQ_PUT)
		res = wave_end_put(w, o);
	else
		res = wave_is_leased(req) ? wave_end_leased(w, o) : wave_end_small(w, o);
	wave_put_buf(w, &o->block);
	wave_put_buf(w, &o->lease);
	w->nr_used--;
	w->bytes -= o->bytes;
	w->last_ns = mono_ns();
	o->req = NULL;
	if (res == WAVE_ALONE)
		req->priv[1] = BATCH_ALONE;
	else
		wave_finish(w, req, res);
}

static struct wave_one *wave_of(struct wave *w, const struct batch_cmd *cmd)
{
	return &w->one[((uintptr_t)cmd - (uintptr_t)w->one) / sizeof(w->one[0])];
}

/*
 * Until something ends, of the queue's own requests, too, or most_ms are over. False: nothing is
 * under way.
 */
static bool wave_wait(struct wave *w, uint64_t most_ms)
{
	struct peal_req *done[WAVE_REQS];
	uint64_t now = mono_ns();
	uint64_t left_ms = now < w->deadline_ns ? (w->deadline_ns - now) / MONO_NS_PER_MS + 1 : 1;
	struct batch_cmd *cmd;
	int n;

	if (w->nr_pushed || w->nr_released >= WAVE_RELEASES || wave_is_full(w))
		wave_ring(w);
	if (!w->q->nr_waiting && !w->q->cmds_done) {
		wave_ring(w);
		return w->q->nr_posted && batch_reap_posted(w->q, w->deadline_ns);
	}
	if (w->nr_released && most_ms > WAVE_RELEASE_MS)
		most_ms = WAVE_RELEASE_MS;
	n = batch_reap_done(w->q, done, WAVE_REQS,
			    (uint32_t)(left_ms < most_ms ? left_ms : most_ms));
	if (!n && !w->q->cmds_done)
		wave_ring(w);
	for (int i = 0; i < n; i++)
		w->nr_back_ok += !done[i]->res;
	w->nr_back += n > 0 ? (unsigned)n : 0;
	while ((cmd = batch_pop(w->q))) {
		struct wave_one *o = wave_of(w, cmd);

		if (!--o->nr_left)
			wave_end(w, o);
	}
	return true;
}

static void wave_begin(struct wave *w, struct peal_req *req)
{
	int err = -EAGAIN;

	/* It was sorted for the connection of that time, which this one need not be. */
	if (!batch_wave_takes(w->q, req))
		err = WAVE_ALONE;
	req->value_bytes = 0;
	while (err == -EAGAIN && mono_ns() < w->deadline_ns) {
		err = wave_start(w, req);
		if (err == -EAGAIN && !wave_wait(w, WAVE_LOOK_MS))
			break;
	}
	if (err == -EAGAIN && mono_ns() >= w->deadline_ns)
		wave_finish(w, req, -ETIMEDOUT);
	else if (err)
		req->priv[1] = BATCH_ALONE;
}

void batch_wave_run(struct wave *w, struct peal_queue *q, struct peal_req *reqs, unsigned nr,
		    uint64_t deadline_ns)
{
	w->q = q;
	w->conn = q->conn;
	w->deadline_ns = deadline_ns;
	w->last_ns = mono_ns();
	w->nr_used = w->nr_ok = w->nr_back = w->nr_back_ok = 0;
	w->nr_pushed = w->nr_released = 0;
	w->bytes = w->pushed_bytes = 0;
	for (unsigned i = 0; i < WAVE_MAX; i++)
		w->one[i].req = NULL;
	conn_get(w->conn);
	for (unsigned i = 0; i < nr; i++)
		if (reqs[i].priv[1] == BATCH_WAVE)
			wave_begin(w, &reqs[i]);
	while (w->nr_used)
		must(wave_wait(w, WAVE_WAIT_MS));
	wave_ring(w); /* releases */
	conn_put(w->conn);
}
