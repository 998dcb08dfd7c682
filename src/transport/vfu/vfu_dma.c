/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's memory as it told us: DMA_MAP and DMA_UNMAP, and the look-up of a bus address.
 *
 * The home reactor owns the list. Each change makes a new immutable snapshot of it, sorted by
 * address, which a round hands to all workers; a look-up is a compare with the last hit, else a
 * binary search, and takes no lock. A request pins the snapshot of its worker when it first looks
 * something up (an AER never does, so it holds no memory back) and lets go when it is answered.
 * Rings are looked up for every burst, within one turn, unpinned: firmware moves memory under live
 * queues.
 *
 * A replaced snapshot goes when the last pin on each worker has gone; a mapping goes with the last
 * snapshot that has it; only then is DMA_UNMAP answered (vfio-user, VFIO_USER_DMA_UNMAP: "must
 * release all references to that DMA region before replying").
 *
 * Nothing here trusts the descriptor: a file that is shorter than the mapping, or gets shorter,
 * faults inside mem/'s guard. It must be a file of memory: a page of any other comes from somebody
 * who may be slow, or never answer, and every client waits meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "core/fd_drop.h"
#include "transport/vfu/vfu_int.h"

#define VFU_DMA_PAGE 4096u

static struct vfu_ent *vfu_dma_find(struct vfu_snap *s, uint64_t addr)
{
	uint32_t lo = 0, hi = s->nr;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (addr < s->e[mid].addr)
			hi = mid;
		else if (addr - s->e[mid].addr >= s->e[mid].len)
			lo = mid + 1;
		else
			return &s->e[mid];
	}
	return NULL;
}

int vfu_dma_run(struct vfu_snap *s, uint32_t *hit, uint32_t flags, struct mem_run *run)
{
	uint64_t addr = run->off, in;
	struct vfu_ent *e;

	if (unlikely(!s))
		return -EFAULT;
	if (*hit < s->nr && addr - s->e[*hit].addr < s->e[*hit].len) {
		e = &s->e[*hit];
	} else {
		e = vfu_dma_find(s, addr);
		if (!e)
			return -EFAULT;
		*hit = (uint32_t)(e - s->e);
	}
	if (!e->reg || (e->flags & flags) != flags)
		return -EFAULT;
	in = addr - e->addr;
	run->reg = e->reg;
	run->off = in;
	if (run->len > e->len - in)
		run->len = e->len - in;
	return 0;
}

/* Index of the first map that ends behind addr. */
static uint32_t vfu_dma_lower(const struct vfu_dev *d, uint64_t addr)
{
	uint32_t lo = 0, hi = d->nr_maps;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (d->maps[mid]->addr + d->maps[mid]->len - 1 < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Home: is all of it mapped that way? For rings when they are made. */
bool vfu_dma_covers(struct vfu_dev *d, uint64_t addr, uint64_t len, uint32_t flags)
{
	if (len == 0 || addr + len - 1 < addr)
		return false;
	for (uint32_t i = vfu_dma_lower(d, addr); i < d->nr_maps; i++) {
		const struct vfu_map *m = d->maps[i];

		if (addr < m->addr || !m->reg || (m->flags & flags) != flags)
			return false;
		if (addr + (len - 1) <= m->addr + (m->len - 1))
			return true;
		len -= m->len - (addr - m->addr);
		addr = m->addr + m->len;
	}
	return false;
}

/* ---- snapshots ---- */

static void vfu_dma_map_free(struct vfu_dev *d, struct vfu_map *m)
{
	vfu_must_home(d->vfu);
	if (m->reg) {
		mem_region_put(m->reg);
		d->vfu->nr_mapped--;
		d->nr_mapped--;
		d->mapped_bytes -= m->len;
	}
	free(m);
}

static void vfu_dma_map_put(struct vfu_dev *d, struct vfu_map *m)
{
	must(m->nr_snaps > 0);
	if (--m->nr_snaps)
		return;
	vfu_dma_map_free(d, m);
	must(d->nr_dying > 0);
	d->nr_dying--;
}

static void vfu_dma_snap_free(struct vfu_snap *s)
{
	struct vfu_dev *d = s->dev;

	for (uint32_t i = 0; i < s->nr; i++)
		vfu_dma_map_put(d, s->e[i].map);
	d->nr_snaps--;
	free(s->pin);
	free(s);
}

static void vfu_dma_released(struct mbox_msg *msg)
{
	struct vfu_snap *s = container_of(msg, struct vfu_pin, msg)->snap;
	struct vfu_dev *d = s->dev;

	if (++s->nr_gone < d->vfu->node->nr)
		return;
	vfu_dma_snap_free(s);
	vfu_dev_settle(d);
}

static void vfu_dma_release(struct vfu_worker *w, struct vfu_pin *pin)
{
	pin->msg.fn = vfu_dma_released;
	reactor_send(w->tw->reactor, vfu_home_reactor(w->vfu), &pin->msg);
}

void vfu_dma_unpin(struct vfu_worker *w, struct vfu_snap *s)
{
	struct vfu_pin *pin = &s->pin[w->id];

	must(pin->nr > 0);
	if (--pin->nr == 0 && pin->is_old)
		vfu_dma_release(w, pin);
}

void vfu_dma_view(struct vfu_dev *d, struct vfu_worker *w)
{
	struct vfu_snap *old = d->view[w->id].snap;

	if (old == d->snap)
		return;
	d->view[w->id].snap = d->snap;
	list_splice_tail(&w->dirty, &d->view[w->id].stuck);
	if (!old)
		return;
	old->pin[w->id].is_old = true;
	if (old->pin[w->id].nr == 0)
		vfu_dma_release(w, &old->pin[w->id]);
}

/* Makes d->snap from the list. */
static int vfu_dma_snap_create(struct vfu_dev *d)
{
	unsigned nr = d->vfu->node->nr;
	struct vfu_snap *s = malloc(sizeof(*s) + d->nr_maps * sizeof(s->e[0]));

	if (!s)
		return -ENOMEM;
	s->pin = aligned_alloc(64, nr * sizeof(s->pin[0]));
	if (!s->pin) {
		free(s);
		return -ENOMEM;
	}
	memset(s->pin, 0, nr * sizeof(s->pin[0]));
	for (unsigned i = 0; i < nr; i++)
		s->pin[i].snap = s;
	s->dev = d;
	s->nr_gone = 0;
	s->nr = d->nr_maps;
	for (uint32_t i = 0; i < s->nr; i++) {
		struct vfu_map *m = d->maps[i];

		s->e[i] = (struct vfu_ent){m->addr, m->len, m->reg, m->flags, m};
		m->nr_snaps++;
	}
	d->nr_snaps++;
	d->snap = s;
	return 0;
}

/* ---- map and unmap ---- */

static int vfu_dma_check_map(const struct vfu_dev *d, const struct vfio_user_dma_map *m)
{
	uint32_t at;

	if (m->flags & ~(VFIO_USER_DMA_READABLE | VFIO_USER_DMA_WRITABLE))
		return -EINVAL;
	if (m->size == 0 || m->addr + (m->size - 1) < m->addr ||
	    m->offset + (m->size - 1) < m->offset)
		return -EINVAL;
	if ((m->addr | m->size | m->offset) & (VFU_DMA_PAGE - 1))
		return -EINVAL;
	at = vfu_dma_lower(d, m->addr);
	if (at < d->nr_maps && d->maps[at]->addr <= m->addr + (m->size - 1))
		return -EEXIST;
	if (d->nr_maps + d->nr_dying >= VFU_MAPS_MAX)
		return -ENOSPC;
	return 0;
}

/* Mappings and addresses are the whole process's: who takes all would take them from the others. */
static int vfu_dma_check_share(const struct vfu_dev *d, uint64_t len)
{
	const struct vfu *v = d->vfu;

	if (v->nr_mapped >= v->mapped_max && d->nr_mapped >= VFU_MAPS_SURE_ALL / v->max_clients)
		return -ENOSPC;
	if (len > VFU_MAP_BYTES_ALL / v->max_clients - d->mapped_bytes)
		return -ENOSPC;
	return 0;
}

static int vfu_dma_check_fd(int fd)
{
	struct stat st;

	/* In this order: to ask a file of FUSE for its mode is to wait for its server. */
	if (!fd_drop_is_memory(fd))
		return -ENOTSUP;
	if (fstat(fd, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -ENOTSUP;
}

static int vfu_dma_open(struct vfu_dev *d, const struct vfio_user_dma_map *m, int fd,
			struct vfu_map **map)
{
	struct vfu_map *p;
	int err;

	vfu_must_home(d->vfu);
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->addr = m->addr;
	p->len = m->size;
	if (m->flags & VFIO_USER_DMA_READABLE)
		p->flags |= MEM_READABLE;
	if (m->flags & VFIO_USER_DMA_WRITABLE)
		p->flags |= MEM_WRITABLE;
	if (fd >= 0 && p->flags) {
		err = vfu_dma_check_fd(fd);
		if (!err)
			err = vfu_dma_check_share(d, m->size);
		if (!err)
			err = mem_host_map(fd, m->offset, m->size, p->flags | MEM_PEER, &p->reg);
		if (err) {
			free(p);
			return err;
		}
		d->vfu->nr_mapped++;
		d->nr_mapped++;
		d->mapped_bytes += p->len;
	}
	*map = p;
	return 0;
}

/*
 * Without a descriptor the region is known, for overlaps, and can't be reached: DMA_READ and
 * DMA_WRITE over the socket are not spoken. QEMU's ROM and device regions come so.
 */
int vfu_dma_map(struct vfu_dev *d, const struct vfio_user_dma_map *m, int fd)
{
	struct vfu_map *map = NULL;
	uint32_t at;
	int err;

	err = vfu_dma_check_map(d, m);
	if (err)
		return err;
	if (!d->maps)
		d->maps = calloc(VFU_MAPS_MAX, sizeof(struct vfu_map *));
	if (!d->maps)
		return -ENOMEM;
	err = vfu_dma_open(d, m, fd, &map);
	if (err)
		return err;
	at = vfu_dma_lower(d, m->addr);
	memmove(&d->maps[at + 1], &d->maps[at], (d->nr_maps - at) * sizeof(struct vfu_map *));
	d->maps[at] = map;
	d->nr_maps++;
	err = vfu_dma_snap_create(d);
	if (!err)
		return 0;
	d->nr_maps--;
	memmove(&d->maps[at], &d->maps[at + 1], (d->nr_maps - at) * sizeof(struct vfu_map *));
	vfu_dma_map_free(d, map);
	return err;
}

int vfu_dma_unmap(struct vfu_dev *d, const struct vfio_user_dma_unmap *m)
{
	uint32_t at = 0, nr = d->nr_maps, nr_old = d->nr_maps;
	struct vfu_map *map = NULL;
	int err;

	if (m->flags & ~VFIO_USER_DMA_UNMAP_ALL)
		return -ENOTSUP;
	if (m->flags & VFIO_USER_DMA_UNMAP_ALL) {
		if (m->addr || m->size)
			return -EINVAL;
		if (nr == 0)
			return 0; /* maps[] may not even be there */
	} else {
		at = vfu_dma_lower(d, m->addr);
		if (at == d->nr_maps || d->maps[at]->addr != m->addr || d->maps[at]->len != m->size)
			return -ENOENT;
		map = d->maps[at];
		nr = 1;
	}
	memmove(&d->maps[at], &d->maps[at + nr], (nr_old - at - nr) * sizeof(struct vfu_map *));
	d->nr_maps -= nr;
	err = vfu_dma_snap_create(d);
	if (err && map) {
		memmove(&d->maps[at + 1], &d->maps[at],
			(nr_old - at - 1) * sizeof(struct vfu_map *));
		d->maps[at] = map;
	}
	if (err) {
		d->nr_maps = nr_old;
		return err;
	}
	d->nr_dying += nr;
	return 0;
}

void vfu_dma_unmap_all(struct vfu_dev *d)
{
	d->nr_dying += d->nr_maps;
	d->nr_maps = 0;
	d->snap = NULL;
	free(d->maps);
	d->maps = NULL;
}
