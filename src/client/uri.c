/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URIs of peal_open(), see uri.h. An option table feeds the parser and its error text. Whether a
 * vfu: path is a folder is asked of the file system; everything else is pure. Any thread.
 */
#include "client/uri.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "client/errmsg.h"

#define URI_LINGER_S 600

static const struct uri_opt {
	const char *name;
	int (*parse)(const char *s, uint64_t *v);
	size_t offset;
	uint64_t min, max;
	const char *expected;
} uri_opts[] = {
	{"dram", parse_size, offsetof(struct uri, dram_bytes), 1, 1ull << 50, "a size such as 1G"},
	{"ssd", parse_size, offsetof(struct uri, ssd_bytes), 1, 1ull << 50, "a size such as 100G"},
	{"linger", parse_u64, offsetof(struct uri, linger_s), 1, 31536000, "seconds, 1 to a year"},
	{"reactors", parse_u64, offsetof(struct uri, nr_reactors), 1, 31, "1 to 31"},
};
#define URI_NR_OPTS (sizeof(uri_opts) / sizeof(uri_opts[0]))

static int uri_parse_opt(char *opt, const char *text, struct uri *u)
{
	char *value = strchr(opt, '=');
	uint64_t v;

	if (!value)
		return errmsg_set(-EINVAL, "'%s': option '%s' has no value, expected NAME=VALUE",
				  text, opt);
	*value++ = 0;
	for (size_t i = 0; i < URI_NR_OPTS; i++) {
		const struct uri_opt *o = &uri_opts[i];

		if (strcmp(opt, o->name) != 0)
			continue;
		if (o->parse(value, &v) < 0 || v < o->min || v > o->max)
			return errmsg_set(-EINVAL, "'%s': %s is '%s', expected %s", text, opt,
					  value, o->expected);
		memcpy((char *)u + o->offset, &v, sizeof(v));
		return 0;
	}
	return errmsg_set(-EINVAL,
			  "'%s': unknown option '%s', expected dram, ssd, linger or "
			  "reactors",
			  text, opt);
}

static int uri_parse_spawn(char *rest, const char *text, struct uri *u)
{
	char *opts = strchr(rest, '?'), *save = NULL;

	if (opts)
		*opts++ = 0;
	if (!*rest || strlen(rest) + sizeof("/cntrl") > sizeof(u->path))
		return errmsg_set(-EINVAL,
				  "'%s': expected a folder of 1 to %zu bytes behind spawn:", text,
				  sizeof(u->path) - sizeof("/cntrl"));
	u->is_spawn = true;
	u->linger_s = URI_LINGER_S;
	snprintf(u->dir, sizeof(u->dir), "%s", rest);
	snprintf(u->path, sizeof(u->path), "%.*s/cntrl", (int)strlen(rest), rest);
	for (char *o = opts ? strtok_r(opts, "&", &save) : NULL; o;
	     o = strtok_r(NULL, "&", &save)) {
		int err = uri_parse_opt(o, text, u);

		if (err < 0)
			return err;
	}
	if (u->ssd_bytes && !u->dram_bytes)
		return errmsg_set(-EINVAL, "'%s': ssd without dram, expected both", text);
	/* They would end a word, or a tier, of what the daemon is told. */
	if (u->ssd_bytes && strpbrk(u->dir, " \t|"))
		return errmsg_set(-EINVAL,
				  "'%s': with ssd, expected a folder without blanks and '|'", text);
	return 0;
}

static int uri_parse_vfu(const char *rest, const char *text, struct uri *u)
{
	struct stat st;
	bool is_dir = stat(rest, &st) == 0 && S_ISDIR(st.st_mode);
	int n = snprintf(u->path, sizeof(u->path), "%s%s", rest, is_dir ? "/cntrl" : "");

	if (!*rest || n < 0 || (size_t)n >= sizeof(u->path))
		return errmsg_set(-EINVAL,
				  "'%s': expected a socket's path of 1 to %zu bytes behind vfu:",
				  text, sizeof(u->path) - 1);
	return 0;
}

int uri_parse(const char *text, struct uri *u)
{
	struct uri got = {0};
	auto_free char *copy = NULL;
	int err;

	if (!text)
		return errmsg_set(-EINVAL, "no URI, expected vfu:PATH or spawn:DIR");
	copy = strdup(text);
	if (!copy)
		return errmsg_set(-ENOMEM, "no memory for a URI");
	if (strncmp(copy, "vfu:", 4) == 0)
		err = uri_parse_vfu(copy + 4, text, &got);
	else if (strncmp(copy, "spawn:", 6) == 0)
		err = uri_parse_spawn(copy + 6, text, &got);
	else
		err = errmsg_set(-EINVAL, "'%s': unknown scheme, expected vfu:PATH or spawn:DIR",
				 text);
	if (err < 0)
		return err;
	*u = got;
	return 0;
}
