/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gets have taken, for peal_estimate(): a mean per kind of source, in nanoseconds per MiB. 0:
 * nothing was measured yet. Any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum estimate_source {
	ESTIMATE_MEMORY, /* by lease: it was in the arena */
	ESTIMATE_BELOW,	 /* a lease was refused, and the daemon fetched it */
	ESTIMATE_NR,
};

void estimate_add(_Atomic uint64_t *ns_per_mib, uint64_t bytes, uint64_t ns);
