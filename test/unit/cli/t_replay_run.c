/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_run against a library that is made of arrays: what is a hit, what is put, and that it
 * sees every kind of wrong byte - one that changed, one that was never delivered, a value that is
 * too short, another key's value - and a miss behind a match. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "cli/replay_run.h"
#include "sim/sim_value.h"

#define VALUE 9000u
#define NR_MAX 64
#define DEPTH 4

enum lie {
	LIE_NOTHING,
	LIE_FLIP,
	LIE_EMPTY,     /* says yes and delivers nothing */
	LIE_SHORT,     /* the value has another length */
	LIE_OTHER_KEY, /* the bytes of the first value there is */
	LIE_MISS,
	LIE_ERROR,
	LIE_SILENCE, /* never answers */
};

struct peal {
	struct peal_key keys[NR_MAX];
	uint8_t values[NR_MAX][VALUE];
	unsigned nr;
	unsigned nr_room;
	struct peal_req *under_way[DEPTH];
	unsigned nr_under_way;
	unsigned nr_most;
	enum lie lie;
	struct peal_key lie_key; /* len 0: nobody */
};

struct peal_mem {
	uint8_t *p;
};

static struct peal fake;

static int find(const struct peal_key *k)
{
	for (unsigned i = 0; i < fake.nr; i++)
		if (memcmp(&fake.keys[i], k, sizeof(*k)) == 0)
			return (int)i;
	return -1;
}

ssize_t peal_match(struct peal *p, const struct peal_key *keys, size_t nr, size_t *in_memory,
		   struct peal_call *c)
{
	size_t n = 0;

	while (n < nr && find(&keys[n]) >= 0)
		n++;
	return (ssize_t)n;
}

int peal_mem_alloc(struct peal *p, size_t bytes, struct peal_mem **m)
{
	*m = calloc(1, sizeof(**m));
	assert_non_null(*m);
	(*m)->p = calloc(1, bytes);
	assert_non_null((*m)->p);
	return 0;
}

void *peal_mem_ptr(const struct peal_mem *m)
{
	return m->p;
}

int peal_mem_free(struct peal *p, struct peal_mem *m)
{
	free(m->p);
	free(m);
	return 0;
}

int peal_queue_open(struct peal *p, unsigned depth, struct peal_queue **q)
{
	*q = NULL;
	return 0;
}

void peal_queue_close(struct peal_queue *q)
{
}

int peal_submit(struct peal_queue *q, struct peal_req *const *reqs, unsigned nr)
{
	assert_int_equal(nr, 1);
	assert_true(fake.nr_under_way < DEPTH);
	assert_true(reqs[0]->flags & PEAL_DIRECT);
	fake.under_way[fake.nr_under_way++] = reqs[0];
	if (fake.nr_under_way > fake.nr_most)
		fake.nr_most = fake.nr_under_way;
	return 1;
}

static void serve_put(struct peal_req *r)
{
	if (find(&r->key) >= 0) {
		r->res = -EEXIST;
		return;
	}
	if (fake.nr == fake.nr_room) {
		r->res = -ENOSPC;
		return;
	}
	assert_int_equal(r->bytes, VALUE);
	fake.keys[fake.nr] = r->key;
	memcpy(fake.values[fake.nr++], r->buf, VALUE);
}

static void serve_get(struct peal_req *r, enum lie lie)
{
	int at = find(&r->key);
	uint8_t *buf = r->buf;

	if (at < 0 || lie == LIE_MISS || lie == LIE_ERROR) {
		r->res = lie == LIE_ERROR ? -ENOTCONN : -ENOENT;
		return;
	}
	r->value_bytes = lie == LIE_SHORT ? VALUE - 3 : VALUE;
	if (lie != LIE_EMPTY)
		memcpy(buf, fake.values[lie == LIE_OTHER_KEY ? 0 : at], VALUE);
	if (lie == LIE_FLIP)
		buf[VALUE - 1] ^= 1;
}

int peal_reap(struct peal_queue *q, struct peal_req **done, unsigned max, uint32_t timeout_ms)
{
	struct peal_req *r;
	bool is_lie;

	if (fake.lie == LIE_SILENCE)
		return 0;
	if (fake.nr_under_way == 0)
		return 0;
	/* The youngest first: order must not matter. */
	r = fake.under_way[--fake.nr_under_way];
	is_lie = memcmp(&fake.lie_key, &r->key, sizeof(r->key)) == 0;
	if (r->op == PEAL_REQ_PUT)
		serve_put(r);
	else
		serve_get(r, is_lie ? fake.lie : LIE_NOTHING);
	done[0] = r;
	return 1;
}

static const struct replay_opts opts = {.seed = 5, .value_bytes = VALUE, .depth = DEPTH};
static struct replay_run *run;

static int setup(void **state)
{
	memset(&fake, 0, sizeof(fake));
	fake.nr_room = NR_MAX;
	return replay_run_create(&fake, &opts, &run);
}

static int teardown(void **state)
{
	replay_run_destroy(run);
	return 0;
}

static int request(const uint64_t *ids, uint32_t nr, uint32_t tokens)
{
	struct sim_req req = {.input_tokens = tokens, .nr_blocks = nr, .ids = ids};

	return replay_run_request(run, &req);
}

static const uint64_t chain[] = {10, 11, 12, 13, 14, 15, 16, 17};

static void t_hits(void **state)
{
	static const uint64_t longer[] = {10, 11, 12, 99, 98};
	const struct replay_stats *st = replay_run_stats(run);

	assert_int_equal(request(chain, 8, 4000), 0);
	assert_int_equal(st->hits, 0);
	assert_int_equal(st->put.nr, 8);
	assert_int_equal(request(chain, 8, 4000), 0);
	assert_int_equal(st->hits, 8);
	assert_int_equal(st->hit_tokens, 4000);
	assert_int_equal(request(longer, 5, 2500), 0);
	assert_int_equal(st->hits, 11);
	assert_int_equal(st->hit_tokens, 4000 + 3 * 512);
	assert_int_equal(st->put.nr, 10);
	assert_int_equal(st->requests, 3);
	assert_int_equal(st->blocks, 21);
	assert_int_equal(st->bytes_checked, 11 * VALUE);
	assert_int_equal(st->get.lat.nr, 11);
	assert_int_equal(st->wrong_bytes, 0);
	assert_int_equal(fake.nr_most, DEPTH);
}

/* Block 12 turns out a miss, and what is behind it doesn't count. */
static void t_late_miss(void **state)
{
	const struct replay_stats *st = replay_run_stats(run);

	assert_int_equal(request(chain, 8, 4000), 0);
	fake.lie = LIE_MISS;
	fake.lie_key = replay_run_key(&opts, 12);
	assert_int_equal(request(chain, 8, 4000), 0);
	assert_int_equal(st->hits, 2);
	assert_int_equal(st->late_misses, 1);
	assert_int_equal(st->already_there, 6);
	assert_int_equal(st->wrong_bytes, 0);
}

static void t_wrong(void **state)
{
	static const struct {
		enum lie lie;
		uint64_t most, least;
	} cases[] = {
		{LIE_FLIP, 1, 1},
		{LIE_SHORT, 3, 3},
		{LIE_EMPTY, VALUE, 1},
		{LIE_OTHER_KEY, VALUE, VALUE / 2},
	};
	const struct replay_stats *st = replay_run_stats(run);

	assert_int_equal(request(chain, 8, 4000), 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t before = st->wrong_bytes;

		fake.lie = cases[i].lie;
		fake.lie_key = replay_run_key(&opts, chain[3]);
		assert_int_equal(request(chain, 8, 4000), 0);
		assert_in_range(st->wrong_bytes - before, cases[i].least, cases[i].most);
	}
}

/* The buffer still has the bytes of the put; a get that delivers nothing must not pass. */
static void t_undelivered(void **state)
{
	assert_int_equal(replay_run_put(run, 10), 0);
	assert_int_equal(replay_run_get(run, 10), 0);
	fake.lie = LIE_EMPTY;
	fake.lie_key = replay_run_key(&opts, 10);
	assert_int_equal(replay_run_get(run, 10), -EILSEQ);
	fake.lie = LIE_MISS;
	assert_int_equal(replay_run_get(run, 10), -ENOENT);
}

static void t_refused(void **state)
{
	fake.nr_room = 3;
	assert_int_equal(request(chain, 8, 4000), 0);
	assert_int_equal(replay_run_stats(run)->refused, 5);
	assert_int_equal(replay_run_put(run, 77), -ENOSPC);
}

static void t_error(void **state)
{
	assert_int_equal(request(chain, 8, 4000), 0);
	fake.lie = LIE_ERROR;
	fake.lie_key = replay_run_key(&opts, 16);
	assert_int_equal(request(chain, 8, 4000), -ENOTCONN);
	/* Everything has come back all the same. */
	assert_int_equal(fake.nr_under_way, 0);
}

static void t_silence(void **state)
{
	assert_int_equal(request(chain, 8, 4000), 0);
	fake.lie = LIE_SILENCE;
	assert_int_equal(request(chain, 8, 4000), -ETIMEDOUT);
	fake.lie = LIE_NOTHING;
	/* It is given up for good, but when it does answer the buffers can be freed. */
	assert_int_equal(request(chain, 8, 4000), -ETIMEDOUT);
}

static void t_keys(void **state)
{
	struct replay_opts other = opts;
	struct peal_key a = replay_run_key(&opts, 1), b;

	other.value_bytes++;
	b = replay_run_key(&other, 1);
	assert_int_equal(a.len, 16);
	assert_memory_not_equal(a.b, b.b, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_hits, setup, teardown),
		cmocka_unit_test_setup_teardown(t_late_miss, setup, teardown),
		cmocka_unit_test_setup_teardown(t_wrong, setup, teardown),
		cmocka_unit_test_setup_teardown(t_undelivered, setup, teardown),
		cmocka_unit_test_setup_teardown(t_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(t_error, setup, teardown),
		cmocka_unit_test_setup_teardown(t_silence, setup, teardown),
		cmocka_unit_test_setup_teardown(t_keys, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
