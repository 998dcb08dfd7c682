/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle: every verb as store.h means it, in the simplest way that is exact. Unbounded,
 * synchronous, on the C heap. Other stores are tested against it and above it; a set of it is also
 * the smallest store that serves.
 *
 *     bucket[top bits of the hash] -> node {key, dead, value} -> node ...
 *
 * Chains are sorted, so list order is table order.
 *
 * A node outlives its value: `dead` says which versions of the key must never come back (all below
 * it), so that a late fill finds out. Nothing forgets a node. Runs on the shard's owner.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/must.h"
#include "store/heap_int.h"
#include "store/store_make.h"

#define MEM_BITS_MIN 6u

struct mem_node {
	struct mem_node *next;
	struct store_key key;
	uint64_t dead; /* versions < dead are */
	struct heap_value *val;
};

struct mem {
	struct store st;
	struct mem_node **bucket;
	unsigned bits;
	uint64_t nr_nodes;
	uint64_t ver; /* the highest seen */
	struct counter nr_keys, value_bytes, hits, misses, puts, bad_seals, full;
};

static struct mem_node **mem_bucket(struct mem *m, uint64_t hash)
{
	return &m->bucket[hash >> (64 - m->bits)];
}

/* Where the key's node is, or would be inserted. */
static struct mem_node **mem_slot(struct mem *m, const struct store_key *key)
{
	struct mem_node **p;

	for (p = mem_bucket(m, key->hash); *p; p = &(*p)->next)
		if (store_key_cmp(&(*p)->key, key) >= 0)
			break;
	return p;
}

static struct mem_node *mem_find(struct mem *m, const struct store_key *key)
{
	struct mem_node *n = *mem_slot(m, key);

	return n && store_key_equal(&n->key, key) ? n : NULL;
}

static struct heap_value *mem_value(struct mem *m, const struct store_key *key)
{
	struct mem_node *n = mem_find(m, key);

	return n ? n->val : NULL;
}

/* Without memory it stays as it is: slower, not wrong. */
static void mem_grow(struct mem *m)
{
	unsigned old_bits = m->bits;
	struct mem_node **old = m->bucket, **new = calloc((size_t)2 << old_bits, sizeof(*new)), *n,
			**p;

	if (!new)
		return;
	m->bucket = new;
	m->bits = old_bits + 1;
	for (size_t i = 0; i < (size_t)1 << old_bits; i++) {
		while ((n = old[i])) {
			old[i] = n->next;
			p = mem_slot(m, &n->key);
			n->next = *p;
			*p = n;
		}
	}
	free(old);
}

static struct mem_node *mem_node_make(struct mem *m, const struct store_key *key)
{
	struct mem_node *n = mem_find(m, key), **p;

	if (n)
		return n;
	if (m->nr_nodes >> m->bits)
		mem_grow(m);
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->key = *key;
	p = mem_slot(m, key);
	n->next = *p;
	*p = n;
	m->nr_nodes++;
	return n;
}

static void mem_drop(struct mem *m, struct mem_node *n)
{
	if (!n->val)
		return;
	counter_add(&m->nr_keys, (uint64_t)-1);
	counter_add(&m->value_bytes, -(uint64_t)n->val->len);
	heap_value_put(n->val);
	n->val = NULL;
}

/* The io's view becomes the node's value. */
static void mem_publish(struct mem *m, struct mem_node *n, struct store_io *io)
{
	struct heap_value *v = io->view.pin;

	must(io->view.st == &m->st && v->refs == 1);
	mem_drop(m, n);
	v->key = io->key;
	v->ver = io->ver;
	v->meta = io->meta ? *io->meta : (struct store_meta){0};
	n->val = v;
	n->dead = v->ver;
	io->view.st = NULL;
	counter_add(&m->nr_keys, 1);
	counter_add(&m->value_bytes, v->len);
}

static int mem_check_if(struct mem *m, const struct store_io *io)
{
	bool is_there;

	if (!(io->flags & (STORE_IF_ABSENT | STORE_IF_PRESENT)))
		return 0;
	is_there = mem_value(m, &io->key) != NULL;
	if (is_there && (io->flags & STORE_IF_ABSENT))
		return -EEXIST;
	return !is_there && (io->flags & STORE_IF_PRESENT) ? -ENOENT : 0;
}

static void mem_buf(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);
	int res = mem_check_if(m, io);
	struct heap_value *v;

	if (res < 0) {
		store_done(io, res);
		return;
	}
	v = heap_value_create(io->len);
	if (!v) {
		counter_add(&m->full, 1);
		store_done(io, -ENOSPC);
		return;
	}
	heap_view(s, v, &io->view);
	store_done(io, 0);
}

static void mem_put_down(struct store_io *io, int res)
{
	struct mem *m = container_of(io->at, struct mem, st);
	struct mem_node *n = mem_node_make(m, &io->key);

	if (res < 0 || !n) {
		store_done(io, res < 0 ? res : -ENOSPC);
		return;
	}
	mem_publish(m, n, io);
	counter_add(&m->puts, 1);
	store_done(io, 0);
}

static void mem_put(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);
	int res = mem_check_if(m, io);

	if (res < 0) {
		store_done(io, res);
		return;
	}
	io->ver = ++m->ver;
	store_down_as(io, STORE_INVAL, mem_put_down);
}

static void mem_seen(struct mem *m, uint64_t ver)
{
	if (ver > m->ver)
		m->ver = ver;
}

static void mem_fill(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);
	struct mem_node *n = mem_node_make(m, &io->key);

	mem_seen(m, io->ver);
	if (!n || io->ver < n->dead || (n->val && n->val->ver > io->ver)) {
		store_done(io, n ? -ESTALE : -ENOSPC);
		return;
	}
	mem_publish(m, n, io);
	store_done(io, 0);
}

static void mem_inval(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);
	struct mem_node *n = mem_node_make(m, &io->key);

	mem_seen(m, io->ver);
	if (!n) {
		store_done(io, -ENOSPC);
		return;
	}
	if (n->dead > io->ver) {
		io->ver = n->dead;
		store_done(io, -ESTALE);
		return;
	}
	n->dead = io->ver;
	if (n->val && n->val->ver < io->ver)
		mem_drop(m, n);
	store_down(io, NULL);
}

struct mem_del_frame {
	bool was_there;
};
static_assert(sizeof(struct mem_del_frame) <= STORE_FRAME_WORDS * sizeof(uint64_t), "frame");

static void mem_del_down(struct store_io *io, int res)
{
	struct mem_del_frame *f = store_scratch(io);

	store_done(io, res == -ENOENT && f->was_there ? 0 : res);
}

static void mem_del(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);
	struct mem_node *n = mem_node_make(m, &io->key);
	struct mem_del_frame *f = store_scratch(io);

	if (!n) {
		store_done(io, -ENOSPC);
		return;
	}
	if (!io->ver)
		io->ver = m->ver + 1;
	mem_seen(m, io->ver);
	if (n->dead < io->ver)
		n->dead = io->ver;
	f->was_there = n->val != NULL;
	mem_drop(m, n);
	store_down(io, mem_del_down);
}

static void mem_get(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);
	struct heap_value *v = mem_value(m, &io->key);

	if (!v) {
		counter_add(&m->misses, 1);
		store_down(io, NULL);
		return;
	}
	if (io->ver && io->ver != v->ver) {
		store_done(io, -ESTALE);
		return;
	}
	counter_add(&m->hits, 1);
	heap_value_get(v);
	heap_view(s, v, &io->view);
	io->ver = v->ver;
	store_done(io, 0);
}

static void mem_exist(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);
	struct heap_value *v = mem_value(m, &io->key);

	if (!v) {
		counter_add(&m->misses, 1);
		store_down(io, NULL);
		return;
	}
	counter_add(&m->hits, 1);
	io->view.value_len = v->len;
	io->view.ver = v->ver;
	io->view.tier = s->tier;
	io->ver = v->ver;
	store_done(io, 0);
}

static void mem_match(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);

	for (uint32_t i = 0; i < io->match.nr; i++)
		if (store_match_wants(io, i) && mem_value(m, &io->match.keys[i]))
			io->match.found[i] = STORE_MEMORY;
	store_down(io, NULL);
}

static bool mem_list_bucket(const struct mem_node *n, struct store_list *l)
{
	for (; n; n = n->next)
		if (n->val && store_list_wants(l, &n->key) && !store_list_add(l, &n->key))
			return false;
	return true;
}

static void mem_list(struct store *s, struct store_io *io)
{
	struct mem *m = container_of(s, struct mem, st);

	for (size_t i = io->list.after.hash >> (64 - m->bits); i < (size_t)1 << m->bits; i++)
		if (!mem_list_bucket(m->bucket[i], &io->list))
			break;
	store_down(io, NULL);
}

static void mem_release(struct store *s, struct store_view *view)
{
	struct mem *m = container_of(s, struct mem, st);
	struct heap_value *v = view->pin;
	struct mem_node *n;

	if (view->is_bad) {
		n = mem_find(m, &v->key);
		counter_add(&m->bad_seals, 1);
		store_alert(s, &v->key, "a value's bytes do not fit their seals");
		if (n && n->val == v)
			mem_drop(m, n);
	}
	heap_value_put(v);
}

static void mem_stats(const struct store *s, struct store_stats *st)
{
	const struct mem *m = container_of(s, struct mem, st);

	st->used_bytes = counter_get(&m->value_bytes);
	st->value_bytes = counter_get(&m->value_bytes);
	st->nr_keys = counter_get(&m->nr_keys);
	st->hits = counter_get(&m->hits);
	st->misses = counter_get(&m->misses);
	st->puts = counter_get(&m->puts);
	st->bad_seals = counter_get(&m->bad_seals);
	st->full = counter_get(&m->full);
}

static void mem_destroy(struct store *s)
{
	struct mem *m = container_of(s, struct mem, st);
	struct mem_node *n;

	for (size_t i = 0; i < (size_t)1 << m->bits; i++) {
		while ((n = m->bucket[i])) {
			m->bucket[i] = n->next;
			must(!n->val || n->val->refs == 1); /* else a view is still out */
			mem_drop(m, n);
			free(n);
		}
	}
	free(m->bucket);
	free(m);
}

static const struct store_ops mem_ops = {
	.name = "mem",
	.is_memory = true,
	.verb =
		{
			[STORE_BUF] = mem_buf,
			[STORE_PUT] = mem_put,
			[STORE_GET] = mem_get,
			[STORE_FILL] = mem_fill,
			[STORE_INVAL] = mem_inval,
			[STORE_DEL] = mem_del,
			[STORE_EXIST] = mem_exist,
			[STORE_MATCH] = mem_match,
			[STORE_LIST] = mem_list,
		},
	.runs = heap_runs,
	.seals = heap_seals,
	.meta = heap_meta,
	.release = mem_release,
	.stats = mem_stats,
	.destroy = mem_destroy,
};

/* tidy: named by store.h, where every maker of a store is */
struct store *store_mem_create(void)
{
	struct mem *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->bits = MEM_BITS_MIN;
	m->bucket = calloc((size_t)1 << m->bits, sizeof(*m->bucket));
	if (!m->bucket) {
		free(m);
		return NULL;
	}
	m->st.ops = &mem_ops;
	return &m->st;
}
