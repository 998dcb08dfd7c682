/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: a buffer under a lock, written when it is full. See replay_record.h.
 */
#include "transport/replay/replay_record.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "nvme/nvme_kv.h"
#include "peal/vendor.h"
#include "transport/replay/replay_file.h"

#define RECORD_BUF_BYTES (1u << 20)
#define RECORD_MAX_DEFAULT (1ull << 30)
#define RECORD_DATA_DEFAULT 65536u

struct replay_record {
	pthread_mutex_t lock;
	int fd;
	int err; /* what ended it; nothing is added any more */
	char *path;
	uint64_t max_bytes;
	uint64_t bytes; /* written and buffered */
	uint32_t data_max;
	uint32_t nr_cmds;
	uint32_t fill;
	bool has_start;
	bool has_values;
	uint64_t start_ns;
	uint8_t *bounce; /* data_max bytes */
	uint8_t buf[RECORD_BUF_BYTES];
};

static void record_end(struct replay_record *rec, int err)
{
	rec->err = err;
	rec->fill = 0;
	log_some_warn("%s: recording stopped after %u commands: %s", rec->path, rec->nr_cmds,
		      strerror(-err));
}

static void record_flush(struct replay_record *rec)
{
	uint32_t at = 0;
	ssize_t n;

	while (at < rec->fill && !rec->err) {
		n = write(rec->fd, rec->buf + at, rec->fill - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			record_end(rec, n ? -errno : -EIO);
		else
			at += (uint32_t)n;
	}
	rec->fill = 0;
}

static void record_put(struct replay_record *rec, const void *p, uint32_t len)
{
	const uint8_t *at = p;
	uint32_t n;

	while (len && !rec->err) {
		n = RECORD_BUF_BYTES - rec->fill < len ? RECORD_BUF_BYTES - rec->fill : len;
		memcpy(rec->buf + rec->fill, at, n);
		rec->fill += n;
		at += n;
		len -= n;
		if (rec->fill == RECORD_BUF_BYTES)
			record_flush(rec);
	}
}

/* One whole record or nothing. Under the lock. */
static void record_add(struct replay_record *rec, struct replay_file_rec r, uint64_t now_ns,
		       const void *payload, uint32_t len)
{
	static const uint8_t zero[8];
	uint32_t pad = -len & 7;

	r.bytes = (uint32_t)sizeof(r) + len + pad;
	if (rec->err)
		return;
	/* The end mark fits in any case. */
	if (rec->bytes + r.bytes + sizeof(r) > rec->max_bytes) {
		record_flush(rec);
		record_end(rec, -EFBIG);
		return;
	}
	if (!rec->has_start)
		rec->start_ns = now_ns;
	rec->has_start = true;
	r.at_ns = now_ns - rec->start_ns;
	record_put(rec, &r, sizeof(r));
	record_put(rec, payload, len);
	record_put(rec, zero, pad);
	rec->bytes += r.bytes;
}

static uint64_t now_of(const struct tgt_req *req)
{
	return reactor_turn_ns(req->sq->worker->reactor);
}

void replay_record_queue(struct replay_record *rec, uint16_t qid, uint32_t size)
{
	if (!rec)
		return;
	auto_unlock pthread_mutex_t *lock = cleanup_lock(&rec->lock);
	record_add(rec, (struct replay_file_rec){.kind = REPLAY_QUEUE, .qid = qid, .len = size},
		   rec->start_ns, NULL, 0);
}

void replay_record_sqe(struct replay_record *rec, struct tgt_req *req)
{
	struct replay_file_rec r = {.kind = REPLAY_SQE};

	if (!rec)
		return;
	r.qid = req->sq->qid;
	auto_unlock pthread_mutex_t *lock = cleanup_lock(&rec->lock);
	r.seq = rec->nr_cmds;
	req->record_seq = r.seq;
	req->record_has_data = false;
	record_add(rec, r, now_of(req), &req->sqe, sizeof(req->sqe));
	if (!rec->err)
		rec->nr_cmds++;
}

/* Does the host's data hold a value? By opcode: the same in the KV and the NVM command set. */
static bool record_is_value(const struct tgt_req *req)
{
	if (req->sq->qid == 0)
		return false;
	switch (req->sqe.opc) {
	case NVME_KV_STORE: /* and Write */
	case PEAL_OPC_STORE_EX:
	case PEAL_OPC_EXEC:
		return true;
	default:
		return false;
	}
}

/*
 * The host may change its data between this look and the command's own: the recording has what
 * was there first.
 */
static bool record_fetch(struct replay_record *rec, struct tgt_req *req, uint32_t len)
{
	return req->sq->ops->resolve && tgt_dptr_init(req, len, MEM_FROM_PEER) == NVME_ST_OK &&
	       tgt_req_iter_get(req, rec->bounce, len) == NVME_ST_OK;
}

void replay_record_data(struct replay_record *rec, struct tgt_req *req, uint64_t len,
			enum mem_xfer_dir dir)
{
	struct replay_file_rec r = {.kind = REPLAY_DATA, .len = (uint32_t)len};
	bool is_kept;

	/* data() may be called again, to start over: once is enough. */
	if (!rec || len > REPLAY_DATA_MAX || req->record_has_data)
		return;
	auto_unlock pthread_mutex_t *lock = cleanup_lock(&rec->lock);
	req->record_has_data = true;
	r.qid = req->sq->qid;
	r.seq = req->record_seq;
	r.dir = dir == MEM_FROM_PEER ? REPLAY_FROM_HOST : REPLAY_TO_HOST;
	is_kept = dir == MEM_FROM_PEER && len <= rec->data_max &&
		  (rec->has_values || !record_is_value(req)) &&
		  record_fetch(rec, req, (uint32_t)len);
	record_add(rec, r, now_of(req), rec->bounce, is_kept ? r.len : 0);
}

void replay_record_cqe(struct replay_record *rec, const struct tgt_req *req)
{
	struct replay_file_rec r = {.kind = REPLAY_CQE};
	struct nvme_cqe cqe;

	if (!rec)
		return;
	r.qid = req->sq->qid;
	r.seq = req->record_seq;
	cqe = (struct nvme_cqe){
		.dw0 = req->dw0,
		.dw1 = req->dw1,
		.sq_id = r.qid,
		.cid = req->sqe.cid,
		.status = nvme_status_wire(req->status, 0),
	};
	auto_unlock pthread_mutex_t *lock = cleanup_lock(&rec->lock);
	record_add(rec, r, now_of(req), &cqe, sizeof(cqe));
}

static void record_free(struct replay_record *rec)
{
	pthread_mutex_destroy(&rec->lock);
	free(rec->bounce);
	free(rec->path);
	free(rec);
}

int replay_record_open(const struct replay_record_opts *o, struct replay_record **out)
{
	struct replay_file_head head = {
		.magic = REPLAY_FILE_MAGIC,
		.version = REPLAY_FILE_VERSION,
		.head_bytes = sizeof(head),
		.stride = o->stride ? o->stride : 4,
	};
	struct replay_record *rec = calloc(1, sizeof(*rec));
	int err;

	if (!rec)
		return -ENOMEM;
	pthread_mutex_init(&rec->lock, NULL);
	rec->max_bytes = o->max_bytes ? o->max_bytes : RECORD_MAX_DEFAULT;
	rec->data_max = o->data_max ? o->data_max : RECORD_DATA_DEFAULT;
	rec->path = strdup(o->path);
	rec->bounce = malloc(rec->data_max);
	if (!rec->path || !rec->bounce) {
		record_free(rec);
		return -ENOMEM;
	}
	rec->has_values = o->has_values;
	/* For the owner alone. Never into what somebody has put there: a file of his, a FIFO. */
	rec->fd = open(o->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NONBLOCK, 0600);
	if (rec->fd < 0) {
		err = -errno;
		record_free(rec);
		return err;
	}
	record_put(rec, &head, sizeof(head));
	rec->bytes = sizeof(head);
	*out = rec;
	return 0;
}

int replay_record_close(struct replay_record *rec, uint64_t *bytes)
{
	struct replay_file_rec end = {
		.bytes = sizeof(end), .kind = REPLAY_END, .seq = rec->nr_cmds};
	int err;

	record_put(rec, &end, sizeof(end));
	record_flush(rec);
	err = rec->err;
	if (close(rec->fd) && !err)
		err = -errno;
	if (!rec->nr_cmds)
		unlink(rec->path);
	if (bytes)
		*bytes = rec->nr_cmds ? rec->bytes : 0;
	record_free(rec);
	return err;
}
