/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers, enable, reset, shutdown, Keep Alive: what a host writes and what it must read.
 */
#include "fake_fix.h"
#include <errno.h>
#include "fake_dev.h"

static struct fake_node *node(void)
{
	return fake_node_create(&(struct fake_node_opts){.seed = unit_seed(2), .nr = 2});
}

static void test_registers(void **state)
{
	struct fake_node *n = node();
	struct fake_tr *t = fake_tr_create(n, NULL);
	uint64_t cap = fake_tr_reg(t, 0, 8), val;

	assert_int_equal(cap & 0xffff, 4095);
	assert_int_equal(cap >> 16 & 1, 1);	  /* CQR */
	assert_int_equal(cap >> 24 & 0xff, 30);	  /* TO */
	assert_int_equal(cap >> 32 & 0xf, 0);	  /* DSTRD */
	assert_int_equal(cap >> 36 & 1, 0);	  /* NSSRS */
	assert_int_equal(cap >> 37 & 0xff, 0x41); /* CSS: NVM, I/O command sets */
	assert_int_equal(cap >> 48 & 0xff, 0);	  /* MPSMIN, MPSMAX */
	assert_int_equal(cap >> 59 & 3, 1);	  /* CRMS */
	assert_int_equal(fake_tr_reg(t, 0, 4), (uint32_t)cap);
	assert_int_equal(fake_tr_reg(t, 4, 4), cap >> 32);
	assert_int_equal(fake_tr_reg(t, 0x08, 4), 0x20000);
	assert_int_equal(fake_tr_reg(t, 0x68, 4), 30); /* CRTO */
	assert_int_equal(fake_tr_reg(t, 0x20, 4), 0);  /* NSSR */
	assert_int_equal(fake_tr_reg(t, 0x40, 4), 0);  /* BPINFO */
	fake_tr_reg_set(t, 0x0c, 4, 0xf0);
	fake_tr_reg_set(t, 0x10, 4, 0x30);
	assert_int_equal(fake_tr_reg(t, 0x0c, 4), 0xc0);
	assert_int_equal(fake_tr_reg(t, 0x10, 8), 0xc0); /* INTMC, CC */
	fake_tr_reg_set(t, 0x28, 4, 0x12345fff);
	fake_tr_reg_set(t, 0x2c, 4, 0x9);
	assert_int_equal(fake_tr_reg(t, 0x28, 8), 0x912345000);
	fake_tr_reg_set(t, 0x24, 4, 0xffffffff);
	assert_int_equal(fake_tr_reg(t, 0x24, 4), 0x0fff0fff);
	fake_tr_reg_set(t, 0xff8, 8, ~0ull);
	assert_int_equal(fake_tr_reg(t, 0xff8, 8), 0);
	assert_int_equal(tgt_ctrl_reg_read(t->ctrl, 0, 2, &val), -EINVAL);
	assert_int_equal(tgt_ctrl_reg_read(t->ctrl, 4, 8, &val), -EINVAL);
	assert_int_equal(tgt_ctrl_reg_read(t->ctrl, 2, 4, &val), -EINVAL);
	assert_int_equal(tgt_ctrl_reg_read(t->ctrl, 0x1000, 4, &val), -EINVAL);
	assert_int_equal(tgt_ctrl_reg_write(t->ctrl, 0xfffffffc, 4, 0), -EINVAL);
	assert_int_equal(tgt_ctrl_reg_write(t->ctrl, 0x14, 1, 0), -EINVAL);
	tgt_ctrl_set_dstrd(t->ctrl, 4, 7);
	assert_int_equal(fake_tr_reg(t, 4, 4) & 0xf, 4);
	fake_tr_destroy(t);
	fake_node_destroy(n);
}

static bool is_fatal(void *arg)
{
	return fake_tr_reg(arg, 0x1c, 4) & 2;
}

/* CC and AQA that a controller must not come up with. */
static void test_bad_enable(void **state)
{
	static const struct {
		uint32_t cc, aqa;
		bool has_asq, ok;
	} cases[] = {
		{0x00460061, 0x001f001f, true, true},  /* CSS 6 */
		{0x00460001, 0x001f001f, true, true},  /* CSS 0 */
		{0x00460071, 0x001f001f, true, false}, /* CSS 7: CAP doesn't offer it */
		{0x00000061, 0x001f001f, true, true},  /* entry sizes may come later */
		{0x00460011, 0x001f001f, true, false}, /* CSS 1 */
		{0x00460051, 0x001f001f, true, false}, /* CSS 5 */
		{0x004600e1, 0x001f001f, true, false}, /* MPS 8 KiB */
		{0x00460861, 0x001f001f, true, false}, /* AMS */
		{0x00470061, 0x001f001f, true, false}, /* IOSQES 7 */
		{0x00560061, 0x001f001f, true, false}, /* IOCQES 5 */
		{0x00460061, 0x001f0000, true, false}, /* ASQS */
		{0x00460061, 0x0000001f, true, false}, /* ACQS */
		{0x00460061, 0x001f001f, false, false},
	};
	struct fake_node *n = node();
	struct fake_tr *t = fake_tr_create(n, NULL);
	uint64_t ring = fake_tr_alloc(t, 4096);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_tr_reg_set(t, 0x24, 4, cases[i].aqa);
		fake_tr_reg_set(t, 0x28, 8, cases[i].has_asq ? ring : 0);
		fake_tr_reg_set(t, 0x30, 8, ring);
		fake_tr_reg_set(t, 0x14, 4, cases[i].cc);
		fake_node_steps(n, 50);
		assert_int_equal(fake_tr_reg(t, 0x1c, 4), cases[i].ok ? 1 : 2);
		fake_tr_reg_set(t, 0x14, 4, 0);
		fake_node_steps(n, 50);
		assert_int_equal(fake_tr_reg(t, 0x1c, 4), 0);
	}
	fake_tr_destroy(t);
	fake_node_destroy(n);
}

/* A namespace has something of it, for ever: its end is told to each worker. */
static void hold(struct fix *f)
{
	*tgt_subsys_leased(f->n->ss, tgt_ctrl_id(f->t->ctrl)) = 1;
}

static void test_reset_and_shutdown(void **state)
{
	struct fix *f = fix_create(2, NULL);

	hold(f);
	/* AQA and the bases don't change while enabled. */
	fake_tr_reg_set(f->t, 0x24, 4, 0);
	assert_int_equal(fake_tr_reg(f->t, 0x24, 4), 0x001f001f);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00464061); /* SHN normal */
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1 | 1 << 2);
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1 | 2 << 2);
	assert_int_equal(f->ns->nr_gone, 1);
	/* It stays down until EN has been 0, whatever SHN says. */
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460061);
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1 | 2 << 2);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460060);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 0);
	/* Shutdown of a disabled one is over at once. */
	fake_tr_reg_set(f->t, 0x14, 4, 0x00464060);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 2 << 2);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460061);
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1);
	fix_destroy(f);
}

static bool is_two(void *arg)
{
	return *(int *)arg == 2;
}

static void count(void *arg)
{
	++*(int *)arg;
}

/* Reset under commands that don't end by themselves: RDY falls only when they have. */
static void test_reset_waits(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1}, aer = {.opc = 0x0c};
	int nr = 0;

	assert_true(fake_tr_submit(f->t, 1, &hang) >= 0);
	assert_true(fake_tr_submit(f->t, 0, &aer) >= 0);
	fake_node_steps(f->n, 100);
	assert_int_equal(f->ns->nr_hung, 1);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460060);
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1);
	/* On again before it is off: it goes down and comes back. */
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460061);
	tgt_ctrl_reset(f->t->ctrl, count, &nr);
	tgt_ctrl_reset(f->t->ctrl, count, &nr);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460061); /* a reset is under way: ignored */
	fake_node_steps(f->n, 100);
	assert_int_equal(nr, 0);
	fake_ns_let_go(f->ns);
	assert_true(fake_node_run(f->n, is_two, &nr, 1000));
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 0);
	assert_int_equal(fake_tr_reg(f->t, 0x14, 4), 0);
	assert_int_equal(fake_tr_reg(f->t, 0x24, 4), 0);
	tgt_ctrl_reset(f->t->ctrl, count, &nr);
	assert_int_equal(nr, 3);
	assert_int_equal(f->t->nr_strays, 0);
	fix_destroy(f);
}

static void test_off_and_on(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1};

	hold(f);
	assert_true(fake_tr_submit(f->t, 1, &hang) >= 0);
	fake_node_steps(f->n, 100);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460060);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460061);
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1); /* still the old one */
	fake_ns_let_go(f->ns);
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1);
	assert_int_equal(f->ns->nr_gone, 1);
	fix_destroy(f);
}

/* Enabled and disabled in a loop: one round at a time, and none without leases. */
static void test_one_round(void **state)
{
	struct fix *f = fix_create(3, NULL);

	hold(f);
	fake_tr_reg_set(f->t, 0x14, 4, 0x00460060);
	while (!f->ns->nr_gone)
		fake_node_step(f->n);
	for (int i = 0; i < 200; i++) {
		fake_tr_reg_set(f->t, 0x14, 4, 0x00460061);
		reactor_step(f->n->node.reactors[0]);
		fake_tr_reg_set(f->t, 0x14, 4, 0x00460060);
		reactor_step(f->n->node.reactors[0]);
	}
	assert_in_range(f->ns->nr_gone, 1, 2);
	fake_node_steps(f->n, 1000);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 0);
	f->ns->nr_gone = 0;
	*tgt_subsys_leased(f->n->ss, tgt_ctrl_id(f->t->ctrl)) = 0;
	for (int i = 0; i < 20; i++) {
		fake_tr_reg_set(f->t, 0x14, 4, 0x00460061);
		fake_node_steps(f->n, 50);
		assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1);
		fake_tr_reg_set(f->t, 0x14, 4, 0x00460060);
		fake_node_steps(f->n, 50);
		assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 0);
	}
	assert_int_equal(f->ns->nr_gone, 0);
	fix_destroy(f);
}

static void test_keep_alive(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe kato = {.opc = 0x09, .cdw10 = 0x0f, .cdw11 = 2500}, ka = {.opc = 0x18};

	hold(f);
	assert_int_equal(fake_tr_exec(f->t, 0, &kato, NULL), 0);
	for (int i = 0; i < 5; i++) {
		f->n->clock_ns += 2900000000ull; /* 2500 is rounded up to the granularity, 3 s */
		fake_node_steps(f->n, 10);
		assert_int_equal(fake_tr_exec(f->t, 0, &ka, NULL), 0);
	}
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1);
	f->n->clock_ns += 3100000000ull;
	assert_true(fake_node_run(f->n, is_fatal, f->t, 10000));
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_dev_nr_fatal(f->t->dev), 1);
	assert_int_equal(f->ns->nr_gone, 1); /* its queues are gone */
	assert_true(fake_tr_disable(f->t));
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 0);
	assert_true(fake_tr_enable(f->t));
	f->n->clock_ns += 100000000000ull; /* the new life has no KATO */
	fake_node_steps(f->n, 100);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1);
	fix_destroy(f);
}

static void test_many(void **state)
{
	struct fake_node *n = node();
	struct fake_tr *t[40];
	const struct fake_tr_opts o = {.mem_pages = 64};

	for (int i = 0; i < 40; i++) {
		t[i] = fake_tr_create(n, &o);
		assert_int_equal(tgt_ctrl_id(t[i]->ctrl), i + 1);
		assert_ptr_equal(tgt_ctrl_subsys(t[i]->ctrl), n->ss);
		assert_true(fake_tr_enable(t[i]));
	}
	for (int i = 0; i < 40; i++)
		fake_tr_destroy(t[i]);
	t[0] = fake_tr_create(n, &o);
	assert_int_equal(tgt_ctrl_id(t[0]->ctrl), 41); /* not used again so soon */
	fake_tr_destroy(t[0]);
	fake_node_destroy(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers),	   cmocka_unit_test(test_bad_enable),
		cmocka_unit_test(test_reset_and_shutdown), cmocka_unit_test(test_reset_waits),
		cmocka_unit_test(test_off_and_on),	   cmocka_unit_test(test_one_round),
		cmocka_unit_test(test_keep_alive),	   cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
