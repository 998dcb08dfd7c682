/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole daemon with four reactors on threads of their own, and four client threads in the same
 * process, over the real vfio-user transport: libpeal at one end, peald's node at the other, shared
 * memory mapped once for both (one_map.c), so that ThreadSanitizer sees all of it.
 *
 * Each thread has keys of its own, which it overwrites and must read back as last written or miss,
 * and keys that all share, whose bytes follow from the key. The tier holds a part of it all, so
 * values are evicted under readers. Handles come and go, one is used by all threads; and a visitor
 * connects again and again who says nothing that makes sense.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/container.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rng.h"
#include "mem/mem.h"
#include "one_map.h"
#include "peal/peal.h"
#include "peald/peald_node.h"

#define NR_CLIENTS 4u
#define NR_OWN 24u
#define NR_SHARED 40u
#define VALUE_MAX (300u << 10)

struct world {
	struct peald_node *node;
	char dir[64], uri[96];
	struct peal *common; /* a handle that all threads use */
	uint64_t seed;
	unsigned nr_sessions, nr_ops, nr_visits;
};

struct client {
	struct world *w;
	unsigned id;
	pthread_t thread;
	struct rng rng;
	struct peal *p;
	uint32_t ver[NR_OWN]; /* last one acknowledged, 0 = none */
	uint32_t next_ver;
	uint8_t *v, *got;
	uint64_t nr_hits, nr_misses;
};

static uint32_t len_of(uint64_t seed)
{
	uint64_t x = seed, r = rng_splitmix(&x);

	return 1 + (uint32_t)(r % (r >> 61 ? 9000 : VALUE_MAX));
}

static void fill(uint8_t *v, uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed);
	rng_fill(&r, v, len_of(seed));
}

struct key {
	struct peal_key k;
	uint64_t seed; /* of its value now; 0 = there is none */
	unsigned own;  /* NR_OWN: a shared one */
};

static struct key key_own(struct client *c, unsigned i)
{
	char text[17];
	struct key k = {.own = i};

	if (c->ver[i])
		k.seed = c->w->seed + (1 + c->id * 1000003ull + i * 7919ull) * 65537 + c->ver[i];
	snprintf(text, sizeof(text), "own-%u-%u", c->id, i);
	k.k = peal_key_bytes(text, strlen(text));
	return k;
}

static struct key key_shared(struct client *c, unsigned i)
{
	struct key k = {.own = NR_OWN, .seed = ~c->w->seed ^ (i + 1) * 0x10001ull};
	char text[17];

	snprintf(text, sizeof(text), "all-%u", i);
	k.k = peal_key_bytes(text, strlen(text));
	return k;
}

static struct key key_any(struct client *c)
{
	if (rng_chance(&c->rng, 1, 2))
		return key_own(c, (unsigned)rng_below(&c->rng, NR_OWN));
	return key_shared(c, (unsigned)rng_below(&c->rng, NR_SHARED));
}

/* Its own handle, or the one of all. */
static struct peal *handle(struct client *c)
{
	return rng_chance(&c->rng, 1, 4) ? c->w->common : c->p;
}

/* cmocka's own failures belong to the thread that runs the test. */
__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

static void expect(struct client *c, int err, int also)
{
	if (err < 0 && err != also)
		die("client %u: %s (%d)", c->id, peal_errmsg(), err);
}

/* ---- what a client does ---- */

static void do_put(struct client *c, struct key *k)
{
	uint32_t old = 0;
	int err;

	if (k->own < NR_OWN) {
		old = c->ver[k->own];
		c->ver[k->own] = ++c->next_ver;
		*k = key_own(c, k->own);
	}
	fill(c->v, k->seed);
	err = peal_put(handle(c), &k->k, c->v, len_of(k->seed), NULL);
	/* Everything may be pinned by others' leases at the moment. The old value stays then. */
	expect(c, err, -ENOSPC);
	if (err && k->own < NR_OWN)
		c->ver[k->own] = old;
}

static void hit_or_miss(struct client *c, const struct key *k, ssize_t n)
{
	if (n < 0) {
		expect(c, (int)n, -ENOENT);
		c->nr_misses++;
		return;
	}
	if (!k->seed)
		die("client %u: a value that nobody put", c->id);
	must(n == len_of(k->seed));
	fill(c->v, k->seed);
	if (memcmp(c->v, c->got, (size_t)n))
		die("client %u: wrong bytes", c->id);
	c->nr_hits++;
}

static void do_get(struct client *c, struct key *k)
{
	hit_or_miss(c, k, peal_get(handle(c), &k->k, c->got, VALUE_MAX, NULL));
}

static void do_lease(struct client *c, struct key *k)
{
	struct peal *p = handle(c);
	struct peal_lease *l;
	int err = peal_lease(p, &k->k, 20000, &l);
	ssize_t n;

	if (err) {
		if (err != -EAGAIN)
			hit_or_miss(c, k, err);
		return;
	}
	n = peal_lease_read(p, l, 0, c->got, l->value_bytes);
	must(n == (ssize_t)l->value_bytes);
	hit_or_miss(c, k, n);
	expect(c, peal_release(p, l), 0);
}

static void do_del(struct client *c, struct key *k)
{
	expect(c, peal_del(handle(c), &k->k, NULL), -ENOENT);
	if (k->own < NR_OWN)
		c->ver[k->own] = 0;
}

static void do_look(struct client *c, struct key *k)
{
	struct peal_key keys[64];
	size_t in_memory;
	ssize_t n;

	expect(c, peal_exist(handle(c), &k->k, NULL), -ENOENT);
	for (unsigned i = 0; i < NR_SHARED; i++)
		keys[i] = key_shared(c, i).k;
	n = peal_match(handle(c), keys, NR_SHARED, &in_memory, NULL);
	expect(c, (int)n, 0);
	must((size_t)n <= NR_SHARED && in_memory <= (size_t)n);
	n = peal_list(handle(c), NULL, keys, 64, NULL);
	expect(c, (int)n, 0);
	must(n <= 64);
}

#define NR_WAVE 16u
#define WAVE_ROOM 65536u

/* A wave of direct requests on registered memory, and the handle's queue is closed behind it. */
static void do_wave(struct client *c, struct key *unused)
{
	struct peal_req req[NR_WAVE] = {0}, *reqs[NR_WAVE], *done[NR_WAVE];
	struct key keys[NR_WAVE];
	struct peal_queue *q;
	struct peal_mem *m;
	unsigned nr = 0;
	int n;

	expect(c, peal_mem_alloc(c->p, NR_WAVE * WAVE_ROOM, &m), 0);
	expect(c, peal_queue_open(c->p, NR_WAVE, &q), 0);
	for (unsigned i = 0; i < NR_WAVE; i++) {
		reqs[i] = &req[i];
		keys[i] = key_shared(c, (unsigned)rng_below(&c->rng, NR_SHARED));
		req[i].op = PEAL_REQ_GET;
		req[i].flags = PEAL_DIRECT;
		req[i].key = keys[i].k;
		req[i].buf = (uint8_t *)peal_mem_ptr(m) + i * WAVE_ROOM;
		req[i].bytes = WAVE_ROOM;
	}
	n = peal_submit(q, reqs, NR_WAVE);
	must(n == NR_WAVE);
	while (nr < NR_WAVE) {
		n = peal_reap(q, done, NR_WAVE, 10000);
		must(n > 0);
		nr += (unsigned)n;
	}
	for (unsigned i = 0; i < NR_WAVE; i++) {
		if (req[i].res == -ENOENT)
			continue;
		if (req[i].res != (len_of(keys[i].seed) > WAVE_ROOM ? -EMSGSIZE : 0))
			die("client %u: direct get: %d", c->id, req[i].res);
		must(req[i].value_bytes == len_of(keys[i].seed));
		fill(c->v, keys[i].seed);
		if (!req[i].res)
			must(!memcmp(req[i].buf, c->v, req[i].value_bytes));
	}
	peal_queue_close(q);
	expect(c, peal_mem_free(c->p, m), 0);
}

static void (*const verbs[])(struct client *c, struct key *k) = {
	do_put, do_put, do_put, do_put,	  do_get,   do_get,  do_get,  do_get,
	do_get, do_get, do_del, do_lease, do_lease, do_look, do_wave,
};

static void *client_run(void *arg)
{
	struct client *c = arg;
	struct key k;

	unit_thread_begin();
	for (unsigned s = 0; s < c->w->nr_sessions; s++) {
		expect(c, peal_open(c->w->uri, &(struct peal_opts){.timeout_ms = 60000}, &c->p), 0);
		for (unsigned i = 0; i < c->w->nr_ops; i++) {
			k = key_any(c);
			verbs[rng_below(&c->rng, sizeof(verbs) / sizeof(verbs[0]))](c, &k);
		}
		peal_close(c->p);
	}
	return NULL;
}

/* Connects, says something or nothing, is gone. */
static void *visitor_run(void *arg)
{
	struct world *w = arg;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	uint8_t junk[64];
	struct rng rng;
	int fd;

	unit_thread_begin();
	rng_init(&rng, w->seed + 99);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/cntrl", w->dir);
	for (unsigned i = 0; i < w->nr_visits; i++) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at)));
		rng_fill(&rng, junk, sizeof(junk));
		/* Half of them the head of a VERSION message, as far as it goes. */
		if (rng_chance(&rng, 1, 2))
			memcpy(junk, "\1\0\1\0\100\0\0\0\0\0\0\0\0\0\0\0", 16);
		(void)!send(fd, junk, rng_below(&rng, sizeof(junk) + 1), MSG_NOSIGNAL);
		if (rng_chance(&rng, 1, 2)) { /* until the door is shut */
			shutdown(fd, SHUT_WR);
			while (recv(fd, junk, sizeof(junk), 0) > 0)
				;
		}
		close(fd);
	}
	return NULL;
}

static void client_init(struct client *c, struct world *w, unsigned id)
{
	c->w = w;
	c->id = id;
	rng_init(&c->rng, w->seed + id);
	c->v = malloc(VALUE_MAX);
	c->got = malloc(VALUE_MAX);
	must(c->v && c->got);
}

static void test_clients(void **state)
{
	struct world *w = *state;
	struct client c[NR_CLIENTS] = {0};
	struct peal_opts o = {.timeout_ms = 60000};
	uint64_t hits = 0, misses = 0;
	pthread_t visitor;

	assert_int_equal(pthread_create(&visitor, NULL, visitor_run, w), 0);
	assert_int_equal(peal_open(w->uri, &o, &w->common), 0);
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		client_init(&c[i], w, i);
		assert_int_equal(pthread_create(&c[i].thread, NULL, client_run, &c[i]), 0);
	}
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		pthread_join(c[i].thread, NULL);
		hits += c[i].nr_hits;
		misses += c[i].nr_misses;
		free(c[i].v);
		free(c[i].got);
	}
	pthread_join(visitor, NULL);
	peal_close(w->common);
	printf("%llu hits, %llu misses\n", (unsigned long long)hits, (unsigned long long)misses);
	assert_true(hits > 0);
	assert_true(one_map_nr_shared > 10 * NR_CLIENTS);
}

static int setup(void **state)
{
	static struct world w;
	static struct conf o = {
		.dram_bytes = 24u << 20,
		.nr_reactors = 4,
		.nr_ns = 1,
		.ns = {{.name = "kv", .bytes = 24u << 20}},
	};

	snprintf(w.dir, sizeof(w.dir), "/tmp/peal-threads-XXXXXX");
	if (!mkdtemp(w.dir))
		return -1;
	snprintf(o.vfu.dir, sizeof(o.vfu.dir), "%s", w.dir);
	snprintf(w.uri, sizeof(w.uri), "vfu:%s", w.dir);
	w.seed = unit_seed(1);
	w.nr_sessions = 5;
	w.nr_ops = 200;
	w.nr_visits = 60;
	log_set_level(LOG_LEVEL_WARN);
	/* cmocka's own handlers came after those of the node: see mem.h. */
	if (mem_guard_init() || peald_node_create(&o, &w.node) || peald_node_start(w.node))
		return -1;
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	peald_node_stop(w->node);
	peald_node_destroy(w->node);
	return rmdir(w->dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_clients, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
