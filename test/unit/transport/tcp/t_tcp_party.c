/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may have how much, by hosts that take all they are given, in any order, and give nothing
 * back: whoever comes then finds some, and what is shared isn't left lying. And which addresses are
 * one machine's.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/rng.h"
#include "transport/tcp/tcp_int.h"

#define ADDRS 4u
#define NAMES 32u

struct pot {
	uint32_t all, left;
	unsigned nr_parties, nr_addrs;
	uint32_t addr_has[ADDRS], has[ADDRS][NAMES];
	bool is_there[ADDRS][NAMES];
};

static void come(struct pot *p, unsigned addr, unsigned name)
{
	bool is_new = true;

	for (unsigned i = 0; i < NAMES; i++)
		is_new &= !p->is_there[addr][i];
	p->nr_addrs += is_new;
	p->nr_parties += !p->is_there[addr][name];
	p->is_there[addr][name] = true;
}

static bool take(struct pot *p, unsigned addr, unsigned name, uint32_t more)
{
	struct tcp_quota q = {.has = p->has[addr][name],
			      .addr_has = p->addr_has[addr],
			      .more = more,
			      .left = p->left,
			      .keep = TCP_PARTY_KEPT(p->all),
			      .is_alone = p->nr_parties == 1,
			      .is_addr_alone = p->nr_addrs == 1};

	if (!tcp_party_may(q))
		return false;
	assert_true(more <= p->left);
	p->left -= more;
	p->has[addr][name] += more;
	p->addr_has[addr] += more;
	return true;
}

static uint32_t take_all(struct pot *p, unsigned addr, unsigned name)
{
	come(p, addr, name);
	while (take(p, addr, name, 2) || take(p, addr, name, 1))
		;
	return p->has[addr][name];
}

static void test_alone(void **state)
{
	for (uint32_t all = 8; all < 5000; all++) {
		struct pot p = {.all = all, .left = all};

		assert_int_equal(take_all(&p, 0, 0), all - all / 8);
		/* The next of the same machine, and one from elsewhere. */
		come(&p, 0, 1);
		assert_true(take(&p, 0, 1, 1));
		come(&p, 1, 0);
		assert_true(all < 16 || take(&p, 1, 0, 1));
	}
}

/* Any number of names of one address, one after the other or in turns. */
static void test_names(void **state)
{
	struct rng rng;

	rng_init(&rng, unit_seed(2));
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t all = 16 + (uint32_t)rng_below(&rng, i % 2 ? 100 : 4000);
		unsigned nr = 1 + (unsigned)rng_below(&rng, NAMES);
		bool is_mixed = rng_chance(&rng, 1, 2);
		struct pot p = {.all = all, .left = all};

		for (unsigned n = 0; is_mixed && n < all * 2; n++) {
			unsigned name = (unsigned)rng_below(&rng, nr);

			come(&p, 0, name);
			take(&p, 0, name, 1 + n % 2);
		}
		for (unsigned n = 0; n < nr; n++)
			take_all(&p, 0, n);
		assert_in_range(p.left, all / 16, all / 2);
		if (nr <= 2) {
			come(&p, 0, nr);
			assert_true(all < 104 || take(&p, 0, nr, 1));
		}
		come(&p, 1, 0);
		assert_true(take(&p, 1, 0, all < 48 ? 1 : 2));
	}
}

/*
 * While somebody from elsewhere has some, one that takes all leaves some to its neighbour; of less
 * than that there may be nothing left for it.
 */
static void test_neighbour(void **state)
{
	for (uint32_t all = 32; all < 5000; all++) {
		for (unsigned eighths = 0; eighths < 4; eighths++) {
			struct pot p = {.all = all, .left = all};

			come(&p, 1, 0);
			for (uint32_t n = 0; n < all * eighths / 8; n++)
				take(&p, 1, 0, 1);
			take_all(&p, 0, 0);
			come(&p, 0, 1);
			assert_true(take(&p, 0, 1, all < 48 ? 1 : 2));
		}
	}
}

/* Two machines have much the same, and leave about a fifth; under how many names doesn't count. */
static void test_two(void **state)
{
	struct rng rng;

	rng_init(&rng, unit_seed(3));
	for (unsigned i = 0; i < 5000; i++) {
		uint32_t all = 64 + (uint32_t)rng_below(&rng, 4000);
		unsigned nr = 8 + (unsigned)rng_below(&rng, NAMES - 8);
		struct pot p = {.all = all, .left = all};

		come(&p, 0, 0);
		come(&p, 1, 0);
		for (unsigned n = 0; n < all * 4; n++) {
			unsigned addr = n % 2, name = addr ? 0 : (unsigned)rng_below(&rng, nr);

			come(&p, addr, name);
			take(&p, addr, name, 1);
		}
		assert_in_range(p.addr_has[0], all / 4, all / 2);
		assert_in_range(p.addr_has[1], all / 4, all / 2);
	}
}

static const char *group(const char *text, char addr[TCP_ADDR_BYTES])
{
	struct sockaddr_storage sa = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};
	void *at = sa.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&sa)->sin_addr
					   : (void *)&((struct sockaddr_in6 *)&sa)->sin6_addr;

	assert_int_equal(inet_pton(sa.ss_family, text, at), 1);
	tcp_party_addr(&sa, addr);
	return addr;
}

/* Whoever has one address of IPv6 has 2^64 of them. */
static void test_addr(void **state)
{
	char a[TCP_ADDR_BYTES];

	assert_string_equal(group("127.0.0.2", a), "127.0.0.2");
	assert_string_equal(group("::ffff:192.0.2.7", a), "192.0.2.7");
	assert_string_equal(group("2001:db8:1:2:3:4:5:6", a), "2001:db8:1:2::");
	assert_string_equal(group("2001:db8:1:2::9", a), "2001:db8:1:2::");
	assert_string_equal(group("2001:db8:1:3::9", a), "2001:db8:1:3::");
	assert_string_equal(group("::1", a), "::");
	tcp_party_addr(&(struct sockaddr_storage){.ss_family = AF_UNIX}, a);
	assert_string_equal(a, "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),	  cmocka_unit_test(test_names),
		cmocka_unit_test(test_neighbour), cmocka_unit_test(test_two),
		cmocka_unit_test(test_addr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
