/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: the sample in contrib/ is good, and each mistake is told with file, line
 * and what was expected.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "ctl/conf.h"

static char err[CONF_ERR_BYTES];

static int parse(struct conf *c, const char *text)
{
	return conf_yaml_parse(c, "f.yaml", text, strlen(text), err);
}

static void test_sample(void **state)
{
	struct conf *c = conf_create();

	assert_int_equal(conf_yaml_load(c, PEAL_SAMPLE, err), 0);
	assert_int_equal(conf_finish(c, err), 0);
	assert_int_equal(c->nr_reactors, 2);
	assert_int_equal(c->dram_bytes, 8ull << 30);
	assert_int_equal(c->nr_ns, 2);
	assert_string_equal(c->ns[0].name, "kv");
	assert_int_equal(c->ns[0].bytes, 6ull << 30);
	assert_true(c->ns[0].is_immutable);
	assert_int_equal(c->ns[0].nr_classes, 2);
	assert_int_equal(c->ns[0].classes[1].id, 2);
	assert_string_equal(c->ns[0].classes[1].model, "qwen3-32b");
	assert_string_equal(c->ns[0].classes[1].codec, "raw");
	assert_false(c->ns[1].is_immutable);
	assert_int_equal(c->ns[1].bytes, 2ull << 30);
	assert_int_equal(c->ns[1].max_keys, 100000);
	assert_string_equal(c->http_host, "127.0.0.1");
	assert_int_equal(c->http_port, 9440);
	assert_string_equal(c->rpc_socket, "/run/peal/rpc");
	conf_destroy(c);
}

static void test_small(void **state)
{
	static const char *const good[] = {
		"",
		"# nothing\n",
		"reactors: 3\n",
		"transports: []\n",
		"transports:\n- vfu:\n",
		"namespaces:\n",
		"log:\n",
		"http: {listen: 9440}\n",
		"http: {listen: '[::1]:0'}\n",
		"http: {listen: none}\n",
		"poll: 100\n",
		"blocks: [\"/tmp/x,size=1M\", /tmp/y]\n",
		"'reactors': \"3\"\n",
		"reactors: &r 3\nlinger: *r\n",
	};

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct conf *c = conf_create();

		if (parse(c, good[i]) || conf_finish(c, err))
			fail_msg("%s: %s", good[i], err);
		conf_destroy(c);
	}
}

static const struct {
	const char *text, *says[3];
} mistakes[] = {
	{"reactors: 0\n", {"f.yaml:1:11: reactors: '0'", "a number from 1 to 31"}},
	{"\n\nreactors: many\n", {"f.yaml:3:11: ", "'many'", "from 1 to 31"}},
	{"dram: lots\n", {"f.yaml:1:7: dram: 'lots'", "a size from 1.0 MiB", "8G"}},
	{"dram: \"\\e]0;x\\a\\n\"\n", {"f.yaml:1:7: dram: '?]0;x?"}},
	{"reactor: 1\n", {"f.yaml:1:1: 'reactor' is no key", "expected one of", "reactors"}},
	{"log: {levle: info}\n", {"f.yaml:1:7: log.'levle'", "one of level"}},
	{"log: {level: loud}\n", {"f.yaml:1:14: log.level: 'loud'", "err, warn, info or debug"}},
	{"log: info\n", {"f.yaml:1:6: ", "no mapping", "KEY: VALUE"}},
	{"log.level: info\n", {"f.yaml:1:1: 'log.level' is no key"}},
	{"reactors: 1\nreactors: 2\n", {"f.yaml:2:1: 'reactors' is there twice"}},
	{"reactors: [1]\n", {"f.yaml:1:11: reactors: this is no single value"}},
	{"reactors: \"1\\02\"\n", {"f.yaml:1:11: reactors: this is no single value"}},
	{"reactors:\n", {"f.yaml:1:10: reactors: ''", "from 1"}},
	{"- a\n- b\n", {"f.yaml:1:1: this is no mapping"}},
	{"just text\n", {"f.yaml:1:1: this is no mapping"}},
	{"a: [\n", {"f.yaml:2:", "this is no YAML"}},
	{"a: b: c\n", {"f.yaml:1:5: this is no YAML"}},
	{"\tx: y\n", {"f.yaml:1:", "this is no YAML"}},
	{"reactors: *x\n", {"f.yaml:1:11: this is no YAML", "undefined alias"}},
	{"reactors: 1\n---\nreactors: 2\n", {"f.yaml:3:1: a second document"}},
	{"namespaces: {a: b}\n", {"f.yaml:1:13: this is no list"}},
	{"namespaces: [kv]\n", {"f.yaml:1:14: this is no mapping"}},
	{"namespaces:\n- {name: kv, size: 1}\n", {"f.yaml:2:20: size: '1'", "from 1.0 MiB"}},
	{"namespaces:\n- {name: kv, siez: 1G}\n",
	 {"f.yaml:2:14: 'siez' is no key", "name, size, tiers", "classes"}},
	{"namespaces:\n- {name: kv, tiers: tape 1G}\n",
	 {"f.yaml:2:21: tiers: 'tape 1G'", "dram SIZE"}},
	{"namespaces:\n- {name: kv, size: 1G, immutable: perhaps}\n",
	 {"f.yaml:2:35: ", "yes or no"}},
	{"namespaces:\n- name: kv\n  size: 1G\n  classes:\n  - id: 70000\n",
	 {"f.yaml:5:9: id: '70000'", "from 1 to 65535"}},
	{"blocks:\n- /tmp/x,lba=7\n", {"f.yaml:2:3: blocks: '/tmp/x,lba=7'", "lba=512|4096"}},
	{"blocks:\n- [a]\n", {"f.yaml:2:3: blocks: ''"}},
	{"transports:\n- tcq: {}\n", {"f.yaml:2:3: 'tcq' is no transport, expected vfu"}},
	{"transports:\n- vfu\n", {"f.yaml:2:3: this is no transport"}},
	{"transports:\n- vfu: {dri: /x}\n", {"f.yaml:2:9: 'dri' is no key", "dir, max_clients"}},
	{"transports:\n- vfu: {dir: /x}\n- vfu: {max_clients: 2}\n",
	 {"f.yaml:3:3: vfu is there twice, expected it once"}},
	{"transports:\n- vfu:\n- vfu:\n", {"f.yaml:3:3: vfu is there twice"}},
	{"namespaces:\n- {name: '3', size: 1G}\n", {"f.yaml:2:10: name: '3'", "digits alone"}},
	{"namespaces:\n- {name: \"a\\tb\", size: 1G}\n", {"f.yaml:2:10: name: ", "control"}},
	{"namespaces:\n- {name: '', size: 1G}\n", {"f.yaml:2:10: name: ''", "1 to 63"}},
	{"http: {listen: 'example.org:80'}\n", {"f.yaml:1:16: ", "in numbers"}},
	{"http: {listen: '127.0.0.1:65536'}\n", {"f.yaml:1:16: ", "a port"}},
	{"http: {listen: '::1:80'}\n", {"f.yaml:1:16: ", "[ADDR6]:PORT"}},
	{"? [a, b]\n: c\n", {"f.yaml:1:3: '' is no key here"}},
};

static void test_mistakes(void **state)
{
	for (unsigned i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		struct conf *c = conf_create();

		if (parse(c, mistakes[i].text) != -EINVAL)
			fail_msg("accepted: %s", mistakes[i].text);
		for (unsigned j = 0; j < 3 && mistakes[i].says[j]; j++)
			if (!strstr(err, mistakes[i].says[j]))
				fail_msg("%s: no '%s' in '%s'", mistakes[i].text,
					 mistakes[i].says[j], err);
		conf_destroy(c);
	}
}

static void test_bounds(void **state)
{
	struct conf *c = conf_create();
	char *text = malloc(200000);
	size_t n = (size_t)sprintf(text, "namespaces:\n");

	/* One namespace too many, by aliases: a short file that asks for a lot. */
	n += (size_t)sprintf(text + n, "- &a {name: kv, size: 1G}\n");
	for (unsigned i = 0; i < CONF_NS_MAX; i++)
		n += (size_t)sprintf(text + n, "- *a\n");
	assert_int_equal(parse(c, text), -EINVAL);
	assert_non_null(strstr(err, "too many namespaces, expected at most 64"));
	/* A mapping of thousands of keys is ours. */
	n = 0;
	for (unsigned i = 0; i < 300; i++)
		n += (size_t)sprintf(text + n, "k%u: 1\n", i);
	assert_int_equal(parse(c, text), -EINVAL);
	assert_non_null(strstr(err, "300 keys, expected at most 256"));
	free(text);
	conf_destroy(c);
}

/* What costs libyaml quadratic time, minutes of it for the longest file, is refused first. */
static void test_depth(void **state)
{
	struct conf *c = conf_create();
	char *text = malloc(1u << 20);
	size_t n;

	for (n = 100; n <= 900000; n *= 30) {
		strcpy(text, "a: ");
		memset(text + 3, '[', n);
		text[3 + n] = 0;
		assert_int_equal(parse(c, text), -EINVAL);
		assert_string_equal(err,
				    "f.yaml:1:19: nested too deep, expected at most 16 levels");
	}
	n = (size_t)sprintf(text, "reactors: 3\nx:\n");
	for (unsigned i = 0; i < 64; i++)
		n += (size_t)sprintf(text + n, "- &a%u 1\n", i);
	assert_int_equal(parse(c, text), -EINVAL);
	assert_non_null(strstr(err, "f.yaml:2:1: 'x' is no key"));
	for (unsigned i = 64; i < 80000; i++)
		n += (size_t)sprintf(text + n, "- &a%u 1\n", i);
	assert_int_equal(parse(c, text), -EINVAL);
	assert_non_null(
		strstr(err, "f.yaml:67:3: too many anchors or aliases, expected at most 64"));
	n = (size_t)sprintf(text, "reactors: &a 3\nx:\n");
	for (unsigned i = 0; i < 100000; i++)
		n += (size_t)sprintf(text + n, "- *a\n");
	assert_int_equal(parse(c, text), -EINVAL);
	assert_non_null(strstr(err, "f.yaml:67:3: too many anchors or aliases"));
	free(text);
	conf_destroy(c);
}

static void test_files(void **state)
{
	struct conf *c = conf_create();

	assert_int_equal(conf_yaml_load(c, "/nowhere/f.yaml", err), -ENOENT);
	assert_non_null(strstr(err, "/nowhere/f.yaml: No such file"));
	assert_int_equal(conf_yaml_load(c, "/", err), -EISDIR);
	assert_int_equal(conf_yaml_load(c, "/dev/zero", err), -EFBIG);
	conf_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),	 cmocka_unit_test(test_small),
		cmocka_unit_test(test_mistakes), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_depth),	 cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
