/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on its way to the cluster: one operation each, a value with its attributes or a removal,
 * with the conditions that it has. Values lie in memory of the tier above, or in a buffer of ours
 * where there is none; either is checked against its seals before it goes. librados copies it while
 * the operation is built, so the memory is free again then, and is let go with the rest.
 *
 * Not more bytes are under way than max_write_bytes, and one value more: what is beyond waits in
 * order. Runs on the shard's owner but for ceph_write_run(), which any thread may run, and what it
 * calls.
 * tidy: no-test: test/ceph has it, with a real cluster
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "peal/seal.h"
#include "store/rados/ceph_int.h"

static uint32_t write_nr_seals(const struct ceph *s)
{
	return (uint32_t)div_round_up((uint64_t)s->link->o.value_max, MEM_CHUNK_BYTES);
}

/* Room for one large value. What is given back is whole pages, so it is made of them. */
size_t ceph_write_staged_bytes(const struct ceph *s)
{
	return align_up((size_t)s->link->o.value_max, 4096);
}

/* The first buffers are of a chunk, one for each write; those of large values lie behind. */
int ceph_write_init(struct ceph *s)
{
	uint32_t nr_seals = write_nr_seals(s);
	uint8_t *at = s->map;

	s->writes = calloc(CEPH_WRITES, sizeof(*s->writes));
	s->seals = calloc((size_t)CEPH_WRITES * nr_seals, sizeof(*s->seals));
	if (!s->writes || !s->seals)
		return -ENOMEM;
	at += s->map_bytes - (size_t)CEPH_WRITES * MEM_CHUNK_BYTES -
	      CEPH_STAGED_MAX * ceph_write_staged_bytes(s);
	list_init(&s->free_writes);
	list_init(&s->write_queue);
	for (uint32_t i = 0; i < CEPH_WRITES; i++, at += MEM_CHUNK_BYTES) {
		s->writes[i].s = s;
		s->writes[i].mem = at;
		s->writes[i].seals = s->seals + (size_t)i * nr_seals;
		list_add_tail(&s->free_writes, &s->writes[i].node);
	}
	for (uint32_t i = 0; i < CEPH_STAGED_MAX; i++, at += ceph_write_staged_bytes(s))
		s->staged[i] = at;
	return 0;
}

/* ---- making one ------------------------------------------------------------------------------ */

static int write_stage(struct ceph *s)
{
	for (unsigned i = 0; i < CEPH_STAGED_MAX; i++) {
		if (s->staged_used >> i & 1)
			continue;
		s->staged_used |= 1u << i;
		return (int)i;
	}
	return -1;
}

struct ceph_write *ceph_write_create(struct ceph *s, uint64_t len, bool is_elsewhere)
{
	bool is_staged = !is_elsewhere && len > MEM_CHUNK_BYTES;
	int staged = is_staged ? write_stage(s) : -1;
	struct ceph_write *w;

	if (list_is_empty(&s->free_writes) || (is_staged && staged < 0)) {
		if (staged >= 0)
			s->staged_used &= ~(1u << staged);
		return NULL;
	}
	w = list_first_entry(&s->free_writes, struct ceph_write, node);
	list_del(&w->node);
	w->staged = (int8_t)staged;
	w->from.st = NULL;
	w->io = NULL;
	w->comp = NULL;
	w->is_value = true;
	w->is_absent = w->is_there = false;
	w->info = (struct ceph_obj_info){.value_len = (uint32_t)len};
	return w;
}

static void write_waiting(struct ceph *s)
{
	struct store_io *io;
	uint32_t nr = s->write_waits.nr;

	/* Only those that wait now: one that finds nothing for itself waits again. */
	for (; nr && !list_is_empty(&s->free_writes) && (io = ceph_wait_pop(&s->write_waits)); nr--)
		ceph_frame(io)->start(s, io);
}

void ceph_write_destroy(struct ceph_write *w)
{
	struct ceph *s = w->s;

	if (w->staged >= 0) {
		/* What a large one has touched goes back to the system. */
		madvise(s->staged[w->staged], ceph_write_staged_bytes(s), MADV_DONTNEED);
		s->staged_used &= ~(1u << w->staged);
	}
	list_add_head(&s->free_writes, &w->node);
	write_waiting(s);
}

static uint8_t *write_mem(const struct ceph_write *w)
{
	return w->staged >= 0 ? w->s->staged[w->staged] : w->mem;
}

unsigned ceph_write_runs(const struct ceph_write *w, uint64_t off, struct mem_run *runs)
{
	struct store_view v = {
		.st = w->from.st,
		.pin = w->from.pin,
		.len = w->info.value_len,
		.value_len = w->info.value_len,
	};

	if (off >= w->info.value_len)
		return 0;
	if (w->from.st)
		return w->from.st->ops->runs(&v, off, runs, 1);
	runs[0] = (struct mem_run){
		.reg = w->s->reg,
		.off = (uint64_t)(write_mem(w) - (uint8_t *)w->s->map) + off,
		.len = w->info.value_len - off,
	};
	return 1;
}

const uint64_t *ceph_write_seals(const struct ceph_write *w)
{
	return w->from.st ? w->from.seals : w->seals;
}

/* ---- handing over: any thread ---------------------------------------------------------------- */

/* In one piece, which is where it lies if that is one. NULL: it isn't what its seals say. */
static const uint8_t *write_gather(const struct ceph_write *w, uint8_t *gather)
{
	uint64_t len = w->info.value_len, n;
	const uint64_t *seals = ceph_write_seals(w);
	const uint8_t *all = gather;
	struct mem_run run;

	if (!len)
		return gather;
	must(ceph_write_runs(w, 0, &run) == 1);
	if (run.len >= len) {
		all = mem_own_ptr(&run);
	} else {
		for (uint64_t pos = 0; pos < len; pos += n) {
			must(ceph_write_runs(w, pos, &run) == 1 && run.len);
			n = min_t(uint64_t, run.len, len - pos);
			memcpy(gather + pos, mem_own_ptr(&run), n);
		}
	}
	for (uint64_t c = 0; c < peal_seal_count(len); c++)
		if (seals[c] != hash_xxh3(all + c * MEM_CHUNK_BYTES, peal_seal_chunk_len(len, c),
					  peal_seal_seed_at(w->key.hash, c)))
			return NULL;
	return all;
}

static int write_value(const struct ceph_write *w, rados_write_op_t op, uint8_t *gather)
{
	const uint8_t *all = write_gather(w, gather);
	uint8_t head[CEPH_HEAD_BYTES];

	if (!all)
		return -EBADMSG;
	ceph_obj_head(&w->info, ceph_write_seals(w), head);
	if (w->is_absent)
		rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	if (w->is_there)
		rados_write_op_assert_exists(op);
	rados_write_op_write_full(op, (const char *)all, w->info.value_len);
	rados_write_op_setxattr(op, CEPH_HEAD_ATTR, (const char *)head, sizeof(head));
	rados_write_op_setxattr(op, CEPH_SEALS_ATTR, (const char *)ceph_write_seals(w),
				peal_seal_count(w->info.value_len) * sizeof(uint64_t));
	return 0;
}

/* On a thread of librados: it touches nothing behind the posting. */
static void write_told(rados_completion_t comp, void *arg)
{
	struct ceph_write *w = arg;

	mbox_post(w->s->st.owner, &w->msg);
}

/* What may only succeed or fail: a pool or cluster that is full doesn't keep it waiting. */
static int write_ask(struct ceph_write *w, uint8_t *gather)
{
	rados_ioctx_t ctx = ceph_link_io(w->s->link);
	rados_write_op_t op;
	int err;

	if (!ctx)
		return -ENOTCONN;
	op = rados_create_write_op();
	err = 0;
	if (w->is_value)
		err = write_value(w, op, gather);
	else
		rados_write_op_remove(op);
	if (!err)
		err = rados_aio_create_completion2(w, write_told, &w->comp);
	if (!err) {
		err = rados_aio_write_op_operate(op, ctx, w->comp, w->name, NULL,
						 LIBRADOS_OPERATION_FULL_TRY);
		if (err) {
			rados_aio_release(w->comp);
			w->comp = NULL;
		}
	}
	rados_release_write_op(op);
	return err;
}

void ceph_write_run(struct ceph_write *w, uint8_t *gather)
{
	struct reactor *owner = w->s->st.owner;
	int err = write_ask(w, gather);

	/* Under way, it is librados' and no more ours to look at. */
	if (!err)
		return;
	w->res = err;
	mbox_post(owner, &w->msg);
}

/* ---- the way there and back ------------------------------------------------------------------ */

static bool write_is_large(const struct ceph_write *w)
{
	return w->is_value && w->info.value_len > MEM_CHUNK_BYTES;
}

static void write_came(struct mbox_msg *m);

static void write_start(struct ceph_write *w)
{
	struct ceph *s = w->s;

	s->nr_writes++;
	s->write_bytes += w->info.value_len;
	w->msg.fn = write_came;
	if (write_is_large(w))
		ceph_puts_push(s->link, w);
	else
		ceph_write_run(w, w->mem);
}

static bool write_may_start(const struct ceph *s, const struct ceph_write *w)
{
	return !s->write_bytes || s->write_bytes + w->info.value_len <= s->max_write_bytes;
}

static void write_queued(struct ceph *s)
{
	struct ceph_write *w;

	while (!list_is_empty(&s->write_queue)) {
		w = list_first_entry(&s->write_queue, struct ceph_write, node);
		if (!write_may_start(s, w))
			return;
		list_del(&w->node);
		write_start(w);
	}
}

static void write_came(struct mbox_msg *m)
{
	struct ceph_write *w = container_of(m, struct ceph_write, msg);
	struct ceph *s = w->s;
	int res = w->res;

	w->ver = 0;
	if (w->comp) {
		res = rados_aio_get_return_value(w->comp);
		w->ver = rados_aio_get_version(w->comp);
		rados_aio_release(w->comp);
		w->comp = NULL;
		ceph_link_ended(s->link, res);
	}
	s->nr_writes--;
	s->write_bytes -= w->info.value_len;
	s->ver = max_t(uint64_t, s->ver, w->ver);
	w->came(w, res);
	write_queued(s);
}

void ceph_write_submit(struct ceph_write *w)
{
	struct ceph *s = w->s;

	w->res = 0;
	ceph_obj_name(&w->key, w->name);
	if (!list_is_empty(&s->write_queue) || !write_may_start(s, w))
		list_add_tail(&s->write_queue, &w->node);
	else
		write_start(w);
}
