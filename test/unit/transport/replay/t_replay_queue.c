/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads through replay queues: every byte checked, at every depth, with lists of one page and
 * more, and with fewer requests than commands.
 */
#include "replay_fix.h"
#include <errno.h>

static void test_depths(void **state)
{
	static const uint32_t depths[] = {1, 2, 3, 63, 64, 65, 1023, 4095};
	struct replay_host *h;
	struct load *ld, *lds[8];
	struct rfix f;

	rfix_init(&f, 1);
	assert_int_equal(replay_host_create(f.n->ss, &h), 0);
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		struct replay_queue_opts o = {.depth = depths[i], .slot_bytes = LOAD_BLOCK};

		lds[i] = ld = load_create(i, 10000, 0, LOAD_BLOCKS);
		memcpy(ld->model, f.ns->bytes, FAKE_NS_BYTES);
		o.load = &ld->l;
		assert_int_equal(replay_queue_create(h, &o, NULL), 0);
		assert_true(fake_node_run(f.n, load_is_over, ld, 1000000));
		assert_memory_equal(ld->model, f.ns->bytes, FAKE_NS_BYTES);
		assert_int_equal(ld->nr_done, 10000);
	}
	rfix_host_end(&f, h);
	rfix_fini(&f);
	for (size_t i = 0; i < sizeof(lds) / sizeof(lds[0]); i++)
		free(lds[i]);
}

static void test_limits(void **state)
{
	struct load *ld = load_create(1, 0, 0, 1);
	struct replay_queue_opts o = {.depth = 1, .load = &ld->l}, bad;
	struct replay_host *h;
	struct rfix f;

	rfix_init(&f, 1);
	assert_int_equal(replay_host_create(f.n->ss, &h), 0);
	bad = o;
	bad.worker = 1;
	assert_int_equal(replay_queue_create(h, &bad, NULL), -EINVAL);
	bad = o;
	bad.depth = 0;
	assert_int_equal(replay_queue_create(h, &bad, NULL), -EINVAL);
	bad.depth = 4096;
	assert_int_equal(replay_queue_create(h, &bad, NULL), -EINVAL);
	for (int i = 0; i < TGT_QUEUES_MAX; i++)
		assert_int_equal(replay_queue_create(h, &o, NULL), 0);
	assert_int_equal(replay_queue_create(h, &o, NULL), -EINVAL);
	rfix_host_end(&f, h);
	rfix_fini(&f);
	free(ld);
}

/* One large buffer after the other, of every length around the ends of list pages. */
struct big {
	struct replay_load l;
	uint8_t *want;
	uint32_t len, nr;
	bool is_read;
};

#define BIG_NR (8 * 3 * 2)

static int64_t big_next(struct replay_load *l, uint32_t slot, struct nvme_sqe *sqe, void *buf)
{
	static const uint32_t pages[] = {1, 2, 3, 512, 513, 514, 1023, 1024};
	struct big *b = container_of(l, struct big, l);

	if (b->nr >= BIG_NR)
		return -EAGAIN;
	b->len = pages[b->nr / 6] * 4096 - b->nr / 2 % 3;
	b->is_read = b->nr % 2;
	*sqe = (struct nvme_sqe){
		.opc = b->is_read ? FAKE_READ : FAKE_WRITE, .nsid = 1, .cdw10 = b->len};
	if (b->is_read)
		memset(buf, 0xee, b->len);
	else
		memcpy(buf, b->want + b->nr, b->len);
	return b->len;
}

static void big_done(struct replay_load *l, uint32_t slot, const struct nvme_cqe *cqe,
		     const void *buf)
{
	struct big *b = container_of(l, struct big, l);

	assert_int_equal(cqe->status >> 1, 0);
	if (b->is_read)
		assert_memory_equal(buf, b->want + b->nr - 1, b->len);
	b->nr++;
}

static bool big_is_over(void *arg)
{
	return ((struct big *)arg)->nr == BIG_NR;
}

static void test_big(void **state)
{
	struct big b = {.l = {big_next, big_done}, .want = malloc(2 * FAKE_NS_BYTES)};
	struct replay_queue_opts o = {.depth = 1, .slot_bytes = FAKE_NS_BYTES, .load = &b.l};
	struct replay_host *h;
	struct rfix f;

	rfix_init(&f, 1);
	rng_fill(&f.n->rng, b.want, 2 * FAKE_NS_BYTES);
	assert_int_equal(replay_host_create(f.n->ss, &h), 0);
	assert_int_equal(replay_queue_create(h, &o, NULL), 0);
	assert_true(fake_node_run(f.n, big_is_over, &b, 100000));
	rfix_host_end(&f, h);
	rfix_fini(&f);
	free(b.want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_depths),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_big),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
