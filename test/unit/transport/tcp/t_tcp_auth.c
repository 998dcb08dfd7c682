/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DH-HMAC-CHAP: each hash and each kind of secret with vectors that Python made (auth_vectors.py);
 * each group with a host that has the same arithmetic; everything that a host may say wrongly, and
 * which reason it is told; messages of chance and cut ones. test/peer/tcp_auth.py does it all once
 * more, over a socket, with arithmetic of its own.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/le.h"
#include "base/rng.h"
#include "transport/tcp/tcp_auth.h"

#include "auth_vectors.h"

static struct tcp_secret_host someone(const struct vector *v, bool has_ctrl)
{
	struct tcp_secret_host h = {.nqn = VECTOR_HOST};

	assert_int_equal(tcp_secrets_word(v->host, strlen(v->host), &h.host), 0);
	if (has_ctrl)
		assert_int_equal(tcp_secrets_word(v->ctrl, strlen(v->ctrl), &h.ctrl), 0);
	return h;
}

static size_t negotiate(uint8_t msg[72], uint16_t tid, uint8_t hash, uint8_t group)
{
	struct nvmf_auth_negotiate n = {.hdr = {.tid = htole16(tid)}, .nr_protocols = 1};
	struct nvmf_auth_protocol p = {
		.id = 1, .nr_hashes = 1, .nr_groups = 1, .hashes = {hash}, .groups = {group}};

	memcpy(msg, &n, sizeof(n));
	memcpy(msg + sizeof(n), &p, sizeof(p));
	return sizeof(n) + sizeof(p);
}

static size_t reply(uint8_t *msg, const struct vector *v, const uint8_t *dh, uint32_t dh_bytes,
		    bool is_both)
{
	uint32_t hash = nvmf_hash_bytes(v->hash);
	struct nvmf_auth_reply r = {.hdr = {.type = 1, .id = 2, .tid = htole16(v->tid)},
				    .hash_bytes = (uint8_t)hash,
				    .has_c2 = is_both,
				    .group_bytes = htole16((uint16_t)dh_bytes),
				    .seq = htole32(is_both ? v->s2 : 0)};

	memcpy(msg, &r, sizeof(r));
	memcpy(msg + 16, v->r1, hash);
	memcpy(msg + 16 + hash, v->c2, hash);
	if (dh_bytes)
		memcpy(msg + 16 + 2 * hash, dh, dh_bytes);
	return 16 + 2 * hash + dh_bytes;
}

/* Up to the Reply, with the challenge of the vector. */
static void begin(struct tcp_auth *a, const struct tcp_secret_host *h, const struct vector *v)
{
	uint8_t msg[72], out[TCP_AUTH_OUT_MAX];

	tcp_auth_init(a, h, VECTOR_SUBSYSTEM);
	tcp_auth_take(a, msg, negotiate(msg, v->tid, v->hash, NVMF_GROUP_NULL));
	assert_int_equal(tcp_auth_give(a, out, 15 + nvmf_hash_bytes(v->hash)), -ENOBUFS);
	assert_int_equal(tcp_auth_give(a, out, sizeof(out)), 16 + nvmf_hash_bytes(v->hash));
	assert_int_equal(a->step, TCP_AUTH_REPLY);
	assert_true(out[0] == 1 && out[1] == 1 && le16_get(out + 4) == v->tid);
	assert_true(out[6] == nvmf_hash_bytes(v->hash) && out[8] == v->hash && out[9] == 0);
	assert_true(le32_get(out + 12) != 0);
	memcpy(a->c1, v->c1, sizeof(a->c1));
	a->seq = v->s1;
}

static void test_vectors(void **state)
{
	uint8_t msg[256], out[TCP_AUTH_OUT_MAX];
	const uint8_t success2[16] = {1, 4};
	struct tcp_auth a;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		struct tcp_secret_host h = someone(v, true);
		uint32_t hash = nvmf_hash_bytes(v->hash);

		begin(&a, &h, v);
		tcp_auth_take(&a, msg, reply(msg, v, NULL, 0, false));
		assert_int_equal(tcp_auth_give(&a, out, sizeof(out)), 16);
		assert_true(out[0] == 1 && out[1] == 3 && out[8] == 0);
		assert_int_equal(a.step, TCP_AUTH_DONE);
		tcp_auth_fini(&a);

		begin(&a, &h, v);
		tcp_auth_take(&a, msg, reply(msg, v, NULL, 0, true));
		assert_int_equal(tcp_auth_give(&a, out, sizeof(out)), 16 + hash);
		assert_int_equal(a.step, TCP_AUTH_SUCCESS2);
		assert_true(out[8] == 1);
		assert_memory_equal(out + 16, v->r2, hash);
		memcpy(msg, success2, sizeof(success2));
		le16_put(msg + 4, v->tid);
		tcp_auth_take(&a, msg, sizeof(success2));
		assert_int_equal(a.step, TCP_AUTH_DONE);
		tcp_auth_fini(&a);
	}
}

/* What was taken last was wrong. */
static void failed(struct tcp_auth *a, enum nvmf_auth_why why)
{
	uint8_t out[TCP_AUTH_OUT_MAX];

	assert_int_equal(tcp_auth_give(a, out, sizeof(out)), 8);
	assert_true(out[0] == 0 && out[1] == 0xf1 && out[6] == 1);
	assert_int_equal(out[7], why);
	assert_int_equal(a->why, why);
	assert_int_equal(a->step, TCP_AUTH_OVER);
	tcp_auth_fini(a);
}

static void bad_negotiate(const struct tcp_secret_host *h, size_t at, uint8_t byte,
			  enum nvmf_auth_why why)
{
	struct tcp_auth a;
	uint8_t msg[72];
	size_t n = negotiate(msg, 7, 1, 0);

	msg[at] = byte;
	tcp_auth_init(&a, h, VECTOR_SUBSYSTEM);
	tcp_auth_take(&a, msg, n);
	failed(&a, why);
}

static void test_bad_negotiate(void **state)
{
	struct tcp_secret_host h = someone(&vectors[0], false);
	struct tcp_auth a;
	uint8_t msg[72], out[8];

	bad_negotiate(&h, 0, 1, NVMF_AUTH_MESSAGE);
	bad_negotiate(&h, 1, NVMF_AUTH_REPLY, NVMF_AUTH_MESSAGE);
	bad_negotiate(&h, 6, 1, NVMF_AUTH_CONCAT);
	bad_negotiate(&h, 7, 2, NVMF_AUTH_PAYLOAD);
	bad_negotiate(&h, 7, 0, NVMF_AUTH_NO_PROTOCOL);
	bad_negotiate(&h, 8, 2, NVMF_AUTH_NO_PROTOCOL);
	bad_negotiate(&h, 10, 31, NVMF_AUTH_PAYLOAD);
	bad_negotiate(&h, 11, 31, NVMF_AUTH_PAYLOAD);
	bad_negotiate(&h, 10, 0, NVMF_AUTH_NO_HASH);
	bad_negotiate(&h, 12, 4, NVMF_AUTH_NO_HASH);
	bad_negotiate(&h, 12, 0, NVMF_AUTH_NO_HASH);
	bad_negotiate(&h, 11, 0, NVMF_AUTH_NO_GROUP);
	bad_negotiate(&h, 42, 6, NVMF_AUTH_NO_GROUP);
	for (size_t n = 0; n < 72; n++) {
		negotiate(msg, 7, 1, 0);
		tcp_auth_init(&a, &h, VECTOR_SUBSYSTEM);
		tcp_auth_take(&a, msg, n);
		failed(&a, NVMF_AUTH_PAYLOAD);
	}
	/* It receives before it has said anything. */
	tcp_auth_init(&a, &h, VECTOR_SUBSYSTEM);
	assert_int_equal(tcp_auth_give(&a, out, sizeof(out)), 8);
	assert_int_equal(a.step, TCP_AUTH_OVER);
	tcp_auth_fini(&a);
	/* It sends again before it has received. */
	tcp_auth_init(&a, &h, VECTOR_SUBSYSTEM);
	tcp_auth_take(&a, msg, negotiate(msg, 7, 1, 0));
	tcp_auth_take(&a, msg, negotiate(msg, 7, 1, 0));
	failed(&a, NVMF_AUTH_MESSAGE);
}

static void bad_reply(const struct tcp_secret_host *h, size_t at, uint8_t flip,
		      enum nvmf_auth_why why)
{
	struct tcp_auth a;
	uint8_t msg[256];
	size_t n;

	begin(&a, h, &vectors[1]);
	n = reply(msg, &vectors[1], NULL, 0, true);
	msg[at] ^= flip;
	tcp_auth_take(&a, msg, n);
	failed(&a, why);
}

static void test_bad_reply(void **state)
{
	const struct vector *v = &vectors[1];
	struct tcp_secret_host h = someone(v, true), alone = someone(v, false);
	struct tcp_auth a;
	uint8_t msg[256];
	size_t all = reply(msg, v, NULL, 0, true);

	bad_reply(&h, 0, 1, NVMF_AUTH_MESSAGE);
	bad_reply(&h, 1, 1, NVMF_AUTH_MESSAGE);
	bad_reply(&h, 4, 1, NVMF_AUTH_PAYLOAD);
	bad_reply(&h, 6, 1, NVMF_AUTH_PAYLOAD);
	bad_reply(&h, 8, 2, NVMF_AUTH_PAYLOAD);
	bad_reply(&h, 10, 1, NVMF_AUTH_PAYLOAD);
	for (size_t at = 16; at < 48; at++)
		for (unsigned bit = 0; bit < 8; bit++)
			bad_reply(&h, at, (uint8_t)(1u << bit), NVMF_AUTH_FAILED);
	/* We are to prove who we are, and have nothing to do it with. */
	bad_reply(&alone, 2, 0, NVMF_AUTH_FAILED);
	for (size_t n = 0; n < all; n++) {
		begin(&a, &h, v);
		tcp_auth_take(&a, msg, n);
		failed(&a, NVMF_AUTH_PAYLOAD);
	}
	/* Another subsystem's, another host's. */
	begin(&a, &h, v);
	strcpy(a.subnqn, VECTOR_SUBSYSTEM "2");
	tcp_auth_take(&a, msg, all);
	failed(&a, NVMF_AUTH_FAILED);
	strcat(h.nqn, "2");
	begin(&a, &h, v);
	tcp_auth_take(&a, msg, all);
	failed(&a, NVMF_AUTH_FAILED);
}

/* The host ends it. */
static void test_failure2(void **state)
{
	const uint8_t msg[8] = {0, 0xf0, 0, 0, 0, 0, 1, NVMF_AUTH_NO_HASH};
	struct tcp_secret_host h = someone(&vectors[0], true);
	struct tcp_auth a;

	begin(&a, &h, &vectors[0]);
	tcp_auth_take(&a, msg, sizeof(msg));
	assert_int_equal(a.step, TCP_AUTH_OVER);
	assert_int_equal(a.why, NVMF_AUTH_NO_HASH);
	tcp_auth_fini(&a);
	begin(&a, &h, &vectors[0]);
	tcp_auth_take(&a, msg, 7);
	failed(&a, NVMF_AUTH_MESSAGE);
}

/* The host's side of a group, with a secret that is used as it is. */
static size_t group_reply(const struct tcp_secret_host *h, const uint8_t *c, uint8_t *msg)
{
	uint8_t shared[NVMF_GROUP_MAX], key[64], c1[64], numbers[7] = {0};
	uint32_t hash = c[6], bytes = nvmf_group_bytes(c[9]);
	struct vector v = {.hash = c[8], .tid = 9};
	struct tcp_crypt_part in[] = {
		{c1, hash},
		{numbers, 7},
		{"HostHost" VECTOR_HOST, 8 + strlen(VECTOR_HOST)},
		{"", 1},
		{VECTOR_SUBSYSTEM, strlen(VECTOR_SUBSYSTEM)},
	};
	struct tcp_crypt_dh *dh;
	size_t n;

	assert_int_equal(le16_get(c + 10), bytes);
	n = reply(msg, &v, shared, bytes, false);
	assert_int_equal(tcp_crypt_dh_create(c[9], &dh, msg + 16 + 2 * hash), 0);
	assert_int_equal(tcp_crypt_dh_derive(dh, c + 16 + hash, shared), 0);
	tcp_crypt_dh_destroy(dh);
	assert_int_equal(tcp_crypt_hash(c[8], (struct tcp_crypt_part){shared, bytes}, key), 0);
	assert_int_equal(tcp_crypt_hmac(c[8], (struct tcp_crypt_part){key, hash},
					&(struct tcp_crypt_part){c + 16, hash}, 1, c1),
			 0);
	memcpy(numbers, c + 12, 4);
	le16_put(numbers + 4, 9);
	assert_int_equal(tcp_crypt_hmac(c[8], (struct tcp_crypt_part){h->host.b, h->host.bytes}, in,
					5, msg + 16),
			 0);
	return n;
}

static void test_groups(void **state)
{
	struct tcp_secret_host h = someone(&vectors[0], false);
	uint8_t msg[TCP_AUTH_IN_MAX] = {0}, out[TCP_AUTH_OUT_MAX];
	struct tcp_auth a;

	for (uint8_t group = NVMF_GROUP_2048; group <= NVMF_GROUP_8192; group++) {
		uint8_t hash = 1 + group % 3;
		uint32_t bytes = nvmf_group_bytes(group);
		size_t n;

		for (unsigned bad = 0; bad < 4; bad++) {
			tcp_auth_init(&a, &h, VECTOR_SUBSYSTEM);
			tcp_auth_take(&a, msg, negotiate(msg, 9, hash, group));
			n = 16 + nvmf_hash_bytes(hash) + bytes;
			assert_int_equal(tcp_auth_give(&a, out, sizeof(out)), n);
			n = group_reply(&h, out, msg);
			if (bad == 1) /* another key than was agreed */
				msg[16] ^= 1;
			if (bad == 2) /* 0: everybody knows what comes of it */
				memset(msg + n - bytes, 0, bytes);
			if (bad == 3)
				n--;
			tcp_auth_take(&a, msg, n);
			if (bad) {
				failed(&a, bad == 1 ? NVMF_AUTH_FAILED : NVMF_AUTH_PAYLOAD);
				continue;
			}
			assert_int_equal(tcp_auth_give(&a, out, sizeof(out)), 16);
			assert_int_equal(a.step, TCP_AUTH_DONE);
			tcp_auth_fini(&a);
		}
	}
}

/* The strongest hash; a group that costs little, none at all only if there is nothing else. */
static void test_choice(void **state)
{
	struct tcp_secret_host h = someone(&vectors[0], false);
	uint8_t msg[72];
	struct tcp_auth a;

	negotiate(msg, 1, 1, 0);
	memcpy(msg + 10, (uint8_t[]){3, 6, 1, 2, 3}, 5);
	memcpy(msg + 42, (uint8_t[]){0, 5, 4, 3, 2, 1}, 6);
	tcp_auth_init(&a, &h, VECTOR_SUBSYSTEM);
	tcp_auth_take(&a, msg, sizeof(msg));
	assert_int_equal(a.hash, NVMF_HASH_SHA512);
	assert_int_equal(a.group, NVMF_GROUP_2048);
	tcp_auth_fini(&a);
}

/* Whatever is said, nobody gets in. */
static void test_random(void **state)
{
	struct tcp_secret_host h = someone(&vectors[0], true);
	uint8_t msg[TCP_AUTH_IN_MAX + 8] = {0}, out[TCP_AUTH_OUT_MAX];
	struct rng rng;

	rng_init(&rng, unit_seed(4));
	for (unsigned i = 0; i < 20000; i++) {
		struct tcp_auth a;

		tcp_auth_init(&a, &h, VECTOR_SUBSYSTEM);
		for (unsigned n = 0; n < 6 && a.step != TCP_AUTH_OVER; n++) {
			size_t len = n ? reply(msg, &vectors[0], NULL, 0, true)
				       : negotiate(msg, vectors[0].tid, 1, 0);

			if (rng_chance(&rng, 1, 2))
				msg[rng_below(&rng, 20)] ^= (uint8_t)rng_u64(&rng);
			if (rng_chance(&rng, 1, 4))
				len = rng_below(&rng, sizeof(msg));
			if (rng_chance(&rng, 2, 3))
				tcp_auth_take(&a, msg, len);
			if (a.step != TCP_AUTH_OVER && rng_chance(&rng, 2, 3))
				tcp_auth_give(&a, out, rng_below(&rng, 100));
			assert_true(a.step != TCP_AUTH_DONE && a.step != TCP_AUTH_SUCCESS1);
		}
		tcp_auth_fini(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),	  cmocka_unit_test(test_bad_negotiate),
		cmocka_unit_test(test_bad_reply), cmocka_unit_test(test_failure2),
		cmocka_unit_test(test_groups),	  cmocka_unit_test(test_choice),
		cmocka_unit_test(test_random),
	};

	if (!tcp_crypt_is_there())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
