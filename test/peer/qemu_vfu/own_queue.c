/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside the guest, without any driver: maps BAR0 through sysfs, brings the controller up by
 * its registers, makes one I/O queue pair of 1024 and drives it by include/peal/device.h, with
 * queues and data in the guest's memory. What a GPU in a guest does, by a CPU.
 *
 *   own_queue wave BDF N    N rounds: 1023 values stored with one doorbell, retrieved with
 *                           another in an order of its own, each compared byte for byte
 *   own_queue lat BDF N [P] Retrieve of 4 KiB, one at a time, with pauses of P to 2 P microseconds
 *                           between them: "min median avg max" of each, microseconds
 *
 * The driver must be unbound. Physical addresses come from huge pages and /proc/self/pagemap, so
 * root. One thread. Exit status 0 when every byte was right.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "peal/device.h"

#define HUGE_BYTES (2u << 20)
#define SIZE 1024u /* slots */
#define WAVE (SIZE - 1)
#define VALUE 4096u
#define VALUES_PER_PAGE (HUGE_BYTES / VALUE)
#define WAIT_S 120

struct page {
	uint8_t *p;
	uint64_t addr;
};

static volatile uint8_t *bar;
static struct page rings, out[2], in[2];
static struct peal_device_queue admin, io;

static struct page page_map(void)
{
	struct page pg;
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	pg.p = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
	if (pg.p == MAP_FAILED)
		err(1, "a huge page");
	memset(pg.p, 0, HUGE_BYTES);
	if (fd < 0 || pread(fd, &entry, 8, (off_t)((uintptr_t)pg.p / 4096 * 8)) != 8)
		err(1, "pagemap");
	close(fd);
	pg.addr = (entry & ((1ull << 55) - 1)) * 4096;
	if (!pg.addr)
		errx(1, "pagemap hides addresses: not root?");
	return pg;
}

static uint32_t reg(uint32_t off)
{
	return *(volatile uint32_t *)(bar + off);
}

static void set_reg(uint32_t off, uint32_t v)
{
	*(volatile uint32_t *)(bar + off) = v;
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void reap(struct peal_device_queue *q, struct peal_cqe *c)
{
	double end = now_us() + WAIT_S * 1e6;

	while (!peal_device_reap(q, c))
		if (now_us() > end)
			errx(1, "no completion for %d s", WAIT_S);
}

static void admin_do(struct peal_sqe *s, const char *what)
{
	struct peal_cqe c;

	s->cid = 7;
	if (!peal_device_put(&admin, s))
		errx(1, "the admin queue is full");
	peal_device_ring(&admin);
	reap(&admin, &c);
	peal_device_reaped(&admin);
	if (peal_cqe_status(&c) || c.cid != 7)
		errx(1, "%s: CID %u, status %#x", what, c.cid, peal_cqe_status(&c));
}

/* Rings in one huge page: admin SQ and CQ, I/O SQ at 64 KiB, I/O CQ at 128 KiB. */
static void queue_at(struct peal_device_queue *q, uint32_t qid, uint32_t sq, uint32_t cq)
{
	q->sq = (struct peal_sqe *)(rings.p + sq);
	q->cq = (volatile struct peal_cqe *)(rings.p + cq);
	q->size = qid ? SIZE : 16;
	peal_device_bells(q, (void *)bar, qid, 4u << (reg(4) & 15)); /* CAP.DSTRD */
	peal_device_start(q);
}

static void enable(void)
{
	struct peal_sqe s = {.opc = 0x05};

	if ((reg(0) & 0xffff) < WAVE)
		errx(1, "CAP.MQES is %u, expected at least %u", reg(0) & 0xffff, WAVE);
	set_reg(0x14, 0);
	while (reg(0x1c) & 1)
		;
	set_reg(0x24, 15u << 16 | 15);
	set_reg(0x28, (uint32_t)rings.addr);
	set_reg(0x2c, (uint32_t)(rings.addr >> 32));
	set_reg(0x30, (uint32_t)rings.addr + 4096);
	set_reg(0x34, (uint32_t)((rings.addr + 4096) >> 32));
	set_reg(0x14, 4u << 20 | 6u << 16 | 6u << 4 | 1);
	while (!(reg(0x1c) & 1))
		if (reg(0x1c) & 2)
			errx(1, "CSTS.CFS");
	queue_at(&admin, 0, 0, 4096);
	queue_at(&io, 1, 1 << 16, 1 << 17);
	s.dptr[0] = rings.addr + (1 << 17);
	s.cdw10 = WAVE << 16 | 1;
	s.cdw11 = 1; /* contiguous, no interrupts: this queue is polled */
	admin_do(&s, "Create I/O CQ");
	s.opc = 0x01;
	s.dptr[0] = rings.addr + (1 << 16);
	s.cdw11 = 1u << 16 | 1;
	admin_do(&s, "Create I/O SQ");
}

static void disable(void)
{
	struct peal_sqe s = {.cdw10 = 1};

	admin_do(&s, "Delete I/O SQ");
	s.opc = 0x04;
	admin_do(&s, "Delete I/O CQ");
	set_reg(0x14, 0);
	while (reg(0x1c) & 1)
		;
}

static struct peal_key key_of(uint32_t round, uint32_t i)
{
	struct peal_key k = {.len = 16};

	memcpy(k.b, "own", 4);
	memcpy(k.b + 4, &round, 4);
	memcpy(k.b + 8, &i, 4);
	return k;
}

/* Byte b of value i: every 8 of them say where they belong. */
static uint64_t word_of(uint32_t round, uint32_t i, uint32_t b)
{
	uint64_t x = ((uint64_t)round << 40 | (uint64_t)i << 20 | b) * 0x9e3779b97f4a7c15ull;

	return x ^ x >> 29;
}

static void value_fill(uint8_t *p, uint32_t round, uint32_t i)
{
	for (uint32_t b = 0; b < VALUE; b += 8) {
		uint64_t w = word_of(round, i, b);

		memcpy(p + b, &w, 8);
	}
}

static void value_check(const uint8_t *p, uint32_t round, uint32_t i)
{
	for (uint32_t b = 0; b < VALUE; b += 8) {
		uint64_t w = word_of(round, i, b);

		if (memcmp(p + b, &w, 8))
			errx(1, "round %u, value %u: wrong at byte %u", round, i, b);
	}
}

static uint8_t *slot_at(const struct page *pg, uint32_t i)
{
	return pg[i / VALUES_PER_PAGE].p + i % VALUES_PER_PAGE * VALUE;
}

static uint64_t slot_addr(const struct page *pg, uint32_t i)
{
	return pg[i / VALUES_PER_PAGE].addr + i % VALUES_PER_PAGE * VALUE;
}

/* One doorbell for all of them; results by CID. `step`, prime to 1023, mixes up the order. */
static void wave(uint8_t opc, uint32_t round, const struct page *pg, uint32_t step)
{
	static uint8_t is_there[WAVE];
	struct peal_cqe c;

	memset(is_there, 0, sizeof(is_there));
	for (uint32_t n = 0; n < WAVE; n++) {
		uint32_t i = n * step % WAVE;
		struct peal_key k = key_of(round, i);
		struct peal_sqe s;

		peal_sqe_keyed(&s, opc, 1, &k, 0);
		if (i % 2)
			peal_sqe_sgl(&s, slot_addr(pg, i), VALUE);
		else
			peal_sqe_prp(&s, slot_addr(pg, i), VALUE);
		s.cid = (uint16_t)i;
		if (!peal_device_put(&io, &s))
			errx(1, "full after %u", n);
	}
	peal_device_ring(&io);
	for (uint32_t n = 0; n < WAVE; n++) {
		reap(&io, &c);
		if (peal_cqe_status(&c) || c.cid >= WAVE || is_there[c.cid])
			errx(1, "round %u: CID %u, status %#x", round, c.cid, peal_cqe_status(&c));
		if (opc == PEAL_KV_RETRIEVE && c.dw0 != VALUE)
			errx(1, "round %u, CID %u: DW0 %u", round, c.cid, c.dw0);
		is_there[c.cid] = 1;
	}
	peal_device_reaped(&io);
}

static void waves(uint32_t rounds)
{
	for (uint32_t round = 0; round < rounds; round++) {
		double t;

		for (uint32_t i = 0; i < WAVE; i++)
			value_fill(slot_at(out, i), round, i);
		wave(PEAL_KV_STORE, round, out, round % 2 ? 5 : 1);
		for (uint32_t i = 0; i < 2; i++)
			memset(in[i].p, 0xee, HUGE_BYTES);
		t = now_us();
		wave(PEAL_KV_RETRIEVE, round, in, 7);
		t = now_us() - t;
		for (uint32_t i = 0; i < WAVE; i++)
			value_check(slot_at(in, i), round, i);
		printf("round %u: %u values of %u bytes right, %.0f us\n", round, WAVE, VALUE, t);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void latency(uint32_t nr, uint32_t pause_us)
{
	double *took = calloc(nr, sizeof(*took)), sum = 0;
	struct peal_key k = key_of(0, 0);
	struct peal_sqe s;
	struct peal_cqe c;

	if (!took)
		err(1, "calloc");
	value_fill(out[0].p, 0, 0);
	for (uint32_t n = 0; n <= nr; n++) {
		double t;

		if (pause_us)
			usleep(pause_us + (uint32_t)rand() % pause_us);
		t = now_us();
		peal_sqe_keyed(&s, n ? PEAL_KV_RETRIEVE : PEAL_KV_STORE, 1, &k, 0);
		peal_sqe_prp(&s, n ? in[0].addr : out[0].addr, VALUE);
		s.cid = (uint16_t)n;
		peal_device_put(&io, &s);
		peal_device_ring(&io);
		reap(&io, &c);
		peal_device_reaped(&io);
		t = now_us() - t;
		if (peal_cqe_status(&c) || c.cid != (uint16_t)n)
			errx(1, "CID %u, status %#x", c.cid, peal_cqe_status(&c));
		if (!n)
			continue;
		value_check(in[0].p, 0, 0);
		memset(in[0].p, 0xee, VALUE);
		took[n - 1] = t;
		sum += t;
	}
	qsort(took, nr, sizeof(*took), by_size);
	printf("%.1f %.1f %.1f %.1f\n", took[0], took[nr / 2], sum / nr, took[nr - 1]);
	free(took);
}

static void bar_map(const char *bdf)
{
	char path[128];
	uint16_t command;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", bdf);
	fd = open(path, O_RDWR);
	if (fd < 0 || pread(fd, &command, 2, 4) != 2)
		err(1, "%s", path);
	command |= 6; /* memory space, bus master */
	if (pwrite(fd, &command, 2, 4) != 2)
		err(1, "%s", path);
	close(fd);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource0", bdf);
	fd = open(path, O_RDWR | O_SYNC);
	if (fd < 0)
		err(1, "%s", path);
	bar = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bar == MAP_FAILED)
		err(1, "%s", path);
	close(fd);
}

int main(int argc, char **argv)
{
	uint32_t nr = argc >= 4 ? (uint32_t)atoi(argv[3]) : 0;
	int is_wave = nr && strcmp(argv[1], "wave") == 0;

	if (!nr || (!is_wave && strcmp(argv[1], "lat")))
		errx(2, "usage: own_queue wave|lat BDF N [PAUSE]");
	bar_map(argv[2]);
	rings = page_map();
	for (uint32_t i = 0; i < 2; i++) {
		out[i] = page_map();
		in[i] = page_map();
	}
	enable();
	if (is_wave)
		waves(nr);
	else
		latency(nr, argc == 5 ? (uint32_t)atoi(argv[4]) : 0);
	disable();
	return 0;
}
