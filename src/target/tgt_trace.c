/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing: what each command did when, for an operator who wants to know where its time went.
 *
 *   operator's TRACE START --> a round: watchers of every worker mark their queues --> its CQE
 *   traced command over ----> a record in its worker's ring --CQE written--> published
 *   operator's TRACE READ <-- published records of all rings
 *
 * RECORD, for one controller, is the transport's: only the round is ours.
 *
 * A ring is written by its worker and read by the home worker of the controller that reads, without
 * a lock between them: `head` says what is published, `tail` what has been read. It is made by the
 * first START and kept until the worker goes; who starts and stops holds the subsystem's lock. When
 * it is full, records are dropped and counted. A record that waits too long for its CQE is
 * published without it, so a host that doesn't read its completions holds nobody up. Records carry
 * the number of their START: what is left of an earlier one is not told.
 */
#include "target/tgt_int.h"
#include <errno.h>
#include <nvme/types.h>
#include <stdlib.h>
#include "base/container.h"
#include "base/must.h"
#include "peal/vendor.h"

#define TRACE_RECORDS 16384u
#define TRACE_WAITING_MAX 1024u
#define TRACE_DATA_MAX 4096u
#define TRACE_CSI_NVM 0
#define TRACE_CSI_KV 1
#define TRACE_CSI_NONE 0xff

struct tgt_trace {
	struct tgt_worker *worker;
	struct mbox_msg changed; /* the owner has gone: marks are looked at again */
	_Atomic bool is_posted;
	/* under the subsystem's lock; read by the worker */
	_Atomic(struct peal_wire_trace *) recs; /* NULL until the first START */
	_Atomic uint32_t session;		/* 0: off */
	_Atomic uint32_t ctrl;			/* PEAL_TRACE_ALL, or its id */
	_Atomic uint64_t nr_dropped;
	/* the worker's */
	uint32_t fill; /* next record to write */
	_Atomic uint32_t head __attribute__((aligned(64)));
	/* the reader's */
	_Atomic uint32_t tail __attribute__((aligned(64)));
};

static void trace_changed(struct mbox_msg *m)
{
	struct tgt_trace *t = container_of(m, struct tgt_trace, changed);

	atomic_store(&t->is_posted, false);
	tgt_worker_changed(t->worker);
}

struct tgt_trace *tgt_trace_create(struct tgt_worker *w)
{
	struct tgt_trace *t = aligned_alloc(64, (sizeof(*t) + 63) & ~(size_t)63);

	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	t->worker = w;
	t->changed.fn = trace_changed;
	return t;
}

void tgt_trace_destroy(struct tgt_trace *t)
{
	free(atomic_load(&t->recs));
	free(t);
}

/* ---- on the worker ---- */

bool tgt_trace_wants(const struct tgt_worker *w, const struct tgt_ctrl *c)
{
	uint32_t ctrl = atomic_load_explicit(&w->trace->ctrl, memory_order_relaxed);

	return atomic_load_explicit(&w->trace->session, memory_order_acquire) &&
	       (ctrl == PEAL_TRACE_ALL || ctrl == c->id);
}

static struct peal_wire_trace *trace_at(const struct tgt_trace *t, uint32_t i)
{
	return &atomic_load_explicit(&t->recs, memory_order_relaxed)[i % TRACE_RECORDS];
}

/* `reserved` names the queue that a record waits for. */
static void trace_publish(struct tgt_trace *t, bool is_flush)
{
	uint32_t head = atomic_load_explicit(&t->head, memory_order_relaxed);

	while (head != t->fill) {
		struct peal_wire_trace *r = trace_at(t, head);

		if (r->reserved && !is_flush && t->fill - head < TRACE_WAITING_MAX)
			break;
		r->reserved = 0;
		head++;
	}
	atomic_store_explicit(&t->head, head, memory_order_release);
}

void tgt_trace_flush(struct tgt_worker *w)
{
	trace_publish(w->trace, true);
}

void tgt_trace_stamp(struct tgt_req *req, enum tgt_stamp hop)
{
	if (!req->stamp_ns[hop])
		req->stamp_ns[hop] = reactor_now_ns(req->sq->worker->reactor);
}

void tgt_trace_begin(struct tgt_req *req, uint64_t bell_ns, uint64_t fetch_ns)
{
	req->watch |= TGT_WATCH_TRACE;
	memset(req->stamp_ns, 0, sizeof(req->stamp_ns));
	req->stamp_ns[TGT_STAMP_BELL] = bell_ns;
	req->stamp_ns[TGT_STAMP_FETCH] = fetch_ns;
	req->trace_csi = req->ns ? req->ns->ops->csi : TRACE_CSI_NONE;
	req->trace_lba_shift = req->ns ? req->ns->lba_shift : 0;
}

/* NVM command set 1.0, 3: those with SLBA in CDW10 and 11 and NLB in CDW12. */
static bool trace_has_slba(uint8_t opc)
{
	return opc == nvme_cmd_write || opc == nvme_cmd_read || opc == nvme_cmd_compare ||
	       opc == nvme_cmd_write_zeroes;
}

static uint32_t trace_kv_bytes(const struct tgt_req *req)
{
	switch (req->sqe.opc) {
	case NVME_KV_STORE:
	case PEAL_OPC_STORE_EX:
	case PEAL_OPC_MATCH:
	case PEAL_OPC_HINT:
		return req->sqe.cdw10;
	case NVME_KV_RETRIEVE:
		return min_t(uint32_t, req->dw0, req->sqe.cdw10);
	case PEAL_OPC_RETRIEVE_EX:
		return req->dw0;
	default:
		return 0;
	}
}

static void trace_fill_kv(struct peal_wire_trace *r, const struct tgt_req *req)
{
	r->key_len = nvme_kv_key_len(&req->sqe);
	nvme_kv_key_get(&req->sqe, r->key);
	r->bytes = req->status == NVME_ST_OK ? trace_kv_bytes(req) : 0;
}

static void trace_fill_nvm(struct peal_wire_trace *r, const struct tgt_req *req)
{
	const struct nvme_sqe *sqe = &req->sqe;
	uint64_t slba = (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;

	if (!trace_has_slba(sqe->opc))
		return;
	r->key_len = sizeof(slba);
	memcpy(r->key, &slba, sizeof(slba));
	if (req->status == NVME_ST_OK && sqe->opc != nvme_cmd_write_zeroes)
		r->bytes = ((sqe->cdw12 & 0xffff) + 1) << req->trace_lba_shift;
}

static void trace_fill(struct peal_wire_trace *r, const struct tgt_req *req, const void *cq)
{
	const uint64_t *s = req->stamp_ns;
	uint64_t now = reactor_now_ns(req->sq->worker->reactor);
	uint32_t session = atomic_load_explicit(&req->sq->worker->trace->session,
						memory_order_relaxed);

	*r = (struct peal_wire_trace){
		.bell_ns = s[TGT_STAMP_BELL],
		.fetch_ns = s[TGT_STAMP_FETCH],
		.store_ns = s[TGT_STAMP_STORE] ? s[TGT_STAMP_STORE] : now,
		.copy_ns = s[TGT_STAMP_COPY],
		.done_ns = now,
		.reserved = (uintptr_t)cq,
		.nsid = req->sqe.nsid,
		.ctrl = req->sq->ctrl->id,
		.qid = req->sq->qid,
		.cid = req->sqe.cid,
		.status = req->status & 0x7ff,
		.opc = req->sqe.opc,
		.worker = (uint8_t)req->sq->worker->id,
		.csi = req->trace_csi,
	};
	memcpy(r->reserved2, &session, 4);
	if (r->csi == TRACE_CSI_KV)
		trace_fill_kv(r, req);
	else if (r->csi == TRACE_CSI_NVM)
		trace_fill_nvm(r, req);
}

void tgt_trace_end(struct tgt_req *req, const void *cq)
{
	struct tgt_trace *t = req->sq->worker->trace;
	uint32_t tail = atomic_load_explicit(&t->tail, memory_order_acquire);

	if (t->fill - tail == TRACE_RECORDS) {
		atomic_fetch_add_explicit(&t->nr_dropped, 1, memory_order_relaxed);
		return;
	}
	trace_fill(trace_at(t, t->fill), req, cq);
	t->fill++;
}

void tgt_trace_posted(struct tgt_worker *w, const void *cq)
{
	struct tgt_trace *t = w->trace;
	uint32_t head = atomic_load_explicit(&t->head, memory_order_relaxed);
	uint64_t now = reactor_now_ns(w->reactor);

	for (uint32_t i = head; i != t->fill; i++) {
		struct peal_wire_trace *r = trace_at(t, i);

		if (r->reserved != (uintptr_t)cq)
			continue;
		r->cqe_ns = now;
		r->reserved = 0;
	}
	trace_publish(t, false);
}

/* ---- the operator ---- */

static void trace_set(struct tgt_subsys *ss, uint32_t session, uint16_t ctrl)
{
	for (unsigned i = 0; i < ss->node->nr; i++) {
		struct tgt_trace *t = ss->node->workers[i]->trace;

		if (session)
			atomic_store_explicit(&t->nr_dropped, 0, memory_order_relaxed);
		atomic_store_explicit(&t->ctrl, ctrl, memory_order_relaxed);
		atomic_store_explicit(&t->session, session, memory_order_release);
	}
	ss->trace_is_on = session != 0;
}

static bool trace_make_rings(struct tgt_subsys *ss)
{
	for (unsigned i = 0; i < ss->node->nr; i++) {
		struct tgt_trace *t = ss->node->workers[i]->trace;
		struct peal_wire_trace *recs;

		if (atomic_load_explicit(&t->recs, memory_order_relaxed))
			continue;
		recs = calloc(TRACE_RECORDS, sizeof(*recs));
		if (!recs)
			return false;
		atomic_store_explicit(&t->recs, recs, memory_order_release);
	}
	return true;
}

/* Under the lock. */
static bool trace_has_ctrl(const struct tgt_subsys *ss, uint16_t id)
{
	const struct tgt_ctrl *of;

	list_for_each_entry(of, &ss->ctrls, node)
		if (of->id == id)
			return true;
	return false;
}

/* Under the lock. */
static uint16_t trace_start(struct tgt_ctrl *c, uint16_t ctrl)
{
	struct tgt_subsys *ss = c->ss;

	if (ctrl != PEAL_TRACE_ALL && !trace_has_ctrl(ss, ctrl))
		return NVME_ST_INVALID_FIELD;
	if (ss->trace_is_on && ss->trace_owner != c->id)
		return NVME_ST_SEQUENCE;
	if (!trace_make_rings(ss))
		return NVME_ST_INTERNAL;
	ss->trace_owner = c->id;
	ss->trace_session++;
	if (ss->trace_session == 0)
		ss->trace_session = 1;
	trace_set(ss, ss->trace_session, ctrl);
	return NVME_ST_OK;
}

/* Records of this session out of one ring; the bytes that they take. */
static uint32_t trace_take(struct tgt_trace *t, uint32_t session, uint8_t *to, uint32_t room)
{
	uint32_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed), len = 0;
	uint32_t head = atomic_load_explicit(&t->head, memory_order_acquire), of;

	for (; tail != head && room - len >= sizeof(struct peal_wire_trace); tail++) {
		struct peal_wire_trace r = *trace_at(t, tail);

		memcpy(&of, r.reserved2, 4);
		memset(r.reserved2, 0, sizeof(r.reserved2));
		if (of != session)
			continue;
		memcpy(to + len, &r, sizeof(r));
		len += (uint32_t)sizeof(r);
	}
	atomic_store_explicit(&t->tail, tail, memory_order_release);
	return len;
}

/* Under the lock: the bytes of the reply. */
static uint32_t trace_read(struct tgt_subsys *ss, uint8_t *buf, uint32_t room)
{
	struct peal_wire_trace_head h = {.record_bytes = sizeof(struct peal_wire_trace)};
	uint32_t len = sizeof(h);

	for (unsigned i = 0; i < ss->node->nr; i++) {
		struct tgt_trace *t = ss->node->workers[i]->trace;

		h.nr_dropped += atomic_load_explicit(&t->nr_dropped, memory_order_relaxed);
		len += trace_take(t, ss->trace_session, buf + len, room - len);
	}
	h.nr = (len - (uint32_t)sizeof(h)) / h.record_bytes;
	memcpy(buf, &h, sizeof(h));
	return len;
}

/*
 * Under the lock. A controller of another worker's is out of reach: transports with several homes
 * don't record on demand.
 */
static struct tgt_ctrl *trace_recorded(struct tgt_ctrl *c, uint16_t id)
{
	struct tgt_ctrl *of;

	list_for_each_entry(of, &c->ss->ctrls, node)
		if (of->id == id && of->home == c->home && of->ops->record)
			return of;
	return NULL;
}

/* Under the lock. */
static uint16_t trace_record(struct tgt_ctrl *c, uint16_t id, bool is_on)
{
	struct tgt_ctrl *of = trace_recorded(c, id);
	int err = of ? of->ops->record(of, is_on) : -ENODEV;

	switch (err) {
	case 0:
		return NVME_ST_OK;
	case -ENODEV:
		return NVME_ST_INVALID_FIELD;
	case -EALREADY:
	case -ENOENT:
		return NVME_ST_SEQUENCE;
	default:
		return NVME_ST_INTERNAL;
	}
}

static uint16_t trace_check(const struct tgt_ctrl *c, const struct nvme_sqe *sqe)
{
	uint8_t verb = (uint8_t)sqe->cdw12;

	if (verb > PEAL_TRACE_RECORD_STOP || sqe->cdw11 > 0xffff)
		return NVME_ST_INVALID_FIELD;
	if (verb == PEAL_TRACE_READ &&
	    (sqe->cdw10 < sizeof(struct peal_wire_trace_head) || sqe->cdw10 > TRACE_DATA_MAX))
		return NVME_ST_INVALID_FIELD;
	if ((verb == PEAL_TRACE_READ || verb == PEAL_TRACE_STOP) && c->ss->trace_owner != c->id)
		return NVME_ST_SEQUENCE;
	return NVME_ST_OK;
}

/* A request's scratch, behind what admin has there. */
struct trace_turn {
	struct tgt_admin admin;
	struct tgt_req *req;
	struct reactor_round round;
};
static_assert(sizeof(struct trace_turn) <= TGT_SCRATCH_BYTES, "fits the scratch");

static void trace_turn_at(struct reactor_round *rd, struct reactor *r)
{
	struct trace_turn *tt = container_of(rd, struct trace_turn, round);

	tgt_worker_changed(tt->req->sq->ctrl->ss->node->workers[reactor_id(r)]);
}

static void trace_turn_done(struct reactor_round *rd)
{
	struct trace_turn *tt = container_of(rd, struct trace_turn, round);
	struct tgt_req *req = tt->req;
	struct tgt_ctrl *c = req->sq->ctrl, *of = NULL;

	pthread_mutex_lock(&c->ss->lock);
	if ((uint8_t)req->sqe.cdw12 == PEAL_TRACE_RECORD_STOP)
		of = trace_recorded(c, (uint16_t)req->sqe.cdw11);
	pthread_mutex_unlock(&c->ss->lock);
	if (of) /* of this worker: it can't go away within a turn */
		of->ops->record_end(of);
	tgt_req_complete(req, NVME_ST_OK);
}

/* What was changed holds on all workers when the command is over. */
static void trace_turn(struct tgt_ctrl *c, struct tgt_req *req)
{
	struct trace_turn *tt = (struct trace_turn *)req->scratch;
	const struct tgt_node *node = c->ss->node;

	tt->req = req;
	tt->round.fn = trace_turn_at;
	tt->round.done = trace_turn_done;
	reactor_round_start(&tt->round, c->home->reactor, node->reactors, node->nr);
}

static uint16_t trace_do(struct tgt_ctrl *c, const struct nvme_sqe *sqe)
{
	switch ((uint8_t)sqe->cdw12) {
	case PEAL_TRACE_START:
		return trace_start(c, (uint16_t)sqe->cdw11);
	case PEAL_TRACE_STOP:
		trace_set(c->ss, 0, 0);
		return NVME_ST_OK;
	case PEAL_TRACE_RECORD:
		return trace_record(c, (uint16_t)sqe->cdw11, true);
	default: /* checked */
		return trace_record(c, (uint16_t)sqe->cdw11, false);
	}
}

void tgt_trace_execute(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint8_t buf[TRACE_DATA_MAX] __attribute__((aligned(8)));
	bool is_read = (uint8_t)req->sqe.cdw12 == PEAL_TRACE_READ;
	uint32_t len = 0;
	uint16_t st;

	pthread_mutex_lock(&c->ss->lock);
	st = trace_check(c, &req->sqe);
	if (st == NVME_ST_OK && is_read)
		len = trace_read(c->ss, buf, req->sqe.cdw10);
	else if (st == NVME_ST_OK)
		st = trace_do(c, &req->sqe);
	pthread_mutex_unlock(&c->ss->lock);
	if (st != NVME_ST_OK)
		tgt_req_fail(req, st);
	else if (is_read)
		tgt_req_send(req, buf, len, NVME_ST_OK);
	else
		trace_turn(c, req);
}

/* Nobody waits for it. */
static void trace_off(struct tgt_subsys *ss)
{
	trace_set(ss, 0, 0);
	for (unsigned i = 0; i < ss->node->nr; i++) {
		struct tgt_trace *t = ss->node->workers[i]->trace;

		if (!atomic_exchange(&t->is_posted, true))
			mbox_post(ss->node->reactors[i], &t->changed);
	}
}

void tgt_trace_ctrl_gone(struct tgt_ctrl *c)
{
	pthread_mutex_lock(&c->ss->lock);
	if (c->ss->trace_owner == c->id) {
		if (c->ss->trace_is_on)
			trace_off(c->ss);
		c->ss->trace_owner = 0;
	}
	pthread_mutex_unlock(&c->ss->lock);
}
