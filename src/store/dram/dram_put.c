/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing: buf, put, fill, inval, del. The gate at the door lets one mutation per key in at a
 * time, so nothing here races with itself on a key; gets, evictions and promotions do run in
 * between. Order of steps and why it is right: dram_int.h. Runs on the shard's owner.
 */
#include "store/dram/dram_int.h"

#include <errno.h>

#include "base/container.h"
#include "base/must.h"

void dram_put_buf(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e = dram_fresh_find(d, &io->key);

	/* Hints only: PUT looks again, and asks below. */
	if (e && io->flags & STORE_IF_ABSENT) {
		store_done(io, -EEXIST);
		return;
	}
	if (!e && io->flags & STORE_IF_PRESENT && !s->below) {
		store_done(io, -ENOENT);
		return;
	}
	if (io->len > store_set_value_max(s->set) || io->len > d->arena.bytes) {
		store_done(io, -EFBIG);
		return;
	}
	dram_room_buf(d, io);
}

/* A place in the bucket for one more: the oldest makes it. */
static int put_check_bucket(struct dram *d, const struct store_key *key)
{
	struct dram_entry *e;

	if (!dram_index_has_more(&d->ix, key))
		return 0;
	if (dram_index_count(&d->ix, key, &e) < DRAM_CHAIN_MAX)
		return 0;
	if (e->is_dirty && !e->pins)
		dram_back_start(d, e, true);
	if (!e->is_linked)
		return 0;
	if (e->pins || e->is_dirty)
		return -EBUSY;
	counter_add(&d->count.evictions, 1);
	counter_add(&d->count.evicted_bytes, e->len);
	dram_value_drop(d, e);
	return 0;
}

int dram_put_publish(struct dram *d, struct dram_entry *e, const struct store_key *key,
		     uint64_t ver)
{
	struct dram_entry *old = dram_index_find(&d->ix, key);
	int err;

	must(e->is_buf && !e->is_linked && (e->is_rising || !e->pins));
	if (!old) {
		err = put_check_bucket(d, key);
		if (err)
			return err;
	} else {
		dram_back_inherit(d, old, e);
		dram_value_drop(d, old);
	}
	e->ver = ver;
	e->is_buf = e->is_rising = false;
	d->nr_bufs--;
	dram_value_link(d, e, key->hash);
	if (d->fresh_ns)
		dram_fresh_seen(d, e, reactor_now_ns(d->st.owner));
	d->ver = max_t(uint64_t, d->ver, ver);
	++*dram_fence(d, key);
	dram_count(d);
	return 0;
}

/* The buffer in the io's view, checked to be one of ours for this key. */
static struct dram_entry *put_entry(struct dram *d, struct store_io *io)
{
	struct dram_entry *e = io->view.pin;

	must(io->view.st == &d->st && e->is_buf);
	must(e->key[0] == io->key.w[0] && e->key[1] == io->key.w[1] && e->key_len == io->key.len);
	return e;
}

static int put_meta(struct dram *d, struct dram_entry *e, const struct store_meta *meta)
{
	int err = -ENOSPC;

	for (uint32_t i = 0; i < DRAM_EVICT_TURN && err; i++) {
		err = dram_value_set_meta(d, e, meta);
		if (err && dram_room_evict(d))
			break;
	}
	if (err)
		counter_add(&d->count.full, 1);
	return err;
}

static void put_publish(struct dram *d, struct store_io *io, uint64_t ver)
{
	struct dram_entry *e = put_entry(d, io);
	int err = io->meta ? put_meta(d, e, io->meta) : 0;

	if (!err && d->is_acked_below && d->st.below) {
		dram_through_put(d, io, ver);
		return;
	}
	if (!err)
		err = dram_put_publish(d, e, &io->key, ver);
	if (err) {
		store_done(io, err);
		return;
	}
	if (d->st.below)
		dram_value_set_dirty(d, e, true);
	d->has_new = true;
	counter_add(&d->count.puts, 1);
	io->view.st = NULL;
	io->view.value_len = (uint32_t)e->len;
	io->view.ver = ver;
	io->ver = ver;
	store_done(io, 0);
}

static void put_inval(struct dram *d, struct store_io *io);

static void put_invaled(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);
	uint64_t ver = dram_frame(io)->ver;

	/* Something below knows a higher version than we do: go above that. */
	if (res == -ESTALE && io->ver > ver) {
		d->ver = max_t(uint64_t, d->ver, io->ver);
		put_inval(d, io);
		return;
	}
	if (res) {
		++*dram_fence(d, &io->key);
		store_done(io, res);
		return;
	}
	put_publish(d, io, ver);
}

/* What is older must be dead below before this one is seen. */
static void put_inval(struct dram *d, struct store_io *io)
{
	uint64_t ver = ++d->ver;

	if (!d->st.below || store_set_is_immutable(d->st.set)) {
		put_publish(d, io, ver);
		return;
	}
	++*dram_fence(d, &io->key);
	if (d->is_acked_below && dram_is_far(d)) {
		put_publish(d, io, ver);
		return;
	}
	dram_frame(io)->ver = ver;
	io->ver = ver;
	store_down_as(io, STORE_INVAL, put_invaled);
}

static void put_existed(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);
	bool is_there = res == 0;

	if (res && res != -ENOENT)
		store_done(io, res);
	else if (is_there && io->flags & STORE_IF_ABSENT)
		store_done(io, -EEXIST);
	else if (!is_there && io->flags & STORE_IF_PRESENT)
		store_done(io, -ENOENT);
	else
		put_inval(d, io);
}

void dram_put(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	bool is_if = io->flags & (STORE_IF_ABSENT | STORE_IF_PRESENT);

	put_entry(d, io);
	/* Acknowledged by other machines, its conditions are looked at there. */
	if (d->is_acked_below && dram_is_far(d))
		is_if = false;
	if (is_if && dram_fresh_find(d, &io->key))
		put_existed(io, 0);
	else if (is_if)
		store_down_as(io, STORE_EXIST, put_existed);
	else
		put_inval(d, io);
}

/*
 * Our own write-back on its way down, holding its key, or a fill of our own memory by a tier above.
 */
void dram_put_fill(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *old, *e;
	int err;

	if (io->view.st != s) {
		dram_back_fill(d, io);
		return;
	}
	e = put_entry(d, io);
	old = dram_index_find(&d->ix, &io->key);
	if (old && old->ver >= io->ver) {
		store_done(io, -ESTALE);
		return;
	}
	err = io->meta ? put_meta(d, e, io->meta) : 0;
	if (!err)
		err = dram_put_publish(d, e, &io->key, io->ver);
	if (!err) {
		io->view.st = NULL;
		if (s->below)
			dram_value_set_dirty(d, e, true);
		counter_add(&d->count.puts, 1);
	}
	store_done(io, err);
}

static void put_inval_ended(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);
	struct dram_entry *e = dram_index_find(&d->ix, &io->key);

	++*dram_fence(d, &io->key);
	if (!res && e && e->ver < dram_frame(io)->ver)
		dram_value_drop(d, e);
	store_done(io, res);
}

void dram_put_inval(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);
	struct dram_entry *e = dram_index_find(&d->ix, &io->key);

	if (e && e->ver > io->ver) {
		io->ver = e->ver;
		store_done(io, -ESTALE);
		return;
	}
	d->ver = max_t(uint64_t, d->ver, io->ver);
	++*dram_fence(d, &io->key);
	dram_frame(io)->ver = io->ver;
	store_down(io, put_inval_ended);
}

static void put_del_ended(struct store_io *io, int res)
{
	struct dram *d = dram_of(io->at);
	struct dram_entry *e = dram_index_find(&d->ix, &io->key);
	bool was_here = dram_frame(io)->was_here || e;

	++*dram_fence(d, &io->key);
	/* Below it may have been given a higher one: what is put from now on goes above that. */
	d->ver = max_t(uint64_t, d->ver, io->ver);
	if (res && res != -ENOENT) {
		store_done(io, res);
		return;
	}
	if (e)
		dram_value_drop(d, e);
	dram_back_forget(d, &io->key);
	store_done(io, was_here ? 0 : res);
}

void dram_put_del(struct store *s, struct store_io *io)
{
	struct dram *d = dram_enter(s);

	/*
	 * At the top the version is ours to give, and whatever the submitter left there means
	 * nothing.
	 */
	if (s->tier == 0 || !io->ver)
		io->ver = ++d->ver;
	d->ver = max_t(uint64_t, d->ver, io->ver);
	++*dram_fence(d, &io->key);
	dram_frame(io)->was_here = dram_index_find(&d->ix, &io->key) != NULL;
	store_down(io, put_del_ended);
}
