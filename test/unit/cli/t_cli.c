/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal(1) as a person runs it, against the fake daemon: exit statuses, what goes to which output,
 * and that a wrong argument is told what was wrong and what was expected. $PEAL_CLI is the program.
 */
#include "unit.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../client/fake_peald.h"
#include "nvme/nvme_kv.h"

struct run {
	int rc;
	char out[65536]; /* both outputs */
};

static struct fake *fake;

/* By the shell: the tests read like a terminal. */
static void run(struct run *r, const char *args)
{
	char cmd[1024];
	size_t n;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "PEAL_URI=%s %s %s 2>&1", fake_uri(fake), getenv("PEAL_CLI"),
		 args);
	f = popen(cmd, "r");
	assert_non_null(f);
	n = fread(r->out, 1, sizeof(r->out) - 1, f);
	r->out[n] = 0;
	r->rc = WEXITSTATUS(pclose(f));
}

/* Runs it, checks the status and that the output has `says`. */
static void expect(const char *args, int rc, const char *says)
{
	static struct run r;

	run(&r, args);
	if (r.rc != rc || !strstr(r.out, says))
		fail_msg("peal %s: status %d, expected %d; output '%s', expected '%s' in it", args,
			 r.rc, rc, r.out, says);
}

static int setup(void **state)
{
	fake = fake_start(NULL);
	return 0;
}

static int teardown(void **state)
{
	fake_stop(fake);
	return 0;
}

static void test_values(void **state)
{
	expect("get hello", 1, "get 'hello'");
	expect("put hello --value world", 0, "");
	expect("get hello", 0, "world");
	expect("put hello --if-absent --value x", 3, "Exists");
	expect("put other --if-present --value x", 1, "other");
	expect("exist hello other", 1, "hello 5\nother missing\n");
	expect("--json exist hello", 0, "{\"key\":\"hello\",\"bytes\":5}\n");
	expect("put 0x00ff - < /dev/zero", 3, "takes");
	expect("put 0x00ff /nonexistent", 3, "/nonexistent");
	expect("put long --value $(head -c 9000 /dev/zero | tr '\\0' x)", 0, "");
	expect("get long --offset 8192 | wc -c", 0, "808");
	expect("get long --length 10", 0, "xxxxxxxxxx");
	expect("get hello --offset 4096", 3, "offset 4096 isn't inside the value");
	expect("ls --long", 0, "           5 hello\n");
	expect("ls --json --max 1", 0, "{\"key\":\"hello\"}\n");
	expect("match hello long nothere", 0, "2 of 3 present, 2 in memory\n");
	expect("match nothere hello", 1, "0 of 2");
	expect("put big --value $(head -c 100000 /dev/zero | tr '\\0' y)", 0, "");
	expect("get big | wc -c", 0, "100000");
	expect("get big --offset 4096 | wc -c", 0, "95904");
	expect("del hello nothere", 1, "nothere");
	expect("del hello", 1, "hello");
}

static void test_usage(void **state)
{
	expect("", 2, "no command given");
	expect("fetch x", 2, "'fetch' is no command, expected one of put, get");
	expect("get", 2, "no key given");
	expect("get a b", 2, "'b' is too much");
	expect("get 0x0g", 2, "'0x0g' is no key, expected 1 to 16 characters");
	expect("get x --offset 100", 2, "multiple of 4096");
	expect("get x --offset lots", 2, "expected a size");
	expect("put k --value a b", 2, "'b' is too much");
	expect("--timeout soon get x", 2, "expected a number from 1 to 3600000");
	expect("bench --op fly", 2, "expected get, put, exist or match");
	expect("bench --depth 0", 2, "expected a number from 1 to 4095");
	expect("log 9", 2, "expected a number from 1 to 5");
	expect("log 1 2", 2, "'2' is too much");
	expect("get x --length 0", 2, "a size from 1 B to 128.0 MiB");
	expect("--ns 0 get x", 2, "--ns is '0', expected a number from 1");
	expect("replay --depth 257", 2, "--depth is '257', expected a number from 1 to 256");
	expect("replay --scale big", 2, "--scale is 'big', expected a number from 0.001");
	expect("replay --model 9b", 2, "--model is '9b', expected 8b or 70b");
	expect("ns make", 2, "expected list, create, resize or delete");
	expect("ns create", 2, "expected one SIZE");
	expect("probe vfu:/a vfu:/b", 2, "'vfu:/b' is too much, expected one URI");
	expect("probe vfu:/nonexistent", 3, "BAD          /nonexistent: No such file");
	expect("probe nonsense", 3, "expected vfu:PATH or spawn:DIR");
	expect("ls x", 2, "expected options only");
	expect("--uri nonsense get x", 3, "expected vfu:PATH or spawn:DIR");
	expect("--uri vfu:/nonexistent get x", 3, "is peald running?");
	expect("--help", 0, "how far a chain is there");
	expect("bench --help", 0, "--depth");
	expect("--version", 0, "peal ");
}

static void test_operator(void **state)
{
	expect("ns", 0, "    1");
	expect("ns create 1G", 0, "namespace 2\n");
	expect("ns resize 2 2G", 0, "");
	expect("ns list", 0, "    2     2.0 GiB");
	expect("--ns 2 stat", 0, "namespace   2");
	expect("ns delete 2", 0, "");
	expect("ns delete 2", 3, "ns delete");
	expect("stat", 0, "nqn.2025-01.test:fake");
	expect("stat --json", 0, "\"nsid\":1,");
	for (char lid = '1'; lid <= '5'; lid++) {
		char args[] = "log X";

		args[4] = lid;
		expect(args, 0, "");
	}
}

static void test_bench(void **state)
{
	expect("bench --size 4096 --keys 50 --seconds 1 --depth 4", 0, "wrong values 0");
	expect("bench --op put --size 10000 --keys 50 --seconds 1 --json", 0, "\"errors\":0");
	expect("bench --op exist --size 100 --keys 50 --seconds 1", 0, "misses 0");
	expect("bench --op match --size 100 --keys 50 --seconds 1 --depth 50", 0, "misses 0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_usage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_operator, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bench, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
