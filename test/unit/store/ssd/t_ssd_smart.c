/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_smart.c: which NVMe devices lie below a block device, in a sysfs of our own making, and a
 * page from a file.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "base/must.h"
#include "store/ssd/ssd_smart.h"

static char root[64];

static void in_root(char *to, const char *path)
{
	snprintf(to, PATH_MAX, "%s/%s", root, path);
}

static void make_dirs(const char *path)
{
	char full[PATH_MAX];

	in_root(full, path);
	for (char *p = full + strlen(root) + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(full, 0700);
		*p = '/';
	}
	mkdir(full, 0700);
}

static void make_link(const char *to, const char *at)
{
	char a[PATH_MAX], b[PATH_MAX];

	in_root(a, to);
	in_root(b, at);
	must(symlink(a, b) == 0);
}

static void make_file(const char *path, const void *p, size_t n)
{
	char full[PATH_MAX];
	int fd;

	in_root(full, path);
	fd = open(full, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	must(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
}

static int begin(void **state)
{
	strcpy(root, "/tmp/t_ssd_smart.XXXXXX");
	must(mkdtemp(root));
	make_dirs("dev/block");
	make_dirs("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2");
	make_file("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2/partition", "2\n", 2);
	make_dirs("devices/pci/nvme/nvme1/nvme1n1");
	make_dirs("devices/pci/ata/sda/slaves");
	make_dirs("devices/virtual/block/md0/slaves");
	make_link("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2",
		  "devices/virtual/block/md0/slaves/nvme0n1p2");
	make_link("devices/pci/nvme/nvme1/nvme1n1", "devices/virtual/block/md0/slaves/nvme1n1");
	make_dirs("devices/virtual/block/dm-3/slaves");
	make_link("devices/virtual/block/md0", "devices/virtual/block/dm-3/slaves/md0");
	make_link("devices/pci/nvme/nvme0/nvme0n1", "devices/virtual/block/dm-3/slaves/nvme0n1");
	make_link("devices/pci/nvme/nvme0/nvme0n1/nvme0n1p2", "dev/block/259:2");
	make_link("devices/pci/nvme/nvme1/nvme1n1", "dev/block/259:3");
	make_link("devices/pci/ata/sda", "dev/block/8:0");
	make_link("devices/virtual/block/dm-3", "dev/block/253:3");
	/* A loop, which no kernel makes. */
	make_dirs("devices/virtual/block/dm-9/slaves");
	make_link("devices/virtual/block/dm-9", "devices/virtual/block/dm-9/slaves/dm-9");
	make_link("devices/virtual/block/dm-9", "dev/block/253:9");
	return 0;
}

static int end(void **state)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	return system(cmd);
}

static void find(void **state)
{
	char names[SSD_SMART_DEVS][SSD_SMART_NAME];

	assert_int_equal(ssd_smart_find(root, 259, 2, names), 1);
	assert_string_equal(names[0], "nvme0n1");
	assert_int_equal(ssd_smart_find(root, 259, 3, names), 1);
	assert_string_equal(names[0], "nvme1n1");
	assert_int_equal(ssd_smart_find(root, 8, 0, names), 0);
	assert_int_equal(ssd_smart_find(root, 9, 9, names), 0);
	assert_int_equal(ssd_smart_find(root, 253, 9, names), 0);
	/* Through a volume and a RAID, each once. */
	assert_int_equal(ssd_smart_find(root, 253, 3, names), 2);
	assert_int_not_equal(strcmp(names[0], names[1]), 0);
}

static void file(void **state)
{
	uint8_t page[WEAR_PAGE_BYTES] = {0};
	char path[PATH_MAX];
	struct wear_smart got;
	struct ssd_smart *s;

	in_root(path, "smart");
	page[3] = 100;
	page[4] = 10;
	page[5] = 71;
	le64_put(page + 48, 3);
	assert_int_equal(ssd_smart_open(path, "/", &s), 0);
	assert_string_equal(s->what, path);
	assert_int_equal(s->ops->read(s, &got), -ENOENT);
	make_file("smart", page, 511);
	assert_int_equal(s->ops->read(s, &got), -EIO);
	make_file("smart", page, 512);
	assert_int_equal(s->ops->read(s, &got), 0);
	assert_int_equal(got.used, 71);
	assert_int_equal(got.written_bytes, 3 * WEAR_UNIT_BYTES);
	s->ops->close(s);
}

static void merge(void **state)
{
	struct wear_smart a = {.used = 3, .spare = 100, .spare_threshold = 10, .written_bytes = 5};
	struct wear_smart b = {.used = 9,
			       .spare = 12,
			       .spare_threshold = 11,
			       .written_bytes = 6,
			       .critical = 4,
			       .media_errors = 1};

	ssd_smart_merge(&a, &b);
	assert_int_equal(a.used, 9);
	assert_int_equal(a.spare, 12);
	assert_int_equal(a.spare_threshold, 11);
	assert_int_equal(a.written_bytes, 11);
	assert_int_equal(a.critical, 4);
	assert_int_equal(a.media_errors, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(find), cmocka_unit_test(file),
					   cmocka_unit_test(merge)};

	return cmocka_run_group_tests(tests, begin, end);
}
