/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PRP and SGL walks against a reference that keeps every piece in an array: random layouts, maps
 * and steps; a status for each thing a host can get wrong; garbage, and lists that change under
 * the walk.
 */
#include "unit.h"
#include <errno.h>
#include "base/must.h"
#include "base/rng.h"
#include "target/tgt.h"

#define BUS 0x7fff00000000ull
#define PAGE 4096u
#define NR_PAGES 512u
#define MEM_BYTES (NR_PAGES * PAGE)
#define MAPS_MAX 64
#define PIECES_MAX 8192

static struct {
	struct rng rng;
	uint8_t *mem;
	uint64_t map_at[MAPS_MAX + 1]; /* offsets, ascending; the last is the end */
	struct mem_region maps[MAPS_MAX];
	bool is_mapped[MAPS_MAX];
	unsigned nr_maps;
	uint16_t order[NR_PAGES]; /* shuffled pages, handed out from the front */
	unsigned nr_taken;
	struct mem_region sink;
	struct tgt_worker worker;
	struct tgt_sq sq;
	struct tgt_req req;
} e;

/* What the walk must give: bus addresses, or the sink. */
static struct {
	uint64_t addr, len;
	bool is_sink;
} pieces[PIECES_MAX];
static unsigned nr_pieces;

static int resolve(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
		   struct mem_run *run)
{
	uint64_t off = addr - BUS;

	must(len > 0);
	for (unsigned i = 0; i < e.nr_maps && addr >= BUS; i++) {
		if (off < e.map_at[i] || off >= e.map_at[i + 1])
			continue;
		if (!e.is_mapped[i])
			return -EFAULT;
		run->reg = &e.maps[i];
		run->off = off - e.map_at[i];
		run->len = len < e.map_at[i + 1] - off ? len : e.map_at[i + 1] - off;
		return 0;
	}
	return -EFAULT;
}

static const struct tgt_sq_ops sq_ops = {.data = tgt_dptr_init, .resolve = resolve};

/* Maps of random sizes, multiples of a page. */
static void env_maps(unsigned nr)
{
	uint64_t at = 0;

	must(nr <= MAPS_MAX);
	for (unsigned i = 0; i < nr; i++) {
		e.map_at[i] = at;
		at += i + 1 == nr ? MEM_BYTES - at
				  : PAGE * (1 + rng_below(&e.rng,
							  (MEM_BYTES - at) / PAGE - (nr - 1 - i)));
		e.maps[i] = (struct mem_region){
			.domain = MEM_HOST,
			.flags = MEM_READABLE | MEM_WRITABLE,
			.base = e.mem + e.map_at[i],
			.len = at - e.map_at[i],
			.fd = -1,
		};
		e.is_mapped[i] = true;
	}
	e.map_at[nr] = at;
	e.nr_maps = nr;
}

static void env_reset(void)
{
	uint16_t tmp;
	unsigned j;

	for (unsigned i = 0; i < NR_PAGES; i++)
		e.order[i] = (uint16_t)i;
	/* Half of the time in order, so that neighbours merge. */
	for (unsigned i = NR_PAGES - 1; i > 0 && rng_chance(&e.rng, 1, 2); i--) {
		j = (unsigned)rng_below(&e.rng, i + 1);
		tmp = e.order[i];
		e.order[i] = e.order[j];
		e.order[j] = tmp;
	}
	e.nr_taken = 0;
	env_maps(1 + (unsigned)rng_below(&e.rng, 20));
	nr_pieces = 0;
	memset(&e.req.sqe, 0, sizeof(e.req.sqe));
	memset(&e.req.dptr, 0xa5, sizeof(e.req.dptr));
}

static int setup(void **state)
{
	rng_init(&e.rng, unit_seed(0xd1));
	e.mem = aligned_alloc(PAGE, MEM_BYTES);
	e.sink = (struct mem_region){
		.domain = MEM_HOST, .flags = MEM_WRITABLE, .len = TGT_SINK_BYTES};
	e.worker.sink = &e.sink;
	tgt_sq_init(&e.sq, &sq_ops, NULL, &e.worker, 1);
	e.req.sq = &e.sq;
	return e.mem ? 0 : -1;
}

static int teardown(void **state)
{
	free(e.mem);
	return 0;
}

static uint64_t take_page(void)
{
	must(e.nr_taken < NR_PAGES);
	return BUS + (uint64_t)e.order[e.nr_taken++] * PAGE;
}

static void put64(uint64_t addr, uint64_t val)
{
	memcpy(e.mem + (addr - BUS), &val, 8);
}

static void expect(uint64_t addr, uint64_t len, bool is_sink)
{
	must(nr_pieces < PIECES_MAX);
	pieces[nr_pieces].addr = addr;
	pieces[nr_pieces].len = len;
	pieces[nr_pieces++].is_sink = is_sink;
}

/* Walks in random steps and compares. */
static void walk(uint64_t len)
{
	uint64_t at = 0, max, n;
	unsigned i = 0;
	struct mem_run run;

	while (len) {
		max = rng_chance(&e.rng, 1, 2) ? 1 + rng_below(&e.rng, 70000) : len;
		max = max < len ? max : len;
		assert_int_equal(e.req.iter->next(e.req.iter, max, &run), 0);
		assert_true(run.len > 0 && run.len <= max);
		for (uint64_t done = 0; done < run.len; done += n) {
			while (at == pieces[i].len) {
				at = 0;
				i++;
			}
			assert_true(i < nr_pieces);
			n = pieces[i].len - at < run.len - done ? pieces[i].len - at
								: run.len - done;
			if (pieces[i].is_sink)
				assert_ptr_equal(run.reg, &e.sink);
			else
				assert_ptr_equal(run.reg->base + run.off + done,
						 e.mem + (pieces[i].addr + at - BUS));
			at += n;
		}
		len -= run.len;
	}
	assert_int_equal(e.req.iter->next(e.req.iter, 1, &run), -ENODATA);
}

/* ---- PRP ---- */

static void prp_build(uint32_t off, uint64_t len)
{
	uint64_t page = take_page(), first = len < PAGE - off ? len : PAGE - off,
		 rest = len - first;
	uint64_t list, n, nr;

	e.req.sqe.prp1 = page + off;
	e.req.sqe.prp2 = rng_u64(&e.rng); /* garbage when it isn't used */
	expect(page + off, first, false);
	if (rest == 0)
		return;
	if (rest <= PAGE) {
		e.req.sqe.prp2 = take_page();
		expect(e.req.sqe.prp2, rest, false);
		return;
	}
	list = take_page() + 8 * rng_below(&e.rng, PAGE / 8);
	if (rng_chance(&e.rng, 1, 4)) /* at the very end: nothing but the pointer to the next */
		list |= PAGE - 8;
	e.req.sqe.prp2 = list;
	while (rest) {
		nr = (PAGE - list % PAGE) / 8;
		if (nr == 1 && rest > PAGE) {
			page = take_page();
			put64(list, page);
			list = page;
			continue;
		}
		page = take_page();
		put64(list, page);
		list += 8;
		n = rest < PAGE ? rest : PAGE;
		expect(page, n, false);
		rest -= n;
	}
}

static void test_prp_random(void **state)
{
	uint64_t len;
	uint32_t off;

	for (int i = 0; i < 3000; i++) {
		env_reset();
		off = rng_chance(&e.rng, 1, 3) ? 0 : 4 * (uint32_t)rng_below(&e.rng, 1024);
		len = 1 + rng_below(&e.rng, rng_chance(&e.rng, 1, 4) ? 480 * PAGE : 5 * PAGE);
		prp_build(off, len);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(tgt_dptr_init(&e.req, len, MEM_TO_PEER), 0);
			walk(len);
		}
	}
}

/* More than one list page: 1100 pages of data, most of them the same one. */
static void test_prp_chain(void **state)
{
	uint64_t data, lists[4], list;
	const unsigned nr = 1100;

	env_reset();
	data = take_page();
	for (int i = 0; i < 4; i++)
		lists[i] = take_page();
	e.req.sqe.prp1 = data;
	e.req.sqe.prp2 = lists[0] + 4080; /* one entry, then the pointer */
	put64(lists[0] + 4080, data);
	put64(lists[0] + 4088, lists[1]);
	for (unsigned i = 0; i < 511; i++) {
		put64(lists[1] + 8 * i, data);
		put64(lists[2] + 8 * i, data);
	}
	put64(lists[1] + 4088, lists[2]);
	put64(lists[2] + 4088, lists[3]);
	list = nr - 2 - 2 * 511;
	for (unsigned i = 0; i < list; i++)
		put64(lists[3] + 8 * i, data);
	put64(lists[3] + 8 * list, 1); /* never looked at */
	for (unsigned i = 0; i < nr; i++)
		expect(data, PAGE, false);
	assert_int_equal(tgt_dptr_init(&e.req, nr * PAGE, MEM_FROM_PEER), 0);
	walk(nr * PAGE);
	/* A list page that is exactly full has no pointer. */
	put64(lists[1] + 4088, data);
	e.req.sqe.prp2 = lists[1];
	nr_pieces = 513;
	assert_int_equal(tgt_dptr_init(&e.req, 513 * PAGE, MEM_FROM_PEER), 0);
	walk(513 * PAGE);
}

static int drain(uint64_t len)
{
	struct mem_run run;
	int err;

	for (; len; len -= run.len) {
		err = e.req.iter->next(e.req.iter, len, &run);
		if (err)
			return err;
		must(run.len > 0 && run.len <= len);
		must(run.off + run.len <= run.reg->len);
	}
	return 0;
}

/* Status of init, or else of the walk. */
static uint16_t status_of(uint64_t len, enum mem_xfer_dir dir)
{
	uint16_t st = tgt_dptr_init(&e.req, len, dir);
	int err;

	if (st != NVME_ST_OK)
		return st;
	err = drain(len);
	assert_true((err == 0) == (e.req.dptr.status == NVME_ST_OK));
	if (err) /* and it stays so */
		assert_int_equal(drain(len), err);
	assert_int_equal(tgt_req_iter_status(&e.req),
			 err ? e.req.dptr.status : NVME_ST_DATA_TRANSFER);
	return e.req.dptr.status;
}

static void test_prp_status(void **state)
{
	uint64_t page, list;

	env_reset();
	env_maps(1);
	page = take_page();
	list = take_page();
	e.req.sqe.prp1 = page;
	e.req.sqe.prp2 = page;
	assert_int_equal(status_of(0, MEM_TO_PEER), NVME_ST_OK);
	assert_int_equal(status_of(8192, MEM_TO_PEER), NVME_ST_OK);
	e.req.sqe.prp1 = page + 2;
	assert_int_equal(status_of(4, MEM_TO_PEER), NVME_ST_PRP_OFFSET);
	e.req.sqe.prp1 = page;
	e.req.sqe.prp2 = page + 4;
	assert_int_equal(status_of(4097, MEM_TO_PEER), NVME_ST_PRP_OFFSET);
	assert_int_equal(status_of(4096, MEM_TO_PEER), NVME_ST_OK);
	e.req.sqe.prp2 = list + 4;
	assert_int_equal(status_of(3 * PAGE, MEM_TO_PEER), NVME_ST_PRP_OFFSET);
	e.req.sqe.prp2 = list;
	put64(list, page);
	put64(list + 8, page + 8);
	assert_int_equal(status_of(3 * PAGE, MEM_TO_PEER), NVME_ST_PRP_OFFSET);
	put64(list + 8, page);
	assert_int_equal(status_of(3 * PAGE, MEM_TO_PEER), NVME_ST_OK);
	e.req.sqe.prp2 = list + 4088; /* pointer to the next list page */
	put64(list + 4088, list + 8);
	assert_int_equal(status_of(3 * PAGE, MEM_TO_PEER), NVME_ST_PRP_OFFSET);
	put64(list + 4088, 0x1000);
	assert_int_equal(status_of(3 * PAGE, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	e.req.sqe.prp2 = 0; /* not mapped */
	assert_int_equal(status_of(3 * PAGE, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	assert_int_equal(status_of(2 * PAGE, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	e.req.sqe.prp1 = BUS - 4;
	assert_int_equal(status_of(4, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	e.req.sqe.prp1 = ~3ull;
	assert_int_equal(status_of(4, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	e.req.sqe.prp1 = ~(uint64_t)4095; /* the end of all addresses, then 0 */
	e.req.sqe.prp2 = 0;
	assert_int_equal(status_of(8192, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	e.req.sqe.prp1 = page;
	e.req.sqe.flags = 3 << 6;
	assert_int_equal(status_of(4, MEM_TO_PEER), NVME_ST_INVALID_FIELD);
}

/* ---- SGL ---- */

static struct nvme_sgl desc(unsigned type, uint64_t addr, uint32_t len)
{
	return (struct nvme_sgl){.addr = addr, .len = len, .id = (uint8_t)(type << 4)};
}

static void put_desc(uint64_t addr, struct nvme_sgl d)
{
	memcpy(e.mem + (addr - BUS), &d, sizeof(d));
}

/*
 * A random tree of `nr` descriptors; returns its bytes. Data may overlap: only addresses are
 * compared.
 */
static uint64_t sgl_build(unsigned nr, enum mem_xfer_dir dir)
{
	struct nvme_sgl d, *where = &e.req.sqe.sgl;
	uint64_t sum = 0, page;
	unsigned room;
	bool is_last;

	while (nr) {
		room = 1 + (unsigned)rng_below(&e.rng, 255);
		is_last = room >= nr;
		room = is_last ? nr : room;
		page = take_page();
		*where = desc(is_last ? NVME_SGL_LAST_SEGMENT : NVME_SGL_SEGMENT, page,
			      (room + !is_last) * 16);
		for (unsigned i = 0; i < room; i++) {
			d = desc(rng_chance(&e.rng, 1, 6) ? NVME_SGL_BIT_BUCKET
							  : NVME_SGL_DATA_BLOCK,
				 0,
				 (uint32_t)rng_below(&e.rng,
						     rng_chance(&e.rng, 1, 9) ? 200000 : 6000));
			if (rng_chance(&e.rng, 1, 8))
				d.len = 0;
			d.addr = BUS + rng_below(&e.rng, MEM_BYTES - d.len + 1);
			put_desc(page + 16 * i, d);
			if (d.id >> 4 == NVME_SGL_DATA_BLOCK)
				expect(d.addr, d.len, false);
			else
				expect(0, dir == MEM_TO_PEER ? d.len : 0, true);
			sum += pieces[nr_pieces - 1].len;
		}
		where = (struct nvme_sgl *)(e.mem + (page - BUS) + 16 * room);
		nr -= room;
	}
	return sum;
}

static void test_sgl_random(void **state)
{
	enum mem_xfer_dir dir;
	uint64_t sum, len;

	for (int i = 0; i < 2000; i++) {
		env_reset();
		dir = rng_chance(&e.rng, 1, 2) ? MEM_TO_PEER : MEM_FROM_PEER;
		e.req.sqe.flags = (uint8_t)((1 + rng_below(&e.rng, 2)) << 6);
		sum = sgl_build(1 + (unsigned)rng_below(&e.rng, 600), dir);
		if (sum == 0)
			continue;
		len = rng_chance(&e.rng, 1, 2) ? sum : 1 + rng_below(&e.rng, sum);
		assert_int_equal(tgt_dptr_init(&e.req, len, dir), 0);
		walk(len);
		assert_int_equal(status_of(sum + 1, dir), NVME_ST_SGL_LEN);
	}
}

static uint16_t sgl_status(struct nvme_sgl d, uint64_t len, enum mem_xfer_dir dir)
{
	e.req.sqe.sgl = d;
	return status_of(len, dir);
}

static void test_sgl_status(void **state)
{
	uint64_t a, list, other;
	struct nvme_sgl sub;

	env_reset();
	env_maps(1);
	e.req.sqe.flags = 1 << 6;
	a = take_page();
	list = take_page();
	other = take_page();
	assert_int_equal(sgl_status(desc(0, a, 100), 100, MEM_TO_PEER), NVME_ST_OK);
	assert_int_equal(sgl_status(desc(0, a + 1, 101), 100, MEM_TO_PEER), NVME_ST_OK);
	assert_int_equal(sgl_status(desc(0, a, 99), 100, MEM_TO_PEER), NVME_ST_SGL_LEN);
	assert_int_equal(sgl_status(desc(0, 8, 100), 100, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	assert_int_equal(sgl_status(desc(0, ~0ull, 100), 100, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	assert_int_equal(sgl_status(desc(1, 0, 100), 100, MEM_TO_PEER), NVME_ST_OK);
	assert_int_equal(sgl_status(desc(1, 0, 100), 100, MEM_FROM_PEER), NVME_ST_SGL_LEN);
	for (unsigned type = 4; type < 16; type++)
		assert_int_equal(sgl_status(desc(type, a, 100), 100, MEM_TO_PEER),
				 NVME_ST_SGL_TYPE);
	sub = desc(0, a, 100);
	sub.id |= 1;
	assert_int_equal(sgl_status(sub, 100, MEM_TO_PEER), NVME_ST_SGL_TYPE);
	/* Segments: length and address. */
	assert_int_equal(sgl_status(desc(3, list, 0), 8, MEM_TO_PEER), NVME_ST_SGL_SEGMENT);
	assert_int_equal(sgl_status(desc(3, list, 24), 8, MEM_TO_PEER), NVME_ST_SGL_SEGMENT);
	assert_int_equal(sgl_status(desc(2, list + 4, 16), 8, MEM_TO_PEER), NVME_ST_SGL_SEGMENT);
	assert_int_equal(sgl_status(desc(2, 16, 16), 8, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	assert_int_equal(sgl_status(desc(2, ~7ull, 16), 8, MEM_TO_PEER), NVME_ST_DATA_TRANSFER);
	put_desc(list, desc(0, a, 8));
	put_desc(list + 16, desc(3, other, 16));
	put_desc(other, desc(0, a, 8));
	assert_int_equal(sgl_status(desc(3, list, 16), 8, MEM_TO_PEER), NVME_ST_OK);
	assert_int_equal(sgl_status(desc(3, list, 16), 9, MEM_TO_PEER), NVME_ST_SGL_LEN);
	assert_int_equal(sgl_status(desc(2, list, 32), 16, MEM_TO_PEER), NVME_ST_OK);
	/* A last segment that goes on, and a segment that isn't the last descriptor. */
	assert_int_equal(sgl_status(desc(3, list, 32), 16, MEM_TO_PEER), NVME_ST_SGL_SEGMENT);
	assert_int_equal(sgl_status(desc(2, list, 48), 16, MEM_TO_PEER), NVME_ST_SGL_COUNT);
	/* Segments that lead to themselves, and descriptors without data, end. */
	put_desc(list, desc(2, list, 16));
	assert_int_equal(sgl_status(desc(2, list, 16), 8, MEM_TO_PEER), NVME_ST_SGL_COUNT);
	for (unsigned i = 0; i < 256; i++)
		put_desc(list + 16 * i, desc(0, a, 0));
	put_desc(list + 4080, desc(2, list, 4096));
	assert_int_equal(sgl_status(desc(2, list, 4096), 8, MEM_TO_PEER), NVME_ST_SGL_COUNT);
	put_desc(list, desc(0, a, 1)); /* a byte a round: data goes on, but not for ever */
	put_desc(list + 16, desc(2, list, 32));
	assert_int_equal(sgl_status(desc(2, list, 32), 1 << 20, MEM_TO_PEER), NVME_ST_SGL_COUNT);
}

/* The sink's pieces never overlap within 64 KiB of data: a checker may read them again. */
/* Lists finer than anybody needs are refused before they cost more than their data. */
static void test_sgl_crumbs(void **state)
{
	uint64_t list = BUS, a = BUS + MEM_BYTES - PAGE;
	uint32_t len;

	static_assert(MEM_BYTES >= 8192 * 16 + PAGE, "the list doesn't reach the data");
	for (len = 1; len <= 64; len *= 2) {
		env_reset();
		env_maps(1);
		e.req.sqe.flags = 1 << 6;
		for (unsigned i = 0; i < 8192; i++)
			put_desc(list + 16 * i, desc(0, a, len));
		assert_int_equal(sgl_status(desc(3, list, 8192 * 16), 256 * len, MEM_TO_PEER),
				 NVME_ST_OK);
		assert_int_equal(sgl_status(desc(3, list, 8192 * 16), 8192 * len, MEM_TO_PEER),
				 len < 16 ? NVME_ST_SGL_COUNT : NVME_ST_OK);
	}
}

static void test_sink(void **state)
{
	struct mem_run run;
	uint64_t at = 0;

	env_reset();
	e.req.sqe.flags = 1 << 6;
	e.req.sqe.sgl = desc(1, 0, 300000);
	assert_int_equal(tgt_dptr_init(&e.req, 300000, MEM_TO_PEER), 0);
	while (at < 300000) {
		assert_int_equal(e.req.iter->next(e.req.iter, 1 + rng_below(&e.rng, 300000), &run),
				 0);
		assert_true(run.off + run.len <= TGT_SINK_BYTES);
		assert_int_equal((run.off + (300000 - at)) % TGT_SINK_BYTES, 0);
		at += run.len;
	}
}

/* Garbage everywhere, changing while the walk goes on: it ends, and stays inside the maps. */
static void test_hostile(void **state)
{
	uint64_t len, left, addr;
	struct mem_run run;

	for (int i = 0; i < 20000; i++) {
		if (i % 100 == 0) {
			env_reset();
			for (addr = 0; addr < MEM_BYTES; addr += 8)
				put64(BUS + addr,
				      rng_chance(&e.rng, 1, 50)
					      ? rng_u64(&e.rng)
					      : BUS + PAGE * rng_below(&e.rng, NR_PAGES + 2));
		}
		e.is_mapped[rng_below(&e.rng, e.nr_maps)] = rng_chance(&e.rng, 3, 4);
		rng_fill(&e.rng, &e.req.sqe, sizeof(e.req.sqe));
		e.req.sqe.prp1 = BUS + rng_below(&e.rng, MEM_BYTES);
		if (rng_chance(&e.rng, 3, 4))
			e.req.sqe.prp1 &= ~3ull;
		if (rng_chance(&e.rng, 1, 2))
			e.req.sqe.prp2 = BUS + 8 * rng_below(&e.rng, MEM_BYTES / 8);
		if (e.req.sqe.flags >> 6 && rng_chance(&e.rng, 1, 2))
			e.req.sqe.sgl = desc((unsigned)rng_below(&e.rng, 4),
					     BUS + 8 * rng_below(&e.rng, 50000),
					     16 * (uint32_t)rng_below(&e.rng, 5000));
		len = 1 + rng_below(&e.rng, 4 << 20);
		if (tgt_dptr_init(&e.req, len,
				  rng_chance(&e.rng, 1, 2) ? MEM_TO_PEER : MEM_FROM_PEER))
			continue;
		for (left = len; left; left -= run.len) {
			put64(BUS + 8 * rng_below(&e.rng, MEM_BYTES / 8),
			      BUS + PAGE * rng_below(&e.rng, NR_PAGES));
			if (e.req.iter->next(e.req.iter, left, &run))
				break;
			assert_true(run.len > 0 && run.len <= left);
			assert_true(run.off < run.reg->len && run.len <= run.reg->len - run.off);
		}
		if (left)
			assert_int_not_equal(e.req.dptr.status, NVME_ST_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prp_random), cmocka_unit_test(test_prp_chain),
		cmocka_unit_test(test_prp_status), cmocka_unit_test(test_sgl_random),
		cmocka_unit_test(test_sgl_status), cmocka_unit_test(test_sgl_crumbs),
		cmocka_unit_test(test_sink),	   cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
