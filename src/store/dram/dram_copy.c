/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chunk of a value from one tier's memory to another's, copied and checked in one pass, for
 * write-backs and promotions: at most 64 KiB of host memory, done on the spot on the shard's owner.
 *
 * A chunk that lies in one run on both sides takes one hash_copy_xxh3(). One that is scattered goes
 * through a bounce buffer, where it is hashed.
 */
#include "store/dram/dram_int.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "peal/seal.h"

static uint8_t *run_ptr(struct mem_run run)
{
	return mem_own_ptr(&run);
}

/* The chunk's bytes between the view and buf. */
static void copy_scattered(const struct store_view *v, uint64_t off, uint8_t *buf, uint32_t len,
			   bool is_write)
{
	struct mem_run run;
	uint32_t n;

	for (; len; len -= n, off += n, buf += n) {
		must(store_runs(v, off, &run, 1) == 1);
		n = (uint32_t)min_t(uint64_t, run.len, len);
		if (is_write)
			memcpy(run_ptr(run), buf, n);
		else
			memcpy(buf, run_ptr(run), n);
	}
}

int dram_copy_chunk(const struct dram *d, const struct store_view *from,
		    const struct store_view *to, const struct store_key *key, uint64_t chunk)
{
	uint64_t off = chunk * MEM_CHUNK_BYTES, seal, seed = peal_seal_seed_at(key->hash, chunk);
	uint32_t len = peal_seal_chunk_len(from->value_len, chunk);
	struct mem_run src, dst;

	must(from->value_len == to->value_len && len);
	must(store_runs(from, off, &src, 1) == 1 && store_runs(to, off, &dst, 1) == 1);
	if (src.len >= len && dst.len >= len) {
		seal = hash_copy_xxh3(run_ptr(dst), run_ptr(src), len, seed);
	} else {
		copy_scattered(from, off, d->bounce, len, false);
		seal = hash_xxh3(d->bounce, len, seed);
		copy_scattered(to, off, d->bounce, len, true);
	}
	if (seal != store_seals(from)[chunk - from->off / MEM_CHUNK_BYTES])
		return -EILSEQ;
	store_seals(to)[chunk - to->off / MEM_CHUNK_BYTES] = seal;
	return 0;
}
