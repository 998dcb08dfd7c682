/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See cli_ssd.h. What is as it should be is said in few words; what isn't, in capitals.
 */
/* tidy: no-test: test/peer/ctl_ssd.py reads the lines */
#include "cli/cli_ssd.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

static uint64_t ssd_int(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static const char *ssd_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

__attribute__((format(printf, 2, 3))) static void ssd_add(char *text, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, CLI_SSD_BYTES - n, fmt, ap);
	va_end(ap);
}

static uint64_t ssd_sum(const json_t *o, const char *key)
{
	const json_t *all = json_object_get(o, key), *v;
	const char *name;
	uint64_t sum = 0;

	json_object_foreach((json_t *)(uintptr_t)all, name, v)
		sum += (uint64_t)json_integer_value(v);
	return sum;
}

bool cli_ssd_tier(const json_t *tier, char text[CLI_SSD_BYTES])
{
	const json_t *h = json_object_get(tier, "health"), *why, *v;
	const char *name;
	char size[16];

	text[0] = 0;
	if (!h)
		return false;
	format_size(ssd_sum(h, "written_bytes"), size);
	ssd_add(text, "written %s", size);
	if (json_is_true(json_object_get(h, "recovering")))
		ssd_add(text, ", recovering %llu %%",
			(unsigned long long)ssd_int(h, "recovered_percent"));
	why = json_object_get(h, "refused");
	json_object_foreach((json_t *)(uintptr_t)why, name, v)
	{
		if (json_integer_value(v))
			ssd_add(text, ", %llu refused (%s)",
				(unsigned long long)json_integer_value(v), name);
	}
	if (ssd_sum(h, "errors"))
		ssd_add(text, ", %llu device errors", (unsigned long long)ssd_sum(h, "errors"));
	if (ssd_int(h, "bad_keys"))
		ssd_add(text, ", %llu keys that failed",
			(unsigned long long)ssd_int(h, "bad_keys"));
	if (ssd_int(h, "dead_segments"))
		ssd_add(text, ", %llu of %llu segments dead",
			(unsigned long long)ssd_int(h, "dead_segments"),
			(unsigned long long)ssd_int(h, "segments"));
	if (strcmp(ssd_text(h, "state"), "rw") != 0)
		ssd_add(text, ", %s",
			strcmp(ssd_text(h, "state"), "off") == 0 ? "OFF" : "READ-ONLY");
	return true;
}

void cli_ssd_part(const json_t *part, char text[CLI_SSD_BYTES])
{
	const char *state = ssd_text(part, "state");
	const json_t *h = json_object_get(part, "health");
	char size[16];

	text[0] = 0;
	format_size(ssd_int(part, "value_bytes"), size);
	ssd_add(text, "%s: %llu keys, %s", ssd_text(part, "folder"),
		(unsigned long long)ssd_int(part, "keys"), size);
	if (strcmp(state, "draining") == 0 || strcmp(state, "drained") == 0) {
		format_size(ssd_int(part, "moved_bytes"), size);
		ssd_add(text, ", %s, %llu values moved, %s", state,
			(unsigned long long)ssd_int(part, "moved"), size);
	} else if (strcmp(state, "in") != 0) {
		ssd_add(text, ", %s", strcmp(state, "lost") == 0 ? "LOST" : "MISSING");
	} else if (strcmp(ssd_text(h, "state"), "rw") != 0) {
		ssd_add(text, ", %s",
			strcmp(ssd_text(h, "state"), "off") == 0 ? "OFF" : "READ-ONLY");
	}
}

void cli_ssd_device(const json_t *device, char text[CLI_SSD_BYTES])
{
	char size[16];

	text[0] = 0;
	ssd_add(text, "%s", ssd_text(device, "folder"));
	if (*ssd_text(device, "device"))
		ssd_add(text, " on %s", ssd_text(device, "device"));
	format_size(ssd_int(device, "day_bytes"), size);
	ssd_add(text, ": %s a day", size);
	if (json_object_get(device, "used_percent"))
		ssd_add(text, ", %llu %% of its life used",
			(unsigned long long)ssd_int(device, "used_percent"));
	if (json_object_get(device, "days_left"))
		ssd_add(text, ", %llu days left at this rate",
			(unsigned long long)ssd_int(device, "days_left"));
	format_size(ssd_int(device, "free_bytes"), size);
	ssd_add(text, ", %s free", size);
	if (strcmp(ssd_text(device, "wear"), "ok") != 0)
		ssd_add(text, ", WORN");
	if (json_is_false(json_object_get(device, "may_write")))
		ssd_add(text, ", NOT WRITTEN");
	if (json_is_true(json_object_get(device, "tight")))
		ssd_add(text, ", TOO FULL");
}
