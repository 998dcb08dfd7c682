/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_thread.h: every line arrives, in order and whole; a pipe that nobody reads holds nobody up,
 * and what it cost is told in its place.
 */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_thread.h"

#define LINES 20000

struct reader {
	pthread_t thread;
	int fd;
	unsigned nr, nr_bad;
	unsigned long long nr_lost;
	int last;
};

static void reader_line(struct reader *r, const char *line)
{
	const char *at = strstr(line, "Z info line ");
	int n;

	if (line[0] == '(') {
		r->nr_lost += strtoull(line + 1, NULL, 10);
	} else if (at && sscanf(at, "Z info line %d of many", &n) == 1 && n > r->last) {
		r->last = n;
		r->nr++;
	} else {
		r->nr_bad++;
	}
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	FILE *f = fdopen(r->fd, "r");
	char line[2048];

	while (fgets(line, sizeof(line), f))
		reader_line(r, line);
	fclose(f);
	return NULL;
}

static void reader_start(struct reader *r, int fd)
{
	*r = (struct reader){.fd = fd, .last = -1};
	assert_int_equal(pthread_create(&r->thread, NULL, reader_main, r), 0);
}

static void say(int n)
{
	for (int i = 0; i < n; i++)
		log_info("line %d of many", i);
}

static void t_read(void **state)
{
	struct reader r;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	reader_start(&r, fds[0]);
	assert_int_equal(log_thread_start(fds[1]), 0);
	say(1000);
	log_thread_stop(60000);
	close(fds[1]);
	pthread_join(r.thread, NULL);
	assert_int_equal(r.nr_bad, 0);
	assert_int_equal(r.nr, 1000);
	assert_int_equal(r.nr_lost, 0);
}

/* More lines than pipe and ring hold, with nobody at the other end; then somebody comes. */
static void t_stuck(void **state)
{
	struct reader r;
	int fds[2];
	uint64_t lost;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(log_thread_start(fds[1]), 0);
	say(LINES);
	lost = log_thread_lost();
	assert_true(lost > 0 && lost < LINES);
	reader_start(&r, fds[0]);
	/* the first line that has room again tells of the gap */
	for (int i = LINES;; i++) {
		log_info("line %d of many", i);
		if (log_thread_lost() == lost)
			break;
		lost++;
	}
	log_thread_stop(60000);
	close(fds[1]);
	pthread_join(r.thread, NULL);
	assert_int_equal(r.nr_bad, 0);
	assert_true(r.nr > 0);
	assert_int_equal(r.nr_lost, lost);
}

/* Stopping doesn't wait for ever either. The last test: its thread stays in write(). */
static void t_stop(void **state)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(log_thread_start(fds[1]), 0);
	say(LINES);
	log_thread_stop(1);
	assert_true(log_thread_lost() > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_read),
		cmocka_unit_test(t_stuck),
		cmocka_unit_test(t_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
