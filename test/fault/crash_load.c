/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of the crash tests, and the judge of what is there afterwards. What was put, when it
 * was acknowledged and what a flush made durable is kept in a file of its own, which is mapped
 * shared: neither the daemon's end nor this program's loses a line of it.
 *
 *     crash_load URI STATE load LEVEL SEED NR   NR puts and deletes, 8 under way, or until
 *                                               the daemon is gone
 *     crash_load URI STATE check [lossy]        reads every key; prints "there N must N lost
 *                                               N bytes N over N". lossy: the device may lose
 *                                               things
 *
 * lost: acknowledged values that are gone though nothing newer had been sent. over: those that are
 * gone with a newer generation sent and not acknowledged; what is older dies before what is newer
 * is written, so a crash between the two leaves a miss. Of those there are as many as were under
 * way, and no more.
 *
 * $CRASH_LOG names a log of writes as dm-log-writes makes it: each flush that succeeds adds to
 * STATE.snaps how many entries that had then, and a copy of the state.
 *
 * LEVEL: flush (a flush now and then; what it covers must be there later), ssd (each answer is as
 * good as a flush) or dram (nothing must be there). Every generation of a key has another length
 * and other bytes. Exit status: 0; 1 when a value was wrong, stale or missing: then it says which.
 * The namespace's values may change. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/must.h"
#include "base/rng.h"
#include "peal/peal.h"

#define DEPTH 8u
#define VALUE_MAX (1500u << 10)
#define NR_KEYS 600u
#define FLUSH_EVERY 150u

/* Generations from 1 on; each tenth is a delete. */
struct key_state {
	uint64_t base;	  /* what the last check found; 0: a miss */
	uint64_t next;	  /* the first that was begun after that check */
	uint64_t begun;	  /* the highest that was sent */
	uint64_t acked;	  /* the highest that was answered, */
	uint64_t durable; /* and the highest that had to outlive any crash */
};

struct state {
	uint64_t nr_acked; /* values and deletes, ever */
	uint64_t nr_flushes;
	struct key_state key[NR_KEYS];
};

struct slot {
	struct peal_req req;
	uint32_t no;
	uint64_t gen;
	bool is_busy;
};

struct load {
	struct state *st;
	struct peal *p;
	struct peal_queue *q;
	struct peal_mem *mem;
	struct slot slots[DEPTH];
	struct rng rng;
	uint64_t nr_left;
	FILE *snaps; /* NULL: none are taken */
	bool is_ssd, wants_flush, is_over;
};

static bool is_del(uint64_t gen)
{
	return gen % 10 == 9;
}

static size_t make(uint8_t *v, uint64_t no, uint64_t gen)
{
	uint64_t w = no * 7919 + gen * 104729;
	/* Most are small, some have several pieces. */
	size_t len = 1 + (w % 16 == 3 ? w * 31 % VALUE_MAX : w % 4 ? w % 20000 : w % 200000);
	struct rng r;

	rng_init(&r, no * 1000003 + gen);
	rng_fill(&r, v, len);
	return len;
}

static struct peal_key key(uint64_t no)
{
	return peal_key_bytes(&no, sizeof(no));
}

static struct state *state_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct state *st;

	must(fd >= 0 && ftruncate(fd, sizeof(*st)) == 0);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(st != MAP_FAILED);
	close(fd);
	return st;
}

/* ---- the load -------------------------------------------------------------------------------- */

static bool is_in_use(const struct load *l, uint32_t no)
{
	for (unsigned i = 0; i < DEPTH; i++)
		if (l->slots[i].is_busy && l->slots[i].no == no)
			return true;
	return false;
}

static void start_one(struct load *l, struct slot *s)
{
	struct peal_req *r = &s->req;
	struct key_state *k;

	do {
		s->no = (uint32_t)rng_below(&l->rng, NR_KEYS);
	} while (is_in_use(l, s->no));
	k = &l->st->key[s->no];
	s->gen = k->begun + 1;
	memset(r, 0, sizeof(*r));
	r->op = is_del(s->gen) ? PEAL_REQ_DEL : PEAL_REQ_PUT;
	r->flags = PEAL_DIRECT;
	r->key = key(s->no);
	r->buf = (uint8_t *)peal_mem_ptr(l->mem) + (size_t)(s - l->slots) * VALUE_MAX;
	if (r->op == PEAL_REQ_PUT)
		r->bytes = make(r->buf, s->no, s->gen);
	r->user = s;
	l->nr_left--;
	/* Before it is sent: a crash of this program must not hide it either. */
	k->begun = s->gen;
	s->is_busy = true;
	if (peal_submit(l->q, &r, 1) != 1) {
		s->is_busy = false;
		l->is_over = true;
	}
}

static void end_one(struct load *l, struct slot *s)
{
	struct key_state *k = &l->st->key[s->no];

	s->is_busy = false;
	if (s->req.res == -ENOSPC || s->req.res == -EIO)
		return; /* a disk that fails or is full: not acknowledged */
	if (s->req.res && !(s->req.res == -ENOENT && is_del(s->gen))) {
		if (s->req.res != -ENOTCONN)
			fprintf(stderr, "crash_load: key %u: %s\n", s->no, strerror(-s->req.res));
		l->is_over = true;
		return;
	}
	k->acked = s->gen;
	if (l->is_ssd)
		k->durable = s->gen;
	l->st->nr_acked++;
}

/* The log's second number after magic and version: entries. */
static void snap(struct load *l)
{
	int fd = open(getenv("CRASH_LOG"), O_RDONLY | O_CLOEXEC);
	uint64_t super[3];

	must(fd >= 0 && pread(fd, super, sizeof(super), 0) == sizeof(super));
	close(fd);
	must(fwrite(&super[2], 8, 1, l->snaps) == 1);
	must(fwrite(l->st, sizeof(*l->st), 1, l->snaps) == 1 && fflush(l->snaps) == 0);
}

static void flush(struct load *l)
{
	uint64_t acked[NR_KEYS];

	for (uint32_t i = 0; i < NR_KEYS; i++)
		acked[i] = l->st->key[i].acked;
	if (peal_flush(l->p, NULL))
		return;
	for (uint32_t i = 0; i < NR_KEYS; i++)
		l->st->key[i].durable = acked[i];
	l->st->nr_flushes++;
	if (l->snaps)
		snap(l);
}

static void load_run(struct load *l)
{
	struct peal_req *done[DEPTH];
	uint64_t nr = 0;
	int n = 0;

	for (bool is_busy = true; is_busy && n >= 0;) {
		for (unsigned i = 0; i < DEPTH && !l->is_over && l->nr_left; i++)
			if (!l->slots[i].is_busy)
				start_one(l, &l->slots[i]);
		n = peal_reap(l->q, done, DEPTH, 3000);
		for (int i = 0; i < n; i++)
			end_one(l, done[i]->user);
		nr += n > 0 ? (uint64_t)n : 0;
		if (l->wants_flush && !l->is_over && nr >= FLUSH_EVERY) {
			flush(l);
			nr = 0;
		}
		is_busy = !l->is_over && l->nr_left;
		for (unsigned i = 0; i < DEPTH; i++)
			is_busy |= l->slots[i].is_busy;
	}
}

static int load(char **argv, struct state *st)
{
	const char *uri = argv[1], *level = argv[4];
	struct peal_opts o = {.timeout_ms = 20000, .no_reconnect = true};
	struct load *l = calloc(1, sizeof(*l));
	char snaps[512];

	must(l);
	l->st = st;
	l->is_ssd = strcmp(level, "ssd") == 0;
	l->wants_flush = strcmp(level, "flush") == 0;
	rng_init(&l->rng, strtoull(argv[5], NULL, 0));
	l->nr_left = strtoull(argv[6], NULL, 0);
	if (getenv("CRASH_LOG")) {
		snprintf(snaps, sizeof(snaps), "%s.snaps", argv[2]);
		l->snaps = fopen(snaps, "a");
		must(l->snaps);
	}
	if (peal_open(uri, &o, &l->p) || peal_queue_open(l->p, DEPTH, &l->q) ||
	    peal_mem_alloc(l->p, (size_t)DEPTH * VALUE_MAX, &l->mem)) {
		fprintf(stderr, "crash_load: %s\n", peal_errmsg());
		return 2;
	}
	load_run(l);
	/* Its requests may never be answered: the end of the process is what ends them. */
	_exit(0);
}

/* ---- the judge ------------------------------------------------------------------------------- */

static int wrong(uint32_t no, const struct key_state *k, const char *what)
{
	printf("key %u: %s; last found %llu, next %llu, begun %llu, acknowledged %llu, durable "
	       "%llu\n",
	       no, what, (unsigned long long)k->base, (unsigned long long)k->next,
	       (unsigned long long)k->begun, (unsigned long long)k->acked,
	       (unsigned long long)k->durable);
	return 1;
}

static bool is_lossy;

/* Which generation is it? 0: none that may be there. */
static uint64_t which(uint32_t no, const struct key_state *k, const uint8_t *v, size_t len)
{
	static uint8_t right[VALUE_MAX];

	for (uint64_t gen = k->begun; gen > 0; gen--) {
		if (gen < k->next && gen != k->base)
			gen = k->base;
		if (gen && !is_del(gen) && make(right, no, gen) == len && !memcmp(right, v, len))
			return gen;
		if (gen <= k->base)
			break;
	}
	return 0;
}

struct sums {
	uint64_t nr_there, nr_must, nr_lost, bytes, nr_over;
};

/* The newest value that was acknowledged is gone. */
static void count_lost(struct sums *sums, uint32_t no, const struct key_state *k)
{
	static uint8_t right[VALUE_MAX];

	/* What was begun before the last check is over: that has found what it had left. */
	if (k->begun >= k->next && k->begun > k->acked) {
		sums->nr_over++;
		return;
	}
	sums->nr_lost++;
	sums->bytes += make(right, no, k->acked);
}

static int check_one(struct peal *p, uint32_t no, struct key_state *k, struct sums *sums)
{
	bool must_be = k->begun == k->durable && k->durable && !is_del(k->durable);
	static uint8_t v[VALUE_MAX];
	struct peal_key pk = key(no);
	ssize_t n = peal_get(p, &pk, v, VALUE_MAX, NULL);
	uint64_t gen = 0;

	sums->nr_must += must_be;
	if (n < 0 && n != -ENOENT) {
		printf("key %u: %s\n", no, peal_errmsg());
		return 1;
	}
	if (n >= 0) {
		gen = which(no, k, v, (size_t)n);
		if (!gen)
			return wrong(no, k, "bytes of no generation that may be there");
		if (gen < k->acked)
			return wrong(no, k, "an older value than was acknowledged");
	} else if (must_be && !is_lossy) {
		return wrong(no, k, "missing, and it had to be there");
	}
	if (gen < k->acked && !is_del(k->acked))
		count_lost(sums, no, k);
	/* What comes back from now on is this, or newer than all that was sent. */
	k->base = k->durable = k->acked = gen;
	k->next = k->begun + 1;
	sums->nr_there += gen != 0;
	return 0;
}

static int check(const char *uri, struct state *st)
{
	struct peal_opts o = {.timeout_ms = 20000};
	struct sums sums = {0};
	struct peal *p;
	int rc = 0;

	if (peal_open(uri, &o, &p)) {
		fprintf(stderr, "crash_load: %s\n", peal_errmsg());
		return 2;
	}
	for (uint32_t i = 0; i < NR_KEYS; i++)
		rc |= check_one(p, i, &st->key[i], &sums);
	printf("there %llu must %llu lost %llu bytes %llu over %llu\n",
	       (unsigned long long)sums.nr_there, (unsigned long long)sums.nr_must,
	       (unsigned long long)sums.nr_lost, (unsigned long long)sums.bytes,
	       (unsigned long long)sums.nr_over);
	peal_close(p);
	return rc;
}

int main(int argc, char **argv)
{
	if (argc == 7 && strcmp(argv[3], "load") == 0)
		return load(argv, state_map(argv[2]));
	is_lossy = argc == 5 && strcmp(argv[4], "lossy") == 0;
	if ((argc == 4 || is_lossy) && strcmp(argv[3], "check") == 0)
		return check(argv[1], state_map(argv[2]));
	fprintf(stderr, "usage: crash_load URI STATE load LEVEL SEED NR | check [lossy]\n");
	return 2;
}
