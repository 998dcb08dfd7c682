/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a recording. Two passes over the records: the first checks and counts, the second fills
 * tables of the exact size, so a file can't make us allocate more than a few times its own bytes.
 * Any thread.
 */
#include "transport/replay/replay_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/cleanup.h"
#include "base/must.h"

struct reader {
	const uint8_t *buf;
	uint64_t bytes, at;
};

static uint64_t pad8(uint64_t n)
{
	return (n + 7) & ~7ull;
}

static bool head_check(const void *buf, size_t bytes)
{
	struct replay_file_head h;

	if (bytes < sizeof(h))
		return false;
	memcpy(&h, buf, sizeof(h));
	return h.magic == REPLAY_FILE_MAGIC && h.version == REPLAY_FILE_VERSION &&
	       h.head_bytes >= sizeof(h) && h.head_bytes % 8 == 0 && h.head_bytes <= bytes;
}

/* Whether `bytes` is what this kind of record has. */
static bool rec_check(const struct replay_file_rec *r)
{
	uint64_t payload = r->bytes - sizeof(*r);

	switch (r->kind) {
	case REPLAY_QUEUE:
		return payload == 0 && r->qid > 0;
	case REPLAY_SQE:
		return payload == sizeof(struct nvme_sqe) && r->qid > 0;
	case REPLAY_DATA:
		return r->len <= REPLAY_DATA_MAX && r->dir <= REPLAY_FROM_HOST &&
		       (payload == 0 || (payload == pad8(r->len) && r->dir == REPLAY_FROM_HOST));
	case REPLAY_CQE:
		return payload == sizeof(struct nvme_cqe);
	case REPLAY_END:
		return payload == 0;
	default:
		return false;
	}
}

/* The next record: 1, 0 at the end, -EINVAL; *is_torn when the file ends inside it. */
static int rec_next(struct reader *rd, struct replay_file_rec *r, const uint8_t **payload,
		    bool *is_torn)
{
	uint64_t left = rd->bytes - rd->at;

	if (left == 0)
		return 0;
	*is_torn = left < sizeof(*r);
	if (*is_torn)
		return 0;
	memcpy(r, rd->buf + rd->at, sizeof(*r));
	if (r->bytes < sizeof(*r) || r->bytes % 8 || !rec_check(r))
		return -EINVAL;
	*is_torn = r->bytes > left;
	if (*is_torn)
		return 0;
	*payload = rd->buf + rd->at + sizeof(*r);
	rd->at += r->bytes;
	return 1;
}

static int file_count(struct reader rd, struct replay_file *f)
{
	struct replay_file_rec r;
	const uint8_t *payload;
	int res;

	while ((res = rec_next(&rd, &r, &payload, &f->is_torn)) > 0) {
		if (r.kind == REPLAY_SQE && r.seq != f->nr_cmds++)
			return -EINVAL;
		if ((r.kind == REPLAY_DATA || r.kind == REPLAY_CQE) && r.seq >= f->nr_cmds)
			return -EINVAL;
		f->nr_events += r.kind == REPLAY_SQE || r.kind == REPLAY_CQE;
		if (r.kind == REPLAY_END)
			return 0;
	}
	return res;
}

static int cmd_data(struct replay_cmd *c, const struct replay_file_rec *r, const uint8_t *payload)
{
	if (c->has_data || c->cqe)
		return -EINVAL;
	c->has_data = true;
	c->len = r->len;
	c->is_from_host = r->dir == REPLAY_FROM_HOST;
	c->data = r->bytes > sizeof(*r) ? payload : NULL;
	return 0;
}

static int file_fill(struct reader rd, struct replay_file *f)
{
	struct replay_file_rec r;
	const uint8_t *payload;
	uint32_t nr_events = 0, depth = 0;
	struct replay_cmd *c;

	while (rec_next(&rd, &r, &payload, &f->is_torn) > 0) {
		if (r.kind == REPLAY_END)
			break;
		if (r.kind == REPLAY_QUEUE)
			continue;
		c = &f->cmds[r.seq];
		if (r.kind == REPLAY_SQE) {
			c->sqe = (const struct nvme_sqe *)payload;
			c->qid = r.qid;
			f->events[nr_events++] = (uint64_t)r.seq << 1;
			f->depth_max = ++depth > f->depth_max ? depth : f->depth_max;
		} else if (r.kind == REPLAY_DATA) {
			if (cmd_data(c, &r, payload))
				return -EINVAL;
			f->len_max = r.len > f->len_max ? r.len : f->len_max;
		} else {
			if (c->cqe)
				return -EINVAL;
			c->cqe = (const struct nvme_cqe *)payload;
			f->events[nr_events++] = (uint64_t)r.seq << 1 | 1;
			depth--;
		}
	}
	must(nr_events == f->nr_events);
	return 0;
}

int replay_file_parse(const void *buf, size_t bytes, struct replay_file *out)
{
	struct reader rd = {.buf = buf, .bytes = bytes};
	struct replay_file f = {0};
	int err;

	must((uintptr_t)buf % 8 == 0);
	if (!head_check(buf, bytes))
		return -EINVAL;
	rd.at = ((const struct replay_file_head *)buf)->head_bytes;
	err = file_count(rd, &f);
	if (err)
		return err;
	f.cmds = calloc(f.nr_cmds + 1ull, sizeof(*f.cmds));
	f.events = calloc(f.nr_events + 1ull, sizeof(*f.events));
	err = f.cmds && f.events ? file_fill(rd, &f) : -ENOMEM;
	if (err) {
		replay_file_close(&f);
		return err;
	}
	*out = f;
	return 0;
}

int replay_file_open(const char *path, struct replay_file *f)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;
	int err;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct replay_file_head))
		return -EINVAL;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	err = replay_file_parse(map, (size_t)st.st_size, f);
	if (err) {
		munmap(map, (size_t)st.st_size);
		return err;
	}
	f->map = map;
	f->map_bytes = (size_t)st.st_size;
	return 0;
}

void replay_file_close(struct replay_file *f)
{
	free(f->cmds);
	free(f->events);
	if (f->map)
		munmap(f->map, f->map_bytes);
	memset(f, 0, sizeof(*f));
}
