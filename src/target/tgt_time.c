/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See tgt_time.h. Samples are rare: what is done here isn't on the way of most commands.
 */
#include "target/tgt_time.h"

#include "peal/vendor.h"
#include "target/tgt_int.h"

/* Verb 0 is all others. */
static const uint8_t time_opcodes[2][TGT_TIME_VERBS] = {
	{0, 0x00, 0x01, 0x02, 0x08, 0x09},
	{0, NVME_KV_FLUSH, NVME_KV_STORE, NVME_KV_RETRIEVE, NVME_KV_LIST, NVME_KV_DELETE,
	 NVME_KV_EXIST, PEAL_OPC_STORE_EX, PEAL_OPC_RETRIEVE_EX, PEAL_OPC_MATCH, PEAL_OPC_LEASE,
	 PEAL_OPC_RELEASE},
};
static const uint8_t time_nr_opcodes[2] = {6, 12};

int tgt_time_opcode(uint8_t csi, unsigned verb)
{
	return verb == 0 || verb >= time_nr_opcodes[csi & 1] ? -1 : time_opcodes[csi & 1][verb];
}

static unsigned time_verb(uint8_t csi, uint8_t opc)
{
	unsigned verb = 1;

	while (verb < time_nr_opcodes[csi & 1] && time_opcodes[csi & 1][verb] != opc)
		verb++;
	return verb < time_nr_opcodes[csi & 1] ? verb : 0;
}

static unsigned time_bucket(uint64_t ns)
{
	uint64_t over = ns / TGT_TIME_LEAST_NS;
	unsigned i = over ? 64u - (unsigned)__builtin_clzll(over) : 0;

	return i < TGT_TIME_BUCKETS ? i : TGT_TIME_BUCKETS - 1;
}

static void time_note(struct tgt_ns *ns, const struct tgt_worker *w, uint8_t opc, uint64_t start_ns)
{
	uint64_t took = reactor_now_ns(w->reactor) - start_ns;
	unsigned verb = time_verb(ns->ops->csi, opc);
	struct tgt_time *t = ns->time;

	if (!t)
		return;
	t += w->id;
	counter_add(&t->ns[verb], took);
	counter_add(&t->nr[verb], 1);
	counter_add(&t->bucket[verb][time_bucket(took)], 1);
}

void tgt_time_begin(struct tgt_req *req, uint64_t start_ns)
{
	if (!req->ns)
		return;
	req->watch |= TGT_WATCH_TIME;
	req->stamp_ns[TGT_STAMP_FETCH] = start_ns;
	counter_add(&req->ns->stat[req->sq->worker->id].inflight, 1);
}

void tgt_time_end(struct tgt_req *req)
{
	struct tgt_worker *w = req->sq->worker;

	time_note(req->ns, w, req->sqe.opc, req->stamp_ns[TGT_STAMP_FETCH]);
	counter_add(&req->ns->stat[w->id].inflight, (uint64_t)-1);
}

void tgt_time_look(struct tgt_sq *sq, const struct nvme_sqe *sqe, uint64_t start_ns)
{
	struct tgt_ns *ns = tgt_ctrl_ns(sq->ctrl, sqe->nsid);

	if (ns)
		time_note(ns, sq->worker, sqe->opc, start_ns);
}

bool tgt_time_sum(const struct tgt_ns *ns, unsigned verb, struct tgt_time_sum *sum)
{
	*sum = (struct tgt_time_sum){0};
	for (unsigned w = 0; ns->time && w < ns->subsys->node->nr; w++) {
		const struct tgt_time *t = &ns->time[w];

		if (!counter_get(&t->nr[verb]))
			continue;
		sum->ns += counter_get(&t->ns[verb]);
		for (unsigned i = 0; i < TGT_TIME_BUCKETS; i++) {
			sum->bucket[i] += counter_get(&t->bucket[verb][i]);
			/* The sum of the buckets, whatever is counted meanwhile. */
			sum->nr += counter_get(&t->bucket[verb][i]);
		}
	}
	return sum->nr != 0;
}

uint64_t tgt_time_quantile(const uint64_t bucket[TGT_TIME_BUCKETS], unsigned of_1000)
{
	uint64_t nr = 0, below = 0;

	for (unsigned i = 0; i < TGT_TIME_BUCKETS; i++)
		nr += bucket[i];
	if (!nr)
		return 0;
	for (unsigned i = 0; i < TGT_TIME_BUCKETS; i++) {
		below += bucket[i];
		if (below * 1000 >= nr * of_1000)
			return (uint64_t)TGT_TIME_LEAST_NS << i;
	}
	return (uint64_t)TGT_TIME_LEAST_NS << (TGT_TIME_BUCKETS - 1);
}
