/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ceph_get.c over a librados that this test plays: which ends when it is told to, refuses, or
 * doesn't answer. What a real one does with real objects is test/ceph's.
 */
#include "world.h"

#include <stdlib.h>

#include "store/rados/ceph_int.h"

#define READ_MAX_NS 1000000000ull
#define NR_READS (CEPH_SMALLS + 40)

/* ---- librados -------------------------------------------------------------------------------- */

struct fake_op {
	uint64_t *size;
	time_t *mtime;
	size_t *nr_read;
	char *buf;
	uint64_t len;
};

struct fake_comp {
	void *arg;
	rados_callback_t told;
	struct fake_op *op;
	int res;
};

/* Operations that are under way, in order; and what is to come of the next ones. */
static struct {
	struct fake_comp *busy[256];
	unsigned nr_busy, nr_begun, nr_failed;
	int refuse;
	/* Where the stack was when one was refused: the same place each time, if that is a loop. */
	uintptr_t frame;
	bool is_nested;
} fake;

static const uint8_t value[100] = "a value";

int rados_aio_create_completion2(void *arg, rados_callback_t told, rados_completion_t *out)
{
	struct fake_comp *c = calloc(1, sizeof(*c));

	must(c);
	c->arg = arg;
	c->told = told;
	*out = c;
	return 0;
}

void rados_aio_release(rados_completion_t comp)
{
	free(comp);
}

int rados_aio_get_return_value(rados_completion_t comp)
{
	return ((struct fake_comp *)comp)->res;
}

uint64_t rados_aio_get_version(rados_completion_t comp)
{
	return 7;
}

rados_read_op_t rados_create_read_op(void)
{
	struct fake_op *op = calloc(1, sizeof(*op));

	must(op);
	return op;
}

void rados_release_read_op(rados_read_op_t op)
{
	free(op);
}

void rados_read_op_assert_version(rados_read_op_t op, uint64_t ver)
{
}

void rados_read_op_stat(rados_read_op_t op, uint64_t *size, time_t *mtime, int *res)
{
	((struct fake_op *)op)->size = size;
	((struct fake_op *)op)->mtime = mtime;
}

void rados_read_op_getxattrs(rados_read_op_t op, rados_xattrs_iter_t *iter, int *res)
{
}

/* tidy: its form is librados' */
void rados_read_op_read(rados_read_op_t op, uint64_t off, size_t len, char *buf, size_t *nr_read,
			int *res)
{
	struct fake_op *f = op;

	f->buf = buf;
	f->len = len;
	f->nr_read = nr_read;
}

int rados_getxattrs_next(rados_xattrs_iter_t iter, const char **name, const char **val, size_t *len)
{
	*name = NULL;
	return 0;
}

void rados_getxattrs_end(rados_xattrs_iter_t iter)
{
}

int rados_aio_read_op_operate(rados_read_op_t op, rados_ioctx_t io, rados_completion_t comp,
			      const char *oid, int flags)
{
	struct fake_comp *c = comp;

	if (fake.refuse) {
		uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

		fake.is_nested |= fake.frame && fake.frame != frame;
		fake.frame = frame;
		fake.nr_failed++;
		return fake.refuse;
	}
	must(fake.nr_busy < ARRAY_SIZE(fake.busy));
	c->op = op;
	fake.busy[fake.nr_busy++] = c;
	fake.nr_begun++;
	return 0;
}

/* The oldest one ends: with a raw object, or res. */
static void fake_end(int res)
{
	struct fake_comp *c = fake.busy[0];

	must(fake.nr_busy);
	memmove(fake.busy, fake.busy + 1, --fake.nr_busy * sizeof(fake.busy[0]));
	c->res = res;
	if (!res) {
		*c->op->size = sizeof(value);
		*c->op->mtime = 1;
		if (c->op->buf) {
			memcpy(c->op->buf, value, sizeof(value));
			*c->op->nr_read = sizeof(value);
		}
	}
	c->told(c, c->arg);
}

/* ---- a store over it ------------------------------------------------------------------------- */

struct rig {
	struct world w;
	struct ceph_link link;
	struct world_io ios[NR_READS];
	char ctx;
};

static struct rig *rig_create(void)
{
	struct rig *g = calloc(1, sizeof(*g));
	struct store *s;

	must(g);
	memset(&fake, 0, sizeof(fake));
	world_init(&g->w, 1, unit_seed(1));
	world_set(&g->w, 1, 1 << 20);
	g->link.o = (struct ceph_opts){.pool = "kv",
				       .ns = "",
				       .read_max_ns = READ_MAX_NS,
				       .max_write_bytes = 1 << 20,
				       .max_keys = 1024,
				       .value_max = 1 << 20,
				       .nr_shards = 1};
	sem_init(&g->link.wake, 0, 0);
	must(ceph_scan_init(&g->link) == 0);
	atomic_store(&g->link.io, &g->ctx);
	must(ceph_create(&g->link, 0, &s) == 0);
	store_set_push(g->w.set, 0, s);
	return g;
}

static void rig_fini(struct rig *g)
{
	for (unsigned i = 0; i < NR_READS; i++)
		if (g->ios[i].io.view.st)
			store_release(&g->ios[i].io.view, g->w.r[0], NULL);
	world_settle(&g->w);
	world_fini(&g->w);
	ceph_scan_fini(&g->link);
	sem_destroy(&g->link.wake);
	free(g);
}

/* Reads from..to begin; those that find no slot wait for one. */
static void rig_begin(struct rig *g, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		g->ios[i].io = (struct store_io){
			.op = STORE_GET, .key = world_key(i), .len = sizeof(value)};
		world_start(&g->w, 0, &g->ios[i]);
	}
	world_settle(&g->w);
}

static unsigned rig_over(const struct rig *g, int res)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_READS; i++)
		nr += g->ios[i].is_over && g->ios[i].res == res;
	return nr;
}

static void rig_let_go(struct rig *g)
{
	for (unsigned i = 0; i < NR_READS; i++)
		if (g->ios[i].is_over && g->ios[i].io.view.st)
			store_release(&g->ios[i].io.view, g->w.r[0], NULL);
	world_settle(&g->w);
}

static struct store_stats rig_stats(const struct rig *g)
{
	struct store_stats st = {0};

	must(store_set_stats(g->w.set, 0, &st) == 0);
	return st;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_read(void **state)
{
	struct rig *g = rig_create();

	rig_begin(g, 0, 1);
	assert_int_equal(fake.nr_busy, 1);
	fake_end(0);
	world_settle(&g->w);
	assert_int_equal(rig_over(g, 0), 1);
	assert_int_equal(g->ios[0].io.view.value_len, sizeof(value));
	assert_int_equal(rig_stats(g).hits, 1);
	assert_int_equal(rig_stats(g).staged_bytes, sizeof(value));
	rig_fini(g);
}

/* Who waits for a slot has it when one is free, in order. */
static void test_waits(void **state)
{
	struct rig *g = rig_create();

	rig_begin(g, 0, NR_READS);
	assert_int_equal(fake.nr_busy, CEPH_SMALLS);
	for (unsigned i = 0; i < NR_READS; i++) {
		fake_end(0);
		world_settle(&g->w);
		assert_int_equal(rig_over(g, 0), i + 1);
		assert_true(g->ios[i].is_over);
		rig_let_go(g);
	}
	assert_int_equal(fake.nr_begun, NR_READS);
	rig_fini(g);
}

/*
 * The slots are taken by reads that go on being answered, slowly; who waits is a miss when its time
 * is over, and that says nothing against the cluster.
 */
static void test_waits_no_longer(void **state)
{
	struct rig *g = rig_create();

	rig_begin(g, 0, NR_READS);
	g->w.clock_ns += READ_MAX_NS * 3 / 4;
	/* Each slot is free once, and has its next reader: the first of those that wait. */
	for (unsigned i = 0; i < 20; i++) {
		fake_end(0);
		world_settle(&g->w);
		rig_let_go(g);
	}
	assert_int_equal(rig_over(g, 0), 20);
	for (unsigned i = 20; i < CEPH_SMALLS; i++) /* but not these: nobody lets go of them */
		fake_end(0);
	world_settle(&g->w);
	assert_int_equal(rig_over(g, -ENOENT), 0);
	g->w.clock_ns += READ_MAX_NS / 4 + 1000000;
	world_settle(&g->w);
	/* 20 more are under way, and are misses too: their time began when they were asked. */
	assert_int_equal(rig_over(g, -ENOENT), NR_READS - CEPH_SMALLS);
	assert_int_equal(rig_stats(g).late, NR_READS - CEPH_SMALLS);
	assert_false(atomic_load(&g->link.is_down));
	while (fake.nr_busy)
		fake_end(0);
	world_settle(&g->w);
	rig_fini(g);
}

/* Nothing is answered: all are misses after that time, and the link is down. */
static void test_silence(void **state)
{
	struct rig *g = rig_create();

	rig_begin(g, 0, NR_READS);
	g->w.clock_ns += READ_MAX_NS + 1000000;
	world_settle(&g->w);
	assert_int_equal(rig_over(g, -ENOENT), NR_READS);
	assert_true(atomic_load(&g->link.is_down));
	/* Then at once. */
	g->ios[0] = (struct world_io){
		.io = {.op = STORE_GET, .key = world_key(0), .len = sizeof(value)}};
	assert_int_equal(world_run(&g->w, 0, &g->ios[0]), -ENOENT);
	assert_int_equal(fake.nr_begun, CEPH_SMALLS);
	while (fake.nr_busy)
		fake_end(-ETIMEDOUT);
	world_settle(&g->w);
	rig_fini(g);
}

/* librados takes none of those that waited: each is a miss, in a loop, not in a heap of calls. */
static void test_refused_starts(void **state)
{
	struct rig *g = rig_create();

	rig_begin(g, 0, NR_READS);
	fake.refuse = -ENOMEM;
	fake_end(-ENOENT);
	world_settle(&g->w);
	assert_int_equal(fake.nr_failed, NR_READS - CEPH_SMALLS);
	assert_false(fake.is_nested);
	assert_int_equal(rig_over(g, -ENOENT), 1 + NR_READS - CEPH_SMALLS);
	while (fake.nr_busy)
		fake_end(-ENOENT);
	world_settle(&g->w);
	assert_int_equal(rig_over(g, -ENOENT), NR_READS);
	rig_fini(g);
}

/* No rights, or shut out: misses, and the link's thread is woken, once. */
static void test_refused(void **state)
{
	static const int said[][2] = {
		{-EPERM, -EPERM}, {-EACCES, -EPERM}, {-ESHUTDOWN, -ESHUTDOWN}, {-ENOENT, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		struct rig *g = rig_create();
		int wakes;

		rig_begin(g, 0, 8);
		while (fake.nr_busy)
			fake_end(said[i][0]);
		world_settle(&g->w);
		assert_int_equal(rig_over(g, -ENOENT), 8);
		assert_int_equal(atomic_load(&g->link.refused), said[i][1]);
		must(sem_getvalue(&g->link.wake, &wakes) == 0);
		assert_int_equal(wakes, said[i][1] != 0);
		assert_false(atomic_load(&g->link.is_down));
		rig_fini(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_waits_no_longer),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_refused_starts),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
