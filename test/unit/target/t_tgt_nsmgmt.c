/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces made, resized and deleted by a host, from a controller whose home isn't worker 0;
 * what other hosts hear of it.
 */
#include "fake_fix.h"
#include "base/le.h"
#include "target/tgt_int.h"

static uint16_t create(struct fix *f, uint64_t bytes, uint32_t *nsid)
{
	struct nvme_sqe sqe = {.opc = 0x0d, .cdw11 = 1 << 24};
	uint8_t page[4096] = {0};
	struct nvme_cqe cqe;
	uint16_t st;

	le64_put(page, bytes);
	le64_put(page + 8, bytes);
	st = fix_data(f->t, 0, &sqe, page, &cqe);
	*nsid = cqe.dw0;
	return st;
}

static uint16_t del(struct fix *f, uint32_t nsid)
{
	struct nvme_sqe sqe = {.opc = 0x0d, .nsid = nsid, .cdw10 = 1};

	return fake_tr_exec(f->t, 0, &sqe, NULL);
}

static uint16_t resize(struct fix *f, uint32_t nsid, uint64_t bytes)
{
	struct nvme_sqe sqe = {.opc = 0xc0,
			       .nsid = nsid,
			       .cdw10 = (uint32_t)bytes,
			       .cdw11 = (uint32_t)(bytes >> 32)};

	return fake_tr_exec(f->t, 0, &sqe, NULL);
}

static uint16_t ping(struct fix *f, uint32_t nsid)
{
	struct nvme_sqe sqe = {.opc = FAKE_PING, .nsid = nsid};

	return fake_tr_exec(f->t, 1, &sqe, NULL);
}

static const struct fake_tr_opts operator1 = {.is_operator = true, .home = 1};

static void test_life(void **state)
{
	struct fix *f = fix_create(2, &operator1);
	uint32_t nsid;

	assert_int_equal(create(f, 1 << 20, &nsid), 0);
	assert_int_equal(nsid, 2);
	assert_int_equal(ping(f, 2), 0);
	assert_int_equal(create(f, 1ull << 40, &nsid), NVME_ST_NS_INSUFFICIENT_CAPACITY);
	assert_int_equal(resize(f, 2, (1ull << 40) - (1 << 30)), 0); /* all that is left */
	assert_int_equal(create(f, 1, &nsid), NVME_ST_NS_INSUFFICIENT_CAPACITY);
	assert_int_equal(resize(f, 2, (1ull << 40) - (1 << 30) + 1),
			 NVME_ST_NS_INSUFFICIENT_CAPACITY);
	assert_int_equal(resize(f, 2, 4096), 0);
	assert_int_equal(create(f, 1, &nsid), 0);
	assert_int_equal(nsid, 3);
	assert_int_equal(del(f, 2), 0);
	assert_int_equal(ping(f, 2), NVME_ST_INVALID_NS);
	assert_int_equal(create(f, 1, &nsid), 0);
	assert_int_equal(nsid, 2);
	assert_int_equal(del(f, 0xffffffff), 0);
	for (nsid = 1; nsid <= 3; nsid++)
		assert_int_equal(ping(f, nsid), NVME_ST_INVALID_NS);
	assert_int_equal(del(f, 0xffffffff), 0); /* none is fine */
	fix_destroy(f);
}

/* What nothing could make again isn't deleted, nor does it stand in the way of the others. */
static void test_denied(void **state)
{
	struct fix *f = fix_create(2, &operator1);
	struct tgt_subsys *ss = f->t->ctrl->ss;
	const struct tgt_csi_ops *can = ss->csi[1];
	struct tgt_csi_ops cannot = *can;
	uint32_t nsid;

	assert_int_equal(create(f, 1, &nsid), 0);
	cannot.create = NULL;
	ss->csi[1] = &cannot;
	assert_int_equal(del(f, nsid), NVME_ST_OP_DENIED);
	assert_int_equal(del(f, 77), NVME_ST_INVALID_NS);
	assert_int_equal(del(f, 0xffffffff), 0);
	assert_int_equal(ping(f, nsid), 0);
	ss->csi[1] = can;
	assert_int_equal(del(f, nsid), 0);
	fix_destroy(f);
}

static void test_too_many(void **state)
{
	struct fix *f = fix_create(2, &operator1);
	uint32_t nsid;

	for (uint32_t i = 2; i <= TGT_NS_MAX; i++) {
		assert_int_equal(create(f, 1, &nsid), 0);
		assert_int_equal(nsid, i);
	}
	assert_int_equal(create(f, 1, &nsid), NVME_ST_NS_ID_UNAVAILABLE);
	assert_int_equal(del(f, 0xffffffff), 0);
	assert_int_equal(create(f, 1, &nsid), 0);
	assert_int_equal(nsid, 1);
	fix_destroy(f);
}

static uint16_t attach(struct fix *f, uint16_t nr, uint16_t id0, uint16_t id1)
{
	struct nvme_sqe sqe = {.opc = 0x15, .nsid = 1};
	uint8_t page[4096] = {0};

	le16_put(page, nr);
	le16_put(page + 2, id0);
	le16_put(page + 4, id1);
	return fix_data(f->t, 0, &sqe, page, NULL);
}

static void test_attach(void **state)
{
	struct fix *f = fix_create(2, &operator1);
	struct fake_tr *other = fake_tr_create(f->n, NULL);
	uint16_t a = tgt_ctrl_id(f->t->ctrl), b = tgt_ctrl_id(other->ctrl);

	assert_int_equal(attach(f, 1, a, 0), NVME_ST_NS_ALREADY_ATTACHED);
	assert_int_equal(attach(f, 2, a, b), NVME_ST_NS_ALREADY_ATTACHED);
	assert_int_equal(attach(f, 2, b, a), NVME_ST_CTRL_LIST_INVALID);
	assert_int_equal(attach(f, 2, a, a), NVME_ST_CTRL_LIST_INVALID);
	assert_int_equal(attach(f, 1, 77, 0), NVME_ST_CTRL_LIST_INVALID);
	assert_int_equal(attach(f, 2048, a, b), NVME_ST_CTRL_LIST_INVALID);
	fake_tr_destroy(other);
	fix_destroy(f);
}

/*
 * Delete waits for the commands inside; a second one, and a resize, are refused meanwhile; so is
 * the space.
 */
static void test_busy(void **state)
{
	struct fix *f = fix_create(2, &operator1);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1},
			gone = {.opc = 0x0d, .nsid = 1, .cdw10 = 1};
	uint16_t io, adm;
	struct nvme_cqe cqe;
	uint32_t nsid;

	io = (uint16_t)fake_tr_submit(f->t, 1, &hang);
	fake_node_steps(f->n, 100);
	adm = (uint16_t)fake_tr_submit(f->t, 0, &gone);
	fake_node_steps(f->n, 5000);
	assert_false(fake_tr_done(f->t, 0, adm, &cqe));
	assert_int_equal(ping(f, 1), NVME_ST_INVALID_NS);
	assert_int_equal(del(f, 1), NVME_ST_INVALID_NS);
	assert_int_equal(resize(f, 1, 1), NVME_ST_INVALID_NS);
	assert_int_equal(create(f, 1ull << 40, &nsid), NVME_ST_NS_INSUFFICIENT_CAPACITY);
	assert_int_equal(create(f, 1, &nsid), 0);
	assert_int_equal(nsid, 2); /* 1 isn't free yet */
	fake_ns_let_go(f->ns);
	fake_node_steps(f->n, 5000);
	assert_true(fake_tr_done(f->t, 1, io, &cqe));
	assert_int_equal(fake_tr_status(&cqe), 0);
	assert_true(fake_tr_done(f->t, 0, adm, &cqe));
	assert_int_equal(fake_tr_status(&cqe), 0);
	fix_destroy(f);
}

/* A controller is reset while worker 0 works for it. */
static void test_reset_meanwhile(void **state)
{
	struct fix *f = fix_create(2, &operator1);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1},
			gone = {.opc = 0x0d, .nsid = 1, .cdw10 = 1};
	struct fake_tr *other = fake_tr_create(f->n, NULL);
	bool is_destroyed = false;

	assert_true(fake_tr_enable(other));
	assert_true(fake_tr_queue_create(other, 1, 4));
	f->ns->is_destroyed = &is_destroyed;
	fake_tr_submit(other, 1, &hang);
	fake_node_steps(f->n, 100);
	fake_tr_submit(f->t, 0, &gone);
	fake_node_steps(f->n, 200);
	fake_tr_reg_set(f->t, 0x14, 4, 0);
	fake_node_steps(f->n, 1000);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 1); /* the delete is under way */
	assert_false(is_destroyed);
	fake_ns_let_go(f->ns);
	fake_node_steps(f->n, 5000);
	assert_true(is_destroyed);
	assert_int_equal(fake_tr_reg(f->t, 0x1c, 4), 0);
	fake_tr_destroy(other);
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life),	 cmocka_unit_test(test_denied),
		cmocka_unit_test(test_too_many), cmocka_unit_test(test_attach),
		cmocka_unit_test(test_busy),	 cmocka_unit_test(test_reset_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
