/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function uses for itself is given back at the end of its scope:
 *
 * 	auto_free char *s = strdup(t);
 * 	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
 * 	auto_fclose FILE *f = fopen(path, "re");
 * 	auto_unlock pthread_mutex_t *m = cleanup_lock(&c->lock);
 *
 * Every one needs its initial value (NULL, -1). What is built for the caller unwinds by goto
 * instead. errno survives all of them.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_close __attribute__((cleanup(cleanup_close)))
#define auto_fclose __attribute__((cleanup(cleanup_fclose)))
/* Nobody reads it again, which clang would call unused. */
#define auto_unlock __attribute__((cleanup(cleanup_unlock), unused))

static inline void cleanup_free(void *pp)
{
	int err = errno;

	free(*(void **)pp);
	errno = err;
}

static inline void cleanup_close(const int *fd)
{
	int err = errno;

	if (*fd >= 0)
		close(*fd);
	errno = err;
}

static inline void cleanup_fclose(FILE **f)
{
	int err = errno;

	if (*f)
		fclose(*f);
	errno = err;
}

static inline pthread_mutex_t *cleanup_lock(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	return m;
}

static inline void cleanup_unlock(pthread_mutex_t **m)
{
	if (*m)
		pthread_mutex_unlock(*m);
}
