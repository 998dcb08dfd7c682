/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that we make and share with the daemon: a memfd, sealed against shrinking, mapped here
 * and mapped for DMA there at contiguous bus addresses. Children of fork() don't get our mapping:
 * the memory is the connection's and the connection isn't theirs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct conn;

struct shm {
	uint8_t *ptr;
	size_t bytes; /* whole pages */
	uint64_t iova;
	int fd;
};

/* -errno with a message. */
int shm_create(struct conn *c, size_t bytes, const char *name, struct shm *s, uint64_t deadline_ns);
/* The local half alone. */
int shm_map(size_t bytes, const char *name, struct shm *s);
/* Unmaps it here; there it goes with the connection, or by conn_dev_dma_unmap() before. */
void shm_destroy(struct shm *s);
