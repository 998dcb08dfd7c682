/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: a get is answered with a piece of at most 1 MiB or, when it asks for less, a part of
 * one: the chunks that it asks for and no others.
 *
 *     from the piece's beginning on:  | head | payload ... |      one request
 *     from further on:                | head |   | payload ... |  two, or one when the head was
 *                                                                 read lately (ssd_head.c)
 *
 * The payload goes straight into the memory of the tier above when the get brings some that lies
 * right for the device, in one run, and such memory has huge pages; else into a slot of the tier's
 * own (ssd_slot.c), which the view then shows until it is released.
 *
 * Nothing is passed on unchecked: the head must be that of this key, version and piece, written at
 * this address in this life of the segment; the payload must fit its seals. What does not fit, or
 * can't be read, is a miss here, and the entry becomes a ghost: it is never tried again, and the
 * tier below is asked for this very version. What takes longer than read_max_ns is a miss, too, but
 * the entry stays, and the memory is kept until the device has ended it. A segment is not used
 * again while it is being read.
 *
 * Who finds no slot waits, in order. Runs on the shard's owner.
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "store/ssd/ssd_head.h"
#include "store/ssd/ssd_int.h"

#define READ_MAX_NS 2000000000ull
/*
 * A fast device answers within that time, when it has not much to do: its reactor doesn't sleep
 * meanwhile. To be woken costs 20 to 50 us, a third of what a read of 4 KiB takes.
 */
#define READ_EXPECT_NS 1000000ull
#define READ_NEXT_NS 300000ull /* until whoever has got a value asks for the next one */
#define READ_ALONE 4u	       /* under way: the parts of one value, at most */

bool ssd_read_is(const struct ssd *s, const void *pin)
{
	return (const struct ssd_read *)pin >= s->reads &&
	       (const struct ssd_read *)pin < s->reads + SSD_READS;
}

bool ssd_read_is_busy(const struct ssd *s)
{
	return s->nr_late || s->nr_reads || s->nr_background;
}

/* ---- a miss ---------------------------------------------------------------------------------- */

static void read_came(struct store_io *io, int res)
{
	store_done(io, res == -ESTALE ? -ENOENT : res);
}

/* There is a value, but not for us to give: the tier below may have that very version. */
static void read_gone(struct store_io *io, uint64_t ver)
{
	if (!(io->flags & STORE_UNCOUNTED))
		counter_add(&ssd_of(io->at)->count.misses, 1);
	if (!io->at->below) {
		store_done(io, -ENOENT);
		return;
	}
	io->ver = ver;
	store_down(io, read_came);
}

/*
 * A write that a power cut tore, and that nobody was told of, is found by going through its
 * segment, and looks like a fault of the medium. Everything else that doesn't fit is one.
 */
bool ssd_read_is_torn(const struct ssd_read *r, int err)
{
	return err == -EILSEQ && r->s->segs[r->seg].is_scanned;
}

void ssd_read_distrust(struct ssd_read *r, int err, const char *what)
{
	struct ssd *s = r->s;
	struct ssd_entry *e = ssd_index_find(&s->ix, &r->key);

	if (ssd_read_is_torn(r, err)) {
		counter_add(&s->count.torn, 1);
	} else {
		counter_add(&s->count.bad_seals, 1);
		store_alert(&s->st, &r->key, what);
	}
	if (e && !e->is_ghost && e->seg == r->seg && e->off == r->off && e->ver == r->ver)
		ssd_seg_ghost(s, e);
}

static void read_arm(struct ssd *s);

static void read_free(struct ssd_read *r)
{
	enum ssd_read_kind kind = r->kind;
	struct ssd *s = r->s;

	ssd_slot_put(r);
	ssd_slot_wake(s, kind);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void read_view(struct ssd_read *r, struct store_io *io)
{
	io->view = (struct store_view){
		.st = &r->s->st,
		.pin = r,
		.off = (uint64_t)r->piece * STORE_PIECE_BYTES +
		       (uint64_t)r->first * MEM_CHUNK_BYTES,
		.len = r->want,
		.ver = r->ver,
		.value_len = r->value_len,
		.tier = r->s->st.tier,
	};
	io->ver = r->ver;
}

/* Seals and meta join the payload; the pin goes on with the view. */
static void read_view_above(struct ssd_read *r, struct store_io *io)
{
	const struct store_into *in = &r->into;

	memcpy(in->seals + io->view.off / MEM_CHUNK_BYTES, r->seals + r->first,
	       ssd_format_seals(r->want) * sizeof(uint64_t));
	/* Once there it is looked at by others, and stays as it is. */
	if (in->meta && memcmp(in->meta, &r->meta, sizeof(r->meta)) != 0)
		*in->meta = r->meta;
	io->view.st = in->st;
	io->view.pin = in->pin;
}

/* Nothing is written to it any more. */
static void read_let_go(struct ssd_read *r)
{
	struct store_view v = {.st = r->into.st, .pin = r->into.pin, .value_len = r->value_len};

	if (v.st)
		v.st->ops->release(v.st, &v);
	r->into.st = NULL;
}

static void read_off_busy(struct ssd_read *r)
{
	list_del(&r->busy);
	if (r->is_background) {
		r->s->nr_background--;
		--*reactor_unwaited_reads(r->s->st.owner);
		return;
	}
	r->s->nr_reads--;
	--*reactor_waited_reads(r->s->st.owner);
	/* The next one has waited in the same queue of the device. */
	reactor_expect(r->s->st.owner, r->s->nr_reads ? READ_EXPECT_NS : READ_NEXT_NS);
}

static void read_fail(struct ssd_read *r, int err)
{
	struct store_io *io = r->io;
	uint64_t ver = r->ver;

	if (err != -ECANCELED) {
		ssd_health_read_failed(r->s, r, err);
		ssd_read_distrust(r, err,
				  err == -EILSEQ ? "what was read from the device does not fit"
						 : "the device can't read it");
	}
	read_let_go(r);
	read_free(r);
	if (io)
		read_gone(io, ver);
}

static void read_give(struct ssd_read *r)
{
	struct ssd *s = r->s;
	struct store_io *io = r->io;

	if (!(io->flags & STORE_UNCOUNTED))
		counter_add(&s->count.hits, 1);
	counter_add(r->into.st ? &s->count.straight_bytes : &s->count.staged_bytes, r->want);
	read_view(r, io);
	if (r->into.st) {
		read_view_above(r, io);
		r->into.st = NULL;
		read_free(r);
	}
	store_done(io, 0);
}

static void read_end(struct ssd_read *r)
{
	struct ssd *s = r->s;
	int err = ssd_check_parts(r);

	must(s->segs[r->seg].nr_reads > 0);
	s->segs[r->seg].nr_reads--;
	list_del(&r->wait);
	if (r->is_late)
		s->nr_late--;
	else
		read_off_busy(r);
	if (err) {
		read_fail(r, err);
	} else if (r->is_late) {
		read_let_go(r);
		read_free(r);
	} else {
		read_give(r);
	}
}

static void read_go_on(struct ssd_read *r)
{
	if (!r->nr_left && (r->has_head || r->err))
		read_end(r);
}

/* The head has been read, or could not be: others may wait for it. */
static void read_head_is(struct ssd_read *r, int err)
{
	uint32_t room = r->is_small ? (uint32_t)r->iov.iov_len - r->skip : SSD_BLOCK;
	struct list woken;
	struct ssd_read *w;

	if (!err)
		err = ssd_check_parse(r, room);
	if (err)
		r->err = err;
	list_init(&woken);
	ssd_head_came(r, err, &woken);
	while (!list_is_empty(&woken)) {
		w = list_first_entry(&woken, struct ssd_read, wait);
		list_del(&w->wait);
		read_go_on(w);
	}
}

static int read_res(int res, uint64_t len)
{
	return res < 0 ? res : (uint64_t)res == len ? 0 : -EIO;
}

static void read_head_ended(struct io_req *req, int res)
{
	struct ssd_read *r = container_of(req, struct ssd_read, head_req);

	r->nr_left--;
	read_head_is(r, read_res(res, SSD_BLOCK));
	read_go_on(r);
}

static void read_ended(struct io_req *req, int res)
{
	struct ssd_read *r = container_of(req, struct ssd_read, req);
	int err = read_res(res, r->bytes);

	r->nr_left--;
	if (r->is_joint)
		read_head_is(r, err);
	else if (err)
		r->err = err;
	read_go_on(r);
}

/* ---- too late -------------------------------------------------------------------------------- */

static uint64_t read_max_ns(const struct ssd *s)
{
	return s->opts.read_max_ns ? s->opts.read_max_ns : READ_MAX_NS;
}

static void read_late(struct ssd_read *r)
{
	struct ssd *s = r->s;
	struct store_io *io = r->io;
	uint64_t ver = r->ver;

	read_off_busy(r);
	r->io = NULL;
	r->is_late = true;
	s->nr_late++;
	counter_add(&s->count.late, 1);
	if (!r->nr_left) { /* it only waits for the head that another one reads */
		r->err = -ECANCELED;
		read_end(r);
	}
	read_gone(io, ver);
}

/* When the oldest becomes too late; UINT64_MAX: nobody waits. */
static uint64_t read_late_at(const struct ssd *s)
{
	uint64_t at = UINT64_MAX;

	if (!list_is_empty(&s->busy_reads))
		at = list_first_entry(&s->busy_reads, struct ssd_read, busy)->since_ns;
	for (uint32_t k = 0; k < SSD_READ_KINDS; k++)
		if (s->gets[k].head)
			at = min_t(uint64_t, at, ssd_frame(s->gets[k].head)->since_ns);
	return at == UINT64_MAX ? at : at + read_max_ns(s);
}

static void read_arm(struct ssd *s)
{
	uint64_t at;

	if (timeout_is_set(&s->read_timeout))
		return;
	at = read_late_at(s);
	if (at != UINT64_MAX)
		timeout_set(s->st.owner, &s->read_timeout, at);
}

static void read_late_waiting(struct ssd *s, struct ssd_gets *q, uint64_t since_ns)
{
	struct ssd_entry *e;
	struct store_io *io;

	while (q->head && ssd_frame(q->head)->since_ns <= since_ns) {
		io = ssd_slot_unwait(q);
		e = ssd_index_find(&s->ix, &io->key);
		if (!e) {
			ssd_read_get(&s->st, io);
			continue;
		}
		counter_add(&s->count.late, 1);
		read_gone(io, e->ver);
	}
}

static void read_timed_out(struct timeout *t)
{
	struct ssd *s = container_of(t, struct ssd, read_timeout);
	uint64_t now_ns = reactor_now_ns(s->st.owner);
	struct ssd_read *r;

	while (read_late_at(s) <= now_ns) {
		for (uint32_t k = 0; k < SSD_READ_KINDS; k++)
			read_late_waiting(s, &s->gets[k], now_ns - read_max_ns(s));
		if (list_is_empty(&s->busy_reads))
			break;
		r = list_first_entry(&s->busy_reads, struct ssd_read, busy);
		if (r->since_ns + read_max_ns(s) <= now_ns)
			read_late(r);
	}
	read_arm(s);
}

void ssd_read_init(struct ssd *s)
{
	list_init(&s->busy_reads);
	timeout_init(&s->read_timeout, read_timed_out);
}

void ssd_read_fini(struct ssd *s)
{
	for (uint32_t k = 0; k < SSD_READ_KINDS; k++)
		must(!s->gets[k].head);
	must(!ssd_read_is_busy(s));
	timeout_cancel(&s->read_timeout);
}

/* ---- get ------------------------------------------------------------------------------------- */

/* Which bytes of the value: whole chunks of one piece. */
struct read_range {
	uint32_t piece;
	uint32_t first; /* chunk of the piece */
	uint32_t want;	/* bytes */
};

static struct read_range read_range(const struct ssd_entry *e, const struct store_io *io)
{
	struct read_range g = {.want = (uint32_t)e->len};
	uint64_t start, end, base;

	if (e->len <= SSD_PACKED_MAX)
		return g;
	if (io->off >= e->len || !io->len) { /* the head says what it is */
		g.want = 0;
		return g;
	}
	g.piece = (uint32_t)(io->off / STORE_PIECE_BYTES);
	base = (uint64_t)g.piece * STORE_PIECE_BYTES;
	start = align_down(io->off, MEM_CHUNK_BYTES);
	end = align_up(min_t(uint64_t, io->len, UINT32_MAX) + io->off, MEM_CHUNK_BYTES);
	end = min_t(uint64_t, min_t(uint64_t, end, e->len), base + STORE_PIECE_BYTES);
	g.first = (uint32_t)((start - base) / MEM_CHUNK_BYTES);
	g.want = (uint32_t)(end - start);
	return g;
}

/* Where the range lies in memory of the tier above; NULL: it can't be read there. */
static uint8_t *read_above(const struct ssd *s, const struct ssd_entry *e,
			   const struct store_io *io, const struct read_range *g)
{
	const struct store_into *in = &io->into;
	uint64_t off = (uint64_t)g->piece * STORE_PIECE_BYTES +
		       (uint64_t)g->first * MEM_CHUNK_BYTES;

	if (!ssd_is_straight(s, in) || in->ver != e->ver || in->value_len != e->len ||
	    g->want < SSD_BLOCK || e->len <= SSD_PACKED_MAX)
		return NULL;
	return ssd_value_above(s, in, off, g->want);
}

static enum ssd_read_kind read_kind(const struct ssd_entry *e, const struct read_range *g,
				    const uint8_t *above)
{
	if (e->len <= SSD_PACKED_MAX)
		return SSD_READ_SMALL;
	if (above)
		return SSD_READ_STRAIGHT;
	return g->want <= STORE_PART_BYTES ? SSD_READ_PART : SSD_READ_LARGE;
}

static void read_request(struct ssd_read *r, const struct iovec *iov, uint32_t nr_iov, uint64_t off)
{
	r->nr_left++;
	r->bytes = 0;
	for (uint32_t i = 0; i < nr_iov; i++)
		r->bytes += (uint32_t)iov[i].iov_len;
	r->req = (struct io_req){.op = IO_READ,
				 .fd = r->s->dev->fd,
				 .iov = iov,
				 .nr_iov = nr_iov,
				 .off = off,
				 .end = read_ended};
	counter_add(&r->s->count.read_bytes, r->bytes);
	reactor_io(r->s->st.owner, &r->req);
	/* Together they'd become one request; so the first is checked while the next ones come. */
	if (r->s->nr_reads <= READ_ALONE && !r->is_small && !r->is_background)
		reactor_io_push(r->s->st.owner);
}

static void read_head(struct ssd_read *r, uint64_t at)
{
	r->nr_left++;
	r->head_iov = (struct iovec){r->mem, SSD_BLOCK};
	r->head_req = (struct io_req){.op = IO_READ,
				      .fd = r->s->dev->fd,
				      .iov = &r->head_iov,
				      .nr_iov = 1,
				      .off = at,
				      .end = read_head_ended};
	counter_add(&r->s->count.read_bytes, SSD_BLOCK);
	reactor_io(r->s->st.owner, &r->head_req);
}

static void read_small(struct ssd_read *r, uint64_t at)
{
	uint32_t grain = r->s->dev->read_bytes ? r->s->dev->read_bytes : SSD_BLOCK;

	r->skip = (uint32_t)(at % grain);
	r->is_joint = true;
	/* The head's length isn't known here; a segment ends behind its last record. */
	r->iov = (struct iovec){r->mem, align_up(r->skip + SSD_SMALL_HEAD_MAX + r->want, grain)};
	read_request(r, &r->iov, 1, at - r->skip);
}

/* The payload's request, behind the head's block when that is part of it. */
static void read_large(struct ssd_read *r, uint64_t at)
{
	uint32_t n = 0, body = (uint32_t)align_down(r->want, SSD_BLOCK);
	uint64_t from = at + SSD_BLOCK + (uint64_t)r->first * MEM_CHUNK_BYTES;

	if (r->is_joint)
		r->iovs[n++] = (struct iovec){r->mem, SSD_BLOCK};
	if (!r->into.st) {
		r->payload = r->mem + SSD_BLOCK;
		body = (uint32_t)align_up(r->want, SSD_BLOCK);
		if (r->is_joint) /* it lies right behind */
			r->iovs[0].iov_len += body;
		else
			r->iovs[n++] = (struct iovec){r->payload, body};
	} else {
		r->tail = r->want - body;
		r->iovs[n++] = (struct iovec){r->payload, body};
		if (r->tail)
			r->iovs[n++] = (struct iovec){r->mem + SSD_BLOCK, SSD_BLOCK};
	}
	read_request(r, r->iovs, n, r->is_joint ? at : from);
}

static void read_submit(struct ssd_read *r, uint64_t at, bool needs_head)
{
	r->skip = 0;
	r->is_joint = needs_head && r->first == 0;
	if (needs_head && !r->is_joint)
		read_head(r, at);
	if (r->is_joint || r->want)
		read_large(r, at);
}

static void read_start(struct ssd_read *r, const struct ssd_entry *e, const struct read_range *g)
{
	struct ssd *s = r->s;
	uint64_t at = ssd_seg_addr(s, e->seg) + (uint64_t)e->off * SSD_GRANULE +
		      (uint64_t)g->piece * SSD_PIECE_STRIDE;
	bool needs_head;

	r->seg = e->seg;
	r->off = e->off;
	r->ver = e->ver;
	r->value_len = e->len;
	r->piece = g->piece;
	r->first = g->first;
	r->want = g->want;
	r->since_ns = reactor_turn_ns(s->st.owner);
	list_add_tail(&s->busy_reads, &r->busy);
	s->segs[r->seg].nr_reads++;
	if (r->is_background) {
		s->nr_background++;
		++*reactor_unwaited_reads(s->st.owner);
	} else {
		s->nr_reads++;
		++*reactor_waited_reads(s->st.owner);
		reactor_expect(s->st.owner, READ_EXPECT_NS);
	}
	read_arm(s);
	if (r->is_small) {
		read_small(r, at);
		return;
	}
	needs_head = ssd_head_find(r) == SSD_HEAD_MISSING;
	read_submit(r, at, needs_head);
	/* Nothing to be read, or a head that is here and wrong. */
	read_go_on(r);
}

static void read_take(struct ssd *s, struct store_io *io, struct ssd_entry *e)
{
	struct read_range g = read_range(e, io);
	uint8_t *above = read_above(s, e, io, &g);
	enum ssd_read_kind kind = read_kind(e, &g, above);
	struct ssd_read *r = ssd_slot_get(s, kind);

	if (!r) {
		ssd_slot_wait(s, &s->gets[kind], io);
		read_arm(s);
		return;
	}
	r->io = io;
	r->key = io->key;
	r->is_background = io->flags & STORE_BACKGROUND;
	if (above) {
		r->payload = above;
		r->into = io->into;
		io->into.st = NULL;
	}
	if (!(io->flags & (STORE_NO_TOUCH | STORE_UNCOUNTED)))
		e->hits += e->hits < SSD_HITS_MAX;
	read_start(r, e, &g);
}

void ssd_read_get(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	struct ssd_entry *e = ssd_index_find(&s->ix, &io->key);

	if (!e) {
		if (!(io->flags & STORE_UNCOUNTED))
			counter_add(&s->count.misses, 1);
		store_down(io, NULL);
		return;
	}
	if (io->ver && io->ver != e->ver)
		store_done(io, -ESTALE);
	else if (!ssd_seg_serves(s, e))
		read_gone(io, e->ver);
	else
		read_take(s, io, e);
}

void ssd_read_release(struct ssd_read *r, bool is_bad)
{
	/* They did when they came: it is memory that has changed them. */
	if (is_bad)
		ssd_read_distrust(r, -EIO, "bytes don't fit their seal");
	read_free(r);
}

int ssd_read_hint(struct store *st, const struct store_hint *h)
{
	struct ssd_entry *e = ssd_seg_live(ssd_of(st), &h->key);

	if (h->verb != STORE_HINT_SCORE)
		return -EOPNOTSUPP;
	if (!e)
		return -ENOENT;
	e->score = min_t(uint16_t, h->weight, 255);
	return 0;
}
