/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller fed with commands made of bytes: admin and I/O, PRP and SGL lists included. Each
 * input is a new node with one namespace and one host, an operator:
 *
 *	control byte, 64 bytes
 *	bit 7: the bytes go into the host's memory, at the low bits * 64
 *	else: an SQE for queue bit 0; bits 1 and 2: PRP1 and PRP2 become addresses inside that
 *	memory; bit 3: more turns before the next
 *
 * Whatever comes, every command ends or is taken back by the reset at the end, nothing leaks, no
 * must() fails.
 */
#include <stddef.h>
#include <stdlib.h>
#include "base/must.h"
#include "fake_dev.h"
#include "fake_ns.h"
#include "fake_tr.h"

#define FUZZ_PAGES 16u /* that SQEs and patches can reach */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz {
	struct fake_node *n;
	struct fake_tr *t;
	uint64_t mem;
};

static void note(void *arg, uint16_t st)
{
	*(bool *)arg = true;
}

static bool is_noted(void *arg)
{
	return *(bool *)arg;
}

static void fuzz_begin(struct fuzz *f)
{
	static const struct fake_tr_opts o = {.mem_pages = 64, .map_pages = 3, .is_operator = true};

	f->n = fake_node_create(&(struct fake_node_opts){
		.seed = 1, .nr = 2, .nr_reqs = 64, .capacity_bytes = 1ull << 40});
	tgt_subsys_csi_add(f->n->ss, fake_ns_csi());
	must(!tgt_subsys_ns_add(f->n->ss, &fake_ns_create(1, 1 << 20)->ns, 1));
	f->t = fake_tr_create(f->n, &o);
	must(fake_tr_enable(f->t));
	must(fake_tr_queue_create(f->t, 1, 64));
	f->mem = fake_tr_alloc(f->t, FUZZ_PAGES * FAKE_PAGE);
}

static void fuzz_end(struct fuzz *f)
{
	bool is_gone;

	f->t->nr_strays = 0;
	fake_tr_destroy(f->t);
	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++) {
		is_gone = !tgt_subsys_ns(f->n->ss, nsid);
		if (!is_gone)
			tgt_subsys_ns_del(f->n->ss, nsid, note, &is_gone);
		must(fake_node_run(f->n, is_noted, &is_gone, 100000));
	}
	fake_node_destroy(f->n);
}

/* What would end the test and not the controller. */
static bool is_wanted(const struct nvme_sqe *sqe, uint16_t qid)
{
	bool is_queue_op = sqe->opc <= 0x05 && sqe->opc != 0x02;

	if (qid == 1)
		return sqe->opc != FAKE_HANG;
	return !is_queue_op || (uint16_t)sqe->cdw10 != 1; /* the host below uses queue 1 */
}

static void fuzz_sqe(struct fuzz *f, uint8_t control, const uint8_t *bytes)
{
	uint64_t mask = FUZZ_PAGES * FAKE_PAGE - 1;
	uint16_t qid = control & 1;
	struct nvme_sqe sqe;

	memcpy(&sqe, bytes, sizeof(sqe));
	if (control & 2)
		sqe.prp1 = f->mem + (sqe.prp1 & mask);
	if (control & 4)
		sqe.prp2 = f->mem + (sqe.prp2 & mask);
	if (is_wanted(&sqe, qid))
		fake_tr_submit(f->t, qid, &sqe);
	fake_node_steps(f->n, control & 8 ? 40 : 4);
	fake_tr_reap(f->t, qid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f;

	fuzz_begin(&f);
	for (; size >= 65; data += 65, size -= 65) {
		if (data[0] & 0x80)
			memcpy(fake_tr_ptr(f.t, f.mem + (data[0] & 0x7f) * 64ull), data + 1, 64);
		else
			fuzz_sqe(&f, data[0], data + 1);
	}
	fake_node_steps(f.n, 300);
	fuzz_end(&f);
	return 0;
}
