/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of a real peald ($PEALD) at their worst: one whose daemon stands still, so that every
 * deadline passes and its buffers fill up with what nobody answers; and one that is killed in the
 * middle of a wave, twenty times, beside one that must not notice.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"
#include "base/rng.h"
#include "peal/peal.h"

#define VALUE_BYTES (256u << 10)
#define POOL_BYTES (4u << 20)
#define NR_KILLS 20u
#define NR_WAVE 64u
#define MIB (1u << 20)

struct rig {
	char dir[64], uri[96];
	pid_t daemon;
	FILE *log;
	uint8_t *v, *got;
};

/* Asserts that what is waited for comes true; a minute is a hang, not a measure. */
#define wait_until(cond) \
	do { \
		unsigned ms_ = 60000; \
		while (!(cond)) { \
			if (!ms_--) \
				fail_msg("%s never came true", #cond); \
			poll(NULL, 0, 1); \
		} \
	} while (0)

static void fill(uint8_t *v, uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed);
	rng_fill(&r, v, VALUE_BYTES);
}

static struct peal_key key(uint64_t i)
{
	return peal_key_bytes(&i, sizeof(i));
}

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	const char *peald = getenv("PEALD");
	char line[512] = "";
	int ends[2];

	must(r && peald && !pipe2(ends, O_CLOEXEC));
	snprintf(r->dir, sizeof(r->dir), "/tmp/peal-faults-XXXXXX");
	must(mkdtemp(r->dir));
	snprintf(r->uri, sizeof(r->uri), "vfu:%s", r->dir);
	r->v = malloc(VALUE_BYTES);
	r->got = malloc(VALUE_BYTES);
	must(r->v && r->got);
	r->daemon = fork();
	if (r->daemon == 0) {
		dup2(ends[1], 2);
		execl(peald, peald, "--dir", r->dir, "--dram", "48M", "--reactors", "2",
		      "--no-immutable", NULL);
		_exit(127);
	}
	close(ends[1]);
	/* What it says later fits into the pipe. */
	r->log = fdopen(ends[0], "r");
	must(r->log);
	while (fgets(line, sizeof(line), r->log))
		if (strstr(line, "listening on"))
			break;
	*state = r;
	return !strstr(line, "listening on");
}

static int teardown(void **state)
{
	struct rig *r = *state;
	int status = 0;

	kill(r->daemon, SIGCONT);
	kill(r->daemon, SIGTERM);
	must(waitpid(r->daemon, &status, 0) == r->daemon);
	assert_int_equal(status, 0);
	assert_int_equal(rmdir(r->dir), 0);
	fclose(r->log);
	free(r->v);
	free(r->got);
	free(r);
	return 0;
}

static struct peal *open_it(const struct rig *r, const struct peal_opts *o)
{
	struct peal *p = NULL;
	int err = peal_open(r->uri, o, &p);

	if (err)
		fprintf(stderr, "peal_open: %s\n", peal_errmsg());
	must(!err);
	return p;
}

/* ---- a daemon that stands still ---- */

static bool is_stopped(pid_t pid)
{
	char path[64], line[512];
	bool yes = true;
	struct dirent *e;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	must(dir);
	while ((e = readdir(dir))) {
		char stat[400];

		snprintf(stat, sizeof(stat), "%s/%s/stat", path, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(stat, "re");
		if (!f)
			continue;
		yes = yes && fgets(line, sizeof(line), f) && strstr(line, ") T");
		fclose(f);
	}
	closedir(dir);
	return yes;
}

/* Gets and puts until the library has no buffer left that isn't in quarantine. */
static unsigned run_dry(struct peal *p, struct rig *r)
{
	struct peal_call soon = {.timeout_ms = 5};
	struct peal_stats st;
	unsigned nr = 0;
	int err = 0;

	while (err != -EAGAIN) {
		struct peal_key k = key(nr % 8);

		err = nr % 2 ? peal_put(p, &k, r->got, VALUE_BYTES, &soon)
			     : (int)peal_get(p, &k, r->got, VALUE_BYTES, &soon);
		if (err != -ETIMEDOUT && err != -EAGAIN)
			fail_msg("call %u: %d %s", nr, err, peal_errmsg());
		/* The caller's at once. */
		memset(r->got, (int)(nr | 1), VALUE_BYTES);
		peal_stats(p, &st);
		assert_true(st.quarantined_bytes <= POOL_BYTES);
		assert_true(++nr < 10000);
	}
	return nr;
}

/* What run_dry() puts. */
static bool is_one_byte(const uint8_t *v)
{
	return !memcmp(v, v + 1, VALUE_BYTES - 1);
}

static void test_quarantine(void **state)
{
	struct rig *r = *state;
	struct peal *p = open_it(r, &(struct peal_opts){.buffer_bytes = POOL_BYTES});
	struct peal_key k = key(3);
	struct peal_stats st;
	unsigned nr;

	for (unsigned i = 0; i < 8; i++) {
		struct peal_key each = key(i);

		fill(r->v, i);
		assert_int_equal(peal_put(p, &each, r->v, VALUE_BYTES, NULL), 0);
	}
	assert_int_equal(kill(r->daemon, SIGSTOP), 0);
	wait_until(is_stopped(r->daemon));
	nr = run_dry(p, r);
	printf("%u calls until every buffer was in quarantine\n", nr);
	memset(r->got, 0xc3, VALUE_BYTES);
	assert_int_equal(kill(r->daemon, SIGCONT), 0);
	/* Everything comes back, and not a byte of it to us. */
	do {
		struct peal_call soon = {.timeout_ms = 100};

		(void)peal_exist(p, &k, &soon);
		peal_stats(p, &st);
	} while (st.quarantined_bytes);
	for (size_t i = 0; i < VALUE_BYTES; i++)
		if (r->got[i] != 0xc3)
			fail_msg("byte %zu changed after the call was back", i);
	/* A put that timed out may have come through: with what was in its buffer then, whole. */
	for (unsigned i = 0; i < 8; i++) {
		struct peal_key each = key(i);

		assert_int_equal(peal_get(p, &each, r->got, VALUE_BYTES, NULL), VALUE_BYTES);
		fill(r->v, i);
		if (memcmp(r->got, r->v, VALUE_BYTES))
			assert_true(i % 2 && is_one_byte(r->got));
	}
	peal_close(p);
}

/* ---- clients that are killed ---- */

static uint64_t rss_bytes(pid_t pid)
{
	unsigned long long size = 0, rss = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	must(f && fscanf(f, "%llu %llu", &size, &rss) == 2);
	fclose(f);
	return rss * 4096;
}

static unsigned nr_fds(pid_t pid)
{
	char path[64];
	unsigned nr = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	must(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* Waves of direct puts and gets for ever, a lease held; says when it is in the middle. */
__attribute__((noreturn)) static void victim(const struct rig *r, int fd, unsigned id)
{
	struct peal *p = open_it(r, NULL);
	struct peal_req req[NR_WAVE] = {0}, *reqs[NR_WAVE], *done[NR_WAVE];
	struct peal_lease *l;
	struct peal_key k = key(1000);
	struct peal_queue *q;
	struct peal_mem *m;

	must(!peal_put(p, &k, r->v, VALUE_BYTES, NULL) && !peal_lease(p, &k, 60000, &l));
	must(!peal_queue_open(p, NR_WAVE, &q) && !peal_mem_alloc(p, NR_WAVE * VALUE_BYTES, &m));
	for (unsigned i = 0; i < NR_WAVE; i++) {
		reqs[i] = &req[i];
		req[i] = (struct peal_req){
			.op = i % 2 ? PEAL_REQ_PUT : PEAL_REQ_GET,
			.flags = PEAL_DIRECT,
			.key = key(2000 + (id + i) % 16),
			.buf = (uint8_t *)peal_mem_ptr(m) + (size_t)i * VALUE_BYTES,
			.bytes = VALUE_BYTES,
		};
	}
	for (unsigned n = 0;; n++) {
		int left = peal_submit(q, reqs, NR_WAVE);

		if (n == id % 4)
			must(write(fd, "", 1) == 1);
		while (left > 0)
			left -= peal_reap(q, done, NR_WAVE, 1000);
	}
}

struct bystander {
	struct rig *r;
	_Atomic bool is_over;
	_Atomic uint64_t nr_hits;
	pthread_t thread;
};

/* Works on keys of its own, and minds every failure. */
static void *bystander_run(void *arg)
{
	struct bystander *b = arg;
	struct peal *p = open_it(b->r, NULL);
	uint8_t *v = malloc(VALUE_BYTES), *got = malloc(VALUE_BYTES);

	unit_thread_begin();
	must(v && got);
	for (uint64_t i = 0; !atomic_load(&b->is_over); i++) {
		struct peal_key k = key(i % 8);
		ssize_t n = peal_get(p, &k, got, VALUE_BYTES, NULL);

		fill(v, i % 8);
		if (n == -ENOENT)
			n = peal_put(p, &k, v, VALUE_BYTES, NULL);
		else
			must(n == VALUE_BYTES && !memcmp(v, got, VALUE_BYTES));
		if (n < 0)
			fprintf(stderr, "bystander: %s\n", peal_errmsg());
		must(n >= 0);
		atomic_fetch_add(&b->nr_hits, n > 0);
	}
	peal_close(p);
	free(v);
	free(got);
	return NULL;
}

static void kill_one(struct rig *r, unsigned id)
{
	int ends[2], status;
	pid_t pid;
	char c;

	must(!pipe(ends));
	pid = fork();
	if (pid == 0)
		victim(r, ends[1], id);
	close(ends[1]);
	assert_int_equal(read(ends[0], &c, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	close(ends[0]);
}

static void test_killed(void **state)
{
	struct rig *r = *state;
	unsigned fds = nr_fds(r->daemon), with_one;
	struct bystander b = {.r = r};
	uint64_t rss = 0, hits;
	struct peal *p;

	fill(r->v, 0);
	assert_int_equal(pthread_create(&b.thread, NULL, bystander_run, &b), 0);
	wait_until(b.nr_hits > 20);
	with_one = nr_fds(r->daemon);
	for (unsigned i = 0; i < NR_KILLS; i++) {
		hits = b.nr_hits;
		kill_one(r, i);
		wait_until(b.nr_hits > hits + 2);
		wait_until(nr_fds(r->daemon) == with_one);
		if (i == NR_KILLS / 2)
			rss = rss_bytes(r->daemon);
	}
	atomic_store(&b.is_over, true);
	pthread_join(b.thread, NULL);
	wait_until(nr_fds(r->daemon) == fds);
	printf("%llu hits beside; RSS %llu MiB half way, %llu MiB now\n",
	       (unsigned long long)b.nr_hits, (unsigned long long)rss / MIB,
	       (unsigned long long)rss_bytes(r->daemon) / MIB);
	assert_true(rss_bytes(r->daemon) <= rss + 2 * MIB);
	/* No lease of the dead pins anything: all of the memory can be filled anew. */
	p = open_it(r, NULL);
	for (unsigned i = 0; i < 400; i++) {
		struct peal_key k = key(5000 + i);

		assert_int_equal(peal_put(p, &k, r->v, VALUE_BYTES, NULL), 0);
	}
	peal_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_quarantine, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
