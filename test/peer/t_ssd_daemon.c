/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real peald ($PEALD) with an SSD tier on a real file system: it is stopped, killed in the middle
 * of its work, started again, and what it then has is what was put, byte for byte, with another
 * number of reactors, too. Two daemons on one folder: refused.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/container.h"
#include "base/must.h"
#include "base/rng.h"
#include "peal/peal.h"

#define NR_KEYS 240u
#define VALUE_MAX (400u << 10)
#define NR_KILLS 6u /* of one file: each takes two segments, and evicted would look like lost */

struct rig {
	char dir[64], sock[64], uri[96], conf[128];
	pid_t daemon;
	FILE *log;
	char line[1024]; /* the last of the log */
	struct peal *p;
	uint8_t *v, *got;
};

/* Bytes and length of a key's value in its n-th generation. */
static size_t make(uint8_t *v, uint64_t i, uint64_t gen)
{
	size_t len = 1000 + (i * 7919 + gen * 104729) % (VALUE_MAX - 1000);
	struct rng r;

	rng_init(&r, i * 1000003 + gen);
	rng_fill(&r, v, len);
	return len;
}

static struct peal_key key(uint64_t i)
{
	return peal_key_bytes(&i, sizeof(i));
}

static bool log_until(struct rig *r, const char *what)
{
	while (fgets(r->line, sizeof(r->line), r->log))
		if (strstr(r->line, what))
			return true;
	return false;
}

static void launch(struct rig *r, const char *reactors)
{
	int ends[2];

	must(!pipe2(ends, O_CLOEXEC));
	r->daemon = fork();
	if (r->daemon == 0) {
		dup2(ends[1], 2);
		execl(getenv("PEALD"), "peald", "--dir", r->sock, "--config", r->conf, "--reactors",
		      reactors, NULL);
		_exit(127);
	}
	close(ends[1]);
	r->log = fdopen(ends[0], "r");
	must(r->log);
}

/* What its files hold is known, too: until then a miss says nothing. */
static void start_with(struct rig *r, const char *reactors)
{
	bool listens = false, knows = false;

	launch(r, reactors);
	while ((!listens || !knows) && fgets(r->line, sizeof(r->line), r->log)) {
		listens |= strstr(r->line, "listening on") != NULL;
		knows |= strstr(r->line, "SSD tier is known") != NULL;
	}
	if (!listens || !knows)
		fail_msg("peald did not start; its last line: %s", r->line);
	assert_int_equal(peal_open(r->uri, NULL, &r->p), 0);
}

static void start(struct rig *r)
{
	start_with(r, "2");
}

static void stop(struct rig *r, int sig)
{
	int status;

	peal_close(r->p);
	r->p = NULL;
	kill(r->daemon, sig);
	must(waitpid(r->daemon, &status, 0) == r->daemon);
	if (sig == SIGTERM)
		assert_int_equal(status, 0);
	fclose(r->log);
}

static int set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	const char *rw = *state ? "no" : "yes";
	FILE *f;

	must(r && getenv("PEALD"));
	snprintf(r->dir, sizeof(r->dir), "t_ssd_daemon.XXXXXX");
	snprintf(r->sock, sizeof(r->sock), "/tmp/peal-ssd-XXXXXX");
	must(mkdtemp(r->dir) && mkdtemp(r->sock));
	snprintf(r->uri, sizeof(r->uri), "vfu:%s", r->sock);
	snprintf(r->conf, sizeof(r->conf), "%s/peald.yaml", r->dir);
	f = fopen(r->conf, "w");
	must(f);
	fprintf(f,
		"namespaces:\n- name: kv\n  tiers: dram 24M | ssd %s/data 256M\n"
		"  immutable: %s\n  value_max: 1M\n",
		r->dir, rw);
	fclose(f);
	r->v = malloc(VALUE_MAX);
	r->got = malloc(VALUE_MAX);
	must(r->v && r->got);
	*state = r;
	return 0;
}

static int set_up_rw(void **state)
{
	*state = (void *)1;
	return set_up(state);
}

static int tear_down(void **state)
{
	struct rig *r = *state;
	char path[192];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/data/kv.%u.peal", r->dir, i);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/data", r->dir);
	rmdir(path);
	unlink(r->conf);
	/* A daemon that was killed leaves its sockets. */
	snprintf(path, sizeof(path), "%s/cntrl", r->sock);
	unlink(path);
	snprintf(path, sizeof(path), "%s/rpc", r->sock);
	unlink(path);
	rmdir(r->sock);
	rmdir(r->dir);
	free(r->v);
	free(r->got);
	free(r);
	return 0;
}

static void put(struct rig *r, uint64_t i, uint64_t gen)
{
	struct peal_key k = key(i);
	size_t len = make(r->v, i, gen);

	assert_int_equal(peal_put(r->p, &k, r->v, len, NULL), 0);
}

/* Is generation gen of the key there? Anything else that is there is wrong. */
static bool is_there(struct rig *r, uint64_t i, uint64_t gen)
{
	struct peal_key k = key(i);
	ssize_t n = peal_get(r->p, &k, r->got, VALUE_MAX, NULL);

	if (n == -ENOENT)
		return false;
	assert_int_equal(n, make(r->v, i, gen));
	assert_memory_equal(r->got, r->v, (size_t)n);
	return true;
}

static unsigned nr_there(struct rig *r, uint64_t from, uint64_t to, uint64_t gen)
{
	unsigned nr = 0;

	for (uint64_t i = from; i < to; i++)
		nr += is_there(r, i, gen);
	return nr;
}

/* What lies below memory is present, too. */
static unsigned nr_matched(struct rig *r)
{
	struct peal_key keys[NR_KEYS];
	size_t in_memory = 0;
	ssize_t n;

	for (uint64_t i = 0; i < NR_KEYS; i++)
		keys[i] = key(i);
	n = peal_match(r->p, keys, NR_KEYS, &in_memory, NULL);
	assert_true(n >= 0 && in_memory < NR_KEYS);
	return (unsigned)n;
}

/* More than memory holds: what isn't there comes from the SSD, also after a stop. */
static void clean_stop(void **state)
{
	struct rig *r = *state;

	start(r);
	for (uint64_t i = 0; i < NR_KEYS; i++)
		put(r, i, 1);
	assert_int_equal(nr_there(r, 0, NR_KEYS, 1), NR_KEYS);
	assert_int_equal(nr_matched(r), NR_KEYS);
	stop(r, SIGTERM);
	start(r);
	assert_int_equal(nr_matched(r), NR_KEYS);
	assert_int_equal(nr_there(r, 0, NR_KEYS, 1), NR_KEYS);
	stop(r, SIGTERM);
}

static bool is_in_memory(struct rig *r, uint64_t i)
{
	struct peal_key k = key(i);
	size_t in_memory = 0;

	assert_int_equal(peal_match(r->p, &k, 1, &in_memory, NULL), 1);
	return in_memory;
}

/* What is on the SSD after a start comes up on a word, and goes down on one. */
static void hints(void **state)
{
	struct rig *r = *state;
	struct peal_hint h[8];
	unsigned nr = 0;

	start(r);
	for (uint64_t i = 0; i < ARRAY_SIZE(h); i++)
		put(r, i, 1);
	stop(r, SIGTERM);
	start(r);
	for (uint64_t i = 0; i < ARRAY_SIZE(h); i++)
		h[i] = (struct peal_hint){.key = key(i), .say = PEAL_SAY_PREFETCH, .ms = 30000};
	assert_int_equal(peal_hint(r->p, h, ARRAY_SIZE(h), NULL), ARRAY_SIZE(h));
	while (nr < ARRAY_SIZE(h))
		nr += is_in_memory(r, nr);
	for (uint64_t i = 0; i < ARRAY_SIZE(h); i++)
		h[i].say = PEAL_SAY_PIN;
	assert_int_equal(peal_hint(r->p, h, ARRAY_SIZE(h), NULL), ARRAY_SIZE(h));
	for (uint64_t i = 0; i < ARRAY_SIZE(h); i++)
		h[i].say = i % 2 ? PEAL_SAY_UNPIN : PEAL_SAY_DEMOTE;
	/* One that is pinned doesn't go. */
	assert_int_equal(peal_hint(r->p, h, ARRAY_SIZE(h), NULL), ARRAY_SIZE(h) / 2);
	for (uint64_t i = 0; i < ARRAY_SIZE(h); i++)
		h[i].say = PEAL_SAY_DEMOTE;
	assert_int_equal(peal_hint(r->p, h, ARRAY_SIZE(h), NULL), ARRAY_SIZE(h) / 2);
	assert_int_equal(nr_there(r, 0, ARRAY_SIZE(h), 1), ARRAY_SIZE(h));
	stop(r, SIGTERM);
}

static void killed(void **state)
{
	struct rig *r = *state;
	unsigned nr;

	start(r);
	for (uint64_t i = 0; i < NR_KEYS / 2; i++)
		put(r, i, 1);
	assert_int_equal(peal_flush(r->p, NULL), 0);
	for (uint64_t i = NR_KEYS / 2; i < NR_KEYS; i++)
		put(r, i, 1);
	stop(r, SIGKILL);
	start(r);
	/* What was flushed is there; of the rest, what memory had to give up before. */
	assert_int_equal(nr_there(r, 0, NR_KEYS / 2, 1), NR_KEYS / 2);
	nr = nr_there(r, NR_KEYS / 2, NR_KEYS, 1);
	print_message("of %u values put after the flush %u were on the SSD\n", NR_KEYS / 2, nr);
	stop(r, SIGTERM);
}

/* Values change: after a kill it is the newest, or none; what was deleted stays so. */
static void killed_rw(void **state)
{
	struct rig *r = *state;
	struct peal_key k;

	start(r);
	for (uint64_t i = 0; i < NR_KEYS; i++)
		put(r, i, 1);
	assert_int_equal(peal_flush(r->p, NULL), 0);
	for (uint64_t i = 0; i < 40; i++)
		put(r, i, 2);
	for (uint64_t i = 40; i < 60; i++) {
		k = key(i);
		assert_int_equal(peal_del(r->p, &k, NULL), 0);
	}
	stop(r, SIGKILL);
	start(r);
	nr_there(r, 0, 40, 2);
	assert_int_equal(nr_there(r, 40, 60, 1), 0);
	assert_int_equal(nr_there(r, 60, NR_KEYS, 1), NR_KEYS - 60);
	for (uint64_t i = 0; i < 60; i++)
		put(r, i, 3);
	stop(r, SIGTERM);
	start(r);
	assert_int_equal(nr_there(r, 0, 60, 3), 60);
	stop(r, SIGTERM);
}

/* Generations of each key, acknowledged and begun; 0: none. */
struct load {
	uint64_t acked[NR_KEYS], begun[NR_KEYS], flushed[NR_KEYS];
};

static void load_run(struct rig *r, struct load *l, struct rng *rng)
{
	unsigned nr = 20 + (unsigned)rng_below(rng, 200);

	for (unsigned n = 0; n < nr; n++) {
		uint64_t i = rng_below(rng, NR_KEYS);

		if (n == nr / 2) {
			assert_int_equal(peal_flush(r->p, NULL), 0);
			memcpy(l->flushed, l->acked, sizeof(l->acked));
		}
		l->begun[i]++;
		put(r, i, l->begun[i]);
		l->acked[i] = l->begun[i];
	}
}

static void load_check(struct rig *r, struct load *l)
{
	unsigned nr_must = 0, nr_hit = 0;

	for (uint64_t i = 0; i < NR_KEYS; i++) {
		bool must_be = l->flushed[i] && l->flushed[i] == l->acked[i];
		bool is = is_there(r, i, l->acked[i]);

		nr_must += must_be;
		nr_hit += is;
		assert_true(is || !must_be);
		/* What is gone is gone: only a newer generation may come. */
		if (!is)
			l->flushed[i] = l->acked[i] = 0;
	}
	print_message("  %u keys there, %u had to be\n", nr_hit, nr_must);
}

static void killed_under_load(void **state)
{
	struct rig *r = *state;
	static unsigned nr_files;
	struct load *l = calloc(1, sizeof(*l));
	struct rng rng;

	must(l);
	rng_init(&rng, unit_seed(7) + nr_files++);
	for (unsigned n = 0; n < NR_KILLS; n++) {
		start(r);
		load_check(r, l);
		load_run(r, l, &rng);
		stop(r, SIGKILL);
	}
	start(r);
	load_check(r, l);
	stop(r, SIGTERM);
	free(l);
}

/* A daemon that must not start says why. */
static void refused(struct rig *r, const char *reactors, const char *why)
{
	struct rig other = *r;
	int status;

	snprintf(other.sock, sizeof(other.sock), "/tmp/peal-ssd-XXXXXX");
	must(mkdtemp(other.sock));
	launch(&other, reactors);
	assert_true(log_until(&other, why));
	assert_false(log_until(&other, "listening on"));
	must(waitpid(other.daemon, &status, 0) == other.daemon);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	fclose(other.log);
	rmdir(other.sock);
}

static void owners(void **state)
{
	struct rig *r = *state;

	start(r);
	put(r, 1, 1);
	refused(r, "2", "another daemon");
	assert_true(is_there(r, 1, 1));
	stop(r, SIGTERM);
}

/* The files stay cut as they are: one reactor has both shards, of three one has none. */
static void reactors(void **state)
{
	static const char *const nr[] = {"1", "3", "2", "4"};
	struct rig *r = *state;

	start(r);
	for (uint64_t i = 0; i < 40; i++)
		put(r, i, 1);
	for (unsigned n = 0; n < ARRAY_SIZE(nr); n++) {
		stop(r, n % 2 ? SIGKILL : SIGTERM);
		start_with(r, nr[n]);
		for (uint64_t i = 0; i < 40; i++)
			assert_true(is_there(r, i, 1));
		for (uint64_t i = 0; i < 40; i++)
			put(r, 1000 * (n + 1) + i, 2);
		for (uint64_t i = 0; i < 40; i++)
			assert_true(is_there(r, 1000 * (n + 1) + i, 2));
	}
	stop(r, SIGTERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(clean_stop, set_up, tear_down),
		cmocka_unit_test_setup_teardown(hints, set_up, tear_down),
		cmocka_unit_test_setup_teardown(killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(killed_rw, set_up_rw, tear_down),
		cmocka_unit_test_setup_teardown(killed_under_load, set_up_rw, tear_down),
		cmocka_unit_test_setup_teardown(killed_under_load, set_up_rw, tear_down),
		cmocka_unit_test_setup_teardown(owners, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reactors, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
