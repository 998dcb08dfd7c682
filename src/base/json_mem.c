/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See json_mem.h. The reserve is untouched, and so costs nothing, until it is needed. What it gives
 * out is one behind the other; it starts again when none is left.
 */
#include "base/json_mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MEM_ALIGN 16u

static _Alignas(MEM_ALIGN) char mem_reserve[JSON_MEM_RESERVE_BYTES];
static pthread_mutex_t mem_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t mem_at, mem_nr_live;
static _Atomic uint64_t mem_failed;

void *json_mem_reserve(size_t n)
{
	size_t bytes = (n + MEM_ALIGN - 1) & ~(size_t)(MEM_ALIGN - 1);
	void *p = NULL;

	atomic_fetch_add_explicit(&mem_failed, 1, memory_order_relaxed);
	pthread_mutex_lock(&mem_lock);
	if (bytes >= n && bytes <= sizeof(mem_reserve) - mem_at) {
		p = mem_reserve + mem_at;
		mem_at += bytes;
		mem_nr_live++;
	}
	pthread_mutex_unlock(&mem_lock);
	return p;
}

void *json_mem_alloc(size_t n)
{
	void *p = malloc(n);

	return p ? p : json_mem_reserve(n);
}

void json_mem_free(void *p)
{
	uintptr_t at = (uintptr_t)p, begin = (uintptr_t)mem_reserve;

	if (at < begin || at >= begin + sizeof(mem_reserve)) {
		free(p);
		return;
	}
	pthread_mutex_lock(&mem_lock);
	if (--mem_nr_live == 0)
		mem_at = 0;
	pthread_mutex_unlock(&mem_lock);
}

uint64_t json_mem_failed(void)
{
	return atomic_load_explicit(&mem_failed, memory_order_relaxed);
}
