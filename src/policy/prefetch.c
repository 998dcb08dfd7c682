/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound and the judgement of what is brought before anybody asks: see prefetch.h. One thread.
 */
#include "policy/prefetch.h"

#include "base/must.h"

#define FADE_BYTES (16ull * PREFETCH_JUDGE_BYTES)

void prefetch_init(struct prefetch *p, uint64_t tier_bytes)
{
	*p = (struct prefetch){.tier_bytes = tier_bytes};
}

bool prefetch_is_off(const struct prefetch *p, enum prefetch_source src)
{
	const struct prefetch_stat *st = &p->stat[src];
	uint64_t all = st->used + st->wasted;

	return src != PREFETCH_HINT && all >= PREFETCH_JUDGE_BYTES &&
	       st->used * 100 < all * PREFETCH_GOOD_PERCENT;
}

bool prefetch_wants(struct prefetch *p, enum prefetch_source src, uint64_t bytes)
{
	if (p->out_bytes + bytes > p->tier_bytes / PREFETCH_SHARE)
		return false;
	if (prefetch_is_off(p, src) && ++p->stat[src].nr_refused % PREFETCH_TRY)
		return false;
	p->out_bytes += bytes;
	return true;
}

static void prefetch_judge(struct prefetch *p, struct prefetch_stat *st, uint64_t bytes)
{
	prefetch_undone(p, bytes);
	if (st->used + st->wasted < FADE_BYTES)
		return;
	st->used /= 2;
	st->wasted /= 2;
}

void prefetch_used(struct prefetch *p, enum prefetch_source src, uint64_t bytes)
{
	p->stat[src].used += bytes;
	prefetch_judge(p, &p->stat[src], bytes);
}

void prefetch_wasted(struct prefetch *p, enum prefetch_source src, uint64_t bytes)
{
	p->stat[src].wasted += bytes;
	prefetch_judge(p, &p->stat[src], bytes);
}

void prefetch_undone(struct prefetch *p, uint64_t bytes)
{
	must(p->out_bytes >= bytes);
	p->out_bytes -= bytes;
}
