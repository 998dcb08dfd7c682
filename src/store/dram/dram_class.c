/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See dram_class.h. A look through the classes is linear: a namespace has a handful of them, and
 * only values that have one come here. Owner, apart from dram_class_list().
 */
#include "store/dram/dram_class.h"

#include "base/must.h"

static uint32_t class_nr(const struct dram_classes *c)
{
	return atomic_load_explicit(&c->nr, memory_order_acquire);
}

/* Its slot, or that of the others. */
static struct dram_class_slot *class_find(struct dram_classes *c, uint16_t cls)
{
	uint32_t nr = class_nr(c), i = 0;

	while (i < nr && (atomic_load_explicit(&c->cls[i], memory_order_relaxed) != cls ||
			  !counter_get(&c->slot[i].keys)))
		i++;
	return &c->slot[i < nr ? i : DRAM_CLASSES];
}

/* One that nobody has any more, or a new one; the others' when there is none. */
static struct dram_class_slot *class_take(struct dram_classes *c, uint16_t cls)
{
	uint32_t nr = class_nr(c), i = 0;

	if (counter_get(&c->slot[DRAM_CLASSES].keys))
		return &c->slot[DRAM_CLASSES];
	while (i < nr && counter_get(&c->slot[i].keys))
		i++;
	if (i == DRAM_CLASSES)
		return &c->slot[DRAM_CLASSES];
	atomic_store_explicit(&c->cls[i], cls, memory_order_relaxed);
	if (i == nr)
		atomic_store_explicit(&c->nr, nr + 1, memory_order_release);
	return &c->slot[i];
}

void dram_class_add(struct dram_classes *c, uint16_t cls, uint64_t bytes)
{
	struct dram_class_slot *s;

	if (!cls)
		return;
	s = class_find(c, cls);
	if (s == &c->slot[DRAM_CLASSES])
		s = class_take(c, cls);
	counter_add(&s->keys, 1);
	counter_add(&s->bytes, bytes);
}

void dram_class_sub(struct dram_classes *c, uint16_t cls, uint64_t bytes)
{
	struct dram_class_slot *s;

	if (!cls)
		return;
	s = class_find(c, cls);
	must(counter_get(&s->keys) > 0);
	counter_add(&s->keys, (uint64_t)-1);
	counter_add(&s->bytes, (uint64_t)-bytes);
}

unsigned dram_class_list(const struct dram_classes *c, struct store_class *to, unsigned max)
{
	const struct dram_class_slot *s = c->slot;
	uint32_t nr = class_nr(c);
	unsigned n = 0;

	for (uint32_t i = 0; i <= nr && n < max; i++) {
		if (i == nr)
			s = &c->slot[DRAM_CLASSES];
		to[n] = (struct store_class){
			.cls = i < nr ? atomic_load_explicit(&c->cls[i], memory_order_relaxed) : 0,
			.nr_keys = counter_get(&s->keys),
			.value_bytes = counter_get(&s->bytes),
		};
		n += to[n].nr_keys != 0;
		s++;
	}
	return n;
}
