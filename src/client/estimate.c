/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_estimate(): what loading would take, by what it took before. estimate_add() is told of each
 * large get; two rates per handle, each a mean that halves every eight gets, kept as time per MiB
 * so that a slow one counts as much as it lasts. Lost updates of threads that come at once are
 * nothing: it is an estimate. Any thread.
 */
#include "client/estimate.h"

#include <errno.h>

#include "base/mono.h"
#include "client/call.h"
#include "client/errmsg.h"

#define ESTIMATE_UNIT (1u << 20)
#define ESTIMATE_WEIGHT 12u /* of 1/12 for the newest: half after eight */
#define ESTIMATE_MEMORY_NS (MONO_NS_PER_S * ESTIMATE_UNIT / 4000000000u)
#define ESTIMATE_BELOW_NS (MONO_NS_PER_S * ESTIMATE_UNIT / 1000000000u)

void estimate_add(_Atomic uint64_t *ns_per_mib, uint64_t bytes, uint64_t ns)
{
	uint64_t now = bytes ? (uint64_t)((double)ns * ESTIMATE_UNIT / (double)bytes) : 0;
	uint64_t was = atomic_load_explicit(ns_per_mib, memory_order_relaxed);

	if (!now)
		return;
	if (was)
		now = (was * (ESTIMATE_WEIGHT - 1) + now) / ESTIMATE_WEIGHT;
	atomic_store_explicit(ns_per_mib, now ? now : 1, memory_order_relaxed);
}

/* Microseconds for that many bytes. */
static uint64_t estimate_us(uint64_t bytes, uint64_t ns_per_mib)
{
	return (uint64_t)((double)bytes / ESTIMATE_UNIT * (double)ns_per_mib / 1000);
}

static uint64_t estimate_rate(uint64_t ns_per_mib)
{
	return MONO_NS_PER_S * ESTIMATE_UNIT / ns_per_mib;
}

int peal_estimate(struct peal *p, const struct peal_key *keys, size_t nr, uint64_t value_bytes,
		  struct peal_estimate *e)
{
	uint64_t memory_ns = atomic_load_explicit(&p->ns_per_mib[ESTIMATE_MEMORY],
						  memory_order_relaxed);
	uint64_t below_ns = atomic_load_explicit(&p->ns_per_mib[ESTIMATE_BELOW],
						 memory_order_relaxed);
	struct peal_estimate got = {0};
	size_t in_memory = 0;
	ssize_t n;

	if (!value_bytes || value_bytes > PEAL_VALUE_MAX)
		return errmsg_set(-EINVAL, "estimate: values of %llu bytes, expected 1 to %u",
				  (unsigned long long)value_bytes, PEAL_VALUE_MAX);
	n = peal_match(p, keys, nr, &in_memory, NULL);
	if (n < 0)
		return (int)n;
	got.present = (uint32_t)n;
	got.in_memory = (uint32_t)in_memory;
	got.is_measured = (memory_ns || !in_memory) && (below_ns || (size_t)n == in_memory);
	memory_ns = memory_ns ? memory_ns : ESTIMATE_MEMORY_NS;
	below_ns = below_ns ? below_ns : ESTIMATE_BELOW_NS;
	got.memory_bytes_per_s = estimate_rate(memory_ns);
	got.below_bytes_per_s = estimate_rate(below_ns);
	got.memory_us = estimate_us(value_bytes * in_memory, memory_ns);
	got.load_us = got.memory_us + estimate_us(value_bytes * ((size_t)n - in_memory), below_ns);
	*e = got;
	return 0;
}
