/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values a reclaimed segment keeps: see reinsert.h. One thread.
 */
#include "policy/reinsert.h"

void reinsert_begin(struct reinsert *r, uint64_t segment_bytes)
{
	r->left_bytes = segment_bytes / 1024 * r->share_1024;
}

bool reinsert_wants(struct reinsert *r, uint32_t hits, uint64_t bytes)
{
	if (hits == 0 || bytes > r->left_bytes)
		return false;
	r->left_bytes -= bytes;
	return true;
}
