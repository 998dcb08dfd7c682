/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a shard's tier lies: one preallocated file, opened O_DIRECT. While the tier serves, its
 * I/O goes through the reactor by `fd`; before and after (format, recovery, the end) by these
 * blocking calls. Tests pass a fake of their own, whose `fd` their env knows.
 */
#ifndef STORE_SSD_SSD_DEV_H
#define STORE_SSD_SSD_DEV_H

#include <stdint.h>

struct ssd_dev;

/* Each whole or not at all: 0 or -errno, -EIO for a short one. */
struct ssd_dev_ops {
	int (*read)(struct ssd_dev *dev, void *buf, uint32_t len, uint64_t off);
	int (*write)(struct ssd_dev *dev, const void *buf, uint32_t len, uint64_t off);
	int (*sync)(struct ssd_dev *dev);
	void (*close)(struct ssd_dev *dev);
};

struct ssd_dev {
	const struct ssd_dev_ops *ops;
	int fd;
	uint64_t bytes;
	uint32_t read_bytes; /* reads may begin and end at any multiple; 0: of SSD_BLOCK */
	uint32_t mem_bytes;  /* likewise memory may begin */
};

/*
 * Opens or makes the file and takes its exclusive lock. A new one is allocated and reads as zeros,
 * none of it is written; one that exists, or a device, keeps its size. -EBUSY:
 * somebody else has it; -ENOSPC; or what the system said (-EINVAL: no O_DIRECT there).
 */
int ssd_dev_open(const char *path, uint64_t bytes, struct ssd_dev **dev);

#endif
