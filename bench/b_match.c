/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match-1024: peal_match() of 1024 random keys that are all present, index of 10^6 entries: the
 * longest answer that MATCH has to give. Median of the calls in microseconds. idle: the daemon's
 * CPU time while a client is attached and silent, and the first answer after such a silence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/mono.h"
#include "base/rng.h"
#include "bench.h"

#define KEYS 1000000u
#define BYTES 1024u
#define MATCH 1024u
#define CALLS 2000u
#define IDLE_SECONDS 3
#define WAKES 50u

static bool figure_match(struct peal *p)
{
	struct peal_key *keys = calloc(MATCH, sizeof(*keys));
	double round[BENCH_ROUNDS];
	uint64_t *lat = calloc(CALLS, sizeof(*lat)), start;
	struct rng rng;
	ssize_t n;

	rng_init(&rng, 1);
	bench_fill(p, 0, KEYS, BYTES);
	for (unsigned r = 0; r < BENCH_ROUNDS; r++) {
		for (unsigned i = 0; i < CALLS; i++) {
			for (unsigned k = 0; k < MATCH; k++)
				keys[k] = bench_key(rng_below(&rng, KEYS));
			start = mono_ns();
			n = peal_match(p, keys, MATCH, NULL, NULL);
			lat[i] = mono_ns() - start;
			bench_must((int)n, "match");
			bench_must(n == MATCH ? 0 : -5, "match: not all keys found");
		}
		round[r] = (double)bench_percentile(lat, CALLS, 50) / 1e3;
		printf("  match-1024 round %u: p50 %.1f us, p99 %.1f us\n", r, round[r],
		       (double)bench_percentile(lat, CALLS, 99) / 1e3);
	}
	free(keys);
	free(lat);
	round[0] = bench_median(round, BENCH_ROUNDS);
	return bench_report(&(struct bench_figure){
		.id = "match-1024",
		.value = round[0],
		.unit = "us",
		.ratio = round[0],
		.goal = 100,
		.sense = BENCH_AT_MOST,
	});
}

/* utime + stime of a process, seconds. */
static double cpu_seconds(pid_t pid)
{
	auto_fclose FILE *f = NULL;
	unsigned long ut = 0, st = 0;
	char path[64], buf[1024];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(buf, sizeof(buf), f))
		bench_must(-5, path);
	p = strrchr(buf, ')');
	if (!p ||
	    sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &ut, &st) != 2)
		bench_must(-5, path);
	return (double)(ut + st) / (double)sysconf(_SC_CLK_TCK);
}

static bool figure_idle(struct peal *p, pid_t pid)
{
	double share[3], wake[WAKES], t;
	struct peal_key k = bench_key(1);
	uint64_t start;
	bool holds;

	for (unsigned i = 0; i < 3; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
		t = cpu_seconds(pid);
		nanosleep(&(struct timespec){.tv_sec = IDLE_SECONDS}, NULL);
		share[i] = (cpu_seconds(pid) - t) / IDLE_SECONDS * 100;
		printf("  idle round %u: %.2f %% of a core\n", i, share[i]);
	}
	for (unsigned i = 0; i < WAKES; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
		start = mono_ns();
		bench_must(peal_exist(p, &k, NULL), "exist");
		wake[i] = (double)(mono_ns() - start) / 1e6;
	}
	t = bench_median(wake, WAKES);
	printf("  idle: first answer %.3f ms median, %.3f ms worst of %u\n", t, wake[WAKES - 1],
	       WAKES);
	share[0] = bench_median(share, 3);
	holds = share[0] < 1 && t <= 1;
	return bench_report(&(struct bench_figure){
		.id = "idle",
		.value = share[0],
		.unit = "%cpu",
		.ratio = holds ? max_t(double, share[0], t) : 2,
		.goal = 1,
		.sense = BENCH_AT_MOST,
	});
}

int main(int argc, char **argv)
{
	const char *args[] = {"--dram", "3G", "--max-keys", "1200000", NULL};
	const char *only = argc > 1 ? argv[1] : "";
	struct bench_daemon d;
	struct peal *p;
	bool holds = true;

	bench_daemon_start(&d, 0, args);
	bench_pin(1);
	p = bench_open(&d);
	if (!*only || !strcmp(only, "match-1024"))
		holds &= figure_match(p);
	if (!*only || !strcmp(only, "idle")) {
		bench_fill(p, 0, 100, BYTES);
		holds &= figure_idle(p, d.pid);
	}
	peal_close(p);
	bench_daemon_stop(&d);
	return holds ? 0 : 1;
}
