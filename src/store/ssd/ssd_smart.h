/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the figures of a device's health come from: the NVMe devices below a folder, asked through
 * libnvme; a file with a SMART page of 512 bytes, for tests and for whatever has another way to
 * it; or a source of the caller's own. A read may take as long as the device does: never on a
 * reactor. One thread at a time.
 */
#ifndef STORE_SSD_SSD_SMART_H
#define STORE_SSD_SSD_SMART_H

#include "policy/wear.h"

#define SSD_SMART_DEVS 8u
#define SSD_SMART_NAME 32u

struct ssd_smart;

struct ssd_smart_ops {
	int (*read)(struct ssd_smart *s, struct wear_smart *out); /* 0 or -errno */
	void (*close)(struct ssd_smart *s);
};

struct ssd_smart {
	const struct ssd_smart_ops *ops;
	char what[128]; /* for people: "nvme0n1" */
};

/*
 * source: "auto" (the devices below `folder`), or a file's path. 0, or -errno: -ENODEV no NVMe
 * device is there, -EACCES it may not be asked (CAP_SYS_ADMIN).
 */
int ssd_smart_open(const char *source, const char *folder, struct ssd_smart **s);
/*
 * Names of the NVMe block devices that the block device major:minor lies on, through partitions,
 * device mapper and md; sys is where sysfs is. How many, or -errno.
 */
int ssd_smart_find(const char *sys, unsigned major, unsigned minor,
		   char names[SSD_SMART_DEVS][SSD_SMART_NAME]);
/* The worse of both, for a folder over several devices. */
void ssd_smart_merge(struct wear_smart *sum, const struct wear_smart *one);

#endif
