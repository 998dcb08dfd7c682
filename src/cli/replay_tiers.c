/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See replay_tiers.h. One thread.
 * tidy: no-test: test/peer/replay.py looks at what it counted
 */
#include "cli/replay_tiers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mono.h"
#include "cli/cli_rpc.h"

#define TIERS_RPC_MS 5000
#define TIERS_RECOVER_NS 60000000000ull

/* What the process wrote to where it must be read from again; -errno: it can not be known. */
static int tiers_written(int pid, uint64_t *bytes)
{
	unsigned long long v;
	char path[64], line[128];
	auto_fclose FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "write_bytes: %llu", &v) != 1)
			continue;
		*bytes = v;
		return 0;
	}
	return ferror(f) ? -EIO : -ENODATA;
}

static uint64_t tiers_int(const json_t *o, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(o, name));
}

static const json_t *tiers_of(const json_t *stats, uint32_t nsid)
{
	const json_t *nss = json_object_get(stats, "namespaces"), *ns;
	size_t i;

	json_array_foreach(nss, i, ns)
	{
		if (tiers_int(ns, "nsid") == nsid)
			return json_object_get(ns, "tiers");
	}
	return NULL;
}

static json_t *tiers_call(struct cli_rpc *r, const char *method)
{
	bool is_error = true;
	json_t *o = cli_rpc_call(r, method, NULL, TIERS_RPC_MS, &is_error);

	if (o && !is_error)
		return o;
	json_decref(o);
	return NULL;
}

static void tiers_take(struct replay_tiers *rt, const json_t *tiers, bool is_begin)
{
	const json_t *o;
	size_t i;

	json_array_foreach(tiers, i, o)
	{
		struct replay_tier *t = &rt->t[i];
		uint64_t hits = tiers_int(o, "hits"), puts = tiers_int(o, "puts");

		if (i == REPLAY_TIERS_MAX)
			break;
		if (is_begin) {
			snprintf(t->name, sizeof(t->name), "%s",
				 json_string_value(json_object_get(o, "name")));
			rt->nr = (unsigned)i + 1;
		} else {
			t->hits += hits - t->hits_base;
			t->puts += puts - t->puts_base;
		}
		t->hits_base = hits;
		t->puts_base = puts;
		t->capacity_bytes = tiers_int(o, "capacity_bytes");
		t->nr_keys = tiers_int(o, "keys");
	}
}

static int tiers_read(const struct cli *c, uint32_t nsid, struct replay_tiers *rt, bool is_begin)
{
	json_t *stats = NULL, *info = NULL;
	uint64_t written = 0;
	int unknown = 0;
	struct cli_rpc r;
	int err = cli_rpc_open(c, &r);

	if (!err) {
		stats = tiers_call(&r, "stats");
		info = tiers_call(&r, "daemon.info");
		err = stats && info ? 0 : -EPROTO;
	}
	if (!err) {
		tiers_take(rt, tiers_of(stats, nsid), is_begin);
		rt->pid = (int)tiers_int(info, "pid");
		if (is_begin || rt->has_written)
			unknown = tiers_written(rt->pid, &written);
		rt->has_written = (is_begin || rt->has_written) && !unknown;
		/* A report that lacks a line that couldn't be read looks like another's. */
		err = unknown == -ENOMEM || unknown == -EIO ? unknown : 0;
		rt->written_bytes += is_begin ? 0 : written - rt->written_base;
		rt->written_base = written;
	}
	json_decref(stats);
	json_decref(info);
	cli_rpc_close(&r);
	return err;
}

int replay_tiers_begin(const struct cli *c, uint32_t nsid, struct replay_tiers *rt)
{
	int err;

	memset(rt, 0, sizeof(*rt));
	err = tiers_read(c, nsid, rt, true);
	if (err)
		rt->nr = 0;
	return err;
}

int replay_tiers_add(const struct cli *c, uint32_t nsid, struct replay_tiers *rt)
{
	return rt->nr ? tiers_read(c, nsid, rt, false) : 0;
}

void replay_tiers_again(struct replay_tiers *rt)
{
	for (unsigned i = 0; i < rt->nr; i++)
		rt->t[i].hits_base = rt->t[i].puts_base = 0;
	rt->written_base = 0;
}

static bool tiers_recover(const json_t *tiers)
{
	const json_t *o;
	size_t i;

	json_array_foreach(tiers, i, o)
	{
		if (json_is_true(json_object_get(json_object_get(o, "health"), "recovering")))
			return true;
	}
	return false;
}

int replay_tiers_recovered(const struct cli *c, uint32_t nsid)
{
	uint64_t until_ns = mono_ns() + TIERS_RECOVER_NS;
	bool is_over = false;
	struct cli_rpc r;
	json_t *stats;
	int err = 0;

	while (!is_over && !err) {
		err = cli_rpc_open(c, &r);
		stats = err ? NULL : tiers_call(&r, "stats");
		is_over = !tiers_recover(tiers_of(stats, nsid));
		json_decref(stats);
		cli_rpc_close(&r);
		if (!is_over && mono_ns() > until_ns)
			err = -ETIMEDOUT;
		else if (!is_over)
			poll(NULL, 0, 5);
	}
	return err;
}
