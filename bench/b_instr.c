/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench/instr counts under callgrind: 4 KiB Retrieves by replay, one reactor stepped by this
 * thread, everything else outside the counted part. Arguments: number of commands.
 */
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

#include "bench_node.h"
#include "nvme/nvme_kv.h"

int main(int argc, char **argv)
{
	uint64_t nr = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
	struct bench_node_opts o = {
		.nr_workers = 1,
		.depth = 32,
		.dram_bytes = 64u << 20,
		.nr_keys = 8192,
		.value_bytes = 4096,
		.opc = argc > 2 ? NVME_KV_EXIST : 0,
	};
	struct bench_node *n = bench_node_create(&o);

	bench_node_run(n, 1024, 0);
	CALLGRIND_TOGGLE_COLLECT;
	nr = bench_node_run(n, nr, 0);
	CALLGRIND_TOGGLE_COLLECT;
	bench_node_destroy(n);
	printf("%llu\n", (unsigned long long)nr);
	return 0;
}
