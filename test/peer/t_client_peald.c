/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpeal and peald together, started by spawn: URIs. $PEALD is the daemon. Everything that a user
 * relies on across the two: values of all sizes by every way, a daemon that is stopped past every
 * deadline, killed under load and replaced, started by many at once.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "peal/peal.h"

#define BIG (9u << 20)
#define NR_THREADS 4

struct rig {
	char dir[64];
	char uri[128];
	struct peal *p;
	uint8_t *v, *got;
	void *direct; /* registered */
};

static void fill(uint8_t *v, size_t bytes, uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed);
	rng_fill(&r, v, bytes);
}

static int open_rig(struct rig *r)
{
	int err = peal_open(r->uri, NULL, &r->p);

	if (err)
		fprintf(stderr, "peal_open: %s\n", peal_errmsg());
	return err;
}

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	snprintf(r->dir, sizeof(r->dir), "/tmp/peal-peer-XXXXXX");
	if (!mkdtemp(r->dir))
		return -1;
	snprintf(r->uri, sizeof(r->uri), "spawn:%s?dram=256M&linger=1&reactors=2", r->dir);
	r->v = malloc(BIG);
	r->got = malloc(BIG);
	*state = r;
	return open_rig(r);
}

/* How many daemons said by now that they have started here, and the last one's pid. */
static unsigned daemons_said(const struct rig *r, pid_t *pid)
{
	char path[100], line[512];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/peald.log", r->dir);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, ": pid ");

		if (!at || !strstr(line, "listening"))
			continue;
		n++;
		*pid = atoi(at + 6);
	}
	fclose(f);
	return n;
}

/*
 * How many daemons were started here, at least `nr` of them: a log has a thread of its own, which
 * may write the line after the daemon has answered.
 */
static unsigned daemons(const struct rig *r, unsigned nr, pid_t *pid)
{
	unsigned n;

	while ((n = daemons_said(r, pid)) < nr)
		poll(NULL, 0, 1);
	return n;
}

/* SIGSTOP is delivered to one thread after the other: until all of them stand still. */
static void stop(pid_t pid)
{
	char dir[64], path[400], line[512];
	bool is_stopped = false;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	snprintf(dir, sizeof(dir), "/proc/%d/task", pid);
	while (!is_stopped) {
		DIR *d = opendir(dir);
		struct dirent *e;

		assert_non_null(d);
		is_stopped = true;
		while ((e = readdir(d))) {
			FILE *f;

			snprintf(path, sizeof(path), "%s/%s/stat", dir, e->d_name);
			f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
			if (!f)
				continue;
			if (!fgets(line, sizeof(line), f) || !strstr(line, ") T"))
				is_stopped = false;
			fclose(f);
		}
		closedir(d);
		poll(NULL, 0, 1);
	}
}

static int teardown(void **state)
{
	struct rig *r = *state;
	char cmd[128];
	pid_t pid = 0;

	daemons_said(r, &pid);
	if (!pid) /* kill(0) is for ourselves */
		return -1;
	kill(pid, SIGCONT); /* a test that failed may have left it stopped */
	peal_close(r->p);
	/* Not by its linger, which takes a second or more; test_race waits for that. */
	kill(pid, SIGTERM);
	while (pid && kill(pid, 0) == 0)
		poll(NULL, 0, 10);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", r->dir);
	assert_int_equal(system(cmd), 0);
	free(r->v);
	free(r->got);
	free(r);
	return 0;
}

static void test_sizes(void **state)
{
	static const size_t sizes[] = {1,     100,    4095,	4096,		65536,
				       65537, 200000, 1u << 20, (4u << 20) + 3, BIG};
	struct rig *r = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct peal_key k = peal_key_bytes(&sizes[i], sizeof(sizes[i]));
		struct peal_call call = {0};
		struct peal_lease *l;

		fill(r->v, sizes[i], i);
		assert_int_equal(peal_get(r->p, &k, r->got, BIG, NULL), -ENOENT);
		assert_int_equal(peal_put(r->p, &k, r->v, sizes[i], NULL), 0);
		memset(r->got, 0, sizes[i]);
		assert_int_equal(peal_get(r->p, &k, r->got, BIG, NULL), sizes[i]);
		assert_memory_equal(r->got, r->v, sizes[i]);
		memset(r->got, 0, sizes[i]);
		assert_int_equal(peal_get(r->p, &k, r->got, sizes[i], &call), sizes[i]);
		assert_memory_equal(r->got, r->v, sizes[i]);
		assert_int_equal(call.value_bytes, sizes[i]);
		assert_int_not_equal(call.version, 0);
		assert_int_equal(peal_exist(r->p, &k, &call), 0);
		assert_int_equal(call.value_bytes, sizes[i]);
		if (sizes[i] > 1)
			assert_int_equal(peal_get(r->p, &k, r->got, sizes[i] - 1, NULL), -EMSGSIZE);
		assert_int_equal(peal_lease(r->p, &k, 1000, &l), 0);
		assert_int_equal(l->value_bytes, sizes[i]);
		memset(r->got, 0, sizes[i]);
		assert_int_equal(peal_lease_read(r->p, l, 0, r->got, BIG), sizes[i]);
		assert_memory_equal(r->got, r->v, sizes[i]);
		assert_int_equal(peal_release(r->p, l), 0);
	}
}

static void test_ranges_and_meta(void **state)
{
	struct rig *r = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_meta in = {.parent = peal_key_text("mum"), .group = k, .cls = 7, .cost_us = 99},
			 out;
	struct peal_call put = {.meta = &in};
	uint8_t other[PEAL_TAG_BYTES] = {1};

	memset(in.tag, 0x5a, sizeof(in.tag));
	fill(r->v, BIG, 1);
	assert_int_equal(peal_put(r->p, &k, r->v, BIG - 77, &put), 0);
	for (size_t room = 100; room <= BIG; room *= 7) {
		for (uint64_t off = 0; off < BIG - 77; off += 2555904) {
			struct peal_call get = {.offset = off,
						.flags = PEAL_PART,
						.meta = &out,
						.want_tag = in.tag};
			struct peal_call wrong = {
				.offset = off, .flags = PEAL_PART, .want_tag = other};
			size_t expect = room < BIG - 77 - off ? room : BIG - 77 - off;

			memset(r->got, 0, expect);
			memset(&out, 0, sizeof(out));
			assert_int_equal(peal_get(r->p, &k, r->got, room, &get), expect);
			assert_memory_equal(r->got, r->v + off, expect);
			assert_memory_equal(out.tag, in.tag, sizeof(in.tag));
			assert_string_equal((char *)out.parent.b, "mum");
			assert_int_equal(out.cls, 7);
			assert_int_equal(out.cost_us, 99);
			assert_int_equal(peal_get(r->p, &k, r->got, room, &wrong), -ENOENT);
		}
	}
	put.offset = BIG & ~4095ull;
	put.meta = NULL;
	assert_int_equal(peal_get(r->p, &k, r->got, 100, &put), -EINVAL);
	assert_int_equal(peal_get(r->p, &k, r->got, BIG, &put), -EINVAL);
}

static void test_match_and_list(void **state)
{
	struct rig *r = *state;
	struct peal_key keys[5000], listed[777], last = {0};
	size_t in_memory, total = 0;
	bool seen[5000] = {0};
	ssize_t n;

	for (uint32_t i = 0; i < 5000; i++) {
		keys[i] = peal_key_bytes(&i, sizeof(i));
		assert_int_equal(peal_put(r->p, &keys[i], &i, sizeof(i), NULL), 0);
	}
	assert_int_equal(peal_match(r->p, keys, 5000, &in_memory, NULL), 5000);
	assert_int_equal(in_memory, 5000);
	while ((n = peal_list(r->p, total ? &last : NULL, listed, 777, NULL)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			uint32_t id;

			memcpy(&id, listed[i].b, sizeof(id));
			assert_true(listed[i].len == 4 && id < 5000 && !seen[id]);
			seen[id] = true;
		}
		total += (size_t)n;
		last = listed[n - 1];
	}
	assert_int_equal(n, 0);
	assert_int_equal(total, 5000);
	assert_int_equal(peal_del(r->p, &keys[4500], NULL), 0);
	assert_int_equal(peal_match(r->p, keys, 5000, NULL, NULL), 4500);
}

/* SIGSTOP past every deadline, then SIGCONT: no byte of ours changes after a call came back. */
static void test_stopped(void **state)
{
	struct rig *r = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_call soon = {.timeout_ms = 20};
	struct peal_req copied = {
		.op = PEAL_REQ_GET, .key = k, .buf = r->got, .bytes = 1u << 20, .timeout_ms = 20};
	struct peal_req direct = {
		.op = PEAL_REQ_GET, .key = k, .bytes = 1u << 20, .flags = PEAL_DIRECT};
	struct peal_req *reqs[2] = {&copied, &direct}, *done[2];
	struct peal_queue *q;
	struct peal_mem *m;
	pid_t pid;

	fill(r->v, BIG, 2);
	assert_int_equal(peal_put(r->p, &k, r->v, 1u << 20, NULL), 0);
	assert_int_equal(peal_queue_open(r->p, 16, &q), 0);
	assert_int_equal(peal_mem_alloc(r->p, 1u << 20, &m), 0);
	direct.buf = peal_mem_ptr(m);
	assert_int_equal(daemons(r, 1, &pid), 1);

	stop(pid);
	assert_int_equal(peal_submit(q, reqs, 2), 2);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(peal_get(r->p, &k, r->got, BIG, &soon), -ETIMEDOUT);
		assert_int_equal(peal_get(r->p, &k, r->got, 4096, &soon), -ETIMEDOUT);
		assert_int_equal(peal_put(r->p, &k, r->got, 100000, &soon), -ETIMEDOUT);
	}
	assert_int_equal(peal_reap(q, done, 2, 10000), 1);
	assert_ptr_equal(done[0], &copied);
	assert_int_equal(copied.res, -ETIMEDOUT);
	memset(r->got, 0xc3, BIG);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(peal_reap(q, done, 2, 10000), 1);
	assert_ptr_equal(done[0], &direct);
	/* The queues of the calls have been worked off when a call on them is answered. */
	while (peal_exist(r->p, &k, NULL) < 0)
		;
	assert_int_equal(peal_flush(r->p, NULL), 0);
	for (size_t i = 0; i < BIG; i++)
		if (r->got[i] != 0xc3)
			fail_msg("byte %zu changed", i);
	peal_queue_close(q);
	assert_int_equal(peal_mem_free(r->p, m), 0);
}

struct worker {
	struct rig *r;
	uint64_t id;
	_Atomic bool *is_over;
	_Atomic uint64_t nr_hits;
	uint64_t nr_misses, nr_lost;
	char wrong[256]; /* cmocka's assertions are for its own thread */
	pthread_t thread;
};

static bool may_fail(ssize_t n)
{
	return n == -ENOENT || n == -ENOTCONN || n == -EAGAIN;
}

/* Values of one's own keys: right, or a miss, or an error that may be; never anything else. */
static void *work(void *arg)
{
	struct worker *w = arg;
	uint8_t *v = malloc(100000), *got = malloc(100000);

	unit_thread_begin();
	for (uint64_t i = 0; !atomic_load(w->is_over) && !w->wrong[0]; i++) {
		uint64_t id[2] = {w->id, i % 8};
		struct peal_key k = peal_key_bytes(id, sizeof(id));
		/* The daemon stands still for as long as a loaded machine wants. */
		struct peal_call get = {.timeout_ms = 60000}, put = get;
		ssize_t n = peal_get(w->r->p, &k, got, 100000, &get);
		size_t bytes = 1 + (id[1] * 7919 + w->id * 977) % 100000;

		fill(v, bytes, w->id * 8 + id[1]);
		w->nr_hits += n >= 0;
		w->nr_misses += n == -ENOENT;
		w->nr_lost += n == -ENOTCONN;
		if (n == -ENOTCONN)
			poll(NULL, 0, 1);
		if (n >= 0 && ((size_t)n != bytes || memcmp(got, v, bytes) != 0))
			snprintf(w->wrong, sizeof(w->wrong), "get: wrong bytes");
		else if (n < 0 && !may_fail(n))
			snprintf(w->wrong, sizeof(w->wrong), "get: %zd %s", n, peal_errmsg());
		if (n != -ENOENT)
			continue;
		n = peal_put(w->r->p, &k, v, bytes, &put);
		if (n < 0 && !may_fail(n))
			snprintf(w->wrong, sizeof(w->wrong), "put: %zd %s", n, peal_errmsg());
	}
	free(v);
	free(got);
	return NULL;
}

/* Until every thread has had this many hits more, or has something to tell. */
static void wait_hits(struct worker *w, uint64_t nr)
{
	for (unsigned i = 0; i < NR_THREADS; i++) {
		uint64_t until = atomic_load(&w[i].nr_hits) + nr;

		while (atomic_load(&w[i].nr_hits) < until && !w[i].wrong[0])
			poll(NULL, 0, 1);
	}
}

/* What a test says that must not end while its threads run. */
#define SAY(why, cond) \
	do { \
		if (!(cond) && !(why)[0]) \
			snprintf(why, sizeof(why), "line %d: %s", __LINE__, #cond); \
	} while (0)

/* One daemon's life and end; "" or what was wrong. */
static void kill_one(struct rig *r, struct worker *w, struct peal_queue *q, unsigned kills,
		     char why[256])
{
	char said[256] = "";
	static struct peal_req direct; /* the queue's, if this fails */
	struct peal_req *done, *ptr = &direct;
	struct peal_stats st = {0};
	pid_t pid = 0;

	direct = (struct peal_req){.op = PEAL_REQ_PUT,
				   .key = peal_key_text("k"),
				   .flags = PEAL_DIRECT,
				   .bytes = 4096,
				   .buf = r->direct};
	SAY(said, daemons(r, kills, &pid) == kills);
	wait_hits(w, 20);
	stop(pid);
	while (peal_submit(q, &ptr, 1) != 1)
		poll(NULL, 0, 5);
	SAY(said, peal_reap(q, &done, 1, 10) == 0);
	kill(pid, SIGKILL);
	SAY(said, peal_reap(q, &done, 1, 10000) == 1);
	SAY(said, direct.res == -ENOTCONN);
	while (!said[0] && st.reconnects < kills) {
		poll(NULL, 0, 5);
		peal_stats(r->p, &st);
	}
	/* The same queue and memory, with the next daemon. */
	SAY(said, peal_submit(q, &ptr, 1) == 1);
	SAY(said, peal_reap(q, &done, 1, 10000) == 1);
	SAY(said, direct.res == 0);
	if (said[0])
		snprintf(why, 256, "daemon %u: %.200s: %.30s", kills, said, peal_errmsg());
}

/* kill -9 under load, again and again: calls fail cleanly, then work by themselves. */
static void test_killed(void **state)
{
	struct rig *r = *state;
	struct worker w[NR_THREADS];
	_Atomic bool is_over = false;
	char why[256] = "";
	struct peal_queue *q;
	struct peal_mem *m;

	assert_int_equal(peal_queue_open(r->p, 16, &q), 0);
	assert_int_equal(peal_mem_alloc(r->p, 8192, &m), 0);
	r->direct = peal_mem_ptr(m);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		w[i] = (struct worker){.r = r, .id = i, .is_over = &is_over};
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	/* No assertion before the threads have ended: teardown takes away what they use. */
	for (unsigned kills = 1; kills <= 3 && !why[0]; kills++)
		kill_one(r, w, q, kills, why);
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		printf("thread %u: %llu hits, %llu misses, %llu lost\n", i,
		       (unsigned long long)w[i].nr_hits, (unsigned long long)w[i].nr_misses,
		       (unsigned long long)w[i].nr_lost);
	}
	assert_string_equal(why, "");
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_string_equal(w[i].wrong, "");
}

/* Many processes at once: one daemon. */
static void test_race(void **state)
{
	struct rig *r = *state;
	char dir[80];
	pid_t pids[6], pid = 0;
	struct rig other = {0};
	int status;

	snprintf(dir, sizeof(dir), "%s/second", r->dir);
	snprintf(other.dir, sizeof(other.dir), "%.60s", dir);
	snprintf(other.uri, sizeof(other.uri), "spawn:%s?dram=64M&linger=1", dir);
	for (unsigned i = 0; i < 6; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct peal_key k = peal_key_text("k");
			struct peal *p;

			if (peal_open(other.uri, NULL, &p) < 0 || peal_put(p, &k, "x", 1, NULL) < 0)
				_exit(1);
			peal_close(p);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	assert_int_equal(daemons(&other, 1, &pid), 1);
	while (kill(pid, 0) == 0)
		poll(NULL, 0, 10);
}

/* In a child: whether the daemon's standard files are what they should be. */
static bool has_std(pid_t pid)
{
	char path[64], is[PATH_MAX];
	ssize_t n;

	for (int fd = 0; fd < 3; fd++) {
		const char *end = fd ? "/fourth/peald.log" : "/dev/null";
		size_t len = strlen(end);

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
		n = readlink(path, is, sizeof(is));
		if (n < (ssize_t)len || memcmp(is + n - len, end, len))
			return false;
	}
	return true;
}

/* A starter that has closed some of its standard files: the daemon's are its log all the same. */
static void test_closed_std(void **state)
{
	struct rig *r = *state;
	struct rig other = {0};
	pid_t child, pid = 0;
	int status;

	snprintf(other.dir, sizeof(other.dir), "%.40s/fourth", r->dir);
	snprintf(other.uri, sizeof(other.uri), "spawn:%s?dram=64M&linger=1", other.dir);
	for (unsigned closed = 1; closed < 8; closed++) {
		child = fork();
		if (child == 0) {
			struct peal_key k = peal_key_text("k");
			struct peal *p;

			for (int fd = 0; fd < 3; fd++)
				if (closed >> fd & 1)
					close(fd);
			if (peal_open(other.uri, NULL, &p) || peal_put(p, &k, "x", 1, NULL))
				_exit(1);
			alarm(20); /* for a log that never comes */
			daemons(&other, closed, &pid);
			_exit(has_std(pid) ? 0 : 2);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		assert_int_equal(daemons(&other, closed, &pid), closed);
		kill(pid, SIGTERM);
		while (kill(pid, 0) == 0)
			poll(NULL, 0, 1);
	}
}

static void test_no_daemon(void **state)
{
	struct rig *r = *state;
	char uri[128], *before = strdup(getenv("PEALD"));
	struct peal *p;

	snprintf(uri, sizeof(uri), "spawn:%s/third", r->dir);
	setenv("PEALD", "/nonexistent/peald", 1);
	assert_int_equal(peal_open(uri, NULL, &p), -ENOENT);
	assert_non_null(strstr(peal_errmsg(), "/nonexistent/peald"));
	/* One that says something and exits is quoted. */
	setenv("PEALD", "/bin/ls", 1);
	assert_int_equal(peal_open(uri, NULL, &p), -EIO);
	assert_non_null(strstr(peal_errmsg(), "--help"));
	/* One that says nothing isn't given its predecessor's words. */
	setenv("PEALD", "/bin/false", 1);
	assert_int_equal(peal_open(uri, NULL, &p), -EIO);
	assert_non_null(strstr(peal_errmsg(), "not a word"));
	setenv("PEALD", before, 1);
	free(before);
}

static void test_operator(void **state)
{
	struct rig *r = *state;
	uint32_t nsid = 0, list[8];
	struct peal_key k = peal_key_text("k");
	struct peal_info info;
	struct peal *op, *second;
	char b;

	assert_int_equal(peal_ns_create(r->p, 16u << 20, &nsid), -EACCES);
	assert_int_equal(peal_open(r->uri, &(struct peal_opts){.is_operator = true}, &op), 0);
	/* All of the memory is the first one's. */
	assert_int_equal(peal_ns_create(op, 64u << 20, &nsid), -ENOSPC);
	assert_int_equal(peal_ns_resize(op, 1, 128u << 20), 0);
	assert_int_equal(peal_ns_create(op, 64u << 20, &nsid), 0);
	assert_int_equal(peal_ns_list(op, list, 8), 2);
	assert_int_equal(peal_open(r->uri, &(struct peal_opts){.nsid = nsid}, &second), 0);
	assert_int_equal(peal_info(second, &info), 0);
	assert_int_equal(info.capacity_bytes, 64u << 20);
	/* A key space of its own. */
	assert_int_equal(peal_put(second, &k, "x", 1, NULL), 0);
	assert_int_equal(peal_get(r->p, &k, &b, 1, NULL), -ENOENT);
	assert_int_equal(peal_ns_delete(op, nsid), 0);
	assert_int_equal(peal_get(second, &k, &b, 1, NULL), -EINVAL);
	peal_close(second);
	peal_close(op);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ranges_and_meta, setup, teardown),
		cmocka_unit_test_setup_teardown(test_match_and_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_race, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_std, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_daemon, setup, teardown),
		cmocka_unit_test_setup_teardown(test_operator, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
