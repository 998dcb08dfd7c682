/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_unit.h. Runs on the shard's owner.
 * tidy: no-test: test/model/m_ssd fails it in every way
 */
#include "store/ssd/ssd_unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_int.h"

#define VERIFY_BYTES (SSD_PACK_BYTES + SSD_BLOCK)

/* ---- reading back ---------------------------------------------------------------------------- */

static void verify_next(struct ssd *s);

static void verify_read(struct io_req *req, int res)
{
	struct ssd_verify *v = container_of(req, struct ssd_verify, req);
	struct ssd *s = container_of(v, struct ssd, verify);
	struct ssd_unit *u = v->unit;

	v->unit = NULL;
	if (res >= 0)
		res = (uint32_t)res == u->len && memcmp(v->buf, u->buf, u->len) == 0 ? 0 : -EILSEQ;
	if (res < 0)
		ssd_health_error(s, res == -EILSEQ ? STORE_ERROR_WRONG : STORE_ERROR_READ);
	verify_next(s);
	u->end(u, res);
}

static void verify_next(struct ssd *s)
{
	struct ssd_verify *v = &s->verify;
	struct ssd_unit *u;

	if (v->unit || list_is_empty(&v->queue))
		return;
	u = list_first_entry(&v->queue, struct ssd_unit, node);
	list_del(&u->node);
	must(u->len <= VERIFY_BYTES);
	v->unit = u;
	v->iov = (struct iovec){v->buf, u->len};
	v->req = (struct io_req){.op = IO_READ,
				 .fd = s->dev->fd,
				 .iov = &v->iov,
				 .nr_iov = 1,
				 .off = u->off,
				 .end = verify_read};
	reactor_io(s->st.owner, &v->req);
}

static void unit_written(struct ssd_unit *u)
{
	if (!u->wants_verify) {
		u->end(u, 0);
		return;
	}
	list_add_tail(&u->s->verify.queue, &u->node);
	verify_next(u->s);
}

/* ---- syncs ----------------------------------------------------------------------------------- */

static void sync_start(struct ssd *s);

static void sync_ended(struct io_req *req, int res)
{
	struct ssd_sync *sy = container_of(req, struct ssd_sync, req);
	struct ssd *s = container_of(sy, struct ssd, sync);
	struct ssd_sync_wait *w;
	struct list done;

	sy->is_busy = false;
	list_init(&done);
	list_splice_tail(&done, &sy->now);
	/* What has come meanwhile may have been part of it, and a later success would not say. */
	if (res < 0) {
		list_splice_tail(&done, &sy->next);
		ssd_health_error(s, STORE_ERROR_SYNC);
		store_alert(&s->st, NULL,
			    "a sync of the SSD tier has failed: what it was to cover is a miss");
		ssd_stream_lose(s);
	}
	sync_start(s);
	while (!list_is_empty(&done)) {
		w = list_first_entry(&done, struct ssd_sync_wait, node);
		list_del(&w->node);
		w->fn(w, res < 0 ? res : 0);
	}
}

static void sync_start(struct ssd *s)
{
	struct ssd_sync *sy = &s->sync;

	if (sy->is_busy || list_is_empty(&sy->next))
		return;
	sy->is_busy = true;
	list_splice_tail(&sy->now, &sy->next);
	sy->req = (struct io_req){.op = IO_FSYNC, .fd = s->dev->fd, .end = sync_ended};
	reactor_io(s->st.owner, &sy->req);
}

void ssd_unit_sync(struct ssd *s, struct ssd_sync_wait *w)
{
	list_add_tail(&s->sync.next, &w->node);
	sync_start(s);
}

static void unit_synced(struct ssd_sync_wait *w, int res)
{
	struct ssd_unit *u = container_of(w, struct ssd_unit, sync);

	if (res < 0)
		u->end(u, res);
	else
		unit_written(u);
}

/* ---- writes ---------------------------------------------------------------------------------- */

static void unit_write(struct ssd_unit *u);

static void unit_ended(struct io_req *req, int res)
{
	struct ssd_unit *u = container_of(req, struct ssd_unit, req);

	if (res == -ENOSPC && !u->is_retried) {
		u->is_retried = true;
		ssd_evict_kick(u->s);
		unit_write(u);
		return;
	}
	if (res >= 0 && (uint32_t)res != u->len)
		res = -EIO;
	if (res < 0) {
		if (res != -ENOSPC)
			ssd_health_error(u->s, STORE_ERROR_WRITE);
		u->end(u, res);
	} else if (u->wants_sync) {
		u->sync.fn = unit_synced;
		ssd_unit_sync(u->s, &u->sync);
	} else {
		unit_written(u);
	}
}

static void unit_write(struct ssd_unit *u)
{
	if (!u->nr_iov)
		u->iov[0] = (struct iovec){u->buf, u->len};
	u->req = (struct io_req){.op = IO_WRITE,
				 .fd = u->s->dev->fd,
				 .iov = u->iov,
				 .nr_iov = u->nr_iov ? u->nr_iov : 1,
				 .off = u->off,
				 .end = unit_ended};
	reactor_io(u->s->st.owner, &u->req);
}

void ssd_unit_submit(struct ssd *s, struct ssd_unit *u)
{
	must(u->len && u->len % SSD_BLOCK == 0 && u->off % SSD_BLOCK == 0);
	must(!u->wants_verify || !u->nr_iov);
	u->s = s;
	u->is_retried = u->is_checked = false;
	ssd_health_wrote(s, u->why, u->len);
	unit_write(u);
}

int ssd_unit_init(struct ssd *s)
{
	list_init(&s->sync.now);
	list_init(&s->sync.next);
	list_init(&s->verify.queue);
	s->verify.buf = aligned_alloc(SSD_BLOCK, VERIFY_BYTES);
	return s->verify.buf ? 0 : -ENOMEM;
}

void ssd_unit_fini(struct ssd *s)
{
	must(!s->sync.is_busy && !s->verify.unit);
	free(s->verify.buf);
}
