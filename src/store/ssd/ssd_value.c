/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging of values that are on their way in. A short value has one buffer of 64 KiB, from which it
 * is copied into its stream's pack; a long one has a buffer for each 1 MiB piece, with room for the
 * record's head before the payload, and is written from there as it lies. A long one that lies in
 * memory of the tier above in a way that suits the device is written from there instead.
 *
 * Nothing is allocated after the start: whoever finds no buffer waits (ssd_put.c). Runs on the
 * shard's owner; runs, seals and meta of a view on any reactor.
 * tidy: no-test: t_ssd.c has the verbs, test/model/m_ssd all orders and faults
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/hugemap.h"
#include "base/must.h"
#include "peal/seal.h"
#include "store/ssd/ssd_int.h"

/* One of each kind is for what is saved. */
#define NR_SMALLS (SSD_SMALLS + 1)
#define NR_VALUES (SSD_SMALLS + SSD_LARGES_MIN + 1)

static uint32_t value_seals(const struct ssd *s)
{
	return max_t(uint32_t, 1, ssd_format_seals(s->opts.value_max));
}

static int value_map(struct ssd *s)
{
	size_t smalls = (size_t)NR_SMALLS * SSD_PACKED_MAX;
	size_t larges = (size_t)s->nr_larges * SSD_LARGE_READ;
	uint8_t *at;

	s->map_bytes = smalls + larges;
	at = hugemap_own(s->map_bytes);
	if (at == MAP_FAILED)
		return -ENOMEM;
	s->map = at;
	s->reg = mem_host_wrap(at, s->map_bytes, MEM_READABLE | MEM_WRITABLE);
	if (!s->reg) {
		munmap(at, s->map_bytes);
		s->map = NULL;
		return -ENOMEM;
	}
	s->smalls = at;
	for (uint32_t i = 0; i < s->nr_larges; i++)
		s->pieces[i].mem = at + smalls + (size_t)i * SSD_LARGE_READ;
	return 0;
}

int ssd_value_init(struct ssd *s)
{
	s->nr_larges = max_t(uint32_t, SSD_LARGES_MIN, ssd_format_pieces(s->opts.value_max)) +
		       SSD_SAVE_LARGES;
	s->values = calloc(NR_VALUES, sizeof(*s->values));
	s->seals = calloc((size_t)NR_VALUES * value_seals(s), sizeof(uint64_t));
	s->pieces = calloc(s->nr_larges, sizeof(*s->pieces));
	s->free_smalls = calloc(NR_SMALLS, sizeof(*s->free_smalls));
	s->free_larges = calloc(s->nr_larges, sizeof(*s->free_larges));
	if (!s->values || !s->seals || !s->pieces || !s->free_smalls || !s->free_larges)
		return -ENOMEM;
	list_init(&s->free_values);
	for (uint32_t i = 0; i < NR_VALUES; i++) {
		s->values[i].s = s;
		s->values[i].seals = s->seals + (size_t)i * value_seals(s);
		list_add_tail(&s->free_values, &s->values[i].node);
	}
	s->nr_free_values = NR_VALUES;
	for (uint32_t i = NR_SMALLS; i > 0; i--)
		s->free_smalls[s->nr_free_smalls++] = (uint16_t)(i - 1);
	for (uint32_t i = s->nr_larges; i > 0; i--)
		s->free_larges[s->nr_free_larges++] = (uint16_t)(i - 1);
	return value_map(s);
}

void ssd_value_fini(struct ssd *s)
{
	if (s->reg)
		mem_region_put(s->reg);
	if (s->map)
		munmap(s->map, s->map_bytes);
	free(s->free_larges);
	free(s->free_smalls);
	free(s->pieces);
	free(s->seals);
	free(s->values);
}

/* Is there room for one of `nr` pieces, 0: a small one? Saving must not starve behind puts. */
static bool value_fits(const struct ssd *s, uint32_t nr, bool is_saved)
{
	uint32_t larges = is_saved ? 0 : SSD_SAVE_LARGES, one = is_saved ? 0 : 1;

	return s->nr_free_values > one &&
	       (nr ? s->nr_free_larges >= nr + larges : s->nr_free_smalls > one);
}

struct ssd_value *ssd_value_create(struct ssd *s, const struct store_key *key, uint32_t len,
				   bool is_saved)
{
	uint32_t nr = len > SSD_PACKED_MAX ? ssd_format_pieces(len) : 0;
	struct ssd_value *v;

	if (!value_fits(s, nr, is_saved))
		return NULL;
	s->nr_free_values--;
	v = list_first_entry(&s->free_values, struct ssd_value, node);
	list_del(&v->node);
	v->len = len;
	v->io = NULL;
	v->from.st = NULL;
	v->meta = (struct store_meta){0};
	v->app = (struct ssd_append){.val = v};
	v->app.ri.key = *key;
	v->nr_pieces = (uint16_t)nr;
	for (uint32_t i = 0; i < nr; i++)
		v->piece[i] = s->free_larges[--s->nr_free_larges];
	if (!nr)
		v->small = s->free_smalls[--s->nr_free_smalls];
	memset(v->seals, 0, ssd_format_seals(len) * sizeof(uint64_t));
	return v;
}

void ssd_value_destroy(struct ssd_value *v)
{
	struct ssd *s = v->s;

	for (uint32_t i = v->nr_pieces; i > 0; i--)
		s->free_larges[s->nr_free_larges++] = v->piece[i - 1];
	if (!v->nr_pieces)
		s->free_smalls[s->nr_free_smalls++] = v->small;
	list_add_head(&s->free_values, &v->node);
	s->nr_free_values++;
	ssd_put_waiting(s);
}

void ssd_value_view(struct ssd_value *v, struct store_view *view)
{
	*view = (struct store_view){
		.st = &v->s->st,
		.pin = v,
		.len = v->len,
		.value_len = v->len,
		.tier = v->s->st.tier,
	};
}

uint8_t *ssd_value_at(struct ssd_value *v, uint32_t off)
{
	struct ssd *s = v->s;

	if (!v->nr_pieces)
		return s->smalls + (size_t)v->small * SSD_PACKED_MAX + off;
	return s->pieces[v->piece[off / STORE_PIECE_BYTES]].mem + SSD_BLOCK +
	       off % STORE_PIECE_BYTES;
}

/* ---- memory of the tier above ---------------------------------------------------------------- */

uint8_t *ssd_value_above(const struct ssd *s, const struct store_into *in, uint64_t off,
			 uint64_t len)
{
	uint32_t grain = s->dev->mem_bytes ? s->dev->mem_bytes : SSD_BLOCK;
	struct store_view v = {
		.st = in->st, .pin = in->pin, .len = in->value_len, .value_len = in->value_len};
	struct mem_run run;
	uint8_t *p;

	if (in->st->ops->runs(&v, off, &run, 1) != 1 || run.len < len)
		return NULL;
	p = mem_own_ptr(&run);
	return (uintptr_t)p % grain ? NULL : p;
}

bool ssd_value_is_good(const struct ssd_value *v, uint32_t piece)
{
	uint64_t off = (uint64_t)piece * STORE_PIECE_BYTES, chunk = off / MEM_CHUNK_BYTES;
	uint32_t left = ssd_format_piece_len(v->len, piece), n;
	const uint8_t *p = ssd_value_above(v->s, &v->from, off, left);

	for (; left; left -= n, p += n, chunk++) {
		n = min_t(uint32_t, left, MEM_CHUNK_BYTES);
		if (hash_xxh3(p, n, peal_seal_seed_at(v->app.ri.key.hash, chunk)) !=
		    v->seals[chunk])
			return false;
	}
	return true;
}

bool ssd_value_take(struct ssd_value *v, struct store_into *in)
{
	if (!v->nr_pieces || !ssd_is_straight(v->s, in) || in->value_len != v->len)
		return false;
	for (uint32_t i = 0; i < v->nr_pieces; i++)
		if (!ssd_value_above(v->s, in, (uint64_t)i * STORE_PIECE_BYTES,
				     ssd_format_piece_len(v->len, i)))
			return false;
	memcpy(v->seals, in->seals, ssd_format_seals(v->len) * sizeof(uint64_t));
	v->from = *in;
	in->st = NULL;
	return true;
}

/* ---- views: any reactor ---------------------------------------------------------------------- */

/* All of a read's bytes, as they came. */
static unsigned read_runs(const struct store_view *v, uint64_t off, struct mem_run *runs)
{
	const struct ssd_read *r = v->pin;

	runs[0] = (struct mem_run){
		.reg = r->s->read_reg,
		.off = (uint64_t)(r->payload - r->s->read_mem) + (off - v->off),
		.len = v->off + v->len - off,
	};
	return 1;
}

unsigned ssd_value_runs(const struct store_view *v, uint64_t off, struct mem_run *runs, unsigned nr)
{
	const struct ssd *s = ssd_of(v->st);
	uint64_t step;
	unsigned n = 0;

	if (!nr)
		return 0;
	if (ssd_read_is(s, v->pin))
		return read_runs(v, off, runs);
	for (; n < nr && off < v->value_len; n++, off += step) {
		step = min_t(uint64_t, v->value_len,
			     align_down(off, STORE_PIECE_BYTES) + STORE_PIECE_BYTES) -
		       off;
		runs[n] = (struct mem_run){
			.reg = s->reg,
			.off = (uint64_t)(ssd_value_at(v->pin, (uint32_t)off) - s->smalls),
			.len = step,
		};
	}
	return n;
}

uint64_t *ssd_value_seals(const struct store_view *v)
{
	struct ssd_read *r = v->pin;

	if (ssd_read_is(ssd_of(v->st), v->pin))
		return r->seals + r->first;
	return ((struct ssd_value *)v->pin)->seals;
}

const struct store_meta *ssd_value_meta(const struct store_view *v)
{
	if (ssd_read_is(ssd_of(v->st), v->pin))
		return &((struct ssd_read *)v->pin)->meta;
	return &((struct ssd_value *)v->pin)->meta;
}
