/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long commands take, by namespace and opcode, from the fetch to the end: a sample of them.
 * Every TGT_TIME_EVERYth of a worker is timed, and the first after a rest, so that a busy worker
 * pays two looks at the clock for so many commands and a quiet one knows of all of them.
 *
 *   transport:  w->until_timed runs out --> tgt_time_begin(req) | tgt_time_look(), answered at once
 *   respond():  req->watch & TGT_WATCH_TIME --> tgt_time_end(req)
 *
 * A timed request holds its namespace once more, for its books. Each worker writes its own, anybody
 * reads. Bucket i has what took less than TGT_TIME_LEAST_NS << i, the last one all of the rest.
 */
#ifndef TARGET_TGT_TIME_H
#define TARGET_TGT_TIME_H

#include "target/tgt.h"

#define TGT_TIME_EVERY 61 /* prime: no rhythm of a host's is in step with it */
#define TGT_TIME_LEAST_NS 256u
#define TGT_TIME_BUCKETS 25u /* up to 2.1 s, and the rest */
#define TGT_TIME_VERBS 12u

/* Of one worker and namespace. */
struct tgt_time {
	struct counter ns[TGT_TIME_VERBS];
	struct counter nr[TGT_TIME_VERBS]; /* samples */
	struct counter bucket[TGT_TIME_VERBS][TGT_TIME_BUCKETS];
};

/* The worker: start_ns is the fetch's. */
void tgt_time_begin(struct tgt_req *req, uint64_t start_ns);
void tgt_time_end(struct tgt_req *req);
/* The same of a command that tgt_req_look() has answered, within that turn. */
void tgt_time_look(struct tgt_sq *sq, const struct nvme_sqe *sqe, uint64_t start_ns);

/* Sums over the workers; verb < TGT_TIME_VERBS. False: there are none. Any worker, one turn. */
struct tgt_time_sum {
	uint64_t ns, nr;
	uint64_t bucket[TGT_TIME_BUCKETS];
};
bool tgt_time_sum(const struct tgt_ns *ns, unsigned verb, struct tgt_time_sum *sum);
/* The opcode of a verb of this command set; -1: the opcodes that have none of their own. */
int tgt_time_opcode(uint8_t csi, unsigned verb);
/*
 * So many ns or less took this share (in 1/1000) of them, by the bucket's upper bound; 0: there are
 * none.
 */
uint64_t tgt_time_quantile(const uint64_t bucket[TGT_TIME_BUCKETS], unsigned of_1000);

#endif
