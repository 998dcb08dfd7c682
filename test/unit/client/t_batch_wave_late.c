/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waves of peal_run() that don't get what they need: deadlines, a daemon that stops, goes or comes
 * back as another one, no buffers, no CIDs. No byte of the caller's memory is written where the
 * result isn't 0, nor after the call.
 */
#include "t_wave.h"

#include "base/must.h"

/* Nothing is waited for twice, and nothing comes late. */
static void test_deadline(void **state)
{
	struct rig *r = *state;

	put_all(r, LARGE);
	for (unsigned i = 0; i < 2; i++) {
		fake_pause(r->c->f, true);
		fill_reqs(r, i ? PEAL_REQ_PUT : PEAL_REQ_GET, LARGE);
		assert_int_equal(run(r, 30), 0);
		assert_int_equal(count(r, -ETIMEDOUT, 0), NR);
		assert_true(stats_of(r).quarantined_bytes > 0);
		memset(r->mem, MARK, NR * (size_t)LARGE);
		fake_pause(r->c->f, false);
		settle(r);
		assert_int_equal(stats_of(r).quarantined_bytes, 0);
		for (unsigned n = 0; n < NR; n++)
			check_one(r, n);
	}
	put_all(r, LARGE);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR);
	check_all(r);
	assert_int_equal(stats_of(r).quarantined_bytes, 0);
}

/* It stops in the middle: what was answered is done, the rest is late. */
static void test_stops(void **state)
{
	static const struct {
		enum peal_req_op op;
		uint8_t opc;
	} at[] = {{PEAL_REQ_GET, PEAL_OPC_LEASE},
		  {PEAL_REQ_GET, PEAL_OPC_RETRIEVE_EX},
		  {PEAL_REQ_PUT, PEAL_OPC_STORE_EX}};
	struct rig *r = *state;

	put_all(r, LARGE);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR); /* the arena is mapped */
	for (unsigned i = 0; i < 3; i++) {
		fill_reqs(r, at[i].op, LARGE);
		fake_after(r->c->f, at[i].opc, 6, false);
		assert_int_equal(run(r, 300), at[i].opc == PEAL_OPC_RETRIEVE_EX ? 5 : 6);
		count(r, 0, -ETIMEDOUT);
		for (unsigned n = 0; n < NR && at[i].op == PEAL_REQ_GET; n++)
			check_one(r, n);
		memset(r->mem, MARK, NR * (size_t)LARGE);
		fake_pause(r->c->f, false);
		settle(r);
		for (size_t n = 0; n < NR * (size_t)LARGE; n++)
			assert_int_equal(r->mem[n], MARK);
	}
	put_all(r, LARGE);
}

/* Before the arena was ever mapped: what can't be mapped any more is released by the same ring. */
static void test_stops_unmapped(void **state)
{
	struct rig *r = *state;

	put_all(r, LARGE);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	fake_after(r->c->f, PEAL_OPC_LEASE, 6, false);
	assert_int_equal(run(r, 100), 0);
	assert_int_equal(count(r, -ETIMEDOUT, 0), NR);
	for (unsigned n = 0; n < NR; n++)
		check_one(r, n);
	fake_pause(r->c->f, false);
	settle(r);
	/* Those that came in time; the others run out. */
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_RELEASE), 6);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR);
	check_all(r);
}

/* Every CID is one's that timed out: a lease that came ends by its own time, unwaited for. */
static void test_no_cid(void **state)
{
	struct rig *r = *state;
	struct peal_mem *m;
	unsigned before;

	put_all(r, LARGE);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	fake_hold(r->c->f, PEAL_OPC_RETRIEVE_EX, PEAL_OPC_RELEASE, 1);
	fake_after(r->c->f, PEAL_OPC_LEASE, 1, false);
	before = fake_nr_maps(r->c->f);
	assert_int_equal(run(r, 50), 0);
	assert_int_equal(count(r, -ETIMEDOUT, 0), NR);
	fake_pause(r->c->f, false);
	assert_int_equal(peal_mem_alloc(r->c->p, 4096, &m), 0);
	assert_int_equal(fake_nr_maps(r->c->f) - before, 1); /* and of no other queue */
	assert_int_equal(peal_mem_free(r->c->p, m), 0);
}

/* Holds all buffers but for one value, until that is under way. */
static void *give_back(void *arg)
{
	struct rig *r = arg;
	struct bufs *b = &r->c->p->conn->bufs;
	struct buf held;

	must(bufs_get(b, b->shm.bytes - LARGE - 65536, &held, 0) == 0);
	atomic_store(&r->is_held, true);
	while (!fake_nr_cmds(r->c->f, PEAL_OPC_STORE_EX))
		poll(NULL, 0, 1);
	bufs_put(b, &held);
	return NULL;
}

/* Buffers that others give back are seen, also where none of the wave's own ends. */
static void test_buffers(void **state)
{
	struct rig *r = *state;
	pthread_t thread;

	fill_reqs(r, PEAL_REQ_PUT, LARGE);
	assert_int_equal(pthread_create(&thread, NULL, give_back, r), 0);
	while (!atomic_load(&r->is_held))
		poll(NULL, 0, 1);
	/* The first is answered behind the second, which has no buffer yet. */
	fake_hold(r->c->f, PEAL_OPC_STORE_EX, PEAL_OPC_STORE_EX, 1);
	assert_int_equal(run(r, 1000), NR);
	pthread_join(thread, NULL);
}

/* A get with room for the largest value there is, whose lease takes three pages. */
static void fill_large(struct rig *r, uint8_t *room)
{
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	for (unsigned i = 0; i < 2; i++) {
		r->reqs[i].buf = room;
		r->reqs[i].bytes = PEAL_VALUE_MAX;
	}
}

static void reconnect(struct rig *r)
{
	unsigned before = fake_nr_connects(r->c->f);

	fake_disconnect(r->c->f);
	while (fake_nr_connects(r->c->f) == before ||
	       peal_exist(r->c->p, &r->reqs[0].key, NULL) == -ENOTCONN)
		poll(NULL, 0, 1); /* the keeper is about it */
}

/* Sorted for one connection, run on another that takes less. */
static void test_other_limits(void **state)
{
	static const struct {
		enum peal_req_op op;
		bool no_vendor;
		uint8_t mdts;
		uint32_t value_max;
	} as[] = {{PEAL_REQ_GET, false, 1, 0},
		  {PEAL_REQ_GET, true, 0, 0},
		  {PEAL_REQ_PUT, false, 0, LARGE - 1},
		  {PEAL_REQ_PUT, false, 1, 0}};
	struct rig *r = *state;
	uint8_t *room = malloc(PEAL_VALUE_MAX);
	struct wave w;

	for (unsigned i = 0; i < 4; i++) {
		fake_limits(r->c->f, false, 0, 0);
		reconnect(r);
		put_all(r, LARGE);
		fill_large(r, room);
		if (as[i].op == PEAL_REQ_PUT)
			fill_reqs(r, PEAL_REQ_PUT, LARGE);
		for (unsigned n = 0; n < NR; n++) {
			assert_true(batch_wave_takes(r->q, &r->reqs[n]));
			r->reqs[n].priv[1] = BATCH_WAVE;
		}
		fake_limits(r->c->f, as[i].no_vendor, as[i].mdts, as[i].value_max);
		reconnect(r);
		assert_int_equal(batch_ready(r->q, mono_ns() + 10 * MONO_NS_PER_S), 0);
		batch_wave_run(&w, r->q, r->reqs, NR, mono_ns() + 10 * MONO_NS_PER_S);
		for (unsigned n = 0; n < 2; n++)
			assert_int_equal(r->reqs[n].priv[1], BATCH_ALONE);
		assert_int_equal(w.nr_ok, i ? 0 : NR - 2);
	}
	free(room);
}

/* A lease's answer that one command can't name, which nobody foresaw: its block is waited for. */
static void test_half(void **state)
{
	struct rig *r = *state;
	uint8_t *room = malloc(PEAL_VALUE_MAX);
	struct wave w;

	put_all(r, LARGE);
	fill_large(r, room);
	for (unsigned n = 0; n < NR; n++)
		r->reqs[n].priv[1] = BATCH_WAVE;
	r->q->conn->has_sgl = false; /* and the queue has no PRP lists */
	batch_wave_run(&w, r->q, r->reqs, NR, mono_ns() + 10 * MONO_NS_PER_S);
	r->q->conn->has_sgl = true;
	assert_int_equal(r->reqs[0].priv[1], BATCH_ALONE);
	assert_int_equal(r->reqs[1].priv[1], BATCH_ALONE);
	assert_int_equal(w.nr_ok, NR - 2);
	assert_int_equal(fake_nr_cmds(r->c->f, PEAL_OPC_RETRIEVE_EX), NR);
	assert_int_equal(stats_of(r).quarantined_bytes, 0);
	assert_int_equal(r->c->p->conn->bufs.taken_bytes, 0);
	free(room);
}

/* It goes in the middle, and comes back. */
static void test_goes(void **state)
{
	struct rig *r = *state;

	for (unsigned i = 0; i < 8; i++) {
		put_all(r, i & 2 ? SMALL : LARGE);
		fill_reqs(r, i & 1 ? PEAL_REQ_PUT : PEAL_REQ_GET, r->bytes);
		fake_after(r->c->f, i & 1 ? PEAL_OPC_STORE_EX : PEAL_OPC_RETRIEVE_EX, 1 + i * 2,
			   true);
		assert_in_range(run(r, 60000), 0, NR - 1);
		assert_in_range(count(r, -ENOTCONN, 0), 1, NR);
		for (unsigned n = 0; n < NR && !(i & 1); n++)
			check_one(r, n);
		while (peal_exist(r->c->p, &r->reqs[0].key, NULL) == -ENOTCONN)
			poll(NULL, 0, 1); /* the keeper is about it */
	}
	put_all(r, LARGE);
	fill_reqs(r, PEAL_REQ_GET, LARGE);
	assert_int_equal(run(r, 60000), NR);
	check_all(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stops, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stops_unmapped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_cid, setup_shallow, teardown),
		cmocka_unit_test_setup_teardown(test_buffers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_half, setup, teardown),
		cmocka_unit_test_setup_teardown(test_goes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
