/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of requests: by a CQE, by their deadline, or by the end of the daemon. The last two
 * differ: a deadline gives back a request that names only our buffer, which stays in quarantine
 * with its CID; a direct request, which names the caller's memory, ends with its CQE or when the
 * daemon is dead, and with nothing else. In the thread that owns the queue.
 */
/* tidy: no-test: t_batch.c tests both halves */
#include "client/batch_int.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/must.h"
#include "client/batch.h"
#include "client/errmsg.h"
#include "client/keeper.h"

#define BATCH_SPINS 2000u
#define BATCH_SPIN_NS (25 * MONO_NS_PER_US)

void batch_reap_finish(struct peal_queue *q, struct peal_req *req, int res)
{
	req->res = res;
	req->priv[0] = 0;
	if (q->done_last)
		q->done_last->priv[0] = (uintptr_t)req;
	else
		q->done_first = req;
	q->done_last = req;
	if (req->op == PEAL_REQ_GET && !res)
		q->sum.hits++;
	else if (req->op == PEAL_REQ_GET && res == -ENOENT)
		q->sum.misses++;
	if (res == -ETIMEDOUT)
		call_count(&q->p->timeouts, 1);
}

/* The same of a command; what is behind `res` is the slot's, or with the CQE the command's. */
static void batch_reap_cmd(struct peal_queue *q, struct batch_slot *s, int res)
{
	struct batch_cmd *cmd = s->cmd;

	s->cmd = NULL;
	cmd->err = res;
	cmd->next = q->cmds_done;
	q->cmds_done = cmd;
	q->nr_waiting--;
}

static unsigned batch_reap_pop(struct peal_queue *q, struct peal_req **done, unsigned max)
{
	unsigned n = 0;

	while (n < max && q->done_first) {
		struct peal_req *req = q->done_first;

		q->done_first = (struct peal_req *)(uintptr_t)req->priv[0];
		if (!q->done_first)
			q->done_last = NULL;
		done[n++] = req;
	}
	return n;
}

static void batch_reap_complete(struct peal_queue *q, struct batch_slot *s,
				const struct nvme_cqe *cqe)
{
	struct peal_req *req = s->req;
	int res = errmsg_errno(cqe->status >> 1);

	if (!res && req->op == PEAL_REQ_GET) {
		size_t got = cqe->dw0 < req->bytes ? cqe->dw0 : req->bytes;

		req->value_bytes = cqe->dw0;
		if (got < cqe->dw0 && !(req->flags & PEAL_PART))
			res = -EMSGSIZE;
		else if (s->buf.ptr)
			memcpy(req->buf, s->buf.ptr, got);
		if (!res)
			q->sum.bytes_out += got;
	} else if (!res && req->op == PEAL_REQ_PUT) {
		q->sum.bytes_in += req->bytes;
	}
	q->nr_waiting--;
	batch_drop_slot(q, s);
	batch_reap_finish(q, req, res);
}

static void batch_reap_answer(struct peal_queue *q, struct batch_slot *s,
			      const struct nvme_cqe *cqe)
{
	struct batch_cmd *cmd = s->cmd;

	cmd->status = cqe->status >> 1;
	cmd->dw0 = cqe->dw0;
	cmd->buf = s->buf;
	s->buf.ptr = NULL;
	batch_reap_cmd(q, s, 0);
	batch_drop_slot(q, s);
}

/* The handle's counters are shared by all threads: once a burst, not once a request. */
static void batch_reap_count(struct peal_queue *q)
{
	call_count(&q->p->hits, q->sum.hits);
	call_count(&q->p->misses, q->sum.misses);
	call_count(&q->p->bytes_out, q->sum.bytes_out);
	call_count(&q->p->bytes_in, q->sum.bytes_in);
	memset(&q->sum, 0, sizeof(q->sum));
}

static void batch_reap_take(struct peal_queue *q)
{
	struct nvme_cqe cqes[BATCH_CQES];
	unsigned n = qp_reap(q->q, cqes, BATCH_CQES);

	for (unsigned i = 0; i < n; i++) {
		struct batch_slot *s;

		if (cqes[i].cid >= q->depth)
			continue; /* a broken peer */
		s = &q->slots[cqes[i].cid];
		if (s->state == CONN_SLOT_FREE)
			continue;
		if (s->state == CONN_SLOT_WAITING && s->cmd)
			batch_reap_answer(q, s, &cqes[i]);
		else if (s->state == CONN_SLOT_WAITING)
			batch_reap_complete(q, s, &cqes[i]);
		else
			batch_drop_slot(q, s);
		qp_cid_put(q->q, cqes[i].cid);
	}
	if (n)
		batch_reap_count(q);
}

/* Gives back what is overdue; the rest decides when to look again. */
static void batch_reap_expire(struct peal_queue *q, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	if (now < atomic_load_explicit(&q->next_deadline_ns, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < q->depth; i++) {
		struct batch_slot *s = &q->slots[i];

		if (s->state != CONN_SLOT_WAITING)
			continue;
		if (s->deadline_ns > now) {
			next = s->deadline_ns < next ? s->deadline_ns : next;
			continue;
		}
		if (s->buf.ptr)
			bufs_quarantine(&q->conn->bufs, &s->buf);
		s->state = CONN_SLOT_GIVEN_UP;
		if (s->cmd) {
			batch_reap_cmd(q, s, -ETIMEDOUT);
			continue;
		}
		q->nr_waiting--;
		batch_reap_finish(q, s->req, -ETIMEDOUT);
		s->req = NULL;
	}
	atomic_store_explicit(&q->next_deadline_ns, next, memory_order_relaxed);
}

void batch_reap_fail_all(struct peal_queue *q)
{
	for (uint32_t i = 0; i < q->depth; i++) {
		struct batch_slot *s = &q->slots[i];

		if (s->state != CONN_SLOT_WAITING)
			continue;
		if (s->cmd) {
			batch_reap_cmd(q, s, -ENOTCONN);
			continue;
		}
		q->nr_waiting--;
		batch_reap_finish(q, s->req, -ENOTCONN);
	}
	must(q->nr_waiting == 0);
	batch_detach(q);
	atomic_store_explicit(&q->next_deadline_ns, UINT64_MAX, memory_order_relaxed);
}

/* Direct requests have none: then a look doesn't ask for the time. */
static bool batch_has_deadline(struct peal_queue *q)
{
	return atomic_load_explicit(&q->next_deadline_ns, memory_order_relaxed) != UINT64_MAX;
}

void batch_reap_look(struct peal_queue *q)
{
	if (!q->conn)
		return;
	batch_reap_take(q);
	if (conn_is_dead(q->conn))
		batch_reap_fail_all(q);
	else if (q->nr_waiting && batch_has_deadline(q))
		batch_reap_expire(q, mono_ns());
}

/* A look, and what it has found. */
static unsigned batch_reap_some(struct peal_queue *q, struct peal_req **done, unsigned max)
{
	batch_reap_look(q);
	return batch_reap_pop(q, done, max);
}

/*
 * The answer to one small request is here in a few microseconds: no clock, no pause, for about as
 * long.
 */
static bool batch_reap_spin(struct peal_queue *q)
{
	for (unsigned i = 0; i < BATCH_SPINS; i++)
		if (qp_has_cqe(q->q))
			return true;
	return false;
}

static void batch_reap_wait(struct peal_queue *q, uint64_t spin_until, uint64_t until)
{
	while (mono_ns() < spin_until) {
		for (unsigned i = 0; i < 32; i++) {
			if (qp_has_cqe(q->q))
				return;
			QP_RELAX();
		}
	}
	if (!q->has_tried_arm) {
		/* Look once more afterwards: what came before the interrupt was set made none. */
		q->has_tried_arm = true;
		qp_arm(q->q, q->fd, mono_ns() + BATCH_ARM_NS);
		return;
	}
	qp_doze(q->q, until);
}

bool batch_reap_posted(struct peal_queue *q, uint64_t until_ns)
{
	uint64_t spin_until = mono_ns() + BATCH_SPIN_NS;
	uint32_t nr = q->nr_posted;

	batch_reap_look(q);
	while (q->conn && nr && q->nr_posted == nr && mono_ns() < until_ns) {
		batch_reap_wait(q, spin_until, until_ns);
		batch_reap_look(q);
	}
	return q->conn && q->nr_posted < nr;
}

int batch_reap_done(struct peal_queue *q, struct peal_req **done, unsigned max, uint32_t timeout_ms)
{
	uint64_t now, until, spin_until;
	unsigned n = batch_reap_some(q, done, max);

	if (!n && !q->cmds_done && timeout_ms && max && q->nr_waiting && batch_reap_spin(q))
		n = batch_reap_some(q, done, max);
	if (n || !timeout_ms || !max)
		return (int)n;
	now = mono_ns();
	until = now + timeout_ms * MONO_NS_PER_MS;
	spin_until = now + BATCH_SPIN_NS;
	while (!n && !q->cmds_done && q->nr_waiting && mono_ns() < until) {
		uint64_t next = atomic_load_explicit(&q->next_deadline_ns, memory_order_relaxed);

		batch_reap_wait(q, spin_until, next < until ? next : until);
		n = batch_reap_some(q, done, max);
	}
	return (int)n;
}

int peal_reap(struct peal_queue *q, struct peal_req **done, unsigned max, uint32_t timeout_ms)
{
	int n;

	if (q->p->fork_gen != keeper_fork_gen())
		return errmsg_set(-EPERM, "this queue was opened before fork()");
	batch_reap_unpark(q);
	n = batch_reap_done(q, done, max, timeout_ms);
	batch_reap_park(q);
	return n;
}

/* ---- while its thread is elsewhere ---- */

void batch_reap_park(struct peal_queue *q)
{
	if (q->conn && !q->nr_waiting && q->q->nr_free < q->q->size - 1)
		atomic_store_explicit(&q->owner, BATCH_PARKED, memory_order_release);
}

void batch_reap_unpark(struct peal_queue *q)
{
	int was = BATCH_PARKED;

	/* Only our own thread parks it, so that's not news from another one. */
	if (atomic_load_explicit(&q->owner, memory_order_relaxed) == BATCH_ITS_THREAD)
		return;
	while (!atomic_compare_exchange_weak_explicit(&q->owner, &was, BATCH_ITS_THREAD,
						      memory_order_acquire, memory_order_relaxed)) {
		was = BATCH_PARKED;
		sched_yield();
	}
}

void batch_reap_idle(struct peal *p)
{
	struct peal_queue *q;

	/* A queue leaves the list before it is freed. */
	pthread_mutex_lock(&p->lock);
	list_for_each_entry(q, &p->queues, node) {
		int was = BATCH_PARKED;

		if (!atomic_compare_exchange_strong_explicit(&q->owner, &was, BATCH_REAPED,
							     memory_order_acquire,
							     memory_order_relaxed))
			continue;
		if (!conn_is_dead(q->conn))
			batch_reap_take(q);
		atomic_store_explicit(&q->owner, BATCH_PARKED, memory_order_release);
	}
	pthread_mutex_unlock(&p->lock);
}
