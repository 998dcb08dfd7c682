/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What device.h asks of the machine it runs on, for C11 and C++17, CUDA and HIP: the compiler says
 * which. Who defines PEAL_PORT brings these functions himself, before device.h.
 *
 *   peal_port_store()   16 bytes into an SQE or a PRP list; nobody need see them yet
 *   peal_port_bell()    a doorbell: all that this lane, and those it has met since, wrote before
 *                       is seen by every agent of the system that sees it (system-scope release)
 *   peal_port_poll()    8 bytes with acquire at system scope
 *   peal_port_load()    8 bytes, relaxed, system scope; never from a cache that isn't coherent
 *   peal_port_word()    the same, 4 bytes
 *   peal_port_meet()    barrier of a group: 1 when all its lanes said 1
 *   peal_port_ns()      a clock that only grows, ns
 *   peal_port_pause()   between two looks
 *
 * On a CPU with more lanes than cores, PEAL_PORT_PAUSE (sched_yield, say) is what a pause calls.
 * All in generic address space, naturally aligned. No shared memory, no shuffle, no wave size.
 */
#ifndef PEAL_PORT_H
#define PEAL_PORT_H

#include <stdint.h>
#include "ring.h"

/*
 * One of `nr` lanes that work on a queue pair together: lane `id`. On a GPU a group is one thread
 * (nr = 1) or all threads of a block, since the barrier is the block's; on a CPU it is as many
 * threads as the caller's meet() waits for.
 */
struct peal_lane {
	uint32_t id;
	uint32_t nr;
	int (*meet)(void *arg, int ok); /* CPU, nr > 1: a barrier that also answers for all */
	void *arg;
};

/* Halves of an SQE or a CQE, which others know as structs. */
typedef uint64_t __attribute__((__may_alias__)) peal_port_u64;

#ifndef PEAL_PORT
#define PEAL_PORT

#if defined(__CUDA_ARCH__)

PEAL_FN void peal_port_store(void *to, uint64_t lo, uint64_t hi)
{
	asm volatile("st.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(lo), "l"(hi) : "memory");
}

PEAL_FN void peal_port_bell(volatile uint32_t *bell, uint32_t v)
{
	asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(bell), "r"(v) : "memory");
}

PEAL_FN uint64_t peal_port_poll(const volatile peal_port_u64 *p)
{
	uint64_t v;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

PEAL_FN uint64_t peal_port_load(const volatile peal_port_u64 *p)
{
	uint64_t v;

	asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

PEAL_FN uint32_t peal_port_word(const volatile uint32_t *p)
{
	uint32_t v;

	asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

PEAL_FN int peal_port_meet(const struct peal_lane *l, int ok)
{
	return l->nr > 1 ? __syncthreads_and(ok) != 0 : ok;
}

PEAL_FN uint64_t peal_port_ns(void)
{
	uint64_t v;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v));
	return v;
}

PEAL_FN void peal_port_pause(void)
{
}

#elif defined(__HIP_DEVICE_COMPILE__) && __HIP_DEVICE_COMPILE__

PEAL_FN void peal_port_store(void *to, uint64_t lo, uint64_t hi)
{
	peal_port_u64 *at = (peal_port_u64 *)to;

	__hip_atomic_store(at, lo, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
	__hip_atomic_store(at + 1, hi, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

PEAL_FN void peal_port_bell(volatile uint32_t *bell, uint32_t v)
{
	__hip_atomic_store(bell, v, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

PEAL_FN uint64_t peal_port_poll(const volatile peal_port_u64 *p)
{
	return __hip_atomic_load(p, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}

PEAL_FN uint64_t peal_port_load(const volatile peal_port_u64 *p)
{
	return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

PEAL_FN uint32_t peal_port_word(const volatile uint32_t *p)
{
	return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

PEAL_FN int peal_port_meet(const struct peal_lane *l, int ok)
{
	return l->nr > 1 ? __syncthreads_and(ok) != 0 : ok;
}

/* The constant clock: 100 MHz from gfx9 to gfx10. */
PEAL_FN uint64_t peal_port_ns(void)
{
	return __builtin_amdgcn_s_memrealtime() * 10;
}

PEAL_FN void peal_port_pause(void)
{
	__builtin_amdgcn_s_sleep(1);
}

#else

#include <time.h>

PEAL_FN void peal_port_store(void *to, uint64_t lo, uint64_t hi)
{
	__atomic_store_n((peal_port_u64 *)to, lo, __ATOMIC_RELAXED);
	__atomic_store_n((peal_port_u64 *)to + 1, hi, __ATOMIC_RELAXED);
}

PEAL_FN void peal_port_bell(volatile uint32_t *bell, uint32_t v)
{
	__atomic_store_n(bell, v, __ATOMIC_RELEASE);
}

PEAL_FN uint64_t peal_port_poll(const volatile peal_port_u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

PEAL_FN uint64_t peal_port_load(const volatile peal_port_u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

PEAL_FN uint32_t peal_port_word(const volatile uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

PEAL_FN int peal_port_meet(const struct peal_lane *l, int ok)
{
	return l->nr > 1 ? l->meet(l->arg, ok) : ok;
}

#if defined(CLOCK_MONOTONIC)
PEAL_FN uint64_t peal_port_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
#else
/* C11 without POSIX has no better one: set back, it makes waits longer. */
PEAL_FN uint64_t peal_port_ns(void)
{
	struct timespec ts;

	timespec_get(&ts, TIME_UTC);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
#endif

#if defined(PEAL_PORT_PAUSE)
PEAL_FN void peal_port_pause(void)
{
	PEAL_PORT_PAUSE();
}
#elif defined(__x86_64__) || defined(__i386__)
PEAL_FN void peal_port_pause(void)
{
	__builtin_ia32_pause();
}
#else
PEAL_FN void peal_port_pause(void)
{
	__asm__ volatile("" ::: "memory");
}
#endif

#endif
#endif /* PEAL_PORT */

#endif
