/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a recording (replay_file.h) while a transport runs: it calls these for the commands of
 * its I/O queues.
 *
 *   after tgt_req_init()    replay_record_sqe(rec, req)
 *   in its ops->data()      replay_record_data(rec, req, len, dir), before it does the work
 *   before it posts a CQE   replay_record_cqe(rec, req)
 *
 * All of them may be called from any worker; NULL for rec does nothing. A recording is for finding
 * out, not for speed: there is one lock, and a full buffer is written where it fills. It is
 * bounded: at max_bytes, or when the disk is full, it stops with one log line and the commands go
 * on.
 */
#ifndef TRANSPORT_REPLAY_REPLAY_RECORD_H
#define TRANSPORT_REPLAY_REPLAY_RECORD_H

#include "target/tgt.h"

struct replay_record;

struct replay_record_opts {
	const char *path;
	uint64_t max_bytes; /* 0 = 1 GiB */
	uint32_t data_max;  /* host data longer than this aren't kept; 0 = 64 KiB */
	/*
	 * What Store, STORE_EX, EXEC and Write carry is kept too. KV blocks are prompts: without
	 * it only their length is, and what other commands bring (keys, ranges)
	 */
	bool has_values;
	uint32_t stride; /* of the doorbells, for the head; 0 = 4 */
};
/* The file must not exist: -EEXIST. -errno. */
int replay_record_open(const struct replay_record_opts *o, struct replay_record **rec);
/*
 * 0, or the -errno that ended it early. *bytes (may be NULL) is the length of the file; one without
 * a command is taken away.
 */
int replay_record_close(struct replay_record *rec, uint64_t *bytes);
void replay_record_queue(struct replay_record *rec, uint16_t qid, uint32_t size);
void replay_record_sqe(struct replay_record *rec, struct tgt_req *req);
void replay_record_data(struct replay_record *rec, struct tgt_req *req, uint64_t len,
			enum mem_xfer_dir dir);
void replay_record_cqe(struct replay_record *rec, const struct tgt_req *req);

#endif
