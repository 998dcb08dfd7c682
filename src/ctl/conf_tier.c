/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers of a namespace as people write them, from the top down: "dram 8G | ssd /data/peal 500G". A
 * further kind of tier is a row here and a line in the daemon's build. Main thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "ctl/conf.h"

#define TIER_WORDS 4u

const struct conf_tier_row conf_tier_rows[] = {
	[CONF_TIER_DRAM] = {"dram", false, "the daemon's memory; it is always the first"},
	[CONF_TIER_SSD] = {"ssd", true, "files in a folder, one per reactor; outlives the daemon"},
};
const unsigned conf_nr_tier_rows = sizeof(conf_tier_rows) / sizeof(conf_tier_rows[0]);

static void tier_expected(char *expected)
{
	size_t n = 0;

	for (unsigned i = 0; i < conf_nr_tier_rows && n < OPT_EXPECTED_BYTES; i++)
		n += (size_t)snprintf(expected + n, OPT_EXPECTED_BYTES - n, "%s%s%s SIZE",
				      i ? " or " : "tiers from the top down, each ",
				      conf_tier_rows[i].name,
				      conf_tier_rows[i].has_path ? " PATH" : "");
}

static int tier_words(char *text, char *words[TIER_WORDS])
{
	char *save = NULL;
	unsigned nr = 0;

	for (char *w = strtok_r(text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
		if (nr == TIER_WORDS)
			return -EINVAL;
		words[nr++] = w;
	}
	return (int)nr;
}

static int tier_one(struct conf_tier *t, char *text)
{
	const struct conf_tier_row *row = NULL;
	char *words[TIER_WORDS];
	int nr = tier_words(text, words);

	if (nr < 2)
		return -EINVAL;
	for (unsigned i = 0; i < conf_nr_tier_rows; i++) {
		if (strcmp(words[0], conf_tier_rows[i].name) == 0) {
			row = &conf_tier_rows[i];
			t->kind = (uint8_t)i;
		}
	}
	if (!row || nr != 2 + row->has_path)
		return -EINVAL;
	if (row->has_path) {
		if (strlen(words[1]) >= sizeof(t->path))
			return -EINVAL;
		strcpy(t->path, words[1]);
	}
	if (parse_size(words[nr - 1], &t->bytes) || t->bytes < CONF_NS_BYTES_MIN ||
	    t->bytes > CONF_BYTES_MAX)
		return -EINVAL;
	return 0;
}

int conf_tier_parse(struct conf_ns *ns, const char *text, char expected[OPT_EXPECTED_BYTES])
{
	char buf[OPT_VALUE_BYTES], *save = NULL;
	struct conf_tier *t;
	size_t n = strlen(text);
	unsigned seen = 0;

	tier_expected(expected);
	if (n >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, text, n + 1);
	ns->nr_tiers = 0;
	for (char *p = strtok_r(buf, "|", &save); p; p = strtok_r(NULL, "|", &save)) {
		if (ns->nr_tiers == CONF_TIERS_MAX)
			return -EINVAL;
		t = &ns->tiers[ns->nr_tiers];
		memset(t, 0, sizeof(*t));
		/* Memory on top: what is below is asked by it. Each kind once. */
		if (tier_one(t, p) || (t->kind == CONF_TIER_DRAM) != (ns->nr_tiers == 0) ||
		    seen >> t->kind & 1)
			return -EINVAL;
		seen |= 1u << t->kind;
		ns->nr_tiers++;
	}
	return ns->nr_tiers ? 0 : -EINVAL;
}

void conf_tier_print(const struct conf_ns *ns, char value[OPT_VALUE_BYTES])
{
	size_t n = 0;

	value[0] = 0;
	for (unsigned i = 0; i < ns->nr_tiers && n < OPT_VALUE_BYTES; i++)
		n += (size_t)snprintf(value + n, OPT_VALUE_BYTES - n, "%s%s%s%s %llu",
				      i ? " | " : "", conf_tier_rows[ns->tiers[i].kind].name,
				      ns->tiers[i].path[0] ? " " : "", ns->tiers[i].path,
				      (unsigned long long)ns->tiers[i].bytes);
}
