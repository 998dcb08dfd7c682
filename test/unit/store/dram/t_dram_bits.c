/* SPDX-License-Identifier: Apache-2.0 */
/* dram_bits.c: against a byte per bit, at sizes on both sides of every level's edge. */
#include "unit.h"

#include "base/rng.h"
#include "store/dram/dram_bits.h"

static uint64_t model_next(const uint8_t *m, uint64_t nr, uint64_t from)
{
	for (; from < nr; from++)
		if (m[from])
			return from;
	return DRAM_BITS_END;
}

static void one_size(uint64_t nr, struct rng *rng)
{
	void *mem = calloc(1, dram_bits_bytes(nr));
	uint8_t *model = calloc(1, nr + 1);
	struct dram_bits b;
	uint64_t i;

	assert_non_null(mem);
	dram_bits_init(&b, mem, nr);
	assert_true(dram_bits_next(&b, 0) == DRAM_BITS_END);
	for (int step = 0; step < 3000; step++) {
		/*
		 * Runs of setting and of clearing, so that words and summaries become full and
		 * empty.
		 */
		i = rng_below(rng, nr);
		if (step / 300 % 2 == 0) {
			dram_bits_set(&b, i);
			model[i] = 1;
		} else {
			i = model_next(model, nr, i);
			if (i == DRAM_BITS_END)
				continue;
			dram_bits_clear(&b, i);
			model[i] = 0;
		}
		assert_int_equal(dram_bits_test(&b, i), model[i]);
		i = rng_chance(rng, 1, 8) ? nr - 1 : rng_below(rng, nr + 2);
		assert_true(dram_bits_next(&b, i) == model_next(model, nr, i));
	}
	free(model);
	free(mem);
}

static void t_model(void **state)
{
	static const uint64_t sizes[] = {1,    2,    63,   64,	 65,	 127,	 128,	4095,
					 4096, 4097, 9000, 4160, 262143, 262144, 262145};
	struct rng rng;

	rng_init(&rng, unit_seed(2));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		one_size(sizes[i], &rng);
}

/*
 * Five levels: the last bit of 2^30, found from far away. 130 MiB of address space, few pages of it
 * touched.
 */
static void t_large(void **state)
{
	uint64_t nr = 1ull << 30;
	void *mem = calloc(1, dram_bits_bytes(nr));
	struct dram_bits b;

	assert_non_null(mem);
	assert_true(dram_bits_bytes(nr) < nr / 8 + nr / 8 / 60);
	dram_bits_init(&b, mem, nr);
	dram_bits_set(&b, nr - 1);
	dram_bits_set(&b, 70);
	assert_true(dram_bits_next(&b, 0) == 70);
	assert_true(dram_bits_next(&b, 71) == nr - 1);
	assert_true(dram_bits_next(&b, nr) == DRAM_BITS_END);
	dram_bits_clear(&b, nr - 1);
	assert_true(dram_bits_next(&b, 71) == DRAM_BITS_END);
	free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_model),
		cmocka_unit_test(t_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
