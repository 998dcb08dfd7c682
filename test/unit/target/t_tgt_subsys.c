/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subsystem's registers: options, controllers up to the limit, segments with references,
 * messages that meet a controller that is gone.
 */
#include "fake_fix.h"
#include <errno.h>
#include <nvme/types.h>

static void test_options(void **state)
{
	struct fake_node *n = fake_node_create(&(struct fake_node_opts){.seed = 1});
	struct tgt_subsys_opts o = {.nqn = "n", .serial = "123456789012345678901", .model = "m"};
	struct tgt_subsys *ss = NULL;
	char nqn[225];

	assert_int_equal(tgt_subsys_create(&n->node, &o, &ss), -EINVAL);
	assert_null(ss);
	o.serial = "12345678901234567890";
	memset(nqn, 'q', 224);
	nqn[224] = 0;
	o.nqn = nqn;
	assert_int_equal(tgt_subsys_create(&n->node, &o, &ss), -EINVAL);
	nqn[223] = 0;
	assert_int_equal(tgt_subsys_create(&n->node, &o, &ss), 0);
	assert_ptr_equal(tgt_subsys_node(ss), &n->node);
	tgt_subsys_destroy(ss);
	fake_node_destroy(n);
}

static const struct tgt_ctrl_ops no_ops;

static void test_ctrl_limit(void **state)
{
	struct fake_node *n = fake_node_create(&(struct fake_node_opts){.seed = 1});
	struct tgt_ctrl_opts o = {.ops = &no_ops, .home = n->node.workers[0], .max_queues = 1};
	struct tgt_ctrl *c[TGT_CTRLS_MAX + 1];

	for (unsigned i = 0; i < TGT_CTRLS_MAX; i++)
		assert_int_equal(tgt_ctrl_create(n->ss, &o, &c[i]), 0);
	assert_int_equal(tgt_ctrl_create(n->ss, &o, &c[TGT_CTRLS_MAX]), -ENOSPC);
	tgt_ctrl_destroy(c[7]);
	assert_int_equal(tgt_ctrl_create(n->ss, &o, &c[7]), 0);
	/* the only one whose place in tables of TGT_CTRLS_MAX is free */
	assert_int_equal(tgt_ctrl_id(c[7]), TGT_CTRLS_MAX + 8);
	for (unsigned i = 0; i < TGT_CTRLS_MAX; i++)
		tgt_ctrl_destroy(c[i]);
	fake_node_destroy(n);
}

/* IDs go round 16 bits and skip those in use. */
static void test_ctrl_ids(void **state)
{
	struct fake_node *n = fake_node_create(&(struct fake_node_opts){.seed = 1});
	struct tgt_ctrl_opts o = {.ops = &no_ops, .home = n->node.workers[0], .max_queues = 1};
	struct tgt_ctrl *keep, *c;

	assert_int_equal(tgt_ctrl_create(n->ss, &o, &keep), 0);
	assert_int_equal(tgt_ctrl_id(keep), 1);
	for (unsigned i = 2; i <= 0xffef; i++) {
		if (i % TGT_CTRLS_MAX == 1) /* has keep's place */
			continue;
		assert_int_equal(tgt_ctrl_create(n->ss, &o, &c), 0);
		assert_int_equal(tgt_ctrl_id(c), i);
		tgt_ctrl_destroy(c);
	}
	assert_int_equal(tgt_ctrl_create(n->ss, &o, &c), 0);
	assert_int_equal(tgt_ctrl_id(c), 2);
	tgt_ctrl_destroy(c);
	tgt_ctrl_destroy(keep);
	fake_node_destroy(n);
}

static unsigned nr_destroyed;

static void reg_destroy(struct mem_region *reg)
{
	nr_destroyed++;
	free(reg);
}

static struct mem_region *region(void)
{
	struct mem_region *reg = calloc(1, sizeof(*reg));

	reg->fd = -1;
	reg->refs = 1;
	reg->destroy = reg_destroy;
	return reg;
}

static void test_segments(void **state)
{
	struct fake_node *n = fake_node_create(&(struct fake_node_opts){.seed = 1});
	struct mem_region *a = region(), *b = region(), *got;

	assert_int_equal(tgt_subsys_segment_add(n->ss, a), 0);
	assert_int_equal(tgt_subsys_segment_add(n->ss, b), 1);
	assert_int_equal(b->id, 1);
	mem_region_put(a);
	mem_region_put(b);
	got = tgt_subsys_segment_get(n->ss, 0);
	assert_ptr_equal(got, a);
	tgt_subsys_segment_del(n->ss, 0);
	assert_int_equal(nr_destroyed, 0); /* still held */
	mem_region_put(got);
	assert_int_equal(nr_destroyed, 1);
	assert_null(tgt_subsys_segment_get(n->ss, 0));
	assert_null(tgt_subsys_segment_get(n->ss, TGT_SEGMENTS_MAX));
	assert_null(tgt_subsys_segment_get(n->ss, ~0u));
	a = region();
	for (int i = 2; i < TGT_SEGMENTS_MAX; i++)
		assert_int_equal(tgt_subsys_segment_add(n->ss, a), i);
	assert_int_equal(tgt_subsys_segment_add(n->ss, a), 0); /* again, as late as can be */
	assert_int_equal(tgt_subsys_segment_add(n->ss, a), -ENOSPC);
	mem_region_put(a);
	fake_node_destroy(n); /* puts the rest */
	assert_int_equal(nr_destroyed, 3);
}

/* A notice is on its way when its controller is destroyed. */
static void test_late_notice(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct fake_tr *t = fake_tr_create(f->n,
					   &(struct fake_tr_opts){.home = 1, .mem_pages = 64});

	for (int i = 0; i < 50; i++) {
		assert_int_equal(tgt_subsys_ns_add(f->n->ss, &fake_ns_create(1, 1)->ns, 0), 0);
		if (i % 2)
			fake_node_steps(f->n, 3);
		fake_tr_destroy(t);
		t = fake_tr_create(f->n, &(struct fake_tr_opts){.home = 1, .mem_pages = 64});
		assert_true(fake_tr_enable(t));
	}
	fake_tr_destroy(t);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),	    cmocka_unit_test(test_ctrl_limit),
		cmocka_unit_test(test_ctrl_ids),    cmocka_unit_test(test_segments),
		cmocka_unit_test(test_late_notice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
