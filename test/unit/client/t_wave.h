/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of waves share: a fake daemon, a queue, sixteen requests and their values.
 */
#pragma once

#include "t_client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "client/batch_wave.h"
#include "peal/vendor.h"

#define NR 16u
#define LARGE (256u << 10)
#define SMALL 4096u
#define MARK 0xee

struct rig {
	struct client *c;
	struct peal_queue *q;
	uint8_t *mem, *want;
	size_t bytes; /* of a value */
	_Atomic bool is_held;
	struct peal_meta meta[NR];
	struct peal_req reqs[NR];
};

static inline int setup_of(void **state, const struct fake_opts *o, unsigned depth)
{
	struct rig *r = calloc(1, sizeof(*r));

	r->mem = malloc(NR * (size_t)LARGE);
	r->want = malloc(LARGE);
	if (client_setup((void **)&r->c, o) || peal_queue_open(r->c->p, depth, &r->q))
		return -1;
	*state = r;
	return 0;
}

static inline int setup(void **state)
{
	return setup_of(state, NULL, 256);
}

static inline int setup_shallow(void **state)
{
	return setup_of(state, NULL, 3);
}

static inline int setup_8(void **state)
{
	return setup_of(state, NULL, 8);
}

static inline int setup_one(void **state)
{
	return setup_of(state, NULL, 1);
}

static inline int setup_no_sgl(void **state)
{
	return setup_of(state, &(struct fake_opts){.no_sgl = true}, 256);
}

static inline int setup_no_arena(void **state)
{
	return setup_of(state, &(struct fake_opts){.no_arena = true}, 256);
}

static inline int teardown(void **state)
{
	struct rig *r = *state;
	void *c = r->c;

	free(r->mem);
	free(r->want);
	free(r);
	return client_teardown(&c);
}

static inline struct peal_key key_of(unsigned i)
{
	char text[16];

	snprintf(text, sizeof(text), "key %u", i);
	return peal_key_text(text);
}

static inline void fill_reqs(struct rig *r, enum peal_req_op op, size_t bytes)
{
	r->bytes = bytes;
	for (unsigned i = 0; i < NR; i++) {
		r->meta[i] = (struct peal_meta){.cls = 0, .cost_us = i};
		memset(r->meta[i].tag, (int)i + 1, PEAL_TAG_BYTES);
		r->reqs[i] = (struct peal_req){.op = op,
					       .key = key_of(i),
					       .buf = r->mem + i * bytes,
					       .bytes = bytes,
					       .res = 1};
		if (op == PEAL_REQ_PUT)
			r->reqs[i].meta = &r->meta[i];
		else
			r->reqs[i].want_tag = r->meta[i].tag;
	}
	memset(r->mem, MARK, NR * bytes);
}

static inline int run(struct rig *r, uint32_t timeout_ms)
{
	return peal_run(r->q, r->reqs, NR, timeout_ms);
}

static inline void put_all(struct rig *r, size_t bytes)
{
	fill_reqs(r, PEAL_REQ_PUT, bytes);
	for (unsigned i = 0; i < NR; i++)
		client_fill(r->reqs[i].buf, bytes, i);
	assert_int_equal(run(r, 60000), NR);
}

/* The value, or not a byte of it. */
static inline void check_one(struct rig *r, unsigned i)
{
	const uint8_t *got = r->reqs[i].buf;

	if (r->reqs[i].res == 0) {
		client_fill(r->want, r->bytes, i);
		assert_memory_equal(got, r->want, r->bytes);
		assert_int_equal(r->reqs[i].value_bytes, r->bytes);
		return;
	}
	for (size_t at = 0; at < r->bytes; at++)
		if (got[at] != MARK)
			fail_msg("byte %zu of request %u, whose result is %d", at, i,
				 r->reqs[i].res);
}

/* How many have that result; the others have `other`. */
static inline unsigned count(struct rig *r, int res, int other)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NR; i++) {
		n += r->reqs[i].res == res;
		if (r->reqs[i].res != res)
			assert_int_equal(r->reqs[i].res, other);
	}
	return n;
}

static inline void check_all(struct rig *r)
{
	assert_int_equal(count(r, 0, 0), NR);
	for (unsigned i = 0; i < NR; i++)
		check_one(r, i);
}

static inline struct peal_stats stats_of(struct rig *r)
{
	struct peal_stats st;

	peal_stats(r->c->p, &st);
	return st;
}

/* All that was sent is run. */
static inline void settle(struct rig *r)
{
	struct peal_key k = peal_key_text("nobody");

	assert_int_equal(peal_exist(r->c->p, &k, NULL), -ENOENT);
}
