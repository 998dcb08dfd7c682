/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See log_thread.h. head and tail count bytes for ever; only the thread moves head, and what lies
 * between them isn't touched by anybody else, so it is written without the lock.
 */
#include "base/log_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/log.h"
#include "base/must.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	pthread_cond_t emptied;
	pthread_t thread;
	uint64_t head; /* written */
	uint64_t tail;
	uint64_t lost;
	uint64_t told; /* of lost */
	int fd;
	bool is_on;
	bool is_stopping;
	char ring[LOG_THREAD_BYTES];
} log_t = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static bool log_thread_fits(size_t len)
{
	return LOG_THREAD_BYTES - (log_t.tail - log_t.head) >= len;
}

static void log_thread_put(const char *p, size_t len)
{
	size_t at = log_t.tail % LOG_THREAD_BYTES;
	size_t n = min_t(size_t, len, LOG_THREAD_BYTES - at);

	memcpy(log_t.ring + at, p, n);
	memcpy(log_t.ring, p + n, len - n);
	log_t.tail += len;
}

/* Before the first line after a gap. False: there is no room for it either. */
static bool log_thread_tell(size_t len)
{
	char text[80];
	int n;

	if (log_t.told == log_t.lost)
		return log_thread_fits(len + 1);
	n = snprintf(text, sizeof(text), "(%llu lines were lost here: nobody read the log)\n",
		     (unsigned long long)(log_t.lost - log_t.told));
	if (!log_thread_fits((size_t)n + len + 1))
		return false;
	log_thread_put(text, (size_t)n);
	log_t.told = log_t.lost;
	return true;
}

static void log_thread_sink(void *arg, enum log_level level, const char *line, size_t len)
{
	auto_unlock pthread_mutex_t *m = cleanup_lock(&log_t.lock);

	if (!log_thread_tell(len)) {
		log_t.lost++;
		return;
	}
	log_thread_put(line, len);
	log_thread_put("\n", 1);
	pthread_cond_signal(&log_t.filled);
}

/* Waits as long as the reader wants it to. A log that can't be written has nobody to be told. */
static size_t log_thread_write(const char *p, size_t len)
{
	ssize_t n = write(log_t.fd, p, len);

	return n > 0 ? (size_t)n : n < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : len;
}

static void *log_thread_main(void *arg)
{
	pthread_mutex_lock(&log_t.lock);
	for (;;) {
		size_t at = log_t.head % LOG_THREAD_BYTES, n;

		n = min_t(size_t, log_t.tail - log_t.head, LOG_THREAD_BYTES - at);
		if (n == 0) {
			pthread_cond_broadcast(&log_t.emptied);
			if (log_t.is_stopping)
				break;
			pthread_cond_wait(&log_t.filled, &log_t.lock);
			continue;
		}
		pthread_mutex_unlock(&log_t.lock);
		n = log_thread_write(log_t.ring + at, n);
		pthread_mutex_lock(&log_t.lock);
		log_t.head += n;
	}
	log_t.is_on = false;
	pthread_cond_broadcast(&log_t.emptied);
	pthread_mutex_unlock(&log_t.lock);
	return NULL;
}

int log_thread_start(int fd)
{
	pthread_condattr_t attr;
	int err;

	must(!log_t.is_on);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&log_t.emptied, &attr);
	pthread_condattr_destroy(&attr);
	log_t.fd = fd;
	log_t.is_on = true;
	log_t.is_stopping = false;
	err = pthread_create(&log_t.thread, NULL, log_thread_main, NULL);
	if (err) {
		log_t.is_on = false;
		return -err;
	}
	pthread_setname_np(log_t.thread, "log");
	pthread_detach(log_t.thread);
	log_set_sink(log_thread_sink, NULL);
	return 0;
}

void log_thread_stop(uint32_t wait_ms)
{
	struct timespec end;
	int err = 0;

	log_set_sink(NULL, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += wait_ms / 1000;
	end.tv_nsec += (long)(wait_ms % 1000) * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	auto_unlock pthread_mutex_t *m = cleanup_lock(&log_t.lock);
	log_t.is_stopping = true;
	pthread_cond_signal(&log_t.filled);
	/* One that hangs in its write() ends with the process. */
	while (log_t.is_on && !err)
		err = pthread_cond_timedwait(&log_t.emptied, &log_t.lock, &end);
}

uint64_t log_thread_lost(void)
{
	auto_unlock pthread_mutex_t *m = cleanup_lock(&log_t.lock);

	return log_t.lost;
}
