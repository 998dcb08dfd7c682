/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal/key.h: the vectors that pealkv.keys is held to as well (argument 1: their file), what is
 * refused, and that canonical bytes can be taken apart again to exactly the fields that made them,
 * which is why no two sets of fields have the same.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/le.h"
#include "base/rng.h"
#include "peal/key.h"
#include "peal/peal.h"

#define VECTOR_COLUMNS 22
#define LINE_BYTES 4096

static const char *vectors;

static const struct peal_key_space least = {
	.model = "m",
	.dtype = "d",
	.layout = "l",
	.hash = "h",
	.block_tokens = 1,
	.tp_size = 1,
	.pp_size = 1,
	.cp_size = 1,
};

/* In place; "-" is nothing. The result has a NUL behind it. */
static size_t unhex(char *text)
{
	size_t n = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned v;

		assert_int_equal(sscanf(text + 2 * i, "%2x", &v), 1);
		text[i] = (char)v;
	}
	text[n] = 0;
	return n;
}

static uint32_t number(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 10);
}

static void check_vector(char **c)
{
	uint8_t canon[LINE_BYTES], digest[PEAL_DIGEST_BYTES];
	size_t seed_bytes = unhex(c[15]), salt_bytes = unhex(c[16]);
	size_t key_bytes = unhex(c[18]), canon_bytes = unhex(c[19]);
	struct peal_key_named n;
	struct peal_key_space s;

	for (unsigned i = 1; i <= 5; i++)
		unhex(c[i]);
	unhex(c[14]);
	s = (struct peal_key_space){
		.model = c[1],
		.revision = c[2],
		.dtype = c[3],
		.scale = c[4],
		.layout = c[5],
		.block_tokens = number(c[6]),
		.tp_size = number(c[7]),
		.tp_rank = number(c[8]),
		.pp_size = number(c[9]),
		.pp_rank = number(c[10]),
		.cp_size = number(c[11]),
		.cp_rank = number(c[12]),
		.group = number(c[13]),
		.hash = c[14],
		.seed = c[15],
		.seed_bytes = seed_bytes,
		.salt = c[16],
		.salt_bytes = salt_bytes,
	};
	print_message("%s\n", c[0]);
	assert_int_equal(peal_key_canon(&s, canon, sizeof(canon)), canon_bytes);
	assert_memory_equal(canon, c[19], canon_bytes);
	assert_int_equal(peal_key_digest(&s, digest), 0);
	assert_int_equal(unhex(c[20]), sizeof(digest));
	assert_memory_equal(digest, c[20], sizeof(digest));
	assert_int_equal(peal_key_make(digest, (uint8_t)number(c[17]), c[18], key_bytes, &n), 0);
	assert_int_equal(unhex(c[21]), n.key.len);
	assert_memory_equal(n.key.b, c[21], n.key.len);
	assert_int_equal(unhex(c[22]), sizeof(n.tag));
	assert_memory_equal(n.tag, c[22], sizeof(n.tag));
}

static void test_vectors(void **state)
{
	static char line[LINE_BYTES];
	FILE *f = fopen(vectors, "re");
	unsigned nr = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *c[VECTOR_COLUMNS + 1], *save = NULL;

		if (line[0] == '#')
			continue;
		for (unsigned i = 0; i <= VECTOR_COLUMNS; i++) {
			c[i] = strtok_r(i ? NULL : line, " \n", &save);
			assert_non_null(c[i]);
		}
		check_vector(c);
		nr++;
	}
	fclose(f);
	assert_int_equal(nr, 5);
}

/* A text of up to 6 bytes out of few, so that fields often look like each other's heads. */
static void draw_bytes(struct rng *r, char b[8], size_t *bytes, bool is_text)
{
	static const char from[] = "\1\2\3\4\16\5ab";

	*bytes = rng_below(r, 6) + is_text;
	memset(b, 0, 8);
	for (size_t i = 0; i < *bytes; i++)
		b[i] = from[rng_below(r, sizeof(from) - 1)];
	if (!is_text && *bytes)
		b[0] = 0;
}

struct drawn {
	char b[7][8]; /* model revision dtype scale layout hash, seed; salt is seed's */
	struct peal_key_space s;
};

static void draw(struct rng *r, struct drawn *d)
{
	size_t n, seed;

	for (unsigned i = 0; i < 6; i++)
		draw_bytes(r, d->b[i], &n, true);
	draw_bytes(r, d->b[6], &seed, false);
	d->s = (struct peal_key_space){
		.model = d->b[0],
		.revision = d->b[1],
		.dtype = d->b[2],
		.scale = d->b[3],
		.layout = d->b[4],
		.hash = d->b[5],
		.seed = d->b[6],
		.seed_bytes = seed,
		.salt = d->b[6],
		.salt_bytes = seed ? rng_below(r, seed) : 0,
		.block_tokens = 1 + rng_below(r, 300),
		.tp_size = 1 + (uint32_t)rng_below(r, 8),
		.pp_size = 1 + rng_below(r, 8),
		.cp_size = 1 + rng_below(r, 8),
		.group = rng_below(r, 5),
	};
	d->s.tp_rank = rng_below(r, d->s.tp_size);
	d->s.pp_rank = rng_below(r, d->s.pp_size);
	d->s.cp_rank = rng_below(r, d->s.cp_size);
}

/* The next field has to be that one, with those bytes. */
static const uint8_t *expect(const uint8_t *at, uint8_t id, const void *bytes, size_t n)
{
	assert_int_equal(at[0], id);
	assert_int_equal(le32_get(at + 1), n);
	if (n)
		assert_memory_equal(at + 5, bytes, n);
	return at + 5 + n;
}

static const uint8_t *expect_number(const uint8_t *at, uint8_t id, uint32_t v)
{
	uint8_t le[4];

	le32_put(le, v);
	return expect(at, id, le, 4);
}

static void test_unique(void **state)
{
	struct rng r;

	rng_init(&r, unit_seed(11));
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t canon[512];
		const uint8_t *at = canon + 8;
		struct drawn d;
		ssize_t n;

		draw(&r, &d);
		n = peal_key_canon(&d.s, canon, sizeof(canon));
		assert_in_range(n, 8, sizeof(canon));
		assert_memory_equal(canon, "pealkey\1", 8);
		at = expect(at, 1, d.s.model, strlen(d.s.model));
		at = expect(at, 2, d.s.revision, strlen(d.s.revision));
		at = expect(at, 3, d.s.dtype, strlen(d.s.dtype));
		at = expect(at, 4, d.s.scale, strlen(d.s.scale));
		at = expect(at, 5, d.s.layout, strlen(d.s.layout));
		at = expect_number(at, 6, d.s.block_tokens);
		at = expect_number(at, 7, d.s.tp_size);
		at = expect_number(at, 8, d.s.tp_rank);
		at = expect_number(at, 9, d.s.pp_size);
		at = expect_number(at, 10, d.s.pp_rank);
		at = expect_number(at, 11, d.s.cp_size);
		at = expect_number(at, 12, d.s.cp_rank);
		at = expect_number(at, 13, d.s.group);
		at = expect(at, 14, d.s.hash, strlen(d.s.hash));
		at = expect(at, 15, d.s.seed, d.s.seed_bytes);
		at = expect(at, 16, d.s.salt, d.s.salt_bytes);
		assert_ptr_equal(at, canon + n);
	}
}

static void test_room(void **state)
{
	uint8_t all[256], some[256] = {0};
	ssize_t n = peal_key_canon(&least, NULL, 0);

	assert_int_equal(peal_key_canon(&least, all, sizeof(all)), n);
	assert_int_equal(peal_key_canon(&least, some, 20), n);
	assert_memory_equal(some, all, 20);
	for (unsigned i = 20; i < sizeof(some); i++)
		assert_int_equal(some[i], 0);
}

static void refuse(struct peal_key_space s, const char *word)
{
	uint8_t digest[PEAL_DIGEST_BYTES];

	assert_int_equal(peal_key_digest(&s, digest), -EINVAL);
	assert_non_null(strstr(peal_errmsg(), word));
}

#define REFUSE(word, ...) \
	do { \
		struct peal_key_space s = least; \
		s.__VA_ARGS__; \
		refuse(s, word); \
	} while (0)

static void test_refused(void **state)
{
	static char text[PEAL_KEY_FIELD_MAX + 2];

	memset(text, 'x', sizeof(text) - 1);
	REFUSE("model", model = NULL);
	REFUSE("model", model = "");
	REFUSE("dtype", dtype = "");
	REFUSE("layout", layout = "");
	REFUSE("hash", hash = "");
	REFUSE("revision has 4097", revision = text);
	REFUSE("salt has 4097", salt_bytes = (s.salt = text, sizeof(text) - 1));
	REFUSE("seed is NULL", seed_bytes = 1);
	REFUSE("block_tokens", block_tokens = 0);
	REFUSE("tp_size", tp_size = 0);
	REFUSE("tp_rank", tp_rank = 1);
	REFUSE("pp_rank", pp_rank = 7);
	REFUSE("cp_size", cp_size = 0);
}

static void test_make(void **state)
{
	static uint8_t long_key[PEAL_KEY_FIELD_MAX + 1];
	uint8_t digest[PEAL_DIGEST_BYTES] = {0};
	struct peal_key_named a, b;

	assert_int_equal(peal_key_make(digest, 0, "k", 1, &a), -EINVAL);
	assert_int_equal(peal_key_make(digest, 1, NULL, 1, &a), -EINVAL);
	assert_int_equal(peal_key_make(digest, 1, "k", 0, &a), -EINVAL);
	assert_int_equal(peal_key_make(digest, 1, long_key, sizeof(long_key), &a), -EINVAL);
	assert_int_equal(peal_key_make(digest, 1, "k", 1, &a), 0);
	assert_int_equal(a.key.len, PEAL_KEY_MAX);
	assert_int_equal(peal_key_make(digest, 2, "k", 1, &b), 0);
	assert_memory_not_equal(a.key.b, b.key.b, PEAL_KEY_MAX);
	/* The tag tells more than the key: it isn't the key made longer. */
	assert_memory_not_equal(a.key.b, a.tag, PEAL_KEY_MAX);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_unique),
		cmocka_unit_test(test_room),	cmocka_unit_test(test_refused),
		cmocka_unit_test(test_make),
	};

	vectors = argc > 1 ? argv[1] : "key_vectors.txt";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
