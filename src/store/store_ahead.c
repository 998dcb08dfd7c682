/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a question about neighbours to the tier that can answer it. Runs on the shard's owner.
 * tidy: no-test: t_ssd_ahead.c asks
 */
#include "store/store_ahead.h"

void store_ahead_below(struct store *s, struct store_ahead *a)
{
	a->nr = 0;
	for (s = s->below; s; s = s->below) {
		if (!s->ops->ahead)
			continue;
		s->ops->ahead(s, a);
		return;
	}
	a->end(a);
}
