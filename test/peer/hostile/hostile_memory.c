/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks by what a client shares with the daemon: it scribbles on SQEs, PRP lists, SGLs and data
 * while they are executed, takes memory away under commands, never moves its CQ heads, rings
 * doorbells with any value, and is killed in the middle of waves. Each runs in a process of its own
 * until it is killed; scribble and flood have a second thread that writes without a pause.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/must.h"
#include "hostile.h"

#define AREA_BYTES (4u * HOSTILE_MIB)
#define WAVE 24u
#define VALUE_MAX 65536u

void attack_attach(struct attack *a, unsigned nr)
{
	int err;

	do {
		host_hang_up(&a->host);
		err = host_attach(&a->host, nr);
		if (err)
			poll(NULL, 0, 1);
	} while (err);
	atomic_fetch_add(&a->seen->sessions, 1);
}

/* The controller gave up (CFS), or the socket is shut: once in a while. */
static bool is_dead(struct attack *a)
{
	uint32_t csts = 0;

	return host_reg_read(&a->host, 0x1c, &csts) || csts & 2 || !(csts & 1);
}

/* ---- commands ---- */

/* PRP1 and a list of pages. */
static void by_prp(struct attack *a, struct nvme_sqe *sqe, uint32_t len, unsigned slot)
{
	uint64_t data = HOSTILE_IOVA + HOST_DATA + (uint64_t)slot * VALUE_MAX;
	uint64_t list = HOST_LISTS + slot * 4096u;
	uint32_t pages = (len + 4095) / 4096;

	sqe->prp1 = data;
	sqe->prp2 = pages == 2 ? data + 4096 : HOSTILE_IOVA + list;
	for (uint32_t i = 1; pages > 2 && i < pages; i++)
		((uint64_t *)(void *)(a->host.mem + list))[i - 1] = data + 4096ull * i;
}

/* A last segment of as many pieces as fit; the first of them may be a segment itself. */
static void by_sgl(struct attack *a, struct nvme_sqe *sqe, uint32_t len, unsigned slot)
{
	uint64_t data = HOSTILE_IOVA + HOST_DATA + (uint64_t)slot * VALUE_MAX;
	uint64_t list = HOST_LISTS + slot * 4096u;
	struct nvme_sgl *d = (void *)(a->host.mem + list);
	uint32_t nr = 1 + (uint32_t)rng_below(&a->rng, 64), each = len / nr;

	sqe->flags = 1 << 6;
	sqe->sgl = (struct nvme_sgl){
		.addr = HOSTILE_IOVA + list, .len = nr * 16, .id = NVME_SGL_LAST_SEGMENT << 4};
	for (uint32_t i = 0; i < nr; i++) {
		d[i] = (struct nvme_sgl){.addr = data, .len = i + 1 < nr ? each : len};
		data += each;
		len -= each;
	}
}

/* A key of its own, or one that everybody can guess: in its namespace it is a miss. */
static void any_key(struct attack *a, struct nvme_sqe *sqe, uint8_t opts)
{
	uint8_t key[16] = "hostile";

	if (a->may_guess && rng_chance(&a->rng, 1, 4))
		victim_key((uint32_t)rng_below(&a->rng, VICTIM_KEYS), key);
	else
		key[15] = (uint8_t)rng_below(&a->rng, 64);
	nvme_kv_key_set(sqe, key, 16, opts);
}

static void any_command(struct attack *a, struct nvme_sqe *sqe, unsigned slot)
{
	static const uint8_t opcodes[] = {1, 1, 2, 2, 2, 6, 0x10, 0x14, 0x81, 0x82, 0x85, 0x8a};
	uint8_t opc = opcodes[rng_below(&a->rng, sizeof(opcodes))];
	uint32_t len = 1 + (uint32_t)rng_below(&a->rng, VALUE_MAX);

	*sqe = (struct nvme_sqe){.opc = opc, .cid = (uint16_t)slot, .nsid = a->nsid, .cdw10 = len};
	any_key(a, sqe, 0);
	if (opc == 0x85)
		sqe->cdw10 = len = 24 * (1 + len % 64);
	if (opc == 0x8a)
		sqe->cdw12 = 1 + len % 60000;
	if (opc == 0x10 || opc == 0x14)
		return;
	if (rng_chance(&a->rng, 1, 2))
		by_prp(a, sqe, len, slot);
	else
		by_sgl(a, sqe, len, slot);
}

static void submit_wave(struct attack *a, unsigned q, unsigned nr)
{
	struct nvme_sqe sqe;

	for (unsigned i = 0; i < nr; i++) {
		any_command(a, &sqe, i + WAVE * (q - 1));
		host_put(&a->host, q, &sqe);
	}
	host_ring(&a->host, q);
}

/* ---- scribble ---- */

static void scribble_once(struct attack *a, struct rng *r)
{
	uint8_t *mem = a->host.mem;
	size_t rings = 5 * HOST_RING_BYTES;

	switch (rng_below(r, 4)) {
	case 0: /* a bit of an SQE or a CQE */
		mem[rng_below(r, rings)] ^= (uint8_t)(1u << rng_below(r, 8));
		return;
	case 1: /* an address to another place, mapped or not */
		((uint64_t *)(void *)(mem + HOST_LISTS))[rng_below(r, HOST_LISTS / 8)] =
			HOSTILE_IOVA + (rng_u64(r) & (rng_chance(r, 1, 2) ? 0xffffff : ~0ull));
		return;
	case 2: /* a length or a type */
		mem[HOST_LISTS + rng_below(r, HOST_LISTS)] = (uint8_t)rng_u64(r);
		return;
	default:
		mem[HOST_DATA + rng_below(r, HOST_BYTES - HOST_DATA)] = (uint8_t)rng_u64(r);
	}
}

static void *scribble_main(void *arg)
{
	struct attack *a = arg;
	struct rng r;

	rng_init(&r, 77);
	for (;;) {
		if (atomic_load_explicit(&a->is_calm, memory_order_relaxed))
			poll(NULL, 0, 1);
		else
			scribble_once(a, &r);
	}
	return NULL;
}

/*
 * Attaching is scribbled on as well, once: of eight admin commands in a row hardly ever all stay
 * whole, so whoever tries until it succeeds may do nothing else for minutes.
 */
static void scribble_attach(struct attack *a, unsigned nr)
{
	host_hang_up(&a->host);
	if (host_attach(&a->host, nr) == 0)
		return;
	atomic_store(&a->is_calm, true);
	attack_attach(a, nr);
	atomic_store(&a->is_calm, false);
}

static void attack_scribble(struct attack *a)
{
	pthread_t thread;

	/* A scribbled NSID with a key of the victim's would be a command like any other. */
	a->may_guess = false;
	/* An admin command that was spoilt may be answered never. */
	a->host.admin_ms = 500;
	attack_attach(a, 4);
	must(pthread_create(&thread, NULL, scribble_main, a) == 0);
	for (;;) {
		for (unsigned q = 1; q <= 4; q++) {
			submit_wave(a, q, WAVE);
			attack_did(a);
		}
		/* Its phases and heads mean nothing any more: whatever looks like an answer. */
		for (unsigned n = 0; n < 200; n++)
			for (unsigned q = 1; q <= 4; q++)
				host_reap(&a->host, q, NULL, WAVE);
		if (rng_chance(&a->rng, 1, 16) && is_dead(a))
			scribble_attach(a, 4);
		/* Never stuck for long on rings that don't agree any more. */
		if (rng_chance(&a->rng, 1, 64))
			scribble_attach(a, 4);
	}
}

/* ---- unmap ---- */

static void area_wave(struct attack *a, unsigned q)
{
	struct nvme_sqe sqe;
	uint8_t key[16] = "area";

	for (unsigned i = 0; i < WAVE; i++) {
		sqe = (struct nvme_sqe){.opc = i % 4 ? 2 : 1,
					.flags = 1 << 6,
					.cid = (uint16_t)i,
					.nsid = a->nsid,
					.cdw10 = AREA_BYTES / WAVE};
		key[15] = (uint8_t)(i % 4);
		nvme_kv_key_set(&sqe, key, 16, 0);
		sqe.sgl = (struct nvme_sgl){.addr = HOSTILE_AREA_IOVA + i * (AREA_BYTES / WAVE),
					    .len = AREA_BYTES / WAVE};
		host_put(&a->host, q, &sqe);
	}
	host_ring(&a->host, q);
}

/* After the answer the memory is ours: what is written to it later is a fault of the daemon's. */
static int take_away(struct attack *a, int area, uint8_t *mem)
{
	uint64_t fill = rng_u64(&a->rng) | 1;
	int err = host_unmap(&a->host, HOSTILE_AREA_IOVA, AREA_BYTES);

	if (err)
		return err;
	if (ftruncate(area, AREA_BYTES))
		return -errno;
	for (size_t i = 0; i < AREA_BYTES / 8; i += 64)
		((uint64_t *)(void *)mem)[i] = fill;
	for (unsigned n = 0; n < 50; n++)
		host_reap(&a->host, 1, NULL, WAVE);
	for (size_t i = 0; i < AREA_BYTES / 8; i += 64)
		if (((uint64_t *)(void *)mem)[i] != fill)
			atomic_fetch_add(&a->seen->faults, 1);
	return host_map(&a->host, HOSTILE_AREA_IOVA, AREA_BYTES, area);
}

/* All of the guest's memory moves to another file while the controller is enabled. */
static int move_guest(struct attack *a)
{
	int err = host_unmap(&a->host, HOSTILE_IOVA, HOST_BYTES);

	return err ? err : host_map(&a->host, HOSTILE_IOVA, HOST_BYTES, a->mem_fd);
}

static int unmap_once(struct attack *a, int area, uint8_t *mem)
{
	const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	area_wave(a, 1);
	attack_did(a);
	switch (rng_below(&a->rng, 6)) {
	case 0:
	case 1:
		return take_away(a, area, mem);
	case 2:
		(void)fallocate(area, punch, 0, AREA_BYTES);
		return 0;
	case 3:
		if (ftruncate(area, (off_t)rng_below(&a->rng, AREA_BYTES)))
			return -errno;
		return take_away(a, area, mem);
	case 4:
		return move_guest(a);
	default: /* the rings themselves: zeroes, in the middle of a wave */
		(void)fallocate(a->mem_fd, punch, 0, HOST_DATA);
		return rng_chance(&a->rng, 1, 4) ? -EIO : 0;
	}
}

static void attack_unmap(struct attack *a)
{
	int area = memfd_create("area", MFD_CLOEXEC);
	uint8_t *mem;

	must(area >= 0 && ftruncate(area, AREA_BYTES) == 0);
	mem = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, area, 0);
	must(mem != MAP_FAILED);
	for (;;) {
		int err;

		attack_attach(a, 1);
		err = ftruncate(area, AREA_BYTES);
		if (!err)
			err = host_map(&a->host, HOSTILE_AREA_IOVA, AREA_BYTES, area);
		for (unsigned n = 0; n < 64 && !err; n++) {
			err = unmap_once(a, area, mem);
			for (unsigned i = 0; i < 1000; i++)
				host_reap(&a->host, 1, NULL, WAVE);
		}
	}
}

/* ---- a CQ head that never moves ---- */

static void attack_stall(struct attack *a)
{
	for (;;) {
		attack_attach(a, HOST_QUEUES - 1);
		for (unsigned n = 0; n < 64; n++) {
			for (unsigned q = 1; q < HOST_QUEUES; q++) {
				/* Fills the queue, and then says so again and again. */
				if (n == 0)
					for (unsigned i = 0; i < 10; i++)
						submit_wave(a, 1 + (q - 1) % 4, WAVE);
				host_bell(&a->host, 2 * q, (uint32_t)(n * 31) % HOST_SLOTS);
			}
			attack_did(a);
			poll(NULL, 0, 1);
		}
	}
}

/* ---- doorbells ---- */

static void *flood_main(void *arg)
{
	struct attack *a = arg;
	struct rng r;

	rng_init(&r, 99);
	for (;;) {
		uint32_t val = (uint32_t)rng_u64(&r);

		/* Any word of the page; every second value is a valid one. */
		host_bell(&a->host, (uint32_t)rng_below(&r, 1024),
			  rng_chance(&r, 1, 2) ? val % HOST_SLOTS : val);
	}
	return NULL;
}

/* 128 queues' worth of commands, as fast as they come back, and doorbells by message between. */
static void attack_flood(struct attack *a)
{
	pthread_t thread;
	bool is_started = false;

	attack_attach(a, HOST_QUEUES - 1);
	for (unsigned n = 0;; n++) {
		for (unsigned q = 1; q < HOST_QUEUES; q++)
			submit_wave(a, q, WAVE);
		for (unsigned q = 1; q < HOST_QUEUES; q++)
			host_reap(&a->host, q, NULL, HOST_SLOTS);
		(void)host_reg_write(&a->host, 0x1000 + 4 * (uint32_t)rng_below(&a->rng, 1024),
				     rng_u64(&a->rng), 4);
		attack_did(a);
		if (n == 100 && !is_started) {
			is_started = true;
			must(pthread_create(&thread, NULL, flood_main, a) == 0);
		}
	}
}

/* ---- dying ---- */

static void attack_die(struct attack *a)
{
	attack_attach(a, 4);
	for (;;) {
		for (unsigned q = 1; q <= 4; q++)
			submit_wave(a, q, WAVE);
		attack_did(a);
		for (unsigned q = 1; q <= 4; q++)
			host_reap(&a->host, q, NULL, HOST_SLOTS);
	}
}

const struct attack_kind attack_memory_kinds[] = {
	{"scribble", attack_scribble, 400, 1},
	{"unmap", attack_unmap, 100, 1},
	{"stall", attack_stall, 64, 1},
	{"flood", attack_flood, 400, 1},
	{"die", attack_die, 3, 50},
	{NULL, NULL, 0, 0},
};
