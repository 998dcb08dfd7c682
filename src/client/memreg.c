/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering memory, peal_mem_...() of peal.h; memreg.h says who owns what. Unregistering waits
 * for the daemon's answer, which comes when it has stopped using the memory. Any thread.
 */
#include "client/memreg.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/call.h"
#include "client/errmsg.h"
#include "client/keeper.h"

#define MEMREG_PAGE 4096u
#define MEMREG_POLL_MS 2

static int memreg_map(struct conn *c, const struct peal_mem *m, uint64_t deadline_ns)
{
	struct conn_dma d = {.fd = m->fd, .offset = m->offset, .iova = m->iova, .bytes = m->bytes};

	return conn_dev_dma_map(c, &d, deadline_ns);
}

int memreg_map_all(struct peal *p, struct conn *c, uint64_t deadline_ns)
{
	struct peal_mem *m;

	list_for_each_entry(m, &p->mems, node) {
		m->map_err = memreg_map(c, m, deadline_ns);
		if (m->map_err == -ENOTCONN || m->map_err == -ETIMEDOUT)
			return m->map_err;
	}
	atomic_fetch_add(&p->mem_gen, 1);
	return 0;
}

/*
 * Tells the daemon, if there is one now. If there is none, or it goes away meanwhile, the next one
 * is told when it comes.
 */
static int memreg_tell(struct peal *p, const struct peal_mem *m)
{
	int err = 0;
	struct conn *c = call_conn(p, &err);

	if (c) {
		err = memreg_map(c, m, call_deadline(p, 0));
		if (err && conn_is_dead(c))
			err = -ENOTCONN;
		conn_put(c);
	}
	return err == -ENOTCONN && !p->opts.no_reconnect ? 0 : err;
}

void memreg_put(struct peal_mem *m)
{
	if (atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (m->is_ours)
		munmap(m->ptr, m->bytes);
	close(m->fd);
	free(m);
}

void memreg_free_all(struct peal *p)
{
	struct peal_mem *m, *tmp;

	list_for_each_entry_safe(m, tmp, &p->mems, node) {
		list_del(&m->node);
		memreg_put(m);
	}
}

/* Takes `made` over when it succeeds. */
static int memreg_add(struct peal *p, const struct peal_mem *made, struct peal_mem **out)
{
	struct peal_mem *m = malloc(sizeof(*m));
	int err;

	if (!m)
		return errmsg_set(-ENOMEM, "no memory to register memory");
	*m = *made;
	m->p = p;
	m->iova = conn_dev_iova(m->bytes);
	atomic_init(&m->refs, 1);
	atomic_init(&m->nr_under_way, 0);
	pthread_mutex_lock(&p->mem_lock);
	err = memreg_tell(p, m);
	if (!err) {
		list_add_tail(&p->mems, &m->node);
		atomic_fetch_add(&p->mem_gen, 1);
	}
	pthread_mutex_unlock(&p->mem_lock);
	if (err) {
		free(m);
		return err;
	}
	*out = m;
	return 0;
}

int peal_mem_alloc(struct peal *p, size_t bytes, struct peal_mem **m)
{
	struct peal_mem made = {.is_ours = true};
	struct shm s;
	int err;

	if (!bytes)
		return errmsg_set(-EINVAL, "memory of 0 bytes");
	err = shm_map(bytes, "peal-mem", &s);
	if (err)
		return err;
	/* The caller's to use as any memory, in a child too. */
	madvise(s.ptr, s.bytes, MADV_DOFORK);
	made.ptr = s.ptr;
	made.bytes = s.bytes;
	made.fd = s.fd;
	err = memreg_add(p, &made, m);
	if (err)
		shm_destroy(&s);
	return err;
}

int peal_mem_register(struct peal *p, int fd, uint64_t offset, void *addr, size_t bytes,
		      struct peal_mem **m) /* tidy: what mmap() takes */
{
	struct peal_mem made = {.ptr = addr, .bytes = bytes, .offset = offset};
	int err;

	if (!bytes || bytes % MEMREG_PAGE || offset % MEMREG_PAGE || (uintptr_t)addr % MEMREG_PAGE)
		return errmsg_set(
			-EINVAL,
			"registering %zu bytes at %p, offset %llu: expected multiples of %u", bytes,
			addr, (unsigned long long)offset, MEMREG_PAGE);
	made.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (made.fd < 0)
		return errmsg_set(-errno, "can't dup descriptor %d: %s", fd, strerror(errno));
	err = memreg_add(p, &made, m);
	if (err)
		close(made.fd);
	return err;
}

void *peal_mem_ptr(const struct peal_mem *m)
{
	return m->ptr;
}

size_t peal_mem_bytes(const struct peal_mem *m)
{
	return m->bytes;
}

/*
 * The daemon answers an unmap when it has stopped using the memory: that is the wait, and it has
 * no end while requests are under way and the daemon is alive. With none it is a courtesy.
 */
static int memreg_unmap(struct peal *p, struct peal_mem *m)
{
	bool is_used = atomic_load_explicit(&m->nr_under_way, memory_order_acquire) > 0;
	int err = 0;
	struct conn *c = call_conn(p, &err);

	if (err == -EPERM)
		return err;
	if (!c)
		return 0; /* the daemon that knew it is dead */
	err = conn_dev_dma_unmap(c, m->iova, m->bytes, is_used ? WIRE_NEVER : call_deadline(p, 0));
	while (err && is_used && !conn_is_dead(c)) {
		poll(NULL, 0, MEMREG_POLL_MS); /* a broken stream: until the daemon closes it */
		is_used = atomic_load_explicit(&m->nr_under_way, memory_order_acquire) > 0;
	}
	conn_put(c);
	return 0;
}

int peal_mem_free(struct peal *p, struct peal_mem *m)
{
	int err;

	if (!m)
		return 0;
	pthread_mutex_lock(&p->mem_lock);
	list_del(&m->node);
	atomic_fetch_add(&p->mem_gen, 1);
	err = memreg_unmap(p, m);
	pthread_mutex_unlock(&p->mem_lock);
	memreg_put(m);
	return err;
}
