/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host domain: regions that are mappings of files or our own memory, and guarded small
 * accesses. Any thread; a region's count keeps its mapping.
 */
/* tidy: no-test: t_mem.c has it, by the functions of mem.h */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"
#include "base/hugemap.h"
#include "mem/mem_domain.h"
#include "mem/mem_guard.h"
#include "mem/mem_int.h"

#define MEM_HOST_HUGE_BYTES (2ull << 20)

struct mem_host {
	struct mem_region reg;
	void *map; /* NULL: not ours to unmap */
	size_t map_bytes;
};

/*
 * The kernel joins mappings of neighbours, and may have no room to cut them: then the addresses
 * stay ours, and what lay there is let go all the same. If that fails, too, so be it.
 */
static void mem_host_unmap(void *map, size_t bytes)
{
	if (munmap(map, bytes))
		(void)mmap(map, bytes, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static void mem_host_destroy(struct mem_region *reg)
{
	struct mem_host *h = container_of(reg, struct mem_host, reg);

	if (h->map)
		mem_host_unmap(h->map, h->map_bytes);
	if (reg->fd >= 0)
		close(reg->fd);
	free(h);
}

static struct mem_host *mem_host_alloc(uint64_t len, uint32_t flags)
{
	struct mem_host *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->reg = (struct mem_region){
		.domain = MEM_HOST,
		.flags = flags,
		.len = len,
		.fd = -1,
		.refs = 1,
		.destroy = mem_host_destroy,
	};
	return h;
}

struct mem_region *mem_host_wrap(void *base, uint64_t len, uint32_t flags)
{
	struct mem_host *h = mem_host_alloc(len, flags);

	if (!h)
		return NULL;
	h->reg.base = base;
	return &h->reg;
}

static int mem_host_mmap(struct mem_host *h, int fd, uint64_t off)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = off % page;
	int prot = (h->reg.flags & MEM_READABLE ? PROT_READ : 0) |
		   (h->reg.flags & MEM_WRITABLE ? PROT_WRITE : 0);
	void *p = hugemap_shared(h->reg.len + skip, prot, fd, off - skip);

	if (p == MAP_FAILED)
		return -errno;
	h->map = p;
	h->map_bytes = h->reg.len + skip;
	h->reg.base = (uint8_t *)p + skip;
	return 0;
}

int mem_host_map(int fd, uint64_t off, uint64_t len, uint32_t flags, struct mem_region **reg)
{
	struct mem_host *h;
	int err;

	if (len == 0 || off > INT64_MAX || len > INT64_MAX - off || len > SIZE_MAX / 2)
		return -EINVAL;
	h = mem_host_alloc(len, flags);
	if (!h)
		return -ENOMEM;
	err = mem_host_mmap(h, fd, off);
	if (err) {
		free(h);
		return err;
	}
	*reg = &h->reg;
	return 0;
}

/*
 * Whoever gets the descriptor can't make it shorter, longer, or map it for writing; our own mapping
 * stays.
 */
#define MEM_HOST_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

static int mem_host_memfd_fill(struct mem_host *h, const char *name, unsigned mfd_flags)
{
	int err, fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | mfd_flags);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)h->reg.len)) {
		err = -errno;
		goto close_fd;
	}
	err = mem_host_mmap(h, fd, 0);
	if (err)
		goto close_fd;
	if (fcntl(fd, F_ADD_SEALS, MEM_HOST_SEALS)) {
		err = -errno;
		goto unmap;
	}
	h->reg.fd = fd;
	if (mfd_flags & MFD_HUGETLB)
		h->reg.flags |= MEM_HUGE;
	return 0;

unmap:
	munmap(h->map, h->map_bytes);
	h->map = NULL;
close_fd:
	close(fd);
	return err;
}

int mem_host_memfd(const char *name, uint64_t len, struct mem_region **reg)
{
	struct mem_host *h;
	int err = -ENOMEM;

	if (len == 0 || len > INT64_MAX || len > SIZE_MAX / 2)
		return -EINVAL;
	h = mem_host_alloc(len, MEM_READABLE | MEM_WRITABLE);
	if (!h)
		return -ENOMEM;
	/* Explicit huge pages when enough are free: the mapping reserves them or fails. */
	if (len % MEM_HOST_HUGE_BYTES == 0)
		err = mem_host_memfd_fill(h, name, MFD_HUGETLB);
	if (err) {
		err = mem_host_memfd_fill(h, name, 0);
		if (err) {
			free(h);
			return err;
		}
	}
	*reg = &h->reg;
	return 0;
}

/* What one guarded access needs. */
struct mem_host_op {
	void *dst;
	const void *src;
	size_t len;
	const void *peer; /* whichever of the two is theirs */
};

static int mem_host_copy(struct mem_guard *g, void *arg)
{
	const struct mem_host_op *op = arg;

	mem_guard_range(g, op->peer, op->len);
	memcpy(op->dst, op->src, op->len);
	return 0;
}

static int mem_host_peek(const struct mem_run *src, void *dst)
{
	const uint8_t *p = src->reg->base + src->off;
	struct mem_host_op op = {.dst = dst, .src = p, .len = src->len, .peer = p};

	if (src->reg->flags & MEM_PEER)
		return mem_guard_call(mem_host_copy, &op);
	memcpy(dst, p, src->len);
	return 0;
}

static int mem_host_poke(const struct mem_run *dst, const void *src)
{
	uint8_t *p = dst->reg->base + dst->off;
	struct mem_host_op op = {.dst = p, .src = src, .len = dst->len, .peer = p};

	if (dst->reg->flags & MEM_PEER)
		return mem_guard_call(mem_host_copy, &op);
	memcpy(p, src, dst->len);
	return 0;
}

static int mem_host_publish(struct mem_guard *g, void *arg)
{
	const struct mem_host_op *op = arg;
	const uint8_t *src = op->src;
	_Atomic uint64_t *cqe = op->dst;
	uint64_t half[2];

	mem_guard_range(g, op->peer, op->len);
	for (size_t at = 0; at < op->len; at += sizeof(half), cqe += 2) {
		memcpy(half, src + at, sizeof(half));
		atomic_store_explicit(&cqe[0], half[0], memory_order_relaxed);
		/*
		 * The phase is in the second half: whoever sees it flip sees the first half and
		 * the data.
		 */
		atomic_store_explicit(&cqe[1], half[1], memory_order_release);
	}
	return 0;
}

static int mem_host_poke_cqe(const struct mem_run *dst, const void *cqe)
{
	uint8_t *p = dst->reg->base + dst->off;
	struct mem_host_op op = {.dst = p, .src = cqe, .len = dst->len, .peer = p};

	/* The peer chose how its memory lies; an entry across two lines could not be published. */
	if ((uintptr_t)p % 16)
		return -EFAULT;
	return mem_guard_call(mem_host_publish, &op);
}

const struct mem_domain_ops mem_host_ops = {
	.name = "host",
	.peek = mem_host_peek,
	.poke = mem_host_poke,
	.poke_cqe = mem_host_poke_cqe,
};
