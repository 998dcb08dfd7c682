/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes of a namespace: what the 16 bits that STORE_EX carries stand for. A namespace that
 * has classes takes values of those, and values without one; one that has none takes any number,
 * which then says nothing to anybody but its users. A class that goes leaves its values where they
 * are: they can be read, and purged; only no new ones come.
 *
 * The list is the home's, sorted by id. What a command asks is a number and a bit, which any worker
 * reads: a STORE_EX that is under way while its class goes may still be stored.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/container.h"
#include "kv/kv_int.h"
#include "store/store_class.h"

static struct kv_ns *class_ns(struct tgt_ns *ns)
{
	return container_of(ns, struct kv_ns, ns);
}

static void class_set(struct kv_ns *kn, uint16_t id, bool is_there)
{
	uint64_t bit = 1ull << (id & 63), old;
	_Atomic uint64_t *word = &kn->class_bits[id / 64];

	old = atomic_load_explicit(word, memory_order_relaxed);
	atomic_store_explicit(word, is_there ? old | bit : old & ~bit, memory_order_relaxed);
}

/* Where id is, or would be. */
static unsigned class_at(const struct kv_ns *kn, uint16_t id)
{
	unsigned lo = 0, hi = kn->nr_classes;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (kn->classes[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool class_is_at(const struct kv_ns *kn, unsigned at, uint16_t id)
{
	return at < kn->nr_classes && kn->classes[at].id == id;
}

int kv_class_add(struct tgt_ns *ns, const struct kv_class *k)
{
	struct kv_ns *kn = class_ns(ns);
	unsigned nr = kn->nr_classes, at = class_at(kn, k->id);
	struct kv_class *all;

	if (!k->id)
		return -EINVAL;
	if (class_is_at(kn, at, k->id))
		return -EEXIST;
	if (nr == KV_CLASSES_MAX)
		return -ENOSPC;
	all = reallocarray(kn->classes, nr + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memmove(all + at + 1, all + at, (nr - at) * sizeof(*all));
	all[at] = *k;
	kn->classes = all;
	class_set(kn, k->id, true);
	/* After the bit: the first one must not be refused by what it makes known. */
	atomic_store_explicit(&kn->nr_classes, nr + 1, memory_order_release);
	return 0;
}

int kv_class_del(struct tgt_ns *ns, uint16_t id)
{
	struct kv_ns *kn = class_ns(ns);
	unsigned nr = kn->nr_classes, at = class_at(kn, id);

	if (!class_is_at(kn, at, id))
		return -ENOENT;
	memmove(kn->classes + at, kn->classes + at + 1, (nr - at - 1) * sizeof(*kn->classes));
	atomic_store_explicit(&kn->nr_classes, nr - 1, memory_order_release);
	class_set(kn, id, false);
	return 0;
}

unsigned kv_class_list(const struct tgt_ns *ns, const struct kv_class **all)
{
	const struct kv_ns *kn = container_of(ns, const struct kv_ns, ns);

	*all = kn->classes;
	return kn->nr_classes;
}

/* Classes that nobody has registered come behind those that somebody has; at last the others. */
static struct kv_class_stat *class_stat(const struct kv_ns *kn, const struct store_class *c,
					struct kv_class_stats *st)
{
	unsigned at = class_at(kn, c->cls);

	if (!c->cls)
		return &st->others;
	if (class_is_at(kn, at, c->cls))
		return &st->of[at];
	for (at = kn->nr_classes; at < st->nr; at++)
		if (st->of[at].id == c->cls)
			return &st->of[at];
	if (at == ARRAY_SIZE(st->of))
		return &st->others;
	st->nr++;
	st->of[at].id = c->cls;
	return &st->of[at];
}

void kv_class_stats(const struct tgt_ns *ns, struct kv_class_stats *st)
{
	const struct kv_ns *kn = container_of(ns, const struct kv_ns, ns);
	struct store_class seen[KV_CLASSES_MAX + 1];

	memset(st, 0, sizeof(*st));
	st->nr = kn->nr_classes;
	for (unsigned i = 0; i < st->nr; i++)
		st->of[i].id = kn->classes[i].id;
	for (unsigned s = 0; s < store_set_nr_shards(kn->set); s++) {
		unsigned nr = store_set_classes(kn->set, s, 0, seen, ARRAY_SIZE(seen));

		for (unsigned i = 0; i < nr; i++) {
			struct kv_class_stat *of = class_stat(kn, &seen[i], st);

			of->nr_keys += seen[i].nr_keys;
			of->value_bytes += seen[i].value_bytes;
		}
	}
}
