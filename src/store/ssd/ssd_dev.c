/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_dev.h. Runs on the thread that builds or ends the store.
 */
#include "store/ssd/ssd_dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/linger.h"

#define DEV_BLOCK 4096
#define DEV_SECTOR 512

static int dev_read(struct ssd_dev *dev, void *buf, uint32_t len, uint64_t off)
{
	ssize_t n = pread(dev->fd, buf, len, (off_t)off);

	return n < 0 ? -errno : n == (ssize_t)len ? 0 : -EIO;
}

static int dev_write(struct ssd_dev *dev, const void *buf, uint32_t len, uint64_t off)
{
	ssize_t n = pwrite(dev->fd, buf, len, (off_t)off);

	return n < 0 ? -errno : n == (ssize_t)len ? 0 : -EIO;
}

static int dev_sync(struct ssd_dev *dev)
{
	return fdatasync(dev->fd) ? -errno : 0;
}

static void dev_close(struct ssd_dev *dev)
{
	close(dev->fd); /* and with it the lock */
	free(dev);
}

static const struct ssd_dev_ops dev_ops = {
	.read = dev_read,
	.write = dev_write,
	.sync = dev_sync,
	.close = dev_close,
};

static int dev_take(struct ssd_dev *dev, const char *path, int flags)
{
	int err;

	dev->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC | flags, 0600);
	if (dev->fd < 0)
		return -errno;
	err = linger_lock(dev->fd);
	if (err)
		close(dev->fd);
	return err;
}

/* A name is as durable as its folder. */
static int dev_sync_folder(const char *path)
{
	char folder[4096];
	char *slash;
	auto_close int fd = -1;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[1] = 0;
	fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) ? -errno : 0;
}

/*
 * Its blocks are taken now, so that no write finds the file system full later; none of them is
 * written. Where that can't be done it is a hole, and a write without room is one that failed.
 */
static int dev_room(int fd, uint64_t bytes)
{
	if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
		return 0;
	if (errno != EOPNOTSUPP)
		return -errno;
	return ftruncate(fd, (off_t)bytes) ? -errno : 0;
}

/* Under another name until it is whole. */
static int dev_make(struct ssd_dev *dev, const char *path, uint64_t bytes)
{
	char tmp[4096];
	int err;

	if (snprintf(tmp, sizeof(tmp), "%s.new", path) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	err = dev_take(dev, tmp, O_CREAT);
	if (err)
		return err;
	dev->bytes = bytes;
	err = dev_room(dev->fd, bytes);
	if (!err && fsync(dev->fd))
		err = -errno;
	if (!err && rename(tmp, path))
		err = -errno;
	if (!err)
		err = dev_sync_folder(path);
	if (err) {
		unlink(tmp);
		close(dev->fd);
	}
	return err;
}

/* Of a file, or of the device that the name leads to. */
static int dev_size(struct ssd_dev *dev)
{
	off_t end = lseek(dev->fd, 0, SEEK_END);

	if (end < 0)
		return -errno;
	dev->bytes = (uint64_t)end;
	return 0;
}

/*
 * What direct reads and their memory must be multiples of: tried, because not every kernel that has
 * it tells.
 */
static void dev_grain(struct ssd_dev *dev)
{
	uint8_t *buf = aligned_alloc(DEV_BLOCK, 2 * DEV_BLOCK);

	dev->read_bytes = dev->mem_bytes = DEV_BLOCK;
	if (buf && dev->bytes >= DEV_BLOCK &&
	    pread(dev->fd, buf + DEV_SECTOR, DEV_BLOCK, 0) == DEV_BLOCK)
		dev->mem_bytes = DEV_SECTOR;
	if (buf && dev->bytes >= DEV_BLOCK &&
	    pread(dev->fd, buf, DEV_SECTOR, DEV_SECTOR) == DEV_SECTOR)
		dev->read_bytes = DEV_SECTOR;
	free(buf);
}

int ssd_dev_open(const char *path, uint64_t bytes, struct ssd_dev **out)
{
	struct ssd_dev *dev = calloc(1, sizeof(*dev));
	int err;

	if (!dev)
		return -ENOMEM;
	dev->ops = &dev_ops;
	err = dev_take(dev, path, 0);
	if (err == -ENOENT) {
		err = dev_make(dev, path, bytes);
	} else if (!err) {
		err = dev_size(dev);
		if (err)
			close(dev->fd);
	}
	if (err) {
		free(dev);
		return err;
	}
	dev_grain(dev);
	*out = dev;
	return 0;
}
