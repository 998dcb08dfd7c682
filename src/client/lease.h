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
/* Ends it at the daemon (best effort) and frees it. */
int lease_drop(struct peal_lease *l);
/*
 * Those that were never released end with their handle: the daemon drops them with the connection.
 */
void lease_free_all(struct peal *p);
/* [off, off + bytes) to buf; -EILSEQ when a chunk doesn't match its seal. */
ssize_t lease_copy(const struct peal_lease *l, uint64_t off, void *buf, size_t bytes);
