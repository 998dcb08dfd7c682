/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks that model tests run over: a stack is a row of a table.
 */
#pragma once

#include "slice.h"
#include "store/store_make.h"

enum m_layer {
	M_END,
	M_MEM,
	M_NULL,
	M_FAULT,
	M_DRAM,
	M_SLICE, /* gives only the chunks that were asked for */
	M_SSD,	 /* made by m_ssd, over a disk of its own */
	M_RADOS, /* made by m_rados, on a cluster */
};

struct m_stack {
	const char *name;
	enum m_layer layers[STORE_DEPTH_MAX];
	struct store_fault_opts fault;
	uint64_t dram_bytes; /* per shard */
	uint32_t dram_keys;
	bool is_sure;  /* what is acknowledged must hit, whatever is evicted or late */
	bool is_roomy; /* nothing may be evicted */
	bool flips;
	bool fails;
	bool has_slice;
	uint64_t ssd_bytes; /* per shard; 0: there is none */
	uint64_t ssd_seg_bytes;
	unsigned ssd_devices; /* of ssd_bytes each, per shard; 0: one, and no more than that */
	uint64_t ssd_keys;    /* of its index; 0: enough */
	unsigned nr_keys;     /* that are used; 0: all */
	bool is_aimed;	      /* at keys that eviction comes to */
	bool is_immutable;    /* a key always has the same bytes */
	bool is_durable;
	bool is_through;
	bool is_acked_below; /* dram answers a put when what is below has it */
	bool is_far;	     /* the lowest gives what it takes versions of its own */
};

static inline int m_segment(void *arg, struct mem_region *reg)
{
	return 0;
}

static inline struct store *m_layer_create(const struct m_stack *st, enum m_layer layer,
					   uint64_t seed)
{
	struct store_dram_opts dram = {.bytes = st->dram_bytes,
				       .max_keys = st->dram_keys,
				       .policy = "lru",
				       .on_segment = m_segment,
				       .is_through = st->is_through,
				       .is_acked_below = st->is_acked_below};
	struct store_fault_opts fault = st->fault;
	struct store *s = NULL;

	switch (layer) {
	case M_MEM:
		s = store_mem_create();
		break;
	case M_NULL:
		s = store_null_create();
		break;
	case M_FAULT:
		fault.seed = seed;
		s = store_fault_create(&fault);
		break;
	case M_DRAM:
		must(store_dram_create(&dram, &s) == 0);
		break;
	case M_SLICE:
		s = &slice_create()->st;
		break;
	case M_SSD:
	case M_RADOS:
	case M_END:
		break;
	}
	must(s);
	return s;
}

static inline void m_stack_push(struct world *w, unsigned nr_shards, const struct m_stack *st)
{
	for (unsigned i = 0; i < nr_shards; i++)
		for (unsigned l = 0; st->layers[l] != M_END; l++)
			store_set_push(w->set, i,
				       m_layer_create(st, st->layers[l], rng_u64(&w->rng)));
}
