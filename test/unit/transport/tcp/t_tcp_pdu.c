/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of a host's PDUs: those that Linux and SPDK send are taken, every field that may be wrong
 * is found and named, and whatever is taken has lengths that fit what is behind them: the last by
 * random headers.
 */
#include "unit.h"

#include <string.h>

#include "base/rng.h"
#include "transport/tcp/tcp_int.h"

#define BOTH (NVME_TCP_HDGST | NVME_TCP_DDGST)

static struct nvme_tcp_hdr cmd(uint8_t digests, uint32_t data)
{
	uint32_t hdr = 72 + (digests & NVME_TCP_HDGST ? 4 : 0);
	uint32_t dd = data && digests & NVME_TCP_DDGST ? 4 : 0;

	return (struct nvme_tcp_hdr){
		.type = NVME_TCP_CMD,
		.flags = (uint8_t)((digests & NVME_TCP_HDGST) | (dd ? NVME_TCP_DDGST : 0)),
		.hlen = 72,
		.pdo = (uint8_t)(data ? hdr : 0),
		.plen = hdr + data + dd,
	};
}

static struct nvme_tcp_hdr h2c(uint8_t digests, uint32_t data)
{
	struct nvme_tcp_hdr h = cmd(digests, data);

	h.type = NVME_TCP_H2C_DATA;
	h.hlen = 24;
	h.pdo -= 48;
	h.plen -= 48;
	return h;
}

static void good(struct nvme_tcp_hdr h, uint8_t digests, uint32_t data)
{
	struct tcp_pdu_fault f = tcp_pdu_check(&h, digests, false);

	assert_int_equal(f.fes, 0);
	assert_int_equal(tcp_pdu_data_bytes(&h), data);
}

static void bad(struct nvme_tcp_hdr h, uint8_t digests, uint16_t fes, uint32_t info)
{
	struct tcp_pdu_fault f = tcp_pdu_check(&h, digests, false);

	assert_int_equal(f.fes, fes);
	assert_int_equal(f.info, info);
}

static void test_good(void **state)
{
	struct nvme_tcp_hdr h;

	for (uint8_t d = 0; d <= BOTH; d++) {
		good(cmd(d, 0), d, 0);
		good(cmd(d, 1), d, 1);
		good(cmd(d, TCP_CAPSULE_MAX), d, TCP_CAPSULE_MAX);
		good(h2c(d, 1), d, 1);
		good(h2c(d, TCP_BUF_BYTES), d, TCP_BUF_BYTES);
		h = h2c(d, 4096);
		h.flags |= NVME_TCP_LAST;
		good(h, d, 4096);
	}
	h = (struct nvme_tcp_hdr){.type = NVME_TCP_ICREQ, .hlen = 128, .plen = 128};
	assert_int_equal(tcp_pdu_check(&h, 0, true).fes, 0);
	/* A gap before the data, in words. */
	h = cmd(0, 512);
	h.pdo += 8;
	h.plen += 8;
	good(h, 0, 512);
}

static void test_bad(void **state)
{
	struct nvme_tcp_hdr h;

	for (unsigned type = 0; type < 256; type++) {
		h = cmd(0, 0);
		h.type = (uint8_t)type;
		if (type == NVME_TCP_CMD || type == NVME_TCP_ICREQ || type == NVME_TCP_H2C_DATA ||
		    type == NVME_TCP_H2C_TERM)
			continue;
		bad(h, 0, NVME_TCP_FES_HDR, 0);
	}
	h = cmd(0, 0);
	assert_int_equal(tcp_pdu_check(&h, 0, true).fes, NVME_TCP_FES_SEQUENCE);
	h = (struct nvme_tcp_hdr){.type = NVME_TCP_ICREQ, .hlen = 128, .plen = 128};
	bad(h, 0, NVME_TCP_FES_SEQUENCE, 0);
	h = cmd(0, 0), h.hlen = 71, bad(h, 0, NVME_TCP_FES_HDR, 2);
	h = cmd(0, 0), h.flags = NVME_TCP_HDGST, bad(h, 0, NVME_TCP_FES_HDR, 1);
	h = cmd(BOTH, 0), h.flags = 0, bad(h, BOTH, NVME_TCP_FES_HDR, 1);
	h = cmd(BOTH, 100), h.flags &= (uint8_t)~NVME_TCP_DDGST, bad(h, BOTH, NVME_TCP_FES_HDR, 1);
	h = cmd(0, 0), h.flags = 0x80, bad(h, 0, NVME_TCP_FES_HDR, 1);
	h = cmd(0, 0), h.flags = NVME_TCP_LAST, bad(h, 0, NVME_TCP_FES_HDR, 1);
	h = cmd(0, 100), h.pdo = 68, bad(h, 0, NVME_TCP_FES_HDR, 3);
	h = cmd(0, 100), h.pdo = 73, bad(h, 0, NVME_TCP_FES_HDR, 3);
	h = cmd(0, 100), h.pdo = 132, bad(h, 0, NVME_TCP_FES_HDR, 3);
	h = h2c(0, 100), h.pdo = 0, h.plen = 24, bad(h, 0, NVME_TCP_FES_HDR, 3);
	h = cmd(0, 0), h.plen = 73, bad(h, 0, NVME_TCP_FES_HDR, 4);
	h = cmd(0, 0), h.plen = 0, bad(h, 0, NVME_TCP_FES_HDR, 4);
	h = cmd(0, 100), h.plen = 72, bad(h, 0, NVME_TCP_FES_HDR, 4);
	h = cmd(0, 100), h.plen = UINT32_MAX, bad(h, 0, NVME_TCP_FES_HDR, 4);
	bad(cmd(0, TCP_CAPSULE_MAX + 1), 0, NVME_TCP_FES_HDR, 4);
	bad(h2c(BOTH, TCP_BUF_BYTES + 1), BOTH, NVME_TCP_FES_HDR, 4);
}

/* Whatever is taken can be read without looking beyond it. */
static void test_random(void **state)
{
	unsigned nr_good = 0;
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	for (unsigned i = 0; i < 2000000; i++) {
		uint8_t d = (uint8_t)rng_below(&rng, 4);
		uint32_t data = (uint32_t)rng_below(&rng, 3 * TCP_BUF_BYTES / 2);
		struct nvme_tcp_hdr h = rng_chance(&rng, 1, 2) ? cmd(d, data % 9000) : h2c(d, data);
		uint32_t n;

		((uint8_t *)&h)[rng_below(&rng, 8)] ^= (uint8_t)(1u << rng_below(&rng, 8));
		if (tcp_pdu_check(&h, d, false).fes)
			continue;
		nr_good++;
		n = tcp_pdu_data_bytes(&h);
		if (h.type == NVME_TCP_H2C_TERM)
			continue;
		assert_true(h.plen >= tcp_pdu_hdr_bytes(h.type, d));
		assert_true(n <= (h.type == NVME_TCP_CMD ? TCP_CAPSULE_MAX : TCP_BUF_BYTES));
		if (h.pdo)
			assert_int_equal(h.pdo + n + (h.flags & NVME_TCP_DDGST ? 4 : 0), h.plen);
		assert_true(h.type != NVME_TCP_CMD || h.plen <= TCP_RX_BYTES);
	}
	assert_true(nr_good > 1000);
}

static void test_icreq(void **state)
{
	struct nvme_tcp_icreq ic = {.max_r2t = UINT32_MAX, .digest = 3};

	assert_int_equal(tcp_pdu_check_icreq(&ic).fes, 0);
	ic.pfv = 1;
	assert_int_equal(tcp_pdu_check_icreq(&ic).info, 8);
	ic.pfv = 0;
	ic.hpda = 1;
	assert_int_equal(tcp_pdu_check_icreq(&ic).info, 10);
	ic.hpda = 0;
	ic.digest = 4;
	assert_int_equal(tcp_pdu_check_icreq(&ic).info, 11);
	assert_int_equal(tcp_pdu_check_icreq(&ic).fes, NVME_TCP_FES_PARAM);
}

static void test_connect(void **state)
{
	static struct nvmf_connect c = {.subnqn = "nqn.a", .hostnqn = "nqn.b"};

	assert_int_equal(tcp_pdu_check_connect(&c), 0);
	memset(c.hostnqn, 'x', sizeof(c.hostnqn));
	assert_int_equal(tcp_pdu_check_connect(&c), 512);
	memset(c.hostnqn + NVMF_NQN_MAX, 0, sizeof(c.hostnqn) - NVMF_NQN_MAX);
	assert_int_equal(tcp_pdu_check_connect(&c), 0);
	c.subnqn[0] = 0;
	assert_int_equal(tcp_pdu_check_connect(&c), 256);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),	cmocka_unit_test(test_bad),
		cmocka_unit_test(test_random),	cmocka_unit_test(test_icreq),
		cmocka_unit_test(test_connect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
