/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys made of an engine's own: the same prefix of the same model gets the same 16 bytes on every
 * node, and what differs in anything that makes the bytes of a block differ gets others.
 *
 *	key = BLAKE2b-128(digest, type, engine key)	digest = BLAKE2b-256(canonical fields)
 *	tag = BLAKE2b-256(digest, type, engine key)
 *
 * doc/keys.md has it byte by byte; pealkv.keys is the same in Python. The tag goes with the value
 * (peal_meta.tag) and is asked for when it is read (peal_call.want_tag): bytes that were stored
 * under another name, whatever the reason, are a miss.
 *
 *	struct peal_key_space s = {.model = "org/model", .revision = "8ae1...", ...};
 *	uint8_t digest[PEAL_DIGEST_BYTES];
 *	struct peal_key_named n;
 *
 *	if (peal_key_digest(&s, digest) < 0)
 *		errx(1, "%s", peal_errmsg());
 *	peal_key_make(digest, PEAL_KEY_BLOCK, block_hash, 32, &n);
 *
 * Pure functions, any thread. 0 or a negative errno, and peal_errmsg() says which field.
 */
#ifndef PEAL_KEY_H
#define PEAL_KEY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PEAL_DIGEST_BYTES 32u
#define PEAL_KEY_FIELD_MAX 4096u /* bytes of a text, of seed, of salt, of an engine's key */

/* What a value is; two types never share a key. 0 is refused, from 128 on they are the user's. */
enum peal_key_type {
	PEAL_KEY_BLOCK = 1, /* attention KV of a block of tokens */
	PEAL_KEY_STATE = 2, /* the state of a recurrent layer behind a token */
	PEAL_KEY_EMBED = 3, /* an embedding: of an image, a document */
	PEAL_KEY_SHARD = 4, /* weights */
	PEAL_KEY_USER = 128,
};

/*
 * What all values of an engine's rank have in common. Texts are UTF-8 and taken as they are; NULL
 * is "". Whatever changes the bytes of a block must change one of these.
 */
struct peal_key_space {
	const char *model;    /* 1 byte or more: its name, or a digest of its config */
	const char *revision; /* of the weights: a commit or a digest; adapters merged into them */
	const char *dtype;    /* of the values, 1 byte or more: "bfloat16", "fp8_e4m3" */
	const char *scale;    /* how scales are kept, "" where there are none */
	/* shapes, strides and their order, 1 byte or more: "NHD:layers=32,heads=8,dim=128" */
	const char *layout;
	const char *hash; /* that made the engine's keys, 1 byte or more: "sha256_cbor" */
	const void *seed; /* of that hash, or the first hash of a chain */
	size_t seed_bytes;
	const void *salt; /* the tenant's: another salt never meets these values */
	size_t salt_bytes;
	uint32_t block_tokens; /* of one value, 1 or more */
	/*
	 * Sizes are 1 or more, ranks below them. Where all ranks hold the same bytes (MLA under
	 * TP), give size 1, rank 0, so that they share them.
	 */
	uint32_t tp_size, tp_rank; /* tensor parallel */
	uint32_t pp_size, pp_rank; /* pipeline parallel */
	uint32_t cp_size, cp_rank; /* context parallel */
	uint32_t group;		   /* KV cache group; 0 where there is one */
};

/* The canonical bytes of the fields: how many there are; up to `room` of them into buf. */
ssize_t peal_key_canon(const struct peal_key_space *s, void *buf, size_t room);
int peal_key_digest(const struct peal_key_space *s, uint8_t digest[PEAL_DIGEST_BYTES]);

struct peal_key_named {
	struct peal_key key; /* 16 bytes */
	uint8_t tag[PEAL_TAG_BYTES];
};
/* type: enum peal_key_type; engine_key: 1 to PEAL_KEY_FIELD_MAX bytes. */
int peal_key_make(const uint8_t digest[PEAL_DIGEST_BYTES], uint8_t type, const void *engine_key,
		  size_t bytes, struct peal_key_named *n);

#ifdef __cplusplus
}
#endif

#endif
