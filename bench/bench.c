/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Daemons, medians, keys and values, and the line that bench/check reads: see bench.h. The main
 * thread's.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/mono.h"
#include "bench.h"

#define DAEMON_ARGS_MAX 24
#define DAEMON_WAIT_NS 10000000000ull

void bench_must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "bench: %s: %s (%s)\n", what, strerror(-rc), peal_errmsg());
	exit(1);
}

void bench_pin(int cpu)
{
	const char *map = getenv("PEAL_BENCH_CPUS");
	int first, second;
	cpu_set_t set;

	if (map && cpu >= 0 && cpu < 2 && sscanf(map, "%d,%d", &first, &second) == 2)
		cpu = cpu ? second : first;
	if (cpu < 0 || cpu >= sysconf(_SC_NPROCESSORS_ONLN))
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void daemon_exec(const struct bench_daemon *d, int cpu, const char *const *argv)
{
	const char *args[DAEMON_ARGS_MAX] = {"peald", "--dir", d->dir, "--log-level", "warn"};
	const char *bin = getenv("PEALD");
	unsigned n = 5;

	while (*argv && n < DAEMON_ARGS_MAX - 1)
		args[n++] = *argv++;
	args[n] = NULL;
	bench_pin(cpu);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* a bench that is killed leaves no daemon behind */
	execvp(bin ? bin : "peald", (char *const *)(uintptr_t)args);
	fprintf(stderr, "bench: %s: %s (set PEALD to the daemon's path)\n", bin ? bin : "peald",
		strerror(errno));
	_exit(127);
}

void bench_daemon_start(struct bench_daemon *d, int cpu, const char *const *argv)
{
	uint64_t until = mono_ns() + DAEMON_WAIT_NS;
	struct stat st;
	char sock[96];
	int status;

	strcpy(d->dir, "/tmp/peal-bench-XXXXXX");
	if (!mkdtemp(d->dir))
		bench_must(-errno, d->dir);
	snprintf(d->uri, sizeof(d->uri), "vfu:%s/cntrl", d->dir);
	snprintf(sock, sizeof(sock), "%s/cntrl", d->dir);
	d->pid = fork();
	if (d->pid == 0)
		daemon_exec(d, cpu, argv);
	while (stat(sock, &st)) {
		if (waitpid(d->pid, &status, WNOHANG) == d->pid || mono_ns() > until) {
			fprintf(stderr, "bench: peald did not start\n");
			exit(1);
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

void bench_daemon_stop(struct bench_daemon *d)
{
	char sock[96];

	kill(d->pid, SIGTERM);
	waitpid(d->pid, NULL, 0);
	snprintf(sock, sizeof(sock), "%s/cntrl", d->dir);
	unlink(sock);
	rmdir(d->dir);
}

struct peal *bench_open(const struct bench_daemon *d)
{
	struct peal_opts o = {.timeout_ms = 10000};
	struct peal *p = NULL;

	bench_must(peal_open(d->uri, &o, &p), d->uri);
	return p;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *v, unsigned nr)
{
	qsort(v, nr, sizeof(*v), cmp_double);
	return nr % 2 ? v[nr / 2] : (v[nr / 2 - 1] + v[nr / 2]) / 2;
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t bench_percentile(uint64_t *v, size_t nr, double p)
{
	qsort(v, nr, sizeof(*v), cmp_u64);
	return v[min_t(size_t, (size_t)((double)nr * p / 100), nr - 1)];
}

struct peal_key bench_key(uint64_t i)
{
	uint64_t w[2] = {hash_xxh3(&i, 8, 11), i};

	return peal_key_bytes(w, sizeof(w));
}

/*
 * A counter times an odd number of the key: 8 bytes each, any wrong byte shows, as fast as memory.
 */
void bench_value(uint64_t i, void *buf, size_t bytes)
{
	uint64_t seed = hash_xxh3(&i, 8, 12) | 1, w;
	uint8_t *p = buf;

	for (size_t at = 0; at < bytes; at += 8) {
		w = (at + 1) * seed;
		memcpy(p + at, &w, min_t(size_t, 8, bytes - at));
	}
}

bool bench_value_ok(uint64_t i, const void *buf, size_t bytes)
{
	uint64_t seed = hash_xxh3(&i, 8, 12) | 1, w;
	const uint8_t *p = buf;

	for (size_t at = 0; at < bytes; at += 8) {
		w = (at + 1) * seed;
		if (memcmp(p + at, &w, min_t(size_t, 8, bytes - at)))
			return false;
	}
	return true;
}

bool bench_report(const struct bench_figure *f)
{
	bool holds = true;
	const char *verdict = "recorded";

	if (f->sense != BENCH_RECORD) {
		holds = f->sense == BENCH_AT_LEAST ? f->ratio >= f->goal : f->ratio <= f->goal;
		verdict = holds ? "holds" : "short";
	}
	printf("%s %.4g %s %.3f %s%.4g %s\n", f->id, f->value, f->unit, f->ratio,
	       f->sense == BENCH_AT_MOST ? "<=" : ">=", f->goal, verdict);
	fflush(stdout);
	return holds;
}

/* ---- filling ---- */

#define FILL_DEPTH 64

struct fill {
	struct peal_req req[FILL_DEPTH];
	struct peal_req *ptr[FILL_DEPTH];
	uint8_t *buf;
	size_t bytes, stride;
};

static void fill_take(struct fill *fl, struct peal_req *const *done, int n)
{
	for (int i = 0; i < n; i++)
		bench_must(done[i]->res, "put");
}

void bench_fill(struct peal *p, uint64_t first, uint64_t nr, size_t bytes)
{
	unsigned depth = bytes > (1u << 20) ? 4 : FILL_DEPTH;
	struct peal_req *done[FILL_DEPTH];
	struct peal_queue *q;
	struct peal_mem *m;
	struct fill *fl = calloc(1, sizeof(*fl));
	uint64_t at = 0;
	int n;

	fl->bytes = bytes;
	fl->stride = align_up(bytes, (size_t)4096);
	bench_must(peal_queue_open(p, depth, &q), "queue");
	bench_must(peal_mem_alloc(p, fl->stride * depth, &m), "memory");
	fl->buf = peal_mem_ptr(m);
	while (at < nr) {
		unsigned now = (unsigned)min_t(uint64_t, depth, nr - at), got = 0;

		for (unsigned i = 0; i < now; i++) {
			struct peal_req *r = &fl->req[i];

			memset(r, 0, sizeof(*r));
			r->op = PEAL_REQ_PUT;
			r->flags = PEAL_DIRECT;
			r->key = bench_key(first + at + i);
			r->buf = fl->buf + i * fl->stride;
			r->bytes = bytes;
			bench_value(first + at + i, r->buf, bytes);
			fl->ptr[i] = r;
		}
		n = peal_submit(q, fl->ptr, now);
		bench_must(n, "submit");
		for (now = (unsigned)n; got < now; got += (unsigned)n) {
			n = peal_reap(q, done, now - got, 10000);
			bench_must(n ? n : -ETIMEDOUT, "reap");
			fill_take(fl, done, n);
		}
		at += now;
	}
	peal_queue_close(q);
	peal_mem_free(p, m);
	free(fl);
}
