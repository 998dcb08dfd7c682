/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reactors-2: Retrieve of 4 KiB, load made inside each reactor by transport/replay, so that no
 * client's core limits it. One reactor and two reactors in turn, random keys over 1 GiB of values:
 * with two, half of the keys live on the other reactor. Two cores are needed.
 *
 * Beside it, shown and not judged: two reactors that ask for keys of their own only. That is what
 * two cores of this machine give at most, whatever the way between them costs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "bench_node.h"

#define ROUNDS 5
#define KEYS 262144u

static double rate(unsigned nr_workers, int is_local)
{
	struct bench_node_opts o = {
		.nr_workers = nr_workers,
		.depth = 256, /* half of them wait for the other reactor */
		.dram_bytes = 1400ull << 20,
		.nr_keys = KEYS,
		.value_bytes = 4096,
		.is_threaded = 1,
		.is_local = is_local,
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
	double two[ROUNDS], ratio[ROUNDS], most[ROUNDS], share[ROUNDS], one, local;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("reactors-2 0 Mops/s 0 >=1.8 recorded\n");
		return 0;
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		one = rate(1, 0);
		two[i] = rate(2, 0);
		local = rate(2, 1);
		ratio[i] = two[i] / one;
		most[i] = local / one;
		share[i] = two[i] / local;
		printf("  reactors-2 round %u: one %.3f, two %.3f, two with keys of their own %.3f "
		       "M/s, ratio %.2f of at most %.2f\n",
		       i, one, two[i], local, ratio[i], most[i]);
	}
	printf("  reactors-2: two cores give at most %.2f x one here; %.2f of that is reached\n",
	       bench_median(most, ROUNDS), bench_median(share, ROUNDS));
	return !bench_report(&(struct bench_figure){
		.id = "reactors-2",
		.value = bench_median(two, ROUNDS),
		.unit = "Mops/s",
		.ratio = bench_median(ratio, ROUNDS),
		.goal = 1.8,
		.sense = BENCH_AT_LEAST,
	});
}
