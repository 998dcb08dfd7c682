/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: what it writes is what was said, also around its bounds.
 */
#include "replay_fix.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
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
static int record_load(uint32_t nr, struct replay_record_opts ro)
{
	struct replay_record *rec, *other;
	struct replay_host *h;
	struct stat st;
	uint64_t bytes;
	int err;

	struct load *ld[2];
	struct rfix f;

	unlink(path);
	ro.path = path;
	assert_int_equal(replay_record_open(&ro, &rec), 0);
	assert_int_equal(replay_record_open(&ro, &other), -EEXIST);
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
	err = replay_record_close(rec, &bytes);
	assert_int_equal(stat(path, &st), bytes ? 0 : -1);
	if (!err)
		assert_int_equal((uint64_t)st.st_size, bytes + sizeof(struct replay_file_rec));
	return err;
}

static void test_content(void **state)
{
	const struct replay_cmd *c;
	struct replay_file f;
	struct stat st;
	unsigned nr_kept = 0, nr_dropped = 0;

	assert_int_equal(record_load(4000, (struct replay_record_opts){.data_max = 10000,
								       .has_values = true}),
			 0);
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

/* Values are parts of prompts: their lengths are recorded, their bytes only when asked for. */
static void test_no_values(void **state)
{
	struct replay_file f;
	unsigned nr = 0;

	assert_int_equal(record_load(1000, (struct replay_record_opts){0}), 0);
	assert_int_equal(replay_file_open(path, &f), 0);
	for (uint32_t i = 0; i < f.nr_cmds; i++) {
		if (f.cmds[i].sqe->opc != FAKE_WRITE || f.cmds[i].sqe->nsid != 1)
			continue;
		assert_int_equal(f.cmds[i].len, f.cmds[i].sqe->cdw10);
		assert_null(f.cmds[i].data);
		nr++;
	}
	assert_true(nr > 100);
	replay_file_close(&f);
}

static void test_bound(void **state)
{
	struct replay_file f;
	struct stat st;

	for (uint64_t max = 64; max < 400000; max = max * 3 + 7) {
		assert_int_equal(record_load(400, (struct replay_record_opts){.max_bytes = max,
									      .has_values = true}),
				 -EFBIG);
		if (stat(path, &st)) {
			assert_true(max < 200); /* no room for one command */
			continue;
		}
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
	/* What lies there already isn't written to, whatever it is. */
	unlink(path);
	assert_int_equal(symlink("/dev/full", path), 0);
	ro.path = path;
	assert_int_equal(replay_record_open(&ro, &rec), -EEXIST);
	unlink(path);
	assert_int_equal(mkfifo(path, 0666), 0);
	assert_int_equal(replay_record_open(&ro, &rec), -EEXIST);
	unlink(path);
	/* A recording of nothing leaves nothing. */
	assert_int_equal(replay_record_open(&ro, &rec), 0);
	assert_int_equal(replay_record_close(rec, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
}

/* A disk that is full, told by a limit on the length of files. */
static void test_full(void **state)
{
	struct rlimit old, rl;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	rl = (struct rlimit){0, old.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &rl), 0);
	assert_int_equal(record_load(400, (struct replay_record_opts){0}), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_content),	  cmocka_unit_test(test_bound),
		cmocka_unit_test(test_no_values), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
