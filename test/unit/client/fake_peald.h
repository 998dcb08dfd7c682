/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon for the client's unit tests: one thread, one client at a time, a vfio-user server with
 * an NVMe-KV controller over a small map, faithful to the contracts (nvme/vfio_user.h,
 * peal/vendor.h) and deliberately simple. Unlike the real one it can be told to misbehave at an
 * exact moment: to stop answering, to close the connection, to lie.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fake;

struct fake_opts {
	const char *dir;    /* where the socket goes; NULL: a new folder under /tmp */
	bool no_vendor;	    /* a stranger's controller: the standard commands alone */
	bool no_sgl;	    /* PRPs only */
	bool no_arena;	    /* leases are refused */
	bool no_stride;	    /* doorbells at stride 4 */
	uint32_t nr_queues; /* 0 = 16 */
};

struct fake *fake_start(const struct fake_opts *o);
/* The process dies: the connection closes, the socket is removed, the content is gone. */
void fake_stop(struct fake *f);
const char *fake_dir(const struct fake *f);
const char *fake_uri(const struct fake *f);

/* Commands stay in their rings, messages in the socket: SIGSTOP. Returns when nothing is under way
 * any more (true) or when it goes on (false). */
void fake_pause(struct fake *f, bool is_paused);
/* The same by itself, before the next admin command of this opcode; that stays in its ring. */
void fake_pause_at(struct fake *f, uint8_t opc);
/* The client's connection is closed, the content stays. */
void fake_disconnect(struct fake *f);
/* Behind the nr-th command of this opcode from now on no other is run: it pauses (fake_pause() ends
 * that), or the client's connection is closed. */
void fake_after(struct fake *f, uint8_t opc, unsigned nr, bool is_disconnect);
/* Bytes of the value at `offset` change under everybody. */
void fake_corrupt(struct fake *f, const char *key, uint64_t offset);
/* The next command of this opcode is answered with this status. */
void fake_fail_next(struct fake *f, uint8_t opc, uint16_t status);
/* Each RETRIEVE_EX replaces the value behind itself: nobody ever gets two pieces of one version. */
void fake_churn(struct fake *f, bool is_on);
/* Leases say that they are of version 0. */
void fake_lease_0(struct fake *f, bool is_on);
/* The next command of `opc` is answered behind the nr-th of until_opc from now on. */
void fake_hold(struct fake *f, uint8_t opc, uint8_t until_opc, unsigned nr);
/* What the controller says of itself to the next connection; 0 = MDTS without a limit, the largest
 * value. */
void fake_limits(struct fake *f, bool no_vendor, uint8_t mdts, uint32_t value_max);
unsigned fake_nr_connects(struct fake *f);
unsigned fake_nr_cmds(struct fake *f, uint8_t opc);
unsigned fake_nr_admin(struct fake *f, uint8_t opc);
unsigned fake_nr_maps(struct fake *f);
/* How often the client has rung. */
unsigned fake_nr_rings(struct fake *f);
