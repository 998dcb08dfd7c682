/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues with many requests under way: opening, peal_submit(), closing; batch_int.h has the rules,
 * batch_reap.c the other half. After the daemon's end the next peal_submit() attaches the queue to
 * its successor.
 */
#include "client/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/batch_int.h"
#include "client/errmsg.h"
#include "client/keeper.h"

#define BATCH_CLOSE_NS (2 * MONO_NS_PER_S)

bool batch_kick_all(struct peal *p, uint64_t now_ns)
{
	struct peal_queue *q;
	uint64_t one = 1;
	bool is_polled = false;

	pthread_mutex_lock(&p->lock);
	list_for_each_entry(q, &p->queues, node) {
		is_polled |= atomic_load(&q->wants_fd);
		if (atomic_load(&q->next_deadline_ns) > now_ns)
			continue;
		if (write(q->fd, &one, sizeof(one)) < 0)
			continue; /* full: readable as it is */
	}
	pthread_mutex_unlock(&p->lock);
	return is_polled;
}

/* ---- attaching ---- */

void batch_drop_slot(struct peal_queue *q, struct batch_slot *s)
{
	if (s->buf.ptr && s->state == CONN_SLOT_GIVEN_UP)
		bufs_put_late(&q->conn->bufs, &s->buf);
	else if (s->buf.ptr)
		bufs_put(&q->conn->bufs, &s->buf);
	s->buf.ptr = NULL;
	if (s->mem) {
		atomic_fetch_sub_explicit(&s->mem->nr_under_way, 1, memory_order_release);
		memreg_put(s->mem);
		s->mem = NULL;
	}
	q->nr_posted -= s->is_posted;
	s->is_posted = false;
	s->cmd = NULL;
	s->state = CONN_SLOT_FREE;
}

void batch_detach(struct peal_queue *q)
{
	uint64_t until = mono_ns() + BATCH_CLOSE_NS;
	bool is_over;

	if (!q->conn)
		return;
	is_over = qp_destroy(q->q, until) == 0;
	for (uint32_t i = 0; i < q->depth; i++) {
		/* Not confirmed: those buffers stay in quarantine as long as the connection. */
		if (q->slots[i].state == CONN_SLOT_FREE || (!is_over && q->slots[i].buf.ptr))
			continue;
		batch_drop_slot(q, &q->slots[i]);
	}
	memset(q->slots, 0, q->depth * sizeof(*q->slots));
	q->nr_posted = 0;
	conn_put(q->conn);
	q->conn = NULL;
	q->q = NULL;
}

static int batch_attach(struct peal_queue *q, uint64_t deadline_ns)
{
	int err = 0;
	struct conn *c = call_conn(q->p, &err);

	if (!c)
		return err;
	err = qp_create(c, q->depth, &q->q, deadline_ns);
	if (err) {
		conn_put(c);
		return err;
	}
	q->conn = c;
	q->has_tried_arm = false;
	if (atomic_load(&q->wants_fd)) {
		q->has_tried_arm = true;
		qp_arm(q->q, q->fd, mono_ns() + BATCH_ARM_NS);
	}
	return 0;
}

/* ---- submit ---- */

static bool batch_refresh_mems(struct peal_queue *q)
{
	struct peal *p = q->p;
	struct peal_mem *m;
	bool ok = true;

	pthread_mutex_lock(&p->mem_lock);
	vec_clear(&q->mems);
	list_for_each_entry(m, &p->mems, node)
		ok = ok && vec_push(&q->mems, (struct batch_range){(uintptr_t)m->ptr, m->bytes,
								   m->iova, m, m->map_err});
	q->mem_gen = atomic_load(&p->mem_gen);
	pthread_mutex_unlock(&p->mem_lock);
	return ok;
}

static const struct batch_range *batch_find_mem(struct peal_queue *q, const void *buf, size_t bytes)
{
	uintptr_t at = (uintptr_t)buf;

	if (q->mem_gen != atomic_load_explicit(&q->p->mem_gen, memory_order_acquire) &&
	    !batch_refresh_mems(q))
		return NULL;
	for (size_t i = 0; i < q->mems.nr; i++) {
		const struct batch_range *r = &q->mems.at[i];

		if (at >= r->start && at - r->start <= r->bytes &&
		    bytes <= r->bytes - (at - r->start))
			return r;
	}
	return NULL;
}

static const struct {
	uint8_t opc;
	uint32_t flags; /* that mean something; PEAL_DIRECT is taken where there are no data, too */
} batch_ops[] = {
	[PEAL_REQ_GET] = {NVME_KV_RETRIEVE, PEAL_DIRECT | PEAL_RAW | PEAL_PART},
	[PEAL_REQ_PUT] = {NVME_KV_STORE, PEAL_DIRECT | PEAL_IF_ABSENT | PEAL_IF_PRESENT},
	[PEAL_REQ_DEL] = {NVME_KV_DELETE, PEAL_DIRECT},
	[PEAL_REQ_EXIST] = {NVME_KV_EXIST, PEAL_DIRECT},
};

static bool batch_has_bad_flags(const struct peal_req *req)
{
	uint32_t both = PEAL_IF_ABSENT | PEAL_IF_PRESENT;

	return req->flags & ~batch_ops[req->op].flags || (req->flags & both) == both;
}

/* What is wrong with a request, in words; not on the way of those that are right. */
static int batch_refuse(struct peal_queue *q, const struct peal_req *req)
{
	char key[ERRMSG_KEY_BYTES];

	errmsg_key(&req->key, key);
	if ((unsigned)req->op > PEAL_REQ_EXIST)
		return errmsg_set(-EINVAL, "submit %s: op %d, expected a PEAL_REQ_*", key, req->op);
	if (batch_has_bad_flags(req))
		return errmsg_set(-EINVAL, "submit %s: flags %#x aren't of this op, or contradict",
				  key, req->flags);
	if (req->meta || req->want_tag)
		return errmsg_set(-EINVAL, "submit %s: metadata or a tag, expected none here", key);
	if (!req->buf || (req->op == PEAL_REQ_PUT && !req->bytes))
		return errmsg_set(-EINVAL, "submit %s: no buffer or 0 bytes", key);
	if (req->op == PEAL_REQ_PUT && req->bytes > q->conn->ns.value_max)
		return errmsg_set(-EFBIG, "put %s: a value of %zu bytes, the namespace takes %u",
				  key, req->bytes, q->conn->ns.value_max);
	if (!(req->flags & PEAL_DIRECT))
		return errmsg_set(-EFBIG,
				  "submit %s: %zu bytes without PEAL_DIRECT, expected <= %u", key,
				  req->bytes, BATCH_COPY_MAX);
	return errmsg_set(-EFBIG, "submit %s: %zu bytes, expected <= %u", key, req->bytes,
			  PEAL_VALUE_MAX);
}

static int batch_check(struct peal_queue *q, const struct peal_req *req)
{
	uint64_t most = req->flags & PEAL_DIRECT ? PEAL_VALUE_MAX : BATCH_COPY_MAX;
	int err = call_check_key(q->conn, "submit", &req->key);

	if (err)
		return err;
	if ((unsigned)req->op > PEAL_REQ_EXIST || batch_has_bad_flags(req) || req->meta ||
	    req->want_tag)
		return batch_refuse(q, req);
	if (req->op == PEAL_REQ_DEL || req->op == PEAL_REQ_EXIST)
		return 0;
	if (req->op == PEAL_REQ_PUT && q->conn->ns.value_max < most)
		most = q->conn->ns.value_max;
	if (!req->buf || req->bytes > most || (req->op == PEAL_REQ_PUT && !req->bytes))
		return batch_refuse(q, req);
	return 0;
}

/* Where the data lie: registered memory, or a buffer of ours that a put is copied to. */
static int batch_set_data(struct peal_queue *q, struct batch_slot *s, struct nvme_sqe *sqe)
{
	struct peal_req *req = s->req;
	const struct batch_range *r;
	int err;

	sqe->cdw10 = (uint32_t)req->bytes;
	if (req->flags & PEAL_DIRECT) {
		char key[ERRMSG_KEY_BYTES];

		r = batch_find_mem(q, req->buf, req->bytes);
		if (!r)
			return errmsg_set(-EINVAL,
					  "submit %s: %zu bytes at %p aren't in registered memory",
					  errmsg_key(&req->key, key), req->bytes, req->buf);
		if (r->map_err)
			return errmsg_set(-EINVAL,
					  "submit %s: the daemon refused the memory at %p: %s",
					  errmsg_key(&req->key, key), req->buf,
					  strerror(-r->map_err));
		if (req->bytes) {
			err = qp_set_data(q->q, sqe, r->iova + ((uintptr_t)req->buf - r->start),
					  req->bytes);
			if (err)
				return errmsg_set(err,
						  "submit: %zu bytes are too many for one command",
						  req->bytes);
		}
		s->mem = r->mem;
		atomic_fetch_add_explicit(&s->mem->refs, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&s->mem->nr_under_way, 1, memory_order_relaxed);
		return 0;
	}
	if (!req->bytes)
		return 0;
	err = bufs_get(&q->conn->bufs, req->bytes, &s->buf, 0);
	if (err)
		return err;
	if (req->op == PEAL_REQ_PUT)
		memcpy(s->buf.ptr, req->buf, req->bytes);
	err = qp_set_data(q->q, sqe, s->buf.iova, req->bytes);
	if (err)
		bufs_put(&q->conn->bufs, &s->buf);
	return err;
}

static void batch_set_deadline(struct peal_queue *q, struct batch_slot *s, uint64_t deadline_ns)
{
	s->deadline_ns = deadline_ns;
	if (s->deadline_ns < atomic_load_explicit(&q->next_deadline_ns, memory_order_relaxed))
		atomic_store_explicit(&q->next_deadline_ns, s->deadline_ns, memory_order_relaxed);
}

/* True: taken, to the ring or to the done list. False: there is no room now. */
static bool batch_take(struct peal_queue *q, struct peal_req *req)
{
	int err = batch_check(q, req), cid;
	struct batch_slot *s;
	struct nvme_sqe *sqe;
	uint8_t opts = 0;

	if (err) {
		batch_reap_finish(q, req, err);
		return true;
	}
	cid = qp_cid_get(q->q);
	if (cid < 0)
		return false;
	s = &q->slots[cid];
	s->req = req;
	s->cmd = NULL;
	req->value_bytes = 0;
	if (req->op == PEAL_REQ_PUT && req->flags & PEAL_IF_ABSENT)
		opts = NVME_KV_STORE_IF_ABSENT;
	else if (req->op == PEAL_REQ_PUT && req->flags & PEAL_IF_PRESENT)
		opts = NVME_KV_STORE_IF_EXISTS;
	else if (req->op == PEAL_REQ_GET && req->flags & PEAL_RAW)
		opts = NVME_KV_RETRIEVE_RAW;
	sqe = qp_sqe(q->q);
	sqe->opc = batch_ops[req->op].opc;
	sqe->cid = (uint16_t)cid;
	sqe->nsid = q->conn->ns.nsid;
	nvme_kv_key_set(sqe, req->key.b, req->key.len, opts);
	if (req->op == PEAL_REQ_PUT || req->op == PEAL_REQ_GET)
		err = batch_set_data(q, s, sqe);
	if (err) {
		qp_cid_put(q->q, (uint16_t)cid);
		if (err == -EAGAIN)
			return false;
		batch_reap_finish(q, req, err);
		return true;
	}
	batch_set_deadline(
		q, s, req->flags & PEAL_DIRECT ? UINT64_MAX : call_deadline(q->p, req->timeout_ms));
	s->state = CONN_SLOT_WAITING;
	q->nr_waiting++;
	qp_push(q->q);
	return true;
}

/* The slot of the next command in the ring; -EAGAIN, -EFBIG. */
static int batch_place(struct peal_queue *q, const struct nvme_sqe *from, const struct buf *buf,
		       uint32_t data_bytes, struct batch_slot **s)
{
	struct nvme_sqe *sqe;
	int cid = qp_cid_get(q->q), err = 0;

	if (cid < 0)
		return cid;
	sqe = qp_sqe(q->q);
	*sqe = *from;
	sqe->cid = (uint16_t)cid;
	sqe->nsid = q->conn->ns.nsid;
	if (data_bytes)
		err = qp_set_data(q->q, sqe, buf->iova, data_bytes);
	if (err) {
		qp_cid_put(q->q, (uint16_t)cid);
		return err;
	}
	*s = &q->slots[cid];
	qp_push(q->q);
	return 0;
}

int batch_push(struct peal_queue *q, struct batch_cmd *cmd, uint64_t deadline_ns)
{
	struct batch_slot *s = NULL;
	int err = batch_place(q, &cmd->sqe, &cmd->buf, cmd->data_bytes, &s);

	if (err)
		return err;
	s->req = NULL;
	s->cmd = cmd;
	s->mem = NULL;
	s->buf = cmd->buf;
	cmd->buf.ptr = NULL;
	batch_set_deadline(q, s, deadline_ns);
	s->state = CONN_SLOT_WAITING;
	q->nr_waiting++;
	return 0;
}

int batch_post(struct peal_queue *q, const struct nvme_sqe *sqe)
{
	struct batch_slot *s = NULL;
	int err = batch_place(q, sqe, NULL, 0, &s);

	if (err)
		return err;
	*s = (struct batch_slot){
		.state = CONN_SLOT_GIVEN_UP, .deadline_ns = UINT64_MAX, .is_posted = true};
	q->nr_posted++;
	return 0;
}

struct batch_cmd *batch_pop(struct peal_queue *q)
{
	struct batch_cmd *cmd = q->cmds_done;

	if (cmd)
		q->cmds_done = cmd->next;
	return cmd;
}

int batch_ready(struct peal_queue *q, uint64_t deadline_ns)
{
	if (q->p->fork_gen != keeper_fork_gen())
		return errmsg_set(-EPERM, "this queue was opened before fork()");
	if (q->conn && conn_is_dead(q->conn))
		batch_reap_fail_all(q);
	return q->conn ? 0 : batch_attach(q, deadline_ns);
}

int batch_submit(struct peal_queue *q, struct peal_req *const *reqs, unsigned nr)
{
	uint32_t tail = q->q->sq_tail;
	unsigned n = 0;

	while (n < nr && batch_take(q, reqs[n]))
		n++;
	if (q->q->sq_tail != tail)
		qp_ring(q->q);
	call_count(&q->p->calls, n);
	if (!n && nr)
		return errmsg_set(-EAGAIN, "%u requests are under way in a queue of %u",
				  q->nr_waiting, q->depth);
	return (int)n;
}

int peal_submit(struct peal_queue *q, struct peal_req *const *reqs, unsigned nr)
{
	int n;

	batch_reap_unpark(q);
	n = batch_ready(q, call_deadline(q->p, 0));
	if (!n)
		n = batch_submit(q, reqs, nr);
	batch_reap_park(q);
	return n;
}

int peal_queue_fd(struct peal_queue *q)
{
	if (!atomic_exchange(&q->wants_fd, true)) {
		if (q->conn && !q->has_tried_arm) {
			q->has_tried_arm = true;
			qp_arm(q->q, q->fd, mono_ns() + BATCH_ARM_NS);
		}
		/* Something may have come before the interrupt was set. */
		batch_kick_all(q->p, UINT64_MAX);
		keeper_kick(q->p);
	}
	return q->fd;
}

/* ---- open and close ---- */

static void batch_free(struct peal_queue *q)
{
	vec_fini(&q->mems);
	close(q->fd);
	free(q->slots);
	free(q);
}

int peal_queue_open(struct peal *p, unsigned depth, struct peal_queue **out)
{
	struct peal_queue *q;
	int err;

	if (depth < 1 || depth > QP_DEPTH_MAX)
		return errmsg_set(-EINVAL, "a queue of %u, expected 1 to %u", depth, QP_DEPTH_MAX);
	q = calloc(1, sizeof(*q));
	if (!q)
		return errmsg_set(-ENOMEM, "no memory for a queue of %u", depth);
	q->p = p;
	q->depth = depth;
	q->mem_gen = UINT64_MAX;
	atomic_init(&q->next_deadline_ns, UINT64_MAX);
	q->slots = calloc(depth, sizeof(*q->slots));
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!q->slots || q->fd < 0) {
		err = errmsg_set(q->fd < 0 ? -errno : -ENOMEM, "no room for a queue of %u", depth);
		goto free_queue;
	}
	err = batch_attach(q, call_deadline(p, 0));
	if (err)
		goto free_queue;
	pthread_mutex_lock(&p->lock);
	list_add_tail(&p->queues, &q->node);
	pthread_mutex_unlock(&p->lock);
	*out = q;
	return 0;
free_queue:
	if (q->fd >= 0) {
		batch_free(q);
	} else {
		free(q->slots);
		free(q);
	}
	return err;
}

static bool batch_has_direct(const struct peal_queue *q)
{
	for (uint32_t i = 0; i < q->depth; i++)
		if (q->slots[i].state == CONN_SLOT_WAITING && q->slots[i].mem)
			return true;
	return false;
}

/* Direct requests name the caller's memory: they are waited for, without an end. */
void peal_queue_close(struct peal_queue *q)
{
	if (!q || q->p->fork_gen != keeper_fork_gen())
		return;
	batch_reap_unpark(q);
	while (q->conn && batch_has_direct(q)) {
		struct peal_req *dropped[BATCH_CQES];

		while (batch_reap_done(q, dropped, BATCH_CQES, 100) > 0)
			;
	}
	for (uint32_t i = 0; q->conn && i < q->depth; i++) {
		struct batch_slot *s = &q->slots[i];

		if (s->state != CONN_SLOT_WAITING)
			continue;
		if (s->buf.ptr)
			bufs_quarantine(&q->conn->bufs, &s->buf);
		s->state = CONN_SLOT_GIVEN_UP;
	}
	batch_detach(q);
	pthread_mutex_lock(&q->p->lock);
	list_del(&q->node);
	pthread_mutex_unlock(&q->p->lock);
	batch_free(q);
}

void batch_close_all(struct peal *p)
{
	while (!list_is_empty(&p->queues))
		peal_queue_close(list_first_entry(&p->queues, struct peal_queue, node));
}
