/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line over the file: each option reaches its field, whatever the order. What ends the
 * program is tested from outside, in test/peer/options.py.
 */
#include "unit.h"

#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "ctl/conf.h"

static struct conf *args(int argc, const char *const *argv)
{
	struct conf *c = conf_create();
	char *copy[64] = {"peald"};

	for (int i = 0; i < argc; i++)
		copy[i + 1] = (char *)(uintptr_t)argv[i];
	opt_args_parse(argc + 1, copy, c);
	return c;
}
#define ARGS(...) \
	args(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

static void test_each(void **state)
{
	struct conf *c = ARGS("-d", "/tmp/x", "-m", "64M", "-r", "3", "--ns", "a=8M",
			      "--ns=b=16M,rw", "--linger", "9", "--value-max", "1M", "--max-keys",
			      "2000", "--max-clients", "5", "--poll", "100", "--record", "/tmp/rec",
			      "--record-all", "no", "--log-level", "warn", "--http", "9440",
			      "--rpc", "none");

	assert_string_equal(c->vfu.dir, "/tmp/x");
	assert_int_equal(c->dram_bytes, 64 << 20);
	assert_int_equal(c->nr_reactors, 3);
	assert_int_equal(c->nr_ns, 2);
	assert_string_equal(c->ns[0].name, "a");
	assert_true(c->ns[0].is_immutable);
	assert_int_equal(c->ns[0].max_keys, 2000);
	assert_int_equal(c->ns[1].bytes, 16 << 20);
	assert_false(c->ns[1].is_immutable);
	assert_int_equal(c->linger_s, 9);
	assert_int_equal(c->ns[0].value_max, 1 << 20);
	assert_int_equal(c->vfu.max_clients, 5);
	assert_int_equal(c->poll_ns, 100000);
	assert_false(c->is_busy);
	assert_string_equal(c->vfu.record, "/tmp/rec");
	assert_false(c->vfu.is_record_all);
	assert_int_equal(c->log_level, 1);
	assert_string_equal(c->http_host, "127.0.0.1");
	assert_int_equal(c->http_port, 9440);
	assert_string_equal(c->rpc_socket, "none");
	conf_destroy(c);
	c = ARGS("--tiers", "dram 8M | ssd /a=b 1G", "-t", "x=dram 4M", "--no-immutable");
	assert_int_equal(c->nr_ns, 2);
	assert_string_equal(c->ns[0].name, "kv");
	assert_int_equal(c->ns[0].nr_tiers, 2);
	assert_string_equal(c->ns[0].tiers[1].devices[0].path, "/a=b");
	assert_int_equal(c->ns[0].tiers[1].bytes, 1 << 30);
	assert_false(c->ns[0].is_immutable);
	assert_string_equal(c->ns[1].name, "x");
	assert_int_equal(c->dram_bytes, 12 << 20);
	conf_destroy(c);
	c = ARGS("--no-immutable", "--poll", "busy", "--http", "0.0.0.0:1", "-m", "8M");
	assert_false(c->ns[0].is_immutable);
	assert_true(c->is_busy);
	assert_string_equal(c->http_host, "0.0.0.0");
	conf_destroy(c);
}

static void test_over_file(void **state)
{
	char path[] = "/tmp/peal-args-XXXXXX";
	int fd = mkstemp(path);
	static const char text[] = "reactors: 2\npoll: busy\nnamespaces:\n- {name: f, size: 4M}\n";
	struct conf *c;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	c = ARGS("-r", "4", "--config", path);
	assert_int_equal(c->nr_reactors, 4);
	assert_true(c->is_busy);
	assert_string_equal(c->ns[0].name, "f");
	conf_destroy(c);
	c = ARGS("--poll", "adaptive", "-c", path, "--ns", "g=1M", "--ns", "h=1M");
	assert_int_equal(c->nr_reactors, 2);
	assert_false(c->is_busy);
	assert_int_equal(c->nr_ns, 2);
	assert_string_equal(c->ns[0].name, "g");
	assert_int_equal(c->dram_bytes, 2 << 20);
	conf_destroy(c);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
		cmocka_unit_test(test_over_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
