/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: one operation brings the bytes asked for, in whole chunks, the object's length, its
 * attributes, and the version that all of them are of. A version that is wanted is asserted in the
 * same operation, so that nothing of another one is sent.
 *
 *     io -> slot -> read + stat + getxattrs -> (librados) -> mailbox -> checked -> a view of it
 *
 * Bytes of a sealed value are checked by whoever copies them out of the view, as everywhere; those
 * of a raw one get their seals here. A read that takes too long is answered as a miss: its slot
 * stays with librados until that has ended it. Runs on the shard's owner.
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "peal/seal.h"
#include "store/rados/ceph_int.h"

static uint64_t get_kind_bytes(unsigned kind)
{
	switch ((enum ceph_read_kind)kind) {
	case CEPH_READ_SMALL:
		return MEM_CHUNK_BYTES;
	case CEPH_READ_LARGE:
		return STORE_PIECE_BYTES;
	case CEPH_READ_LOOK:
	case CEPH_READ_KINDS:
		break;
	}
	return 0;
}

static void get_timeout(struct timeout *t);

int ceph_get_init(struct ceph *s)
{
	struct ceph_read *r = s->reads;
	uint8_t *at = s->map;

	list_init(&s->busy_reads);
	timeout_init(&s->read_timeout, get_timeout);
	for (unsigned kind = 0; kind < CEPH_READ_KINDS; kind++) {
		list_init(&s->free_reads[kind]);
		for (uint32_t i = 0; i < s->nr_of[kind]; i++, r++) {
			r->s = s;
			r->kind = (uint8_t)kind;
			r->mem = at;
			at += get_kind_bytes(kind);
			list_add_tail(&s->free_reads[kind], &r->node);
		}
	}
	return 0;
}

bool ceph_get_is(const struct ceph *s, const void *pin)
{
	const struct ceph_read *r = pin;

	return r >= s->reads && r < s->reads + s->nr_all;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void get_start(struct ceph *s, struct store_io *io);

/*
 * Free again: somebody who waits for one of its kind has it next. A start that fails frees its slot
 * in here: whoever is in the loop already goes on with it.
 */
static void get_free(struct ceph_read *r)
{
	struct ceph *s = r->s;
	struct store_io *io;

	list_add_head(&s->free_reads[r->kind], &r->node);
	if (s->is_serving)
		return;
	s->is_serving = true;
	for (unsigned kind = 0; kind < CEPH_READ_KINDS; kind++)
		while (!list_is_empty(&s->free_reads[kind]) &&
		       (io = ceph_wait_pop(&s->read_waits[kind])))
			get_start(s, io);
	s->is_serving = false;
}

/* The range of an io, in whole chunks, within its piece. */
static void get_range(const struct store_io *io, uint64_t *off, uint64_t *len)
{
	uint64_t piece = align_down(io->off, STORE_PIECE_BYTES) + STORE_PIECE_BYTES;
	uint64_t end = io->off + min_t(uint64_t, max_t(uint64_t, io->len, 1), STORE_PIECE_BYTES);

	*off = align_down(io->off, MEM_CHUNK_BYTES);
	*len = align_up(min_t(uint64_t, end, piece), MEM_CHUNK_BYTES) - *off;
}

static enum ceph_read_kind get_kind(const struct store_io *io)
{
	uint64_t off, len;

	if (io->op == STORE_EXIST)
		return CEPH_READ_LOOK;
	get_range(io, &off, &len);
	return len > MEM_CHUNK_BYTES ? CEPH_READ_LARGE : CEPH_READ_SMALL;
}

/* ---- what has come --------------------------------------------------------------------------- */

static void get_miss(struct ceph *s, struct store_io *io, int res)
{
	if (io->op == STORE_GET && !(io->flags & STORE_UNCOUNTED))
		counter_add(&s->count.misses, 1);
	store_done(io, res);
}

/* Once for each version of an object that is not what it says. */
static void get_alert(struct ceph *s, const struct ceph_read *r, const char *what)
{
	for (unsigned i = 0; i < CEPH_BADS; i++)
		if (s->bad[i].hash == r->key.hash && s->bad[i].ver == r->ver)
			return;
	s->bad[s->bad_next].hash = r->key.hash;
	s->bad[s->bad_next].ver = r->ver;
	s->bad_next = (s->bad_next + 1) % CEPH_BADS;
	counter_add(&s->count.bad_seals, 1);
	store_alert(&s->st, &r->key, what);
}

/* False: they can't be had. An object is not raw because we didn't see what it has. */
static bool get_attrs(struct ceph_read *r, struct ceph_obj_attrs *a)
{
	const char *name, *val;
	size_t len;
	int err;

	*a = (struct ceph_obj_attrs){
		.first = r->off / MEM_CHUNK_BYTES,
		.seals = r->kind == CEPH_READ_LOOK ? NULL : r->seals,
		.max_seals = CEPH_PIECE_SEALS,
	};
	if (r->res_stat < 0 || r->res_attrs < 0 || r->res_read < 0)
		return false;
	while (!(err = rados_getxattrs_next(r->attrs, &name, &val, &len)) && name)
		ceph_obj_attr(a, name, val, len);
	return !err;
}

/* Of a raw value: what has come is what it is. */
static void get_seal(struct ceph_read *r)
{
	uint64_t first = r->off / MEM_CHUNK_BYTES;
	uint64_t nr = div_round_up((uint64_t)r->nr_read, MEM_CHUNK_BYTES), n;

	for (uint64_t c = 0; c < nr; c++) {
		n = min_t(uint64_t, r->nr_read - c * MEM_CHUNK_BYTES, MEM_CHUNK_BYTES);
		r->seals[c] = hash_xxh3(r->mem + c * MEM_CHUNK_BYTES, n,
					peal_seal_seed_at(r->key.hash, first + c));
	}
}

static int64_t get_age(const struct ceph_read *r)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (int64_t)now.tv_sec - (int64_t)r->mtime;
}

/* 0: info and seals are there. -ENOENT: a miss, told if it is a fault. */
static int get_check(struct ceph_read *r)
{
	struct ceph *s = r->s;
	struct ceph_obj_attrs a;
	enum ceph_obj_kind kind;
	uint64_t want = r->size > r->off ? min_t(uint64_t, r->size - r->off, r->len) : 0;

	if (!get_attrs(r, &a)) {
		get_alert(s, r, "its object's attributes can't be read");
		return -ENOENT;
	}
	kind = ceph_obj_check(&a, r->size, get_age(r), &r->info);
	if (kind == CEPH_OBJ_EXPIRED)
		return -ENOENT;
	if (kind == CEPH_OBJ_BAD) {
		get_alert(s, r, "its object's length or attributes don't fit");
		return -ENOENT;
	}
	if (r->info.value_len > store_set_value_max(s->st.set))
		return -ENOENT;
	if (r->kind == CEPH_READ_LOOK)
		return 0;
	if (r->nr_read != want) {
		get_alert(s, r, "its object gave less than it has");
		return -ENOENT;
	}
	if (kind == CEPH_OBJ_RAW)
		get_seal(r);
	return 0;
}

/* What the cluster said, as results of ours. */
static int get_result(struct ceph_read *r, int res)
{
	if (!res)
		return get_check(r);
	if (r->want_ver && (res == -ERANGE || res == -EOVERFLOW))
		return -ESTALE;
	return -ENOENT;
}

static void get_give(struct ceph_read *r, struct store_io *io)
{
	struct ceph *s = r->s;

	s->ver = max_t(uint64_t, s->ver, r->ver);
	io->ver = r->ver;
	if (io->op == STORE_EXIST) {
		io->view.value_len = r->info.value_len;
		io->view.ver = r->ver;
		io->view.tier = s->st.tier;
		get_free(r);
		store_done(io, 0);
		return;
	}
	if (!(io->flags & STORE_UNCOUNTED))
		counter_add(&s->count.hits, 1);
	counter_add(&s->count.staged, r->nr_read);
	io->view = (struct store_view){
		.st = &s->st,
		.pin = r,
		.off = r->off,
		.len = r->nr_read,
		.ver = r->ver,
		.value_len = r->info.value_len,
		.tier = s->st.tier,
	};
	store_done(io, 0);
}

/* Who has been asked longest: UINT64_MAX for nobody. */
static uint64_t get_oldest(const struct ceph *s)
{
	uint64_t since = UINT64_MAX;

	if (!list_is_empty(&s->busy_reads))
		since = list_first_entry(&s->busy_reads, struct ceph_read, node)->since_ns;
	for (unsigned kind = 0; kind < CEPH_READ_KINDS; kind++)
		if (s->read_waits[kind].head)
			since = min_t(uint64_t, since,
				      ceph_frame(s->read_waits[kind].head)->since_ns);
	return since;
}

static void get_arm(struct ceph *s)
{
	uint64_t since;

	if (timeout_is_set(&s->read_timeout))
		return;
	since = get_oldest(s);
	if (since != UINT64_MAX)
		timeout_set(s->st.owner, &s->read_timeout, since + s->link->o.read_max_ns);
}

/* Oldest first; one that has waited for its slot is older than what began meanwhile. */
static void get_busy(struct ceph *s, struct ceph_read *r)
{
	struct list *at = s->busy_reads.prev;

	while (at != &s->busy_reads &&
	       container_of(at, struct ceph_read, node)->since_ns > r->since_ns)
		at = at->prev;
	list_add_head(at, &r->node);
}

static void get_came(struct mbox_msg *m)
{
	struct ceph_read *r = container_of(m, struct ceph_read, msg);
	struct ceph *s = r->s;
	struct store_io *io = r->io;
	int res = rados_aio_get_return_value(r->comp);

	s->nr_reads--;
	list_del(&r->node);
	r->ver = rados_aio_get_version(r->comp);
	/* One that was late was counted then. */
	if (io || res != -ETIMEDOUT)
		ceph_link_ended(s->link, res);
	if (!res && !io)
		res = -ENOENT;
	counter_add(&s->count.read_bytes, r->nr_read);
	res = get_result(r, res);
	rados_getxattrs_end(r->attrs);
	rados_aio_release(r->comp);
	rados_release_read_op(r->op);
	if (!res) {
		get_give(r, io);
		return;
	}
	get_free(r);
	if (io)
		get_miss(s, io, res);
}

/* On a thread of librados: it touches nothing behind the posting. */
static void get_told(rados_completion_t comp, void *arg)
{
	struct ceph_read *r = arg;

	mbox_post(r->s->st.owner, &r->msg);
}

static bool get_waits_on(struct ceph *s, struct store_io *io, uint64_t now)
{
	return ceph_link_io(s->link) && now - ceph_frame(io)->since_ns < s->link->o.read_max_ns;
}

static void get_waiters(struct ceph *s, uint64_t now)
{
	struct store_io *io;

	for (unsigned kind = 0; kind < CEPH_READ_KINDS; kind++) {
		while ((io = s->read_waits[kind].head) && !get_waits_on(s, io, now)) {
			ceph_wait_pop(&s->read_waits[kind]);
			counter_add(&s->count.late, 1);
			get_miss(s, io, -ENOENT);
		}
	}
}

/* When several are, the cluster doesn't answer: then who waits for a slot needn't any longer. */
static void get_timeout(struct timeout *t)
{
	struct ceph *s = container_of(t, struct ceph, read_timeout);
	uint64_t now = reactor_now_ns(s->st.owner);
	struct store_io *io;
	struct ceph_read *r;

	while (!list_is_empty(&s->busy_reads)) {
		r = list_first_entry(&s->busy_reads, struct ceph_read, node);
		if (now - r->since_ns < s->link->o.read_max_ns)
			break;
		io = r->io;
		r->io = NULL;
		list_del(&r->node);
		counter_add(&s->count.late, 1);
		/* What a slot was waited for says nothing of the cluster. */
		if (now - r->start_ns >= s->link->o.read_max_ns / 2)
			ceph_link_late(s->link);
		get_miss(s, io, -ENOENT);
	}
	get_waiters(s, now);
	get_arm(s);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int get_build(struct ceph_read *r)
{
	int err = rados_aio_create_completion2(r, get_told, &r->comp);

	if (err)
		return err;
	r->op = rados_create_read_op();
	r->attrs = NULL;
	r->nr_read = 0;
	r->size = 0;
	r->res_stat = r->res_attrs = r->res_read = 0;
	if (r->want_ver)
		rados_read_op_assert_version(r->op, r->want_ver);
	rados_read_op_stat(r->op, &r->size, &r->mtime, &r->res_stat);
	rados_read_op_getxattrs(r->op, &r->attrs, &r->res_attrs);
	if (r->kind != CEPH_READ_LOOK)
		rados_read_op_read(r->op, r->off, r->len, (char *)r->mem, &r->nr_read,
				   &r->res_read);
	return 0;
}

static int get_ask(struct ceph_read *r, rados_ioctx_t ctx)
{
	int err = get_build(r);

	if (err)
		return err;
	err = rados_aio_read_op_operate(r->op, ctx, r->comp, r->name, 0);
	if (err) {
		rados_getxattrs_end(r->attrs);
		rados_aio_release(r->comp);
		rados_release_read_op(r->op);
	}
	return err;
}

/* since_ns of its frame is set. */
static void get_start(struct ceph *s, struct store_io *io)
{
	enum ceph_read_kind kind = get_kind(io);
	rados_ioctx_t ctx = ceph_link_io(s->link);
	struct ceph_read *r;

	if (!ctx) {
		get_miss(s, io, -ENOENT);
		return;
	}
	if (list_is_empty(&s->free_reads[kind])) {
		if (s->read_waits[kind].nr == CEPH_WAITS_MAX) {
			get_miss(s, io, io->op == STORE_GET ? -EBUSY : -ENOENT);
			return;
		}
		ceph_wait(&s->read_waits[kind], io);
		get_arm(s);
		return;
	}
	r = list_first_entry(&s->free_reads[kind], struct ceph_read, node);
	list_del(&r->node);
	r->io = io;
	r->msg.fn = get_came;
	r->key = io->key;
	r->want_ver = io->op == STORE_GET ? io->ver : 0;
	r->since_ns = ceph_frame(io)->since_ns;
	r->start_ns = reactor_now_ns(s->st.owner);
	if (kind != CEPH_READ_LOOK)
		get_range(io, &r->off, &r->len);
	ceph_obj_name(&r->key, r->name);
	get_busy(s, r);
	s->nr_reads++;
	if (get_ask(r, ctx)) {
		s->nr_reads--;
		list_del(&r->node);
		get_free(r);
		get_miss(s, io, -ENOENT);
		return;
	}
	get_arm(s);
}

static void get_begin(struct ceph *s, struct store_io *io)
{
	ceph_frame(io)->since_ns = reactor_now_ns(s->st.owner);
	get_start(s, io);
}

/* The cache below hasn't it, or not this version. */
static void get_below(struct store_io *io, int res)
{
	struct ceph *s = ceph_of(io->at);

	if (!res) {
		store_done(io, 0);
		return;
	}
	io->ver = ceph_frame(io)->ver;
	get_begin(s, io);
}

/* tidy: name: the verb itself */
void ceph_get(struct store *st, struct store_io *io)
{
	if (!st->below) {
		get_begin(ceph_of(st), io);
		return;
	}
	ceph_frame(io)->ver = io->ver;
	store_down(io, get_below);
}

/* What this machine knows is in the index below; the list of keys tells no length. */
void ceph_get_exist(struct store *st, struct store_io *io)
{
	if (io->flags & STORE_MEM_ONLY)
		store_down(io, NULL);
	else
		ceph_get(st, io);
}

void ceph_get_release(struct ceph_read *r, bool is_bad)
{
	if (is_bad)
		get_alert(r->s, r, "a value's bytes do not fit their seals");
	get_free(r);
}
