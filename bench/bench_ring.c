/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare ring and the bare copy loop: see bench_ring.h. The server is one thread that spins; it
 * sleeps on a condition between runs, so that it takes nothing from what is measured in turn with
 * it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/mono.h"
#include "base/must.h"
#include "base/rng.h"
#include "bench.h"
#include "bench_ring.h"

#define RING_SLOTS 64

struct ring_sqe {
	uint64_t place;
	uint64_t buf;
	uint64_t rest[6];
};

struct ring_cqe {
	uint64_t lo;
	_Atomic uint64_t hi; /* phase in bit 0 */
};

struct bench_ring {
	struct ring_sqe sq[RING_SLOTS] __attribute__((aligned(64)));
	struct ring_cqe cq[RING_SLOTS] __attribute__((aligned(64)));
	_Atomic uint32_t tail __attribute__((aligned(64)));
	_Atomic int state __attribute__((aligned(64))); /* 0 sleep, 1 run, 2 end */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	pthread_t thread;
	int cpu;
	uint8_t *arena;
	uint64_t arena_bytes;
	uint8_t *buf;
	size_t bytes;
	uint64_t seal; /* keeps the work alive */
};

static void *ring_map(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED);
	madvise(p, bytes, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < bytes; i += 8)
		memcpy((uint8_t *)p + i, &i, 8);
	return p;
}

static void ring_serve(struct bench_ring *r)
{
	uint32_t head = 0, slot;
	struct ring_sqe e;

	while (atomic_load_explicit(&r->state, memory_order_relaxed) == 1) {
		if (atomic_load_explicit(&r->tail, memory_order_acquire) == head)
			continue;
		slot = head % RING_SLOTS;
		e = r->sq[slot];
		r->cq[slot].lo = hash_copy_xxh3((void *)(uintptr_t)e.buf, r->arena + e.place,
						r->bytes, e.place);
		head++;
		atomic_store_explicit(&r->cq[slot].hi, (uint64_t)head << 1 | 1,
				      memory_order_release);
	}
}

static void *ring_thread(void *arg)
{
	struct bench_ring *r = arg;

	bench_pin(r->cpu);
	for (;;) {
		pthread_mutex_lock(&r->lock);
		while (r->state == 0)
			pthread_cond_wait(&r->cond, &r->lock);
		pthread_mutex_unlock(&r->lock);
		if (r->state == 2)
			return NULL;
		ring_serve(r);
	}
}

static void ring_state(struct bench_ring *r, int state)
{
	pthread_mutex_lock(&r->lock);
	r->state = state;
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
}

struct bench_ring *bench_ring_create(int server_cpu, uint64_t arena_bytes, size_t bytes)
{
	struct bench_ring *r = aligned_alloc(64, align_up(sizeof(*r), (size_t)64));

	must(r);
	memset(r, 0, sizeof(*r));
	r->cpu = server_cpu;
	r->arena_bytes = arena_bytes;
	r->arena = ring_map(arena_bytes);
	r->bytes = bytes;
	r->buf = ring_map(align_up(bytes, (size_t)4096) * RING_SLOTS);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->cond, NULL);
	must(pthread_create(&r->thread, NULL, ring_thread, r) == 0);
	return r;
}

static void ring_send(struct bench_ring *r, struct rng *rng, uint32_t n)
{
	struct ring_sqe *e = &r->sq[n % RING_SLOTS];

	e->place = rng_below(rng, r->arena_bytes / r->bytes) * r->bytes;
	e->buf = (uintptr_t)(r->buf + (n % RING_SLOTS) * align_up(r->bytes, (size_t)4096));
	atomic_store_explicit(&r->tail, n + 1, memory_order_release);
}

static void ring_wait(struct bench_ring *r, uint32_t n)
{
	struct ring_cqe *c = &r->cq[n % RING_SLOTS];

	while (atomic_load_explicit(&c->hi, memory_order_acquire) != ((uint64_t)(n + 1) << 1 | 1))
		;
	r->seal ^= c->lo;
}

uint64_t bench_ring_run(struct bench_ring *r, unsigned depth, uint64_t nr, uint64_t *lat)
{
	uint64_t start, end, sent_ns = 0;
	uint32_t sent = 0, done = 0;
	struct rng rng;

	rng_init(&rng, mono_ns());
	atomic_store(&r->tail, 0);
	for (unsigned i = 0; i < RING_SLOTS; i++)
		atomic_store(&r->cq[i].hi, 0);
	ring_state(r, 1);
	start = mono_ns();
	while (done < nr) {
		while (sent < nr && sent - done < depth) {
			if (lat)
				sent_ns = mono_ns();
			ring_send(r, &rng, sent++);
		}
		ring_wait(r, done);
		if (lat)
			lat[done] = mono_ns() - sent_ns;
		done++;
	}
	end = mono_ns();
	ring_state(r, 0);
	/*
	 * The server has seen state 0 when it is asleep again; the next run waits for nothing else.
	 */
	return end - start;
}

void bench_ring_destroy(struct bench_ring *r)
{
	ring_state(r, 2);
	pthread_join(r->thread, NULL);
	munmap(r->arena, r->arena_bytes);
	munmap(r->buf, align_up(r->bytes, (size_t)4096) * RING_SLOTS);
	free(r);
}

uint64_t bench_copy_run(const void *arena, uint64_t arena_bytes, size_t bytes, uint64_t nr,
			int with_seal)
{
	static uint8_t *dst;
	static volatile uint64_t sink;
	const uint64_t dst_bytes = 64u << 20;
	uint64_t start, from, to;
	struct rng rng;

	if (!dst)
		dst = ring_map(dst_bytes);
	rng_init(&rng, mono_ns());
	start = mono_ns();
	for (uint64_t i = 0; i < nr; i++) {
		from = rng_below(&rng, arena_bytes / bytes) * bytes;
		to = rng_below(&rng, dst_bytes / bytes) * bytes;
		if (!with_seal) {
			memcpy(dst + to, (const uint8_t *)arena + from, bytes);
			continue;
		}
		for (size_t at = 0; at < bytes; at += 65536)
			sink ^= hash_copy_xxh3(dst + to + at, (const uint8_t *)arena + from + at,
					       min_t(size_t, 65536, bytes - at), at);
	}
	return mono_ns() - start;
}
