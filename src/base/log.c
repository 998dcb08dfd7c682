/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place through which log lines leave; log.h says what they look like. A line is built on
 * the caller's stack and cut at LOG_LINE_BYTES; the lock is held only while the sink runs. Any
 * thread, but not from a signal handler.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"

#define LOG_LINE_BYTES 1024
#define LOG_HELD_BYTES 48u

static const char *const log_names[] = {"err", "warn", "info", "debug"};

static void log_to_stderr(void *arg, enum log_level level, const char *line, size_t len);

static _Atomic int log_max = LOG_LEVEL_INFO;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
/* Both under log_lock. */
static log_sink_fn log_sink = log_to_stderr;
static void *log_sink_arg;

/* The line has room for its line break: log_line() keeps one byte. */
static void log_to_stderr(void *arg, enum log_level level, const char *line, size_t len)
{
	char buf[LOG_LINE_BYTES + 1];
	ssize_t rc;

	memcpy(buf, line, len);
	buf[len] = '\n';
	/* A log that can't be written has nobody to be told. */
	rc = write(STDERR_FILENO, buf, len + 1);
	(void)rc;
}

static size_t log_prefix(char *buf, size_t size, enum log_level level)
{
	struct timespec ts;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(buf + n, size - n, ".%03uZ %s ", (unsigned)(ts.tv_nsec / 1000000),
			      log_names[level]);
	return n;
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_max, (int)level, memory_order_relaxed);
}

bool log_is_on(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_max, memory_order_relaxed);
}

int log_level_parse(const char *s, enum log_level *level)
{
	for (unsigned i = 0; i < ARRAY_SIZE(log_names); i++) {
		if (strcmp(s, log_names[i]) == 0) {
			*level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_set_sink(log_sink_fn fn, void *arg)
{
	auto_unlock pthread_mutex_t *m = cleanup_lock(&log_lock);

	log_sink = fn ? fn : log_to_stderr;
	log_sink_arg = arg;
}

static void log_out(enum log_level level, uint64_t held, const char *fmt, va_list ap)
{
	int err = errno;
	char line[LOG_LINE_BYTES];
	size_t n = log_prefix(line, sizeof(line), level);
	int len;

	/* %m must see the caller's errno, which the clock may have changed. */
	errno = err;
	len = vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	if (len > 0)
		n = min_t(size_t, n + (size_t)len, sizeof(line) - 1);
	if (held) {
		n = min_t(size_t, n, sizeof(line) - LOG_HELD_BYTES);
		n += (size_t)snprintf(line + n, LOG_HELD_BYTES, " (and %llu more like this)",
				      (unsigned long long)held);
	}
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	pthread_mutex_lock(&log_lock);
	log_sink(log_sink_arg, level, line, n);
	pthread_mutex_unlock(&log_lock);
	errno = err;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_out(level, 0, fmt, ap);
	va_end(ap);
}

/*
 * A token bucket told as the time at which it is full again (GCRA): every line puts that off by
 * LOG_SOME_EVERY_NS, and none is said that would put it further off than a burst.
 */
bool log_some_take(struct log_some *ls, uint64_t now_ns, uint64_t *held)
{
	uint64_t old = atomic_load_explicit(&ls->full_ns, memory_order_relaxed), new;

	do {
		new = (old > now_ns ? old : now_ns) + LOG_SOME_EVERY_NS;
		if (new - now_ns > LOG_SOME_BURST * LOG_SOME_EVERY_NS) {
			atomic_fetch_add_explicit(&ls->nr_held, 1, memory_order_relaxed);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&ls->full_ns, &old, new, memory_order_relaxed, memory_order_relaxed));
	*held = atomic_exchange_explicit(&ls->nr_held, 0, memory_order_relaxed);
	return true;
}

void log_some_line(struct log_some *ls, enum log_level level, const char *fmt, ...)
{
	int err = errno;
	struct timespec ts;
	uint64_t held;
	va_list ap;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (!log_some_take(ls, (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec, &held))
		return;
	errno = err;
	va_start(ap, fmt);
	log_out(level, held, fmt, ap);
	va_end(ap);
}
