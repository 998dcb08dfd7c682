/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers of a namespace as people write them, from the top down: "dram 8G | ssd /data/peal 500G", or
 * on several devices "dram 8G | ssd /a 500G, /b 500G", below either "| rados pool=kv". A further
 * kind of tier is a row here and a line in the daemon's build. Main thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "ctl/conf.h"

#define TIER_WORDS (2u + 2u * KV_DEVICES_MAX)

const struct conf_tier_row conf_tier_rows[] = {
	[CONF_TIER_DRAM] = {"dram", "_SIZE_", "the daemon's memory; it is always the first"},
	[CONF_TIER_SSD] =
		{"ssd", "_PATH_ _SIZE_",
		 "files in a folder, one per shard, or in a folder on each of several devices; "
		 "outlives the daemon"},
	[CONF_TIER_RADOS] =
		{"rados",
		 "pool=_POOL_ [ns=_NAME_] [user=_NAME_] [conf=_FILE_] [keyring=_FILE_] "
		 "[timeout=_SECONDS_] [keys=_N_]",
		 "objects in a pool of a Ceph cluster, which every daemon that names it shares; "
		 "always the last. ns is the RADOS namespace, the namespace's name unless said; "
		 "user the Ceph user without client., peal unless said; an operation that takes "
		 "longer than timeout, 5 unless said, has failed; keys is how many List and MATCH "
		 "know of, 1048576 unless said. Values of at most 64 MiB"},
};
const unsigned conf_nr_tier_rows = sizeof(conf_tier_rows) / sizeof(conf_tier_rows[0]);

static const char *const tier_forms[] = {
	[CONF_TIER_DRAM] = " SIZE",
	[CONF_TIER_SSD] = " PATH SIZE[, PATH SIZE]",
	[CONF_TIER_RADOS] = " pool=POOL [ns=] [user=] [conf=] [keyring=] [timeout=] [keys=]",
};

static void tier_expected(char *expected)
{
	size_t n = 0;

	for (unsigned i = 0; i < conf_nr_tier_rows && n < OPT_EXPECTED_BYTES; i++)
		n += (size_t)snprintf(expected + n, OPT_EXPECTED_BYTES - n, "%s%s%s",
				      i ? " or " : "tiers from the top down, each ",
				      conf_tier_rows[i].name, tier_forms[i]);
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

/* A size that is one, but not of a tier, is told the bounds; else the form is what was wrong. */
static int tier_size(const char *text, uint64_t *bytes, char *expected)
{
	char bounds[PARSE_EXPECTED_BYTES];
	int err = parse_size_within(text, CONF_NS_BYTES_MIN, CONF_BYTES_MAX, bytes, bounds);

	if (err == -ERANGE)
		snprintf(expected, OPT_EXPECTED_BYTES, "'%.40s' to be %s", text, bounds);
	return err ? -EINVAL : 0;
}

static bool tier_is_folder(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	while (n > 1 && a[n - 1] == '/')
		n--;
	while (m > 1 && b[m - 1] == '/')
		m--;
	return n == m && memcmp(a, b, n) == 0;
}

/* One "PATH SIZE"; a folder once, for its files would be the same. */
static int tier_device(struct conf_tier *t, const char *path, const char *size, char *expected)
{
	struct conf_device *d = &t->devices[t->nr_devices];

	if (t->nr_devices == KV_DEVICES_MAX || strlen(path) >= sizeof(d->path))
		return -EINVAL;
	for (unsigned i = 0; i < t->nr_devices; i++) {
		if (!tier_is_folder(t->devices[i].path, path))
			continue;
		snprintf(expected, OPT_EXPECTED_BYTES,
			 "each folder once, and '%.60s' is named twice", path);
		return -EINVAL;
	}
	strcpy(d->path, path);
	if (tier_size(size, &d->bytes, expected))
		return -EINVAL;
	t->bytes += d->bytes;
	t->nr_devices++;
	return 0;
}

/* "PATH SIZE, PATH SIZE": a comma ends a size and no path, and needs no blank behind it. */
static int tier_devices(struct conf_tier *t, char *words[], int nr, char *expected)
{
	char *path = NULL, *comma;

	for (int i = 0; i < nr; i++) {
		if (!path) {
			path = words[i];
			continue;
		}
		comma = strchr(words[i], ',');
		if (comma)
			*comma = 0;
		if (tier_device(t, path, words[i], expected) || !comma != (i == nr - 1))
			return -EINVAL;
		path = comma && comma[1] ? comma + 1 : NULL;
	}
	return path || !t->nr_devices ? -EINVAL : 0;
}

static int tier_rados(struct ceph_words *r, char *words[], int nr)
{
	for (int i = 0; i < nr; i++)
		if (ceph_words_add(r, words[i]))
			return -EINVAL;
	return r->pool[0] ? 0 : -EINVAL;
}

static int tier_one(struct conf_tier *t, char *text, char *expected)
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
	if (!row)
		return -EINVAL;
	if (t->kind == CONF_TIER_SSD)
		return tier_devices(t, words + 1, nr - 1, expected);
	if (t->kind == CONF_TIER_RADOS)
		return tier_rados(&t->rados, words + 1, nr - 1);
	return nr == 2 ? tier_size(words[1], &t->bytes, expected) : -EINVAL;
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
		/* Memory on top, what others share at the bottom. Each kind once. */
		if (tier_one(t, p, expected) ||
		    (t->kind == CONF_TIER_DRAM) != (ns->nr_tiers == 0) ||
		    seen >> CONF_TIER_RADOS & 1 || seen >> t->kind & 1)
			return -EINVAL;
		seen |= 1u << t->kind;
		ns->nr_tiers++;
	}
	return ns->nr_tiers ? 0 : -EINVAL;
}

__attribute__((format(printf, 2, 3))) static void tier_add(char *value, const char *fmt, ...)
{
	size_t n = strlen(value);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value + n, OPT_VALUE_BYTES - n, fmt, ap);
	va_end(ap);
}

static void rados_print(const struct ceph_words *r, char *value)
{
	const char *const names[] = {"pool", "ns", "user", "conf", "keyring"};
	const char *const texts[] = {r->pool, r->ns, r->user, r->conf, r->keyring};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (*texts[i])
			tier_add(value, " %s=%s", names[i], texts[i]);
	if (r->timeout_s)
		tier_add(value, " timeout=%u", r->timeout_s);
	if (r->max_keys)
		tier_add(value, " keys=%u", r->max_keys);
}

void conf_tier_print(const struct conf_ns *ns, char value[OPT_VALUE_BYTES])
{
	value[0] = 0;
	for (unsigned i = 0; i < ns->nr_tiers; i++) {
		const struct conf_tier *t = &ns->tiers[i];

		tier_add(value, "%s%s", i ? " | " : "", conf_tier_rows[t->kind].name);
		for (unsigned d = 0; d < t->nr_devices; d++)
			tier_add(value, "%s %s %llu", d ? "," : "", t->devices[d].path,
				 (unsigned long long)t->devices[d].bytes);
		if (t->kind == CONF_TIER_RADOS)
			rados_print(&t->rados, value);
		else if (!t->nr_devices)
			tier_add(value, " %llu", (unsigned long long)t->bytes);
	}
}
