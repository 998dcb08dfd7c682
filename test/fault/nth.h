/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that a sweep shares with a program under test: which event is to fail, and what
 * happened. Three processes map it: the driver (nth.py, which knows this layout too), nth_run,
 * which sees the program's system calls, and the program itself, through nth_shim.so, which sees
 * its allocations. All fields are 64 bits, so that nobody needs this header to read them.
 *
 *	an event      an allocation, or a system call that nth_run's table names
 *	count         events since the driver has set it to 0
 *	fail_at       that one fails; with NTH_ALL_AFTER all from there on; 0: none
 */
#ifndef FAULT_NTH_H
#define FAULT_NTH_H

#include <stdatomic.h>
#include <stdint.h>

#define NTH_ALLOCS 1u
#define NTH_CALLS 2u
#define NTH_ALL_AFTER 4u
#define NTH_FRAMES 12u

struct nth_page {
	_Atomic uint64_t mode; /* NTH_*; 0: nothing is counted */
	_Atomic uint64_t count;
	_Atomic uint64_t fail_at;
	_Atomic uint64_t nr_failed;
	_Atomic uint64_t nr_live; /* blocks that are allocated now */
	_Atomic uint64_t is_on;	  /* main() is near: the loader's own are not counted */
	_Atomic uint64_t pid;	  /* of the program */
	_Atomic uint64_t listener;
	_Atomic uint64_t base;	    /* of the program in its memory */
	_Atomic uint64_t nr_frames; /* of the first allocation that failed */
	uint64_t frame[NTH_FRAMES];
	char what[168]; /* the first that failed, for people */
};

static inline int nth_is_due(struct nth_page *p, uint64_t kind)
{
	uint64_t mode = atomic_load(&p->mode), at, n;

	if (!(mode & kind) || !atomic_load(&p->is_on))
		return 0;
	n = atomic_fetch_add(&p->count, 1) + 1;
	at = atomic_load(&p->fail_at);
	if (at == 0 || n < at || (n > at && !(mode & NTH_ALL_AFTER)))
		return 0;
	return atomic_fetch_add(&p->nr_failed, 1) == 0 ? 1 : 2; /* 1: the first */
}

#endif
