/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal top: what the daemon does now, once a second, from the control plane's `stats`: rates of
 * each namespace, hits by tier, room, how long reads take. A screen on a terminal, which 80 columns
 * are enough for, plain lines anywhere else, so that it can be piped. One thread.
 */
/* tidy: no-test: test/peer/ctl_cli.py runs it */
#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mono.h"
#include "base/parse.h"
#include "cli/cli_rpc.h"
#include "cli/cli_ssd.h"

#define TOP_TIMEOUT_MS 5000u
#define TOP_NS_MAX 64
#define TOP_BUCKETS 25 /* of `times`: those below TOP_LEAST_NS << i */
#define TOP_LEAST_NS 256.0

struct top_opts {
	double seconds;
	uint64_t count; /* 0: until it is ended */
	bool is_plain;
};

struct top_ns {
	uint64_t nsid;
	uint64_t reads, writes, out, in, hits, misses;
	uint64_t times[TOP_BUCKETS]; /* of reads of values */
};

struct top {
	struct top_opts o;
	bool is_screen;
	int line, nr_hidden;
	uint64_t at_ns;
	unsigned nr; /* namespaces of the look before */
	struct top_ns before[TOP_NS_MAX];
};

enum {
	OPT_COUNT = 256,
	OPT_PLAIN,
};

static const struct argp_option top_options[] = {
	{"interval", 'i', "SECONDS", 0, "Between two looks (default 1)", 0},
	{"count", OPT_COUNT, "N", 0, "Ends after so many looks", 0},
	{"plain", OPT_PLAIN, NULL, 0, "Lines, even on a terminal", 0},
	{0},
};

static error_t top_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct top_opts *o = state->input;
	char *end;

	switch (key) {
	case 'i':
		o->seconds = strtod(arg, &end);
		if (*end || !(o->seconds >= 0.1 && o->seconds <= 3600))
			argp_error(state, "--interval is '%s', expected 0.1 to 3600 seconds", arg);
		return 0;
	case OPT_COUNT:
		o->count = cli_number("--count", arg, 1, 1000000000);
		return 0;
	case OPT_PLAIN:
		o->is_plain = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

__attribute__((format(printf, 2, 3))) static void top_put(struct top *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	if (t->is_screen && t->line + 1 >= LINES) {
		t->nr_hidden++; /* the last line tells of it */
	} else if (t->is_screen) {
		vsnprintf(text, sizeof(text), fmt, ap);
		mvaddnstr(t->line++, 0, text, COLS);
	} else {
		vprintf(fmt, ap);
		putchar('\n');
	}
	va_end(ap);
}

static uint64_t top_int(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

/* What Retrieve and RETRIEVE_EX took. */
static void top_read_times(struct top_ns *n, const json_t *ns)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(ns, "times"), i, one)
	{
		const char *name = json_string_value(json_object_get(one, "name"));
		const json_t *b = json_object_get(one, "buckets");

		if (!name || (strcmp(name, "Retrieve") != 0 && strcmp(name, "RETRIEVE_EX") != 0 &&
			      strcmp(name, "Read") != 0))
			continue;
		for (unsigned k = 0; k < TOP_BUCKETS; k++)
			n->times[k] += (uint64_t)json_integer_value(json_array_get(b, k));
	}
}

static struct top_ns top_read(const json_t *ns)
{
	struct top_ns n = {
		.nsid = top_int(ns, "nsid"),
		.reads = top_int(ns, "reads"),
		.writes = top_int(ns, "writes"),
		.out = top_int(ns, "read_bytes"),
		.in = top_int(ns, "write_bytes"),
	};
	const json_t *tier;
	size_t i;

	json_array_foreach(json_object_get(ns, "tiers"), i, tier)
	{
		n.hits += top_int(tier, "hits");
		n.misses = top_int(tier, "misses"); /* the lowest one's */
	}
	top_read_times(&n, ns);
	return n;
}

static const struct top_ns *top_find(const struct top *t, uint64_t nsid)
{
	static const struct top_ns none;

	for (unsigned i = 0; i < t->nr; i++)
		if (t->before[i].nsid == nsid)
			return &t->before[i];
	return &none;
}

static void top_rate(uint64_t now, uint64_t before, double s, char text[16])
{
	double v = s > 0 && now >= before ? (double)(now - before) / s : 0;

	snprintf(text, 16,
		 v < 9999.5    ? "%.0f"
		 : v < 9999500 ? "%.0fk"
			       : "%.1fM",
		 v < 9999.5    ? v
		 : v < 9999500 ? v / 1e3
			       : v / 1e6);
}

static void top_bytes(uint64_t now, uint64_t before, double s, char text[16])
{
	format_size(s > 0 && now >= before ? (uint64_t)((double)(now - before) / s) : 0, text);
}

/* The bound that this share (in 1/1000) of the reads since the look before stayed below. */
static void top_quantile(const struct top_ns *n, const struct top_ns *b, unsigned of_1000,
			 char text[16])
{
	uint64_t nr = 0, below = 0;
	double ns = TOP_LEAST_NS;
	unsigned i = 0;

	for (unsigned k = 0; k < TOP_BUCKETS; k++)
		nr += n->times[k] - b->times[k];
	if (!nr || nr > UINT64_MAX / 2000) { /* another daemon's, perhaps */
		strcpy(text, "-");
		return;
	}
	for (; i < TOP_BUCKETS; i++, ns *= 2) {
		below += n->times[i] - b->times[i];
		if (below * 1000 >= nr * of_1000)
			break;
	}
	if (ns < 1e3)
		snprintf(text, 16, "%.0fns", ns);
	else if (ns < 1e6)
		snprintf(text, 16, ns < 1e4 ? "%.1fus" : "%.0fus", ns / 1e3);
	else
		snprintf(text, 16, ns < 1e7 ? "%.1fms" : "%.0fms", ns / 1e6);
}

static void top_ns_line(struct top *t, const json_t *ns, const struct top_ns *n, double s)
{
	const struct top_ns *b = top_find(t, n->nsid);
	uint64_t hits = n->hits - b->hits, misses = n->misses - b->misses;
	uint64_t capacity = top_int(ns, "capacity_bytes");
	char reads[16], writes[16], out[16], in[16], p50[16], p99[16], rate[16] = "-";

	top_rate(n->reads, b->reads, s, reads);
	top_rate(n->writes, b->writes, s, writes);
	top_bytes(n->out, b->out, s, out);
	top_bytes(n->in, b->in, s, in);
	top_quantile(n, b, 500, p50);
	top_quantile(n, b, 990, p99);
	if (hits + misses && hits + misses < UINT64_MAX / 2)
		snprintf(rate, sizeof(rate), "%.1f%%",
			 100.0 * (double)hits / (double)(hits + misses));
	top_put(t, "%4llu %-11.11s %7s %7s %9s %9s %6s %4.0f%% %6s %6s",
		(unsigned long long)n->nsid, json_string_value(json_object_get(ns, "name")), reads,
		writes, out, in, rate,
		100.0 * (double)top_int(ns, "used_bytes") / (double)(capacity + !capacity), p50,
		p99);
}

static void top_tier_lines(struct top *t, const json_t *ns)
{
	const json_t *tier, *part;
	size_t i, k;

	json_array_foreach(json_object_get(ns, "tiers"), i, tier)
	{
		char used[16], values[16], text[CLI_SSD_BYTES];

		format_size(top_int(tier, "used_bytes"), used);
		format_size(top_int(tier, "value_bytes"), values);
		top_put(t, "     %zu %-9.9s %llu keys, %s of values in %s, %llu evicted%s", i,
			json_string_value(json_object_get(tier, "name")),
			(unsigned long long)top_int(tier, "keys"), values, used,
			(unsigned long long)top_int(tier, "evictions"),
			top_int(tier, "bad_seals") ? ", WRONG BYTES CAUGHT" : "");
		if (cli_ssd_tier(tier, text))
			top_put(t, "        %s", text);
		json_array_foreach(json_object_get(tier, "devices"), k, part)
		{
			cli_ssd_part(part, text);
			top_put(t, "        %s", text);
		}
	}
}

static void top_device_lines(struct top *t, const json_t *st)
{
	const json_t *device;
	char text[CLI_SSD_BYTES];
	size_t i;

	json_array_foreach(json_object_get(st, "devices"), i, device)
	{
		cli_ssd_device(device, text);
		top_put(t, "ssd   %s", text);
	}
}

static void top_show(struct top *t, const json_t *st)
{
	const json_t *ns, *list = json_object_get(st, "namespaces");
	uint64_t now = mono_ns();
	double s = t->at_ns ? (double)(now - t->at_ns) / 1e9 : 0;
	struct top_ns seen[TOP_NS_MAX];
	unsigned nr = 0;
	size_t i;

	t->line = t->nr_hidden = 0;
	top_put(t, "peald up %.0f s, %llu clients, %llu queues, %llu media errors",
		json_real_value(json_object_get(st, "uptime_seconds")),
		(unsigned long long)top_int(st, "clients"),
		(unsigned long long)top_int(st, "queues"),
		(unsigned long long)top_int(st, "media_errors"));
	top_put(t, "%4s %-11s %7s %7s %9s %9s %6s %5s %6s %6s", "nsid", "name", "reads/s", "writes",
		"out/s", "in/s", "hits", "used", "p50<", "p99<");
	json_array_foreach(list, i, ns)
	{
		if (nr == TOP_NS_MAX)
			break;
		seen[nr] = top_read(ns);
		top_ns_line(t, ns, &seen[nr++], s);
		top_tier_lines(t, ns);
	}
	top_device_lines(t, st);
	if (t->nr_hidden)
		mvprintw(LINES - 1, 0, "%d more lines: a larger window, or --plain", t->nr_hidden);
	memcpy(t->before, seen, nr * sizeof(seen[0]));
	t->nr = nr;
	t->at_ns = now;
}

/* True: it was told to end. */
static bool top_wait(struct top *t)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	int key;

	if (!t->is_screen) {
		fflush(stdout);
		poll(NULL, 0, (int)(t->o.seconds * 1000));
		return ferror(stdout);
	}
	refresh();
	poll(&p, 1, (int)(t->o.seconds * 1000));
	/* Also when nothing was typed: it is here that curses hears of another size. */
	key = getch();
	return key == 'q' || key == 27 || (p.revents & POLLHUP);
}

static void top_end(struct top *t)
{
	if (t->is_screen && !isendwin() && stdscr)
		endwin();
	t->is_screen = false;
}

static int top_loop(struct top *t, struct cli_rpc *r)
{
	int rc;

	for (uint64_t i = 0; !t->o.count || i < t->o.count; i++) {
		bool is_error = true;
		json_t *st;

		if (i && top_wait(t))
			break;
		st = cli_rpc_call(r, "stats", NULL, TOP_TIMEOUT_MS, &is_error);
		if (!st || is_error) {
			top_end(t);
			rc = cli_rpc_failed("top", r, st);
			json_decref(st);
			return rc;
		}
		if (t->is_screen)
			erase();
		top_show(t, st);
		json_decref(st);
	}
	return 0;
}

static int top_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = top_options,
		.parser = top_parse_opt,
		.doc = "What the daemon does now: rates of each namespace, hits, room of each "
		       "tier. On a "
		       "terminal a screen that q ends, else lines.",
	};
	struct top t = {.o = {.seconds = 1}};
	struct cli_rpc r;
	int rc;

	cli_parse(&argp, c, argc, argv, &t.o);
	if (cli_rpc_open(c, &r)) {
		rc = cli_rpc_failed("top", &r, NULL);
		cli_rpc_close(&r);
		return rc;
	}
	t.is_screen = !t.o.is_plain && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	/* newterm() gives up where initscr() would end the program: lines do. */
	if (t.is_screen && !newterm(NULL, stdout, stdin))
		t.is_screen = false;
	if (t.is_screen) {
		cbreak();
		noecho();
		nodelay(stdscr, TRUE);
		curs_set(0);
	}
	rc = top_loop(&t, &r);
	top_end(&t);
	cli_rpc_close(&r);
	return rc;
}

const struct cli_cmd cmd_top = {"top", "", "what the daemon does now", top_run};
