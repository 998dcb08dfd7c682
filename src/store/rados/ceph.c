/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rados tier of a shard: made, counted, ended. See ceph.h for what it promises, ceph_int.h for
 * its parts. Whatever ends, ends by a message or a timeout; copies go on in its step. Runs on the
 * shard's owner, except that stats may be asked by any thread and create runs before there is an
 * owner.
 * tidy: no-test: test/ceph has it, with a real cluster
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"
#include "store/rados/ceph_int.h"

#define CEPH_ALL_LARGES 96u /* of all shards together, but some each */
#define CEPH_ALL_SMALLS 512u

void ceph_wait(struct ceph_waits *w, struct store_io *io)
{
	ceph_frame(io)->next = NULL;
	if (w->tail)
		ceph_frame(w->tail)->next = io;
	else
		w->head = io;
	w->tail = io;
	w->nr++;
}

struct store_io *ceph_wait_pop(struct ceph_waits *w)
{
	struct store_io *io = w->head;

	if (!io)
		return NULL;
	w->head = ceph_frame(io)->next;
	if (!w->head)
		w->tail = NULL;
	w->nr--;
	return io;
}

/* ---- views: any reactor ---------------------------------------------------------------------- */

static unsigned ceph_runs(const struct store_view *v, uint64_t off, struct mem_run *runs,
			  unsigned nr)
{
	const struct ceph *s = (const struct ceph *)v->st;
	const struct ceph_read *r = v->pin;

	if (!nr || off < v->off || off >= v->off + v->len)
		return 0;
	if (!ceph_get_is(s, v->pin))
		return ceph_write_runs(v->pin, off, runs);
	runs[0] = (struct mem_run){
		.reg = s->reg,
		.off = (uint64_t)(r->mem - (uint8_t *)s->map) + (off - v->off),
		.len = v->off + v->len - off,
	};
	return 1;
}

static uint64_t *ceph_seals(const struct store_view *v)
{
	const struct ceph *s = (const struct ceph *)v->st;

	if (ceph_get_is(s, v->pin))
		return ((struct ceph_read *)v->pin)->seals;
	return (uint64_t *)ceph_write_seals(v->pin);
}

static const struct store_meta *ceph_meta(const struct store_view *v)
{
	const struct ceph *s = (const struct ceph *)v->st;

	return ceph_get_is(s, v->pin) ? &((struct ceph_read *)v->pin)->info.meta : NULL;
}

static void ceph_release(struct store *st, struct store_view *v)
{
	if (ceph_get_is(ceph_of(st), v->pin))
		ceph_get_release(v->pin, v->is_bad);
	else
		ceph_write_destroy(v->pin);
}

/* ---- the rest of the ops --------------------------------------------------------------------- */

/* An acknowledged value is on all replicas: nothing is left to do here. */
static void ceph_flush(struct store *st, struct store_io *io)
{
	store_down(io, NULL);
}

static void ceph_stats(const struct store *st, struct store_stats *to)
{
	const struct ceph_counters *c = &((const struct ceph *)st)->count;

	to->hits = counter_get(&c->hits);
	to->misses = counter_get(&c->misses);
	to->puts = counter_get(&c->puts);
	to->nr_keys = counter_get(&c->keys);
	to->index_bytes = to->nr_keys * sizeof(struct ceph_key);
	to->bad_seals = counter_get(&c->bad_seals);
	to->full = counter_get(&c->full);
	to->read_bytes = counter_get(&c->read_bytes);
	to->staged_bytes = counter_get(&c->staged);
	to->late = counter_get(&c->late);
}

/* Asked when the set is about to go: no list of keys comes any more then. */
static bool ceph_is_busy(const struct store *st)
{
	const struct ceph *s = (const struct ceph *)st;
	struct ceph_scan *sc = &s->link->scan[st->shard];
	int idle = CEPH_SCAN_IDLE;

	atomic_compare_exchange_strong(&sc->state, &idle, CEPH_SCAN_GONE);
	return s->nr_reads || s->nr_writes || idle == CEPH_SCAN_POSTED;
}

static void ceph_free(struct ceph *s)
{
	if (s->reg)
		mem_region_put(s->reg);
	if (s->map)
		munmap(s->map, s->map_bytes);
	ceph_keys_fini(&s->keys);
	free(s->reads);
	free(s->writes);
	free(s->seals);
	free(s);
}

static void ceph_destroy(struct store *st)
{
	struct ceph *s = ceph_of(st);

	must(!s->nr_reads && !s->nr_writes && !s->write_waits.nr && !s->copies.nr);
	timeout_cancel(&s->read_timeout);
	ceph_free(s);
}

static const struct store_ops ceph_ops = {
	.name = "rados",
	.has_index = true,
	.is_far = true,
	.verb =
		{
			[STORE_BUF] = ceph_put_buf,
			[STORE_PUT] = ceph_put,
			[STORE_GET] = ceph_get,
			[STORE_FILL] = ceph_put_fill,
			[STORE_INVAL] = ceph_put_inval,
			[STORE_DEL] = ceph_put_del,
			[STORE_EXIST] = ceph_get_exist,
			[STORE_MATCH] = ceph_list_match,
			[STORE_LIST] = ceph_list,
			[STORE_FLUSH] = ceph_flush,
		},
	.runs = ceph_runs,
	.seals = ceph_seals,
	.meta = ceph_meta,
	.release = ceph_release,
	.stats = ceph_stats,
	.step = ceph_cache_step,
	.is_busy = ceph_is_busy,
	.destroy = ceph_destroy,
};

/* ---- making ---------------------------------------------------------------------------------- */

/* Buffers of reads and of short writes, then room for large ones that no memory is taken for. */
static int ceph_map(struct ceph *s)
{
	void *at;

	s->map_bytes = s->nr_of[CEPH_READ_SMALL] * (size_t)MEM_CHUNK_BYTES +
		       s->nr_of[CEPH_READ_LARGE] * (size_t)STORE_PIECE_BYTES +
		       CEPH_WRITES * (size_t)MEM_CHUNK_BYTES +
		       CEPH_STAGED_MAX * ceph_write_staged_bytes(s);
	at = mmap(NULL, s->map_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	s->map = at;
	s->reg = mem_host_wrap(at, s->map_bytes, MEM_READABLE | MEM_WRITABLE);
	return s->reg ? 0 : -ENOMEM;
}

static int ceph_init(struct ceph *s, uint16_t shard)
{
	uint32_t nr_shards = s->link->o.nr_shards;
	int err;

	s->nr_of[CEPH_READ_LOOK] = CEPH_LOOKS;
	s->nr_of[CEPH_READ_SMALL] = min_t(uint32_t, CEPH_SMALLS, CEPH_ALL_SMALLS / nr_shards + 8);
	s->nr_of[CEPH_READ_LARGE] = min_t(uint32_t, CEPH_LARGES, CEPH_ALL_LARGES / nr_shards + 4);
	for (unsigned kind = 0; kind < CEPH_READ_KINDS; kind++)
		s->nr_all += s->nr_of[kind];
	s->max_write_bytes = s->link->o.max_write_bytes / nr_shards;
	s->reads = calloc(s->nr_all, sizeof(*s->reads));
	err = s->reads ? ceph_map(s) : -ENOMEM;
	if (!err)
		err = ceph_keys_init(&s->keys, s->link->o.max_keys / nr_shards + 1, shard,
				     nr_shards);
	if (!err)
		err = ceph_write_init(s);
	return err ? err : ceph_get_init(s);
}

/* tidy: name: of ceph.h */
int ceph_create(struct ceph_link *link, uint16_t shard, struct store **out)
{
	struct ceph *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->st.ops = &ceph_ops;
	s->link = link;
	link->scan[shard].s = s;
	err = ceph_init(s, shard);
	if (err) {
		ceph_free(s);
		return err;
	}
	*out = &s->st;
	return 0;
}
