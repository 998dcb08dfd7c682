/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing as an operator drives it, with records made by hand as a transport does: what is read is
 * what was written, once, in order, and only by who asked; what has no room is counted.
 */
#include "fake_fix.h"
#include "peal/vendor.h"
#include "target/tgt_int.h"

struct page {
	struct peal_wire_trace_head head;
	struct peal_wire_trace recs[42];
	uint8_t rest[48];
};
static_assert(sizeof(struct page) == 4096, "what one READ gives at most");

static uint16_t trace(struct fake_tr *t, unsigned verb, uint32_t ctrl)
{
	struct nvme_sqe sqe = {.opc = PEAL_OPC_ADMIN_TRACE, .cdw11 = ctrl, .cdw12 = verb};

	return fake_tr_exec(t, 0, &sqe, NULL);
}

static uint16_t trace_read(struct fake_tr *t, struct page *page)
{
	struct nvme_sqe sqe = {.opc = PEAL_OPC_ADMIN_TRACE, .cdw10 = sizeof(*page)};

	return fix_data(t, 0, &sqe, page, NULL);
}

static void end_sqe(struct fix *f, unsigned id, const struct nvme_sqe *sqe, struct tgt_ns *ns,
		    const void *cq)
{
	struct tgt_sq sq = {.ctrl = f->t->ctrl, .worker = f->n->node.workers[id], .qid = 3};
	static struct tgt_req req;

	req = (struct tgt_req){.sqe = *sqe, .sq = &sq, .ns = ns};
	tgt_trace_begin(&req, 5, 6);
	assert_int_equal(req.watch, TGT_WATCH_TRACE);
	tgt_trace_stamp(&req, TGT_STAMP_COPY);
	req.ns = NULL; /* it may be gone at the end */
	tgt_trace_end(&req, cq);
}

/* A request that is over, on a queue of worker `id`. */
static void end(struct fix *f, unsigned id, uint16_t cid, const void *cq)
{
	static const struct tgt_ns_ops ops = {.csi = 1};
	static struct tgt_ns ns = {.ops = &ops};
	struct nvme_sqe sqe = {.opc = NVME_KV_STORE, .nsid = 1, .cid = cid, .cdw10 = 77};

	nvme_kv_key_set(&sqe, "key", 3, 0);
	end_sqe(f, id, &sqe, &ns, cq);
}

struct ear {
	struct tgt_watcher wt;
	unsigned nr;
};

static void heard(struct tgt_watcher *wt)
{
	container_of(wt, struct ear, wt)->nr++;
}

static bool heard_five(void *arg)
{
	const struct ear *ear = arg;

	return ear[0].nr + ear[1].nr >= 10;
}

/* Both workers have heard of it when the command is over; of an owner's end they hear later. */
static void test_watchers(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct ear ear[2] = {{.wt.changed = heard}, {.wt.changed = heard}};

	for (unsigned i = 0; i < 2; i++)
		tgt_worker_watch(f->n->node.workers[i], &ear[i].wt);
	assert_int_equal(ear[0].nr + ear[1].nr, 2);
	assert_int_equal(trace(f->t, PEAL_TRACE_START, PEAL_TRACE_ALL), 0);
	assert_int_equal(ear[0].nr, 2);
	assert_int_equal(ear[1].nr, 2);
	assert_int_equal(trace(f->t, PEAL_TRACE_STOP, 0), 0);
	assert_int_equal(ear[1].nr, 3);
	assert_int_equal(trace(f->t, PEAL_TRACE_START, PEAL_TRACE_ALL), 0);
	assert_true(fake_tr_disable(f->t));
	assert_true(fake_node_run(f->n, heard_five, ear, 100000));
	assert_int_equal(ear[0].nr, 5);
	assert_int_equal(ear[1].nr, 5);
	for (unsigned i = 0; i < 2; i++)
		tgt_worker_unwatch(&ear[i].wt);
	fix_destroy(f);
}

static void test_records(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct tgt_worker *const *w = f->n->node.workers;
	struct page page;

	assert_false(tgt_trace_wants(w[1], f->t->ctrl));
	assert_int_equal(trace(f->t, PEAL_TRACE_START, PEAL_TRACE_ALL), 0);
	assert_true(tgt_trace_wants(w[1], f->t->ctrl));
	end(f, 1, 10, &page);
	assert_int_equal(trace_read(f->t, &page), 0);
	assert_int_equal(page.head.nr, 0); /* its CQE isn't written yet */
	end(f, 1, 11, state);
	tgt_trace_posted(w[1], state);
	assert_int_equal(trace_read(f->t, &page), 0);
	assert_int_equal(page.head.nr, 0); /* in order */
	tgt_trace_posted(w[1], &page);
	end(f, 0, 12, &page);
	tgt_trace_posted(w[0], &page);
	assert_int_equal(trace_read(f->t, &page), 0);
	assert_int_equal(page.head.nr, 3);
	assert_int_equal(page.head.record_bytes, sizeof(page.recs[0]));
	assert_int_equal(page.head.nr_dropped, 0);
	assert_int_equal(page.recs[0].cid, 12); /* worker 0's come first */
	assert_int_equal(page.recs[1].cid, 10);
	assert_int_equal(page.recs[2].cid, 11);
	assert_int_equal(page.recs[2].worker, 1);
	assert_int_equal(page.recs[2].qid, 3);
	assert_int_equal(page.recs[2].ctrl, f->t->ctrl->id);
	assert_int_equal(page.recs[2].bytes, 77);
	assert_memory_equal(page.recs[2].key, "key", 4);
	assert_int_equal(page.recs[2].key_len, 3);
	assert_int_equal(page.recs[2].bell_ns, 5);
	assert_true(page.recs[2].copy_ns <= page.recs[2].done_ns);
	assert_true(page.recs[2].cqe_ns >= page.recs[2].done_ns);
	assert_int_equal(page.recs[2].reserved, 0);
	assert_memory_equal(page.recs[2].reserved2, "\0\0\0\0", 4);
	assert_int_equal(page.recs[2].csi, 1);
	assert_int_equal(trace_read(f->t, &page), 0);
	assert_int_equal(page.head.nr, 0); /* each once */
	fix_destroy(f);
}

/* What a command moves, and where, depends on its namespace's command set. */
static void test_block(void **state)
{
	static const struct tgt_ns_ops ops = {.csi = 0};
	static struct tgt_ns ns = {.ops = &ops, .lba_shift = 12};
	static const struct {
		struct nvme_sqe sqe;
		bool is_nowhere;
		uint32_t bytes;
		uint64_t slba;
	} rows[] = {
		{{.opc = 1, .nsid = 2, .cdw10 = 1000, .cdw12 = 0xc0000000}, false, 4096, 1000},
		{{.opc = 2, .nsid = 2, .cdw10 = 5, .cdw11 = 1, .cdw12 = 15},
		 false,
		 65536,
		 1ull << 32 | 5},
		{{.opc = 8, .nsid = 2, .cdw10 = 7, .cdw12 = 1}, false, 0, 7},
		{{.opc = 0, .nsid = 2, .cdw10 = 9}, false, 0, 0},
		{{.opc = 1, .nsid = 99, .cdw10 = 9, .cdw11 = 16}, true, 0, 0},
	};
	struct fix *f = fix_create(1, NULL);
	struct page page;
	uint64_t slba;

	assert_int_equal(trace(f->t, PEAL_TRACE_START, PEAL_TRACE_ALL), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		end_sqe(f, 0, &rows[i].sqe, rows[i].is_nowhere ? NULL : &ns, &page);
	tgt_trace_posted(f->n->node.workers[0], &page);
	assert_int_equal(trace_read(f->t, &page), 0);
	assert_int_equal(page.head.nr, ARRAY_SIZE(rows));
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		memcpy(&slba, page.recs[i].key, 8);
		assert_int_equal(page.recs[i].csi, rows[i].is_nowhere ? 0xff : 0);
		assert_int_equal(page.recs[i].bytes, rows[i].bytes);
		assert_int_equal(slba, rows[i].slba);
		assert_int_equal(page.recs[i].key_len, rows[i].slba ? 8 : 0);
	}
	fix_destroy(f);
}

/* A full ring drops and counts; a CQE that never goes out holds up so many and no more. */
static void test_bounds(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct tgt_worker *w = f->n->node.workers[0];
	uint32_t nr = 0;
	struct page page;

	assert_int_equal(trace(f->t, PEAL_TRACE_START, PEAL_TRACE_ALL), 0);
	end(f, 0, 0xffff, state);
	for (unsigned i = 0; i < 20000; i++) {
		end(f, 0, (uint16_t)i, &page);
		tgt_trace_posted(w, &page);
	}
	do {
		assert_int_equal(trace_read(f->t, &page), 0);
		for (uint32_t i = 0; i < page.head.nr; i++, nr++) {
			assert_int_equal(page.recs[i].cid, (uint16_t)(nr - 1));
			assert_int_equal(page.recs[i].cqe_ns != 0, nr != 0);
		}
	} while (page.head.nr);
	assert_int_equal(nr, 16384);
	assert_int_equal(page.head.nr_dropped, 20001 - 16384);
	/* What was left of one START isn't told after the next. */
	end(f, 0, 1, &page);
	tgt_trace_posted(w, &page);
	assert_int_equal(trace(f->t, PEAL_TRACE_START, PEAL_TRACE_ALL), 0);
	assert_int_equal(trace_read(f->t, &page), 0);
	assert_int_equal(page.head.nr, 0);
	assert_int_equal(page.head.nr_dropped, 0);
	/* STOP gives up waiting, what is there is told. */
	end(f, 0, 2, state);
	assert_int_equal(trace(f->t, PEAL_TRACE_STOP, 0), 0);
	assert_false(tgt_trace_wants(w, f->t->ctrl));
	tgt_trace_flush(w);
	assert_int_equal(trace_read(f->t, &page), 0);
	assert_int_equal(page.head.nr, 1);
	fix_destroy(f);
}

static void test_owner(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct tgt_worker *w = f->n->node.workers[0];
	struct fake_tr *other = fake_tr_create(f->n, &(struct fake_tr_opts){.is_operator = true});
	struct fake_tr *plain = fake_tr_create(f->n, &(struct fake_tr_opts){0});
	struct page page;

	assert_true(fake_tr_enable(other));
	assert_true(fake_tr_enable(plain));
	assert_int_equal(trace(plain, PEAL_TRACE_START, PEAL_TRACE_ALL), NVME_ST_INVALID_OPCODE);
	assert_int_equal(trace(f->t, PEAL_TRACE_STOP, 0), NVME_ST_SEQUENCE);
	assert_int_equal(trace_read(f->t, &page), NVME_ST_SEQUENCE);
	assert_int_equal(trace(f->t, 5, 0), NVME_ST_INVALID_FIELD);
	assert_int_equal(trace(f->t, PEAL_TRACE_RECORD_STOP, 77), NVME_ST_INVALID_FIELD);
	assert_int_equal(trace(f->t, PEAL_TRACE_RECORD, 77), NVME_ST_INVALID_FIELD);
	assert_int_equal(trace(f->t, PEAL_TRACE_START, 0x10000), NVME_ST_INVALID_FIELD);
	assert_int_equal(trace(f->t, PEAL_TRACE_START, 999), NVME_ST_INVALID_FIELD);
	assert_int_equal(trace(f->t, PEAL_TRACE_START, other->ctrl->id), 0);
	assert_true(tgt_trace_wants(w, other->ctrl));
	assert_false(tgt_trace_wants(w, f->t->ctrl));
	assert_int_equal(trace(other, PEAL_TRACE_START, PEAL_TRACE_ALL), NVME_ST_SEQUENCE);
	assert_int_equal(trace_read(other, &page), NVME_ST_SEQUENCE);
	/* It ends with who asked for it. */
	assert_true(fake_tr_disable(f->t));
	assert_false(tgt_trace_wants(w, other->ctrl));
	assert_int_equal(trace(other, PEAL_TRACE_START, PEAL_TRACE_ALL), 0);
	assert_int_equal(trace_read(other, &page), 0);
	assert_int_equal(page.head.nr, 0);
	fake_tr_destroy(other);
	fake_tr_destroy(plain);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watchers), cmocka_unit_test(test_records),
		cmocka_unit_test(test_block),	 cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
