/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admin commands as a table: opcode, fields, and the status that they must end with, for a plain
 * host and for an operator; Abort and its limit; what log 01h says afterwards.
 */
#include "fake_fix.h"
#include <nvme/types.h>
#include "base/le.h"

#define PLAIN 1
#define OPER 2
#define BOTH 3

struct admin_case {
	int who;
	uint8_t opc;
	uint8_t flags;
	uint32_t nsid, cdw10, cdw11, cdw12, cdw14;
	uint64_t prp1; /* 0: a page of its own, zeroed */
	uint16_t status;
};

#define QID(qid, slots) ((qid) | ((slots)-1u) << 16)

static const struct admin_case cases[] = {
	/* Opcodes that aren't there. */
	{BOTH, 0x10, .status = NVME_ST_INVALID_OPCODE}, /* firmware commit */
	{BOTH, 0x11, .status = NVME_ST_INVALID_OPCODE},
	{BOTH, 0x14, .status = NVME_ST_INVALID_OPCODE}, /* self-test */
	{BOTH, 0x19, .status = NVME_ST_INVALID_OPCODE}, /* directives */
	{BOTH, 0x1c, .status = NVME_ST_INVALID_OPCODE},
	{BOTH, 0x7c, .status = NVME_ST_INVALID_OPCODE},	      /* doorbell buffer */
	{BOTH, 0x7f, .status = NVME_ST_INVALID_OPCODE},	      /* Fabrics */
	{BOTH, 0x80, 0, 1, .status = NVME_ST_INVALID_OPCODE}, /* Format NVM */
	{BOTH, 0x81, .status = NVME_ST_INVALID_OPCODE},
	{BOTH, 0x84, .status = NVME_ST_INVALID_OPCODE}, /* sanitize */
	{BOTH, 0xff, .status = NVME_ST_INVALID_OPCODE},
	{PLAIN, 0x0d, .status = NVME_ST_INVALID_OPCODE},
	{PLAIN, 0x15, .status = NVME_ST_INVALID_OPCODE},
	{PLAIN, 0xc0, .status = NVME_ST_INVALID_OPCODE},
	/* Flags. */
	{BOTH, 0x18, 1, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x18, 1 << 6, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x18, 2 << 6, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x18, 3 << 6, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x18, 0, .status = NVME_ST_OK},
	/* Create CQ. */
	{BOTH, 0x05, .cdw10 = QID(0, 16), .cdw11 = 1, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x05, .cdw10 = QID(1, 16), .cdw11 = 1, .status = NVME_ST_QID_INVALID}, /* is there */
	{BOTH, 0x05, .cdw10 = QID(17, 16), .cdw11 = 1, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x05, .cdw10 = QID(0xffff, 16), .cdw11 = 1, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x05, .cdw10 = QID(2, 1), .cdw11 = 1, .status = NVME_ST_QSIZE_INVALID},
	{BOTH, 0x05, .cdw10 = QID(2, 4097), .cdw11 = 1, .status = NVME_ST_QSIZE_INVALID},
	{BOTH, 0x05, .cdw10 = QID(2, 65536), .cdw11 = 1, .status = NVME_ST_QSIZE_INVALID},
	{BOTH, 0x05, .cdw10 = QID(2, 16), .cdw11 = 0, .status = NVME_ST_INVALID_FIELD}, /* PC */
	{BOTH, 0x05, .cdw10 = QID(2, 16), .cdw11 = 1, .prp1 = FAKE_BUS + 16,
	 .status = NVME_ST_PRP_OFFSET},
	{BOTH, 0x05, .cdw10 = QID(2, 16), .cdw11 = 3 | 17 << 16, .status = NVME_ST_INVALID_VECTOR},
	/* Create SQ. */
	{BOTH, 0x01, .cdw10 = QID(0, 16), .cdw11 = 1 | 1 << 16, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x01, .cdw10 = QID(1, 16), .cdw11 = 1 | 1 << 16, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x01, .cdw10 = QID(17, 16), .cdw11 = 1 | 1 << 16, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x01, .cdw10 = QID(2, 16), .cdw11 = 1, .status = NVME_ST_CQ_INVALID},
	{BOTH, 0x01, .cdw10 = QID(2, 16), .cdw11 = 1 | 2 << 16, .status = NVME_ST_CQ_INVALID},
	{BOTH, 0x01, .cdw10 = QID(2, 16), .cdw11 = 1 | 0xffffu << 16, .status = NVME_ST_CQ_INVALID},
	{BOTH, 0x01, .cdw10 = QID(2, 1), .cdw11 = 1 | 1 << 16, .status = NVME_ST_QSIZE_INVALID},
	{BOTH, 0x01, .cdw10 = QID(2, 16), .cdw11 = 1 << 16, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x01, .cdw10 = QID(2, 16), .cdw11 = 1 | 1 << 16, .prp1 = 8,
	 .status = NVME_ST_PRP_OFFSET},
	/* Delete. */
	{BOTH, 0x00, .cdw10 = 0, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x00, .cdw10 = 2, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x00, .cdw10 = 0xffff, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x04, .cdw10 = 0, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x04, .cdw10 = 2, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x04, .cdw10 = 0xffff, .status = NVME_ST_QID_INVALID},
	{BOTH, 0x04, .cdw10 = 1, .status = NVME_ST_INVALID_QUEUE_DELETION}, /* its SQ is there */
	/* Identify. */
	{BOTH, 0x06, .nsid = 0, .cdw10 = 0x00, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x06, .nsid = 1, .cdw10 = 0x00, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 2, .cdw10 = 0x00, .status = NVME_ST_OK}, /* zeros */
	{BOTH, 0x06, .nsid = 1025, .cdw10 = 0x00, .status = NVME_ST_INVALID_NS},
	{PLAIN, 0x06, .nsid = ~0u, .cdw10 = 0x00, .status = NVME_ST_INVALID_NS},
	{OPER, 0x06, .nsid = ~0u, .cdw10 = 0x00, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x01, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x01, .prp1 = 3, .status = NVME_ST_PRP_OFFSET},
	{BOTH, 0x06, .cdw10 = 0x01, .prp1 = 0x5000, .status = NVME_ST_DATA_TRANSFER},
	{BOTH, 0x06, .nsid = 0, .cdw10 = 0x02, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 0xfffffffd, .cdw10 = 0x02, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 0xfffffffe, .cdw10 = 0x02, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x06, .nsid = 0xffffffff, .cdw10 = 0x02, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x06, .nsid = 1, .cdw10 = 0x03, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 2, .cdw10 = 0x03, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x06, .cdw10 = 0x04, .status = NVME_ST_INVALID_FIELD}, /* NVM sets */
	{BOTH, 0x06, .nsid = 1, .cdw10 = 0x05, .cdw11 = 1 << 24, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 1, .cdw10 = 0x05, .cdw11 = 0 << 24, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .nsid = 1, .cdw10 = 0x05, .cdw11 = 2 << 24, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .nsid = 2, .cdw10 = 0x05, .cdw11 = 1 << 24, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 0, .cdw10 = 0x05, .cdw11 = 1 << 24, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x06, .cdw10 = 0x06, .cdw11 = 0 << 24, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x06, .cdw11 = 1 << 24, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x06, .cdw11 = 2 << 24, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .cdw10 = 0x06, .cdw11 = 0xffu << 24, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .cdw10 = 0x07, .cdw11 = 1 << 24, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x07, .cdw11 = 0 << 24, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x07, .cdw11 = 3 << 24, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .nsid = ~0u, .cdw10 = 0x07, .cdw11 = 1 << 24, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x06, .nsid = 1, .cdw10 = 0x08, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 3, .cdw10 = 0x08, .status = NVME_ST_OK},
	{BOTH, 0x06, .nsid = 0, .cdw10 = 0x08, .status = NVME_ST_INVALID_NS},
	{PLAIN, 0x06, .cdw10 = 0x10, .status = NVME_ST_INVALID_FIELD},
	{OPER, 0x06, .cdw10 = 0x10, .status = NVME_ST_OK},
	{PLAIN, 0x06, .nsid = 1, .cdw10 = 0x11, .status = NVME_ST_INVALID_FIELD},
	{OPER, 0x06, .nsid = 1, .cdw10 = 0x11, .status = NVME_ST_OK},
	{OPER, 0x06, .nsid = 1, .cdw10 = 0x12, .status = NVME_ST_OK},
	{OPER, 0x06, .nsid = 0, .cdw10 = 0x12, .status = NVME_ST_INVALID_NS},
	{PLAIN, 0x06, .cdw10 = 0x13, .status = NVME_ST_INVALID_FIELD},
	{OPER, 0x06, .cdw10 = 0x13, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x14, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .cdw10 = 0x15, .status = NVME_ST_INVALID_FIELD},
	{OPER, 0x06, .cdw10 = 0x1a, .cdw11 = 1 << 24, .status = NVME_ST_OK},
	{OPER, 0x06, .nsid = 1, .cdw10 = 0x1b, .cdw11 = 1 << 24, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x1c | 0xffffu << 16, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x1c | 1u << 16, .status = NVME_ST_OK},
	{BOTH, 0x06, .cdw10 = 0x1c | 99u << 16, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .cdw10 = 0x1d, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x06, .cdw10 = 0xff, .status = NVME_ST_INVALID_FIELD},
	/* Get Log Page. */
	{BOTH, 0x02, .nsid = ~0u, .cdw10 = 0x02 | 127 << 16, .status = NVME_ST_OK},
	{BOTH, 0x02, .nsid = 0, .cdw10 = 0x02 | 127 << 16, .status = NVME_ST_OK},
	{BOTH, 0x02, .nsid = 1, .cdw10 = 0x02 | 127 << 16, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x02, .cdw10 = 0x06 | 127 << 16, .status = NVME_ST_INVALID_LOG},
	{BOTH, 0x02, .cdw10 = 0x0c | 127 << 16, .status = NVME_ST_INVALID_LOG},
	{BOTH, 0x02, .cdw10 = 0x70 | 127 << 16, .status = NVME_ST_INVALID_LOG},
	{BOTH, 0x02, .cdw10 = 0xff | 127 << 16, .status = NVME_ST_INVALID_LOG},
	{BOTH, 0x02, .cdw10 = 0x02 | 3 << 16, .cdw12 = 2, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x02, .cdw10 = 0x02 | 3 << 16, .cdw12 = 508, .status = NVME_ST_OK},
	{BOTH, 0x02, .cdw10 = 0x02 | 3 << 16, .cdw12 = 512, .status = NVME_ST_OK},
	{BOTH, 0x02, .cdw10 = 0x02 | 3 << 16, .cdw12 = 516, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x02, .cdw10 = 0x02 | 3 << 16, .cdw14 = 1 << 23, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x02, .cdw10 = 0x05 | 1023 << 16, .cdw14 = 0 << 24, .status = NVME_ST_OK},
	{BOTH, 0x02, .cdw10 = 0x05 | 1023 << 16, .cdw14 = 1 << 24, .status = NVME_ST_OK},
	{BOTH, 0x02, .cdw10 = 0x05 | 1023 << 16, .cdw14 = 2 << 24, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x02, .cdw10 = 0x05 | 1023 << 16, .cdw14 = 0xffu << 24,
	 .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x02, .cdw10 = 0x01 | 0xffffu << 16, .cdw11 = 0xffff,
	 .status = NVME_ST_OK}, /* 16 GiB */
	{BOTH, 0x02, .cdw10 = 0x02 | 127 << 16, .prp1 = 1, .status = NVME_ST_PRP_OFFSET},
	/* Features. */
	{BOTH, 0x0a, .cdw10 = 0x03, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x0a, .cdw10 = 0x07 | 4 << 8, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x03, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x0b | 1u << 31, .status = NVME_ST_FEAT_NOT_SAVEABLE},
	{BOTH, 0x09, .nsid = 1, .cdw10 = 0x0b, .status = NVME_ST_FEAT_NOT_NS},
	{BOTH, 0x09, .nsid = ~0u, .cdw10 = 0x0b, .status = NVME_ST_OK},
	{BOTH, 0x09, .cdw10 = 0x02, .cdw11 = 1, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x04, .cdw11 = 1 << 16, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x04, .cdw11 = 2 << 20, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x0a, .cdw10 = 0x04, .cdw11 = 0xf << 16, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x05, .cdw11 = 1 << 16, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x06, .cdw11 = 0, .status = NVME_ST_FEAT_NOT_CHANGEABLE},
	{BOTH, 0x09, .cdw10 = 0x06, .cdw11 = 1, .status = NVME_ST_OK},
	{BOTH, 0x09, .cdw10 = 0x07, .cdw11 = 0xffff, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x07, .cdw11 = 0xffffu << 16, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x07, .cdw11 = 3 << 16 | 3,
	 .status = NVME_ST_SEQUENCE}, /* queues are there */
	{BOTH, 0x09, .cdw10 = 0x09, .cdw11 = 17, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x0a, .cdw10 = 0x09, .cdw11 = 17, .status = NVME_ST_INVALID_FIELD},
	{BOTH, 0x09, .cdw10 = 0x19, .cdw11 = 0, .status = NVME_ST_OK},
	{BOTH, 0x09, .cdw10 = 0x19, .cdw11 = 1, .status = NVME_ST_IOCS_COMBINATION},
	{BOTH, 0x09, .nsid = 0, .cdw10 = 0x20, .cdw11 = 1, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x09, .nsid = 2, .cdw10 = 0x20, .cdw11 = 1, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x0a, .nsid = ~0u, .cdw10 = 0x20, .status = NVME_ST_INVALID_NS},
	{BOTH, 0x09, .cdw10 = 0x16, .prp1 = 1, .status = NVME_ST_PRP_OFFSET},
	{BOTH, 0x09, .cdw10 = 0x81, .cdw11 = 1, .prp1 = 0x5000, .status = NVME_ST_DATA_TRANSFER},
	/* Abort: what isn't there isn't aborted, and that is no error. */
	{BOTH, 0x08, .cdw10 = 0 | 77 << 16, .status = NVME_ST_OK},
	{BOTH, 0x08, .cdw10 = 1 | 77 << 16, .status = NVME_ST_OK},
	{BOTH, 0x08, .cdw10 = 0xffff | 77 << 16, .status = NVME_ST_OK},
	/* Namespace Management. */
	{OPER, 0x0d, .cdw10 = 2, .status = NVME_ST_INVALID_FIELD},
	{OPER, 0x0d, .cdw10 = 0, .cdw11 = 1 << 24, .status = NVME_ST_INVALID_FIELD}, /* 0 bytes */
	{OPER, 0x0d, .cdw10 = 0, .cdw11 = 0 << 24, .status = NVME_ST_IOCS_NOT_SUPPORTED},
	{OPER, 0x0d, .cdw10 = 0, .cdw11 = 2 << 24, .status = NVME_ST_IOCS_NOT_SUPPORTED},
	{OPER, 0x0d, .cdw10 = 0, .cdw11 = 1 << 24, .prp1 = 1, .status = NVME_ST_PRP_OFFSET},
	{OPER, 0x0d, .nsid = 5, .cdw10 = 1, .status = NVME_ST_INVALID_NS},
	{OPER, 0x0d, .nsid = 0, .cdw10 = 1, .status = NVME_ST_INVALID_NS},
	{OPER, 0x15, .nsid = 1, .cdw10 = 1, .status = NVME_ST_INVALID_FIELD}, /* detach */
	{OPER, 0x15, .nsid = 5, .cdw10 = 0, .status = NVME_ST_INVALID_NS},
	{OPER, 0x15, .nsid = 1, .cdw10 = 0, .status = NVME_ST_CTRL_LIST_INVALID}, /* empty */
	{OPER, 0xc0, .nsid = 5, .cdw10 = 4096, .status = NVME_ST_INVALID_NS},
	{OPER, 0xc0, .nsid = 1, .cdw10 = 0, .status = NVME_ST_INVALID_FIELD},
	{OPER, 0xc0, .nsid = 1, .cdw11 = 1 << 20, .status = NVME_ST_NS_INSUFFICIENT_CAPACITY},
	{OPER, 0xc0, .nsid = 1, .cdw10 = 1 << 20, .status = NVME_ST_OK},
};

static void run_cases(int who)
{
	const struct fake_tr_opts o = {.is_operator = who == OPER};
	struct fix *f = fix_create(2, &o);
	uint64_t page = fake_tr_alloc(f->t, 4096);
	const struct admin_case *a;
	struct nvme_cqe cqe;
	uint16_t st;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		a = &cases[i];
		if (!(a->who & who))
			continue;
		memset(fake_tr_ptr(f->t, page), 0, 4096);
		st = fake_tr_exec(f->t, 0,
				  &(struct nvme_sqe){
					  .opc = a->opc,
					  .flags = a->flags,
					  .nsid = a->nsid,
					  .prp1 = a->prp1 ? a->prp1 : page,
					  .cdw10 = a->cdw10,
					  .cdw11 = a->cdw11,
					  .cdw12 = a->cdw12,
					  .cdw14 = a->cdw14,
				  },
				  &cqe);
		if (st != a->status)
			fail_msg("case %zu: opcode %02x cdw10 %x nsid %x: status %x, expected %x",
				 i, a->opc, a->cdw10, a->nsid, st, a->status);
		/* A host's mistake isn't worth a second try. */
		assert_int_equal(!!(fake_tr_status(&cqe) & NVME_ST_DNR), st != NVME_ST_OK);
		if (a->opc == 0x08)
			assert_int_equal(cqe.dw0, 1);
	}
	fix_destroy(f);
}

static void test_plain(void **state)
{
	run_cases(PLAIN);
}

static void test_operator(void **state)
{
	run_cases(OPER);
}

static void test_abort(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct nvme_sqe hang = {.opc = FAKE_HANG, .nsid = 1}, aer = {.opc = 0x0c},
			sqe = {.opc = 0x08};
	int cid[2], aer_cid;
	struct nvme_cqe cqe;

	cid[0] = fake_tr_submit(f->t, 1, &hang);
	cid[1] = fake_tr_submit(f->t, 1, &hang);
	aer_cid = fake_tr_submit(f->t, 0, &aer);
	fake_node_steps(f->n, 100);
	sqe.cdw10 = 1 | (uint32_t)cid[1] << 16;
	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, &cqe), 0);
	assert_int_equal(cqe.dw0, 1);
	fake_ns_let_go(f->ns);
	assert_true(fake_tr_done(f->t, 1, (uint16_t)cid[0], &cqe));
	assert_int_equal(fake_tr_status(&cqe), NVME_ST_OK);
	assert_true(fake_tr_done(f->t, 1, (uint16_t)cid[1], &cqe));
	assert_int_equal(fake_tr_status(&cqe) & 0x7ff, NVME_ST_ABORTED);
	/* An event request can be aborted at once. */
	sqe.cdw10 = (uint32_t)aer_cid << 16;
	assert_int_equal(fake_tr_exec(f->t, 0, &sqe, &cqe), 0);
	assert_int_equal(cqe.dw0, 0);
	assert_true(fake_tr_done(f->t, 0, (uint16_t)aer_cid, &cqe));
	assert_int_equal(fake_tr_status(&cqe) & 0x7ff, NVME_ST_ABORTED);
	fix_destroy(f);
}

/* Random commands with random fields: each is answered, and the controller lives. */
static void test_garbage(void **state)
{
	struct fix *f = fix_create(2, NULL);
	struct rng *rng = &f->n->rng;
	uint64_t page = fake_tr_alloc(f->t, 64 * 4096);
	struct nvme_sqe sqe;
	uint16_t st;

	for (int i = 0; i < 20000; i++) {
		rng_fill(rng, &sqe, sizeof(sqe));
		sqe.opc = (uint8_t)rng_below(rng, 0x1a);
		sqe.flags = rng_chance(rng, 9, 10) ? 0 : sqe.flags;
		sqe.nsid = rng_chance(rng, 1, 4) ? sqe.nsid : (uint32_t)rng_below(rng, 4);
		sqe.prp1 = page + (rng_chance(rng, 9, 10) ? 0 : 4 * rng_below(rng, 1024));
		sqe.prp2 = page + 4096 * rng_below(rng, 60);
		sqe.cdw10 = rng_chance(rng, 1, 4)
				    ? sqe.cdw10
				    : (uint32_t)rng_below(rng, 0x90) | (sqe.cdw10 & 0x3f0000);
		sqe.cdw12 = rng_chance(rng, 1, 2) ? 0 : sqe.cdw12;
		sqe.cdw13 = rng_chance(rng, 1, 2) ? 0 : sqe.cdw13;
		if (sqe.opc == 0x0c || sqe.opc == 0x00 || sqe.opc == 0x01 || sqe.opc == 0x04 ||
		    sqe.opc == 0x05)
			continue; /* no answer yet, or queues that the fake host didn't make */
		if (sqe.opc == 0x0d && (sqe.cdw10 & 0xf) == 0)
			memset(fake_tr_ptr(f->t, page), 0, 8); /* not a thousand namespaces */
		if (sqe.opc == 0x09 && (uint8_t)sqe.cdw10 == 0x0f)
			continue; /* Keep Alive would end the test */
		st = fake_tr_exec(f->t, 0, &sqe, NULL);
		if (sqe.opc == 0x0d && (sqe.cdw10 & 0xf) == 1 && st == NVME_ST_OK) {
			f->ns = fake_ns_create(1, 1 << 30); /* it deleted ours */
			assert_int_equal(tgt_subsys_ns_add(f->n->ss, &f->ns->ns, 1), 0);
		}
	}
	fix_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_operator),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
