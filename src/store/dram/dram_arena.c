/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See dram_arena.h. Runs on the shard's owner.
 */
#include "store/dram/dram_arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"

#define ARENA_HUGE_TURN 8u /* asked for by one allocation */
#define ARENA_REFUSALS 4u  /* after which the kernel isn't asked any more */

uint64_t dram_arena_seg_cost(uint64_t bytes)
{
	return bytes + dram_buddy_bytes((uint32_t)(bytes / DRAM_GRANULE)) + sizeof(struct dram_seg);
}

int dram_arena_init(struct dram_arena *a)
{
	*a = (struct dram_arena){};
	a->segs = calloc(DRAM_SEGS_MAX, sizeof(*a->segs));
	return a->segs ? 0 : -ENOMEM;
}

static void seg_drop(struct dram_arena *a, uint32_t i)
{
	struct dram_seg *seg = &a->segs[i];

	a->cost_bytes -= dram_arena_seg_cost(seg->reg->len);
	dram_buddy_fini(&seg->buddy);
	mem_region_put(seg->reg);
	seg->reg = NULL;
}

void dram_arena_fini(struct dram_arena *a)
{
	for (uint32_t i = 0; i < a->nr_segs; i++)
		if (a->segs[i].reg)
			seg_drop(a, i);
	free(a->segs);
}

int dram_arena_add(struct dram_arena *a, uint64_t bytes)
{
	struct dram_seg *seg;
	uint32_t i = 0;
	int err;

	must(bytes && bytes % DRAM_SEG_BYTES_MIN == 0 && bytes <= DRAM_SEG_BYTES_MAX);
	while (i < a->nr_segs && a->segs[i].reg)
		i++;
	if (i == DRAM_SEGS_MAX)
		return -ENOSPC;
	seg = &a->segs[i];
	err = dram_buddy_init(&seg->buddy, (uint32_t)(bytes / DRAM_GRANULE));
	if (err)
		return err;
	err = mem_host_memfd("peal-arena", bytes, &seg->reg);
	if (err)
		goto fini_buddy;
	err = a->on_segment ? a->on_segment(a->arg, seg->reg) : 0;
	if (err)
		goto put_region;
	seg->is_retiring = false;
	memset(seg->asked, 0, sizeof(seg->asked));
	memset(seg->huge, seg->reg->flags & MEM_HUGE ? 0xff : 0, sizeof(seg->huge));
	if (i == a->nr_segs)
		a->nr_segs++;
	a->bytes += bytes;
	a->free_bytes += bytes;
	a->cost_bytes += dram_arena_seg_cost(bytes);
	return 0;

put_region:
	mem_region_put(seg->reg);
	seg->reg = NULL;
fini_buddy:
	dram_buddy_fini(&seg->buddy);
	return err;
}

void dram_arena_retire(struct dram_arena *a, uint32_t i)
{
	struct dram_seg *seg = &a->segs[i];

	must(seg->reg && !seg->is_retiring);
	seg->is_retiring = true;
	a->bytes -= seg->reg->len;
	a->retiring_bytes += seg->reg->len;
	a->free_bytes -= (uint64_t)seg->buddy.nr_free * DRAM_GRANULE;
}

bool dram_arena_reap(struct dram_arena *a, uint32_t i)
{
	struct dram_seg *seg = &a->segs[i];

	must(seg->is_retiring);
	if (seg->buddy.nr_free < seg->buddy.nr)
		return false;
	a->retiring_bytes -= seg->reg->len;
	if (a->on_segment_gone)
		a->on_segment_gone(a->arg, seg->reg);
	seg_drop(a, i);
	seg->is_retiring = false;
	return true;
}

/* The segment whose best block is the smallest that holds n; -1 when none does. */
static int arena_fit(const struct dram_arena *a, uint32_t n)
{
	uint32_t best = DRAM_BUDDY_ORDERS, k;
	int seg = -1;

	for (uint32_t i = 0; i < a->nr_segs; i++) {
		if (!a->segs[i].reg || a->segs[i].is_retiring)
			continue;
		k = dram_buddy_fit(&a->segs[i].buddy, n);
		if (k < best) {
			best = k;
			seg = (int)i;
		}
	}
	return seg;
}

/* The segment with the largest block, and that block's granules; -1 when nothing is free. */
static int arena_largest(const struct dram_arena *a, uint32_t *n)
{
	uint32_t best = 0, len;
	int seg = -1;

	for (uint32_t i = 0; i < a->nr_segs; i++) {
		if (!a->segs[i].reg || a->segs[i].is_retiring)
			continue;
		len = dram_buddy_largest(&a->segs[i].buddy);
		if (len > best) {
			best = len;
			seg = (int)i;
		}
	}
	*n = best;
	return seg;
}

/* ---- huge pages ------------------------------------------------------------------------------ */

static bool huge_bit(const uint64_t *bits, uint64_t no)
{
	return bits[no / 64] >> (no % 64) & 1;
}

/* The huge pages that the extent touches, [*from, return). */
static uint64_t huge_range(struct dram_ext e, uint64_t *from)
{
	*from = (uint64_t)e.at * DRAM_GRANULE / HUGEMAP_BYTES;
	return div_round_up(((uint64_t)e.at + e.nr) * DRAM_GRANULE, HUGEMAP_BYTES);
}

bool dram_arena_is_huge(const struct dram_arena *a, struct dram_ext e)
{
	uint64_t from, end = huge_range(e, &from);

	for (; from < end; from++)
		if (!huge_bit(a->segs[e.seg].huge, from))
			return false;
	return true;
}

/* Those that weren't asked for yet, a few at a time: each is 2 MiB to be zeroed. */
static void arena_huge(struct dram_arena *a, struct dram_ext e)
{
	struct dram_seg *seg = &a->segs[e.seg];
	uint64_t no, end = huge_range(e, &no);

	if (a->nr_refused >= ARENA_REFUSALS || seg->reg->flags & MEM_HUGE)
		return;
	end = min_t(uint64_t, end, seg->reg->len / HUGEMAP_BYTES);
	for (unsigned nr = 0; no < end && nr < ARENA_HUGE_TURN; no++) {
		if (huge_bit(seg->asked, no))
			continue;
		nr++;
		seg->asked[no / 64] |= 1ull << (no % 64);
		if (hugemap_collapse(seg->reg->base + no * HUGEMAP_BYTES, HUGEMAP_BYTES))
			a->nr_refused++;
		else
			seg->huge[no / 64] |= 1ull << (no % 64);
	}
}

/* ---- extents --------------------------------------------------------------------------------- */

int dram_arena_alloc(struct dram_arena *a, uint64_t bytes, struct dram_ext *ext, uint32_t max)
{
	uint32_t need = dram_granules(bytes), n, nr = 0;
	int seg;

	for (; need; need -= n) {
		n = need;
		seg = arena_fit(a, n);
		if (seg < 0)
			seg = arena_largest(a, &n);
		if (seg < 0 || nr == max) {
			dram_arena_free(a, ext, nr);
			return -ENOSPC;
		}
		ext[nr++] = (struct dram_ext){
			.at = dram_buddy_alloc(&a->segs[seg].buddy, n),
			.nr = n,
			.seg = (uint64_t)seg,
		};
		a->used_bytes += (uint64_t)n * DRAM_GRANULE;
		a->free_bytes -= (uint64_t)n * DRAM_GRANULE;
	}
	for (uint32_t i = 0; i < nr; i++)
		arena_huge(a, ext[i]);
	return (int)nr;
}

void dram_arena_free(struct dram_arena *a, const struct dram_ext *ext, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct dram_seg *seg = &a->segs[ext[i].seg];
		uint64_t bytes = (uint64_t)ext[i].nr * DRAM_GRANULE;

		dram_buddy_free(&seg->buddy, ext[i].at, ext[i].nr);
		a->used_bytes -= bytes;
		a->free_bytes += seg->is_retiring ? 0 : bytes;
	}
}
