/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: what it writes is what was said, also around its bounds.
 */
#include "replay_fix.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#include "transport/replay/replay_file.h"

static char path[64];

static int setup(void **state)
{
	snprintf(path, sizeof(path), "/tmp/peal-record-%d", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	return 0;
}

/* A random load on two workers, recorded. Returns what close() said. */
static int record_load(uint32_t nr, uint64_t max_bytes, uint32_t data_max)
{
	struct replay_record_opts ro = {.path = path, .max_bytes = max_bytes, .data_max = data_max};
	struct replay_record *rec;
	struct replay_host *h;
	struct load *ld[2];
	struct rfix f;

	assert_int_equal(replay_record_open(&ro, &rec), 0);
	rfix_init(&f, 2);
	assert_int_equal(replay_host_create(f.n->ss, &h), 0);
	replay_host_record(h, rec);
	for (unsigned w = 0; w < 2; w++) {
		struct replay_queue_opts o = {.worker = w, .depth = 8, .slot_bytes = LOAD_BLOCK};

		ld[w] = load_create(w, nr / 2, w * 8, 8);
		o.load = &ld[w]->l;
		assert_int_equal(replay_queue_create(h, &o, NULL), 0);
	}
	for (unsigned w = 0; w < 2; w++)
		assert_true(fake_node_run(f.n, load_is_over, ld[w], 1000000));
	rfix_host_end(&f, h);
	rfix_fini(&f);
	free(ld[0]);
	free(ld[1]);
	return replay_record_close(rec);
}

static void test_content(void **state)
{
	const struct replay_cmd *c;
	struct replay_file f;
	struct stat st;
	unsigned nr_kept = 0, nr_dropped = 0;

	assert_int_equal(record_load(4000, 0, 10000), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(replay_file_open(path, &f), 0);
	assert_false(f.is_torn);
	assert_int_equal(f.nr_cmds, 4000);
	assert_int_equal(f.nr_events, 8000);
	for (uint32_t i = 0; i < f.nr_cmds; i++) {
		c = &f.cmds[i];
		assert_true(c->qid == 1 || c->qid == 2);
		assert_non_null(c->cqe);
		assert_int_equal(c->cqe->cid, c->sqe->cid);
		assert_int_equal(c->cqe->sq_id, c->qid);
		if (c->sqe->opc == FAKE_WRITE && c->sqe->nsid == 1) {
			assert_int_equal(c->len, c->sqe->cdw10);
			assert_true(c->has_data && c->is_from_host);
			assert_int_equal(c->data != NULL, c->len <= 10000);
			nr_kept += c->data != NULL;
			nr_dropped += c->data == NULL;
		} else if (c->sqe->opc == FAKE_READ) {
			assert_true(c->has_data && !c->is_from_host && !c->data);
		} else {
			assert_false(c->has_data);
		}
	}
	assert_true(nr_kept > 100 && nr_dropped > 100);
	replay_file_close(&f);
}

static void test_bound(void **state)
{
	struct replay_file f;
	struct stat st;

	for (uint64_t max = 64; max < 400000; max = max * 3 + 7) {
		assert_int_equal(record_load(400, max, 0), -EFBIG);
		assert_int_equal(stat(path, &st), 0);
		assert_true((uint64_t)st.st_size <= max);
		assert_int_equal(replay_file_open(path, &f), 0);
		assert_false(f.is_torn);
		assert_true(f.nr_cmds < 400);
		replay_file_close(&f);
	}
}

static void test_errors(void **state)
{
	struct replay_record_opts ro = {.path = "/nowhere/at/all"};
	struct replay_record *rec = NULL;
	struct tgt_req *req = NULL;

	assert_int_equal(replay_record_open(&ro, &rec), -ENOENT);
	assert_null(rec);
	replay_record_queue(NULL, 1, 2);
	replay_record_sqe(NULL, req);
	replay_record_data(NULL, req, 0, MEM_TO_PEER);
	replay_record_cqe(NULL, req);
	unlink(path);
	assert_int_equal(symlink("/dev/full", path), 0);
	ro.path = path;
	assert_int_equal(replay_record_open(&ro, &rec), -ELOOP);
	unlink(path);
	ro.path = "/dev/full";
	assert_int_equal(replay_record_open(&ro, &rec), 0);
	assert_int_equal(replay_record_close(rec), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
