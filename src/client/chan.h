/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own queues, for calls that wait: one per calling thread up to CONN_CHANS_MAX,
 * shared behind that, each made when a thread first needs it. chan_exec() sends one command and
 * waits for its CQE or the deadline.
 *
 * Of the threads that wait on one channel, one is the poller: it spins for a moment, then sleeps
 * on the queue's eventfd, and hands out what has come; the others sleep on a condition. So a
 * thread alone on its channel pays one uncontended lock.
 *
 * A command that times out keeps its CID, and its buffer goes into quarantine, until its CQE has
 * come: whoever next looks at the channel frees both.
 */
#pragma once

#include <stdint.h>
#include "client/bufs.h"
#include "client/conn.h"

struct chan_cmd {
	struct nvme_sqe sqe; /* all but CID, NSID and DPTR */
	struct buf *buf;     /* its data, or NULL */
	uint32_t data_bytes; /* of buf that the command names */
	/* out */
	uint32_t dw0;
	uint32_t dw1;
	uint16_t status;
};

/*
 * 0: it was answered, with `status`. -ETIMEDOUT, -ENOTCONN: it was not, and where the daemon may
 * know of the buffer, *cmd->buf is no longer the caller's (its ptr is NULL then). -EAGAIN: every
 * CID waits for an answer. -EFBIG: too many bytes. With a message.
 */
int chan_exec(struct conn *c, struct chan_cmd *cmd, uint64_t deadline_ns);

/* The channel that this thread's last chan_exec() went through. */
struct chan *chan_mine(struct conn *c);
/*
 * Sends a command without data and doesn't wait: whoever next looks at the channel takes its CQE,
 * and nobody its status. -EAGAIN: that many are unanswered; chan_exec() waits. Any thread.
 */
int chan_post(struct chan *ch, const struct chan_cmd *cmd);
/* A command will come soon: the worker is to be awake then. True: it slept. Any thread. */
bool chan_wake(const struct chan *ch);

/* Frees what late completions have released, on all channels. */
void chan_reap_all(struct conn *c);
/* Every waiter looks again: the connection is dead. */
void chan_kick_all(struct conn *c);
/* When nobody can be inside any more. */
void chan_destroy_all(struct conn *c);
