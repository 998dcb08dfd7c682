/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A domain of memory for tests whose copies finish in later turns, in any order, and may fail: what
 * the engine must bear from a GPU. It stands where HIP would. One thread; the settings are global.
 */
#pragma once

#include "base/rng.h"
#include "mem/mem_domain.h"

struct mem_fake_stats {
	uint64_t nr_copies;
	uint64_t nr_failed;
	uint32_t nr_out; /* under way now */
	uint32_t most_out;
};

extern struct mem_fake_stats mem_fake_stats;

/* Once per process, before the first engine. fail_1024: the chance that a copy fails. */
void mem_fake_init(uint64_t seed);
void mem_fake_set_fail(uint32_t fail_1024);
struct mem_region *mem_fake_region(void *base, uint64_t len, uint32_t flags);
