/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a simulated host that its commands name: an area with a shadow copy. What is not
 * inside a buffer of a command under way must be as the shadow has it, at any time; what is inside
 * goes into the shadow when the command is over. So a write outside the named bytes shows, and one
 * after the CQE.
 *
 * A buffer is a stream of bytes that lies in scattered pages (PRP) or in pieces at any byte with
 * holes between them (SGL, bit buckets included). Parts of the area can be taken from under the
 * daemon's hands: unmapped for DMA, or so that every access faults. One thread.
 */
#pragma once

#include "fake_tr.h"

struct d_seg {
	uint64_t addr;
	uint32_t len;
	bool is_sink; /* bit bucket: its bytes go nowhere */
};

struct d_buf {
	uint64_t bytes; /* of the stream */
	struct d_seg *seg;
	uint32_t *pages;
	unsigned nr, nr_pages;
	bool is_prp;
	uint32_t off; /* PRP: in the first page */
};

#define D_MAP_PAGES 64u
#define D_MAPS_MAX 64u

struct d_mem {
	struct fake_tr *t;
	struct rng *rng;
	uint64_t base; /* bus address, a multiple of a map */
	uint8_t *shadow;
	uint8_t *is_busy; /* per page: of a buffer */
	uint32_t nr_pages;
	bool is_unmapped[D_MAPS_MAX], is_poisoned[D_MAPS_MAX];
};

void d_mem_init(struct d_mem *m, struct fake_tr *t, struct rng *rng, uint32_t nr_pages);
void d_mem_fini(struct d_mem *m);
/* True while something is away. */
bool d_mem_is_away(const struct d_mem *m);
void d_mem_take(struct d_mem *m); /* unmaps or poisons one map */
void d_mem_give(struct d_mem *m); /* back, all of it */
/* Every page that is no buffer's. */
bool d_mem_check(struct d_mem *m);

/* False: no room, or its place is away. to_host: bit buckets may be among the pieces. */
bool d_buf_make(struct d_mem *m, struct d_buf *b, uint64_t bytes, bool to_host);
void d_buf_free(struct d_mem *m, struct d_buf *b);
void d_buf_dptr(struct d_mem *m, const struct d_buf *b, struct nvme_sqe *sqe);
/* Linear copies of the stream; bytes of bit buckets read as 0. */
void d_buf_write(struct d_mem *m, const struct d_buf *b, uint64_t at, const void *src,
		 uint64_t len);
void d_buf_read(struct d_mem *m, const struct d_buf *b, uint64_t at, void *dst, uint64_t len);
/* Bytes of a value; see d_model.h. */
struct d_part {
	uint64_t seed, off, len;
};
/* They lie, or are to lie, at `at` of the stream; bit buckets are skipped. */
void d_buf_fill(struct d_mem *m, const struct d_buf *b, uint64_t at, struct d_part part);
bool d_buf_holds(struct d_mem *m, const struct d_buf *b, uint64_t at, struct d_part part);
/* How many bytes of [at, at + len) aren't in a bit bucket. */
uint64_t d_buf_shows(struct d_mem *m, const struct d_buf *b, uint64_t at, uint64_t len);
void d_buf_commit(struct d_mem *m, const struct d_buf *b); /* the host has filled it */
void d_buf_reach(struct d_mem *m, const struct d_buf *b);  /* gives back what was poisoned of it */
/*
 * The command is over: its pages are as they were, outside the stream always, inside too when it
 * was the daemon's to read. Then they are nobody's.
 */
bool d_buf_settle(struct d_mem *m, struct d_buf *b, bool to_host);
