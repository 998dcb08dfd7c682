/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffer pool, see bufs.h. The bitmap is searched from the first word that may have room; a
 * run of units is found by walking bits, words at a time where they are full or empty.
 */
#include "client/bufs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mono.h"
#include "base/must.h"
#include "client/batch.h"
#include "client/chan.h"
#include "client/conn.h"
#include "client/errmsg.h"

#define BUFS_UNIT 4096u
#define BUFS_BIG_MAX 2u
#define BUFS_UNMAP_NS (200 * MONO_NS_PER_MS)

int bufs_init(struct bufs *b, struct conn *c, uint64_t bytes, uint64_t deadline_ns)
{
	uint64_t word = 64ull * BUFS_UNIT; /* 256 KiB: whole words of the bitmap */
	int err;

	bytes = (bytes + word - 1) & ~(word - 1);
	b->used = calloc(bytes / word, sizeof(*b->used));
	if (!b->used)
		return errmsg_set(-ENOMEM, "no memory for a map of buffers");
	err = shm_create(c, bytes, "peal-buffers", &b->shm, deadline_ns);
	if (err) {
		free(b->used);
		b->used = NULL;
		return err;
	}
	b->conn = c;
	b->nr_units = (uint32_t)(bytes / BUFS_UNIT);
	pthread_mutex_init(&b->lock, NULL);
	turn_cond_init(&b->cond);
	return 0;
}

void bufs_fini(struct bufs *b)
{
	if (!b->used)
		return;
	shm_destroy(&b->shm);
	free(b->used);
	pthread_cond_destroy(&b->cond);
	pthread_mutex_destroy(&b->lock);
}

static bool bufs_is_used(const struct bufs *b, uint32_t unit)
{
	return b->used[unit / 64] >> (unit % 64) & 1;
}

static void bufs_mark(struct bufs *b, uint32_t unit, uint32_t nr, bool is_used)
{
	while (nr) {
		uint32_t bit = unit % 64;
		uint32_t n = nr < 64 - bit ? nr : 64 - bit;
		uint64_t mask = (n == 64 ? ~0ull : (1ull << n) - 1) << bit;

		if (is_used)
			b->used[unit / 64] |= mask;
		else
			b->used[unit / 64] &= ~mask;
		unit += n;
		nr -= n;
	}
}

/* The first of `nr` free units in a row, or -1. */
static int64_t bufs_find(struct bufs *b, uint32_t nr)
{
	uint32_t run = 0;

	while (b->first_word < b->nr_units / 64 && b->used[b->first_word] == ~0ull)
		b->first_word++;
	for (uint32_t u = b->first_word * 64; u < b->nr_units;) {
		uint64_t w = b->used[u / 64];

		if (u % 64 == 0 && w == ~0ull) {
			run = 0;
			u += 64;
		} else if (u % 64 == 0 && w == 0 && run + 64 < nr) {
			run += 64;
			u += 64;
		} else {
			run = bufs_is_used(b, u) ? 0 : run + 1;
			u++;
			if (run == nr)
				return (int64_t)u - nr;
		}
	}
	return -1;
}

static bool bufs_take(struct bufs *b, size_t bytes, struct buf *buf)
{
	uint32_t nr = bytes ? (uint32_t)((bytes + BUFS_UNIT - 1) / BUFS_UNIT) : 1;
	int64_t unit = bufs_find(b, nr);

	if (unit < 0)
		return false;
	bufs_mark(b, (uint32_t)unit, nr, true);
	*buf = (struct buf){
		.ptr = b->shm.ptr + (size_t)unit * BUFS_UNIT,
		.iova = b->shm.iova + (uint64_t)unit * BUFS_UNIT,
		.bytes = (size_t)nr * BUFS_UNIT,
	};
	b->taken_bytes += buf->bytes;
	return true;
}

/* Waits for somebody's bufs_put(). Locked. */
static int bufs_wait(struct bufs *b, size_t bytes, uint64_t deadline_ns)
{
	if (b->taken_bytes == b->quarantined_bytes || !deadline_ns)
		return errmsg_set(
			-EAGAIN,
			"no buffer of %zu bytes: %llu bytes wait for commands that timed out, "
			"%llu are in use",
			bytes, (unsigned long long)b->quarantined_bytes,
			(unsigned long long)(b->taken_bytes - b->quarantined_bytes));
	if (turn_cond_wait(&b->cond, &b->lock, deadline_ns) == -ETIMEDOUT)
		return errmsg_set(-ETIMEDOUT, "no buffer of %zu bytes came free in time", bytes);
	return 0;
}

static int bufs_get_big(struct bufs *b, size_t bytes, struct buf *buf, uint64_t deadline_ns)
{
	int err = 0;

	pthread_mutex_lock(&b->lock);
	while (b->nr_big == BUFS_BIG_MAX && !err)
		err = bufs_wait(b, bytes, deadline_ns);
	if (!err) {
		b->nr_big++;
		b->taken_bytes += bytes;
	}
	pthread_mutex_unlock(&b->lock);
	if (err)
		return err;
	*buf = (struct buf){.bytes = bytes};
	err = shm_create(b->conn, bytes, "peal-big", &buf->big, deadline_ns);
	if (err) {
		pthread_mutex_lock(&b->lock);
		b->nr_big--;
		b->taken_bytes -= bytes;
		pthread_cond_broadcast(&b->cond);
		pthread_mutex_unlock(&b->lock);
		return err;
	}
	buf->ptr = buf->big.ptr;
	buf->iova = buf->big.iova;
	return 0;
}

int bufs_get(struct bufs *b, size_t bytes, struct buf *buf, uint64_t deadline_ns)
{
	bool has_looked = false;
	int err = 0;

	if (bytes > b->shm.bytes)
		return bufs_get_big(b, bytes, buf, deadline_ns);
	pthread_mutex_lock(&b->lock);
	while (!err && !bufs_take(b, bytes, buf)) {
		if (b->quarantined_bytes && !has_looked) {
			/* Answers may have come since: nobody else looks at an idle queue. */
			has_looked = true;
			pthread_mutex_unlock(&b->lock);
			chan_reap_all(b->conn);
			if (b->conn->p)
				batch_reap_idle(b->conn->p);
			pthread_mutex_lock(&b->lock);
			continue;
		}
		err = bufs_wait(b, bytes, deadline_ns);
	}
	pthread_mutex_unlock(&b->lock);
	return err;
}

static void bufs_give(struct bufs *b, struct buf *buf, bool is_late)
{
	if (buf->big.ptr) {
		/* Unanswered, the daemon keeps a mapping of a file that nobody uses any more. */
		conn_dev_dma_unmap(b->conn, buf->big.iova, buf->big.bytes,
				   mono_ns() + BUFS_UNMAP_NS);
		shm_destroy(&buf->big);
	}
	pthread_mutex_lock(&b->lock);
	if (buf->iova >= b->shm.iova && buf->iova < b->shm.iova + b->shm.bytes) {
		uint32_t unit = (uint32_t)((buf->iova - b->shm.iova) / BUFS_UNIT);

		bufs_mark(b, unit, (uint32_t)(buf->bytes / BUFS_UNIT), false);
		if (unit / 64 < b->first_word)
			b->first_word = unit / 64;
	} else {
		must(b->nr_big > 0);
		b->nr_big--;
	}
	b->taken_bytes -= buf->bytes;
	if (is_late)
		b->quarantined_bytes -= buf->bytes;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
	buf->ptr = NULL;
}

void bufs_put(struct bufs *b, struct buf *buf)
{
	bufs_give(b, buf, false);
}

void bufs_put_late(struct bufs *b, struct buf *buf)
{
	bufs_give(b, buf, true);
}

void bufs_quarantine(struct bufs *b, const struct buf *buf)
{
	pthread_mutex_lock(&b->lock);
	b->quarantined_bytes += buf->bytes;
	/* Those who wait for it must hear that it isn't coming soon. */
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

uint64_t bufs_quarantined(struct bufs *b)
{
	uint64_t n;

	pthread_mutex_lock(&b->lock);
	n = b->quarantined_bytes;
	pthread_mutex_unlock(&b->lock);
	return n;
}
