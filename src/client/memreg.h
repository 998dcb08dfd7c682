/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory: what direct requests may name. Each piece has bus addresses for life; every
 * new connection is told of all of them, those included that were made while there was none. What a
 * daemon refuses then stays in the list, with its error, and is offered to the next. Counted, so
 * that a request under way keeps the struct (not the registration) alive. The list is under
 * p->mem_lock; mem_gen counts its changes.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include "base/list.h"
#include "peal/peal.h"

struct conn;

struct peal_mem {
	struct list node;
	struct peal *p;
	uint8_t *ptr;
	size_t bytes;
	uint64_t offset; /* in fd */
	uint64_t iova;
	int fd;
	bool is_ours; /* the mapping: peal_mem_alloc() */
	int map_err;  /* of the present connection; under p->mem_lock */
	_Atomic uint32_t refs;
	_Atomic uint32_t nr_under_way; /* direct requests */
};

/* Under p->mem_lock. -errno: the connection is of no use. */
int memreg_map_all(struct peal *p, struct conn *c, uint64_t deadline_ns);
void memreg_put(struct peal_mem *m);
/* At peal_close(): no request is under way. */
void memreg_free_all(struct peal *p);
