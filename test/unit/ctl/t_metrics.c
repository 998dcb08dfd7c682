/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text for Prometheus: every family has HELP and TYPE and stands together, counters end in
 * _total, labels are escaped. promtool's opinion is asked in test/peer/ctl_http.py.
 */
#include "unit.h"

#include <string.h>

#include "ctl/metrics.h"

static struct conf conf = {.dram_bytes = 1 << 20};
static const struct tgt_node node = {.nr = 2, .is_home_apart = true};
static const struct ctl ctl = {.conf = &conf, .node = &node};

static struct ctl_stat *figures(void)
{
	struct ctl_stat *st = calloc(1, sizeof(*st) + 2 * sizeof(st->ns[0]));

	st->nr_workers = 2;
	st->workers[1].turns = 7;
	st->nr_ns = 2;
	st->cmds[1][2][TGT_DONE] = 11;
	st->cmds[1][2][TGT_MISSED] = 3;
	st->bad[0][0x87] = 3;
	for (unsigned i = 0; i < 2; i++) {
		st->ns[i].nsid = i + 1;
		st->ns[i].reads = 100 + i;
	}
	st->ns[0].csi = 1;
	st->ns[0].time[3] = (struct tgt_time_sum){.ns = 1500, .nr = 3, .bucket = {2, 0, 1}};
	strcpy(st->ns[0].name, "a\"b\\c");
	st->ns[0].is_kv = true;
	st->ns[0].nr_tiers = 2;
	st->ns[0].tiers[0] = (struct ctl_stat_tier){"dram", {.hits = 5, .misses = 6}};
	st->ns[0].tiers[1] = (struct ctl_stat_tier){"ssd", {.hits = 4, .misses = 2}};
	st->ns[0].tiers[1].health = (struct store_health){
		.nr_shards = 1, .state = TRIP_READ_ONLY, .nr_bad = 9, .errors = {3}};
	st->ns[0].tiers[1].health.wrote[STORE_WROTE_AGAIN] = 77;
	st->ns[0].tiers[1].health.refused[STORE_REFUSED_WEAR] = 78;
	strcpy(st->ns[1].name, "block");
	st->nr_classes = 2;
	st->classes[0] = (struct ctl_stat_class){.cls = 7, .name = "llama", .nr_keys = 3};
	st->classes[1] = (struct ctl_stat_class){.nr_keys = 4, .value_bytes = 5};
	return st;
}

static void has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("no '%s' in\n%s", line, text);
}

static void test_values(void **state)
{
	struct ctl_stat *st = figures();
	size_t n = 0;
	char *text = metrics_text(&ctl, st, &n);

	assert_non_null(text);
	assert_int_equal(n, strlen(text));
	has(text, "\npeal_reactor_turns_total{reactor=\"0\"} ");
	has(text, "\npeal_reactor_turns_total{reactor=\"home\"} 7\n");
	has(text, "\npeal_clients_refused_total{how=\"silent\"} ");
	has(text, "\npeal_namespace_reads_total{namespace=\"a\\\"b\\\\c\",nsid=\"1\"} 100\n");
	has(text, "\npeal_namespace_reads_total{namespace=\"block\",nsid=\"2\"} 101\n");
	has(text, "opcode=\"02h\",name=\"Retrieve\",outcome=\"done\"} 11\n");
	has(text, "opcode=\"02h\",name=\"Retrieve\",outcome=\"missed\"} 3\n");
	has(text, "peal_command_statuses_total{status=\"087h\",name=\"Key Does Not Exist\"} 3\n");
	has(text, "tier_hits_total{namespace=\"a\\\"b\\\\c\",nsid=\"1\",tier=\"1-ssd\"} 4\n");
	has(text, "nsid=\"1\",tier=\"1-ssd\",cause=\"again\"} 77\n");
	has(text, "nsid=\"1\",tier=\"1-ssd\",reason=\"wear\"} 78\n");
	has(text, "nsid=\"1\",tier=\"1-ssd\",kind=\"read\"} 3\n");
	has(text, "peal_tier_state{namespace=\"a\\\"b\\\\c\",nsid=\"1\",tier=\"1-ssd\"} 1\n");
	has(text, "tier=\"1-ssd\"} 9\n");
	assert_null(strstr(text, "tier=\"0-dram\",cause"));
	/* One denominator: 5 + 4 hits, and 2 misses of the lowest tier. */
	has(text, "peal_namespace_hits_total{namespace=\"a\\\"b\\\\c\",nsid=\"1\"} 9\n");
	has(text, "peal_namespace_misses_total{namespace=\"a\\\"b\\\\c\",nsid=\"1\"} 2\n");
	assert_null(strstr(text, "hits_total{namespace=\"block\""));
	has(text, "nsid=\"1\",name=\"Retrieve\",le=\"2.56e-07\"} 2\n");
	has(text, "nsid=\"1\",name=\"Retrieve\",le=\"5.12e-07\"} 2\n");
	has(text, "nsid=\"1\",name=\"Retrieve\",le=\"1.024e-06\"} 3\n");
	has(text, "nsid=\"1\",name=\"Retrieve\",le=\"+Inf\"} 3\n");
	has(text, "nsid=\"1\",name=\"Retrieve\"} 0.000001500\n");
	assert_null(strstr(text, "command_seconds_count{namespace=\"block\""));
	has(text,
	    "peal_class_keys{namespace=\"a\\\"b\\\\c\",nsid=\"1\",class=\"7\",name=\"llama\"} 3");
	has(text, ",class=\"others\",name=\"\"} 5\n");
	free(text);
	free(st);
}

/* "peal_x{...} 1" or "peal_x 1": x. */
static size_t name_of(const char *line)
{
	return strcspn(line, "{ ");
}

static void test_form(void **state)
{
	struct ctl_stat *st = figures();
	size_t n = 0;
	char *text = metrics_text(&ctl, st, &n), *save = NULL, family[128] = "", type[16] = "";
	char seen[8192] = " ";

	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		if (strncmp(l, "# HELP ", 7) == 0) {
			snprintf(family, sizeof(family), "%.*s", (int)strcspn(l + 7, " "), l + 7);
			strcat(family, " ");
			assert_null(strstr(seen, family)); /* each family once */
			strcat(seen, family);
			l = strtok_r(NULL, "\n", &save);
			assert_int_equal(strncmp(l, "# TYPE ", 7), 0);
			assert_int_equal(strncmp(l + 7, family, strlen(family)), 0);
			snprintf(type, sizeof(type), "%s", l + 7 + strlen(family));
			assert_int_equal(strcmp(type, "counter") == 0,
					 strstr(family, "_total ") != NULL);
			continue;
		}
		if (strcmp(type, "histogram") == 0) {
			size_t n = strlen(family) - 1;

			assert_int_equal(strncmp(l, family, n), 0);
			assert_true(strncmp(l + n, "_bucket{", 8) == 0 ||
				    strncmp(l + n, "_sum{", 5) == 0 ||
				    strncmp(l + n, "_count{", 7) == 0);
			continue;
		}
		assert_int_equal(name_of(l) + 1, strlen(family));
		assert_int_equal(strncmp(l, family, name_of(l)), 0);
	}
	free(text);
	free(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
