/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_watch.c: what its looks at a page of SMART and at a file system say to a tier and to people;
 * each change is told once.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/le.h"
#include "base/mono.h"
#include "base/must.h"
#include "store/ssd/ssd_watch.h"

#define MINUTE (60 * MONO_NS_PER_S)

static char file[] = "/tmp/t_ssd_watch.XXXXXX";
static uint64_t free_now;
static unsigned nr_told, nr_bad;
static char last[1024];

static int room(const char *folder, uint64_t *free_bytes, uint64_t *total_bytes)
{
	if (free_now == UINT64_MAX)
		return -EIO;
	*free_bytes = free_now;
	*total_bytes = 1000000;
	return 0;
}

static void tell(void *arg, bool is_bad, const char *text)
{
	nr_told++;
	nr_bad += is_bad;
	snprintf(last, sizeof(last), "%s", text);
}

static void smart(unsigned used)
{
	uint8_t page[WEAR_PAGE_BYTES] = {0};
	int fd = open(file, O_WRONLY | O_TRUNC);

	page[3] = 100;
	page[4] = 10;
	page[5] = (uint8_t)used;
	must(fd >= 0 && write(fd, page, sizeof(page)) == (ssize_t)sizeof(page));
	close(fd);
}

static struct ssd_watch *make(const char *source, uint64_t min_free, struct ssd_watch_dev **dev)
{
	struct ssd_watch_opts o = {
		.smart = source, .min_free_bytes = min_free, .room = room, .tell = tell};
	struct ssd_watch *w;

	nr_told = nr_bad = 0;
	free_now = 500000;
	assert_int_equal(ssd_watch_create(&o, &w), 0);
	assert_int_equal(ssd_watch_add(w, "/", dev), 0);
	return w;
}

static void wear(void **state)
{
	struct ssd_watch_dev *dev, *same;
	struct ssd_watch_info info;
	struct ssd_watch *w;
	uint64_t now = MINUTE;

	smart(10);
	w = make(file, 0, &dev);
	assert_int_equal(ssd_watch_add(w, "/", &same), 0);
	assert_ptr_equal(dev, same);
	assert_int_equal(ssd_watch_nr(w), 1);
	ssd_watch_look(w, now);
	assert_true(dev->may_write);
	assert_int_equal(nr_told, 0);
	smart(75);
	ssd_watch_look(w, now + MINUTE / 2); /* too early for another one */
	assert_int_equal(nr_told, 0);
	ssd_watch_look(w, now += MINUTE);
	ssd_watch_look(w, now += MINUTE);
	assert_int_equal(nr_bad, 1);
	assert_true(dev->may_write);
	smart(85);
	ssd_watch_look(w, now += MINUTE);
	ssd_watch_look(w, now += MINUTE);
	assert_int_equal(nr_bad, 2);
	assert_non_null(strstr(last, "85 %"));
	assert_false(dev->may_write);
	ssd_watch_override(w, 0, WEAR_WRITE);
	assert_true(dev->may_write);
	ssd_watch_look(w, now += MINUTE);
	assert_true(dev->may_write);
	ssd_watch_override(w, 0, WEAR_AUTO);
	assert_false(dev->may_write);
	atomic_fetch_add(&dev->written_bytes, 7000000);
	ssd_watch_look(w, now += 10 * MINUTE);
	ssd_watch_info(w, 0, &info);
	assert_string_equal(info.folder, "/");
	assert_string_equal(info.device, file);
	assert_int_equal(info.state, WEAR_NO_WRITE);
	assert_int_equal(info.smart.used, 85);
	assert_int_equal(info.written_bytes, 7000000);
	assert_true(info.day_bytes > 7000000 && info.has_smart);
	smart(5);
	ssd_watch_look(w, now += MINUTE);
	assert_true(dev->may_write);
	assert_int_equal(nr_told - nr_bad, 1);
	ssd_watch_destroy(w);
}

/* A device that no longer answers stays in the state that it was in, and that is told once. */
static void blind(void **state)
{
	struct ssd_watch_dev *dev;
	struct ssd_watch_info info;
	struct ssd_watch *w;

	smart(90);
	w = make(file, 0, &dev);
	ssd_watch_look(w, MINUTE);
	assert_false(dev->may_write);
	assert_int_equal(truncate(file, 0), 0);
	nr_told = 0;
	ssd_watch_look(w, 2 * MINUTE);
	ssd_watch_look(w, 3 * MINUTE);
	assert_int_equal(nr_told, 1);
	assert_false(dev->may_write);
	ssd_watch_info(w, 0, &info);
	assert_int_equal(info.smart_err, -EIO);
	assert_false(info.has_smart);
	ssd_watch_destroy(w);
	w = make("none", 0, &dev);
	ssd_watch_look(w, MINUTE);
	assert_int_equal(nr_told, 0);
	assert_true(dev->may_write);
	ssd_watch_destroy(w);
}

static void tight(void **state)
{
	struct ssd_watch_dev *dev;
	struct ssd_watch *w = make("none", 80000, &dev);

	free_now = 80000;
	ssd_watch_look(w, 1);
	assert_false(dev->is_tight);
	free_now = 79999;
	ssd_watch_look(w, 2);
	assert_true(dev->is_tight);
	free_now = 89999;
	ssd_watch_look(w, 3);
	assert_true(dev->is_tight);
	assert_int_equal(nr_bad, 1);
	free_now = UINT64_MAX;
	ssd_watch_look(w, 4);
	ssd_watch_look(w, 5);
	assert_true(dev->is_tight);
	assert_int_equal(nr_bad, 2);
	free_now = 90000;
	ssd_watch_look(w, 6);
	assert_false(dev->is_tight);
	assert_int_equal(nr_told, 3);
	ssd_watch_destroy(w);
}

/* The real thing: statvfs, a thread that begins and ends. */
static void thread(void **state)
{
	struct ssd_watch_opts o = {.smart = "auto", .tell = tell};
	struct ssd_watch_info info;
	struct ssd_watch_dev *dev;
	struct ssd_watch *w;

	assert_int_equal(ssd_watch_create(&o, &w), 0);
	assert_int_equal(ssd_watch_add(w, "/tmp", &dev), 0);
	assert_int_equal(ssd_watch_start(w), 0);
	ssd_watch_info(w, 0, &info);
	assert_true(info.total_bytes > 0 && info.free_bytes <= info.total_bytes);
	ssd_watch_stop(w);
	ssd_watch_destroy(w);
	ssd_watch_stop(NULL);
	ssd_watch_destroy(NULL);
}

static int begin(void **state)
{
	int fd = mkstemp(file);

	return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
	return unlink(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(wear), cmocka_unit_test(blind),
					   cmocka_unit_test(tight), cmocka_unit_test(thread)};

	return cmocka_run_group_tests(tests, begin, end);
}
