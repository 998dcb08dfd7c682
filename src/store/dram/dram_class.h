/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many linked values of each class there are, and their bytes. A class has a slot while it has
 * values; when all slots are taken, those of further classes are counted together, and as long as
 * there are any of them no other class gets a slot: what came in under one number goes out under
 * it. Values without a class aren't counted here.
 *
 * The shard's owner changes it, any thread reads; a figure that is read while a slot changes hands
 * may be that of either class.
 */
#ifndef STORE_DRAM_CLASS_H
#define STORE_DRAM_CLASS_H

#include "core/counter.h"
#include "store/store_class.h"

#define DRAM_CLASSES 256u

struct dram_class_slot {
	struct counter keys, bytes;
};

struct dram_classes {
	_Atomic uint32_t nr; /* slots that were ever used */
	_Atomic uint16_t cls[DRAM_CLASSES];
	struct dram_class_slot slot[DRAM_CLASSES + 1]; /* the last: of all others */
};

void dram_class_add(struct dram_classes *c, uint16_t cls, uint64_t bytes);
void dram_class_sub(struct dram_classes *c, uint16_t cls, uint64_t bytes);
/* As store_ops.classes. */
unsigned dram_class_list(const struct dram_classes *c, struct store_class *to, unsigned max);

#endif
