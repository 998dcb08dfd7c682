/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_report: what the table and the JSON say about figures that are known. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/replay_report.h"

static struct replay_stats st;
static struct sim_trace trace;

static const uint64_t ids[] = {0, 1, 2, 3};

static int setup(void **state)
{
	struct sim_req req = {.input_tokens = 2000, .nr_blocks = 4, .ids = ids};

	assert_int_equal(sim_trace_append(&trace, &req), 0);
	assert_int_equal(sim_trace_append(&trace, &req), 0);
	st = (struct replay_stats){
		.requests = 2,
		.blocks = 8,
		.hits = 3,
		.hit_tokens = 1536,
		.bytes_checked = 3u << 20,
		.get = {.nr = 3, .bytes = 3u << 20, .ns = 1000000},
	};
	replay_hist_add(&st.get.lat, 123456);
	return 0;
}

static int teardown(void **state)
{
	sim_trace_fini(&trace);
	return 0;
}

static struct replay_report report(void)
{
	struct replay_report r = {
		.trace = "a test",
		.reqs = &trace,
		.st = &st,
		.model = replay_report_model("8b"),
		.prefill_tokens_per_s = 25000,
		.value_bytes = 1u << 20,
		.depth = 8,
		.capacity_bytes = 64u << 20,
		.residents = 3,
		.evictions = 1234567,
		.wall_ns = 2000000,
	};

	assert_int_equal(replay_report_yardsticks(&r), 0);
	return r;
}

static char *print(const struct replay_report *r)
{
	char *text = NULL, *line, *end;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	replay_report_print(r, f);
	fclose(f);
	for (line = text; (end = strchr(line, '\n')); line = end + 1)
		assert_true(end - line <= 80);
	return text;
}

static void t_yardsticks(void **state)
{
	struct replay_report r = report();

	assert_int_equal(r.uniques, 4);
	assert_true(r.infinite_percent == 50.0);
	/* Three of four blocks stay: the root and its children. */
	assert_true(r.lru_percent == 37.5);
	assert_true(replay_report_hit_percent(&r) == 37.5);
}

static void t_print(void **state)
{
	struct replay_report r = report();
	char *text = print(&r);

	assert_non_null(strstr(text, "wrong bytes: 0 of 3,145,728"));
	assert_non_null(strstr(text, "1,234,567 blocks"));
	assert_non_null(strstr(text, " 37.5 %   3 of 8 blocks"));
	assert_null(strstr(text, "corruption"));
	free(text);
}

static void t_plant(void **state)
{
	struct replay_report r = report();
	char *text;

	r.plant = (struct replay_plant){
		.is_done = true,
		.is_miss = true,
		.media_errors_after = 1,
		.key = {{0xab}, 1},
	};
	text = print(&r);
	assert_non_null(strstr(text, "corruption planted: key 0xab"));
	assert_non_null(
		strstr(text, "caught: yes (miss)\n    media errors in the SMART log: 0 -> 1\n"));
	free(text);
	r.plant.has_log = true;
	text = print(&r);
	assert_non_null(strstr(text, "caught: NO (miss, NO ALERT in the daemon's log)"));
	free(text);
	r.plant.is_logged = true;
	assert_true(replay_report_is_caught(&r.plant));
	r.plant.is_miss = false;
	assert_false(replay_report_is_caught(&r.plant));
}

static void t_json(void **state)
{
	char path[] = "/tmp/t_replay_report.XXXXXX";
	struct replay_report r = report();
	int fd = mkstemp(path);
	json_t *o;

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(replay_report_json(&r, path), 0);
	o = json_load_file(path, 0, NULL);
	unlink(path);
	assert_non_null(o);
	assert_int_equal(json_integer_value(json_object_get(o, "wrong_bytes")), 0);
	assert_int_equal(json_integer_value(json_object_get(o, "evictions")), 1234567);
	assert_true(json_real_value(json_object_get(o, "hit_percent")) == 37.5);
	assert_true(json_is_null(json_object_get(o, "plant")));
	json_decref(o);
	assert_int_equal(replay_report_json(&r, "/nowhere/there"), -ENOENT);
}

static void t_count(void **state)
{
	char buf[32];

	assert_string_equal(replay_report_count(0, buf), "0");
	assert_string_equal(replay_report_count(999, buf), "999");
	assert_string_equal(replay_report_count(1000, buf), "1,000");
	assert_string_equal(replay_report_count(UINT64_MAX, buf), "18,446,744,073,709,551,615");
	assert_null(replay_report_model("9b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_yardsticks, setup, teardown),
		cmocka_unit_test_setup_teardown(t_print, setup, teardown),
		cmocka_unit_test_setup_teardown(t_plant, setup, teardown),
		cmocka_unit_test_setup_teardown(t_json, setup, teardown),
		cmocka_unit_test(t_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
