/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf_block.c: what is read out of the text, and what is refused with which words.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "ctl/conf.h"

static void t_good(void **state)
{
	struct conf *c = conf_create();
	char expected[OPT_EXPECTED_BYTES];

	assert_int_equal(conf_block_parse(c, "/a/b", expected), 0);
	assert_int_equal(conf_block_parse(c, "x,size=2G,lba=4096", expected), 0);
	assert_int_equal(conf_block_parse(c, "y,lba=512,size=1M", expected), 0);
	assert_int_equal(c->nr_blocks, 3);
	assert_int_equal(conf_block_parse(c, "rbd:a/b?id=x,size=1M", expected), 0);
	assert_string_equal(c->blocks[3].path, "rbd:a/b?id=x");
	assert_int_equal(c->blocks[3].size_bytes, 1 << 20);
	assert_string_equal(c->blocks[0].path, "/a/b");
	assert_int_equal(c->blocks[0].size_bytes, 0);
	assert_int_equal(c->blocks[0].lba_bytes, 512);
	assert_int_equal(c->blocks[1].size_bytes, 2ull << 30);
	assert_int_equal(c->blocks[1].lba_bytes, 4096);
	assert_int_equal(c->blocks[2].lba_bytes, 512);
	conf_destroy(c);
}

static void t_bad(void **state)
{
	static const char *const bad[] = {"",	      ",size=1M",   "f,",	 "f,lba=513",
					  "f,lba=51", "f,size=",    "f,size=1K", "f,size=x",
					  "f,ro",     "f,lba=40960"};
	struct conf *c = conf_create();
	char expected[OPT_EXPECTED_BYTES], text[1024];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(conf_block_parse(c, bad[i], expected), -EINVAL);
	assert_int_equal(conf_block_parse(c, "rbd:a,size=1M", expected), -EINVAL);
	assert_non_null(strstr(expected, "rbd:POOL/"));
	assert_int_equal(conf_block_parse(c, "f,size=x", expected), -EINVAL);
	assert_non_null(strstr(expected, "'x' to be a size"));
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(conf_block_parse(c, text, expected), -EINVAL);
	assert_int_equal(c->nr_blocks, 0);
	for (unsigned i = 0; i < CONF_BLOCKS_MAX; i++)
		assert_int_equal(conf_block_parse(c, "f", expected), 0);
	assert_int_equal(conf_block_parse(c, "f", expected), -EINVAL);
	assert_string_equal(expected, "at most 8 of them");
	conf_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_good),
		cmocka_unit_test(t_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
