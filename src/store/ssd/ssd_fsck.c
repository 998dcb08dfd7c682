/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Superblocks, heads, and the order of the check: every segment by itself first, then what they
 * say together about each key. See ssd_fsck.h.
 */
#include "store/ssd/ssd_fsck.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/container.h"
#include "base/le.h"
#include "store/ssd/ssd_fsck_int.h"

/* ---- the file -------------------------------------------------------------------------------- */

int ssd_fsck_open(const char *path, bool is_forced)
{
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC), err;

	if (fd < 0 && errno == EINVAL)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (is_forced || flock(fd, LOCK_SH | LOCK_NB) == 0)
		return fd;
	err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	close(fd);
	return err;
}

void ssd_fsck_say(struct fsck *f, enum ssd_fsck_gravity g, uint32_t seg, uint64_t addr,
		  const char *fmt, ...)
{
	struct ssd_fsck_problem p = {.gravity = g, .seg = seg, .addr = addr};
	char text[256];
	va_list ap;

	*(g == SSD_FSCK_TORN ? &f->t->nr_torn : &f->t->nr_damages) += 1;
	if (!f->o->ops || !f->o->ops->problem)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	p.text = text;
	f->o->ops->problem(f->o->arg, &p);
}

/* 0 or -errno; what lies behind the end of the file is zeros. */
static int fsck_pread(struct fsck *f, uint8_t *to, uint32_t len, uint64_t addr)
{
	uint32_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pread(f->fd, to + done, len - done, (off_t)(addr + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (uint32_t)n;
		/* The last, incomplete block of a file that was cut: nothing comes after it. */
		if (done % SSD_BLOCK && done < len)
			break;
	}
	memset(to + done, 0, len - done);
	return 0;
}

static void fsck_load(struct fsck *f, uint64_t addr, uint32_t len)
{
	uint32_t seg = FSCK_NO_SEG;
	int err;

	f->win_addr = addr;
	f->win_len = len;
	if (!fsck_pread(f, f->win, len, addr))
		return;
	if (f->segs && addr >= SSD_HEAD_BYTES)
		seg = (uint32_t)((addr - SSD_HEAD_BYTES) / f->super.seg_bytes);
	for (uint32_t i = 0; i < len; i += SSD_BLOCK) {
		err = fsck_pread(f, f->win + i, SSD_BLOCK, addr + i);
		if (!err)
			continue;
		memset(f->win + i, 0, SSD_BLOCK);
		if (!f->is_told && (seg == FSCK_NO_SEG || seg != f->eio_seg))
			ssd_fsck_say(f, SSD_FSCK_DAMAGE, seg, addr + i, "can't be read: %s",
				     strerrorname_np(-err));
		f->eio_seg = seg;
	}
}

const uint8_t *ssd_fsck_at(struct fsck *f, uint64_t addr, uint32_t len, uint32_t ahead)
{
	uint64_t start = align_down(addr, SSD_BLOCK), end = align_up(addr + len, SSD_BLOCK), most;

	if (addr >= f->win_addr && addr + len <= f->win_addr + f->win_len)
		return f->win + (addr - f->win_addr);
	/* Not beyond what may be there: a segment's end, a file's. */
	most = min_t(uint64_t, start + FSCK_WINDOW_BYTES, align_up(f->bytes, SSD_BLOCK));
	end = max_t(uint64_t, end, min_t(uint64_t, align_up(addr + ahead, SSD_BLOCK), most));
	fsck_load(f, start, (uint32_t)(end - start));
	return f->win + (addr - start);
}

/* ---- superblocks ----------------------------------------------------------------------------- */

static void super_roster(const struct ssd_super_info *si, struct ssd_fsck_super *out)
{
	const struct ssd_roster *r = &si->roster;

	out->life = r->life;
	out->nr_devices = r->nr ? r->nr : 1;
	for (unsigned i = 0; i < r->nr; i++) {
		if (r->member[i].id == le64_get(si->uuid))
			out->device = i;
		out->nr_away += !(r->present >> i & 1);
	}
}

static void super_tell(const struct fsck *f, const struct ssd_super_info *si,
		       struct ssd_fsck_super *out)
{
	if (!out->err) {
		out->generation = si->generation;
		out->file_bytes = si->file_bytes;
		out->seg_bytes = si->seg_bytes;
		out->nr_segs = si->nr_segs;
		out->nr_dead = si->nr_dead;
		out->shard = si->shard;
		out->nr_shards = si->nr_shards;
		memcpy(out->name, si->name, sizeof(out->name));
		memcpy(out->uuid, si->uuid, 16);
		memcpy(out->owner, si->owner, 16);
		super_roster(si, out);
	}
	if (f->o->ops && f->o->ops->super)
		f->o->ops->super(f->o->arg, out);
}

static struct ssd_fsck_super super_one(struct fsck *f, char which, uint64_t addr,
				       struct ssd_super_info *si)
{
	const uint8_t *block = ssd_fsck_at(f, addr, SSD_BLOCK, 0);
	struct ssd_fsck_super out = {.which = which};

	out.is_zero = block[0] == 0 && memcmp(block, block + 1, SSD_BLOCK - 1) == 0;
	out.err = ssd_format_super_check(block, si);
	if (out.err == -EINVAL)
		out.err = -EUCLEAN;
	super_tell(f, si, &out);
	return out;
}

/* What the two say together. 0: f->super and t->super are what counts. */
static int super_pick(struct fsck *f, const struct ssd_fsck_super s[2],
		      const struct ssd_super_info si[2])
{
	unsigned best = s[0].err || (!s[1].err && s[1].generation > s[0].generation);

	if (s[0].err == -EPROTONOSUPPORT || s[1].err == -EPROTONOSUPPORT)
		return -EPROTONOSUPPORT;
	if (s[0].is_zero && s[1].is_zero)
		return -ENODATA;
	/* A file's first superblocks are written one after the other. */
	if (s[0].err + s[1].err && s[!best].is_zero && !s[best].err && s[best].generation == 1)
		ssd_fsck_say(f, SSD_FSCK_TORN, FSCK_NO_SEG, 0, "superblock %c isn't there yet",
			     s[!best].which);
	for (unsigned i = 0; i < 2; i++)
		if (s[i].err && !(s[i].is_zero && s[best].generation == 1))
			ssd_fsck_say(f, SSD_FSCK_DAMAGE, FSCK_NO_SEG,
				     i ? align_down(f->bytes, SSD_BLOCK) - SSD_BLOCK : 0,
				     "superblock %c is damaged", s[i].which);
	if (s[best].err)
		return -EUCLEAN;
	/* One write behind is how a crash between the two leaves them. */
	if (!s[!best].err && memcmp(s[0].uuid, s[1].uuid, 16))
		ssd_fsck_say(f, SSD_FSCK_DAMAGE, FSCK_NO_SEG, 0, "superblock %c is another file's",
			     s[!best].which);
	f->super = si[best];
	f->t->super = s[best];
	f->t->super.generation = si[best].generation;
	if (f->super.file_bytes > f->bytes)
		ssd_fsck_say(f, SSD_FSCK_DAMAGE, FSCK_NO_SEG, f->bytes,
			     "the file has %llu bytes of %llu", (unsigned long long)f->bytes,
			     (unsigned long long)f->super.file_bytes);
	return 0;
}

static int super_read(struct fsck *f)
{
	struct ssd_super_info *si = calloc(2, sizeof(*si));
	struct ssd_fsck_super s[2];
	int err;

	if (!si)
		return -ENOMEM;
	s[0] = super_one(f, 'A', 0, &si[0]);
	s[1] = super_one(f, 'B',
			 f->bytes < SSD_BLOCK ? 0 : align_down(f->bytes, SSD_BLOCK) - SSD_BLOCK,
			 &si[1]);
	err = super_pick(f, s, si);
	free(si);
	return err;
}

/* ---- the first pass: every segment by itself ------------------------------------------------- */

/* Is there what was there before the file was made: zeros, or the head of another one? */
static bool seg_is_unused(const struct fsck *f, const uint8_t *block, uint64_t addr)
{
	const struct ssd_seg_head *h = (const struct ssd_seg_head *)block;
	struct ssd_bind b = {.addr = addr};
	enum ssd_seg_kind kind;

	if (block[0] == 0 && memcmp(block, block + 1, SSD_BLOCK - 1) == 0)
		return true;
	return memcmp(h->uuid, f->super.uuid, 16) != 0 &&
	       ssd_format_seg_check(block, h->uuid, &kind, &b) == 0;
}

/* Head and, if there is something, the rest. */
static void seg_check(struct fsck *f, struct ssd_fsck_seg *out)
{
	struct fsck_seg *seg = &f->segs[out->no];
	struct ssd_bind b = {.addr = out->addr};
	const uint8_t *head;
	enum ssd_seg_kind kind;

	if (seg->state == SSD_FSCK_DEAD) {
		out->state = SSD_FSCK_DEAD;
		return;
	}
	head = ssd_fsck_at(f, out->addr, SSD_BLOCK, 0);
	if (seg_is_unused(f, head, out->addr)) {
		out->state = seg->state = SSD_FSCK_FREE;
		return;
	}
	if (ssd_format_seg_check(head, f->super.uuid, &kind, &b)) {
		out->state = seg->state = SSD_FSCK_BAD;
		ssd_fsck_say(f, SSD_FSCK_DAMAGE, out->no, out->addr,
			     "the segment's head is damaged: what it held is lost");
		return;
	}
	out->epoch = seg->epoch = b.epoch;
	seg->salt = b.salt;
	if (kind == SSD_SEG_FREE)
		out->state = SSD_FSCK_FREE;
	else
		ssd_fsck_seg_check(f, out->no, kind == SSD_SEG_CLOSED, out);
	seg->state = (uint8_t)out->state;
}

static bool seg_has_lines(const struct fsck_seg *seg)
{
	return seg->state == SSD_FSCK_OPEN || seg->state == SSD_FSCK_SEALED ||
	       seg->state == SSD_FSCK_CLOSED;
}

/* Which segments are the two oldest: a tombstone is needed while one but its own is old enough. */
static void seg_age(struct fsck *f, uint32_t no)
{
	uint64_t epoch = f->segs[no].epoch;

	if (!seg_has_lines(&f->segs[no]))
		return;
	if (epoch < f->min_epoch) {
		f->min_epoch2 = f->min_epoch;
		f->min_epoch = epoch;
		f->min_seg = no;
	} else if (epoch < f->min_epoch2) {
		f->min_epoch2 = epoch;
	}
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* No epoch is given twice; that of a free segment says nothing any more. */
static int epochs_check(struct fsck *f)
{
	uint64_t *epochs = calloc(f->super.nr_segs, sizeof(*epochs));
	uint32_t nr = 0;

	if (!epochs)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->super.nr_segs; i++)
		if (seg_has_lines(&f->segs[i]))
			epochs[nr++] = f->segs[i].epoch;
	qsort(epochs, nr, sizeof(*epochs), compare_u64);
	for (uint32_t i = 1; i < nr; i++)
		if (epochs[i] == epochs[i - 1])
			ssd_fsck_say(f, SSD_FSCK_DAMAGE, FSCK_NO_SEG, 0,
				     "epoch %llu was given to two segments",
				     (unsigned long long)epochs[i]);
	free(epochs);
	return 0;
}

static int segs_check(struct fsck *f)
{
	for (uint32_t i = 0; i < f->super.nr_dead; i++)
		if (f->super.dead[i] < f->super.nr_segs)
			f->segs[f->super.dead[i]].state = SSD_FSCK_DEAD;
	f->eio_seg = FSCK_NO_SEG;
	f->min_epoch = f->min_epoch2 = UINT64_MAX;
	for (uint32_t i = 0; i < f->super.nr_segs; i++) {
		struct ssd_fsck_seg out = {.no = i, .addr = fsck_addr(f, i)};

		seg_check(f, &out);
		seg_age(f, i);
		f->t->nr_segs[out.state]++;
		f->t->nr_void += out.nr_void;
		if (f->o->ops && f->o->ops->segment)
			f->o->ops->segment(f->o->arg, &out);
	}
	if (f->bad.nr)
		qsort(f->bad.at, f->bad.nr, sizeof(f->bad.at[0]), compare_u64);
	return epochs_check(f);
}

static int fsck_all(struct fsck *f)
{
	off_t end = lseek(f->fd, 0, SEEK_END);
	int err;

	if (end < 0)
		return -errno;
	f->bytes = (uint64_t)end;
	err = super_read(f);
	if (err)
		return err;
	f->segs = calloc(f->super.nr_segs, sizeof(*f->segs));
	if (!f->segs)
		return -ENOMEM;
	memcpy(f->copies, ssd_fsck_at(f, SSD_FOOT_COPY_ADDR, SSD_FOOT_COPIES * SSD_BLOCK, 0),
	       SSD_FOOT_COPIES * SSD_BLOCK);
	err = segs_check(f);
	f->is_told = true;
	if (!err && f->has_no_memory)
		err = -ENOMEM;
	return err ? err : ssd_fsck_key_all(f);
}

int ssd_fsck(int fd, const struct ssd_fsck_opts *o, struct ssd_fsck_total *total)
{
	struct fsck f = {.fd = fd, .o = o, .t = total};
	int err = -ENOMEM;

	*total = (struct ssd_fsck_total){0};
	f.win = aligned_alloc(SSD_BLOCK, FSCK_WINDOW_BYTES);
	f.foot = aligned_alloc(SSD_BLOCK, SSD_BLOCK);
	f.copies = aligned_alloc(SSD_BLOCK, SSD_FOOT_COPIES * SSD_BLOCK);
	if (f.win && f.foot && f.copies)
		err = fsck_all(&f);
	vec_fini(&f.bad);
	free(f.segs);
	free(f.copies);
	free(f.foot);
	free(f.win);
	return err;
}
