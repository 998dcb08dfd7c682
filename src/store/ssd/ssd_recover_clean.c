/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that go from a footer that counts. A block of a footer is written in place, and a crash
 * may tear it; of a closed segment nothing else counts, so that all that it names would be lost.
 * So blocks are written elsewhere first (format.md, "Copies of a footer"), synced and read back,
 * and only then where they belong:
 *
 *     [CLOSE] -> COPY -> PLACE -> COPY -> ...      some blocks at a time, only those that change
 *
 * A recovery that finds a closed segment's footer not whole looks for what is missing there, and
 * writes it where it belongs before anything else is written over the copies.
 *
 * Runs on the shard's owner.
 * tidy: no-test: t_ssd_recover_seg.c has it, test/model/m_ssd ends lives while it writes
 */
#include <string.h>

#include "base/container.h"
#include "base/le.h"
#include "store/ssd/ssd_recover_int.h"

static uint64_t clean_addr(const struct ssd_recover *r, uint32_t block)
{
	return ssd_seg_addr(r->s, r->seg) + r->s->super.seg_bytes -
	       (uint64_t)(r->nr_blocks - block) * SSD_BLOCK;
}

static uint32_t clean_nr(const struct ssd_recover *r)
{
	return min_t(uint32_t, SSD_FOOT_COPIES, r->nr_blocks - r->block_at);
}

static void clean_write(struct ssd_recover *r, enum ssd_recover_at at, uint64_t addr)
{
	r->unit.buf = (uint8_t *)&r->lines[r->block_at];
	r->unit.len = clean_nr(r) * SSD_BLOCK;
	r->unit.wants_sync = r->unit.wants_verify = true;
	ssd_recover_seg_write(r, at, addr);
}

static void clean_place(struct ssd_recover *r)
{
	clean_write(r, SSD_AT_PLACE, clean_addr(r, r->block_at));
}

static void clean_make(struct ssd_recover *r, uint32_t block)
{
	struct ssd_bind b = ssd_seg_bind(r->s, r->seg,
					 clean_addr(r, block) - ssd_seg_addr(r->s, r->seg));

	ssd_format_footer(&r->lines[block], block, r->nr_blocks, le32_get(r->lines[block].nr_lines),
			  &b);
}

/* From r->block_at on. */
static void clean_next(struct ssd_recover *r)
{
	while (r->block_at < r->nr_blocks && !r->is_changed[r->block_at])
		r->block_at++;
	if (r->block_at == r->nr_blocks) {
		r->at = SSD_AT_OVER;
		if (r->why == SSD_RECOVER_READ)
			ssd_recover_seg_whole(r);
		return;
	}
	r->block_at = align_down(r->block_at, SSD_FOOT_COPIES);
	r->nr_closes = 0;
	if (r->is_patched) {
		clean_place(r);
		return;
	}
	for (uint32_t i = 0; i < clean_nr(r); i++)
		if (r->is_changed[r->block_at + i])
			clean_make(r, r->block_at + i);
	clean_write(r, SSD_AT_COPY, SSD_FOOT_COPY_ADDR);
}

void ssd_recover_clean_start(struct ssd_recover *r)
{
	r->block_at = 0;
	clean_next(r);
}

/* Where there can be no copies only a crash right now would tell. */
void ssd_recover_clean_copied(struct ssd_recover *r)
{
	if (r->res && ++r->nr_closes < SSD_RECOVER_TRIES) {
		clean_write(r, SSD_AT_COPY, SSD_FOOT_COPY_ADDR);
		return;
	}
	r->nr_closes = 0;
	clean_place(r);
}

void ssd_recover_clean_placed(struct ssd_recover *r)
{
	uint32_t nr = clean_nr(r);

	if (r->res && ++r->nr_closes < SSD_RECOVER_TRIES) {
		clean_place(r);
	} else if (r->res) {
		ssd_recover_seg_fail(r);
	} else {
		memset(&r->is_changed[r->block_at], 0, nr);
		r->block_at += nr;
		clean_next(r);
	}
}

/* ---- what a crash has left ------------------------------------------------------------------- */

void ssd_recover_clean_look(struct ssd_recover *r)
{
	r->has_copies = true;
	ssd_recover_seg_read(r, SSD_AT_COPIES, r->scan, SSD_FOOT_COPY_ADDR,
			     SSD_FOOT_COPIES * SSD_BLOCK);
}

static const struct ssd_footer *clean_copy(const struct ssd_recover *r, uint32_t i)
{
	return (const struct ssd_footer *)r->scan + i % SSD_FOOT_COPIES;
}

/* Of how many blocks is the footer that copy i is of? 0: it is none of this segment's. */
static uint32_t clean_blocks(const struct ssd_recover *r, uint32_t i)
{
	const struct ssd_footer *f = clean_copy(r, i);
	uint64_t seg = ssd_seg_addr(r->s, r->seg), addr = le64_get(f->addr);
	uint64_t bytes = r->s->super.seg_bytes;
	struct ssd_bind b;
	uint32_t index, nr;

	if (addr <= seg || addr >= seg + bytes)
		return 0;
	b = ssd_seg_bind(r->s, r->seg, addr - seg);
	if (ssd_format_footer_check(f, &b, &index, &nr) < 0 || nr > r->max_blocks ||
	    (nr + 1ull) * SSD_BLOCK > bytes || index % SSD_FOOT_COPIES != i ||
	    addr + (uint64_t)(nr - index) * SSD_BLOCK != seg + bytes)
		return 0;
	return nr;
}

void ssd_recover_clean_came(struct ssd_recover *r)
{
	r->nr_blocks = 0;
	for (uint32_t i = 0; i < SSD_FOOT_COPIES && !r->res && !r->nr_blocks; i++)
		r->nr_blocks = clean_blocks(r, i);
	r->block_at = 0;
	if (r->nr_blocks)
		ssd_recover_seg_blocks(r);
	else
		ssd_recover_seg_tombs(r);
}

bool ssd_recover_clean_patch(struct ssd_recover *r, uint32_t i)
{
	if (!r->has_copies)
		return false;
	r->lines[i] = *clean_copy(r, i);
	r->is_changed[i] = r->is_patched = true;
	r->s->nr_copied++;
	return true;
}
