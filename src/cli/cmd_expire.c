/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal expire: removes what has lain in a RADOS namespace for longer than it should, at a bounded
 * rate, since peald itself evicts nothing there. It asks the cluster, not a daemon: one machine
 * does it for all. Only names that are keys are looked at, and a value that was put again between
 * the look and the removal stays: the removal asserts the version that was looked at. An object
 * without peal.head is somebody else's, and stays unless told otherwise.
 *
 * The pool is read in as many parts as it has placement groups, so that one which nobody serves
 * costs its own part. What time it is two clocks say, ours and the monitors', and the earlier one
 * counts: when either is ahead, nothing goes that the other believes to be young. An object's time
 * is its writer's, which nothing here can check.
 */
/* tidy: no-test: it takes a cluster, test/ceph/test_expire.py */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mono.h"
#include "base/parse.h"
#include "cli/ceph_api.h"
#include "cli/cli.h"
#include "store/rados/ceph_obj.h"

#define EXPIRE_WAIT_S 30u /* of each question to the cluster */
#define EXPIRE_RATE 200u
#define EXPIRE_PAGE 256u
#define EXPIRE_PARTS_MAX (1u << 17)
#define EXPIRE_SILENT_MAX 20u /* parts in a row: nobody answers at all */
#define EXPIRE_CLOCKS_S 60
#define EXPIRE_FULL_TRY 64 /* LIBRADOS_OPERATION_FULL_TRY: else librados waits for room */
#define EXPIRE_AGE_MAX (100ull * 365 * 86400)

struct expire {
	struct ceph_words words;
	uint64_t age_s, rate;
	bool is_dry, takes_raw;
	/* running */
	void *cluster, *io;
	time_t now; /* when it began: what comes later is younger */
	uint64_t nr_parts, nr_silent;
	uint64_t next_ns;
	uint64_t nr_looked, nr_removed, nr_bytes, nr_younger, nr_changed, nr_raw;
};

enum {
	EXPIRE_OLDER = 'o',
	EXPIRE_RATE_KEY = 'R',
	EXPIRE_RADOS = 'r',
	EXPIRE_DRY = 'd',
	EXPIRE_RAW = 'w'
};

static const struct argp_option expire_options[] = {
	{"rados", EXPIRE_RADOS, "TIER", 0, "Where, pool= and ns= at least: " CEPH_WORDS_EXPECTED,
	 0},
	{"older", EXPIRE_OLDER, "AGE", 0, "Than that, since it was written: 45s, 30m, 12h, 30d, 8w",
	 0},
	{"rate", EXPIRE_RATE_KEY, "N", 0,
	 "Questions and removals a second, 1 to 100000 (default 200)", 0},
	{"raw", EXPIRE_RAW, NULL, 0, "Also objects that no peald has written", 0},
	{"dry-run", EXPIRE_DRY, NULL, 0, "Counts what would go", 0},
	{0},
};

/* Seconds; 0: it isn't an age. */
static uint64_t expire_age(const char *text)
{
	static const char units[] = "smhdw";
	static const uint64_t seconds[] = {1, 60, 3600, 86400, 7 * 86400};
	char number[16];
	size_t n = strlen(text);
	const char *unit = n ? strchr(units, text[n - 1]) : NULL;
	uint64_t v;

	if (!unit || n > sizeof(number))
		return 0;
	memcpy(number, text, n - 1);
	number[n - 1] = 0;
	if (parse_u64(number, &v) || v > EXPIRE_AGE_MAX / seconds[unit - units])
		return 0;
	return v * seconds[unit - units];
}

static error_t expire_option(int key, char *arg, struct argp_state *state)
{
	struct expire *e = state->input;

	switch (key) {
	case EXPIRE_RADOS:
		if (ceph_words_parse(&e->words, arg) || !e->words.ns[0])
			argp_error(
				state,
				"'%s' is not good, expected pool= and ns= of " CEPH_WORDS_EXPECTED,
				arg);
		return 0;
	case EXPIRE_OLDER:
		e->age_s = expire_age(arg);
		if (!e->age_s)
			argp_error(state, "--older is '%s', expected an age such as 12h or 30d",
				   arg);
		return 0;
	case EXPIRE_RATE_KEY:
		e->rate = cli_number("--rate", arg, 1, 100000);
		return 0;
	case EXPIRE_RAW:
		e->takes_raw = true;
		return 0;
	case EXPIRE_DRY:
		e->is_dry = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much, expected options only", arg);
		return 0;
	case ARGP_KEY_END:
		if (!e->words.pool[0] || !e->age_s)
			argp_error(state, "--rados and --older are missing, expected both");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Not more than so many a second, whatever the cluster could do. */
static void expire_pace(struct expire *e)
{
	uint64_t now = mono_ns();
	struct timespec ts;

	if (e->next_ns > now) {
		ts.tv_sec = (time_t)((e->next_ns - now) / 1000000000u);
		ts.tv_nsec = (long)((e->next_ns - now) % 1000000000u);
		nanosleep(&ts, NULL);
		now = e->next_ns;
	}
	e->next_ns = now + 1000000000u / e->rate;
}

static int expire_remove(struct expire *e, const char *name, uint64_t ver)
{
	void *op = ceph_api.op_create();
	int err;

	expire_pace(e);
	ceph_api.op_version(op, ver);
	ceph_api.op_remove(op);
	err = ceph_api.op_operate(op, e->io, name, NULL, EXPIRE_FULL_TRY);
	ceph_api.op_release(op);
	return err;
}

/* Is it somebody else's? A head that is too long is damaged, which is no less ours. */
static int expire_is_raw(struct expire *e, const char *name)
{
	char head[CEPH_HEAD_BYTES];
	int err;

	expire_pace(e);
	err = ceph_api.getxattr(e->io, name, CEPH_HEAD_ATTR, head, sizeof(head));
	if (err == -ENODATA)
		return 1;
	return err >= 0 || err == -ERANGE ? 0 : err;
}

/* It is old: 1 it is removed, 0 it stays. */
static int expire_old(struct expire *e, const char *name, uint64_t ver)
{
	int err = e->takes_raw ? 0 : expire_is_raw(e, name);

	if (err < 0)
		return err;
	if (err) {
		e->nr_raw++;
		return 0;
	}
	err = e->is_dry ? 0 : expire_remove(e, name, ver);
	return err ? err : 1;
}

/* 0; what isn't there any more, or has changed, is no error. */
static int expire_one(struct expire *e, const char *name)
{
	uint64_t size;
	time_t mtime;
	int err;

	expire_pace(e);
	err = ceph_api.stat(e->io, name, &size, &mtime);
	if (err)
		return err == -ENOENT ? 0 : err;
	e->nr_looked++;
	/* A clock that is ahead of ours makes it younger. */
	if (mtime > e->now || (uint64_t)(e->now - mtime) < e->age_s) {
		e->nr_younger++;
		return 0;
	}
	err = expire_old(e, name, ceph_api.io_version(e->io));
	switch (err) {
	case 0:
		return 0;
	case 1:
		e->nr_removed++;
		e->nr_bytes += size;
		return 0;
	case -ENOENT:
	case -ERANGE:
	case -EOVERFLOW:
		e->nr_changed++;
		return 0;
	default:
		return err;
	}
}

/*
 * Its names don't end with a zero, and an empty one may lie nowhere. What has a locator lies where
 * we wouldn't look.
 */
static int expire_item(struct expire *e, const struct ceph_api_item *item)
{
	char name[CEPH_NAME_BYTES];
	struct store_key key;

	if (!item->oid_length || item->oid_length >= sizeof(name) || item->locator_length ||
	    memchr(item->oid, 0, item->oid_length))
		return 0;
	memcpy(name, item->oid, item->oid_length);
	name[item->oid_length] = 0;
	return ceph_obj_key(name, &key) ? 0 : expire_one(e, name);
}

/* at: moves. */
static int expire_part(struct expire *e, void *at, void *end)
{
	struct ceph_api_item items[EXPIRE_PAGE];
	int err = 0, nr;

	while (!err && ceph_api.list_cmp(e->io, at, end) < 0) {
		nr = ceph_api.list(e->io, at, end, EXPIRE_PAGE, NULL, 0, items, &at);
		if (nr < 0)
			return nr;
		for (int i = 0; i < nr && !err; i++)
			err = expire_item(e, &items[i]);
		ceph_api.list_free((size_t)nr, items);
	}
	return err;
}

static int expire_all(struct expire *e)
{
	void *first = ceph_api.list_begin(e->io), *last = ceph_api.list_end(e->io);
	void *from = ceph_api.list_begin(e->io), *to = ceph_api.list_begin(e->io);
	unsigned nr_row = 0;
	int err = 0;

	for (uint64_t i = 0; i < e->nr_parts && !err; i++) {
		ceph_api.list_slice(e->io, first, last, i, e->nr_parts, &from, &to);
		err = expire_part(e, from, to);
		if (err != -ETIMEDOUT) {
			nr_row = 0;
			continue;
		}
		e->nr_silent++;
		if (++nr_row < EXPIRE_SILENT_MAX)
			err = 0;
	}
	ceph_api.list_cursor_free(e->io, to);
	ceph_api.list_cursor_free(e->io, from);
	ceph_api.list_cursor_free(e->io, last);
	ceph_api.list_cursor_free(e->io, first);
	return err;
}

/* ---- what the monitors are asked ------------------------------------------------------------- */

/* What stands behind `name` in the answer. */
static int expire_ask(struct expire *e, const char *ask, const char *name, char text[40])
{
	char *out = NULL, *said = NULL, *at = NULL;
	size_t out_len = 0, said_len = 0, n;
	int err = ceph_api.mon_command(e->cluster, &ask, 1, NULL, 0, &out, &out_len, &said,
				       &said_len);

	if (!err && out_len)
		at = memmem(out, out_len, name, strlen(name));
	if (at) {
		at += strlen(name);
		n = (size_t)(out + out_len - at);
		n = n < 39 ? n : 39;
		memcpy(text, at, n);
		text[n] = 0;
	}
	ceph_api.buffer_free(out);
	ceph_api.buffer_free(said);
	if (err)
		return err;
	return at ? 0 : -EPROTO;
}

/* Placement groups, up to a power of two: then each begins where a part does. */
static int expire_parts(struct expire *e)
{
	char ask[256], text[40];
	uint64_t nr;
	int err;

	snprintf(ask, sizeof(ask),
		 "{\"prefix\": \"osd pool get\", \"pool\": \"%s\", \"var\": \"pg_num\", "
		 "\"format\": \"json\"}",
		 e->words.pool);
	err = expire_ask(e, ask, "\"pg_num\":", text);
	if (err)
		return err;
	text[strspn(text, " 0123456789")] = 0;
	if (parse_u64(text + strspn(text, " "), &nr) || !nr || nr > EXPIRE_PARTS_MAX)
		return -EPROTO;
	for (e->nr_parts = 1; e->nr_parts < nr;)
		e->nr_parts *= 2;
	return 0;
}

/* "2026-11-30T22:37:17.357056+0000", in whatever zone they are. */
static int expire_mon_time(struct expire *e, time_t *out)
{
	struct tm tm = {0};
	const char *at;
	char text[40];
	long zone_s;
	int err = expire_ask(e, "{\"prefix\": \"report\", \"format\": \"json\"}",
			     "\"timestamp\":\"", text);

	if (err)
		return err;
	at = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (at && *at == '.')
		at += 1 + strspn(at + 1, "0123456789");
	if (!at || !strptime(at, "%z", &tm))
		return -EPROTO;
	zone_s = tm.tm_gmtoff;
	*out = timegm(&tm) - zone_s;
	return 0;
}

static int expire_clocks(struct expire *e)
{
	time_t ours = time(NULL), theirs;
	int err = expire_mon_time(e, &theirs);
	long long ahead_s;

	if (err)
		return err;
	ahead_s = (long long)ours - (long long)theirs;
	if (llabs(ahead_s) > EXPIRE_CLOCKS_S)
		fprintf(stderr,
			"peal: expire: this machine's clock is %lld s %s the monitors': the "
			"earlier one counts\n",
			llabs(ahead_s), ahead_s > 0 ? "ahead of" : "behind");
	e->now = ahead_s > 0 ? theirs : ours;
	return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static unsigned expire_wait_s(const struct expire *e)
{
	return e->words.timeout_s ? e->words.timeout_s : EXPIRE_WAIT_S;
}

static int expire_open(struct expire *e)
{
	char wait_s[16];
	int err;

	if (!ceph_api_load()) {
		fprintf(stderr, "peal: expire: no librados.so.2, expected it: install librados2\n");
		return -ENOSYS;
	}
	snprintf(wait_s, sizeof(wait_s), "%u", expire_wait_s(e));
	err = ceph_api_connect(&e->words, e->words.conf[0] ? e->words.conf : NULL, wait_s,
			       &e->cluster);
	if (err)
		fprintf(stderr,
			"peal: expire: client.%s can't connect: %s; `peal doctor --rados` "
			"says more\n",
			ceph_api_user(&e->words), strerror(-err));
	if (err)
		return err;
	err = expire_clocks(e);
	if (err)
		fprintf(stderr, "peal: expire: the monitors don't say what time it is: %s\n",
			strerror(-err));
	if (err)
		return err;
	err = ceph_api.io_create(e->cluster, e->words.pool, &e->io);
	if (!err) {
		ceph_api.io_space(e->io, e->words.ns);
		err = expire_parts(e);
	}
	if (err)
		fprintf(stderr, "peal: expire: pool %s: %s\n", e->words.pool, strerror(-err));
	return err;
}

static void expire_print(const struct cli *c, const struct expire *e)
{
	char size[16];

	if (c->is_json) {
		printf("{\"looked\":%llu,\"removed\":%llu,\"removed_bytes\":%llu,\"younger\":%llu,"
		       "\"changed\":%llu,\"raw\":%llu,\"unanswered\":%llu,\"dry_run\":%s}\n",
		       (unsigned long long)e->nr_looked, (unsigned long long)e->nr_removed,
		       (unsigned long long)e->nr_bytes, (unsigned long long)e->nr_younger,
		       (unsigned long long)e->nr_changed, (unsigned long long)e->nr_raw,
		       (unsigned long long)e->nr_silent, e->is_dry ? "true" : "false");
		return;
	}
	format_size(e->nr_bytes, size);
	printf("%llu values: %llu %s (%s), %llu younger, %llu changed meanwhile, %llu not of a "
	       "peald\n",
	       (unsigned long long)e->nr_looked, (unsigned long long)e->nr_removed,
	       e->is_dry ? "would go" : "removed", size, (unsigned long long)e->nr_younger,
	       (unsigned long long)e->nr_changed, (unsigned long long)e->nr_raw);
}

static void expire_say(const struct expire *e, int err)
{
	if (err)
		fprintf(stderr, "peal: expire: pool %s, namespace %s: %s, stopped\n", e->words.pool,
			e->words.ns, strerror(-err));
	if (e->nr_silent)
		fprintf(stderr,
			"peal: expire: pool %s: %llu of its %llu parts weren't answered for within "
			"%u s: what lies there stays; `ceph pg dump_stuck`\n",
			e->words.pool, (unsigned long long)e->nr_silent,
			(unsigned long long)e->nr_parts, expire_wait_s(e));
}

static int expire_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = expire_options,
		.parser = expire_option,
		.doc = "Removes values from a RADOS namespace that were written longer ago than an "
		       "age. Asks the cluster, not a daemon.",
	};
	struct expire e = {.rate = EXPIRE_RATE};
	int err;

	cli_parse(&argp, c, argc, argv, &e);
	err = expire_open(&e);
	if (!err) {
		err = expire_all(&e);
		expire_print(c, &e);
		expire_say(&e, err);
	}
	if (e.io)
		ceph_api.io_destroy(e.io);
	if (e.cluster)
		ceph_api.shutdown(e.cluster);
	return err || e.nr_silent ? CLI_ERROR : CLI_OK;
}

const struct cli_cmd cmd_expire = {"expire", "--rados TIER --older AGE",
				   "remove old values from a pool", expire_run};
