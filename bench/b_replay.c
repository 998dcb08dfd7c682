/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reactors-2: Retrieve of 4 KiB, load made inside each reactor by transport/replay, so that no
 * client's core limits it. One reactor and two reactors in turn, random keys over 1 GiB of values:
 * with two, half of the keys live on the other reactor. Two cores are needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "bench_node.h"

#define ROUNDS 5
#define KEYS 262144u

static double rate(unsigned nr_workers)
{
	struct bench_node_opts o = {
		.nr_workers = nr_workers,
		.depth = 256, /* half of them wait for the other reactor */
		.dram_bytes = 1400ull << 20,
		.nr_keys = KEYS,
		.value_bytes = 4096,
		.is_threaded = 1,
	};
	struct bench_node *n = bench_node_create(&o);
	double v[5];

	bench_node_run(n, 0, 200000000);
	for (unsigned i = 0; i < 5; i++)
		v[i] = (double)bench_node_run(n, 0, 500000000) / 0.5e6;
	bench_node_destroy(n);
	return bench_median(v, 5);
}

int main(int argc, char **argv)
{
	double two[ROUNDS], ratio[ROUNDS], one;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("reactors-2 0 Mops/s 0 >=1.8 recorded\n");
		return 0;
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		one = rate(1);
		two[i] = rate(2);
		ratio[i] = two[i] / one;
		printf("  reactors-2 round %u: one %.3f, two %.3f M/s, ratio %.2f\n", i, one,
		       two[i], ratio[i]);
	}
	return !bench_report(&(struct bench_figure){
		.id = "reactors-2",
		.value = bench_median(two, ROUNDS),
		.unit = "Mops/s",
		.ratio = bench_median(ratio, ROUNDS),
		.goal = 1.8,
		.sense = BENCH_AT_LEAST,
	});
}
