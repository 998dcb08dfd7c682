/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration as a whole: defaults, what is inherited, and what doesn't fit together.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "ctl/conf.h"

static char err[CONF_ERR_BYTES];

static void test_defaults(void **state)
{
	struct conf *c = conf_create();

	assert_int_equal(c->nr_reactors, 1);
	assert_int_equal(c->value_max, 128 << 20);
	assert_int_equal(c->log_level, 2);
	assert_true(c->is_immutable);
	assert_string_equal(c->vfu.dir, "/run/peal");
	assert_string_equal(c->http_host, ""); /* nothing is open that nobody asked for */
	assert_int_equal(conf_finish(c, err), 0);
	assert_int_equal(c->nr_ns, 1);
	assert_string_equal(c->ns[0].name, "kv");
	assert_true(c->ns[0].is_immutable);
	assert_int_equal(c->ns[0].bytes, c->dram_bytes);
	assert_int_equal(c->ns[0].nr_tiers, 1);
	assert_string_equal(c->rpc_socket, "/run/peal/rpc");
	assert_true(conf_mem_available() > c->dram_bytes);
	conf_destroy(c);
	conf_destroy(NULL);
}

static struct conf *two(void)
{
	struct conf *c = conf_create();

	for (unsigned i = 0; i < 2; i++) {
		struct conf_ns *ns = conf_ns_add(c);

		snprintf(ns->name, sizeof(ns->name), "ns%u", i);
		ns->bytes = 4 << 20;
		ns->line = 10 + i;
	}
	strcpy(c->file, "f.yaml");
	return c;
}

static void bad(struct conf *c, const char *says)
{
	assert_int_equal(conf_finish(c, err), -EINVAL);
	if (!strstr(err, says))
		fail_msg("no '%s' in '%s'", says, err);
	conf_destroy(c);
}

static void test_inherits(void **state)
{
	struct conf *c = two();

	c->is_immutable = false;
	c->value_max = 4096;
	c->ns[1].has_immutable = c->ns[1].is_immutable = true;
	c->ns[1].value_max = 8192;
	assert_int_equal(conf_finish(c, err), 0);
	assert_int_equal(c->dram_bytes, 8 << 20);
	assert_false(c->ns[0].is_immutable);
	assert_true(c->ns[1].is_immutable);
	assert_int_equal(c->ns[0].value_max, 4096);
	assert_int_equal(c->ns[1].value_max, 8192);
	conf_destroy(c);
}

static void test_misfits(void **state)
{
	struct conf *c = two();

	c->dram_bytes = 7 << 20;
	bad(c, "f.yaml:11: the namespaces want 8388608 bytes together, --dram has 7340032");
	c = two();
	strcpy(c->ns[1].name, "ns0");
	bad(c, "f.yaml:11: two namespaces have the name 'ns0'");
	c = two();
	c->ns[0].name[0] = 0;
	bad(c, "f.yaml:10: a namespace has no name");
	c = two();
	c->ns[0].bytes = 0;
	bad(c, "f.yaml:10: namespace ns0 has neither size nor tiers");
	c = two();
	c->ns[0].nr_tiers = 1;
	bad(c, "f.yaml:10: namespace ns0 has size and tiers");
	c = two();
	conf_class_add(&c->ns[0]);
	bad(c, "a class has no id");
	c = two();
	conf_class_add(&c->ns[0])->id = 7;
	conf_class_add(&c->ns[0])->id = 7;
	bad(c, "class 7 is there twice");
	c = two();
	memset(c->vfu.dir, 'x', sizeof(c->vfu.dir) - 1);
	assert_int_equal(conf_finish(c, err), 0); /* the longest that the row lets in */
	conf_destroy(c);
}

static void test_bounds(void **state)
{
	struct conf *c = conf_create();
	struct conf_ns *ns = conf_ns_add(c);

	while (conf_class_add(ns))
		;
	assert_int_equal(ns->nr_classes, CONF_CLASSES_MAX);
	while (conf_ns_add(c))
		;
	assert_int_equal(c->nr_ns, CONF_NS_MAX);
	conf_ns_clear(c);
	assert_int_equal(c->nr_ns, 0);
	assert_non_null(conf_ns_add(c));
	conf_destroy(c);
}

/* RFC 3629: every first byte, with what may follow it and with what may not. */
static void test_name(void **state)
{
	static const char *const good[] = {"kv",
					   "a1",
					   "1a",
					   "\xc2\x80",
					   "\xe0\xa0\x80",
					   "\xed\x9f\xbf",
					   "\xee\x80\x80",
					   "\xf0\x90\x80\x80",
					   "\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {"",
					  "7",
					  "a\n",
					  "\x7f",
					  "\x80",
					  "\xc1\xbf",
					  "\xc2",
					  "\xc2z",
					  "\xe0\x9f\xbf",
					  "\xe2\x82",
					  "\xed\xa0\x80",
					  "\xf0\x8f\xbf\xbf",
					  "\xf4\x90\x80\x80",
					  "\xf5\x80\x80\x80",
					  "\xff"};
	char text[CONF_NAME_BYTES + 1];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(conf_name_check(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(conf_name_check(bad[i]));
	memset(text, 'n', sizeof(text));
	text[CONF_NAME_BYTES - 1] = '\0';
	assert_true(conf_name_check(text));
	text[CONF_NAME_BYTES - 1] = 'n';
	text[CONF_NAME_BYTES] = '\0';
	assert_false(conf_name_check(text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),	 cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_inherits), cmocka_unit_test(test_misfits),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
