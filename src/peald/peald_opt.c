/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peald's options. Without --dram a quarter of the memory that is free now is taken; without --ns
 * one namespace, "kv", gets all of it.
 * tidy: no-test: test/peer gives the real thing wrong options
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/log.h"
#include "base/parse.h"
#include "core/reactor.h"
#include "nvme/nvme_kv.h"
#include "peald/peald_opt.h"

#define PEALD_NS_BYTES_MIN (1u << 20)
#define PEALD_DRAM_MAX (1ull << 46)

const char *argp_program_version = "peald " PEAL_VERSION;

enum {
	OPT_LINGER = 256,
	OPT_VALUE_MAX,
	OPT_MAX_KEYS,
	OPT_MAX_CLIENTS,
	OPT_POLL,
	OPT_RECORD,
	OPT_LOG_LEVEL,
	OPT_NO_IMMUTABLE,
};

static const struct argp_option options[] = {
	{"dir", 'd', "DIR", 0, "Folder of the socket, DIR/cntrl (default /run/peal)", 0},
	{"dram", 'm', "SIZE", 0,
	 "DRAM tier, everything included (default: a quarter of what is free)", 0},
	{"reactors", 'r', "N", 0, "Threads that serve commands, 1 to 32 (default 1)", 0},
	{"ns", 'n', "NAME=SIZE[,rw]", 0,
	 "A namespace; repeatable. rw: values of a key may change (default: same key, same bytes)",
	 0},
	{"linger", OPT_LINGER, "SECONDS", 0,
	 "Exit when no client was attached for so long (default: never)", 0},
	{"value-max", OPT_VALUE_MAX, "SIZE", 0, "Largest value (default and most 128M)", 0},
	{"max-keys", OPT_MAX_KEYS, "N", 0,
	 "Index entries of a namespace (default: its size / 4 KiB)", 0},
	{"max-clients", OPT_MAX_CLIENTS, "N", 0, "Clients at a time (default 64)", 0},
	{"poll", OPT_POLL, "busy|adaptive|USEC", 0,
	 "How to wait: never sleep; sleep and be woken (default; stock guests: every 5000 us); "
	 "or look every USEC us",
	 0},
	{"record", OPT_RECORD, "DIR", 0, "Record each controller's commands to a file there", 0},
	{"no-immutable", OPT_NO_IMMUTABLE, 0, 0, "Namespaces are rw unless they say otherwise", 0},
	{"log-level", OPT_LOG_LEVEL, "err|warn|info|debug", 0, "Default info", 0},
	{0},
};

static void opt_bad(struct argp_state *st, const char *opt, const char *arg, const char *expected)
{
	argp_error(st, "--%s: '%s' is not good, expected %s", opt, arg, expected);
}

static uint64_t opt_size(struct argp_state *st, const char *opt, const char *arg, uint64_t min,
			 uint64_t max)
{
	char expected[PARSE_EXPECTED_BYTES];
	uint64_t v = 0;

	if (parse_size_within(arg, min, max, &v, expected))
		opt_bad(st, opt, arg, expected);
	return v;
}

static uint64_t opt_number(struct argp_state *st, const char *opt, const char *arg, uint64_t min,
			   uint64_t max)
{
	char expected[PARSE_EXPECTED_BYTES];
	uint64_t v = 0;

	if (parse_u64_within(arg, min, max, &v, expected))
		opt_bad(st, opt, arg, expected);
	return v;
}

static void opt_ns(struct argp_state *st, struct peald_opts *o, const char *arg)
{
	struct peald_ns_opt *ns = &o->ns[o->nr_ns];
	const char *eq = strchr(arg, '=');
	char size[32];
	const char *comma;
	size_t n;

	if (o->nr_ns == PEALD_NS_MAX)
		argp_error(st, "--ns: more than %d namespaces", PEALD_NS_MAX);
	if (!eq || eq == arg || (size_t)(eq - arg) >= sizeof(ns->name)) {
		opt_bad(st, "ns", arg, "NAME=SIZE, as in kv=4G");
		return;
	}
	comma = strchrnul(eq, ',');
	n = (size_t)(comma - eq - 1);
	if (n >= sizeof(size) || (*comma && strcmp(comma, ",rw"))) {
		opt_bad(st, "ns", arg, "NAME=SIZE or NAME=SIZE,rw");
		return;
	}
	memcpy(ns->name, arg, (size_t)(eq - arg));
	ns->name[eq - arg] = 0;
	memcpy(size, eq + 1, n);
	size[n] = 0;
	ns->bytes = opt_size(st, "ns", size, PEALD_NS_BYTES_MIN, PEALD_DRAM_MAX);
	ns->is_mutable = *comma;
	o->nr_ns++;
}

static void opt_poll(struct argp_state *st, struct peald_opts *o, const char *arg)
{
	o->is_busy = strcmp(arg, "busy") == 0;
	if (o->is_busy || strcmp(arg, "adaptive") == 0)
		return;
	o->poll_ns = opt_number(st, "poll", arg, 1, 1000000) * 1000;
}

static void opt_log_level(struct argp_state *st, const char *arg)
{
	enum log_level level;

	if (log_level_parse(arg, &level))
		opt_bad(st, "log-level", arg, "err, warn, info or debug");
	log_set_level(level);
}

static error_t opt_one(int key, char *arg, struct argp_state *st)
{
	struct peald_opts *o = st->input;

	switch (key) {
	case 'd':
		o->dir = arg;
		return 0;
	case 'm':
		o->dram_bytes = opt_size(st, "dram", arg, PEALD_NS_BYTES_MIN, PEALD_DRAM_MAX);
		return 0;
	case 'r':
		o->nr_reactors = (uint32_t)opt_number(st, "reactors", arg, 1, 32);
		return 0;
	case 'n':
		opt_ns(st, o, arg);
		return 0;
	case OPT_LINGER:
		o->linger_s = opt_number(st, "linger", arg, 1, 365 * 86400);
		return 0;
	case OPT_VALUE_MAX:
		o->value_max = (uint32_t)opt_size(st, "value-max", arg, 1, NVME_KV_VALUE_MAX);
		return 0;
	case OPT_MAX_KEYS:
		o->max_keys = (uint32_t)opt_number(st, "max-keys", arg, 1024, UINT32_MAX - 1);
		return 0;
	case OPT_MAX_CLIENTS:
		o->max_clients = (uint32_t)opt_number(st, "max-clients", arg, 1, 256);
		return 0;
	case OPT_POLL:
		opt_poll(st, o, arg);
		return 0;
	case OPT_RECORD:
		o->record_dir = arg;
		return 0;
	case OPT_NO_IMMUTABLE:
		o->is_mutable = true;
		return 0;
	case OPT_LOG_LEVEL:
		opt_log_level(st, arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(st, "'%s': no arguments are taken, only options", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

uint64_t peald_opt_mem_available(void)
{
	auto_fclose FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			return (uint64_t)kib << 10;
	return 0;
}

void peald_opt_parse(int argc, char **argv, struct peald_opts *o)
{
	static const struct argp argp = {
		options,
		opt_one,
		NULL,
		"peald: keeps LLM KV blocks in memory tiers and serves them as an NVMe Key-Value "
		"namespace.",
		NULL,
		NULL,
		NULL};
	uint64_t sum = 0;

	memset(o, 0, sizeof(*o));
	o->dir = "/run/peal";
	o->nr_reactors = 1;
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, o);
	for (uint32_t i = 0; i < o->nr_ns; i++)
		sum += o->ns[i].bytes;
	if (o->dram_bytes == 0)
		o->dram_bytes = sum ? sum
				    : align_down(peald_opt_mem_available() / 4,
						 (uint64_t)PEALD_NS_BYTES_MIN);
	if (sum > o->dram_bytes) {
		fprintf(stderr, "peald: the namespaces want %llu bytes together, --dram has %llu\n",
			(unsigned long long)sum, (unsigned long long)o->dram_bytes);
		exit(2);
	}
	if (o->nr_ns == 0) {
		snprintf(o->ns[0].name, sizeof(o->ns[0].name), "kv");
		o->ns[0].bytes = o->dram_bytes;
		o->nr_ns = 1;
	}
	for (uint32_t i = 0; i < o->nr_ns; i++)
		o->ns[i].is_mutable |= o->is_mutable;
}
