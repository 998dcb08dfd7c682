/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_dev.c: a file is made whole, kept, and locked.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/ssd/ssd_dev.h"

static char dir[64], path[128];

static int set_up(void **state)
{
	snprintf(dir, sizeof(dir), "t_ssd_dev.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/image", dir);
	return 0;
}

static int tear_down(void **state)
{
	unlink(path);
	return rmdir(dir);
}

/* Some file systems have no O_DIRECT: nothing to be tested there. */
static struct ssd_dev *open_or_skip(uint64_t bytes)
{
	struct ssd_dev *dev;
	int err = ssd_dev_open(path, bytes, &dev);

	if (err == -EINVAL) {
		print_message("skip: no O_DIRECT on the file system of the build folder\n");
		exit(77);
	}
	assert_int_equal(err, 0);
	return dev;
}

static void made_and_kept(void **state)
{
	struct ssd_dev *dev = open_or_skip(5 << 20);
	uint8_t *block = aligned_alloc(4096, 4096);
	struct stat st;

	assert_int_equal(dev->bytes, 5 << 20);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_blocks * 512 >= 5 << 20);
	assert_int_equal(dev->ops->read(dev, block, 4096, 4096), 0);
	assert_int_equal(block[17], 0);
	memset(block, 0x5a, 4096);
	assert_int_equal(dev->ops->write(dev, block, 4096, 4096), 0);
	assert_int_equal(dev->ops->sync(dev), 0);
	dev->ops->close(dev);
	dev = open_or_skip(9 << 20);
	assert_int_equal(dev->bytes, 5 << 20); /* keeps its size */
	memset(block, 0, 4096);
	assert_int_equal(dev->ops->read(dev, block, 4096, 4096), 0);
	assert_int_equal(block[17], 0x5a);
	/* Half of it lies behind the end. */
	assert_int_equal(dev->ops->read(dev, block, 4096, dev->bytes), -EIO);
	dev->ops->close(dev);
	free(block);
}

static void locked(void **state)
{
	struct ssd_dev *dev = open_or_skip(1 << 20), *other;

	assert_int_equal(ssd_dev_open(path, 1 << 20, &other), -EBUSY);
	dev->ops->close(dev);
	assert_int_equal(ssd_dev_open(path, 1 << 20, &other), 0);
	other->ops->close(other);
}

/*
 * The lock of a process that is over goes with the last of its I/O, here with a child that still
 * has the file. Who opens it then waits, and isn't refused.
 */
static void lingering(void **state)
{
	struct ssd_dev *dev = open_or_skip(1 << 20);
	int go[2];
	pid_t pid;
	char c;

	dev->ops->close(dev);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		if (ssd_dev_open(path, 1 << 20, &dev))
			_exit(1);
		if (fork() == 0) {
			close(go[1]);
			_exit(read(go[0], &c, 1) != 1);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(write(go[1], "g", 1), 1);
	dev = open_or_skip(1 << 20);
	dev->ops->close(dev);
	close(go[0]);
	close(go[1]);
}

static void errors(void **state)
{
	struct ssd_dev *dev;
	struct stat st;

	assert_int_equal(ssd_dev_open("no/such/folder", 1 << 20, &dev), -ENOENT);
	/* More than any disk has: nothing is left behind. */
	assert_true(ssd_dev_open(path, 1ull << 60, &dev) < 0);
	assert_true(stat(path, &st) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(made_and_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(locked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lingering, set_up, tear_down),
		cmocka_unit_test_setup_teardown(errors, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
