/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal/pair.h over the fake daemon: a queue pair that peal/device.h drives, leases read in place
 * through its segments, what is said when there is none to be had or the daemon goes.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "fake_peald.h"
#include "peal/pair.h"
#include "peal/peal.h"

#define NR 20u
#define VALUE 5000u
#define ROOM 8192u

static const struct peal_lane one = {0, 1, NULL, NULL};

static struct peal_key key_of(uint32_t i)
{
	struct peal_key k = {.b = "pair", .len = 8};

	memcpy(k.b + 4, &i, 4);
	return k;
}

static void wave(const struct peal_pair_info *info, struct peal_device_queue *q, uint8_t opc,
		 struct peal_result *res)
{
	struct peal_sqe s;

	assert_int_equal(peal_wave_begin(q, NR), 1);
	for (uint32_t i = 0; i < NR; i++) {
		struct peal_key k = key_of(i);

		peal_sqe_keyed(&s, opc, info->nsid, &k, 0);
		if (opc == PEAL_KV_STORE)
			peal_sqe_sgl(&s, info->data_iova + i * ROOM, VALUE + i);
		if (opc == PEAL_KV_RETRIEVE || opc == PEAL_OPC_LEASE)
			peal_sqe_sgl(&s, info->data_iova + i * ROOM, ROOM);
		peal_wave_put(q, i, &s, res);
	}
	peal_wave_ring(q, &one);
	while (peal_wave_reap(q, &one, res, peal_port_ns() + 1000000) == PEAL_WAVE_LATE)
		;
	assert_int_equal(q->nr_busy, 0);
}

static void fill(const struct peal_pair_info *info)
{
	for (uint32_t i = 0; i < NR; i++)
		memset((uint8_t *)info->data + i * ROOM, (int)(i + 1), VALUE + i);
}

static void t_wave(void **state)
{
	struct fake *f = fake_start(&(struct fake_opts){0});
	struct peal_result res[NR];
	struct peal_pair *pair;
	struct peal_pair_info info;
	struct peal_device_queue q;

	assert_int_equal(peal_pair_open(fake_uri(f), NULL, &pair), 0);
	peal_pair_info(pair, &info);
	assert_int_equal(info.q.size, 1024);
	assert_true(info.data_bytes >= NR * ROOM && info.value_max > 0);
	q = info.q;
	fill(&info);
	wave(&info, &q, PEAL_KV_STORE, res);
	for (uint32_t i = 0; i < NR; i++)
		assert_int_equal(res[i].status, PEAL_ST_OK);
	memset(info.data, 0xee, NR * ROOM);
	wave(&info, &q, PEAL_KV_RETRIEVE, res);
	for (uint32_t i = 0; i < NR; i++) {
		const uint8_t *p = (const uint8_t *)info.data + i * ROOM;

		assert_int_equal(res[i].status, PEAL_ST_OK);
		assert_int_equal(res[i].dw0, VALUE + i);
		for (uint32_t b = 0; b < VALUE + i; b++)
			assert_int_equal(p[b], i + 1);
		assert_int_equal(p[VALUE + i], 0xee);
	}
	assert_int_equal(peal_pair_check(pair), 0);
	peal_pair_close(pair);
	fake_stop(f);
}

static void t_lease(void **state)
{
	struct fake *f = fake_start(&(struct fake_opts){0});
	struct peal_result res[NR];
	struct peal_pair *pair;
	struct peal_pair_info info;
	struct peal_device_queue q;
	const void *seg;
	size_t bytes;

	assert_int_equal(peal_pair_open(fake_uri(f), &(struct peal_pair_opts){.depth = 63}, &pair),
			 0);
	peal_pair_info(pair, &info);
	assert_int_equal(info.q.size, 64);
	assert_true(info.has_lease);
	q = info.q;
	fill(&info);
	wave(&info, &q, PEAL_KV_STORE, res);
	wave(&info, &q, PEAL_OPC_LEASE, res);
	for (uint32_t i = 0; i < NR; i++) {
		const uint8_t *p = (const uint8_t *)info.data + i * ROOM;
		struct peal_wire_lease l;
		struct peal_wire_extent x;

		assert_int_equal(res[i].status, PEAL_ST_OK);
		memcpy(&l, p, sizeof(l));
		memcpy(&x, p + sizeof(l), sizeof(x));
		assert_int_equal(l.value_bytes, VALUE + i);
		assert_int_equal(peal_pair_segment(pair, x.segment, &seg, &bytes), 0);
		assert_true(x.offset + x.len <= bytes);
		assert_int_equal(((const uint8_t *)seg)[x.offset], i + 1);
	}
	assert_int_equal(peal_pair_segment(pair, 77, &seg, &bytes), -ENOENT);
	peal_pair_close(pair);
	fake_stop(f);
}

static void t_refused(void **state)
{
	struct fake *f = fake_start(&(struct fake_opts){.no_sgl = true});
	struct peal_pair *pair;

	assert_int_equal(peal_pair_open(fake_uri(f), NULL, &pair), -EOPNOTSUPP);
	assert_non_null(strstr(peal_errmsg(), "SGL"));
	assert_int_equal(peal_pair_open(fake_uri(f), &(struct peal_pair_opts){.depth = 5000},
					&pair),
			 -EINVAL);
	fake_stop(f);
	assert_true(peal_pair_open("vfu:/nowhere/at/all", NULL, &pair) < 0);
	peal_pair_close(NULL);
}

static void t_gone(void **state)
{
	struct fake *f = fake_start(&(struct fake_opts){0});
	struct peal_pair *pair;

	assert_int_equal(peal_pair_open(fake_uri(f), NULL, &pair), 0);
	fake_stop(f);
	assert_int_equal(peal_pair_check(pair), -ENOTCONN);
	peal_pair_close(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_wave),
		cmocka_unit_test(t_lease),
		cmocka_unit_test(t_refused),
		cmocka_unit_test(t_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
