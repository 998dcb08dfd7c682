/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_trace: what the importer takes, that it gives back what was written, and that it refuses
 * everything else with the line, the field and what was expected. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "sim/sim_trace.h"

static const char good[] =
	"{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": "
	"[0, 1]}\n"
	"{\"timestamp\": 3000, \"input_length\": 1024, \"output_length\": 0, \"hash_ids\": "
	"[0, 2]}\n";

static int read_bytes(struct sim_trace *t, const void *bytes, size_t len, struct sim_trace_err *err)
{
	FILE *in = fmemopen((void *)bytes, len, "r");
	int rc;

	assert_non_null(in);
	rc = sim_trace_read(t, in, "x", err);
	fclose(in);
	return rc;
}

static void t_good(void **state)
{
	struct sim_trace t = {0};
	struct sim_trace_err err;
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(read_bytes(&t, good, strlen(good), &err), 0);
	assert_int_equal(t.nr_reqs, 2);
	assert_int_equal(t.nr_refs, 4);
	assert_int_equal(t.reqs[1].time_ns, 3000000000ull);
	assert_int_equal(t.reqs[1].input_tokens, 1024);
	assert_int_equal(t.reqs[0].output_tokens, 5);
	assert_int_equal(t.reqs[1].ids[1], 2);
	assert_true(sim_trace_tail_is_partial(&t.reqs[0]));
	assert_false(sim_trace_tail_is_partial(&t.reqs[1]));
	assert_int_equal(sim_trace_write(&t, out), 0);
	fclose(out);
	assert_string_equal(text, good);
	free(text);
	sim_trace_fini(&t);
	assert_int_equal(t.nr_reqs, 0);
}

/* Blank lines, further fields, any spacing, no newline at the end; and nothing at all. */
static void t_lenient(void **state)
{
	static const char text[] = "\n  \r\n{\"hash_ids\":[7],\"chat\":\"x\",\"output_length\":1,"
				   "\"input_length\":1,\"timestamp\":12}";
	struct sim_trace t = {0};

	assert_int_equal(read_bytes(&t, text, strlen(text), NULL), 0);
	assert_int_equal(t.nr_reqs, 1);
	assert_int_equal(t.reqs[0].ids[0], 7);
	sim_trace_fini(&t);
	assert_int_equal(read_bytes(&t, "\n", 1, NULL), 0);
	assert_int_equal(t.nr_reqs, 0);
}

#define HEAD "{\"timestamp\": 5, \"input_length\": 600, \"output_length\": 5, "

/* {second line, what the message must say}; the first line is always good. */
static const char *const malformed[][2] = {
	{"{", "x:2: column 0: expected a JSON object: string or '}' expected"},
	{"nonsense", "x:2: column 8: expected a JSON object"},
	{"[1, 2]", "x:2: expected an object, got an array"},
	{"{} {}", "x:2: column"},
	{"{}", "x:2: timestamp: expected an integer, got nothing"},
	{"{\"timestamp\": \"5\"}", "x:2: timestamp: expected an integer, got a string"},
	{"{\"timestamp\": 5.5}", "x:2: timestamp: expected an integer, got a fraction"},
	{"{\"timestamp\": null}", "x:2: timestamp: expected an integer, got null"},
	{"{\"timestamp\": -1}", "x:2: timestamp: expected 4..1099511627776, got -1"},
	{"{\"timestamp\": 3}", "x:2: timestamp: expected 4..1099511627776, got 3"},
	{"{\"timestamp\": 99999999999999999999}", "x:2: column"},
	{"{\"timestamp\": 5, \"timestamp\": 5}", "x:2: column"},
	{"{\"timestamp\": 5}", "x:2: input_length: expected an integer, got nothing"},
	{"{\"timestamp\": 5, \"input_length\": 0}",
	 "x:2: input_length: expected 1..33554432, got 0"},
	{"{\"timestamp\": 5, \"input_length\": 9, \"output_length\": 33554433}",
	 "x:2: output_length: expected 0..33554432, got 33554433"},
	{HEAD "\"x\": 1}", "x:2: hash_ids: expected an array, got nothing"},
	{HEAD "\"hash_ids\": {}}", "x:2: hash_ids: expected an array, got an object"},
	{HEAD "\"hash_ids\": [1]}",
	 "x:2: hash_ids: expected 2 ids for 600 tokens in blocks of 512, got 1"},
	{HEAD "\"hash_ids\": [1, 2, 3]}", "x:2: hash_ids: expected 2 ids"},
	{HEAD "\"hash_ids\": [1, true]}", "x:2: hash_ids[1]: expected an integer, got true"},
	{HEAD "\"hash_ids\": [-2, 1]}",
	 "x:2: hash_ids[0]: expected 0..9223372036854775807, got -2"},
	{HEAD "\"hash_ids\": [1, 2]", "x:2: column"},
	{HEAD "\"hash_ids\": [1, 2], \"s\": \"\xff\"}", "x:2: column"},
};

static void t_malformed(void **state)
{
	static const char first[] =
		"{\"timestamp\": 4, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": "
		"[0]}\n";

	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
		struct sim_trace t = {0};
		struct sim_trace_err err = {{0}};
		char text[1024];

		snprintf(text, sizeof(text), "%s%s\n", first, malformed[i][0]);
		assert_int_equal(read_bytes(&t, text, strlen(text), &err), -EINVAL);
		if (strncmp(err.text, malformed[i][1], strlen(malformed[i][1])) != 0)
			fail_msg("%s: expected '%s', got '%s'", malformed[i][0], malformed[i][1],
				 err.text);
		assert_int_equal(t.nr_reqs, 0);
		assert_null(t.reqs);
	}
}

static void t_bounds(void **state)
{
	struct sim_trace t = {0};
	struct sim_trace_err err;
	char *big = malloc(SIM_TRACE_LINE_MAX + 10);

	assert_non_null(big);
	memset(big, ' ', SIM_TRACE_LINE_MAX + 10);
	assert_int_equal(read_bytes(&t, big, SIM_TRACE_LINE_MAX + 10, &err), -E2BIG);
	assert_string_equal(err.text, "x:1: expected a line of less than 4194304 bytes");
	/* Depth of nesting is bounded by the parser. */
	memset(big, '[', 100000);
	assert_int_equal(read_bytes(&t, big, 100000, &err), -EINVAL);
	assert_int_equal(read_bytes(&t, "{}\0{}\n", 6, &err), -EINVAL);
	assert_string_equal(err.text, "x:1: expected text, got a NUL byte at 2");
	/* Also where the file ends without a new line: what is behind it isn't passed over. */
	assert_int_equal(read_bytes(&t, "  \0{", 4, &err), -EINVAL);
	assert_string_equal(err.text, "x:1: expected text, got a NUL byte at 2");
	free(big);
}

static void t_no_file(void **state)
{
	struct sim_trace t = {0};
	struct sim_trace_err err;

	assert_int_equal(sim_trace_load(&t, "/nonexistent/x.jsonl", &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/x.jsonl: can't open: No such file"));
	assert_int_equal(sim_trace_load(&t, "/", NULL), -EISDIR);
	assert_int_equal(sim_trace_save(&t, "/nonexistent/x.jsonl"), -ENOENT);
	assert_int_equal(sim_trace_save(&t, "/dev/full"), 0);
}

static void t_full_disk(void **state)
{
	struct sim_trace t = {0};

	assert_int_equal(read_bytes(&t, good, strlen(good), NULL), 0);
	assert_int_equal(sim_trace_save(&t, "/dev/full"), -ENOSPC);
	sim_trace_fini(&t);
}

/* Bytes turned at random in a good file: taken or refused, never a crash, never a half trace. */
static void t_mutations(void **state)
{
	struct rng r;

	rng_init(&r, unit_seed(1));
	for (int n = 0; n < 4000; n++) {
		struct sim_trace t = {0};
		struct sim_trace_err err;
		char text[sizeof(good)];

		memcpy(text, good, sizeof(good));
		for (uint64_t i = 1 + rng_below(&r, 3); i > 0; i--)
			text[rng_below(&r, sizeof(good) - 1)] = (char)rng_below(&r, 256);
		if (read_bytes(&t, text, sizeof(good) - 1 - rng_below(&r, 3), &err) < 0) {
			assert_null(t.reqs);
			assert_memory_equal(err.text, "x:", 2);
		}
		sim_trace_fini(&t);
	}
}

/* Many requests: the pool moves and the requests' pointers follow. */
static void t_append(void **state)
{
	struct sim_trace t = {0};

	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t ids[9];
		struct sim_req req = {
			.time_ns = i, .input_tokens = (uint32_t)(1 + i % 4600), .ids = ids};

		req.nr_blocks = sim_trace_blocks(req.input_tokens);
		for (uint32_t b = 0; b < req.nr_blocks; b++)
			ids[b] = i * 100 + b;
		assert_int_equal(sim_trace_append(&t, &req), 0);
	}
	for (uint64_t i = 0; i < 3000; i++)
		for (uint32_t b = 0; b < t.reqs[i].nr_blocks; b++)
			assert_int_equal(t.reqs[i].ids[b], i * 100 + b);
	sim_trace_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_good),      cmocka_unit_test(t_lenient),
		cmocka_unit_test(t_malformed), cmocka_unit_test(t_bounds),
		cmocka_unit_test(t_no_file),   cmocka_unit_test(t_full_disk),
		cmocka_unit_test(t_mutations), cmocka_unit_test(t_append),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
