/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port layer of peal/device.h over fibres: every access to memory that is shared yields, stores
 * wait in the group's buffer until a doorbell orders them. Included before device.h; one thread.
 */
#pragma once

#include <stdint.h>

#define PEAL_PORT
#include "fibre.h"
#include "peal/port.h"

extern uint64_t fibre_clock_ns; /* the world's */

static inline void peal_port_store(void *to, uint64_t lo, uint64_t hi)
{
	uint64_t v[2] = {lo, hi};

	fibre_store(fibre_group(), to, v, 16);
}

static inline void peal_port_bell(volatile uint32_t *bell, uint32_t v)
{
	fibre_release(fibre_group());
	*bell = v;
	fibre_yield();
}

/* What a doorbell must not be; a mutant's. */
static inline void peal_port_plain(volatile uint32_t *bell, uint32_t v)
{
	uint64_t x = v;

	fibre_store(fibre_group(), (void *)bell, &x, 4);
}

static inline uint64_t peal_port_load(const volatile peal_port_u64 *p)
{
	fibre_yield();
	return *p;
}

static inline uint64_t peal_port_poll(const volatile peal_port_u64 *p)
{
	return peal_port_load(p);
}

static inline uint32_t peal_port_word(const volatile uint32_t *p)
{
	fibre_yield();
	return *p;
}

static inline int peal_port_meet(const struct peal_lane *l, int ok)
{
	return l->nr > 1 ? fibre_meet(fibre_group(), ok) : ok;
}

static inline uint64_t peal_port_ns(void)
{
	return fibre_clock_ns;
}

static inline void peal_port_pause(void)
{
	fibre_yield();
}
