/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal stat: the namespace and the controller's health page (log 02h) in one look, and what the
 * control plane says of its tiers where it may be asked.
 */
/* tidy: no-test: test/unit/cli/t_cli.c runs it */
#include <errno.h>
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/le.h"
#include "base/parse.h"
#include "cli/cli_rpc.h"
#include "cli/cli_ssd.h"

#define STAT_UNIT_BYTES 512000ull
#define STAT_TIMEOUT_MS 2000u

static void stat_print(const struct peal_info *i, const struct nvme_smart_log *l)
{
	char capacity[16], used[16], in[16], out[16], value[16];

	format_size(i->capacity_bytes, capacity);
	format_size(i->used_bytes, used);
	format_size(i->value_max, value);
	format_size(le64_get(l->data_units_written) * STAT_UNIT_BYTES, in);
	format_size(le64_get(l->data_units_read) * STAT_UNIT_BYTES, out);
	printf("subsystem   %s\n", i->subsystem);
	printf("namespace   %u%s\n", i->nsid, i->is_immutable ? ", immutable" : "");
	printf("capacity    %s, %s used (%.1f %%)\n", capacity, used,
	       i->capacity_bytes ? 100.0 * (double)i->used_bytes / (double)i->capacity_bytes : 0.0);
	printf("limits      keys up to %u bytes, values up to %s, %u keys in a match%s\n",
	       i->key_max, value, i->match_max, i->has_lease ? ", leases" : "");
	printf("commands    %llu reads, %llu writes\n", (unsigned long long)le64_get(l->host_reads),
	       (unsigned long long)le64_get(l->host_writes));
	printf("data        %s out, %s in\n", out, in);
	printf("corruption  %llu caught\n", (unsigned long long)le64_get(l->media_errors));
	printf("up          %llu h\n", (unsigned long long)le64_get(l->power_on_hours));
}

static void stat_print_json(const struct peal_info *i, const struct nvme_smart_log *l)
{
	printf("{\"subsystem\":\"%s\",\"nsid\":%u,\"immutable\":%s,\"capacity_bytes\":%llu,"
	       "\"used_bytes\":%llu,\"key_max\":%u,\"value_max\":%u,\"match_max\":%u,\"lease\":%s,",
	       i->subsystem, i->nsid, i->is_immutable ? "true" : "false",
	       (unsigned long long)i->capacity_bytes, (unsigned long long)i->used_bytes, i->key_max,
	       i->value_max, i->match_max, i->has_lease ? "true" : "false");
	printf("\"reads\":%llu,\"writes\":%llu,\"read_bytes\":%llu,\"written_bytes\":%llu,"
	       "\"media_errors\":%llu,\"power_on_hours\":%llu}\n",
	       (unsigned long long)le64_get(l->host_reads),
	       (unsigned long long)le64_get(l->host_writes),
	       (unsigned long long)(le64_get(l->data_units_read) * STAT_UNIT_BYTES),
	       (unsigned long long)(le64_get(l->data_units_written) * STAT_UNIT_BYTES),
	       (unsigned long long)le64_get(l->media_errors),
	       (unsigned long long)le64_get(l->power_on_hours));
}

static uint64_t stat_int(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static void stat_tier(const json_t *t, size_t no)
{
	uint64_t hits = stat_int(t, "hits"), reads = hits + stat_int(t, "misses");
	char used[16], capacity[16];

	format_size(stat_int(t, "used_bytes"), used);
	format_size(stat_int(t, "capacity_bytes"), capacity);
	printf("tier %zu      %s: %s of %s, %llu keys, %llu of %llu reads hit (%.1f %%), %llu "
	       "evicted\n",
	       no, json_string_value(json_object_get(t, "name")), used, capacity,
	       (unsigned long long)stat_int(t, "keys"), (unsigned long long)hits,
	       (unsigned long long)reads, reads ? 100.0 * (double)hits / (double)reads : 0.0,
	       (unsigned long long)stat_int(t, "evictions"));
}

static void stat_parts(const json_t *tier)
{
	char text[CLI_SSD_BYTES];
	json_t *part;
	size_t i;

	json_array_foreach(json_object_get(tier, "devices"), i, part)
	{
		cli_ssd_part(part, text);
		printf("            %s\n", text);
	}
}

static void stat_tiers(const json_t *ns)
{
	char text[CLI_SSD_BYTES];
	json_t *t;
	size_t i;

	json_array_foreach(json_object_get(ns, "tiers"), i, t)
	{
		stat_tier(t, i);
		if (cli_ssd_tier(t, text))
			printf("            %s\n", text);
		stat_parts(t);
	}
}

/* Of the one namespace, and of all devices. */
static int stat_more(const struct cli *c, uint32_t nsid)
{
	char text[CLI_SSD_BYTES];
	json_t *all, *o;
	size_t i;
	int rc = cli_rpc_maybe("stat", c, "stats", STAT_TIMEOUT_MS, &all);

	json_array_foreach(json_object_get(all, "namespaces"), i, o)
	{
		if (stat_int(o, "nsid") == nsid)
			stat_tiers(o);
	}
	json_array_foreach(json_object_get(all, "devices"), i, o)
	{
		cli_ssd_device(o, text);
		printf("ssd         %s\n", text);
	}
	json_decref(all);
	return rc;
}

static int stat_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {.doc = "Shows the namespace and the daemon's counters."};
	struct nvme_smart_log l;
	struct peal_info info;
	int rc;

	cli_parse(&argp, c, argc, argv, NULL);
	rc = cli_open(c);
	if (!rc)
		rc = cli_result(peal_info(c->p, &info));
	if (!rc)
		rc = cli_result(peal_log(c->p, NVME_LOG_LID_SMART, 0, &l, sizeof(l)));
	if (!rc)
		(c->is_json ? stat_print_json : stat_print)(&info, &l);
	if (!rc && !c->is_json)
		rc = stat_more(c, info.nsid);
	return rc;
}

const struct cli_cmd cmd_stat = {"stat", "", "the namespace and the daemon at a glance", stat_run};
