/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that does its worst while we copy: another thread writes into its memory, truncates and
 * grows its file, and punches holes, all the time. Whatever a transfer says, our own bytes and our
 * seals agree, nothing else of ours changes, and the process lives. Two threads over one file, each
 * with its own mapping, as two processes would have.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/rng.h"
#include "core/env_sim.h"
#include "mem/mem_iter.h"
#include "peal/seal.h"

#define LEN (300u << 10)
#define NR_XFERS 600

static int fd;
static _Atomic bool is_over;

/* Through its descriptor and not by a mapping of its own: it would only fault itself. */
static void *vandal(void *arg)
{
	struct rng rng;

	rng_init(&rng, (uintptr_t)arg);
	while (!atomic_load(&is_over)) {
		uint64_t at = rng_below(&rng, LEN), b = rng_u64(&rng);

		switch (rng_below(&rng, 8)) {
		case 0:
			(void)!ftruncate(fd, (off_t)at);
			break;
		case 1:
			(void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
					 (off_t)(b % 20000) + 1);
			break;
		case 2:
		case 3:
			(void)!ftruncate(fd, LEN);
			break;
		default:
			(void)!pwrite(fd, &b, 8, (off_t)at);
			break;
		}
	}
	return NULL;
}

struct xfer {
	struct mem_xfer x;
	struct mem_iter_runs value, peer;
	struct mem_run vrun, pruns[100];
	uint64_t seals[8];
	bool is_ended;
	int res;
};

static void xfer_end(struct mem_xfer *x, int res)
{
	struct xfer *f = container_of(x, struct xfer, x);

	f->res = res;
	f->is_ended = true;
}

static void check_own(const struct xfer *f, const uint8_t *own)
{
	for (uint64_t i = 0; i < peal_seal_count(LEN); i++)
		assert_int_equal(f->seals[i],
				 hash_xxh3(own + i * MEM_CHUNK_BYTES, peal_seal_chunk_len(LEN, i),
					   peal_seal_seed_at(9, i)));
}

static void seal_own(struct xfer *f, const uint8_t *own)
{
	for (uint64_t i = 0; i < peal_seal_count(LEN); i++)
		f->seals[i] = hash_xxh3(own + i * MEM_CHUNK_BYTES, peal_seal_chunk_len(LEN, i),
					peal_seal_seed_at(9, i));
}

static void one(struct reactor *r, struct mem_engine *e, struct xfer *f, bool is_paged)
{
	uint32_t nr = is_paged ? LEN / 4096 : 1;
	struct mem_region *peer = f->pruns[0].reg;

	for (uint32_t i = 0; i < nr; i++)
		f->pruns[i] = (struct mem_run){peer, (uint64_t)i * 4096, is_paged ? 4096 : LEN};
	mem_iter_runs_init(&f->value, &f->vrun, 1);
	mem_iter_runs_init(&f->peer, f->pruns, nr);
	f->is_ended = false;
	mem_xfer_submit(e, &f->x);
	while (!f->is_ended)
		reactor_step(r);
}

static void t_vandal(void **state)
{
	struct reactor_opts o = {.nr_peers = 1, .cpu = -1};
	struct mem_region *own, *peer;
	unsigned nr[3] = {0};
	pthread_t thread;
	static struct xfer f;
	struct mem_engine *e;
	struct reactor *r;

	fd = memfd_create("t_mem_race", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, LEN), 0);
	o.env = env_sim_create(&(struct env_sim_opts){.seed = 1});
	r = reactor_create(&o);
	e = mem_engine_create(r);
	assert_int_equal(mem_host_memfd("t_own", LEN, &own), 0);
	assert_int_equal(mem_host_map(fd, 0, LEN, MEM_PEER | MEM_READABLE | MEM_WRITABLE, &peer),
			 0);
	f.vrun = (struct mem_run){own, 0, LEN};
	f.pruns[0].reg = peer;
	f.x = (struct mem_xfer){.check = true, .key_hash = 9, .len = LEN, .value_len = LEN};
	f.x.value = &f.value.it;
	f.x.peer = &f.peer.it;
	f.x.seals = f.seals;
	f.x.end = xfer_end;
	f.x.dir = MEM_FROM_PEER;
	one(r, e, &f, false);
	assert_int_equal(f.res, 0);
	assert_int_equal(pthread_create(&thread, NULL, vandal, (void *)1), 0);
	for (unsigned i = 0; i < NR_XFERS; i++) {
		static uint8_t before[LEN];

		f.x.dir = i % 2 ? MEM_TO_PEER : MEM_FROM_PEER;
		if (f.x.dir == MEM_TO_PEER) {
			memcpy(before, own->base, LEN);
			one(r, e, &f, i % 4 == 1);
			/* Our side is only read, and never blamed. */
			assert_memory_equal(before, own->base, LEN);
			assert_true(f.res == 0 || f.res == -EFAULT || f.res == -EREMOTEIO);
		} else {
			one(r, e, &f, i % 4 == 0);
			assert_true(f.res == 0 || f.res == -EFAULT);
			if (f.res == 0)
				check_own(&f, own->base);
		}
		/*
		 * A store never shows a value that didn't come whole; here it goes on with what it
		 * has.
		 */
		if (f.x.dir == MEM_FROM_PEER && f.res != 0)
			seal_own(&f, own->base);
		nr[f.res == 0 ? 0 : f.res == -EFAULT ? 1 : 2]++;
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	assert_int_equal(ftruncate(fd, LEN), 0);
	one(r, e, &f, true);
	assert_int_equal(f.res, 0);
	print_message("%u whole, %u faults, %u scribbled\n", nr[0], nr[1], nr[2]);
	mem_engine_destroy(e);
	reactor_destroy(r);
	mem_region_put(own);
	mem_region_put(peer);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_vandal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
