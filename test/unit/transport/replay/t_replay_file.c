/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of recordings: what is right is read, what is wrong is refused, a file may end
 * anywhere, and no bytes make it do anything else.
 */
#include "unit.h"
#include <errno.h>
#include <unistd.h>
#include "base/rng.h"
#include "transport/replay/replay_file.h"

static union {
	uint64_t align;
	uint8_t b[65536];
} img;
static size_t fill;

static void head(void)
{
	struct replay_file_head h = {
		.magic = REPLAY_FILE_MAGIC, .version = 1, .head_bytes = sizeof(h), .stride = 4};

	memset(&img, 0, sizeof(img));
	memcpy(img.b, &h, sizeof(h));
	fill = sizeof(h);
}

static struct replay_file_rec *add(uint8_t kind, uint16_t qid, uint32_t seq, uint32_t len,
				   uint32_t payload)
{
	struct replay_file_rec *r = (struct replay_file_rec *)(img.b + fill);

	*r = (struct replay_file_rec){.kind = kind, .qid = qid, .seq = seq, .len = len};
	r->bytes = (uint32_t)(sizeof(*r) + ((payload + 7) & ~7u));
	memset(r + 1, (int)seq + 1, payload);
	fill += r->bytes;
	return r;
}

/* Two queues, four commands: with kept data, without, to the host, without an end. */
static void sample(void)
{
	head();
	add(REPLAY_QUEUE, 1, 0, 64, 0);
	add(REPLAY_QUEUE, 2, 0, 64, 0);
	add(REPLAY_SQE, 1, 0, 0, 64);
	add(REPLAY_DATA, 1, 0, 100, 100)->dir = REPLAY_FROM_HOST;
	add(REPLAY_SQE, 2, 1, 0, 64);
	add(REPLAY_SQE, 1, 2, 0, 64);
	add(REPLAY_CQE, 2, 1, 0, 16);
	add(REPLAY_DATA, 1, 2, 5000, 0)->dir = REPLAY_TO_HOST;
	add(REPLAY_CQE, 1, 0, 0, 16);
	add(REPLAY_SQE, 1, 3, 0, 64);
	add(REPLAY_CQE, 1, 2, 0, 16);
	add(REPLAY_END, 0, 4, 0, 0);
}

static void test_good(void **state)
{
	static const uint64_t events[] = {0, 2, 4, 3, 1, 6, 5};
	struct replay_file f;

	sample();
	assert_int_equal(replay_file_parse(img.b, fill, &f), 0);
	assert_int_equal(f.nr_cmds, 4);
	assert_int_equal(f.nr_events, 7);
	assert_memory_equal(f.events, events, sizeof(events));
	assert_int_equal(f.len_max, 5000);
	assert_int_equal(f.depth_max, 3);
	assert_false(f.is_torn);
	assert_int_equal(f.cmds[0].len, 100);
	assert_true(f.cmds[0].is_from_host);
	assert_int_equal(f.cmds[0].data[99], 1);
	assert_int_equal(f.cmds[0].qid, 1);
	assert_int_equal(f.cmds[1].qid, 2);
	assert_false(f.cmds[1].has_data);
	assert_int_equal(f.cmds[1].sqe->opc, 2);
	assert_null(f.cmds[2].data);
	assert_false(f.cmds[2].is_from_host);
	assert_non_null(f.cmds[2].cqe);
	assert_null(f.cmds[3].cqe);
	replay_file_close(&f);
}

static void test_torn(void **state)
{
	struct replay_file f;

	sample();
	for (size_t n = 0; n < fill; n++) {
		if (n < sizeof(struct replay_file_head)) {
			assert_int_equal(replay_file_parse(img.b, n, &f), -EINVAL);
			continue;
		}
		assert_int_equal(replay_file_parse(img.b, n, &f), 0);
		assert_true(f.nr_cmds <= 4);
		for (uint32_t i = 0; i < f.nr_cmds; i++)
			assert_non_null(f.cmds[i].sqe);
		replay_file_close(&f);
	}
}

static void test_bad(void **state)
{
	struct replay_file f;
	struct replay_file_head *h = (struct replay_file_head *)img.b;
	struct replay_file_rec *r;

#define REFUSED() assert_int_equal(replay_file_parse(img.b, fill, &f), -EINVAL)
	sample();
	h->magic++;
	REFUSED();
	sample();
	h->version = 2;
	REFUSED();
	sample();
	h->head_bytes = 60;
	REFUSED();
	sample();
	h->head_bytes = (uint32_t)fill + 8;
	REFUSED();
	head();
	add(REPLAY_SQE, 1, 1, 0, 64); /* the first is 0 */
	REFUSED();
	head();
	add(REPLAY_SQE, 0, 0, 0, 64); /* an admin queue */
	REFUSED();
	head();
	add(REPLAY_SQE, 1, 0, 0, 56);
	REFUSED();
	head();
	add(REPLAY_CQE, 1, 0, 0, 16); /* of nothing */
	REFUSED();
	head();
	add(REPLAY_SQE, 1, 0, 0, 64);
	add(REPLAY_CQE, 1, 0, 0, 16);
	add(REPLAY_CQE, 1, 0, 0, 16); /* twice */
	REFUSED();
	head();
	add(REPLAY_SQE, 1, 0, 0, 64);
	add(REPLAY_CQE, 1, 0, 0, 16);
	add(REPLAY_DATA, 1, 0, 8, 0); /* too late */
	REFUSED();
	head();
	add(REPLAY_SQE, 1, 0, 0, 64);
	add(REPLAY_DATA, 1, 0, 8, 8); /* to the host: nothing to keep */
	REFUSED();
	head();
	add(REPLAY_SQE, 1, 0, 0, 64);
	add(REPLAY_DATA, 1, 0, 100, 8)->dir = REPLAY_FROM_HOST;
	REFUSED();
	head();
	add(REPLAY_SQE, 1, 0, 0, 64);
	add(REPLAY_DATA, 1, 0, REPLAY_DATA_MAX + 1, 0);
	REFUSED();
	head();
	add(9, 1, 0, 0, 0);
	REFUSED();
	head();
	r = add(REPLAY_END, 0, 0, 0, 0);
	r->bytes = 16;
	REFUSED();
	r->bytes = 28;
	REFUSED();
#undef REFUSED
}

static void test_random(void **state)
{
	struct replay_file f;
	struct rng rng;

	rng_init(&rng, unit_seed(4));
	for (int i = 0; i < 200000; i++) {
		if (i % 8 == 0)
			sample();
		img.b[rng_below(&rng, fill)] = (uint8_t)rng_u64(&rng);
		if (replay_file_parse(img.b, rng_below(&rng, fill + 1), &f) == 0)
			replay_file_close(&f);
	}
}

static void test_open(void **state)
{
	char path[] = "/tmp/peal-replay-XXXXXX";
	int fd = mkstemp(path);
	struct replay_file f;

	assert_true(fd >= 0);
	assert_int_equal(replay_file_open("/nowhere/at/all", &f), -ENOENT);
	assert_int_equal(replay_file_open("/dev/null", &f), -EINVAL);
	assert_int_equal(replay_file_open(path, &f), -EINVAL);
	sample();
	assert_int_equal(write(fd, img.b, fill), fill);
	assert_int_equal(replay_file_open(path, &f), 0);
	assert_int_equal(f.nr_cmds, 4);
	replay_file_close(&f);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good), cmocka_unit_test(test_torn),
		cmocka_unit_test(test_bad),  cmocka_unit_test(test_random),
		cmocka_unit_test(test_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
