/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_rbd_uri.c: what is an image, all its parts, and what isn't one.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "blk/blk_rbd_uri.h"

static void t_good(void **state)
{
	struct blk_rbd_uri u;

	assert_true(blk_rbd_uri_is("rbd:a/b"));
	assert_false(blk_rbd_uri_is("./rbd:a/b"));
	assert_int_equal(blk_rbd_uri_parse("rbd:a/b", &u), 0);
	assert_string_equal(u.pool, "a");
	assert_string_equal(u.space, "");
	assert_string_equal(u.image, "b");
	assert_string_equal(u.conf, "");
	assert_string_equal(u.id, "admin");
	assert_int_equal(u.timeout_s, 10);
	assert_int_equal(
		blk_rbd_uri_parse("rbd:pool/ns/im-1.x?conf=/etc/c@1.conf&timeout=600&id=me", &u),
		0);
	assert_string_equal(u.pool, "pool");
	assert_string_equal(u.space, "ns");
	assert_string_equal(u.image, "im-1.x");
	assert_string_equal(u.conf, "/etc/c@1.conf");
	assert_string_equal(u.id, "me");
	assert_int_equal(u.timeout_s, 600);
}

static void t_bad(void **state)
{
	const char *bad[] = {
		"",
		"rbd:",
		"rbd:/",
		"rbd:a",
		"rbd:a/",
		"rbd:/b",
		"rbd:a//b",
		"rbd:a/b/",
		"rbd:a/b/c/d",
		"rbd:a/b@snapshot",
		"rbd:a/b?",
		"rbd:a/b?conf=",
		"rbd:a/b?id=",
		"rbd:a/b?id=x/y",
		"rbd:a/b?timeout=0",
		"rbd:a/b?timeout=601",
		"rbd:a/b?timeout=1s",
		"rbd:a/b?color=red",
		"rbd:a/b?id=x&",
		"rbd:a/b?id=x&id=x",
		"rbd:a/b?conf=/c&conf=/c",
		"rbd:a/b?timeout=3&id=x&timeout=3",
		"rbd:a/b?id=x?timeout=3",
		"/dev/rbd0",
	};
	struct blk_rbd_uri u, was;
	char text[600] = "rbd:a/";

	memset(&was, 0xa5, sizeof(was));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		u = was;
		if (blk_rbd_uri_parse(bad[i], &u) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
		assert_memory_equal(&u, &was, sizeof(u));
	}
	memset(text + 6, 'x', 95);
	assert_int_equal(blk_rbd_uri_parse(text, &u), 0);
	memset(text + 6, 'x', 96);
	assert_int_equal(blk_rbd_uri_parse(text, &u), -EINVAL);
	memset(text + 6, 'x', 590);
	assert_int_equal(blk_rbd_uri_parse(text, &u), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_good),
		cmocka_unit_test(t_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
