/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside mem/ and its tests: code that touches a peer's memory runs under a guard. A fault at an
 * address in the guard's range, on this thread, ends the call with -EFAULT; any other fault is a
 * bug and goes to whoever handled it before us.
 *
 * 	static int read_it(struct mem_guard *g, void *arg)
 * 	{
 * 		mem_guard_range(g, peer, len);
 * 		memcpy(mine, peer, len);
 * 		return 0;
 * 	}
 * 	err = mem_guard_call(read_it, arg);
 *
 * The guarded function holds nothing that must be given back, since it may not return. Guards nest.
 * Any thread; a guard costs about 3 ns.
 */
#ifndef MEM_MEM_GUARD_H
#define MEM_MEM_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "mem/mem_guard_jmp.h"

#define MEM_GUARD_PAGE 4096u

struct mem_guard {
	mem_guard_jmp jmp;
	uintptr_t lo, hi; /* faults in [lo, hi) are caught */
	struct mem_guard *outer;
};

/* What fn returns, or -EFAULT. Nothing is caught until fn sets a range. */
int mem_guard_call(int (*fn)(struct mem_guard *g, void *arg), void *arg);

/* Whole pages, as the processor may report any byte of an access that straddles. */
static inline void mem_guard_range(struct mem_guard *g, const void *p, size_t len)
{
	g->lo = (uintptr_t)p & ~(uintptr_t)(MEM_GUARD_PAGE - 1);
	g->hi = ((uintptr_t)p + len + MEM_GUARD_PAGE - 1) & ~(uintptr_t)(MEM_GUARD_PAGE - 1);
	/* The handler runs on this thread: the compiler alone could come in between. */
	__asm__ volatile("" : : : "memory");
}

static inline void mem_guard_no_range(struct mem_guard *g)
{
	__asm__ volatile("" : : : "memory");
	g->hi = g->lo = 0;
}

#endif
