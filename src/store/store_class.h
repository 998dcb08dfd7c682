/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many values of each class a tier has, for operators: counted where values come and go anyway.
 * Values without a class aren't in it. Any thread asks; a figure may be that of a moment ago.
 */
#ifndef STORE_STORE_CLASS_H
#define STORE_STORE_CLASS_H

#include "store/store.h"

struct store_class {
	uint16_t cls; /* 0: of classes that aren't counted apart */
	uint64_t nr_keys;
	uint64_t value_bytes;
};

/* Those of a shard's tier, at most max: how many. 0 where they aren't counted. store_set.c */
unsigned store_set_classes(const struct store_set *set, unsigned shard, unsigned tier,
			   struct store_class *to, unsigned max);

#endif
