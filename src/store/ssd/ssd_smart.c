/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_smart.h. A folder's file system lies on a block device, that on others (a partition, a
 * volume, a RAID), and those that are NVMe are asked for log page 02h. The worst of them speaks for
 * all: a RAID is as healthy as its sickest member. One thread at a time.
 */
#include "store/ssd/ssd_smart.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nvme/ioctl.h>
#include <nvme/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"

#define FIND_PATHS 32u /* block devices that are looked at */

/* ---- which devices --------------------------------------------------------------------------- */

struct find {
	char path[FIND_PATHS][PATH_MAX];
	unsigned nr, at;
};

static void find_add(struct find *f, const char *link)
{
	if (f->nr < FIND_PATHS && realpath(link, f->path[f->nr]))
		f->nr++;
}

/* False: it lies on nothing else. */
static bool find_slaves(struct find *f, const char *path)
{
	char name[PATH_MAX + 300];
	struct dirent *de;
	unsigned nr = 0;
	DIR *dir;

	snprintf(name, sizeof(name), "%s/slaves", path);
	dir = opendir(name);
	if (!dir)
		return false;
	while ((de = readdir(dir))) {
		if (de->d_name[0] == '.')
			continue;
		nr++;
		snprintf(name, sizeof(name), "%s/slaves/%s", path, de->d_name);
		find_add(f, name);
	}
	closedir(dir);
	return nr > 0;
}

/* The whole device, if path is a partition of it. */
static void find_whole(char *path)
{
	char name[PATH_MAX + 16];

	snprintf(name, sizeof(name), "%s/partition", path);
	if (access(name, F_OK) == 0)
		*strrchr(path, '/') = 0;
}

static bool find_is_nvme(const char *name)
{
	return strncmp(name, "nvme", 4) == 0 && isdigit((unsigned char)name[4]) &&
	       strlen(name) < SSD_SMART_NAME;
}

int ssd_smart_find(const char *sys, unsigned major, unsigned minor,
		   char names[SSD_SMART_DEVS][SSD_SMART_NAME])
{
	auto_free struct find *f = calloc(1, sizeof(*f));
	char link[PATH_MAX];
	const char *name;
	int nr = 0, i;

	if (!f)
		return -ENOMEM;
	snprintf(link, sizeof(link), "%s/dev/block/%u:%u", sys, major, minor);
	find_add(f, link);
	for (; f->at < f->nr && nr < (int)SSD_SMART_DEVS; f->at++) {
		char *path = f->path[f->at];

		find_whole(path);
		name = strrchr(path, '/') + 1;
		if (find_slaves(f, path) || !find_is_nvme(name))
			continue;
		for (i = 0; i < nr && strcmp(names[i], name) != 0; i++)
			;
		if (i == nr)
			strcpy(names[nr++], name);
	}
	return nr;
}

/* ---- NVMe ------------------------------------------------------------------------------------ */

struct smart_nvme {
	struct ssd_smart s;
	unsigned nr;
	int fd[SSD_SMART_DEVS];
};

void ssd_smart_merge(struct wear_smart *sum, const struct wear_smart *one)
{
	int a = sum->spare - sum->spare_threshold, b = one->spare - one->spare_threshold;

	sum->critical |= one->critical;
	if (b < a) {
		sum->spare = one->spare;
		sum->spare_threshold = one->spare_threshold;
	}
	sum->used = max_t(uint8_t, sum->used, one->used);
	sum->written_bytes += one->written_bytes;
	sum->media_errors += one->media_errors;
}

static int smart_nvme_read(struct ssd_smart *s, struct wear_smart *out)
{
	struct smart_nvme *n = container_of(s, struct smart_nvme, s);
	struct wear_smart sum = {0}, one;
	struct nvme_smart_log log;
	int rc;

	_Static_assert(sizeof(log) == WEAR_PAGE_BYTES, "the log page");
	for (unsigned i = 0; i < n->nr; i++) {
		rc = nvme_get_log_smart(n->fd[i], NVME_NSID_ALL, true, &log);
		if (rc)
			return rc < 0 ? -errno : -EIO;
		wear_parse((const uint8_t *)&log, &one);
		if (i)
			ssd_smart_merge(&sum, &one);
		else
			sum = one;
	}
	*out = sum;
	return 0;
}

static void smart_nvme_close(struct ssd_smart *s)
{
	struct smart_nvme *n = container_of(s, struct smart_nvme, s);

	for (unsigned i = 0; i < n->nr; i++)
		close(n->fd[i]);
	free(n);
}

static const struct ssd_smart_ops smart_nvme_ops = {.read = smart_nvme_read,
						    .close = smart_nvme_close};

static int smart_nvme_open(const char *folder, struct ssd_smart **out)
{
	char names[SSD_SMART_DEVS][SSD_SMART_NAME], path[SSD_SMART_NAME + 8];
	struct smart_nvme *n;
	struct stat st;
	size_t len = 0;
	int nr;

	if (stat(folder, &st))
		return -errno;
	nr = ssd_smart_find("/sys", major(st.st_dev), minor(st.st_dev), names);
	if (nr <= 0)
		return nr ? nr : -ENODEV;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->s.ops = &smart_nvme_ops;
	for (int i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "/dev/%s", names[i]);
		n->fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (n->fd[i] < 0) {
			nr = -errno;
			smart_nvme_close(&n->s);
			return nr;
		}
		n->nr++;
		if (len < sizeof(n->s.what))
			len += (size_t)snprintf(n->s.what + len, sizeof(n->s.what) - len, "%s%s",
						i ? "," : "", names[i]);
	}
	*out = &n->s;
	return 0;
}

/* ---- a file ---------------------------------------------------------------------------------- */

struct smart_file {
	struct ssd_smart s;
	char path[512];
};

/* Opened anew each time: it may be another one by now. */
static int file_read(struct ssd_smart *s, struct wear_smart *out)
{
	struct smart_file *f = container_of(s, struct smart_file, s);
	auto_close int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint8_t page[WEAR_PAGE_BYTES];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, page, sizeof(page));
	if (n != (ssize_t)sizeof(page))
		return n < 0 ? -errno : -EIO;
	wear_parse(page, out);
	return 0;
}

static void file_close(struct ssd_smart *s)
{
	free(container_of(s, struct smart_file, s));
}

static const struct ssd_smart_ops file_ops = {.read = file_read, .close = file_close};

static int file_open(const char *path, struct ssd_smart **out)
{
	struct smart_file *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->s.ops = &file_ops;
	if ((size_t)snprintf(f->path, sizeof(f->path), "%s", path) >= sizeof(f->path)) {
		free(f);
		return -ENAMETOOLONG;
	}
	snprintf(f->s.what, sizeof(f->s.what), "%.*s", (int)sizeof(f->s.what) - 1, path);
	*out = &f->s;
	return 0;
}

int ssd_smart_open(const char *source, const char *folder, struct ssd_smart **s)
{
	return strcmp(source, "auto") == 0 ? smart_nvme_open(folder, s) : file_open(source, s);
}
