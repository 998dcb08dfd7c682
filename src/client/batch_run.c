/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_run(): many requests, and back when all are over. What the queue copies or what is direct
 * goes by peal_submit(); the rest - large values, tags, metadata - in waves (batch_wave.h); and
 * what those leave, by the calls for one value, one after the other. All of it while the first are
 * under way. One deadline for the whole, so that a daemon that stands still costs a caller the time
 * he gave and not that time for each value. In the queue's thread.
 */
#include <errno.h>

#include "client/batch_wave.h"
#include "client/errmsg.h"
#include "client/keeper.h"

#define RUN_BURST 64u
#define RUN_WAIT_MS 1000u
/* Of a get. Above, a lease and one copy is quicker than two copies, even one behind the other. */
#define RUN_GET_COPY_MAX 65536u
#define RUN_PUT_COPY_MAX BATCH_COPY_MAX

struct run {
	struct peal_queue *q;
	uint64_t deadline_ns;
	unsigned nr_out;
	unsigned nr_ok;
	int attach_err; /* once there was one, that isn't tried again */
	struct peal_req *ready[RUN_BURST];
	unsigned nr_ready;
};

/*
 * Attaches the queue if it isn't, within the time of all. A daemon that is gone says so at once,
 * and may come back.
 */
static int run_attach(struct run *r)
{
	uint64_t until = call_deadline(r->q->p, 0);
	int err = r->attach_err;

	if (err)
		return err;
	err = batch_ready(r->q, until < r->deadline_ns ? until : r->deadline_ns);
	if (err != -ENOTCONN)
		r->attach_err = err;
	return err;
}

static int run_submit(struct run *r, struct peal_req *const *reqs, unsigned nr)
{
	int err = run_attach(r);

	return err ? err : batch_submit(r->q, reqs, nr);
}

/* 0: the time is over. */
static uint32_t run_left_ms(const struct run *r)
{
	uint64_t now = mono_ns();

	return now < r->deadline_ns ? (uint32_t)((r->deadline_ns - now) / MONO_NS_PER_MS) + 1 : 0;
}

static void run_over(struct run *r, struct peal_req *req, int res)
{
	req->res = res;
	r->nr_ok += !res;
}

/* By itself, as peal_get() and the others do it. */
static int run_one(struct peal_req *req, struct peal *p, uint32_t left_ms)
{
	struct peal_call c = {
		.timeout_ms = left_ms,
		.flags = req->flags,
		.meta = req->meta,
		.want_tag = req->want_tag,
	};
	ssize_t n = -EINVAL;

	switch (req->op) {
	case PEAL_REQ_GET:
		n = peal_get(p, &req->key, req->buf, req->bytes, &c);
		req->value_bytes = c.value_bytes;
		break;
	case PEAL_REQ_PUT:
		n = peal_put(p, &req->key, req->buf, req->bytes, &c);
		break;
	case PEAL_REQ_DEL:
		n = peal_del(p, &req->key, &c);
		break;
	case PEAL_REQ_EXIST:
		n = peal_exist(p, &req->key, &c);
		req->value_bytes = c.value_bytes;
		break;
	}
	return n < 0 ? (int)n : 0;
}

static void run_alone(struct run *r, struct peal_req *req)
{
	uint32_t left_ms = run_left_ms(r);
	int err = left_ms ? run_one(req, r->q->p, left_ms) : -ETIMEDOUT;

	run_over(r, req, err);
}

static void run_reap(struct run *r)
{
	struct peal_req *done[RUN_BURST];
	int n = batch_reap_done(r->q, done, RUN_BURST, RUN_WAIT_MS);

	for (int i = 0; i < n; i++)
		r->nr_ok += !done[i]->res;
	r->nr_out -= (unsigned)n;
}

/* What is ready goes out. What can't, for want of buffers that others have, goes alone. */
static void run_push(struct run *r)
{
	unsigned at = 0;

	while (at < r->nr_ready) {
		struct peal_req *req = r->ready[at];
		uint32_t left_ms = run_left_ms(r);
		int n = -ETIMEDOUT;

		if (left_ms) {
			for (unsigned i = at; i < r->nr_ready; i++)
				r->ready[i]->timeout_ms = left_ms;
			n = run_submit(r, r->ready + at, r->nr_ready - at);
		} else if (req->flags & PEAL_DIRECT) {
			n = run_submit(r, &req, 1);
		}
		if (n > 0) {
			at += (unsigned)n;
			r->nr_out += (unsigned)n;
		} else if (n == -EAGAIN && r->nr_out) {
			run_reap(r);
		} else if (n == -EAGAIN && !(req->flags & PEAL_DIRECT)) {
			run_alone(r, r->ready[at++]);
		} else {
			run_over(r, r->ready[at++], n);
		}
	}
	r->nr_ready = 0;
}

/* Whether it is for peal_submit(). */
static bool run_is_queued(const struct peal_req *req)
{
	if (req->flags & PEAL_DIRECT)
		return true;
	if (req->meta || req->want_tag)
		return false;
	if (req->op == PEAL_REQ_GET)
		return req->bytes <= RUN_GET_COPY_MAX;
	return req->op != PEAL_REQ_PUT || req->bytes <= RUN_PUT_COPY_MAX;
}

/* How each of them goes; how many waves there is something for. */
static unsigned run_sort(struct run *r, struct peal_req *reqs, unsigned nr)
{
	bool is_ready = false;
	unsigned nr_waves = 0;

	for (unsigned i = 0; i < nr; i++) {
		reqs[i].priv[1] = BATCH_QUEUE;
		if (run_is_queued(&reqs[i]))
			continue;
		is_ready = is_ready || run_attach(r) == 0;
		reqs[i].priv[1] = BATCH_ALONE;
		if (!is_ready || !batch_wave_takes(r->q, &reqs[i]))
			continue;
		reqs[i].priv[1] = BATCH_WAVE;
		nr_waves++;
	}
	return nr_waves;
}

static void run_waves(struct run *r, struct peal_req *reqs, unsigned nr)
{
	struct wave w;

	if (run_attach(r) < 0) { /* gone since: the calls for one value say so */
		for (unsigned i = 0; i < nr; i++)
			if (reqs[i].priv[1] == BATCH_WAVE)
				reqs[i].priv[1] = BATCH_ALONE;
		return;
	}
	batch_wave_run(&w, r->q, reqs, nr, r->deadline_ns);
	r->nr_ok += w.nr_ok + w.nr_back_ok;
	r->nr_out -= w.nr_back;
}

static void run_all(struct run *r, struct peal_req *reqs, unsigned nr)
{
	unsigned nr_waves = run_sort(r, reqs, nr);

	for (unsigned i = 0; i < nr; i++) {
		if (reqs[i].priv[1] != BATCH_QUEUE)
			continue;
		r->ready[r->nr_ready++] = &reqs[i];
		if (r->nr_ready == RUN_BURST)
			run_push(r);
	}
	run_push(r);
	if (nr_waves)
		run_waves(r, reqs, nr);
	for (unsigned i = 0; i < nr; i++)
		if (reqs[i].priv[1] == BATCH_ALONE)
			run_alone(r, &reqs[i]);
	while (r->nr_out)
		run_reap(r);
}

int peal_run(struct peal_queue *q, struct peal_req *reqs, unsigned nr, uint32_t timeout_ms)
{
	struct run r = {.q = q, .deadline_ns = call_deadline(q->p, timeout_ms)};

	if (q->p->fork_gen != keeper_fork_gen())
		return errmsg_set(-EPERM, "this queue was opened before fork()");
	if (q->nr_waiting || q->done_first)
		return errmsg_set(-EBUSY, "run: the queue has requests under way, expected none");
	batch_reap_unpark(q);
	batch_reap_look(q); /* releases that were answered since */
	run_all(&r, reqs, nr);
	batch_reap_park(q);
	return (int)r.nr_ok;
}
