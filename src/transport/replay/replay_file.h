/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording: what hosts sent to a controller's I/O queues and what it answered. Little-endian,
 * everything a multiple of 8 bytes.
 *
 *   struct replay_file_head
 *   struct replay_file_rec, payload, zero pad to 8; as often as there is something to tell:
 *     REPLAY_QUEUE  a queue was created: len = slots; no payload
 *     REPLAY_SQE    a command was taken from queue qid; seq counts commands from 0; the SQE
 *     REPLAY_DATA   the data pointer of command seq names len bytes in direction dir; those
 *                   bytes (host to controller, when they were kept), or nothing
 *     REPLAY_CQE    command seq is over; the CQE, with phase 0
 *     REPLAY_END    the recorder was closed in order
 *
 * Addresses in SQEs mean nothing to a reader. A file that ends inside a record (the daemon died)
 * is good up to there. replay_file_parse() believes nothing: it is pure, fuzzed, and points into
 * the caller's buffer.
 */
#ifndef TRANSPORT_REPLAY_REPLAY_FILE_H
#define TRANSPORT_REPLAY_REPLAY_FILE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "nvme/nvme_kv.h"

#define REPLAY_FILE_MAGIC 0x314345524c414550ull /* "PEALREC1" */
#define REPLAY_FILE_VERSION 1u
#define REPLAY_DATA_MAX (129u << 20) /* a value and what may stand before it */
#define REPLAY_QUEUES_MAX 65535u

struct replay_file_head {
	uint64_t magic;
	uint32_t version;
	uint32_t head_bytes; /* where the first record is */
	uint64_t reserved0;
	uint32_t stride; /* of the doorbells, bytes */
	uint32_t flags;
	uint64_t reserved[4];
};
static_assert(sizeof(struct replay_file_head) == 64, "head");

enum { REPLAY_QUEUE = 1, REPLAY_SQE, REPLAY_DATA, REPLAY_CQE, REPLAY_END };
enum { REPLAY_TO_HOST, REPLAY_FROM_HOST };

struct replay_file_rec {
	uint32_t bytes; /* of the whole record with payload and pad */
	uint8_t kind;
	uint8_t dir; /* REPLAY_DATA */
	uint16_t qid;
	uint64_t at_ns; /* since the recording began */
	uint32_t seq;
	uint32_t len;
};
static_assert(sizeof(struct replay_file_rec) == 24, "record");

struct replay_cmd {
	const struct nvme_sqe *sqe;
	const struct nvme_cqe *cqe; /* NULL: it wasn't over when the recording ended */
	const uint8_t *data;	    /* NULL: none was kept */
	uint32_t len;		    /* bytes of its data pointer; 0 = it had none */
	uint16_t qid;
	bool is_from_host;
	bool has_data; /* there was a REPLAY_DATA */
};

struct replay_file {
	struct replay_cmd *cmds; /* by seq */
	uint32_t nr_cmds;
	/* In the order of the file: seq << 1, and | 1 for its completion. */
	uint64_t *events;
	uint32_t nr_events;
	uint32_t len_max;   /* the longest data */
	uint32_t depth_max; /* commands that were under way at once */
	bool is_torn;	    /* ended inside a record */
	void *map;	    /* replay_file_open()'s */
	size_t map_bytes;
};

/* buf is 8-aligned and outlives f. 0, -EINVAL (not a recording), -ENOMEM. */
int replay_file_parse(const void *buf, size_t bytes, struct replay_file *f);
int replay_file_open(const char *path, struct replay_file *f); /* maps and parses; -errno */
void replay_file_close(struct replay_file *f);

#endif
