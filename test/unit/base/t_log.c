/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h: levels, the shape of a line, cutting, one line from a place that repeats, a few of
 * one that others can make repeat, and whole lines from many threads.
 */
#include "unit.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

struct capture {
	unsigned nr;
	unsigned nr_bad;
	enum log_level level;
	char last[2048];
};

static void sink(void *arg, enum log_level level, const char *line, size_t len)
{
	struct capture *c = arg;

	c->nr++;
	c->level = level;
	memcpy(c->last, line, len);
	c->last[len] = '\0';
	c->nr_bad += memchr(line, '\n', len) != NULL;
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct capture));
	log_set_level(LOG_LEVEL_INFO);
	log_set_sink(sink, *state);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	log_set_sink(NULL, NULL);
	free(*state);
	return 0;
}

static void t_shape(void **state)
{
	struct capture *c = *state;
	static const char want[] = "0000-00-00T00:00:00.000Z warn disk 3 is full\n";

	log_warn("disk %d is %s", 3, "full");
	assert_int_equal(c->nr, 1);
	assert_int_equal(c->level, LOG_LEVEL_WARN);
	assert_int_equal(strlen(c->last), strlen(want) - 1);
	for (size_t i = 0; i < 24; i++)
		assert_true(want[i] == '0' ? isdigit((unsigned char)c->last[i])
					   : c->last[i] == want[i]);
	assert_memory_equal(c->last + 24, want + 24, strlen(want) - 25);
}

static int count(int *nr)
{
	return ++*nr;
}

static void t_levels(void **state)
{
	struct capture *c = *state;
	enum log_level level = LOG_LEVEL_ERR;
	int nr = 0;

	log_debug("%d", count(&nr));
	assert_int_equal(c->nr, 0);
	assert_int_equal(nr, 0);
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("%d", count(&nr));
	assert_int_equal(c->nr, 1);
	log_set_level(LOG_LEVEL_ERR);
	log_warn("x");
	log_info("x");
	assert_int_equal(c->nr, 1);
	log_err("x");
	assert_int_equal(c->nr, 2);
	assert_int_equal(log_level_parse("debug", &level), 0);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("loud", &level), -EINVAL);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
}

static void t_text(void **state)
{
	struct capture *c = *state;
	char big[4000];

	errno = ENOSPC;
	log_info("a\nb\r\tc: %m");
	assert_int_equal(errno, ENOSPC);
	assert_non_null(strstr(c->last, "info a b  c: No space left on device"));
	memset(big, 'y', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	log_info("%s", big);
	assert_int_equal(c->nr, 2);
	assert_true(strlen(c->last) > 900 && strlen(c->last) < 1024);
}

static void t_once(void **state)
{
	struct capture *c = *state;

	for (int i = 0; i < 5; i++)
		log_once_warn("%d", i);
	assert_int_equal(c->nr, 1);
	log_once_warn("another place");
	assert_int_equal(c->nr, 2);
}

static void t_some(void **state)
{
	struct capture *c = *state;
	struct log_some ls = {0};
	uint64_t held = 7, now = 5;

	for (unsigned i = 0; i < LOG_SOME_BURST; i++) {
		assert_true(log_some_take(&ls, now, &held));
		assert_int_equal(held, 0);
	}
	for (unsigned i = 0; i < 1000; i++)
		assert_false(log_some_take(&ls, now, &held));
	assert_false(log_some_take(&ls, now + LOG_SOME_EVERY_NS - 1, &held));
	assert_true(log_some_take(&ls, now + LOG_SOME_EVERY_NS, &held));
	assert_int_equal(held, 1001);
	assert_false(log_some_take(&ls, now + LOG_SOME_EVERY_NS, &held));
	now += 1000 * LOG_SOME_EVERY_NS;
	for (unsigned i = 0; i < LOG_SOME_BURST; i++)
		assert_true(log_some_take(&ls, now, &held));
	assert_false(log_some_take(&ls, now, &held));

	/* a flood of one place, whatever it says */
	for (int i = 0; i < 5000; i++)
		log_some_warn("client %d did it", i);
	assert_in_range(c->nr, LOG_SOME_BURST, LOG_SOME_BURST + 5);
	/* what was held is told behind a text of any length */
	ls = (struct log_some){.nr_held = 12};
	log_some_line(&ls, LOG_LEVEL_WARN, "%2000d", 1);
	assert_non_null(strstr(c->last, " (and 12 more like this)"));
}

static void *spam(void *arg)
{
	for (int i = 0; i < 500; i++)
		log_info("thread %p line %d", arg, i);
	return NULL;
}

static void t_threads(void **state)
{
	struct capture *c = *state;
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, spam, state), 0);
	log_set_level(LOG_LEVEL_INFO);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(c->nr, 2000);
	assert_int_equal(c->nr_bad, 0);
}

static void t_stderr(void **state)
{
	char buf[256];
	int fds[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	assert_true(saved >= 0);
	assert_int_equal(pipe(fds), 0);
	log_set_sink(NULL, NULL);
	dup2(fds[1], STDERR_FILENO);
	log_err("to stderr");
	dup2(saved, STDERR_FILENO);
	n = read(fds[0], buf, sizeof(buf) - 1);
	assert_true(n > 0);
	buf[n] = '\0';
	assert_non_null(strstr(buf, "Z err to stderr\n"));
	close(fds[0]);
	close(fds[1]);
	close(saved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_shape, setup, teardown),
		cmocka_unit_test_setup_teardown(t_levels, setup, teardown),
		cmocka_unit_test_setup_teardown(t_text, setup, teardown),
		cmocka_unit_test_setup_teardown(t_once, setup, teardown),
		cmocka_unit_test_setup_teardown(t_some, setup, teardown),
		cmocka_unit_test_setup_teardown(t_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(t_stderr, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
