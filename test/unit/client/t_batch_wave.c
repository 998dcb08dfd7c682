/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waves of peal_run(): how often they ring, and what batch_wave.h says that holds - tags, versions,
 * seals, releases, bounds - and no byte of the caller's memory written where the result isn't 0.
 * t_batch_wave_late.c has the rest.
 */
#include "t_wave.h"

/* One value behind the other takes 16, 48 and 16. */
static void test_rings(void **state)
{
	struct rig *r = *state;
	unsigned before;

	put_all(r, LARGE);
	settle(r); /* queues are made, memory is mapped */
	before = fake_nr_rings(r->c->f);
	put_all(r, LARGE);
	settle(r);
	assert_in_range(fake_nr_rings(r->c->f) - before, 1, 6);

	for (unsigned i = 0; i < 2; i++) {
		fill_reqs(r, PEAL_REQ_GET, LARGE);
		before = fake_nr_rings(r->c->f);
		assert_int_equal(run(r, 60000), NR);
		settle(r);
		check_all(r);
		assert_in_range(fake_nr_rings(r->c->f) - before, 1, 3);
	}
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_LEASE), 2 * NR);
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_RELEASE), 2 * NR);
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_RETRIEVE_EX), 2 * NR);

	put_all(r, SMALL);
	fill_reqs(r, PEAL_REQ_GET, SMALL);
	before = fake_nr_rings(r->c->f);
	assert_int_equal(run(r, 60000), NR);
	settle(r);
	check_all(r);
	assert_in_range(fake_nr_rings(r->c->f) - before, 1, 2);
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_LEASE), 2 * NR);
}

static void test_counters(void **state)
{
	struct rig *r = *state;
	struct peal_stats a = stats_of(r), b;

	put_all(r, LARGE);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	r->reqs[3].key = peal_key_text("absent");
	assert_int_equal(run(r, 60000), NR - 1);
	assert_int_equal(count(r, -ENOENT, 0), 1);
	b = stats_of(r);
	assert_int_equal(b.calls - a.calls, 2 * NR);
	assert_int_equal(b.hits - a.hits, NR - 1);
	assert_int_equal(b.misses - a.misses, 1);
	assert_int_equal(b.bytes_in - a.bytes_in, NR * LARGE);
	assert_int_equal(b.bytes_out - a.bytes_out, (NR - 1) * LARGE);
	assert_int_equal(b.bad_tags + b.bad_seals + b.timeouts + b.quarantined_bytes, 0);
}

/* A miss and an alert; not a byte of it. */
static void other_tags(struct rig *r, size_t bytes)
{
	uint8_t other[PEAL_TAG_BYTES] = "another";
	uint64_t before = stats_of(r).bad_tags;

	put_all(r, bytes);
	fill_reqs(r, PEAL_REQ_GET, bytes);
	r->reqs[0].want_tag = r->reqs[7].want_tag = r->reqs[15].want_tag = other;
	assert_int_equal(run(r, 60000), NR - 3);
	assert_int_equal(count(r, -ENOENT, 0), 3);
	for (unsigned i = 0; i < NR; i++)
		check_one(r, i);
	assert_int_equal(r->reqs[0].res | r->reqs[7].res | r->reqs[15].res, -ENOENT);
	assert_int_equal(stats_of(r).bad_tags - before, 3);
}

static void test_tags(void **state)
{
	struct rig *r = *state;

	other_tags(r, LARGE);
	other_tags(r, SMALL);
	settle(r);
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_LEASE),
			 fake_nr_cmds(r->c->f, PEAL_OPC_RELEASE));
}

static void test_meta(void **state)
{
	struct rig *r = *state;
	struct peal_meta back[NR] = {0};

	for (unsigned n = 0; n < 2; n++) {
		put_all(r, n ? LARGE : SMALL);
		fill_reqs(r, PEAL_REQ_GET, r->bytes);
		for (unsigned i = 0; i < NR; i++)
			r->reqs[i].meta = &back[i];
		assert_int_equal(run(r, 60000), NR);
		for (unsigned i = 0; i < NR; i++) {
			assert_int_equal(back[i].cost_us, i);
			assert_memory_equal(back[i].tag, r->meta[i].tag, PEAL_TAG_BYTES);
		}
	}
}

/* What a wave doesn't take or decide is told as the call for one value tells it. */
static void test_results(void **state)
{
	struct rig *r = *state;
	struct peal_meta bad = {.parent = {.len = 17}};

	put_all(r, LARGE);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	r->reqs[1].bytes = LARGE - 1;
	r->reqs[2].bytes = LARGE - 1;
	r->reqs[2].flags = PEAL_PART;
	r->reqs[3].key.len = 0;
	r->reqs[4].buf = NULL;
	r->reqs[5].flags = PEAL_IF_ABSENT;
	r->reqs[6].bytes = SMALL;
	r->reqs[7].flags = PEAL_RAW;
	assert_int_equal(run(r, 60000), NR - 5);
	assert_int_equal(r->reqs[1].res, -EMSGSIZE);
	assert_int_equal(r->reqs[1].value_bytes, LARGE);
	client_fill(r->want, LARGE, 2);
	assert_memory_equal(r->reqs[2].buf, r->want, LARGE - 1);
	assert_int_equal(((uint8_t *)r->reqs[2].buf)[LARGE - 1], MARK);
	assert_int_equal(r->reqs[3].res, -EINVAL);
	assert_int_equal(r->reqs[4].res, -EINVAL);
	assert_int_equal(r->reqs[5].res, -EINVAL);
	assert_int_equal(r->reqs[6].res, -EMSGSIZE);
	assert_int_equal(r->reqs[6].value_bytes, LARGE);
	check_one(r, 7);

	fill_reqs(r, PEAL_REQ_PUT, LARGE);
	r->reqs[0].flags = PEAL_IF_ABSENT;
	r->reqs[1].flags = PEAL_IF_PRESENT;
	r->reqs[2].flags = PEAL_IF_ABSENT | PEAL_IF_PRESENT;
	r->reqs[3].bytes = 0;
	r->reqs[4].meta = &bad;
	r->reqs[5].key = peal_key_text("absent");
	r->reqs[5].flags = PEAL_IF_PRESENT;
	assert_int_equal(run(r, 60000), NR - 5);
	assert_int_equal(r->reqs[0].res, -EEXIST);
	assert_int_equal(r->reqs[1].res, 0);
	assert_int_equal(r->reqs[2].res, -EINVAL);
	assert_int_equal(r->reqs[3].res, -EINVAL);
	assert_int_equal(r->reqs[4].res, -EINVAL);
	assert_int_equal(r->reqs[5].res, -ENOENT);
}

/* Values replaced between block and lease, bad bytes, leases refused: each by itself then. */
static void test_alone(void **state)
{
	struct rig *r = *state;

	put_all(r, LARGE);
	fake_churn(r->c->f, true);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR);
	check_all(r);
	fake_churn(r->c->f, false);

	fake_fail_next(r->c->f, PEAL_OPC_LEASE, NVME_ST_INTERRUPTED);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR);
	check_all(r);
	fake_fail_next(r->c->f, PEAL_OPC_RETRIEVE_EX, NVME_ST_INTERRUPTED);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR);
	check_all(r);

	fake_corrupt(r->c->f, "key 5", 200000);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	r->reqs[5].want_tag = NULL; /* the fake's block would tell */
	assert_int_equal(run(r, 60000), NR - 1);
	assert_int_equal(r->reqs[5].res, -ENOENT);
	r->reqs[5].res = 0;
	r->reqs[5].buf = r->want; /* what was copied until then is undefined */
	r->reqs[5].value_bytes = LARGE;
	check_all(r);
	assert_true(stats_of(r).bad_seals >= 1);
	settle(r);
	/* Refused: one. */
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_LEASE),
			 fake_nr_cmds(r->c->f, PEAL_OPC_RELEASE) + 1);
}

/* Until the last LEASE is answered, the others are released. */
static void test_releases(void **state)
{
	struct rig *r = *state;

	for (unsigned i = 0; i < 2; i++) {
		put_all(r, LARGE);
		fill_reqs(r, PEAL_REQ_GET, LARGE);
		for (unsigned n = 0; n < NR && i; n++)
			r->reqs[n].want_tag = NULL;
		fake_hold(r->c->f, PEAL_OPC_LEASE, PEAL_OPC_RELEASE, NR - 1);
		assert_int_equal(run(r, 5000), NR);
		check_all(r);
		settle(r);
	}
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_RELEASE), 2 * NR);
}

/* A queue that is full of releases: they are waited for, no other queue is made. */
static void test_shallow_plain(void **state)
{
	struct rig *r = *state;

	put_all(r, LARGE);
	for (unsigned i = 0; i < 4; i++) {
		fill_reqs(r, PEAL_REQ_GET, LARGE);
		for (unsigned n = 0; n < NR; n++)
			r->reqs[n].want_tag = NULL;
		assert_int_equal(run(r, 60000), NR);
		check_all(r);
	}
	assert_int_equal(fake_nr_admin(r->c->f, 0x05), 1);
	settle(r);
	assert_int_equal(fake_nr_admin(r->c->f, 0x05), 2);
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_LEASE), 4 * NR);
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_RELEASE), 4 * NR);
}

/* 0 is a version as any other: a lease of it isn't of the block's. */
static void test_version_0(void **state)
{
	struct rig *r = *state;

	put_all(r, LARGE);
	fake_lease_0(r->c->f, true);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR);
	check_all(r);
	/* In the wave, and by peal_get(), which reads it in pieces then. */
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_LEASE), 2 * NR);
	fake_lease_0(r->c->f, false);
}

/* Queues that hold no wave, or a part of one; a controller with PRPs; one without an arena. */
static void test_any(void **state)
{
	struct rig *r = *state;

	for (unsigned i = 0; i < 4; i++) {
		put_all(r, i & 1 ? SMALL : LARGE);
		fill_reqs(r, PEAL_REQ_GET, r->bytes);
		assert_int_equal(run(r, 60000), NR);
		check_all(r);
		fill_reqs(r, PEAL_REQ_GET, r->bytes);
		for (unsigned n = 0; n < NR; n += 2)
			r->reqs[n].want_tag = NULL; /* by the queue, or by lease alone */
		assert_int_equal(run(r, 60000), NR);
		check_all(r);
	}
}

/* Larger than all that may be under way at once, and than the library's buffers. */
static void test_large(void **state)
{
	struct rig *r = *state;
	size_t bytes[] = {WAVE_BYTES - 1, 100, WAVE_BYTES + 1, WAVE_BYTES, 70u << 20};
	struct peal_req reqs[5];
	uint8_t *v = malloc(70u << 20), *got = malloc(70u << 20);

	fill_reqs(r, PEAL_REQ_PUT, SMALL);
	client_fill(v, 70u << 20, 9);
	for (unsigned i = 0; i < 5; i++) {
		reqs[i] = r->reqs[i];
		reqs[i].buf = v + i;
		reqs[i].bytes = bytes[i] - i;
	}
	assert_int_equal(peal_run(r->q, reqs, 5, 60000), 5);
	for (unsigned i = 0; i < 5; i++) {
		memset(got, 0, bytes[i]);
		reqs[i].op = PEAL_REQ_GET;
		reqs[i].buf = got;
		reqs[i].want_tag = r->meta[i].tag;
		assert_int_equal(peal_run(r->q, &reqs[i], 1, 60000), 1);
		assert_int_equal(reqs[i].value_bytes, bytes[i] - i);
		assert_memory_equal(got, v + i, bytes[i] - i);
	}
	free(v);
	free(got);
}

#define THREADS 4u
#define ROUNDS 12u

struct worker {
	struct rig *r;
	unsigned nr;
	unsigned nr_bad;
};

/* Own keys, own queue, one handle. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct rig r = {.c = w->r->c};
	size_t bytes;

	r.mem = malloc(NR * (size_t)LARGE);
	r.want = malloc(LARGE);
	w->nr_bad = peal_queue_open(r.c->p, 64, &r.q) != 0;
	for (unsigned n = 0; n < ROUNDS && !w->nr_bad; n++) {
		bytes = n & 1 ? SMALL : LARGE - 4096 * w->nr;
		for (unsigned get = 0; get < 2; get++) {
			fill_reqs(&r, get ? PEAL_REQ_GET : PEAL_REQ_PUT, bytes);
			for (unsigned i = 0; i < NR; i++) {
				r.reqs[i].key.b[0] = (uint8_t)('a' + w->nr);
				if (!get)
					client_fill(r.reqs[i].buf, bytes, i + 100 * w->nr);
			}
			w->nr_bad += run(&r, 60000) != (int)NR;
		}
		for (unsigned i = 0; i < NR; i++) {
			client_fill(r.want, bytes, i + 100 * w->nr);
			w->nr_bad += memcmp(r.reqs[i].buf, r.want, bytes) != 0;
		}
	}
	peal_queue_close(r.q);
	free(r.mem);
	free(r.want);
	return NULL;
}

static void test_threads(void **state)
{
	struct worker w[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.r = *state, .nr = i};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(w[i].nr_bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_counters, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tags, setup, teardown),
		cmocka_unit_test_setup_teardown(test_meta, setup, teardown),
		cmocka_unit_test_setup_teardown(test_results, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_releases, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shallow_plain, setup_8, teardown),
		cmocka_unit_test_setup_teardown(test_version_0, setup, teardown),
		cmocka_unit_test_setup_teardown(test_any, setup, teardown),
		cmocka_unit_test_setup_teardown(test_any, setup_shallow, teardown),
		cmocka_unit_test_setup_teardown(test_any, setup_one, teardown),
		cmocka_unit_test_setup_teardown(test_any, setup_no_sgl, teardown),
		cmocka_unit_test_setup_teardown(test_any, setup_no_arena, teardown),
		cmocka_unit_test_setup_teardown(test_large, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
