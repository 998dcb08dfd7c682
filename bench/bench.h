/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of bench/ share: a private daemon, the limit beside it, medians, and the line
 * that bench/check reads. A figure is a ratio of two things measured alternately in one run on one
 * machine; only that ratio decides.
 *
 *	ID value unit ratio goal holds|short|recorded
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "peal/peal.h"

#define BENCH_ROUNDS 9 /* alternations; odd, so that the median is one of them */

/*
 * A peald of our own in a scratch folder, pinned to `cpu` (-1 = not); ends with
 * bench_daemon_stop(). Exits the program with a message when it can't be started: a figure without
 * its daemon is no figure. argv: further options, NULL-terminated.
 */
struct bench_daemon {
	char dir[64];
	char uri[96];
	pid_t pid;
};
void bench_daemon_start(struct bench_daemon *d, int cpu, const char *const *argv);
void bench_daemon_stop(struct bench_daemon *d);
struct peal *bench_open(const struct bench_daemon *d);

void bench_pin(int cpu);		     /* this thread; nothing when there are fewer cores */
double bench_median(double *v, unsigned nr); /* sorts v */
uint64_t bench_percentile(uint64_t *v, size_t nr, double p); /* sorts v */
struct peal_key bench_key(uint64_t i);			     /* 16 bytes, the same for the same i */
void bench_value(uint64_t i, void *buf, size_t bytes);	     /* derived from the key */
bool bench_value_ok(uint64_t i, const void *buf, size_t bytes);
void bench_must(int rc, const char *what); /* rc < 0: says what and why, exits with 1 */

enum bench_sense {
	BENCH_AT_LEAST,
	BENCH_AT_MOST,
	BENCH_RECORD, /* no goal, or its peer isn't here */
};
struct bench_figure {
	const char *id;
	double value;
	const char *unit;
	double ratio; /* what is compared with goal; the value itself when the goal is absolute */
	double goal;
	enum bench_sense sense;
};
/* Prints the line; returns true when it holds (or is only recorded). */
bool bench_report(const struct bench_figure *f);

/* Puts keys [first, first + nr) of `bytes` each through a queue of `depth`. */
void bench_fill(struct peal *p, uint64_t first, uint64_t nr, size_t bytes);

#endif
