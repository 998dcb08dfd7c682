/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_engine.c and mem_job.c against a reference that is three memcpy()s: values and peers cut
 * anywhere (pages, odd offsets, single bytes), any range, several domains in one transfer, many
 * transfers at a time; damage of every kind and who is blamed for it; faults; the bounds per turn.
 * One thread, a virtual clock.
 */
/* tidy: long-file: one fixture under nine short tests */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/rng.h"
#include "core/env_sim.h"
#include "mem/mem_iter.h"
#include "mem_fake.h"
#include "peal/seal.h"

#define CHUNK MEM_CHUNK_BYTES
#define SPACE_BYTES (1u << 20)
#define VALUE_MAX 300000u
#define RUNS_MAX (VALUE_MAX + 1)
#define CHUNKS_MAX (VALUE_MAX / CHUNK + 2)

/* One kind of memory: a region, and what its bytes should be. */
struct space {
	struct mem_region *reg;
	uint8_t *bytes;
	uint8_t *want;
};

static struct {
	struct reactor *r;
	struct mem_engine *e;
	struct space own,
		peers[3]; /* ours; a peer's host memory, our own as a peer's, the fake domain */
	struct rng rng;
} t;

struct xfer {
	struct mem_xfer x;
	struct mem_iter_runs value, peer;
	struct mem_run *vruns, *pruns;
	uint64_t seals[CHUNKS_MAX];
	unsigned nr_ends;
	int res;
};

static void space_init(struct space *s, struct mem_region *reg)
{
	s->reg = reg;
	s->bytes = reg->base;
	s->want = malloc(SPACE_BYTES);
	assert_non_null(s->want);
	rng_fill(&t.rng, s->bytes, SPACE_BYTES);
	memcpy(s->want, s->bytes, SPACE_BYTES);
}

static struct mem_region *map_peer(uint32_t flags, int *fdp)
{
	int fd = memfd_create("t_mem_engine", MFD_CLOEXEC);
	struct mem_region *reg;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SPACE_BYTES), 0);
	assert_int_equal(mem_host_map(fd, 0, SPACE_BYTES, flags, &reg), 0);
	if (fdp)
		*fdp = fd;
	else
		close(fd);
	return reg;
}

static int setup(void **state)
{
	const uint32_t rw = MEM_READABLE | MEM_WRITABLE;
	struct reactor_opts ro = {.nr_peers = 1, .cpu = -1};

	rng_init(&t.rng, unit_seed(1));
	mem_fake_init(7);
	ro.env = env_sim_create(&(struct env_sim_opts){.seed = 1});
	t.r = reactor_create(&ro);
	t.e = mem_engine_create(t.r);
	assert_non_null(t.e);
	assert_int_equal(mem_host_memfd("t_own", SPACE_BYTES, &t.own.reg), 0);
	space_init(&t.own, t.own.reg);
	space_init(&t.peers[0], map_peer(MEM_PEER | rw, NULL));
	space_init(&t.peers[1], mem_host_wrap(malloc(SPACE_BYTES), SPACE_BYTES, rw));
	space_init(&t.peers[2], mem_fake_region(malloc(SPACE_BYTES), SPACE_BYTES, MEM_PEER | rw));
	return 0;
}

static int teardown(void **state)
{
	mem_engine_destroy(t.e);
	reactor_destroy(t.r);
	free(t.peers[1].bytes);
	free(t.peers[2].bytes);
	for (int i = 0; i < 3; i++) {
		free(t.peers[i].want);
		mem_region_put(t.peers[i].reg);
	}
	free(t.own.want);
	mem_region_put(t.own.reg);
	return 0;
}

static void xfer_end(struct mem_xfer *x, int res)
{
	struct xfer *f = container_of(x, struct xfer, x);

	f->nr_ends++;
	f->res = res;
}

static void finish(struct xfer *f)
{
	for (int i = 0; i < 200000 && f->nr_ends == 0; i++)
		reactor_step(t.r);
	assert_int_equal(f->nr_ends, 1);
}

/*
 * Cuts `len` bytes of `space` (or of any of the peers') into runs of at most `most`, at places that
 * don't overlap: from `*at` on, with gaps now and then.
 */
static uint32_t cut(struct mem_run *runs, struct space *space, uint64_t len, uint64_t most)
{
	uint64_t at = rng_below(&t.rng, 5000);
	uint32_t nr = 0;

	for (; len > 0; nr++) {
		uint64_t n = 1 + rng_below(&t.rng, most);

		n = min_t(uint64_t, n, len);
		assert_true(nr < RUNS_MAX && at + n <= SPACE_BYTES);
		runs[nr] = (struct mem_run){space ? space->reg : t.peers[rng_below(&t.rng, 3)].reg,
					    at, n};
		at += n;
		if (rng_chance(&t.rng, 1, 4) && most > 200)
			at += rng_below(&t.rng, 300);
		len -= n;
	}
	return nr;
}

static struct xfer *xfer_new(void)
{
	struct xfer *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->vruns = calloc(RUNS_MAX, sizeof(struct mem_run));
	f->pruns = calloc(RUNS_MAX, sizeof(struct mem_run));
	assert_true(f->vruns && f->pruns);
	return f;
}

static void xfer_free(struct xfer *f)
{
	free(f->vruns);
	free(f->pruns);
	free(f);
}

/* A page, a few KiB, single bytes, everything at once. */
static uint64_t some_most(void)
{
	static const uint64_t mosts[] = {1, 3, 100, 4096, 5000, 20000, VALUE_MAX};

	return mosts[rng_below(&t.rng, 7)];
}

static void gather(uint8_t *to, const struct mem_run *runs, uint64_t skip, uint64_t len)
{
	for (; len > 0; runs++) {
		uint64_t n = runs->len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n = min_t(uint64_t, n - skip, len);
		memcpy(to, runs->reg->base + runs->off + skip, n);
		to += n;
		len -= n;
		skip = 0;
	}
}

/* The value's bytes from the start of the first chunk on, at most `len`. */
static void true_seals(const struct mem_xfer *x, const struct mem_run *vruns, uint64_t *seals)
{
	uint64_t from = align_down(x->off, CHUNK), end = x->off + x->len;
	static uint8_t buf[CHUNK];

	for (uint64_t at = from; at < end; at += CHUNK) {
		uint64_t n = min_t(uint64_t, CHUNK, x->value_len - at);

		gather(buf, vruns, at - from, n);
		seals[(at - from) / CHUNK] = hash_xxh3(buf, n,
						       peal_seal_seed_at(x->key_hash, at / CHUNK));
	}
}

/* From the value's start, the first run may be at hand. */
static void xfer_start(struct xfer *f, uint32_t nr_vruns, uint32_t nr_pruns)
{
	uint32_t at_hand = f->x.off < CHUNK && rng_chance(&t.rng, 1, 2);

	mem_iter_runs_init(&f->value, f->vruns + at_hand, nr_vruns - at_hand);
	mem_iter_runs_init(&f->peer, f->pruns, nr_pruns);
	f->x.value = &f->value.it;
	f->x.peer = &f->peer.it;
	f->x.seals = f->seals;
	f->x.end = xfer_end;
	f->nr_ends = 0;
	if (at_hand)
		mem_xfer_submit_run(t.e, &f->x, f->vruns);
	else
		mem_xfer_submit(t.e, &f->x);
}

/* Any range of a value of any size; the peers' space is `peer` or all of them mixed. */
static void xfer_make(struct xfer *f, enum mem_xfer_dir dir, struct space *peer)
{
	uint64_t value_len = 1 + rng_below(&t.rng, VALUE_MAX >> rng_below(&t.rng, 18));
	uint64_t off = rng_below(&t.rng, value_len), len = 1 + rng_below(&t.rng, value_len - off);
	uint64_t from, to;

	if (dir == MEM_FROM_PEER) {
		off = align_down(off, CHUNK);
		len = min_t(uint64_t, align_up(off + len, CHUNK), value_len) - off;
	} else if (rng_chance(&t.rng, 1, 3)) {
		off = 0;
		len = value_len;
	}
	f->x = (struct mem_xfer){
		.dir = dir,
		.check = rng_chance(&t.rng, 3, 4),
		.key_hash = rng_u64(&t.rng),
		.off = off,
		.len = len,
		.value_len = value_len,
	};
	from = align_down(off, CHUNK);
	to = min_t(uint64_t, align_up(off + len, CHUNK), value_len);
	f->value.nr = cut(f->vruns, &t.own, to - from, some_most());
	f->peer.nr = cut(f->pruns, peer, len, some_most());
	true_seals(&f->x, f->vruns, f->seals);
}

static void scatter_want(const struct xfer *f)
{
	const struct mem_xfer *x = &f->x;
	bool is_to = x->dir == MEM_TO_PEER;
	const struct mem_run *runs = is_to ? f->pruns : f->vruns;
	static uint8_t buf[VALUE_MAX];
	uint8_t *from = buf;
	uint64_t len = x->len;

	gather(buf, is_to ? f->vruns : f->pruns, is_to ? x->off % CHUNK : 0, len);
	for (; len > 0; runs++) {
		struct space *s = &t.own;

		for (int i = 0; i < 3; i++)
			s = runs->reg == t.peers[i].reg ? &t.peers[i] : s;
		memcpy(s->want + runs->off, from, runs->len);
		from += runs->len;
		len -= runs->len;
	}
}

static void check_spaces(void)
{
	assert_memory_equal(t.own.bytes, t.own.want, SPACE_BYTES);
	for (int i = 0; i < 3; i++)
		assert_memory_equal(t.peers[i].bytes, t.peers[i].want, SPACE_BYTES);
}

static void resync(void)
{
	memcpy(t.own.want, t.own.bytes, SPACE_BYTES);
	for (int i = 0; i < 3; i++)
		memcpy(t.peers[i].want, t.peers[i].bytes, SPACE_BYTES);
}

static struct space *some_peer(void)
{
	uint64_t i = rng_below(&t.rng, 4);

	return i < 3 ? &t.peers[i] : NULL;
}

static void t_random(void **state)
{
	struct xfer *f = xfer_new();
	uint64_t seals[CHUNKS_MAX];

	mem_fake_set_fail(0);
	for (int i = 0; i < 1200; i++) {
		enum mem_xfer_dir dir = rng_chance(&t.rng, 1, 2) ? MEM_TO_PEER : MEM_FROM_PEER;

		xfer_make(f, dir, some_peer());
		scatter_want(f);
		if (dir == MEM_FROM_PEER)
			memset(f->seals, 0, sizeof(f->seals));
		if (dir == MEM_TO_PEER && !f->x.check)
			f->seals[0] ^= 1; /* nobody looks */
		xfer_start(f, f->value.nr, f->peer.nr);
		finish(f);
		assert_int_equal(f->res, 0);
		if (dir == MEM_FROM_PEER) {
			true_seals(&f->x, f->vruns, seals);
			assert_memory_equal(seals, f->seals, 8 * peal_seal_count(f->x.len));
		}
		if (i % 16 == 0)
			check_spaces();
	}
	check_spaces();
	assert_true(mem_fake_stats.nr_copies > 0);
	xfer_free(f);
}

/* A byte of ours is wrong, or a seal is: -EILSEQ, the right chunk, whatever the cut. */
static void t_own_damage(void **state)
{
	struct xfer *f = xfer_new();

	for (int i = 0; i < 400; i++) {
		uint64_t bit, chunk, from, at;
		uint8_t *victim = NULL;

		xfer_make(f, MEM_TO_PEER, some_peer());
		f->x.check = true;
		from = align_down(f->x.off, CHUNK);
		at = rng_below(&t.rng, min_t(uint64_t, align_up(f->x.off + f->x.len, CHUNK),
					     f->x.value_len) -
					       from);
		chunk = (from + at) / CHUNK;
		bit = rng_below(&t.rng, 8);
		for (uint32_t k = 0, pos = 0; k < f->value.nr; pos += f->vruns[k++].len) {
			if (at >= pos && at < pos + f->vruns[k].len)
				victim = f->vruns[k].reg->base + f->vruns[k].off + at - pos;
		}
		assert_non_null(victim);
		*victim ^= 1u << bit;
		xfer_start(f, f->value.nr, f->peer.nr);
		finish(f);
		*victim ^= 1u << bit;
		assert_int_equal(f->res, -EILSEQ);
		assert_int_equal(f->x.bad_chunk, chunk);
	}
	resync();
	xfer_free(f);
}

/*
 * The peer's memory doesn't keep what we wrote: one page mapped many times in a row, so that what
 * comes later lands on what was there. Ours is right, so the peer is blamed.
 */
static void t_peer_damage(void **state)
{
	int fd = memfd_create("t_alias", MFD_CLOEXEC);
	uint8_t *base = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const uint64_t lens[] = {6000, 16384, 100000};
	struct xfer *f = xfer_new();
	struct mem_region *reg;

	assert_int_equal(ftruncate(fd, 4096), 0);
	for (int i = 0; i < 64; i++)
		assert_true(mmap(base + i * 4096, 4096, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	reg = mem_host_wrap(base, 64 * 4096, MEM_PEER | MEM_READABLE | MEM_WRITABLE);
	for (unsigned i = 0; i < 3; i++) {
		f->x = (struct mem_xfer){
			.dir = MEM_TO_PEER,
			.check = true,
			.len = lens[i],
			.value_len = lens[i],
		};
		f->vruns[0] = (struct mem_run){t.own.reg, 77, lens[i]};
		/* 6000 in one go; then cut so that 16 KiB and more go through a job. */
		f->pruns[0] = (struct mem_run){reg, 0, i ? 16380 : lens[i]};
		f->pruns[1] = (struct mem_run){reg, 16380, lens[i] - f->pruns[0].len};
		true_seals(&f->x, f->vruns, f->seals);
		xfer_start(f, 1, i ? 2 : 1);
		finish(f);
		assert_int_equal(f->res, -EREMOTEIO);
		assert_int_equal(f->x.bad_chunk, 0);
	}
	mem_region_put(reg);
	munmap(base, 64 * 4096);
	close(fd);
	xfer_free(f);
}

/* Truncated behind `keep`: transfers that reach there fail, others don't, the process lives. */
static void t_truncated(void **state)
{
	int fd;
	struct mem_region *reg = map_peer(MEM_PEER | MEM_READABLE | MEM_WRITABLE, &fd);
	struct space gone = {.reg = reg, .bytes = reg->base};
	struct xfer *f = xfer_new();
	const uint64_t keep = 40960;
	unsigned nr_faults = 0;

	assert_int_equal(mem_guard_init(), 0);
	assert_int_equal(ftruncate(fd, (off_t)keep), 0);
	for (int i = 0; i < 400; i++) {
		enum mem_xfer_dir dir = rng_chance(&t.rng, 1, 2) ? MEM_TO_PEER : MEM_FROM_PEER;
		uint64_t end = 0;

		xfer_make(f, dir, &gone);
		for (uint32_t k = 0; k < f->peer.nr; k++)
			end = max_t(uint64_t, end, f->pruns[k].off + f->pruns[k].len);
		xfer_start(f, f->value.nr, f->peer.nr);
		finish(f);
		assert_int_equal(f->res, end > keep ? -EFAULT : 0);
		nr_faults += f->res != 0;
	}
	assert_true(nr_faults > 0 && nr_faults < 400);
	assert_int_equal(counter_get(&mem_engine_stats(t.e)->faults), nr_faults);
	resync();
	mem_region_put(reg);
	close(fd);
	xfer_free(f);
}

/*
 * A region that doesn't allow it, one that is mapped without access, an iterator that fails or
 * ends.
 */
static void t_refused(void **state)
{
	struct mem_region *ro = map_peer(MEM_PEER | MEM_READABLE, NULL);
	struct mem_region *none = map_peer(MEM_PEER | MEM_READABLE | MEM_WRITABLE, NULL);
	struct xfer *f = xfer_new();

	assert_int_equal(mem_guard_init(), 0);
	assert_int_equal(mprotect(none->base + 8192, 4096, PROT_NONE), 0);
	f->x = (struct mem_xfer){.dir = MEM_TO_PEER, .len = 20000, .value_len = 20000};
	f->vruns[0] = (struct mem_run){t.own.reg, 0, 20000};
	f->pruns[0] = (struct mem_run){ro, 0, 20000};
	xfer_start(f, 1, 1);
	finish(f);
	assert_int_equal(f->res, -EFAULT);
	f->pruns[0] = (struct mem_run){none, 5, 20000};
	xfer_start(f, 1, 1);
	finish(f);
	assert_int_equal(f->res, -EFAULT);
	f->pruns[0] = (struct mem_run){t.peers[0].reg, 5, 19999};
	xfer_start(f, 1, 1);
	finish(f);
	assert_int_equal(f->res, -ENODATA);
	resync();
	mem_region_put(ro);
	mem_region_put(none);
	xfer_free(f);
}

/* Many at a time, in domains that fail now and then: each ends once, and the failures are told. */
static void t_crowd(void **state)
{
	static struct xfer *crowd[200];
	unsigned nr_failed = 0;

	mem_fake_set_fail(1);
	mem_fake_stats.nr_failed = 0;
	for (int i = 0; i < 200; i++) {
		crowd[i] = calloc(1, sizeof(struct xfer));
		assert_non_null(crowd[i]);
		crowd[i]->vruns = calloc(64, sizeof(struct mem_run));
		crowd[i]->pruns = calloc(64, sizeof(struct mem_run));
		crowd[i]->x = (struct mem_xfer){
			.dir = MEM_TO_PEER,
			.check = true,
			.key_hash = (uint64_t)i,
			.len = VALUE_MAX,
			.value_len = VALUE_MAX,
		};
		crowd[i]->vruns[0] = (struct mem_run){t.own.reg, 100, VALUE_MAX};
		for (uint32_t k = 0; k < 50; k++)
			crowd[i]->pruns[k] = (struct mem_run){t.peers[2].reg, 7 * k * 1000, 6000};
		true_seals(&crowd[i]->x, crowd[i]->vruns, crowd[i]->seals);
		xfer_start(crowd[i], 1, 50);
	}
	for (int i = 0; i < 200; i++) {
		finish(crowd[i]);
		assert_true(crowd[i]->res == 0 || crowd[i]->res == -EFAULT);
		nr_failed += crowd[i]->res != 0;
	}
	assert_true(nr_failed > 0 && nr_failed <= mem_fake_stats.nr_failed);
	assert_true(mem_fake_stats.most_out > 100);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(crowd[i]->nr_ends, 1);
		xfer_free(crowd[i]);
	}
	mem_fake_set_fail(0);
	resync();
}

/* Until the engine has forgotten that small transfers came. */
static void forget_small(void)
{
	struct xfer *x = xfer_new();

	for (unsigned left = MEM_CUT_TURNS + 1; left;) {
		x->x = (struct mem_xfer){
			.dir = MEM_TO_PEER, .len = 8 * CHUNK, .value_len = 8 * CHUNK};
		x->vruns[0] = (struct mem_run){t.own.reg, 0, 8 * CHUNK};
		x->pruns[0] = (struct mem_run){t.peers[0].reg, 0, 8 * CHUNK};
		x->nr_ends = 0;
		xfer_start(x, 1, 1);
		for (; x->nr_ends == 0; left -= left > 0)
			reactor_step(t.r);
	}
	xfer_free(x);
}

/*
 * One long transfer moves one chunk a turn when it is alone; with a short one beside it, which goes
 * before it, a quarter of a chunk.
 */
static void turns(bool has_small)
{
	struct xfer *big = xfer_new(), *small = xfer_new();
	uint64_t nr_bytes;
	int nr_turns = 0;

	forget_small();
	nr_bytes = mem_engine_bytes(t.e);
	big->x = (struct mem_xfer){.dir = MEM_TO_PEER, .len = 4 * CHUNK, .value_len = 4 * CHUNK};
	big->vruns[0] = (struct mem_run){t.own.reg, 0, 4 * CHUNK};
	big->pruns[0] = (struct mem_run){t.peers[0].reg, 0, 4 * CHUNK};
	small->x = (struct mem_xfer){.dir = MEM_FROM_PEER, .len = 4096, .value_len = 4096};
	small->vruns[0] = (struct mem_run){t.own.reg, 500000, 4096};
	small->pruns[0] = (struct mem_run){t.peers[0].reg, 500000, 4096};
	reactor_step(t.r);
	xfer_start(big, 1, 1);
	assert_int_equal(big->nr_ends, 0);
	if (has_small) {
		xfer_start(small, 1, 1);
		assert_int_equal(small->nr_ends, 1);
	}
	for (; big->nr_ends == 0; nr_turns++)
		assert_true(reactor_step(t.r) > 0);
	assert_int_equal(nr_turns, has_small ? 16 : 4);
	assert_int_equal(reactor_step(t.r), 0);
	assert_int_equal(mem_engine_bytes(t.e) - nr_bytes, 4 * CHUNK + (has_small ? 4096 : 0));
	resync();
	xfer_free(big);
	xfer_free(small);
}

static void t_turns(void **state)
{
	turns(false);
	turns(true);
}

/* Single bytes: a turn does 128 of them, and more such transfers than there are jobs all end. */
static void t_crumbs(void **state)
{
	static struct xfer *crowd[80];
	struct mem_run *crumbs = calloc(5000, sizeof(*crumbs));
	uint64_t nr_turns = counter_get(&mem_engine_stats(t.e)->turns);

	assert_non_null(crumbs);
	for (uint32_t k = 0; k < 5000; k++)
		crumbs[k] = (struct mem_run){t.peers[k % 2].reg, 2 * k, 1};
	for (int i = 0; i < 80; i++) {
		crowd[i] = calloc(1, sizeof(struct xfer));
		assert_non_null(crowd[i]);
		crowd[i]->pruns = crumbs;
		crowd[i]->vruns = calloc(1, sizeof(struct mem_run));
		crowd[i]->x = (struct mem_xfer){
			.dir = i % 2 ? MEM_FROM_PEER : MEM_TO_PEER,
			.check = true,
			.len = 5000,
			.value_len = 5000,
		};
		crowd[i]->vruns[0] = (struct mem_run){t.own.reg, 0, 5000};
		true_seals(&crowd[i]->x, crowd[i]->vruns, crowd[i]->seals);
		xfer_start(crowd[i], 1, 5000);
	}
	for (int i = 0; i < 80; i++) {
		finish(crowd[i]);
		assert_int_equal(crowd[i]->res, 0);
		free(crowd[i]->vruns);
		free(crowd[i]);
	}
	assert_true(counter_get(&mem_engine_stats(t.e)->turns) - nr_turns >= 70 * 5000 / 128);
	resync();
	free(crumbs);
}

/* end() submits the next one, a thousand deep: the stack doesn't grow with it. */
struct chain {
	struct xfer *f;
	int nr_left;
	uintptr_t lo, hi;
};

static struct chain chain;

static void chain_end(struct mem_xfer *x, int res)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	assert_int_equal(res, 0);
	chain.lo = min_t(uintptr_t, chain.lo, here);
	chain.hi = max_t(uintptr_t, chain.hi, here);
	chain.f->nr_ends++;
	if (--chain.nr_left == 0)
		return;
	mem_iter_runs_init(&chain.f->value, chain.f->vruns, 1);
	mem_iter_runs_init(&chain.f->peer, chain.f->pruns, 1);
	mem_xfer_submit(t.e, x);
}

static void t_chain(void **state)
{
	chain = (struct chain){.f = xfer_new(), .nr_left = 1000, .lo = UINTPTR_MAX};
	chain.f->x = (struct mem_xfer){.dir = MEM_FROM_PEER, .len = 10, .value_len = 10};
	chain.f->vruns[0] = (struct mem_run){t.own.reg, 0, 10};
	chain.f->pruns[0] = (struct mem_run){t.peers[0].reg, 0, 10};
	mem_iter_runs_init(&chain.f->value, chain.f->vruns, 1);
	mem_iter_runs_init(&chain.f->peer, chain.f->pruns, 1);
	chain.f->x.value = &chain.f->value.it;
	chain.f->x.peer = &chain.f->peer.it;
	chain.f->x.seals = chain.f->seals;
	chain.f->x.end = chain_end;
	mem_xfer_submit(t.e, &chain.f->x);
	while (chain.nr_left > 0)
		assert_true(reactor_step(t.r) > 0);
	assert_int_equal(chain.f->nr_ends, 1000);
	assert_true(chain.hi - chain.lo < 64 * 1024);
	resync();
	xfer_free(chain.f);
}

/* Values within a chunk, one run on both sides: whole, damaged here, damaged there, unmapped. */
static void t_short(void **state)
{
	struct xfer *f = xfer_new();

	for (unsigned i = 0; i < 2000; i++) {
		uint64_t len = 1 + rng_below(&t.rng, CHUNK >> rng_below(&t.rng, 12));
		unsigned bad = (unsigned)rng_below(&t.rng, 4);

		f->x = (struct mem_xfer){.dir = MEM_TO_PEER,
					 .check = true,
					 .key_hash = rng_u64(&t.rng),
					 .len = len,
					 .value_len = len};
		f->vruns[0] = (struct mem_run){t.own.reg, rng_below(&t.rng, 5000), len};
		f->pruns[0] = (struct mem_run){t.peers[i % 2].reg, rng_below(&t.rng, 5000), len};
		true_seals(&f->x, f->vruns, f->seals);
		f->seals[0] ^= bad == 0;
		mem_iter_runs_init(&f->value, f->vruns, 0);
		/* At last a peer that has less than was promised. */
		mem_iter_runs_init(&f->peer, f->pruns, bad != 1);
		f->x.value = &f->value.it;
		f->x.peer = &f->peer.it;
		f->x.seals = f->seals;
		f->x.end = xfer_end;
		f->nr_ends = 0;
		mem_xfer_submit_run(t.e, &f->x, f->vruns);
		finish(f);
		if (bad == 0)
			assert_int_equal(f->res, -EILSEQ);
		else if (bad == 1)
			assert_int_equal(f->res, -ENODATA);
		else
			assert_int_equal(f->res, 0);
		if (f->res == 0)
			assert_memory_equal(f->pruns->reg->base + f->pruns->off,
					    f->vruns->reg->base + f->vruns->off, len);
	}
	xfer_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_random),	 cmocka_unit_test(t_own_damage),
		cmocka_unit_test(t_peer_damage), cmocka_unit_test(t_truncated),
		cmocka_unit_test(t_refused),	 cmocka_unit_test(t_crowd),
		cmocka_unit_test(t_turns),	 cmocka_unit_test(t_crumbs),
		cmocka_unit_test(t_chain),	 cmocka_unit_test(t_short),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
