/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: values read in place, out of the daemon's arena, and checked against their seals by the
 * copy itself. peal_lease() and friends are these with a handle around them; get.c uses them for
 * large values.
 */
#pragma once

#include "client/call.h"

/* On the call's key and deadline; uses the call's buffer for the reply. -errno with a message. */
int lease_take(struct call *call, uint32_t ms, struct peal_lease **l);
/*
 * LEASE's answer of `bytes` in the call's buffer, to a command that was sent after asked_ns. What
 * it gives is to be ended, and behind lease_map() to be read, too, as what lease_take() gives.
 * -errno with a message.
 */
int lease_make(struct call *call, uint32_t bytes, uint64_t asked_ns, struct peal_lease **l);
/* Its place in the arena, out of the same buffer as for lease_make(). -errno with a message. */
int lease_map(struct call *call, struct peal_lease *l);
/* Room that such an answer takes, of a value of that size in some hundred extents. */
size_t lease_reply_bytes(uint64_t value_bytes);
/* RELEASE, for who sends it himself and then says lease_forget(), which only frees it. */
void lease_release_sqe(const struct peal_lease *l, struct nvme_sqe *sqe);
void lease_forget(struct peal_lease *l);
/* Ends it at the daemon (best effort) and frees it. */
int lease_drop(struct peal_lease *l);
/*
 * Those that were never released end with their handle: the daemon drops them with the connection.
 */
void lease_free_all(struct peal *p);
/* [off, off + bytes) to buf; -EILSEQ when a chunk doesn't match its seal. */
ssize_t lease_copy(const struct peal_lease *l, uint64_t off, void *buf, size_t bytes);
