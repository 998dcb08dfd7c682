/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the option table at work: text to a field and back, and the sentence that says what a
 * row takes. See opt.h; the rows themselves are in conf.c. Any thread.
 */
#include "ctl/opt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "base/parse.h"

static void opt_store(const struct opt *o, void *group, uint64_t v)
{
	void *at = (char *)group + o->at;

	switch (o->bytes) {
	case 1:
		*(uint8_t *)at = (uint8_t)v;
		return;
	case 2:
		*(uint16_t *)at = (uint16_t)v;
		return;
	case 4:
		*(uint32_t *)at = (uint32_t)v;
		return;
	case 8:
		*(uint64_t *)at = v;
		return;
	default:
		must_not_reach();
	}
}

static uint64_t opt_load(const struct opt *o, const void *group)
{
	const void *at = (const char *)group + o->at;

	switch (o->bytes) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		return *(const uint16_t *)at;
	case 4:
		return *(const uint32_t *)at;
	case 8:
		return *(const uint64_t *)at;
	default:
		must_not_reach();
	}
}

static int opt_bool(const char *text, bool *v)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};

	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*v = strcmp(text, yes[i]) == 0;
			return 0;
		}
	}
	return -EINVAL;
}

static int opt_choice(const struct opt *o, const char *text, uint64_t *v)
{
	for (unsigned i = 0; o->names[i]; i++) {
		if (strcmp(o->names[i], text) == 0) {
			*v = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int opt_text(const struct opt *o, void *group, const char *text)
{
	size_t n = strlen(text);

	if (n < o->min || n >= o->bytes)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return -EINVAL;
	memcpy((char *)group + o->at, text, n + 1);
	return 0;
}

static int opt_put(const struct opt *o, void *group, const char *text, char *expected)
{
	uint64_t v = 0;
	bool is_on;
	int err = 0;

	switch (o->kind) {
	case OPT_SIZE:
		err = parse_size(text, &v);
		break;
	case OPT_NUMBER:
		err = parse_u64(text, &v);
		break;
	case OPT_CHOICE:
		err = opt_choice(o, text, &v);
		break;
	case OPT_TEXT:
		return opt_text(o, group, text);
	case OPT_BOOL:
		err = opt_bool(text, &is_on);
		if (!err)
			*(bool *)((char *)group + o->at) = is_on;
		return err;
	case OPT_FLAG:
		*(bool *)((char *)group + o->at) = true;
		return 0;
	case OPT_CALL:
		return o->set(group, text, expected);
	}
	if (err || (o->kind != OPT_CHOICE && (v < o->min || v > o->max)))
		return -EINVAL;
	opt_store(o, group, v);
	return 0;
}

int opt_set(const struct opt *o, void *group, const char *text, char expected[OPT_EXPECTED_BYTES])
{
	opt_expected(o, expected);
	return opt_put(o, group, text, expected) ? -EINVAL : 0;
}

void opt_get(const struct opt *o, const void *group, char value[OPT_VALUE_BYTES])
{
	unsigned long long v;

	value[0] = 0;
	switch (o->kind) {
	case OPT_SIZE:
	case OPT_NUMBER:
		v = opt_load(o, group);
		snprintf(value, OPT_VALUE_BYTES, "%llu", v);
		return;
	case OPT_CHOICE:
		snprintf(value, OPT_VALUE_BYTES, "%s", o->names[opt_load(o, group)]);
		return;
	case OPT_TEXT:
		snprintf(value, OPT_VALUE_BYTES, "%s", (const char *)group + o->at);
		return;
	case OPT_BOOL:
	case OPT_FLAG:
		snprintf(value, OPT_VALUE_BYTES, "%s",
			 *(const bool *)((const char *)group + o->at) ? "yes" : "no");
		return;
	case OPT_CALL:
		if (o->get)
			o->get(group, value);
		return;
	}
}

static void opt_names(const struct opt *o, char *to)
{
	size_t n = 0;

	for (unsigned i = 0; o->names[i] && n < OPT_EXPECTED_BYTES; i++)
		n += (size_t)snprintf(to + n, OPT_EXPECTED_BYTES - n, "%s%s",
				      !i		? ""
				      : o->names[i + 1] ? ", "
							: " or ",
				      o->names[i]);
}

void opt_range(const struct opt *o, char range[OPT_RANGE_BYTES])
{
	char lo[16], hi[16];

	range[0] = 0;
	if (o->kind == OPT_NUMBER)
		snprintf(range, OPT_RANGE_BYTES, "%llu to %llu", (unsigned long long)o->min,
			 (unsigned long long)o->max);
	if (o->kind != OPT_SIZE)
		return;
	format_size(o->min, lo);
	format_size(o->max, hi);
	snprintf(range, OPT_RANGE_BYTES, "%s to %s", lo, hi);
}

void opt_expected(const struct opt *o, char expected[OPT_EXPECTED_BYTES])
{
	uint64_t v;

	switch (o->kind) {
	case OPT_SIZE:
		parse_size_within("", o->min, o->max, &v, expected);
		return;
	case OPT_NUMBER:
		parse_u64_within("", o->min, o->max, &v, expected);
		return;
	case OPT_CHOICE:
		opt_names(o, expected);
		return;
	case OPT_TEXT:
		snprintf(expected, OPT_EXPECTED_BYTES, "%s of %u to %u characters",
			 o->expected ? o->expected : "a text", (unsigned)o->min, o->bytes - 1);
		return;
	case OPT_BOOL:
		snprintf(expected, OPT_EXPECTED_BYTES, "yes or no");
		return;
	case OPT_FLAG:
		snprintf(expected, OPT_EXPECTED_BYTES, "no value");
		return;
	case OPT_CALL:
		snprintf(expected, OPT_EXPECTED_BYTES, "%s", o->expected);
		return;
	}
}

void opt_defaults(const struct opt_group *g, void *group)
{
	char expected[OPT_EXPECTED_BYTES];

	for (unsigned i = 0; i < g->nr; i++)
		if (g->opts[i].dflt)
			must(opt_set(&g->opts[i], group, g->opts[i].dflt, expected) == 0);
}

const struct opt *opt_find(const struct opt_group *g, const char *key)
{
	for (unsigned i = 0; i < g->nr; i++)
		if (g->opts[i].key && strcmp(g->opts[i].key, key) == 0)
			return &g->opts[i];
	return NULL;
}

bool opt_is_section(const struct opt_group *g, const char *key)
{
	size_t n = strlen(key);

	for (unsigned i = 0; i < g->nr; i++) {
		const char *k = g->opts[i].key;

		if (k && strncmp(k, key, n) == 0 && k[n] == '.')
			return true;
	}
	return false;
}

/* The part of row i's key behind the prefix, or 0 characters when it is none or was said before. */
static size_t opt_key_part(const struct opt_group *g, unsigned i, const char *prefix,
			   const char **part)
{
	size_t n = strlen(prefix), len;
	const char *k = g->opts[i].key;

	if (!k || strncmp(k, prefix, n) != 0)
		return 0;
	*part = k + n;
	len = (size_t)(strchrnul(*part, '.') - *part);
	/* Rows of a section stand together. */
	if (i && g->opts[i - 1].key && (*part)[len] == '.' &&
	    strncmp(g->opts[i - 1].key, k, n + len + 1) == 0)
		return 0;
	return len;
}

void opt_keys(const struct opt_group *g, const char *prefix, char keys[OPT_EXPECTED_BYTES])
{
	const char *part;
	size_t at = 0, len;

	keys[0] = 0;
	for (unsigned i = 0; i < g->nr; i++) {
		len = opt_key_part(g, i, prefix, &part);
		if (!len || at + len + 3 > OPT_EXPECTED_BYTES)
			continue;
		at += (size_t)snprintf(keys + at, OPT_EXPECTED_BYTES - at, "%s%.*s", at ? ", " : "",
				       (int)len, part);
	}
}
