/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_class.c: what is counted is what is there, through replacing, deleting and evicting, and
 * when there are more classes than slots.
 */
#include "dram_world.h"

static int put_class(struct dworld *dw, uint32_t no, uint64_t len, uint16_t cls)
{
	struct store_meta meta = {.cls = cls, .cost_us = 1};
	struct world_io wi;
	int res = dworld_buf(dw, &wi, no, no, len);

	if (res)
		return res;
	wi.io.op = STORE_PUT;
	wi.io.meta = &meta;
	return world_run(&dw->w, 0, &wi);
}

static struct store_class of(struct dworld *dw, uint16_t cls)
{
	struct store_class all[DRAM_CLASSES + 1], none = {0};
	unsigned nr = store_set_classes(dw->w.set, 0, 0, all, ARRAY_SIZE(all));

	for (unsigned i = 0; i < nr; i++)
		if (all[i].cls == cls)
			return all[i];
	return none;
}

static void t_changes(void **state)
{
	struct dworld dw;

	dworld_init(&dw, 4 << 20);
	assert_int_equal(put_class(&dw, 1, 100, 7), 0);
	assert_int_equal(put_class(&dw, 2, 1000, 7), 0);
	assert_int_equal(put_class(&dw, 3, 70000, 8), 0);
	assert_int_equal(put_class(&dw, 4, 1, 0), 0);
	assert_int_equal(world_put(&dw.w, 5, 1, 10), 0);
	assert_int_equal(of(&dw, 7).nr_keys, 2);
	assert_int_equal(of(&dw, 7).value_bytes, 1100);
	assert_int_equal(of(&dw, 8).value_bytes, 70000);
	assert_int_equal(of(&dw, 0).nr_keys, 0);
	/* Another class, none at all, gone. */
	assert_int_equal(put_class(&dw, 1, 50, 8), 0);
	assert_int_equal(of(&dw, 7).value_bytes, 1000);
	assert_int_equal(of(&dw, 8).nr_keys, 2);
	assert_int_equal(world_put(&dw.w, 3, 1, 10), 0);
	assert_int_equal(of(&dw, 8).value_bytes, 50);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 1), 0);
	assert_int_equal(world_op(&dw.w, STORE_DEL, 2), 0);
	assert_int_equal(of(&dw, 7).nr_keys + of(&dw, 8).nr_keys, 0);
	world_fini(&dw.w);
}

/* Random puts and dels against a plain count; evictions besides. */
static void t_random(void **state)
{
	enum { KEYS = 200, NR = 5 };
	struct dworld dw;
	struct rng r;

	rng_init(&r, 11);
	dworld_init(&dw, 2 << 20);
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t no = (uint32_t)rng_below(&r, KEYS);

		if (rng_below(&r, 4))
			put_class(&dw, no, 1 + rng_below(&r, 60000), (uint16_t)rng_below(&r, NR));
		else
			world_op(&dw.w, STORE_DEL, no);
	}
	assert_true(dworld_stats(&dw).evictions > 0);
	for (uint16_t cls = 1; cls < NR; cls++) {
		struct store_class want = {0}, got = of(&dw, cls);

		for (uint32_t no = 0; no < KEYS; no++) {
			struct store_view v;

			if (dworld_pin(&dw, no, &v))
				continue;
			if (store_meta(&v)->cls == cls) {
				want.nr_keys++;
				want.value_bytes += v.value_len;
			}
			dworld_unpin(&dw, &v);
		}
		assert_int_equal(got.nr_keys, want.nr_keys);
		assert_int_equal(got.value_bytes, want.value_bytes);
	}
	world_fini(&dw.w);
}

/* Those that find no slot are counted together, and slots that are free are used again. */
static void t_many(void **state)
{
	static struct dram_classes c;
	struct store_class all[DRAM_CLASSES + 1];
	unsigned nr;

	for (unsigned i = 1; i <= DRAM_CLASSES + 10; i++)
		dram_class_add(&c, (uint16_t)i, i);
	nr = dram_class_list(&c, all, ARRAY_SIZE(all));
	assert_int_equal(nr, DRAM_CLASSES + 1);
	assert_int_equal(all[nr - 1].cls, 0);
	assert_int_equal(all[nr - 1].nr_keys, 10);
	/* One slot is free, but 300 may be among the others. */
	dram_class_sub(&c, 5, 5);
	dram_class_add(&c, 300, 1);
	for (unsigned i = DRAM_CLASSES + 1; i <= DRAM_CLASSES + 10; i++)
		dram_class_sub(&c, (uint16_t)i, i);
	dram_class_add(&c, 301, 1);
	dram_class_sub(&c, 300, 1);
	dram_class_sub(&c, 301, 1);
	/* Now nobody is. */
	dram_class_add(&c, 302, 3);
	nr = dram_class_list(&c, all, ARRAY_SIZE(all));
	assert_int_equal(nr, DRAM_CLASSES);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(all[i].value_bytes, all[i].cls == 302 ? 3 : all[i].cls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_changes),
		cmocka_unit_test(t_random),
		cmocka_unit_test(t_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
