/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The importer, the LRU and the statistics on a recorded trace: the first 6,015 requests of
 * Mooncake's conversation trace, in $PEAL_TRACES/mooncake/conversation_a.jsonl (or the folder that
 * is argument 1). It isn't ours to ship, so without it the test is skipped and says so. What is
 * expected was computed by an independent program. One thread.
 */
#include "unit.h"

#include <string.h>
#include <unistd.h>

#include "figures.h"
#include "sim/sim_gen.h"

#define NR_REQS 6015
#define EXIT_SKIP 77

static char path[4096];
static struct sim_trace recorded;

static const double want_lru[FIG_CAPACITIES] = {4.34, 6.51, 20.85, 31.60, 34.18, 34.56, 34.56};

static int load(void **state)
{
	struct sim_trace_err err;
	int rc = sim_trace_load(&recorded, path, &err);

	if (rc)
		fprintf(stderr, "%s\n", err.text);
	return rc;
}

static int unload(void **state)
{
	sim_trace_fini(&recorded);
	return 0;
}

static void t_counts(void **state)
{
	struct sim_stat s;

	assert_int_equal(sim_stat_measure(&recorded, &s), 0);
	assert_int_equal(recorded.nr_reqs, NR_REQS);
	assert_int_equal(s.refs, 153002);
	assert_int_equal(s.uniques, 100131);
	assert_int_equal(s.with_first_block, NR_REQS);
	assert_int_equal(s.duration_ns / 1000000, 1881000);
}

/* What is written is what was read, byte for byte. */
static void t_round_trip(void **state)
{
	FILE *in = fopen(path, "r");
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	char buf[65536];
	size_t at = 0;
	size_t n;

	assert_non_null(in);
	assert_int_equal(sim_trace_write(&recorded, out), 0);
	fclose(out);
	while ((n = fread(buf, 1, sizeof(buf), in)) > 0) {
		assert_true(at + n <= len);
		assert_memory_equal(buf, text + at, n);
		at += n;
	}
	assert_int_equal(at, len);
	fclose(in);
	free(text);
}

/*
 * The curve, and beside it that of generated traces cut at the same length. The model is fitted to
 * the published figures of the whole trace, whose first half is a little warmer than the model's.
 */
static void t_curve(void **state)
{
	double got[FIG_CAPACITIES];
	double made[FIG_CAPACITIES];
	double mean[FIG_CAPACITIES] = {0};

	assert_int_equal(fig_curve(&recorded, got), 0);
	fig_print_head();
	fig_print_row("recorded", got, FIG_CAPACITIES);
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct sim_gen_opt opt = {.seed = seed, .nr_reqs = NR_REQS};
		struct sim_trace t = {0};
		char name[24];

		assert_int_equal(sim_gen(&t, &opt), 0);
		assert_int_equal(fig_curve(&t, made), 0);
		snprintf(name, sizeof(name), "seed %llu", (unsigned long long)seed);
		fig_print_row(name, made, FIG_CAPACITIES);
		for (int c = 0; c < FIG_CAPACITIES; c++)
			mean[c] += made[c] / 6.0;
		sim_trace_fini(&t);
	}
	for (int c = 0; c < FIG_CAPACITIES; c++) {
		assert_true(fabs(got[c] - want_lru[c]) < 0.006);
		assert_true(fabs(mean[c] - want_lru[c]) < 3.0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_counts),
		cmocka_unit_test(t_round_trip),
		cmocka_unit_test(t_curve),
	};
	const char *dir = getenv("PEAL_TRACES");

	if (!dir)
		dir = argc > 1 ? argv[1] : ".";
	snprintf(path, sizeof(path), "%s/mooncake/conversation_a.jsonl", dir);
	if (access(path, R_OK) != 0) {
		puts("skipped: no recorded trace; PEAL_TRACES names a folder with "
		     "mooncake/conversation_a.jsonl");
		return EXIT_SKIP;
	}
	return cmocka_run_group_tests(tests, load, unload);
}
