/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of the ssd tier inside one thread, beside plain O_DIRECT reads of the same file by io_uring
 * at the same depth and size: what the tier itself costs, without a daemon and a client.
 *
 *     micro_ssd FILE [MIB [VALUE [DEPTH [DRAM_MIB]]]]      4096 1048576 1 0
 *
 * The file is made and filled with values of VALUE bytes. Then rounds of both in turn, a second
 * each: store_read of random keys, every piece copied and checked as the target does it; and reads
 * of random extents of that length. Prints the median of the ratios, and of both sides MiB/s and
 * processor time per MiB. DRAM_MIB > 0: a dram tier of that size above.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/mono.h"
#include "base/must.h"
#include "base/rng.h"
#include "core/reactor.h"
#include "peal/seal.h"
#include "store/store.h"
#include "store/store_make.h"
#include "store/store_read.h"

#define ROUNDS 9u
#define DEPTH_MAX 64u
#define ROUND_NS 1000000000ull

static struct reactor *reactor;
static struct store_set *set;
static uint64_t nr_keys, value_bytes, file_bytes;
static unsigned depth;
static struct rng rng;

struct get {
	struct store_read rd;
	uint8_t *buf;
	bool is_over;
	int res;
};

static struct get gets[DEPTH_MAX];

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct store_key make_key(uint64_t no)
{
	struct store_key k = {.len = 16};
	uint64_t x = no;

	k.w[0] = rng_splitmix(&x);
	k.w[1] = rng_splitmix(&x);
	k.hash = hash_key(k.b, k.len);
	return k;
}

struct put {
	struct store_io io;
	bool is_over;
	int res;
};

static void put_end(struct store_io *io, int res)
{
	struct put *p = container_of(io, struct put, io);

	p->is_over = true;
	p->res = res;
}

static int put_run(struct put *p, enum store_op op)
{
	p->io.op = (uint8_t)op;
	p->io.end = put_end;
	p->is_over = false;
	store_submit(set, reactor, &p->io);
	while (!p->is_over)
		reactor_step(reactor);
	return p->res;
}

static void fill_view(const struct store_view *v, const struct store_key *k)
{
	uint64_t *seals = store_seals(v), x = k->w[0];
	struct mem_run run;
	uint32_t n;

	for (uint64_t off = 0; off < v->len; off += n) {
		n = peal_seal_chunk_len(v->value_len, off / MEM_CHUNK_BYTES);
		must(store_runs(v, off, &run, 1) == 1 && run.len >= n);
		for (uint32_t i = 0; i + 8 <= n; i += 8)
			((uint64_t *)(run.reg->base + run.off))[i / 8] = x += 0x9E3779B97F4A7C15ull;
		seals[off / MEM_CHUNK_BYTES] =
			hash_xxh3(run.reg->base + run.off, n,
				  peal_seal_seed_at(k->hash, off / MEM_CHUNK_BYTES));
	}
}

/* Keys that are below for sure: what memory holds is written down by the flush at the end. */
static void fill(void)
{
	static struct put p;
	int res;

	nr_keys = file_bytes / 2 / (value_bytes + (value_bytes >> 7) + 4608);
	for (uint64_t i = 0; i < nr_keys; i++) {
		p.io.key = make_key(i);
		p.io.len = value_bytes;
		p.io.flags = 0;
		p.io.meta = NULL;
		do
			res = put_run(&p, STORE_BUF);
		while (res == -ENOSPC || res == -EBUSY);
		must(res == 0);
		fill_view(&p.io.view, &p.io.key);
		res = put_run(&p, STORE_PUT);
		must(res == 0);
	}
	must(put_run(&p, STORE_FLUSH) == 0);
}

/* ---- the tier -------------------------------------------------------------------------------- */

static void get_piece(struct store_read *rd, const struct store_view *v, uint64_t off, uint64_t len)
{
	struct get *g = container_of(rd, struct get, rd);
	uint64_t c, pos = off;
	struct mem_run run;
	uint32_t n;

	for (; pos < off + len; pos += n) {
		c = pos / MEM_CHUNK_BYTES;
		n = peal_seal_chunk_len(v->value_len, c);
		must(store_runs(v, pos, &run, 1) == 1);
		if (run.len < n) { /* scattered in the arena */
			run.len = n;
			continue;
		}
		must(hash_copy_xxh3(g->buf + pos, run.reg->base + run.off, n,
				    peal_seal_seed_at(rd->key.hash, c)) ==
		     store_seals(v)[c - v->off / MEM_CHUNK_BYTES]);
	}
	store_read_next(rd, false, 0);
}

static void get_end(struct store_read *rd, int res)
{
	struct get *g = container_of(rd, struct get, rd);

	g->res = res;
	g->is_over = true;
}

static void get_start(struct get *g)
{
	g->rd = (struct store_read){
		.set = set,
		.home = reactor,
		.key = make_key(rng_below(&rng, nr_keys)),
		.len = value_bytes,
		.is_eager = true,
		.piece = get_piece,
		.end = get_end,
	};
	g->is_over = false;
	store_read_start(&g->rd);
}

static double round_tier(double *cpu)
{
	uint64_t start = mono_ns(), bytes = 0;
	double c = cpu_s();
	unsigned nr_out = depth;

	for (unsigned i = 0; i < depth; i++)
		get_start(&gets[i]);
	while (nr_out) {
		reactor_step(reactor);
		for (unsigned i = 0; i < depth; i++) {
			if (!gets[i].is_over)
				continue;
			must(gets[i].res == 0);
			gets[i].is_over = false;
			bytes += value_bytes;
			if (mono_ns() - start < ROUND_NS)
				get_start(&gets[i]);
			else
				nr_out--;
		}
	}
	*cpu = (cpu_s() - c) / ((double)bytes / (1 << 20));
	return (double)bytes / (double)(mono_ns() - start) * 1e9 / (1 << 20);
}

/* ---- beside it ------------------------------------------------------------------------------- */

static double round_plain(int fd, double *cpu)
{
	uint64_t start = mono_ns(), bytes = 0, at;
	uint32_t len = (uint32_t)align_up(value_bytes, 4096);
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	unsigned nr_out = 0;
	double c = cpu_s();
	uint64_t slot;

	must(io_uring_queue_init(DEPTH_MAX, &ring, 0) == 0);
	for (slot = 0; slot < depth; slot++) {
again:
		sqe = io_uring_get_sqe(&ring);
		at = rng_below(&rng, (file_bytes - len) / 4096) * 4096;
		io_uring_prep_read(sqe, fd, gets[slot].buf, len, at);
		sqe->user_data = slot;
		nr_out++;
		if (bytes)
			break;
	}
	while (nr_out) {
		io_uring_submit_and_wait(&ring, 1);
		must(io_uring_peek_cqe(&ring, &cqe) == 0 && cqe->res == (int)len);
		slot = cqe->user_data;
		io_uring_cqe_seen(&ring, cqe);
		nr_out--;
		bytes += len;
		if (mono_ns() - start < ROUND_NS)
			goto again;
	}
	io_uring_queue_exit(&ring);
	*cpu = (cpu_s() - c) / ((double)bytes / (1 << 20));
	return (double)bytes / (double)(mono_ns() - start) * 1e9 / (1 << 20);
}

static int by_value(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), by_value);
	return v[ROUNDS / 2];
}

/* Huge pages for both sides: small ones cost a virtual disk more than anything else here. */
static uint8_t *buffer(size_t bytes)
{
	void *p;

	must(posix_memalign(&p, 2u << 20, align_up(bytes, (size_t)2 << 20)) == 0);
	madvise(p, align_up(bytes, (size_t)2 << 20), MADV_HUGEPAGE);
	memset(p, 1, bytes);
	return p;
}

static int no_segment(void *arg, struct mem_region *reg)
{
	return 0;
}

static void open_all(const char *path, uint64_t dram_bytes)
{
	struct reactor_opts ro = {.nr_peers = 1, .spin_ns = UINT64_MAX, .cpu = -1};
	struct store_set_opts so = {
		.name = "bench", .nr_shards = 1, .is_immutable = true, .value_max = 128u << 20};
	struct store_dram_opts dopt = {
		.bytes = dram_bytes, .policy = "lru", .on_segment = no_segment};
	struct store_ssd_opts sopt = {.path = path,
				      .name = "bench",
				      .bytes = file_bytes,
				      .max_keys = (uint32_t)(file_bytes / value_bytes + 1024),
				      .value_max = 128u << 20,
				      .nr_shards = 1};
	struct store *s;

	must(env_linux_create(256, &ro.env) == 0);
	reactor = reactor_create(&ro);
	must(reactor);
	so.reactors = &reactor;
	must(store_set_create(&so, &set) == 0);
	if (dram_bytes) {
		must(store_dram_create(&dopt, &s) == 0);
		store_set_push(set, 0, s);
	}
	unlink(path);
	must(store_ssd_create(&sopt, &s) == 0);
	store_set_push(set, 0, s);
}

int main(int argc, char **argv)
{
	double tier[ROUNDS], plain[ROUNDS], ratio[ROUNDS], tc[ROUNDS], pc[ROUNDS];
	int fd;

	if (argc < 2) {
		fprintf(stderr, "usage: micro_ssd FILE [MIB [VALUE [DEPTH [DRAM_MIB]]]]\n");
		return 2;
	}
	rng_init(&rng, 1);
	file_bytes = (argc > 2 ? strtoull(argv[2], NULL, 0) : 4096) << 20;
	value_bytes = argc > 3 ? strtoull(argv[3], NULL, 0) : 1 << 20;
	depth = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 0) : 1;
	must(depth && depth <= DEPTH_MAX);
	open_all(argv[1], argc > 5 ? strtoull(argv[5], NULL, 0) << 20 : 0);
	for (unsigned i = 0; i < depth; i++)
		gets[i].buf = buffer(align_up(value_bytes, 4096));
	fill();
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	must(fd >= 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		tier[i] = round_tier(&tc[i]);
		plain[i] = round_plain(fd, &pc[i]);
		ratio[i] = tier[i] / plain[i];
	}
	printf("%llu bytes, depth %u: tier %.0f MiB/s %.0f us/MiB, plain %.0f MiB/s %.0f us/MiB, "
	       "ratio %.3f\n",
	       (unsigned long long)value_bytes, depth, median(tier), median(tc) * 1e6,
	       median(plain), median(pc) * 1e6, median(ratio));
	unlink(argv[1]);
	return 0;
}
