/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No answer with something left out. Without memory jansson leaves out what it is given: an element
 * that is NULL isn't appended, a value isn't set, and whoever builds a document of many parts would
 * have to look at each. Here every allocation of jansson's that fails is counted, and a request
 * during which the count has changed is answered with an error, whatever was built for it (rpc.c).
 * Who was under way beside it is refused with it: that is rare, and no lie. Any thread.
 * tidy: no-test: t_rpc.c plants a failure
 */
#include "ctl/rpc.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint64_t mem_failed;

static void *mem_alloc(size_t n)
{
	void *p = malloc(n);

	if (!p)
		atomic_fetch_add_explicit(&mem_failed, 1, memory_order_relaxed);
	return p;
}

void rpc_mem_init(void)
{
	json_set_alloc_funcs(mem_alloc, free);
}

uint64_t rpc_mem_failed(void)
{
	return atomic_load_explicit(&mem_failed, memory_order_relaxed);
}
