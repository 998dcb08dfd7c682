/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys whose values could not be read back: they aren't written to this device again until an
 * operator says so, whatever life the file is in. The list lies in the file's first MiB
 * (doc/format.md), in blocks of SSD_BAD_KEYS that are written one at a time, each to the older of
 * its two places. It is bounded: the oldest go when it is full. Belongs to the shard's owner.
 */
#ifndef STORE_SSD_SSD_BAD_H
#define STORE_SSD_SSD_BAD_H

#include "store/ssd/ssd_format.h"
#include "store/ssd/ssd_unit.h"
#include "store/store.h"

#define SSD_BAD_AT (512u << 10) /* in the file */
#define SSD_BAD_BLOCKS 8u
#define SSD_BAD_KEYS 168u /* in a block */
#define SSD_BAD_MAX (SSD_BAD_BLOCKS * SSD_BAD_KEYS)

struct ssd;
struct store_control;

struct ssd_bad_key {
	uint8_t key[16];
	uint8_t len;
	uint8_t zero[7];
};

/* As it lies in the file. */
struct ssd_bad_block {
	uint8_t magic[8]; /* "PealBad\0" */
	uint8_t crc[4];	  /* of the block, these four bytes zero */
	uint8_t index[4]; /* which of SSD_BAD_BLOCKS */
	uint8_t uuid[16]; /* of the file */
	uint8_t gen[8];	  /* of the block's two places the higher one counts */
	uint8_t ever[8];  /* keys that were put on the list, when this was written */
	uint8_t nr[4];
	uint8_t zero[12];
	struct ssd_bad_key key[SSD_BAD_KEYS];
};
_Static_assert(sizeof(struct ssd_bad_block) == SSD_BLOCK, "a block");

struct ssd_bad {
	struct ssd_bad_key *key; /* SSD_BAD_MAX; len 0: none */
	uint64_t filter[256];	 /* bits of hashes: mostly there is nothing to look for */
	uint64_t gen[SSD_BAD_BLOCKS];
	uint64_t ever; /* the next one's place is this % SSD_BAD_MAX */
	uint32_t nr;
	uint32_t dirty; /* blocks, a bit each */
	bool is_busy;
	struct ssd_unit unit;
	uint8_t *mem;
};

int ssd_bad_init(struct ssd *s); /* reads what is there; blocking */
void ssd_bad_fini(struct ssd *s);
bool ssd_bad_has(const struct ssd *s, const struct store_key *key);
void ssd_bad_add(struct ssd *s, const struct store_key *key);
void ssd_bad_list(const struct ssd *s, struct store_control *c);
void ssd_bad_clear(struct ssd *s);
bool ssd_bad_is_busy(const struct ssd *s); /* something of it is being written */
/* A block is whole and one of this file's. */
bool ssd_bad_check(const struct ssd_bad_block *b, const uint8_t uuid[16], uint32_t index);

#endif
