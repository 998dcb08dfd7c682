/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: one piece of at most 1 MiB per get, the record's head and its payload in one request,
 * into a buffer of the tier's own that the view then shows until it is released.
 *
 * Nothing is passed on unchecked: the head must be that of this key, version and piece, written at
 * this address in this life of the segment; the payload must fit its seals. What does not fit, or
 * can't be read, is a miss here, and the entry becomes a ghost: it is never tried again, and the
 * tier below is asked for this very version. A segment is not used again while it is being read.
 *
 * Who finds no buffer waits, in order. Runs on the shard's owner.
 * tidy: no-test: t_ssd.c has the verbs, test/model/m_ssd all orders and faults
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "peal/seal.h"
#include "store/ssd/ssd_int.h"

#define WAKES_MAX 8u

bool ssd_read_is(const struct ssd *s, const void *pin)
{
	return (const struct ssd_read *)pin >= s->reads &&
	       (const struct ssd_read *)pin < s->reads + SSD_READS_SMALL + SSD_READS_LARGE;
}

static void read_wait(struct ssd_gets *q, struct store_io *io)
{
	ssd_frame(io)->next = NULL;
	if (q->tail)
		ssd_frame(q->tail)->next = io;
	else
		q->head = io;
	q->tail = io;
}

/*
 * In the order in which they came, one queue for each size of buffer: of a reader's pieces the
 * first never waits for a buffer that a later one holds.
 */
static void read_wake(struct ssd *s, bool is_small)
{
	struct ssd_gets *q = &s->gets[is_small];
	struct list *free = is_small ? &s->free_small_reads : &s->free_large_reads;
	struct store_io *io;

	for (uint32_t i = 0; i < WAKES_MAX && (io = q->head) && !list_is_empty(free); i++) {
		q->head = ssd_frame(io)->next;
		if (!q->head)
			q->tail = NULL;
		ssd_read_get(&s->st, io);
	}
}

static void read_free(struct ssd_read *r)
{
	struct ssd *s = r->s;

	list_add_head(r->is_small ? &s->free_small_reads : &s->free_large_reads, &r->node);
	read_wake(s, r->is_small);
}

/* ---- a miss ---------------------------------------------------------------------------------- */

static void read_came(struct store_io *io, int res)
{
	store_done(io, res == -ESTALE ? -ENOENT : res);
}

/* There is a value, but not for us to give: the tier below may have that very version. */
static void read_gone(struct store_io *io, uint64_t ver)
{
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

/* ---- the check ------------------------------------------------------------------------------- */

static bool read_head_fits(const struct ssd_read *r)
{
	const struct ssd_rec_info *ri = &r->ri;

	return ri->kind == SSD_REC_VALUE && ri->key.len == r->key.len &&
	       memcmp(ri->key.b, r->key.b, 16) == 0 && ri->ver == r->ver &&
	       ri->value_len == r->value_len && ri->piece == r->piece;
}

static bool read_payload_fits(const struct ssd_read *r)
{
	const uint8_t *p = r->mem + r->skip + r->ri.payload_off;
	uint64_t first = (uint64_t)r->piece * SSD_PIECE_SEALS;
	uint32_t n;

	for (uint32_t off = 0, c = 0; off < r->want; off += n, c++) {
		n = min_t(uint32_t, r->want - off, MEM_CHUNK_BYTES);
		if (hash_xxh3(p + off, n, peal_seal_seed_at(r->key.hash, first + c)) != r->seals[c])
			return false;
	}
	return true;
}

int ssd_read_check(struct ssd_read *r, int res)
{
	struct ssd_bind b = ssd_seg_bind(r->s, r->seg,
					 (uint64_t)r->off * SSD_GRANULE +
						 (uint64_t)r->piece * SSD_PIECE_STRIDE);
	const uint8_t *rec = r->mem + r->skip;
	uint32_t room = (uint32_t)r->iov.iov_len - r->skip;

	if (res < 0)
		return res;
	if ((uint32_t)res != r->iov.iov_len)
		return -EIO;
	if (ssd_format_rec_check(rec, room, &b, &r->ri) || !read_head_fits(r) ||
	    r->ri.payload_off + r->want > room)
		return -EILSEQ;
	ssd_format_rec_seals(rec, &r->ri, r->seals);
	ssd_format_rec_meta(rec, &r->ri, &r->meta);
	return read_payload_fits(r) ? 0 : -EILSEQ;
}

/* ---- get ------------------------------------------------------------------------------------- */

static void read_view(struct ssd_read *r, struct store_io *io)
{
	io->view = (struct store_view){
		.st = &r->s->st,
		.pin = r,
		.off = r->want ? (uint64_t)r->piece * STORE_PIECE_BYTES : 0,
		.len = r->want,
		.ver = r->ver,
		.value_len = r->value_len,
		.tier = r->s->st.tier,
	};
	io->ver = r->ver;
}

static void read_end(struct io_req *req, int res)
{
	struct ssd_read *r = container_of(req, struct ssd_read, req);
	struct ssd *s = r->s;
	struct store_io *io = r->io;
	uint64_t ver = r->ver;
	int err = ssd_read_check(r, res);

	must(s->segs[r->seg].nr_reads > 0);
	s->segs[r->seg].nr_reads--;
	if (err) {
		ssd_health_read_failed(s, r, err);
		ssd_read_distrust(r, err,
				  err == -EILSEQ ? "what was read from the device does not fit"
						 : "the device can't read it");
		read_free(r);
		read_gone(io, ver);
		return;
	}
	counter_add(&s->count.hits, 1);
	read_view(r, io);
	store_done(io, 0);
}

/* Which bytes of the value: a piece, whole chunks. */
static void read_range(struct ssd_read *r, uint64_t off, uint64_t len)
{
	uint64_t start, end;

	r->piece = 0;
	r->want = r->value_len;
	if (r->is_small)
		return;
	if (off >= r->value_len || !len) {
		r->want = 0;
		return;
	}
	r->piece = (uint32_t)(off / STORE_PIECE_BYTES);
	start = (uint64_t)r->piece * STORE_PIECE_BYTES;
	end = align_up(min_t(uint64_t, len, UINT32_MAX) + off, MEM_CHUNK_BYTES);
	end = min_t(uint64_t, end, start + STORE_PIECE_BYTES);
	r->want = (uint32_t)(min_t(uint64_t, end, r->value_len) - start);
}

static void read_start(struct ssd *s, struct ssd_read *r, const struct ssd_entry *e)
{
	uint64_t at = ssd_seg_addr(s, e->seg) + (uint64_t)e->off * SSD_GRANULE, len;

	r->seg = e->seg;
	r->off = e->off;
	r->ver = e->ver;
	r->value_len = e->len;
	read_range(r, r->io->off, r->io->len);
	at += (uint64_t)r->piece * SSD_PIECE_STRIDE;
	r->skip = (uint32_t)(at % SSD_BLOCK);
	len = r->is_small ? SSD_REC_HEAD_MAX + r->want : SSD_BLOCK + r->want;
	/* Of a packed record the head's length isn't known here; its segment ends behind it. */
	r->iov = (struct iovec){r->mem, align_up(r->skip + len, SSD_BLOCK)};
	r->req = (struct io_req){.op = IO_READ,
				 .fd = s->dev->fd,
				 .iov = &r->iov,
				 .nr_iov = 1,
				 .off = at - r->skip,
				 .end = read_end};
	s->segs[r->seg].nr_reads++;
	reactor_io(s->st.owner, &r->req);
}

void ssd_read_get(struct store *st, struct store_io *io)
{
	struct ssd *s = ssd_of(st);
	struct ssd_entry *e = ssd_index_find(&s->ix, &io->key);
	struct ssd_read *r;
	struct list *free;
	bool is_small;

	if (!e) {
		counter_add(&s->count.misses, 1);
		store_down(io, NULL);
		return;
	}
	if (io->ver && io->ver != e->ver) {
		store_done(io, -ESTALE);
		return;
	}
	if (e->is_ghost || !ssd_health_may_read(s)) {
		read_gone(io, e->ver);
		return;
	}
	is_small = e->len <= SSD_PACKED_MAX;
	free = is_small ? &s->free_small_reads : &s->free_large_reads;
	if (list_is_empty(free)) {
		read_wait(&s->gets[is_small], io);
		return;
	}
	r = list_first_entry(free, struct ssd_read, node);
	list_del(&r->node);
	r->io = io;
	r->key = io->key;
	if (!(io->flags & STORE_NO_TOUCH))
		e->hits += e->hits < SSD_HITS_MAX;
	read_start(s, r, e);
}

void ssd_read_release(struct ssd_read *r, bool is_bad)
{
	/* They did when they came: it is memory that has changed them. */
	if (is_bad)
		ssd_read_distrust(r, -EIO, "bytes don't fit their seal");
	read_free(r);
}
