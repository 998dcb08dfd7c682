/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory for rings and buffers, see shm.h. Any thread; a struct shm belongs to its maker.
 */
/* tidy: no-test: every queue and buffer is one */
#include "client/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hugemap.h"
#include "client/conn.h"
#include "client/errmsg.h"

int shm_map(size_t bytes, const char *name, struct shm *s)
{
	size_t room = (bytes + 4095) & ~(size_t)4095;
	auto_close int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)room) < 0)
		return errmsg_set(-errno, "no shared memory of %zu bytes: %s", room,
				  strerror(errno));
	/* The daemon reads through a mapping; it need not fear that the file shrinks under it. */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	p = hugemap_shared(room, PROT_READ | PROT_WRITE, fd, 0);
	if (p == MAP_FAILED)
		return errmsg_set(-errno, "can't map %zu bytes of shared memory: %s", room,
				  strerror(errno));
	madvise(p, room, MADV_DONTFORK);
	*s = (struct shm){.ptr = p, .bytes = room, .fd = fd};
	fd = -1;
	return 0;
}

int shm_create(struct conn *c, size_t bytes, const char *name, struct shm *s, uint64_t deadline_ns)
{
	struct shm made;
	int err = shm_map(bytes, name, &made);

	if (err)
		return err;
	made.iova = conn_dev_iova(made.bytes);
	err = conn_dev_dma_map(
		c, &(struct conn_dma){.fd = made.fd, .iova = made.iova, .bytes = made.bytes},
		deadline_ns);
	if (err) {
		shm_destroy(&made);
		return err;
	}
	*s = made;
	return 0;
}

void shm_destroy(struct shm *s)
{
	if (!s->ptr)
		return;
	munmap(s->ptr, s->bytes);
	close(s->fd);
	s->ptr = NULL;
	s->fd = -1;
}
