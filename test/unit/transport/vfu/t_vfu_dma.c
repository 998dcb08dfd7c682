/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping: what is refused, overlaps, look-ups against a model, and the promise of DMA_UNMAP: its
 * answer comes when the last command that uses the region is over, and not before.
 */
#include "rig.h"

#include "transport/vfu/vfu_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/rng.h"

#define PAGE 4096ull

static int map(struct peer *p, const struct vfio_user_dma_map *m, int fd)
{
	return peer_ask(p, &(struct peer_msg){.cmd = VFIO_USER_DMA_MAP,
					      .data = m,
					      .len = sizeof(*m),
					      .fds = &fd,
					      .nr_fds = fd >= 0});
}

static void test_refused(void **state)
{
	struct rig r = {0};
	struct peer p;
	const uint64_t at = 0x1000;
	const struct {
		struct vfio_user_dma_map m;
		int err;
	} bad[] = {
		{{32, 4, 0, at, PAGE}, EINVAL},
		{{32, UINT32_MAX, 0, at, PAGE}, EINVAL},
		{{32, 3, 0, at, 0}, EINVAL},
		{{32, 3, 0, at, 100}, EINVAL},
		{{32, 3, 0, at + 8, PAGE}, EINVAL},
		{{32, 3, 8, at, PAGE}, EINVAL},
		{{32, 3, 0, UINT64_MAX - PAGE + 1, 2 * PAGE}, EINVAL},
		{{32, 3, UINT64_MAX - PAGE + 1, at, 2 * PAGE}, EINVAL},
		{{32, 3, 0, RIG_IOVA, PAGE}, EEXIST},
		{{32, 3, 0, RIG_IOVA - PAGE, 2 * PAGE}, EEXIST},
		{{32, 3, 0, RIG_IOVA + RIG_MEM_BYTES - PAGE, 2 * PAGE}, EEXIST},
		{{32, 3, 0, 0, 1ull << 63}, EEXIST},
	};

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(map(&p, &bad[i].m, p.mem_fd), bad[i].err);
	/* a size that no address space has room for, and one that ends at the very top */
	assert_true(map(&p, &(struct vfio_user_dma_map){32, 3, 0, 1ull << 40, 1ull << 50},
			p.mem_fd) > 0);
	assert_int_equal(map(&p, &(struct vfio_user_dma_map){32, 3, 0, UINT64_MAX - PAGE + 1, PAGE},
			     p.mem_fd),
			 0);
	assert_int_equal(peer_unmap(&p, UINT64_MAX - PAGE + 1, PAGE), 0);

	assert_int_equal(peer_unmap(&p, RIG_IOVA, PAGE), ENOENT);
	assert_int_equal(peer_unmap(&p, RIG_IOVA + PAGE, RIG_MEM_BYTES), ENOENT);
	assert_int_equal(peer_unmap(&p, 0, 0), ENOENT);
	assert_int_equal(peer_call(&p, VFIO_USER_DMA_UNMAP, &bad[0].m, 23), EINVAL);
	struct vfio_user_dma_unmap u = {24, 1, RIG_IOVA, RIG_MEM_BYTES};

	assert_int_equal(peer_call(&p, VFIO_USER_DMA_UNMAP, &u, 24), ENOTSUP); /* dirty bitmap */
	u.flags = 0;
	assert_int_equal(peer_call(&p, VFIO_USER_DMA_UNMAP, &u, 24), 0);
	assert_int_equal(p.hdr.size, 16 + 24);
	assert_memory_equal(p.rx, &u, 24);
	peer_close(&p);
	rig_fini(&r);
}

static void test_descriptors(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct vfio_user_dma_map ok = {32, 3, 0, 0x1000, PAGE};
	int fds[2], pipes[2];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), ro;
	int efd = eventfd(0, EFD_CLOEXEC);

	rig_init(&r, 2, NULL);
	r.nr_fds -= 2;
	peer_open(&r, &p, PEER_STOCK);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(map(&p, &ok, null), ENOTSUP);
	assert_int_equal(map(&p, &ok, pipes[0]), ENOTSUP);
	assert_int_equal(map(&p, &ok, p.fd), ENOTSUP);
	assert_int_equal(map(&p, &ok, efd), ENOTSUP);
	ro = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(map(&p, &ok, ro) > 0);
	fds[0] = p.mem_fd;
	fds[1] = efd;
	assert_int_equal(
		peer_ask(&p, &(struct peer_msg){VFIO_USER_DMA_MAP, 0, &ok, sizeof(ok), fds, 2}),
		EINVAL);
	assert_int_equal(peer_ask(&p, &(struct peer_msg){VFIO_USER_DMA_MAP, 0, &ok, 31, fds, 1}),
			 EINVAL);
	close(null);
	close(ro);
	close(efd);
	close(pipes[0]);
	close(pipes[1]);
	peer_close(&p);
	rig_fini(&r);
}

static void test_unmap_all(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct vfio_user_dma_unmap u = {24, VFIO_USER_DMA_UNMAP_ALL, 0, 0};

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	assert_int_equal(peer_map(&p, -1, 0, 0, PAGE), 0); /* a ROM: no descriptor */
	u.addr = 1;
	assert_int_equal(peer_call(&p, VFIO_USER_DMA_UNMAP, &u, 24), EINVAL);
	u.addr = 0;
	assert_int_equal(peer_call(&p, VFIO_USER_DMA_UNMAP, &u, 24), 0);
	assert_int_equal(peer_call(&p, VFIO_USER_DMA_UNMAP, &u, 24), 0); /* nothing left */
	assert_int_equal(peer_map(&p, p.mem_fd, 0, RIG_IOVA, RIG_MEM_BYTES), 0);
	peer_close(&p);
	peer_connect(&r, &p); /* nothing was ever there */
	assert_int_equal(peer_call(&p, VFIO_USER_VERSION, "\0\0\1\0", 4), 0);
	assert_int_equal(peer_call(&p, VFIO_USER_DMA_UNMAP, &u, 24), 0);
	peer_close(&p);
	rig_fini(&r);
}

static void test_bound(void **state)
{
	struct rig r = {0};
	struct peer p;
	int err = 0;
	unsigned nr;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (nr = 0; nr < 5000 && !err; nr++)
		err = peer_map(&p, -1, 0, nr * 2 * PAGE, PAGE);
	assert_int_equal(err, ENOSPC);
	assert_int_equal(nr, 4096);
	assert_int_equal(peer_unmap(&p, 2 * PAGE, PAGE), 0);
	assert_int_equal(peer_map(&p, -1, 0, 2 * PAGE, PAGE), 0);
	peer_close(&p);
	rig_fini(&r);
}

/* Nobody takes all mappings or all addresses of the process. */
static void test_shares(void **state)
{
	struct rig r = {0};
	struct peer p, other;
	struct vfu *v;
	int fd = memfd_create("sparse", MFD_CLOEXEC), err = 0;
	unsigned nr;

	rig_init(&r, 1, &(struct vfu_opts){.max_clients = 1024});
	r.nr_fds--;
	v = container_of(r.tr, struct vfu, tr);
	assert_true(v->mapped_max > 1000);
	peer_open(&r, &p, PEER_STOCK);
	peer_open(&r, &other, PEER_STOCK);
	/* addresses: a share of 64 GiB, of which RIG_MEM_BYTES are taken */
	assert_int_equal(ftruncate(fd, 1ll << 36), 0);
	assert_int_equal(peer_map(&p, fd, 0, 1ull << 40, 1ull << 36), ENOSPC);
	assert_int_equal(peer_map(&p, fd, 0, 1ull << 40, (1ull << 36) - RIG_MEM_BYTES), 0);
	assert_int_equal(peer_map(&p, fd, 0, 0, PAGE), ENOSPC);
	assert_int_equal(peer_unmap(&p, 1ull << 40, (1ull << 36) - RIG_MEM_BYTES), 0);
	assert_int_equal(peer_map(&p, fd, 0, 0, PAGE), 0);
	assert_int_equal(peer_unmap(&p, 0, PAGE), 0);
	/* mappings */
	v->mapped_max = 20;
	for (nr = 1; nr < 100 && !err; nr++)
		err = peer_map(&p, fd, 0, nr * 2 * PAGE, PAGE);
	assert_int_equal(err, ENOSPC);
	assert_int_equal(v->nr_mapped, 20);
	for (nr = 1, err = 0; nr < 100 && !err; nr++)
		err = peer_map(&other, fd, 0, nr * 2 * PAGE, PAGE);
	assert_int_equal(err, ENOSPC);
	assert_int_equal(nr, VFU_MAPS_SURE_ALL / 1024 + 1);
	assert_int_equal(peer_map(&p, -1, 0, 0x10000000, PAGE), 0); /* takes none */
	close(fd);
	peer_close(&p);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 1);
	assert_int_equal(v->nr_mapped, VFU_MAPS_SURE_ALL / 1024);
	peer_close(&other);
	rig_fini(&r);
}

/* What a command sees is what the model says: mapped, not mapped, without descriptor, read-only. */
static void test_model(void **state)
{
	enum { SLOTS = 64 };
	struct rig r = {0};
	struct peer p;
	struct rng rng;
	struct {
		bool is_mapped, has_fd;
		uint32_t flags;
	} model[SLOTS] = {0};

	rng_init(&rng, unit_seed(4));
	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 16), 0);
	assert_int_equal(peer_queue(&p, 2, 16), 0);
	for (int i = 0; i < 2000; i++) {
		unsigned s = (unsigned)rng_below(&rng, SLOTS);
		uint64_t iova = 0x1000000ull + s * PAGE;
		uint16_t qid = (uint16_t)(1 + rng_below(&rng, 2));

		if (rng_chance(&rng, 1, 4)) {
			if (model[s].is_mapped) {
				assert_int_equal(peer_unmap(&p, iova, PAGE), 0);
				model[s].is_mapped = false;
				continue;
			}
			model[s].is_mapped = true;
			model[s].has_fd = rng_chance(&rng, 3, 4);
			model[s].flags = (uint32_t)rng_below(&rng, 4);
			assert_int_equal(map(&p,
					     &(struct vfio_user_dma_map){32, model[s].flags,
									 RIG_DATA + s * PAGE, iova,
									 PAGE},
					     model[s].has_fd ? p.mem_fd : -1),
					 0);
			continue;
		}
		bool is_read = rng_chance(&rng, 1, 2);
		struct nvme_sqe sqe = peer_read_sqe(1, 0, 4096, (uint32_t)i);
		struct nvme_cqe cqe;
		bool want = model[s].is_mapped && model[s].has_fd &&
			    model[s].flags &
				    (is_read ? VFIO_USER_DMA_WRITABLE : VFIO_USER_DMA_READABLE);

		sqe.sgl.addr = iova;
		if (!is_read) {
			sqe.opc = RIG_WRITE;
			for (uint32_t j = 0; j < 4096; j++)
				p.mem[RIG_DATA + s * PAGE + j] = rig_byte((uint32_t)i, j);
		}
		peer_submit(&p, qid, &sqe);
		peer_ring(&p, qid);
		cqe = peer_wait(&p, qid);
		assert_int_equal(cqe.status >> 1 & 0x7ff,
				 want ? NVME_ST_OK : NVME_ST_DATA_TRANSFER);
		if (want && is_read)
			peer_check_data(&p, RIG_DATA + s * PAGE, 4096, (uint32_t)i);
		else if (want)
			assert_int_equal(cqe.dw0, 0);
	}
	peer_close(&p);
	rig_fini(&r);
}

/* The answer to DMA_UNMAP waits for the command; commands elsewhere and other clients go on. */
static void test_unmap_under_io(void **state)
{
	struct rig r = {0};
	struct peer p, other;
	struct nvme_sqe sqe = peer_read_sqe(5, 0, 8192, 9);
	struct vfio_user_dma_unmap u = {24, 0, 0x1000000, 2 * PAGE};
	struct peer_msg m = {.cmd = VFIO_USER_DMA_UNMAP, .data = &u, .len = sizeof(u)};
	struct nvme_cqe cqe;

	rig_init(&r, 3, NULL);
	peer_open(&r, &p, PEER_PEAL);
	peer_open(&r, &other, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 16), 0);
	assert_int_equal(peer_queue(&p, 2, 16), 0);
	assert_int_equal(peer_map(&p, p.mem_fd, RIG_DATA, 0x1000000, 2 * PAGE), 0);
	/* an AER waits for ever and must not count */
	struct nvme_sqe aer = {.opc = 0x0c, .cid = 77};

	peer_submit(&p, 0, &aer);
	peer_ring(&p, 0);
	rig_steps(&r, 5);

	r.is_held = true;
	sqe.sgl.addr = 0x1000000;
	peer_submit(&p, 1, &sqe);
	peer_ring(&p, 1);
	rig_until(&r, r.nr_held == 1);
	peer_send(&p, &m);
	p.rx_len = 0;
	rig_steps(&r, 200);
	assert_false(peer_try_recv(&p));
	/* the region is gone for new commands, while the old one still has it */
	r.is_held = false;
	sqe.cid = 6;
	peer_submit(&p, 2, &sqe);
	peer_ring(&p, 2);
	cqe = peer_wait(&p, 2);
	assert_int_equal(cqe.status >> 1 & 0x7ff, NVME_ST_DATA_TRANSFER);
	peer_reg(&other, 0, 8);
	assert_false(peer_try_recv(&p));

	rig_let_go(&r, NVME_ST_OK);
	cqe = peer_wait(&p, 1);
	assert_int_equal(cqe.cid, 5);
	assert_int_equal(cqe.status >> 1, NVME_ST_OK);
	peer_check_data(&p, RIG_DATA, 8192, 9);
	assert_int_equal(peer_recv(&p), 0);
	assert_memory_equal(p.rx, &u, sizeof(u));
	peer_close(&p);
	peer_close(&other);
	rig_fini(&r);
}

/* A command that began before three changes of the map keeps what it saw; all goes in the end. */
static void test_old_snapshots(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe sqe = peer_read_sqe(1, RIG_DATA, 4096, 3);

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 16), 0);
	r.is_held = true;
	for (uint16_t i = 0; i < 4; i++) {
		sqe.cid = i;
		sqe.sgl.addr = RIG_IOVA + RIG_DATA + i * 4096;
		peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		rig_until(&r, r.nr_held == i + 1u);
		assert_int_equal(peer_map(&p, p.mem_fd, 0, (i + 1) * PAGE, PAGE), 0);
	}
	rig_let_go(&r, NVME_ST_OK);
	for (int i = 0; i < 4; i++)
		assert_int_equal(peer_wait(&p, 1).status >> 1, NVME_ST_OK);
	for (uint32_t i = 0; i < 4; i++)
		peer_check_data(&p, RIG_DATA + i * 4096, 4096, 3);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(peer_unmap(&p, (i + 1) * PAGE, PAGE), 0);
	peer_close(&p);
	rig_fini(&r);
}

/*
 * A file shorter than its mapping, and one that is punched or cut while mapped: that command
 * fails.
 */
static void test_short_file(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe sqe = peer_read_sqe(1, 0, 8192, 3);
	int fd = memfd_create("short", MFD_CLOEXEC);

	rig_init(&r, 1, NULL);
	r.nr_fds--;
	assert_int_equal(ftruncate(fd, PAGE), 0);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	assert_int_equal(peer_queue(&p, 1, 16), 0);
	assert_int_equal(peer_map(&p, fd, 0, 0x1000000, 16 * PAGE), 0);
	for (int i = 0; i < 3; i++) {
		sqe.sgl.addr = 0x1000000;
		sqe.opc = i == 1 ? RIG_WRITE : RIG_READ;
		peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		assert_int_equal(peer_wait(&p, 1).status >> 1 & 0x7ff, NVME_ST_DATA_TRANSFER);
	}
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	sqe.opc = RIG_READ;
	peer_submit(&p, 1, &sqe);
	peer_ring(&p, 1);
	assert_int_equal(peer_wait(&p, 1).status >> 1, NVME_ST_OK);
	close(fd);
	peer_close(&p);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),	       cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_unmap_all),      cmocka_unit_test(test_bound),
		cmocka_unit_test(test_shares),	       cmocka_unit_test(test_model),
		cmocka_unit_test(test_unmap_under_io), cmocka_unit_test(test_old_snapshots),
		cmocka_unit_test(test_short_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
