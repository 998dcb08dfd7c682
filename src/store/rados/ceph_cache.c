/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tier below, an ssd of this machine, as a cache: what the cluster has taken is written there,
 * too, before the put is answered, for its bytes lie in memory that is its caller's until then.
 *
 *     written to the cluster -> BUF below -> copied, checked, a piece a turn -> FILL below -> done
 *
 * The cache has the value under RADOS's version. What it doesn't take it hasn't; but where values
 * change, what it had of the key must be gone before the put is answered (INVAL), and a put for
 * which that can't be had fails. Runs on the shard's owner.
 * tidy: no-test: test/ceph has it, with a real cluster
 */
#include <errno.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "peal/seal.h"
#include "store/rados/ceph_int.h"

static void cache_end(struct store_io *io, int res)
{
	struct ceph_write *w = ceph_frame(io)->w;

	io->flags = ceph_frame(io)->flags;
	io->ver = w->ver;
	io->view.st = NULL;
	io->view.ver = w->ver;
	io->view.value_len = w->info.value_len;
	ceph_write_destroy(w);
	store_done(io, res);
}

static void cache_invaled(struct store_io *io, int res)
{
	/* It knows a higher version, of another key as likely as not: above that all is dead. */
	if (res == -ESTALE && !ceph_frame(io)->res) {
		ceph_frame(io)->res = 1;
		io->ver++;
		store_down_as(io, STORE_INVAL, cache_invaled);
		return;
	}
	cache_end(io, res ? -EIO : 0);
}

/* It has not taken the value: nor may it keep an older one. */
static void cache_without(struct store_io *io)
{
	struct ceph *s = ceph_of(io->at);

	if (store_set_is_immutable(s->st.set)) {
		cache_end(io, 0);
		return;
	}
	io->ver = ceph_frame(io)->w->ver;
	ceph_frame(io)->res = 0;
	store_down_as(io, STORE_INVAL, cache_invaled);
}

static void cache_filled(struct store_io *io, int res)
{
	if (io->view.st)
		io->view.st->ops->release(io->view.st, &io->view);
	io->view.st = NULL;
	if (res)
		cache_without(io);
	else
		cache_end(io, 0);
}

static void cache_fill(struct store_io *io)
{
	io->ver = ceph_frame(io)->w->ver;
	store_down_as(io, STORE_FILL, cache_filled);
}

/* ---- copying --------------------------------------------------------------------------------- */

/* The next bytes of either side, at most `max`. */
static uint8_t *cache_from(const struct ceph_write *w, uint64_t off, uint64_t *max)
{
	struct mem_run run;

	must(ceph_write_runs(w, off, &run) == 1 && run.len);
	*max = min_t(uint64_t, *max, run.len);
	return mem_own_ptr(&run);
}

static uint8_t *cache_to(const struct store_view *v, uint64_t off, uint64_t *max)
{
	struct mem_run run;

	must(store_runs(v, off, &run, 1) == 1 && run.len);
	*max = min_t(uint64_t, *max, run.len);
	return mem_own_ptr(&run);
}

/* False: it isn't what its seal says. */
static bool cache_copy_chunk(const struct ceph_write *w, const struct store_view *v, uint64_t chunk)
{
	uint64_t off = chunk * MEM_CHUNK_BYTES, n;
	uint64_t end = off + peal_seal_chunk_len(w->info.value_len, chunk);
	struct hash_stream st;
	const uint8_t *from;
	uint8_t *to;

	hash_stream_init(&st, peal_seal_seed_at(w->key.hash, chunk));
	for (; off < end; off += n) {
		n = end - off;
		from = cache_from(w, off, &n);
		to = cache_to(v, off, &n);
		hash_stream_copy(&st, to, from, n);
	}
	store_seals(v)[chunk] = ceph_write_seals(w)[chunk];
	return hash_stream_digest(&st) == ceph_write_seals(w)[chunk];
}

/* One piece. */
static void cache_copy(struct store_io *io)
{
	struct ceph *s = ceph_of(io->at);
	struct ceph_write *w = ceph_frame(io)->w;
	uint64_t nr = peal_seal_count(w->info.value_len);
	uint64_t end = min_t(uint64_t, nr, w->copied + STORE_PIECE_BYTES / MEM_CHUNK_BYTES);

	for (; w->copied < end; w->copied++) {
		if (!cache_copy_chunk(w, &io->view, w->copied)) {
			cache_filled(io, -EILSEQ);
			return;
		}
	}
	if (w->copied < nr)
		ceph_wait(&s->copies, io);
	else
		cache_fill(io);
}

int ceph_cache_step(struct store *st)
{
	struct store_io *io = ceph_wait_pop(&ceph_of(st)->copies);

	if (!io)
		return 0;
	cache_copy(io);
	return 1;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void cache_buffed(struct store_io *io, int res)
{
	struct ceph_write *w = ceph_frame(io)->w;
	bool is_taken = !res && w->from.st && !io->into.st;

	io->into.st = NULL;
	if (res) {
		io->view.st = NULL;
		cache_without(io);
	} else if (is_taken) {
		cache_fill(io); /* written from where it lies */
	} else {
		w->copied = 0;
		cache_copy(io);
	}
}

void ceph_cache_put(struct ceph_write *w)
{
	struct store_io *io = w->io;

	ceph_frame(io)->w = w;
	ceph_frame(io)->flags = io->flags;
	io->flags = 0;
	io->len = w->info.value_len;
	io->into = w->from;
	store_down_as(io, STORE_BUF, cache_buffed);
}
