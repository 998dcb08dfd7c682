/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of engines, see peal/key.h; doc/keys.md has the bytes. A table of the fields, in the order
 * of their numbers, is both the check and the encoder: each field is its number, its length in
 * four bytes, and its bytes, so that no two different sets of fields encode alike. Pure, any
 * thread.
 */
#include "peal/key.h"

#include <errno.h>
#include <sodium/crypto_generichash_blake2b.h>
#include <string.h>

#include "base/le.h"
#include "client/errmsg.h"

#define KEY_MAGIC "pealkey\1" /* the last byte is the version */
#define KEY_MAGIC_BYTES 8u
#define KEY_HEAD_BYTES 5u

enum key_kind {
	KEY_TEXT,
	KEY_BLOB,
	KEY_NUMBER,
};

static const struct key_field {
	uint8_t id;
	enum key_kind kind;
	const char *name;
	size_t at;   /* in struct peal_key_space */
	size_t with; /* a blob: its length; a number: what it is below (0: nothing) */
	uint32_t min;
} key_fields[] = {
#define AT(f) offsetof(struct peal_key_space, f)
	{1, KEY_TEXT, "model", AT(model), 0, 1},
	{2, KEY_TEXT, "revision", AT(revision), 0, 0},
	{3, KEY_TEXT, "dtype", AT(dtype), 0, 1},
	{4, KEY_TEXT, "scale", AT(scale), 0, 0},
	{5, KEY_TEXT, "layout", AT(layout), 0, 1},
	{6, KEY_NUMBER, "block_tokens", AT(block_tokens), 0, 1},
	{7, KEY_NUMBER, "tp_size", AT(tp_size), 0, 1},
	{8, KEY_NUMBER, "tp_rank", AT(tp_rank), AT(tp_size), 0},
	{9, KEY_NUMBER, "pp_size", AT(pp_size), 0, 1},
	{10, KEY_NUMBER, "pp_rank", AT(pp_rank), AT(pp_size), 0},
	{11, KEY_NUMBER, "cp_size", AT(cp_size), 0, 1},
	{12, KEY_NUMBER, "cp_rank", AT(cp_rank), AT(cp_size), 0},
	{13, KEY_NUMBER, "group", AT(group), 0, 0},
	{14, KEY_TEXT, "hash", AT(hash), 0, 1},
	{15, KEY_BLOB, "seed", AT(seed), AT(seed_bytes), 0},
	{16, KEY_BLOB, "salt", AT(salt), AT(salt_bytes), 0},
#undef AT
};
#define KEY_NR_FIELDS (sizeof(key_fields) / sizeof(key_fields[0]))

/* A field's bytes; `number` is where those of one are made. */
struct key_part {
	const void *ptr;
	size_t bytes;
	uint8_t number[4];
};

/* Where canonical bytes go: into a hash, into memory, or both. */
struct key_sink {
	crypto_generichash_blake2b_state *hash;
	uint8_t *to;
	size_t room;
	size_t bytes; /* so far, also those that had no room */
};

static void key_emit(struct key_sink *k, const void *from, size_t bytes)
{
	size_t fits = k->bytes < k->room ? k->room - k->bytes : 0;

	if (fits > bytes)
		fits = bytes;
	if (fits)
		memcpy(k->to + k->bytes, from, fits);
	if (k->hash && bytes)
		crypto_generichash_blake2b_update(k->hash, from, bytes);
	k->bytes += bytes;
}

static int key_check_number(const struct peal_key_space *s, const struct key_field *f, uint32_t v)
{
	const char *base = (const char *)s;
	uint32_t below;

	if (v < f->min)
		return errmsg_set(-EINVAL, "key space: %s is %u, expected %u or more", f->name, v,
				  f->min);
	if (!f->with)
		return 0;
	memcpy(&below, base + f->with, sizeof(below));
	if (v >= below)
		return errmsg_set(-EINVAL, "key space: %s is %u, expected less than its size, %u",
				  f->name, v, below);
	return 0;
}

static int key_check_bytes(const struct key_field *f, const struct key_part *p)
{
	if (p->bytes > PEAL_KEY_FIELD_MAX || p->bytes < f->min)
		return errmsg_set(-EINVAL, "key space: %s has %zu bytes, expected %u to %u",
				  f->name, p->bytes, f->min, PEAL_KEY_FIELD_MAX);
	if (!p->ptr && p->bytes)
		return errmsg_set(-EINVAL, "key space: %s is NULL and has %zu bytes", f->name,
				  p->bytes);
	return 0;
}

static int key_part(const struct peal_key_space *s, const struct key_field *f, struct key_part *p)
{
	const char *base = (const char *)s;
	uint32_t v;

	if (f->kind == KEY_NUMBER) {
		memcpy(&v, base + f->at, sizeof(v));
		le32_put(p->number, v);
		p->ptr = p->number;
		p->bytes = sizeof(p->number);
		return key_check_number(s, f, v);
	}
	memcpy(&p->ptr, base + f->at, sizeof(p->ptr));
	if (f->kind == KEY_BLOB)
		memcpy(&p->bytes, base + f->with, sizeof(p->bytes));
	else
		p->bytes = p->ptr ? strnlen(p->ptr, PEAL_KEY_FIELD_MAX + 1) : 0;
	return key_check_bytes(f, p);
}

static int key_emit_all(const struct peal_key_space *s, struct key_sink *k)
{
	key_emit(k, KEY_MAGIC, KEY_MAGIC_BYTES);
	for (size_t i = 0; i < KEY_NR_FIELDS; i++) {
		uint8_t head[KEY_HEAD_BYTES] = {key_fields[i].id};
		struct key_part p;
		int err = key_part(s, &key_fields[i], &p);

		if (err)
			return err;
		le32_put(head + 1, (uint32_t)p.bytes);
		key_emit(k, head, sizeof(head));
		key_emit(k, p.ptr, p.bytes);
	}
	return 0;
}

ssize_t peal_key_canon(const struct peal_key_space *s, void *buf, size_t room)
{
	struct key_sink k = {.to = buf, .room = buf ? room : 0};
	int err = key_emit_all(s, &k);

	return err ? err : (ssize_t)k.bytes;
}

int peal_key_digest(const struct peal_key_space *s, uint8_t digest[PEAL_DIGEST_BYTES])
{
	crypto_generichash_blake2b_state hash;
	struct key_sink k = {.hash = &hash};
	int err;

	crypto_generichash_blake2b_init(&hash, NULL, 0, PEAL_DIGEST_BYTES);
	err = key_emit_all(s, &k);
	if (!err)
		crypto_generichash_blake2b_final(&hash, digest, PEAL_DIGEST_BYTES);
	return err;
}

/* BLAKE2b of that length: not the same bytes cut, the length is part of the function. */
static void key_hash(const uint8_t *digest, uint8_t type, const struct key_part *engine,
		     const struct key_part *out)
{
	crypto_generichash_blake2b_state hash;

	crypto_generichash_blake2b_init(&hash, NULL, 0, out->bytes);
	crypto_generichash_blake2b_update(&hash, digest, PEAL_DIGEST_BYTES);
	crypto_generichash_blake2b_update(&hash, &type, 1);
	crypto_generichash_blake2b_update(&hash, engine->ptr, engine->bytes);
	crypto_generichash_blake2b_final(&hash, (uint8_t *)(uintptr_t)out->ptr, out->bytes);
}

int peal_key_make(const uint8_t digest[PEAL_DIGEST_BYTES], uint8_t type, const void *engine_key,
		  size_t bytes, struct peal_key_named *n)
{
	struct key_part engine = {.ptr = engine_key, .bytes = bytes};

	if (!type)
		return errmsg_set(-EINVAL, "key: type 0, expected 1 to 255");
	if (!engine_key || !bytes || bytes > PEAL_KEY_FIELD_MAX)
		return errmsg_set(-EINVAL, "key: an engine's key of %zu bytes, expected 1 to %u",
				  engine_key ? bytes : 0, PEAL_KEY_FIELD_MAX);
	n->key.len = PEAL_KEY_MAX;
	key_hash(digest, type, &engine, &(struct key_part){.ptr = n->key.b, .bytes = PEAL_KEY_MAX});
	key_hash(digest, type, &engine, &(struct key_part){.ptr = n->tag, .bytes = PEAL_TAG_BYTES});
	return 0;
}
