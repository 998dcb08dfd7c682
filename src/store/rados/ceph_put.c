/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing: buf, put, fill, inval, del. Each is one operation of the cluster, on all replicas when
 * it is acknowledged; then the cache below drops what is older, or takes the new value.
 *
 * Machines don't order what they do to a key among themselves but here. A put whose value comes at
 * once replaces what is there. One that memory acknowledged and writes later has removed what was
 * there when it came (INVAL), so what is found in its place then is newer: it gives way, -ESTALE.
 * In an immutable set all are alike.
 *
 * Versions are RADOS's, which grow with every write to the object's placement group; those of
 * memory are made up until they have come here, and are told to be higher than all that is known.
 * Runs on the shard's owner.
 * tidy: no-test: test/ceph has it, with a real cluster
 */
#include <errno.h>

#include "base/container.h"
#include "base/must.h"
#include "store/rados/ceph_int.h"

/* ---- buffers --------------------------------------------------------------------------------- */

static void buf_view(struct ceph *s, struct ceph_write *w, struct store_view *v)
{
	*v = (struct store_view){
		.st = &s->st,
		.pin = w,
		.len = w->info.value_len,
		.value_len = w->info.value_len,
		.tier = s->st.tier,
	};
}

/* Waits for one that gets free; a queue that is full is the bound. */
static void put_wait(struct ceph *s, struct store_io *io,
		     void (*start)(struct ceph *s, struct store_io *io))
{
	if (s->write_waits.nr == CEPH_WAITS_MAX) {
		store_done(io, -EBUSY);
		return;
	}
	ceph_frame(io)->start = start;
	ceph_wait(&s->write_waits, io);
}

static bool buf_is_there(const struct store_io *io)
{
	return io->into.st && io->into.value_len == io->len && io->into.seals;
}

static void buf_start(struct ceph *s, struct store_io *io)
{
	struct ceph_write *w;

	if (!ceph_link_io(s->link)) {
		store_done(io, -EIO);
		return;
	}
	w = ceph_write_create(s, io->len, buf_is_there(io));
	if (!w) {
		put_wait(s, io, buf_start);
		return;
	}
	w->key = io->key;
	buf_view(s, w, &io->view);
	if (buf_is_there(io)) {
		w->from = io->into;
		io->into.st = NULL;
	}
	store_done(io, 0);
}

void ceph_put_buf(struct store *st, struct store_io *io)
{
	struct ceph *s = ceph_of(st);

	if (io->len > s->link->o.value_max)
		store_done(io, -EFBIG);
	else
		buf_start(s, io);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* What the cluster said of a value, as results of ours. */
static int put_result(struct ceph_write *w, int res)
{
	struct ceph *s = w->s;

	switch (res) {
	case 0:
	case -EBADMSG:
		return res;
	case -EEXIST:
		return w->is_absent ? res : -EIO;
	case -ENOENT:
		if (w->is_there)
			return res;
		ceph_link_suspect(s->link);
		return -EIO;
	case -ENOSPC:
	case -EDQUOT:
		counter_add(&s->count.full, 1);
		return -ENOSPC;
	default:
		return -EIO;
	}
}

static void put_came(struct ceph_write *w, int res)
{
	struct ceph *s = w->s;
	struct store_io *io = w->io;

	res = put_result(w, res);
	/* Memory's own write-back has found a newer value than it has. */
	if (res == -EEXIST && io->is_inner)
		res = -ESTALE;
	/* A buffer that was filled with other bytes than its seals say: nobody's memory is bad. */
	if (res == -EBADMSG && !w->from.st)
		res = -EIO;
	if (!res) {
		counter_add(&s->count.puts, 1);
		ceph_keys_put(&s->keys, &w->key);
		counter_set(&s->count.keys, s->keys.nr_keys);
		io->ver = w->ver;
		io->view.ver = w->ver;
		io->view.value_len = w->info.value_len;
	}
	if (!res && s->st.below) {
		ceph_cache_put(w);
		return;
	}
	ceph_write_destroy(w);
	store_done(io, res);
}

/* Takes the io's view. */
static void put_write(struct ceph *s, struct store_io *io)
{
	struct ceph_write *w = io->view.pin;

	must(io->view.st == &s->st && !ceph_get_is(s, w));
	io->view.st = NULL;
	w->io = io;
	w->came = put_came;
	w->info.ver = io->ver;
	w->info.meta = io->meta ? *io->meta : (struct store_meta){0};
	w->is_absent = io->flags & STORE_IF_ABSENT;
	w->is_there = io->flags & STORE_IF_PRESENT;
	if (io->is_inner && !store_set_is_immutable(s->st.set))
		w->is_absent = true;
	ceph_write_submit(w);
}

/* tidy: name: the verb itself */
void ceph_put(struct store *st, struct store_io *io)
{
	io->ver = ceph_of(st)->ver + 1;
	put_write(ceph_of(st), io);
}

void ceph_put_fill(struct store *st, struct store_io *io)
{
	put_write(ceph_of(st), io);
}

/* ---- inval, del ------------------------------------------------------------------------------ */

static void put_remove(struct ceph *s, struct store_io *io,
		       void (*came)(struct ceph_write *w, int res))
{
	struct ceph_write *w = ceph_write_create(s, 0, true);

	must(w);
	w->key = io->key;
	w->io = io;
	w->came = came;
	w->is_value = false;
	ceph_write_submit(w);
}

static int put_remove_result(struct ceph_write *w, int res)
{
	struct ceph *s = w->s;

	if (!res || res == -ENOENT) {
		ceph_keys_del(&s->keys, &w->key);
		counter_set(&s->count.keys, s->keys.nr_keys);
		return res;
	}
	return -EIO;
}

static void inval_cached(struct store_io *io, int res)
{
	if (res == -ESTALE && !ceph_frame(io)->res) {
		ceph_frame(io)->res = 1;
		io->ver++;
		store_down(io, inval_cached);
		return;
	}
	io->ver = ceph_frame(io)->ver;
	store_done(io, res ? -EIO : 0);
}

/* The cluster's word is the last one: the cache below may know of a higher version, and drops. */
static void inval_down(struct store_io *io)
{
	ceph_frame(io)->ver = io->ver;
	ceph_frame(io)->res = 0;
	store_down(io, inval_cached);
}

static void inval_came(struct ceph_write *w, int res)
{
	struct store_io *io = w->io;

	res = put_remove_result(w, res);
	ceph_write_destroy(w);
	if (res && res != -ENOENT)
		store_done(io, res);
	else
		inval_down(io);
}

static void inval_start(struct ceph *s, struct store_io *io)
{
	if (list_is_empty(&s->free_writes))
		put_wait(s, io, inval_start);
	else
		put_remove(s, io, inval_came);
}

/* Whoever asks with a version that isn't above all others comes again at once, with one that is. */
void ceph_put_inval(struct store *st, struct store_io *io)
{
	struct ceph *s = ceph_of(st);

	if (io->ver <= s->ver) {
		io->ver = s->ver;
		store_done(io, -ESTALE);
		return;
	}
	inval_start(s, io);
}

static void del_down(struct store_io *io, int res)
{
	store_done(io, res == -ENOENT && !ceph_frame(io)->res ? 0 : res);
}

static void del_came(struct ceph_write *w, int res)
{
	struct store_io *io = w->io;
	uint64_t ver = w->ver;

	res = put_remove_result(w, res);
	ceph_write_destroy(w);
	if (res && res != -ENOENT) {
		store_done(io, res);
		return;
	}
	io->ver = max_t(uint64_t, io->ver, ver);
	ceph_frame(io)->res = res;
	store_down(io, del_down);
}

static void del_start(struct ceph *s, struct store_io *io)
{
	if (list_is_empty(&s->free_writes))
		put_wait(s, io, del_start);
	else
		put_remove(s, io, del_came);
}

void ceph_put_del(struct store *st, struct store_io *io)
{
	struct ceph *s = ceph_of(st);

	io->ver = max_t(uint64_t, io->ver, s->ver + 1);
	del_start(s, io);
}
