/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a replay. A slot is one request of the queue with its buffer in registered memory;
 * free slots are a stack, so few buffers stay warm. Within a request blocks go leaf first: the
 * root is the most recent then, and a parent outlives its children. One thread.
 */
#include "cli/replay_run.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mono.h"
#include "base/must.h"
#include "sim/sim_value.h"

/* Direct requests have no deadline; a daemon that says nothing for so long is given up. */
#define RUN_STALL_MS 20000u
#define RUN_SPOIL_BYTES 4096u

struct run_slot {
	struct peal_req req;
	uint8_t *buf;
	uint64_t start_ns;
	uint32_t block; /* index in the request */
};

struct replay_run {
	struct peal *p;
	struct replay_opts o;
	struct peal_queue *q;
	struct peal_mem *mem;
	struct run_slot *slots;
	struct run_slot **free;
	uint32_t nr_free;
	struct peal_key *keys; /* of the request under way */
	uint32_t nr_keys_max;
	uint32_t nr_keys;
	uint32_t nr_served; /* leading blocks not known to be a miss */
	int err;
	struct replay_stats st;
};

/*
 * Values of another size get other keys, so that a daemon may be replayed against again: what it
 * still has is right or isn't asked for.
 */
struct peal_key replay_run_key(const struct replay_opts *o, uint64_t id)
{
	struct peal_key k = {.len = SIM_KEY_BYTES};

	sim_value_key(k.b, o->seed ^ (uint64_t)o->value_bytes << 32, id);
	return k;
}

static void run_spoil(struct replay_run *r, struct run_slot *s)
{
	for (uint32_t at = 0; at < r->o.value_bytes; at += RUN_SPOIL_BYTES)
		s->buf[at] = (uint8_t)~s->buf[at];
	s->buf[r->o.value_bytes - 1] ^= 0x5a;
}

/* How many bytes of a value that isn't right are wrong. */
static uint64_t run_count_wrong(const uint8_t *key, const uint8_t *buf, uint32_t bytes)
{
	uint8_t right[512];
	uint64_t nr = 0;

	for (uint32_t at = 0; at < bytes; at += sizeof(right)) {
		uint32_t n = bytes - at < sizeof(right) ? bytes - at : sizeof(right);

		sim_value_fill(key, at, right, n);
		for (uint32_t i = 0; i < n; i++)
			nr += right[i] != buf[at + i];
	}
	return nr;
}

static void run_check(struct replay_run *r, const struct run_slot *s)
{
	uint64_t start_ns = mono_ns();
	uint32_t bytes = r->o.value_bytes;

	/* Bytes that are missing, or too many, are wrong ones. */
	if (s->req.value_bytes != bytes)
		r->st.wrong_bytes += s->req.value_bytes > bytes ? s->req.value_bytes - bytes
								: bytes - s->req.value_bytes;
	if (sim_value_check(s->req.key.b, 0, s->buf, bytes) >= 0)
		r->st.wrong_bytes += run_count_wrong(s->req.key.b, s->buf, bytes);
	r->st.bytes_checked += bytes;
	r->st.get.work_ns += mono_ns() - start_ns;
}

static void run_got(struct replay_run *r, const struct run_slot *s, uint64_t now_ns)
{
	if (s->req.res == -ENOENT) {
		r->st.late_misses++;
		if (s->block < r->nr_served)
			r->nr_served = s->block;
		return;
	}
	/* A value of another length than was put is no error of the call but wrong bytes. */
	if (s->req.res < 0 && s->req.res != -EMSGSIZE) {
		r->err = s->req.res;
		return;
	}
	replay_hist_add(&r->st.get.lat, now_ns - s->start_ns);
	r->st.get.nr++;
	r->st.get.bytes += r->o.value_bytes;
	run_check(r, s);
}

static void run_was_put(struct replay_run *r, const struct run_slot *s, uint64_t now_ns)
{
	switch (s->req.res) {
	case 0:
		replay_hist_add(&r->st.put.lat, now_ns - s->start_ns);
		r->st.put.nr++;
		r->st.put.bytes += r->o.value_bytes;
		return;
	case -EEXIST:
		r->st.already_there++;
		return;
	case -ENOSPC:
	case -EAGAIN:
		r->st.refused++;
		return;
	default:
		r->err = s->req.res;
	}
}

/* Takes what is finished, waits for at least one. False: nothing more will come. */
static bool run_reap(struct replay_run *r)
{
	struct peal_req *done[64];
	uint64_t now_ns;
	int n = peal_reap(r->q, done, 64, RUN_STALL_MS);

	if (n <= 0) {
		r->err = n < 0 ? n : -ETIMEDOUT;
		return false;
	}
	now_ns = mono_ns();
	for (int i = 0; i < n; i++) {
		struct run_slot *s = done[i]->user;

		r->free[r->nr_free++] = s;
		if (s->req.op == PEAL_REQ_GET)
			run_got(r, s, now_ns);
		else
			run_was_put(r, s, now_ns);
	}
	return true;
}

static struct run_slot *run_slot_take(struct replay_run *r)
{
	while (r->nr_free == 0 && !r->err)
		run_reap(r);
	return r->err ? NULL : r->free[--r->nr_free];
}

/* Also after an error: what is under way names our buffers. */
static void run_wait_all(struct replay_run *r)
{
	while (r->nr_free < r->o.depth && run_reap(r))
		;
}

static void run_submit(struct replay_run *r, struct run_slot *s, enum peal_req_op op,
		       uint32_t block)
{
	struct peal_req *req = &s->req;
	int n;

	memset(req, 0, sizeof(*req));
	req->op = op;
	req->flags = PEAL_DIRECT | (op == PEAL_REQ_PUT ? PEAL_IF_ABSENT : 0);
	req->key = r->keys[block];
	req->buf = s->buf;
	req->bytes = r->o.value_bytes;
	req->user = s;
	s->block = block;
	s->start_ns = mono_ns();
	n = peal_submit(r->q, &req, 1);
	if (n == 1)
		return;
	r->err = n < 0 ? n : -EAGAIN;
	r->free[r->nr_free++] = s;
}

/* Reads [0, nr) of the request's blocks. */
static void run_gets(struct replay_run *r, uint32_t nr)
{
	uint64_t start_ns = mono_ns();

	r->nr_served = nr;
	for (uint32_t i = nr; i-- > 0;) {
		struct run_slot *s = run_slot_take(r);

		if (!s)
			break;
		run_spoil(r, s);
		run_submit(r, s, PEAL_REQ_GET, i);
	}
	run_wait_all(r);
	r->st.get.ns += mono_ns() - start_ns;
}

/* Makes and puts [from, nr_keys). */
static void run_puts(struct replay_run *r, uint32_t from)
{
	uint64_t start_ns = mono_ns();

	for (uint32_t i = r->nr_keys; i-- > from;) {
		struct run_slot *s = run_slot_take(r);
		uint64_t work_ns = mono_ns();

		if (!s)
			break;
		sim_value_fill(r->keys[i].b, 0, s->buf, r->o.value_bytes);
		r->st.put.work_ns += mono_ns() - work_ns;
		run_submit(r, s, PEAL_REQ_PUT, i);
	}
	run_wait_all(r);
	r->st.put.ns += mono_ns() - start_ns;
}

static int run_keys(struct replay_run *r, const uint64_t *ids, uint32_t nr)
{
	if (nr > r->nr_keys_max) {
		struct peal_key *keys = reallocarray(r->keys, nr, sizeof(*keys));

		if (!keys)
			return -ENOMEM;
		r->keys = keys;
		r->nr_keys_max = nr;
	}
	for (uint32_t i = 0; i < nr; i++)
		r->keys[i] = replay_run_key(&r->o, ids[i]);
	r->nr_keys = nr;
	return 0;
}

static uint64_t run_tokens(const struct sim_req *req, uint32_t nr_blocks)
{
	if (nr_blocks == req->nr_blocks)
		return req->input_tokens;
	return (uint64_t)nr_blocks * SIM_BLOCK_TOKENS;
}

static ssize_t run_match(struct replay_run *r)
{
	uint64_t start_ns = mono_ns();
	ssize_t n = peal_match(r->p, r->keys, r->nr_keys, NULL, NULL);
	uint64_t took_ns = mono_ns() - start_ns;

	if (n < 0)
		return n;
	must((size_t)n <= r->nr_keys);
	replay_hist_add(&r->st.match.lat, took_ns);
	r->st.match.nr++;
	r->st.match.ns += took_ns;
	return n;
}

int replay_run_request(struct replay_run *r, const struct sim_req *req)
{
	ssize_t matched;
	int err = run_keys(r, req->ids, req->nr_blocks);

	if (err)
		return err;
	matched = run_match(r);
	if (matched < 0)
		return (int)matched;
	if (matched)
		run_gets(r, (uint32_t)matched);
	else
		r->nr_served = 0;
	if (!r->err && r->nr_served < r->nr_keys)
		run_puts(r, r->nr_served);
	if (r->err)
		return r->err;
	r->st.requests++;
	r->st.blocks += req->nr_blocks;
	r->st.hits += r->nr_served;
	r->st.hit_tokens += run_tokens(req, r->nr_served);
	return 0;
}

int replay_run_get(struct replay_run *r, uint64_t id)
{
	uint64_t wrong = r->st.wrong_bytes;
	int err = run_keys(r, &id, 1);

	if (err)
		return err;
	run_gets(r, 1);
	if (r->err)
		return r->err;
	if (r->st.wrong_bytes != wrong)
		return -EILSEQ;
	return r->nr_served ? 0 : -ENOENT;
}

int replay_run_put(struct replay_run *r, uint64_t id)
{
	uint64_t refused = r->st.refused;
	int err = run_keys(r, &id, 1);

	if (err)
		return err;
	run_puts(r, 0);
	if (r->err)
		return r->err;
	return r->st.refused == refused ? 0 : -ENOSPC;
}

const struct replay_stats *replay_run_stats(const struct replay_run *r)
{
	return &r->st;
}

void replay_run_resume(struct replay_run *r, const struct replay_stats *st)
{
	r->st = *st;
}

void replay_run_destroy(struct replay_run *r)
{
	if (!r)
		return;
	/* The daemon may still write into what it was given: the end of the process frees it. */
	if (r->nr_free < r->o.depth)
		return;
	peal_queue_close(r->q);
	if (r->mem)
		peal_mem_free(r->p, r->mem);
	free(r->keys);
	free(r->free);
	free(r->slots);
	free(r);
}

static int run_buffers(struct replay_run *r)
{
	size_t stride = ((size_t)r->o.value_bytes + 4095) & ~(size_t)4095;
	uint8_t *base;
	int err = peal_mem_alloc(r->p, stride * r->o.depth, &r->mem);

	if (err)
		return err;
	base = peal_mem_ptr(r->mem);
	for (uint32_t i = 0; i < r->o.depth; i++) {
		r->slots[i].buf = base + i * stride;
		r->free[r->nr_free++] = &r->slots[i];
	}
	return 0;
}

int replay_run_create(struct peal *p, const struct replay_opts *o, struct replay_run **run)
{
	struct replay_run *r = calloc(1, sizeof(*r));
	int err = -ENOMEM;

	if (!r)
		return -ENOMEM;
	r->p = p;
	r->o = *o;
	r->slots = calloc(o->depth, sizeof(*r->slots));
	r->free = calloc(o->depth, sizeof(struct run_slot *));
	if (!r->slots || !r->free)
		goto free_run;
	err = peal_queue_open(p, o->depth, &r->q);
	if (err)
		goto free_run;
	err = run_buffers(r);
	if (err)
		goto close_queue;
	*run = r;
	return 0;
close_queue:
	peal_queue_close(r->q);
free_run:
	free(r->free);
	free(r->slots);
	free(r);
	return err;
}
