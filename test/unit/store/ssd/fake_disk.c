/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk in memory that does what disks do to their owners: see fake_disk.h. One thread.
 */
#include "fake_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"

#define FAKE_FD 1000000
#define NEVER UINT32_MAX /* lost by a failed sync: no later one helps */

const char *fake_disk_fault_name(enum fake_fault f)
{
	static const char *const names[] = {
		"read EIO",   "read short",	 "read flip",	"read elsewhere",
		"read stale", "write EIO",	 "write short", "write ENOSPC",
		"write lost", "write elsewhere", "write flip",	"sync EIO",
	};

	return names[f];
}

static bool roll(struct fake_disk *d, enum fake_fault f)
{
	bool is_nth = d->nth_left && d->nth_kind == f && --d->nth_left == 0;

	if (!is_nth && (!d->faults.chance[f] || !rng_chance(&d->rng, d->faults.chance[f], 65536)))
		return false;
	d->nr_faults[f]++;
	return true;
}

static void fake_hole(struct fake_disk *d, uint64_t off, bool is_hole)
{
	uint8_t *h = &d->hole[off / 4096];

	d->nr_holes += is_hole;
	d->nr_holes -= *h;
	*h = is_hole;
}

static void sector_put(struct fake_disk *d, uint64_t sector, const uint8_t *p)
{
	memcpy(d->now + sector * FAKE_SECTOR, p, FAKE_SECTOR);
	fake_hole(d, sector * FAKE_SECTOR, false);
	if (!d->seq[sector])
		d->dirty[d->nr_dirty++] = (uint32_t)sector;
	d->seq[sector] = d->clock;
}

static void put(struct fake_disk *d, uint64_t off, const uint8_t *p, uint64_t len)
{
	d->clock++;
	for (uint64_t at = 0; at < len; at += FAKE_SECTOR)
		sector_put(d, (off + at) / FAKE_SECTOR, p + at);
}

/* Any subset of the sectors. */
static void put_some(struct fake_disk *d, uint64_t off, const uint8_t *p, uint64_t len)
{
	uint64_t part = rng_below(&d->rng, 3); /* few, half, many */

	d->clock++;
	for (uint64_t at = 0; at < len; at += FAKE_SECTOR)
		if (rng_chance(&d->rng, 1 + 3 * part, 8))
			sector_put(d, (off + at) / FAKE_SECTOR, p + at);
}

static uint64_t elsewhere(struct fake_disk *d, uint64_t len)
{
	uint64_t nr = (d->dev.bytes - len) / 4096 + 1;

	return rng_below(&d->rng, nr) * 4096;
}

static int do_read(struct fake_disk *d, uint8_t *p, uint64_t len, uint64_t off)
{
	d->nr_reads++;
	d->read_bytes += len;
	if (roll(d, FAKE_READ_EIO))
		return -EIO;
	if (roll(d, FAKE_READ_ELSEWHERE))
		off = elsewhere(d, len);
	memcpy(p, (roll(d, FAKE_READ_STALE) ? d->old : d->now) + off, len);
	if (roll(d, FAKE_READ_FLIP))
		p[rng_below(&d->rng, len)] ^= (uint8_t)(1u << rng_below(&d->rng, 8));
	if (roll(d, FAKE_READ_SHORT))
		return (int)(rng_below(&d->rng, len / FAKE_SECTOR) * FAKE_SECTOR);
	return (int)len;
}

static int do_write(struct fake_disk *d, uint8_t *p, uint64_t len, uint64_t off)
{
	uint64_t n;

	d->nr_writes++;
	d->written_bytes += len;
	if (roll(d, FAKE_WRITE_FULL))
		return -ENOSPC;
	if (roll(d, FAKE_WRITE_LOST))
		return (int)len;
	if (roll(d, FAKE_WRITE_ELSEWHERE))
		off = elsewhere(d, len);
	if (roll(d, FAKE_WRITE_EIO)) {
		if (rng_chance(&d->rng, 1, 2))
			put_some(d, off, p, len);
		else if (rng_chance(&d->rng, 1, 2))
			put(d, off, p, len);
		return -EIO;
	}
	if (roll(d, FAKE_WRITE_SHORT)) {
		n = rng_below(&d->rng, len / FAKE_SECTOR) * FAKE_SECTOR;
		put(d, off, p, n);
		return (int)n;
	}
	put(d, off, p, len);
	if (roll(d, FAKE_WRITE_FLIP))
		d->now[off + rng_below(&d->rng, len)] ^= (uint8_t)(1u << rng_below(&d->rng, 8));
	return (int)len;
}

/* at: what was written later isn't covered. */
static int do_sync(struct fake_disk *d, uint32_t at)
{
	bool fails = roll(d, FAKE_SYNC_EIO);
	uint32_t nr = 0, i;

	d->nr_syncs++;
	for (uint32_t k = 0; k < d->nr_dirty; k++) {
		i = d->dirty[k];
		if (d->seq[i] > at || (fails && rng_chance(&d->rng, 1, 2))) {
			d->seq[i] = d->seq[i] > at ? d->seq[i] : NEVER;
			d->dirty[nr++] = i;
			continue;
		}
		memcpy(d->durable + (uint64_t)i * FAKE_SECTOR, d->now + (uint64_t)i * FAKE_SECTOR,
		       FAKE_SECTOR);
		d->seq[i] = 0;
	}
	d->nr_dirty = nr;
	return fails ? -EIO : 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct fake_disk *disk_of(void *arg, const struct io_req *io)
{
	struct fake_disks *all = arg;

	must(io->fd >= FAKE_FD && io->fd < FAKE_FD + (int)FAKE_DISKS);
	return &all->disk[io->fd - FAKE_FD];
}

void fake_disk_submitted(void *arg, struct io_req *io)
{
	struct fake_disk *d = disk_of(arg, io);

	must(d->nr_flight < FAKE_FLIGHT);
	d->flight[d->nr_flight].io = io;
	d->flight[d->nr_flight++].at = d->clock;
}

static uint32_t flight_end(struct fake_disk *d, const struct io_req *io)
{
	uint32_t i = 0, at;

	while (d->flight[i].io != io)
		must(++i < d->nr_flight);
	at = d->flight[i].at;
	d->flight[i] = d->flight[--d->nr_flight];
	return at;
}

/* What direct I/O demands. */
static void check(const struct fake_disk *d, const struct io_req *io)
{
	uint64_t grain = io->op == IO_READ && d->dev.read_bytes ? d->dev.read_bytes : 4096;
	uint64_t mem = d->dev.mem_bytes ? d->dev.mem_bytes : 4096;
	uint64_t len = 0;

	for (uint32_t i = 0; i < io->nr_iov; i++) {
		must(io->iov[i].iov_len > 0 && io->iov[i].iov_len % grain == 0 &&
		     (uintptr_t)io->iov[i].iov_base % mem == 0);
		len += io->iov[i].iov_len;
	}
	must(len && io->off % grain == 0 && io->off + len <= d->dev.bytes);
}

/* One request, one fault: through a buffer in one piece, of the caller's to free. */
static uint8_t *one_piece(const struct io_req *io, uint64_t *len)
{
	uint64_t at = 0;
	uint8_t *buf;

	*len = 0;
	for (uint32_t i = 0; i < io->nr_iov; i++)
		*len += io->iov[i].iov_len;
	buf = malloc(*len);
	must(buf);
	for (uint32_t i = 0; i < io->nr_iov && io->op == IO_WRITE; at += io->iov[i++].iov_len)
		memcpy(buf + at, io->iov[i].iov_base, io->iov[i].iov_len);
	return buf;
}

static int do_readv(struct fake_disk *d, const struct io_req *io)
{
	uint64_t len, at = 0;
	uint8_t *buf = one_piece(io, &len);
	int res = do_read(d, buf, len, io->off);

	for (uint32_t i = 0; i < io->nr_iov; at += io->iov[i++].iov_len)
		memcpy(io->iov[i].iov_base, buf + at, io->iov[i].iov_len);
	free(buf);
	return res;
}

static int do_writev(struct fake_disk *d, const struct io_req *io)
{
	uint64_t len;
	uint8_t *buf = one_piece(io, &len);
	int res = do_write(d, buf, len, io->off);

	free(buf);
	return res;
}

/* A hole reads as zeros, durably so once it is synced. */
static int do_fallocate(struct fake_disk *d, const struct io_req *io)
{
	static const uint8_t zeros[4096];
	bool is_punch = io->mode & FALLOC_FL_PUNCH_HOLE;

	must(io->off % 4096 == 0 && io->len % 4096 == 0 && io->off + io->len <= d->dev.bytes);
	if (is_punch ? roll(d, FAKE_WRITE_EIO) : roll(d, FAKE_WRITE_FULL))
		return is_punch ? -EIO : -ENOSPC;
	for (uint64_t at = io->off; at < io->off + io->len; at += 4096) {
		if (is_punch)
			put(d, at, zeros, 4096);
		fake_hole(d, at, is_punch);
	}
	return 0;
}

int fake_disk_io(void *arg, struct io_req *io)
{
	struct fake_disk *d = disk_of(arg, io);
	uint32_t at = flight_end(d, io);

	if (d->is_dead)
		return -EIO;
	if (io->op == IO_FSYNC)
		return do_sync(d, at);
	if (io->op == IO_FALLOCATE)
		return do_fallocate(d, io);
	check(d, io);
	if (io->op == IO_READ)
		return io->nr_iov == 1 ? do_read(d, io->iov->iov_base, io->iov->iov_len, io->off)
				       : do_readv(d, io);
	return io->nr_iov == 1 ? do_write(d, io->iov->iov_base, io->iov->iov_len, io->off)
			       : do_writev(d, io);
}

/* ---- directly -------------------------------------------------------------------------------- */

static bool direct_fails(struct fake_disk *d)
{
	return d->is_dead || (d->fail_at && --d->fail_at == 0);
}

static int direct_res(int n, uint32_t len)
{
	return n < 0 ? n : (uint32_t)n == len ? 0 : -EIO;
}

static int direct_read(struct ssd_dev *dev, void *buf, uint32_t len, uint64_t off)
{
	struct fake_disk *d = container_of(dev, struct fake_disk, dev);

	must(off + len <= dev->bytes && len % 4096 == 0 && off % 4096 == 0);
	return direct_fails(d) ? -EIO : direct_res(do_read(d, buf, len, off), len);
}

static int direct_write(struct ssd_dev *dev, const void *buf, uint32_t len, uint64_t off)
{
	struct fake_disk *d = container_of(dev, struct fake_disk, dev);

	must(off + len <= dev->bytes && len % 4096 == 0 && off % 4096 == 0);
	return direct_fails(d) ? -EIO : direct_res(do_write(d, (uint8_t *)buf, len, off), len);
}

static int direct_sync(struct ssd_dev *dev)
{
	struct fake_disk *d = container_of(dev, struct fake_disk, dev);

	return direct_fails(d) ? -EIO : do_sync(d, d->clock);
}

static void direct_close(struct ssd_dev *dev)
{
}

static const struct ssd_dev_ops fake_ops = {
	.read = direct_read,
	.write = direct_write,
	.sync = direct_sync,
	.close = direct_close,
};

/* ---- life ------------------------------------------------------------------------------------ */

void fake_disk_init(struct fake_disks *all, unsigned no, uint64_t bytes, uint64_t seed)
{
	struct fake_disk *d = &all->disk[no];

	*d = (struct fake_disk){.dev = {.ops = &fake_ops, .bytes = bytes}};
	d->dev.fd = FAKE_FD + (int)no;
	d->dev.read_bytes = d->dev.mem_bytes = FAKE_SECTOR;
	rng_init(&d->rng, seed);
	d->nr_sectors = (uint32_t)(bytes / FAKE_SECTOR);
	d->now = calloc(1, bytes);
	d->durable = calloc(1, bytes);
	d->old = calloc(1, bytes);
	d->seq = calloc(d->nr_sectors, sizeof(*d->seq));
	d->dirty = calloc(d->nr_sectors, sizeof(*d->dirty));
	d->hole = calloc(bytes / 4096 + 1, 1);
	must(d->hole && d->now && d->durable && d->old && d->seq && d->dirty);
}

void fake_disk_fini(struct fake_disk *d)
{
	must(d->nr_flight == 0);
	free(d->now);
	free(d->durable);
	free(d->old);
	free(d->seq);
	free(d->dirty);
	free(d->hole);
}

void fake_disk_zero(struct fake_disk *d)
{
	memset(d->now, 0, d->dev.bytes);
	memset(d->durable, 0, d->dev.bytes);
	memset(d->old, 0, d->dev.bytes);
	memset(d->seq, 0, d->nr_sectors * sizeof(*d->seq));
	d->nr_dirty = 0;
}

static void crash_sectors(struct fake_disk *d, enum fake_crash how)
{
	bool keep = how == FAKE_KILL;

	for (uint32_t i = 0; i < d->nr_sectors; i++) {
		uint64_t at = (uint64_t)i * FAKE_SECTOR;

		if (how == FAKE_CRASH_SECTOR || (how == FAKE_CRASH_BLOCK && i % 8 == 0))
			keep = rng_chance(&d->rng, 1, 2);
		if (!d->seq[i])
			continue;
		if (how == FAKE_KILL || (keep && d->seq[i] != NEVER))
			memcpy(d->durable + at, d->now + at, FAKE_SECTOR);
		else
			memcpy(d->now + at, d->durable + at, FAKE_SECTOR);
		d->seq[i] = 0;
	}
	d->nr_dirty = 0;
}

void fake_disk_crash(struct fake_disk *d, enum fake_crash how)
{
	for (uint32_t i = 0; i < d->nr_flight; i++) {
		struct io_req *io = d->flight[i].io;
		uint64_t len;
		uint8_t *buf;

		if (io->op != IO_WRITE || rng_chance(&d->rng, 1, 3))
			continue;
		buf = one_piece(io, &len);
		if (rng_chance(&d->rng, 1, 3))
			put(d, io->off, buf, len);
		else
			put_some(d, io->off, buf, len);
		free(buf);
	}
	crash_sectors(d, how);
	d->is_dead = true;
}

void fake_disk_revive(struct fake_disk *d)
{
	d->is_dead = false;
}

void fake_disk_age(struct fake_disk *d)
{
	memcpy(d->old, d->now, d->dev.bytes);
}
