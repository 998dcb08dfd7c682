/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfio-user messages over the unix socket: one command out, its reply back, descriptors in both
 * directions, each with a deadline (nvme/vfio_user.h has the structs). Transactions of several
 * threads take turns. A reply that comes after its command timed out is dropped by its
 * message id. Commands from the server are answered with ENOTSUP: all memory that we map has a
 * descriptor, so it has nothing to ask.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "client/turn.h"
#include "nvme/vfio_user.h"

#define WIRE_FDS_MAX (1 + VFU_WAKE_WORKERS_MAX) /* BAR0's reply */
#define WIRE_BODY_MAX 8192
#define WIRE_NEVER TURN_NEVER

struct wire {
	int fd;
	struct turn turn; /* one transaction at a time */
	uint16_t msg_id;
	bool is_broken; /* half a message: nothing sensible can follow; our side is shut down */
	uint32_t rx_have;
	unsigned nr_rx_fds;
	int rx_fds[WIRE_FDS_MAX];
	uint8_t rx[sizeof(struct vfio_user_hdr) + WIRE_BODY_MAX] __attribute__((aligned(8)));
};

struct wire_call {
	uint16_t cmd;
	const void *body; /* behind the header */
	uint32_t body_bytes;
	const int *fds; /* still the caller's */
	unsigned nr_fds;
	/* out */
	void *reply; /* room for the reply's body; the part that fits is copied */
	uint32_t reply_room;
	uint32_t reply_bytes;
	int reply_fds[WIRE_FDS_MAX]; /* the caller's to close */
	unsigned nr_reply_fds;
};

/* Connects; waits for a full backlog until deadline_ns (CLOCK_MONOTONIC). -errno, no message. */
int wire_open(struct wire *w, const char *path, uint64_t deadline_ns);
void wire_close(struct wire *w);

/* 0, -ETIMEDOUT, -ENOTCONN (the peer is gone or the stream broken), -EPROTO, or the errno that the
 * server answered, negative. No message. */
int wire_call(struct wire *w, struct wire_call *m, uint64_t deadline_ns);
