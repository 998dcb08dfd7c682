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

void log_line(enum log_level level, const char *fmt, ...)
{
	int err = errno;
	char line[LOG_LINE_BYTES];
	size_t n = log_prefix(line, sizeof(line), level);
	va_list ap;
	int len;

	va_start(ap, fmt);
	/* %m must see the caller's errno, which the clock may have changed. */
	errno = err;
	len = vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	va_end(ap);
	if (len > 0)
		n = min_t(size_t, n + (size_t)len, sizeof(line) - 1);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	pthread_mutex_lock(&log_lock);
	log_sink(log_sink_arg, level, line, n);
	pthread_mutex_unlock(&log_lock);
	errno = err;
}
