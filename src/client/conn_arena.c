/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arena segments, mapped read-only when a lease first names them. Only a memfd sealed against
 * shrinking is mapped: then no access can fault, whatever the daemon does, and a daemon that dies
 * leaves its memory to those who have it mapped. Under arena_lock; any thread.
 */
/* tidy: no-test: t_lease.c and t_get.c map it */
#include "client/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hugemap.h"
#include "client/errmsg.h"

#define CONN_ARENA_SEGMENTS_MAX 4096u

struct conn_segment {
	uint8_t *ptr;
	uint64_t bytes;
};

static int conn_arena_map(struct conn *c, uint32_t index, struct conn_segment *s,
			  uint64_t deadline_ns)
{
	struct conn_region r;
	int err = conn_dev_region(c, PEAL_REGION_ARENA + index, &r, deadline_ns);
	auto_close int fd = err ? -1 : r.fd;
	int seals;
	void *p;

	if (err)
		return err;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return errmsg_set(-EPROTO, "arena segment %u isn't sealed against shrinking",
				  index);
	p = hugemap_shared(r.bytes, PROT_READ, fd, r.offset);
	if (p == MAP_FAILED)
		return errmsg_set(-errno, "can't map arena segment %u: %s", index, strerror(errno));
	madvise(p, r.bytes, MADV_DONTFORK);
	*s = (struct conn_segment){p, r.bytes};
	return 0;
}

int conn_arena_ptr(struct conn *c, const struct peal_wire_extent *x, const void **ptr,
		   uint64_t deadline_ns)
{
	auto_unlock pthread_mutex_t *m = cleanup_lock(&c->arena_lock);
	struct conn_segment *s;

	if (x->segment >= CONN_ARENA_SEGMENTS_MAX)
		return errmsg_set(-EPROTO, "the daemon leases from arena segment %u, expected < %u",
				  x->segment, CONN_ARENA_SEGMENTS_MAX);
	if (!c->segments)
		c->segments = calloc(CONN_ARENA_SEGMENTS_MAX, sizeof(*c->segments));
	if (!c->segments)
		return errmsg_set(-ENOMEM, "no memory for the arena's segments");
	s = &c->segments[x->segment];
	if (!s->ptr) {
		int err = conn_arena_map(c, x->segment, s, deadline_ns);

		if (err)
			return err;
	}
	if (x->offset > s->bytes || x->len > s->bytes - x->offset)
		return errmsg_set(-EPROTO, "a lease points behind the end of arena segment %u",
				  x->segment);
	*ptr = s->ptr + x->offset;
	return 0;
}

int conn_arena_segment(struct conn *c, uint32_t index, const void **ptr, size_t *bytes,
		       uint64_t deadline_ns)
{
	const struct peal_wire_extent x = {.segment = index};
	int err;

	if (!c->has_arena)
		return errmsg_set(-ENOENT, "the daemon shows no arena");
	err = conn_arena_ptr(c, &x, ptr, deadline_ns);
	if (err == -EINVAL)
		return errmsg_set(-ENOENT, "there is no arena segment %u", index);
	if (!err)
		*bytes = c->segments[index].bytes;
	return err;
}

void conn_arena_fini(struct conn *c)
{
	for (uint32_t i = 0; c->segments && i < CONN_ARENA_SEGMENTS_MAX; i++)
		if (c->segments[i].ptr)
			munmap(c->segments[i].ptr, c->segments[i].bytes);
	free(c->segments);
}
