/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_bad.h. The list is advice, no part of what keeps values right: a block that can't be
 * written is kept in memory and written with the next change, one that can't be read is empty.
 * Runs on the shard's owner; init blocks.
 */
#include "store/ssd/ssd_bad.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/le.h"
#include "store/ssd/ssd_int.h"

static const uint8_t bad_magic[8] = "PealBad";

static uint32_t bad_crc(const struct ssd_bad_block *b)
{
	static const uint8_t zero[4];
	uint32_t at = offsetof(struct ssd_bad_block, crc);
	uint32_t crc = hash_crc32c((const uint8_t *)b, at, 0);

	crc = hash_crc32c(zero, sizeof(zero), crc);
	return hash_crc32c((const uint8_t *)b + at + 4, sizeof(*b) - at - 4, crc);
}

bool ssd_bad_check(const struct ssd_bad_block *b, const uint8_t uuid[16], uint32_t index)
{
	if (memcmp(b->magic, bad_magic, sizeof(bad_magic)) || memcmp(b->uuid, uuid, 16) ||
	    le32_get(b->index) != index || le32_get(b->crc) != bad_crc(b))
		return false;
	for (uint32_t i = 0; i < SSD_BAD_KEYS; i++)
		if (b->key[i].len > 16)
			return false;
	return true;
}

static uint64_t bad_addr(uint32_t index, uint64_t gen)
{
	return SSD_BAD_AT + (2ull * index + gen % 2) * SSD_BLOCK;
}

static bool bad_filter(const struct ssd_bad *bad, uint64_t hash)
{
	return bad->filter[hash / 64 % ARRAY_SIZE(bad->filter)] >> (hash % 64) & 1;
}

static void bad_filter_set(struct ssd_bad *bad, uint64_t hash)
{
	bad->filter[hash / 64 % ARRAY_SIZE(bad->filter)] |= 1ull << (hash % 64);
}

bool ssd_bad_has(const struct ssd *s, const struct store_key *key)
{
	const struct ssd_bad *bad = &s->health.bad;

	if (!bad->nr || !bad_filter(bad, key->hash))
		return false;
	for (uint32_t i = 0; i < SSD_BAD_MAX; i++)
		if (bad->key[i].len == key->len && memcmp(bad->key[i].key, key->b, 16) == 0)
			return true;
	return false;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void bad_write(struct ssd *s);

static void bad_written(struct ssd_unit *u, int res)
{
	struct ssd *s = u->s;

	s->health.bad.is_busy = false;
	s->nr_busy--;
	if (res >= 0)
		bad_write(s);
}

static void bad_format(struct ssd *s, uint32_t index)
{
	struct ssd_bad *bad = &s->health.bad;
	struct ssd_bad_block *b = (struct ssd_bad_block *)bad->mem;
	uint32_t nr = 0;

	memset(b, 0, sizeof(*b));
	memcpy(b->magic, bad_magic, sizeof(bad_magic));
	le32_put(b->index, index);
	memcpy(b->uuid, s->super.uuid, 16);
	le64_put(b->gen, ++bad->gen[index]);
	le64_put(b->ever, bad->ever);
	memcpy(b->key, bad->key + (size_t)index * SSD_BAD_KEYS, sizeof(b->key));
	for (uint32_t i = 0; i < SSD_BAD_KEYS; i++)
		nr += b->key[i].len > 0;
	le32_put(b->nr, nr);
	le32_put(b->crc, bad_crc(b));
}

static void bad_write(struct ssd *s)
{
	struct ssd_bad *bad = &s->health.bad;
	struct ssd_unit *u = &bad->unit;
	uint32_t index;

	if (bad->is_busy || !bad->dirty)
		return;
	index = (uint32_t)__builtin_ctz(bad->dirty);
	bad->dirty &= bad->dirty - 1;
	bad_format(s, index);
	bad->is_busy = true;
	s->nr_busy++;
	u->buf = bad->mem;
	u->len = SSD_BLOCK;
	u->off = bad_addr(index, bad->gen[index]);
	u->wants_sync = true;
	u->wants_verify = false;
	u->why = STORE_WROTE_TABLES;
	u->end = bad_written;
	ssd_unit_submit(s, u);
}

void ssd_bad_add(struct ssd *s, const struct store_key *key)
{
	struct ssd_bad *bad = &s->health.bad;
	uint32_t at = (uint32_t)(bad->ever % SSD_BAD_MAX);
	struct ssd_bad_key *k = &bad->key[at];

	if (ssd_bad_has(s, key))
		return;
	bad->ever++;
	bad->nr += !k->len;
	*k = (struct ssd_bad_key){.len = key->len};
	memcpy(k->key, key->b, 16);
	bad_filter_set(bad, key->hash);
	bad->dirty |= 1u << at / SSD_BAD_KEYS;
	counter_set(&s->health.nr_bad, bad->nr);
	bad_write(s);
}

void ssd_bad_clear(struct ssd *s)
{
	struct ssd_bad *bad = &s->health.bad;

	for (uint32_t i = 0; i < SSD_BAD_MAX; i++) {
		if (bad->key[i].len)
			bad->dirty |= 1u << i / SSD_BAD_KEYS;
		bad->key[i] = (struct ssd_bad_key){0};
	}
	memset(bad->filter, 0, sizeof(bad->filter));
	bad->nr = 0;
	counter_set(&s->health.nr_bad, 0);
	bad_write(s);
}

bool ssd_bad_is_busy(const struct ssd *s)
{
	return s->health.bad.is_busy;
}

void ssd_bad_list(const struct ssd *s, struct store_control *c)
{
	const struct ssd_bad *bad = &s->health.bad;

	for (uint32_t i = 0; i < SSD_BAD_MAX && c->nr < c->max; i++) {
		struct store_key *k = &c->keys[c->nr];

		if (!bad->key[i].len)
			continue;
		*k = (struct store_key){.len = bad->key[i].len};
		memcpy(k->b, bad->key[i].key, 16);
		k->hash = hash_key(k->b, k->len);
		c->nr++;
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

static void bad_take(struct ssd_bad *bad, uint32_t index, const struct ssd_bad_block *b)
{
	bad->gen[index] = le64_get(b->gen);
	bad->ever = max_t(uint64_t, bad->ever, le64_get(b->ever));
	memcpy(bad->key + (size_t)index * SSD_BAD_KEYS, b->key, sizeof(b->key));
}

static void bad_read(struct ssd *s, uint32_t index)
{
	struct ssd_bad *bad = &s->health.bad;
	const struct ssd_bad_block *b = (const struct ssd_bad_block *)bad->mem;

	for (uint64_t i = 0; i < 2; i++) {
		if (s->dev->ops->read(s->dev, bad->mem, SSD_BLOCK, bad_addr(index, i)) ||
		    !ssd_bad_check(b, s->super.uuid, index) || le64_get(b->gen) % 2 != i ||
		    le64_get(b->gen) < bad->gen[index])
			continue;
		bad_take(bad, index, b);
	}
	for (uint32_t i = index * SSD_BAD_KEYS; i < (index + 1) * SSD_BAD_KEYS; i++) {
		if (!bad->key[i].len)
			continue;
		bad->nr++;
		bad_filter_set(bad, hash_key(bad->key[i].key, bad->key[i].len));
	}
}

int ssd_bad_init(struct ssd *s)
{
	struct ssd_bad *bad = &s->health.bad;

	bad->key = calloc(SSD_BAD_MAX, sizeof(*bad->key));
	bad->mem = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	if (!bad->key || !bad->mem)
		return -ENOMEM;
	for (uint32_t i = 0; i < SSD_BAD_BLOCKS; i++)
		bad_read(s, i);
	counter_set(&s->health.nr_bad, bad->nr);
	return 0;
}

void ssd_bad_fini(struct ssd *s)
{
	free(s->health.bad.mem);
	free(s->health.bad.key);
}
