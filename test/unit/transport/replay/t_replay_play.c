/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record, play: the same answers and the same bytes. On one worker in full order, on several by
 * queue, with too little memory for the recorded depth; a namespace that is another one is
 * noticed.
 */
#include "replay_fix.h"
#include <errno.h>
#include <unistd.h>

static char path[64];
static uint8_t bytes[FAKE_NS_BYTES];

/* Records a load on two workers; what the namespace held at the end stays in `bytes`. */
static int setup(void **state)
{
	struct replay_record_opts ro = {.path = path, .has_values = true};
	struct replay_record *rec;
	struct replay_host *h;
	struct load *ld[2];
	struct rfix f;

	snprintf(path, sizeof(path), "/tmp/peal-play-%d", (int)getpid());
	must(!replay_record_open(&ro, &rec));
	rfix_init(&f, 2);
	must(!replay_host_create(f.n->ss, &h));
	replay_host_record(h, rec);
	for (unsigned w = 0; w < 2; w++) {
		struct replay_queue_opts o = {.worker = w, .depth = 8, .slot_bytes = LOAD_BLOCK};

		ld[w] = load_create(w, 3000, w * 8, 8);
		o.load = &ld[w]->l;
		must(!replay_queue_create(h, &o, NULL));
	}
	for (unsigned w = 0; w < 2; w++)
		must(fake_node_run(f.n, load_is_over, ld[w], 1000000));
	rfix_host_end(&f, h);
	memcpy(bytes, f.ns->bytes, FAKE_NS_BYTES);
	rfix_fini(&f);
	free(ld[0]);
	free(ld[1]);
	return replay_record_close(rec, NULL);
}

static int teardown(void **state)
{
	unlink(path);
	return 0;
}

static bool is_played(void *arg)
{
	struct tr *tr = arg;

	return tr->ops->nr_hosts(tr) == 0;
}

static void end(struct rfix *f, struct tr *tr)
{
	bool is_stopped = false;

	tr->ops->stop(tr, rfix_set, &is_stopped);
	assert_true(fake_node_run(f->n, rfix_is_set, &is_stopped, 100000));
	tr->ops->destroy(tr);
}

static void play(unsigned nr_workers, uint64_t mem_bytes, bool is_same)
{
	struct replay_play_opts o = {
		.path = path, .nr_workers = nr_workers, .mem_bytes = mem_bytes};
	struct replay_play_stats st;
	struct rfix f;
	struct tr *tr;

	rfix_init(&f, 2);
	assert_int_equal(replay_play_create(f.n->ss, &o, &tr), 0);
	fake_node_steps(f.n, 200);
	replay_play_stats(tr, &st);
	assert_int_equal(st.nr_done, 0); /* not before start() */
	if (!is_same) {
		assert_int_equal(fix_ns_del(f.n, 1), 0);
		f.ns = fake_ns_create(1, 1 << 20);
		assert_int_equal(tgt_subsys_ns_add(f.n->ss, &f.ns->ns, 9), 0);
	}
	assert_int_equal(tr->ops->start(tr), 0);
	assert_true(fake_node_run(f.n, is_played, tr, 10000000));
	replay_play_stats(tr, &st);
	assert_int_equal(st.nr_cmds, 6000);
	assert_int_equal(st.nr_done, 6000);
	assert_int_equal(st.nr_checked, 6000);
	if (is_same) {
		assert_int_equal(st.nr_wrong, 0);
		assert_memory_equal(f.ns->bytes, bytes, FAKE_NS_BYTES);
	} else {
		assert_true(st.nr_wrong > 1000);
		assert_true(st.first_wrong < 10);
		assert_int_equal(fix_ns_del(f.n, 9), 0);
		f.ns = fake_ns_create(1, 1 << 20);
		assert_int_equal(tgt_subsys_ns_add(f.n->ss, &f.ns->ns, 1), 0);
	}
	end(&f, tr);
	rfix_fini(&f);
}

static void test_one(void **state)
{
	play(1, 0, true);
}

static void test_two(void **state)
{
	play(2, 0, true);
}

static void test_little_memory(void **state)
{
	play(1, 1, true);
	play(2, 3 * LOAD_BLOCK, true);
}

static void test_other(void **state)
{
	play(1, 0, false);
}

static void test_stop_early(void **state)
{
	struct replay_play_opts o = {.path = path};
	struct replay_play_stats st;
	struct rfix f;
	struct tr *tr;

	rfix_init(&f, 2);
	o.nr_workers = 3;
	assert_int_equal(replay_play_create(f.n->ss, &o, &tr), -EINVAL);
	o.nr_workers = 0;
	o.path = "/nowhere";
	assert_int_equal(replay_play_create(f.n->ss, &o, &tr), -ENOENT);
	o.path = path;
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(replay_play_create(f.n->ss, &o, &tr), 0);
		if (i)
			assert_int_equal(tr->ops->start(tr), 0);
		fake_node_steps(f.n, i * 10);
		assert_int_equal(tr->ops->nr_hosts(tr), 1);
		replay_play_stats(tr, &st);
		assert_true(st.nr_done < 6000);
		end(&f, tr);
	}
	rfix_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),	      cmocka_unit_test(test_two),
		cmocka_unit_test(test_little_memory), cmocka_unit_test(test_other),
		cmocka_unit_test(test_stop_early),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
