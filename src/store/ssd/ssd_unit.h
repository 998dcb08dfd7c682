/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One write, as far as its owner wants it followed:
 *
 *     write -> [sync] -> [read back and compare] -> end(u, res)
 *
 * A short write is -EIO. One that found no space is tried once more. Syncs are shared: whoever
 * comes while one is under way waits for the next. A sync that fails is never asked again for the
 * same writes. Reading back finds writes that were acknowledged and went nowhere or elsewhere.
 *
 * end() never runs from inside ssd_unit_submit(). Belongs to the shard's owner.
 */
#ifndef STORE_SSD_SSD_UNIT_H
#define STORE_SSD_SSD_UNIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/env.h"

struct ssd;

struct ssd_sync_wait {
	struct list node;
	void (*fn)(struct ssd_sync_wait *w, int res);
};

struct ssd_sync {
	struct io_req req;
	struct list now;  /* wait for the one under way, */
	struct list next; /* for the one after */
	bool is_busy;
};

struct ssd_unit {
	struct list node; /* its owner's, until it is submitted; then the verifier's */
	struct ssd *s;
	struct io_req req;
	struct iovec iov[3];
	uint8_t nr_iov; /* 0: buf, in one; such alone can be read back */
	struct ssd_sync_wait sync;
	uint8_t *buf;
	uint32_t len;
	uint64_t off; /* in the file */
	bool wants_sync;
	bool wants_verify;
	bool is_retried;
	bool is_checked; /* memory above: it fits its seals, or is known not to (ssd_pace.c) */
	uint8_t why;	 /* enum store_wrote */
	void (*end)(struct ssd_unit *u, int res);
};

struct ssd_verify {
	struct list queue;
	struct ssd_unit *unit; /* being read back */
	struct io_req req;
	struct iovec iov;
	uint8_t *buf; /* as long as the longest unit that wants it */
};

int ssd_unit_init(struct ssd *s); /* sync and verify */
void ssd_unit_fini(struct ssd *s);
void ssd_unit_submit(struct ssd *s, struct ssd_unit *u);
void ssd_unit_sync(struct ssd *s, struct ssd_sync_wait *w);

#endif
