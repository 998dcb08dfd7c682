/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spine end to end, through the fake host: every command ends once and with its own result,
 * data go where they should by PRP and SGL, bad commands end with their status, memory that is
 * unmapped fails its command alone.
 */
#include "fake_fix.h"
#include <errno.h>

static void test_status(void **state)
{
	static const struct {
		struct nvme_sqe sqe;
		uint16_t status;
	} cases[] = {
		{{.opc = FAKE_PING, .nsid = 1}, NVME_ST_OK},
		{{.opc = FAKE_PING, .nsid = 0}, NVME_ST_INVALID_NS},
		{{.opc = FAKE_PING, .nsid = 2}, NVME_ST_INVALID_NS},
		{{.opc = FAKE_PING, .nsid = 1024}, NVME_ST_INVALID_NS},
		{{.opc = FAKE_PING, .nsid = 1025}, NVME_ST_INVALID_NS},
		{{.opc = FAKE_PING, .nsid = 0xffffffff}, NVME_ST_INVALID_NS},
		{{.opc = FAKE_PING, .nsid = 1, .flags = 1}, NVME_ST_INVALID_FIELD},
		{{.opc = FAKE_PING, .nsid = 1, .flags = 2}, NVME_ST_INVALID_FIELD},
		{{.opc = FAKE_PING, .nsid = 1, .flags = 3 << 6}, NVME_ST_INVALID_FIELD},
		{{.opc = FAKE_PING, .nsid = 1, .flags = 1 << 6}, NVME_ST_OK},
		{{.opc = 0x77, .nsid = 1}, NVME_ST_INVALID_OPCODE},
		{{.opc = FAKE_READ, .nsid = 1, .cdw10 = 8, .prp1 = 0x1000}, NVME_ST_DATA_TRANSFER},
		{{.opc = FAKE_READ, .nsid = 1, .cdw10 = 8, .prp1 = FAKE_BUS + 1},
		 NVME_ST_PRP_OFFSET},
		{{.opc = FAKE_READ, .nsid = 1, .cdw10 = 0, .prp1 = 1}, NVME_ST_OK},
	};
	struct fix *f = fix_create(2, NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(fake_tr_exec(f->t, 1, &cases[i].sqe, NULL), cases[i].status);
	assert_int_equal(f->ns->nr_prefetched, f->ns->nr_prepared);
	for (unsigned w = 0; w < 2; w++)
		assert_int_equal(counter_get(&f->ns->ns.stat[w].inflight), 0);
	fix_destroy(f);
}

/* A buffer in pieces, in the order of its bytes. */
static struct {
	uint64_t addr;
	uint32_t len;
} layout[1200];
static unsigned nr_layout;

static void piece(uint64_t addr, uint32_t len)
{
	assert_true(nr_layout < 1200);
	layout[nr_layout].addr = addr;
	layout[nr_layout++].len = len;
}

/*
 * Scattered over [base, base + FAKE_NS_BYTES): pages in random order, or descriptors of any
 * size.
 */
static void build(struct fix *f, struct nvme_sqe *sqe, uint64_t base, uint32_t len)
{
	struct rng *rng = &f->n->rng;
	bool is_sgl = rng_chance(rng, 1, 2);
	uint32_t off = is_sgl ? (uint32_t)rng_below(rng, 4096) : 4 * (uint32_t)rng_below(rng, 1024),
		 n;
	unsigned nr = (off + len + 4095) / 4096, j;
	struct nvme_sgl descs[1200];
	uint64_t pages[256], tmp;

	for (unsigned i = 0; i < nr; i++)
		pages[i] = base + i * 4096ull;
	for (unsigned i = nr - 1; i > 0; i--) {
		j = (unsigned)rng_below(rng, i + 1);
		tmp = pages[i];
		pages[i] = pages[j];
		pages[j] = tmp;
	}
	nr_layout = 0;
	for (uint32_t at = off; at < off + len; at += n) {
		n = 4096 - at % 4096;
		if (is_sgl && rng_chance(rng, 1, 3))
			n = 1 + (uint32_t)rng_below(rng, n);
		n = n < off + len - at ? n : off + len - at;
		piece(pages[at / 4096] + at % 4096, n);
	}
	if (!is_sgl) {
		fake_tr_prp_pages(f->t, sqe, pages, nr, off);
		return;
	}
	for (unsigned i = 0; i < nr_layout; i++)
		descs[i] = (struct nvme_sgl){.addr = layout[i].addr, .len = layout[i].len};
	j = nr_layout / 50 + 2; /* the fake host keeps 64 list pages for a command */
	fake_tr_sgl(f->t, sqe, descs, nr_layout, j + (unsigned)rng_below(rng, 256 - j));
}

/* Between a flat buffer and the host's pieces. */
static void move(struct fix *f, uint8_t *flat, bool to_host)
{
	for (unsigned i = 0; i < nr_layout; i++) {
		if (to_host)
			memcpy(fake_tr_ptr(f->t, layout[i].addr), flat, layout[i].len);
		else
			memcpy(flat, fake_tr_ptr(f->t, layout[i].addr), layout[i].len);
		flat += layout[i].len;
	}
}

static void test_data(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct rng *rng = &f->n->rng;
	uint8_t *want = calloc(1, FAKE_NS_BYTES), *got = calloc(1, FAKE_NS_BYTES);
	uint64_t base = fake_tr_alloc(f->t, FAKE_NS_BYTES);
	struct nvme_sqe sqe;
	uint32_t len;

	for (int i = 0; i < 1000; i++) {
		len = 1 + (uint32_t)rng_below(rng, rng_chance(rng, 1, 8) ? 900000 : 20000);
		sqe = (struct nvme_sqe){.opc = FAKE_WRITE, .nsid = 1, .cdw10 = len};
		sqe.cdw12 = (uint32_t)rng_below(rng, FAKE_NS_BYTES - len);
		rng_fill(rng, want + sqe.cdw12, len);
		build(f, &sqe, base, len);
		move(f, want + sqe.cdw12, true);
		assert_int_equal(fake_tr_exec(f->t, 1, &sqe, NULL), 0);
		if (i % 50 == 0)
			assert_memory_equal(f->ns->bytes, want, FAKE_NS_BYTES);
		sqe.opc = FAKE_READ;
		sqe.flags = 0;
		build(f, &sqe, base, len);
		memset(got, 0xee, len);
		move(f, got, true);
		assert_int_equal(fake_tr_exec(f->t, 1, &sqe, NULL), 0);
		move(f, got, false);
		assert_memory_equal(got, want + sqe.cdw12, len);
	}
	assert_memory_equal(f->ns->bytes, want, FAKE_NS_BYTES);
	free(want);
	free(got);
	fix_destroy(f);
}

/*
 * Four queues on two workers, few requests, a CQ with one slot: each command ends with its own
 * numbers.
 */
static void test_many(void **state)
{
	static const uint32_t sizes[] = {0, 64, 2, 1024, 7};
	struct nvme_sqe ping = {.opc = FAKE_PING, .nsid = 1};
	uint32_t sent[5] = {0}, *tag = calloc(5 * FAKE_CIDS, 4), nr_done = 0;
	struct fix *f = fix_create(2, NULL);
	struct nvme_cqe cqe;
	int cid;

	for (uint16_t qid = 2; qid <= 4; qid++)
		assert_true(fake_tr_queue_create(f->t, qid, sizes[qid]));
	while (nr_done < 20000) {
		for (uint16_t qid = 1; qid <= 4; qid++) {
			ping.cdw12 = ++sent[qid];
			ping.cdw13 = qid;
			cid = fake_tr_submit(f->t, qid, &ping);
			if (cid >= 0)
				tag[qid * FAKE_CIDS + (unsigned)cid] = sent[qid];
			for (uint16_t c = 0; c < FAKE_CIDS && f->t->q[qid].nr_cmds > sizes[qid] / 2;
			     c++) {
				if (!f->t->q[qid].cmds[c].is_used ||
				    !fake_tr_done(f->t, qid, c, &cqe))
					continue;
				assert_int_equal(cqe.dw0, tag[qid * FAKE_CIDS + c]);
				assert_int_equal(cqe.dw1, qid);
				nr_done++;
			}
		}
		fake_node_step(f->n);
	}
	free(tag);
	fix_destroy(f);
}

/* Maps go away under random I/O. */
static void test_unmap(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct rng *rng = &f->n->rng;
	uint64_t base = fake_tr_alloc(f->t, 64 * 4096), buf = fake_tr_alloc(f->t, FAKE_NS_BYTES),
		 gone;
	struct nvme_sqe sqe;
	unsigned nr_bad = 0;
	uint16_t st;

	(void)base; /* the rings' map isn't touched */
	for (int i = 0; i < 2000; i++) {
		sqe = (struct nvme_sqe){.opc = FAKE_READ, .nsid = 1};
		sqe.cdw10 = 1 + (uint32_t)rng_below(rng, 900000);
		build(f, &sqe, buf, sqe.cdw10);
		gone = buf + 4096 * rng_below(rng, 256);
		fake_tr_unmap(f->t, gone);
		st = fake_tr_exec(f->t, 1, &sqe, NULL);
		assert_true(st == NVME_ST_OK || st == NVME_ST_DATA_TRANSFER);
		nr_bad += st != NVME_ST_OK;
		fake_tr_remap(f->t, gone);
	}
	assert_true(nr_bad > 100 && nr_bad < 1900);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_data),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_unmap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
