/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own buffers: what calls with a deadline name to the daemon in place of the
 * caller's memory. One shared mapping per connection, given out in contiguous runs of 4 KiB units,
 * first fit, so that small calls always get the same warm pages. A value larger than the whole
 * pool gets a mapping of its own for the call (at most two at a time).
 *
 * A buffer whose command timed out is in quarantine: it stays out of use until the command's CQE
 * comes. When nothing but quarantine is in the way the answer is -EAGAIN at once: waiting won't
 * help, and memory stays bounded.
 *
 * Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "client/shm.h"

struct bufs {
	struct conn *conn;
	struct shm shm;
	pthread_mutex_t lock;
	pthread_cond_t cond; /* CLOCK_MONOTONIC */
	uint32_t nr_units;
	uint32_t first_word; /* no free unit in the words before it */
	uint64_t *used;	     /* a bit per unit */
	uint32_t nr_big;
	uint64_t taken_bytes; /* quarantine included */
	uint64_t quarantined_bytes;
};

/* By value; whoever holds it gives it back once. */
struct buf {
	uint8_t *ptr;
	uint64_t iova;
	size_t bytes; /* at least what was asked for */
	struct shm big;
};

int bufs_init(struct bufs *b, struct conn *c, uint64_t bytes, uint64_t deadline_ns);
void bufs_fini(struct bufs *b);

/* 0; -EAGAIN: all in quarantine; -ETIMEDOUT. With a message. deadline_ns 0: doesn't wait, and
 * -EAGAIN then says that there is none now. */
int bufs_get(struct bufs *b, size_t bytes, struct buf *buf, uint64_t deadline_ns);
void bufs_put(struct bufs *b, struct buf *buf);
/* The holder gave up; from now on it is counted as such. bufs_put_late() ends that. */
void bufs_quarantine(struct bufs *b, const struct buf *buf);
void bufs_put_late(struct bufs *b, struct buf *buf);
uint64_t bufs_quarantined(struct bufs *b);
