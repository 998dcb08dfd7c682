/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssd tier: a log of segments in one file per shard. See ssd_int.h for the parts and for the
 * invariant that holds them together, doc/format.md for what lies on the medium; here it is made,
 * counted and ended.
 *
 * Runs on the shard's owner, except that stats may be asked by any thread, create runs before there
 * is an owner and blocks while it reads and writes superblocks, and destroy writes the last footers
 * blocking.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_ahead.h"
#include "store/ssd/ssd_cap.h"
#include "store/ssd/ssd_head.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_look.h"
#include "store/store_make.h"

#define SSD_KEY_MEAN 16384u /* bytes of the file per entry that there is room for */
#define SSD_KEYS_LEAST 1024u

void ssd_count(struct ssd *s)
{
	struct ssd_counters *c = &s->count;

	counter_set(&c->capacity, s->dev->bytes - s->room.nr_hollow * s->super.seg_bytes);
	counter_set(&c->used, SSD_HEAD_BYTES + (s->nr_segs - s->nr_free - s->room.nr_hollow) *
						       s->super.seg_bytes);
	counter_set(&c->value, s->value_bytes);
	counter_set(&c->keys, s->ix.nr_used - s->ix.nr_ghosts);
	counter_set(&c->index, ssd_index_bytes(&s->ix));
	counter_set(&s->health.nr_dead, s->super.nr_dead);
}

/* ---- flush ----------------------------------------------------------------------------------- */

static void flush_synced(struct ssd_sync_wait *w, int res)
{
	struct ssd_frame *f = container_of(w, struct ssd_frame, sync);
	struct store_io *io = f->next; /* itself: a frame doesn't know whose it is */
	struct ssd *s = ssd_of(io->at);

	if (!res && s->has_lost)
		res = -EIO;
	s->has_lost = false;
	if (res < 0)
		store_done(io, res);
	else
		store_down(io, NULL);
}

/* Everything that was acknowledged has been written: one sync makes it durable. */
static void ssd_flush(struct store *st, struct store_io *io)
{
	struct ssd_frame *f = ssd_frame(io);

	f->next = io;
	f->sync.fn = flush_synced;
	ssd_unit_sync(ssd_of(st), &f->sync);
}

/* ---- the rest of the ops --------------------------------------------------------------------- */

static void ssd_release(struct store *st, struct store_view *v)
{
	struct ssd *s = ssd_of(st);

	if (ssd_read_is(s, v->pin))
		ssd_read_release(v->pin, v->is_bad);
	else
		ssd_value_destroy(v->pin);
}

static void ssd_prefetch(struct store *st, const struct store_key *key, int stage)
{
	ssd_index_prefetch(&ssd_of(st)->ix, key, stage);
}

static void ssd_stats(const struct store *st, struct store_stats *out)
{
	const struct ssd_counters *c = &((const struct ssd *)st)->count;

	out->capacity_bytes = counter_get(&c->capacity);
	out->used_bytes = counter_get(&c->used);
	out->value_bytes = counter_get(&c->value);
	out->nr_keys = counter_get(&c->keys);
	out->index_bytes = counter_get(&c->index);
	out->hits = counter_get(&c->hits);
	out->misses = counter_get(&c->misses);
	out->puts = counter_get(&c->puts);
	out->evictions = counter_get(&c->evictions);
	out->evicted_bytes = counter_get(&c->evicted_bytes);
	out->bad_seals = counter_get(&c->bad_seals);
	out->full = counter_get(&c->full);
	out->torn = counter_get(&c->torn);
	out->read_bytes = counter_get(&c->read_bytes);
	out->straight_bytes = counter_get(&c->straight_bytes);
	out->staged_bytes = counter_get(&c->staged_bytes);
	out->late = counter_get(&c->late);
}

static int ssd_step(struct store *st)
{
	struct ssd *s = ssd_of(st);

	return ssd_recover_step(s) + ssd_evict_step(s) + ssd_log_step(s) + ssd_slot_step(s) +
	       ssd_ahead_step(s) + ssd_look_step(s) + ssd_room_step(s);
}

static bool ssd_is_busy(const struct store *st)
{
	const struct ssd *s = (const struct ssd *)st;
	bool is = s->nr_busy || s->sync.is_busy || s->verify.unit || ssd_read_is_busy(s) ||
		  ssd_ahead_is_busy(s);

	for (uint32_t i = 0; i < SSD_STREAMS; i++)
		is |= s->stream[i].nr_units || !list_is_empty(&s->stream[i].waiting);
	return is;
}

static void ssd_free(struct ssd *s)
{
	ssd_recover_fini(s);
	ssd_ahead_fini(s);
	ssd_evict_fini(s);
	ssd_health_fini(s);
	ssd_room_fini(s);
	ssd_stream_fini(s);
	ssd_unit_fini(s);
	ssd_value_fini(s);
	ssd_slot_fini(s);
	ssd_head_fini(s);
	if (s->ix.map)
		ssd_index_fini(&s->ix);
	free(s->kills);
	free(s->segs);
	free(s);
}

static void ssd_destroy(struct store *st)
{
	struct ssd *s = ssd_of(st);
	struct ssd_dev *dev = s->dev;

	must(!s->buf_head && !s->kill_head && !s->list_head);
	ssd_read_fini(s);
	ssd_recover_close(s);
	ssd_free(s);
	dev->ops->close(dev);
}

static const struct store_ops ssd_ops = {
	.name = "ssd",
	.has_index = true,
	.verb =
		{
			[STORE_BUF] = ssd_put_buf,
			[STORE_PUT] = ssd_put,
			[STORE_GET] = ssd_read_get,
			[STORE_FILL] = ssd_put_fill,
			[STORE_INVAL] = ssd_put_inval,
			[STORE_DEL] = ssd_put_del,
			[STORE_EXIST] = ssd_look_exist,
			[STORE_MATCH] = ssd_look_match,
			[STORE_LIST] = ssd_look_list,
			[STORE_FLUSH] = ssd_flush,
		},
	.runs = ssd_value_runs,
	.seals = ssd_value_seals,
	.meta = ssd_value_meta,
	.release = ssd_release,
	.hint = ssd_read_hint,
	.ahead = ssd_ahead,
	.prefetch = ssd_prefetch,
	.stats = ssd_stats,
	.health = ssd_health_get,
	.control = ssd_health_control,
	.step = ssd_step,
	.is_busy = ssd_is_busy,
	.destroy = ssd_destroy,
};

/* ---- making ---------------------------------------------------------------------------------- */

static int ssd_seed(struct ssd *s)
{
	uint64_t seed = s->opts.seed;

	if (!seed && getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -errno;
	rng_init(&s->rng, seed);
	return 0;
}

static int ssd_tables(struct ssd *s)
{
	uint64_t keys = s->opts.max_keys
				? s->opts.max_keys
				: max_t(uint64_t, s->dev->bytes / SSD_KEY_MEAN, SSD_KEYS_LEAST);
	int err;

	s->nr_segs = s->super.nr_segs;
	s->segs = calloc(s->nr_segs, sizeof(*s->segs));
	s->kills = calloc(SSD_KILLS, sizeof(*s->kills));
	if (!s->segs || !s->kills)
		return -ENOMEM;
	list_init(&s->free_kills);
	for (uint32_t i = 0; i < SSD_KILLS; i++)
		list_add_tail(&s->free_kills, &s->kills[i].node);
	err = ssd_index_init(&s->ix, (uint32_t)min_t(uint64_t, keys, SSD_KEYS_MAX));
	if (err)
		return err;
	s->ix.nr_shards = s->opts.nr_shards;
	s->ix.shard = s->opts.shard;
	err = ssd_value_init(s);
	if (!err)
		err = ssd_slot_init(s);
	if (!err)
		err = ssd_head_init(s);
	if (!err)
		err = ssd_room_init(s);
	if (!err)
		err = ssd_unit_init(s);
	if (!err)
		err = ssd_stream_init(s);
	if (!err)
		err = ssd_ahead_init(s);
	return err ? err : ssd_evict_init(s);
}

static int ssd_open(struct ssd *s)
{
	bool is_new;
	int err = ssd_seed(s);

	if (!err)
		err = ssd_super_open(s, &is_new);
	if (!err)
		err = ssd_health_init(s);
	if (!err)
		err = ssd_tables(s);
	if (err)
		return err;
	s->reinsert.share_1024 = s->opts.reinsert_1024;
	return ssd_recover_begin(s, is_new);
}

int store_ssd_create(const struct store_ssd_opts *o, struct store **out)
{
	struct ssd *s = calloc(1, sizeof(*s));
	int err = 0;

	if (!s)
		return -ENOMEM;
	s->st.ops = &ssd_ops;
	s->opts = *o;
	s->dev = o->dev;
	ssd_read_init(s);
	if (!o->dev)
		err = ssd_health_room(o);
	if (!o->dev && !err)
		err = ssd_cap_check(o);
	if (!o->dev && !err)
		err = ssd_dev_open(o->path, o->bytes, &s->dev);
	if (err) {
		free(s);
		return err;
	}
	err = ssd_open(s);
	if (err) {
		if (!o->dev)
			s->dev->ops->close(s->dev);
		ssd_free(s);
		return err;
	}
	s->opts.path = s->opts.name = NULL;
	ssd_count(s);
	*out = &s->st;
	return 0;
}
