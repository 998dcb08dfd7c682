/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entry goes next. The policy knows entries by number (1 and up; 0 = none) and keeps its
 * state in an evict_link that lies in each entry, found by base, stride and offset, and in struct
 * evict: no allocation, no clock, no I/O, so that the daemon, the simulator and tests run the same
 * code.
 *
 * The user inserts an entry once it may be evicted, touches it on use, and removes it for whatever
 * reason. evict_victim() only names one: an entry that can't go now (pinned, being written) is
 * removed and comes back later by evict_insert_cold(), which makes it the next victim again. O(1)
 * each. One thread.
 *
 * "lru": exact least recently used.
 */
#ifndef POLICY_EVICT_H
#define POLICY_EVICT_H

#include <stdint.h>

struct evict_link {
	uint32_t newer;
	uint32_t older;
};

struct evict;

struct evict_ops {
	const char *name;
	void (*insert)(struct evict *e, uint32_t i);	  /* as just used */
	void (*insert_cold)(struct evict *e, uint32_t i); /* as the next victim */
	void (*touch)(struct evict *e, uint32_t i);
	void (*remove)(struct evict *e, uint32_t i);
	uint32_t (*victim)(struct evict *e);		     /* 0: none */
	void (*prefetch)(const struct evict *e, uint32_t i); /* what touch(i) will write */
};

struct evict {
	const struct evict_ops *ops;
	uint8_t *base;	 /* entry i's link is at base + i * stride + off */
	uint32_t stride; /* bytes */
	uint32_t off;
	uint32_t newest;
	uint32_t oldest;
	uint32_t nr;
};

/* name: NULL = the default. -EINVAL: no such policy. */
int evict_init(struct evict *e, const char *name);
/* Where the links are. */
void evict_set_base(struct evict *e, void *base, uint32_t stride, uint32_t off);

static inline void evict_insert(struct evict *e, uint32_t i)
{
	e->ops->insert(e, i);
}

static inline void evict_insert_cold(struct evict *e, uint32_t i)
{
	e->ops->insert_cold(e, i);
}

static inline void evict_touch(struct evict *e, uint32_t i)
{
	e->ops->touch(e, i);
}

static inline void evict_prefetch(const struct evict *e, uint32_t i)
{
	e->ops->prefetch(e, i);
}

static inline void evict_remove(struct evict *e, uint32_t i)
{
	e->ops->remove(e, i);
}

static inline uint32_t evict_victim(struct evict *e)
{
	return e->ops->victim(e);
}

#endif
