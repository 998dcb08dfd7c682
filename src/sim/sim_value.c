/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, and the edges of values: whole words go through the loops of sim_value_int.h in the best
 * instruction set there is, the bytes before the first and after the last whole word one by one
 * through the same function. Pure functions, any thread.
 */
#include "sim/sim_value.h"

#include <string.h>

#include <sodium.h>

#include "sim/sim_value_int.h"

/* The finaliser of MurmurHash3: every bit of x reaches every bit of the result. */
static uint64_t value_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xFF51AFD7ED558CCDull;
	x ^= x >> 33;
	x *= 0xC4CEB9FE1A85EC53ull;
	return x ^ (x >> 33);
}

static struct value_gen value_gen(const uint8_t key[SIM_KEY_BYTES])
{
	uint64_t k[2];
	struct value_gen g;

	memcpy(k, key, SIM_KEY_BYTES);
	g.a = value_mix(le64toh(k[0]) + GOLDEN);
	g.b = value_mix(le64toh(k[1]) ^ g.a);
	g.a ^= value_mix(g.b + GOLDEN);
	return g;
}

static uint8_t value_byte(struct value_gen g, uint64_t pos)
{
	uint64_t w = value_word(g.a + pos / WORD_BYTES * GOLDEN, g.b);
	uint8_t bytes[WORD_BYTES];

	memcpy(bytes, &w, WORD_BYTES);
	return bytes[pos % WORD_BYTES];
}

/* Index of the first wrong one of len bytes from pos on, or len. */
static size_t value_check_bytes(struct value_gen g, uint64_t pos, const uint8_t *p, size_t len)
{
	size_t i = 0;

	while (i < len && p[i] == value_byte(g, pos + i))
		i++;
	return i;
}

/* Bytes from pos to the next word, at most len. */
static size_t value_head(uint64_t pos, size_t len)
{
	size_t head = (size_t)(-pos % WORD_BYTES);

	return head < len ? head : len;
}

void sim_value_key(uint8_t key[SIM_KEY_BYTES], uint64_t seed, uint64_t id)
{
	static const char label[10] = "peal-trace";
	uint8_t digest[crypto_generichash_blake2b_BYTES_MAX];
	uint8_t in[sizeof(label) + 16];
	uint64_t le[2] = {htole64(seed), htole64(id)};

	memcpy(in, label, sizeof(label));
	memcpy(in + sizeof(label), le, sizeof(le));
	crypto_generichash_blake2b(digest, sizeof(digest), in, sizeof(in), NULL, 0);
	memcpy(key, digest, SIM_KEY_BYTES);
}

void sim_value_fill(const uint8_t key[SIM_KEY_BYTES], uint64_t off, void *buf, size_t len)
{
	struct value_gen g = value_gen(key);
	size_t head = value_head(off, len);
	size_t nr_words = (len - head) / WORD_BYTES;
	size_t tail = head + nr_words * WORD_BYTES;
	uint8_t *p = buf;

	for (size_t i = 0; i < head; i++)
		p[i] = value_byte(g, off + i);
	sim_value_fill_words(g, (off + head) / WORD_BYTES, p + head, nr_words);
	for (size_t i = tail; i < len; i++)
		p[i] = value_byte(g, off + i);
}

int64_t sim_value_check(const uint8_t key[SIM_KEY_BYTES], uint64_t off, const void *buf, size_t len)
{
	struct value_gen g = value_gen(key);
	size_t head = value_head(off, len);
	size_t nr_words = (len - head) / WORD_BYTES / CHECK_WORDS * CHECK_WORDS;
	const uint8_t *p = buf;
	size_t at = value_check_bytes(g, off, p, head);

	if (at < head)
		return (int64_t)at;
	at += WORD_BYTES * sim_value_check_words(g, (off + head) / WORD_BYTES, p + head, nr_words);
	/* What is left is the tail, or a step that has a fault in it. */
	at += value_check_bytes(g, off + at, p + at, len - at);
	return at < len ? (int64_t)at : -1;
}
