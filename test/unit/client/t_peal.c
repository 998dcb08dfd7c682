/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and its errors, keys, counters; and that the seals are those of the public formula. */
#include "t_client.h"

#include <errno.h>
#include <string.h>

#include "peal/seal.h"

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static void test_open_errors(void **state)
{
	struct peal *p = (struct peal *)1;

	assert_int_equal(peal_open("vfu:/nonexistent/cntrl", NULL, &p), -ENOENT);
	assert_non_null(strstr(peal_errmsg(), "is peald running?"));
	assert_int_equal(peal_open("nonsense", NULL, &p), -EINVAL);
	assert_int_equal(peal_open(NULL, NULL, &p), -EINVAL);
	assert_ptr_equal(p, (void *)1);
	peal_close(NULL);
}

static void test_keys(void **state)
{
	struct peal_key hex = peal_key_hex("0x00112233445566778899aabbccddeeff");

	assert_int_equal(hex.len, 16);
	assert_int_equal(hex.b[15], 0xff);
	assert_int_equal(peal_key_text("0x0g").len, 0);
	assert_int_equal(peal_key_text("text").len, 4);
	assert_int_equal(peal_key_text("").len, 0);
	assert_int_equal(peal_key_text(NULL).len, 0);
	assert_int_equal(peal_key_hex(NULL).len, 0);
	assert_int_equal(peal_key_bytes("", 0).len, 0);
	assert_int_equal(peal_key_bytes(NULL, 3).len, 0);
	assert_int_equal(peal_key_bytes("12345678901234567", 17).len, 0);
}

static void test_stats(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_stats st;
	char b[10];

	peal_put(c->p, &k, "12345", 5, NULL);
	peal_get(c->p, &k, b, sizeof(b), NULL);
	peal_del(c->p, &k, NULL);
	peal_get(c->p, &k, b, sizeof(b), NULL);
	peal_stats(c->p, &st);
	assert_int_equal(st.calls, 4);
	assert_int_equal(st.hits, 1);
	assert_int_equal(st.misses, 1);
	assert_int_equal(st.bytes_in, 5);
	assert_int_equal(st.bytes_out, 5);
	assert_int_equal(st.timeouts + st.reconnects + st.bad_seals + st.quarantined_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_errors),
		cmocka_unit_test(test_keys),
		cmocka_unit_test_setup_teardown(test_stats, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
