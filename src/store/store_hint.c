/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hints: what somebody says about a key without wanting an answer. They change where a value lies,
 * never what it is. Runs on the owner of the key's shard.
 * tidy: no-test: t_ssd_hint.c gives them
 */
#include <errno.h>

#include "base/must.h"
#include "store/store_int.h"

int store_hint(struct store_set *set, const struct store_hint *h)
{
	struct store_shard *sh = &set->shard[store_shard_of(h->key.hash, set->nr_shards)];
	struct store *s = sh->top;

	if (sh->state == STORE_SHARD_CLOSING)
		return -ECANCELED;
	if (sh->state == STORE_SHARD_NEW)
		store_shard_open(sh);
	while (s && !s->ops->hint)
		s = s->below;
	return s ? s->ops->hint(s, h) : -EOPNOTSUPP;
}
