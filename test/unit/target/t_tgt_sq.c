/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue's list of requests under way: oldest first, found by CID, gone when they are over.
 */
#include "fake_fix.h"

static void test_abort_marks(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1};
	struct tgt_req *req;
	struct tgt_sq *sq;
	uint16_t cid[3];

	for (int i = 0; i < 3; i++)
		cid[i] = (uint16_t)fake_tr_submit(f->t, 1, &hang);
	fake_node_steps(f->n, 10);
	assert_int_equal(f->ns->nr_hung, 3);
	sq = f->ns->hung[0]->sq;
	assert_int_equal(sq->nr_inflight, 3);
	req = list_first_entry(&sq->reqs, struct tgt_req, node);
	assert_int_equal(req->sqe.cid, cid[0]);
	assert_true(tgt_sq_abort(sq, cid[1]));
	assert_false(tgt_sq_abort(sq, 0x4321));
	assert_false(f->ns->hung[0]->is_aborted);
	assert_true(f->ns->hung[1]->is_aborted);
	assert_false(f->ns->hung[2]->is_aborted);
	fake_ns_let_go(f->ns);
	assert_int_equal(sq->nr_inflight, 0);
	assert_true(list_is_empty(&sq->reqs));
	assert_false(tgt_sq_abort(sq, cid[1]));
	fix_destroy(f);
}

/* All of them at once, and their answers say why. */
static void test_deleted(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1};
	struct nvme_cqe cqe;
	struct tgt_sq *sq;
	int cid[3];

	for (int i = 0; i < 3; i++)
		cid[i] = fake_tr_submit(f->t, 1, &hang);
	fake_node_steps(f->n, 10);
	sq = f->ns->hung[0]->sq;
	tgt_sq_deleted(sq);
	for (int i = 0; i < 3; i++)
		assert_true(f->ns->hung[i]->is_aborted);
	fake_ns_let_go(f->ns);
	for (int i = 0; i < 3; i++) {
		assert_true(fake_tr_done(f->t, 1, (uint16_t)cid[i], &cqe));
		assert_int_equal(fake_tr_status(&cqe) & 0x7ff, NVME_ST_ABORTED_SQ_DELETED);
	}
	fix_destroy(f);
}

/* Marked between init and execute: it never reaches the command set. */
static void test_abort_early(void **state)
{
	struct fix *f = fix_create(1, NULL);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1},
			ping = {.opc = FAKE_PING, .nsid = 1, .cid = 9};
	struct tgt_req *other;
	struct tgt_sq sq;
	struct tgt_req *req = aligned_alloc(64, sizeof(*req));

	fake_tr_submit(f->t, 1, &hang);
	fake_node_steps(f->n, 10);
	other = f->ns->hung[0];
	sq = *other->sq;
	tgt_sq_init(&sq, other->sq->ops, f->t->ctrl, other->sq->worker, 7);
	assert_int_equal(sq.qid, 7);
	assert_int_equal(sq.marks, 0);
	memset(req, 0xa5, sizeof(*req));
	tgt_req_init(req, &sq, &ping);
	assert_int_equal(sq.nr_inflight, 1);
	assert_false((req->watch & TGT_WATCH_SILENT) || req->is_aborted);
	assert_true(tgt_sq_abort(&sq, 9));
	list_del(&req->node); /* it has no transport to respond by: take it out by hand */
	sq.nr_inflight--;
	assert_true(req->is_aborted);
	sq.worker->nr_busy--;
	counter_add(&f->ns->ns.stat[0].inflight, (uint64_t)-1);
	free(req);
	fake_ns_let_go(f->ns);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_abort_marks),
		cmocka_unit_test(test_abort_early),
		cmocka_unit_test(test_deleted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
