/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_run(): all sizes at once through a queue that is shallower than they are many, tags and
 * metadata, one deadline for all, a daemon that goes away, and what is refused.
 */
#include "t_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/mono.h"

#define DEPTH 7
#define NR 80

struct rig {
	struct client *c;
	struct peal_queue *q;
	uint8_t *mem;
	struct peal_req reqs[NR];
};

/* Around every limit that peal_run() knows. */
static const size_t sizes[] = {1, 4096, 65535, 65536, 65537, 200000, 1u << 20, (1u << 20) + 1};
#define SIZE_MAX_BYTES ((1u << 20) + 1)

static size_t size_of(unsigned i)
{
	return sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
}

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	r->mem = malloc(NR * (size_t)SIZE_MAX_BYTES);
	if (client_setup((void **)&r->c, NULL) || peal_queue_open(r->c->p, DEPTH, &r->q))
		return -1;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;
	void *c = r->c;

	free(r->mem);
	free(r);
	return client_teardown(&c);
}

static void fill_reqs(struct rig *r, enum peal_req_op op)
{
	for (unsigned i = 0; i < NR; i++)
		r->reqs[i] = (struct peal_req){.op = op,
					       .key = peal_key_bytes(&i, sizeof(i)),
					       .buf = r->mem + i * (size_t)SIZE_MAX_BYTES,
					       .bytes = size_of(i),
					       .res = 1};
}

static void expect_all(struct rig *r, int res)
{
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(r->reqs[i].res, res);
}

static void test_sizes(void **state)
{
	struct rig *r = *state;
	uint8_t *want = malloc(SIZE_MAX_BYTES);

	fill_reqs(r, PEAL_REQ_PUT);
	for (unsigned i = 0; i < NR; i++)
		client_fill(r->reqs[i].buf, r->reqs[i].bytes, i);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 60000), NR);
	expect_all(r, 0);

	memset(r->mem, 0, NR * (size_t)SIZE_MAX_BYTES);
	fill_reqs(r, PEAL_REQ_GET);
	r->reqs[3].key = peal_key_text("absent");
	r->reqs[5].bytes--;
	assert_int_equal(peal_run(r->q, r->reqs, NR, 60000), NR - 2);
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(r->reqs[i].res, i == 3 ? -ENOENT : i == 5 ? -EMSGSIZE : 0);
		if (i == 3)
			continue;
		assert_int_equal(r->reqs[i].value_bytes, size_of(i));
		client_fill(want, size_of(i), i);
		if (i != 5)
			assert_memory_equal(r->reqs[i].buf, want, size_of(i));
	}
	free(want);

	fill_reqs(r, PEAL_REQ_EXIST);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 0), NR);
	fill_reqs(r, PEAL_REQ_DEL);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 0), NR);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 0), 0);
	expect_all(r, -ENOENT);
	assert_int_equal(peal_run(r->q, r->reqs, 0, 0), 0);
}

static void test_tags(void **state)
{
	struct rig *r = *state;
	struct peal_meta meta = {.tag = "a tag", .cls = 0, .cost_us = 5}, back = {0};
	uint8_t other[PEAL_TAG_BYTES] = "another tag";
	struct peal_req *req = &r->reqs[0];

	*req = (struct peal_req){.op = PEAL_REQ_PUT,
				 .key = peal_key_text("k"),
				 .buf = "value",
				 .bytes = 5,
				 .meta = &meta};
	assert_int_equal(peal_submit(r->q, &req, 1), 1);
	assert_int_equal(peal_reap(r->q, &req, 1, 0), 1);
	assert_int_equal(req->res, -EINVAL);
	assert_int_equal(peal_run(r->q, req, 1, 0), 1);
	req[1] = req[0] = (struct peal_req){.op = PEAL_REQ_GET,
					    .key = peal_key_text("k"),
					    .buf = r->mem,
					    .bytes = 5,
					    .want_tag = meta.tag};
	req[0].meta = &back;
	req[1].want_tag = other;
	assert_int_equal(peal_run(r->q, req, 2, 0), 1);
	assert_int_equal(req[0].res, 0);
	assert_int_equal(back.cost_us, 5);
	assert_memory_equal(r->mem, "value", 5);
	assert_int_equal(req[1].res, -ENOENT);
}

/* Not one after the other: the first that waits uses up the time of all. */
static void test_deadline(void **state)
{
	struct rig *r = *state;

	fake_pause(r->c->f, true);
	fill_reqs(r, PEAL_REQ_GET);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 30), 0);
	expect_all(r, -ETIMEDOUT);
	fake_pause(r->c->f, false);
	fill_reqs(r, PEAL_REQ_EXIST);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 60000), 0);
	expect_all(r, -ENOENT);
}

/*
 * A queue that isn't attached yet, and a daemon that stands still: that is tried once, as long as
 * the batch has time, and not once for each request.
 */
static void test_unattached(void **state)
{
	struct rig *r = *state;
	struct peal_key k = peal_key_text("k");
	uint8_t tag[PEAL_TAG_BYTES] = "a tag";
	struct peal_mem *m;

	for (unsigned i = 0; i < 4; i++) {
		unsigned nr_maps, before = fake_nr_connects(r->c->f);
		uint64_t start_ns;

		fake_disconnect(r->c->f);
		while (fake_nr_connects(r->c->f) == before ||
		       peal_exist(r->c->p, &k, NULL) == -ENOTCONN)
			poll(NULL, 0, 1); /* the keeper is about it */
		fake_pause(r->c->f, true);
		nr_maps = fake_nr_maps(r->c->f);
		fill_reqs(r, i & 1 ? PEAL_REQ_GET : PEAL_REQ_EXIST);
		for (unsigned n = 0; n < NR && i & 2; n++)
			r->reqs[n].want_tag = tag;
		start_ns = mono_ns();
		assert_int_equal(peal_run(r->q, r->reqs, NR, 50), 0);
		assert_true(mono_ns() - start_ns < MONO_NS_PER_S); /* the handle's are two */
		expect_all(r, -ETIMEDOUT);
		fake_pause(r->c->f, false);
		/* What was asked is answered by now: a queue's memory, and this. */
		assert_int_equal(peal_mem_alloc(r->c->p, 4096, &m), 0);
		assert_int_equal(fake_nr_maps(r->c->f) - nr_maps, 2);
		assert_int_equal(peal_mem_free(r->c->p, m), 0);
		fill_reqs(r, PEAL_REQ_EXIST);
		assert_int_equal(peal_run(r->q, r->reqs, NR, 60000), 0);
		expect_all(r, -ENOENT);
	}
}

static void test_busy(void **state)
{
	struct rig *r = *state;
	struct peal_req under_way = {.op = PEAL_REQ_EXIST, .key = peal_key_text("k")};
	struct peal_req *ptr = &under_way;

	assert_int_equal(peal_submit(r->q, &ptr, 1), 1);
	fill_reqs(r, PEAL_REQ_EXIST);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 0), -EBUSY);
	assert_int_equal(r->reqs[0].res, 1);
	assert_int_equal(peal_reap(r->q, &ptr, 1, 10000), 1);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 0), 0);
}

static void test_direct(void **state)
{
	struct rig *r = *state;
	struct peal_mem *m;
	struct peal_req req;

	assert_int_equal(peal_mem_alloc(r->c->p, 4u << 20, &m), 0);
	client_fill(peal_mem_ptr(m), 2u << 20, 1);
	req = (struct peal_req){.op = PEAL_REQ_PUT,
				.flags = PEAL_DIRECT,
				.key = peal_key_text("k"),
				.buf = peal_mem_ptr(m),
				.bytes = 2u << 20};
	assert_int_equal(peal_run(r->q, &req, 1, 1), 1);
	req.op = PEAL_REQ_GET;
	req.buf = (uint8_t *)peal_mem_ptr(m) + (2u << 20);
	assert_int_equal(peal_run(r->q, &req, 1, 1), 1);
	assert_memory_equal(req.buf, peal_mem_ptr(m), 2u << 20);
	req.buf = r->mem;
	assert_int_equal(peal_run(r->q, &req, 1, 1), 0);
	assert_int_equal(req.res, -EINVAL);
}

static void test_gone(void **state)
{
	struct rig *r = *state;

	fake_stop(r->c->f);
	fill_reqs(r, PEAL_REQ_GET);
	assert_int_equal(peal_run(r->q, r->reqs, NR, 2000), 0);
	expect_all(r, -ENOTCONN);
	r->c->f = fake_start(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tags, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unattached, setup, teardown),
		cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_direct, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
