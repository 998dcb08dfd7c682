/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions over the socket: what GET_REGION_INFO says and hands out, reads and writes of every size
 * and alignment, WRITE_MULTI.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/rng.h"

static int info(struct peer *p, uint32_t index, uint32_t argsz, struct vfio_region_info *out)
{
	struct vfio_region_info in = {.argsz = argsz, .index = index};
	int err = peer_call(p, VFIO_USER_DEVICE_GET_REGION_INFO, &in, sizeof(in));

	memset(out, 0, sizeof(*out));
	if (!err)
		memcpy(out, p->rx, sizeof(*out));
	return err;
}

static int access_region(struct peer *p, uint16_t cmd, const struct vfio_user_region_access *a,
			 const void *data, uint32_t len)
{
	uint8_t buf[sizeof(*a) + 8192];

	memcpy(buf, a, sizeof(*a));
	if (len)
		memcpy(buf + sizeof(*a), data, len);
	return peer_call(p, cmd, buf, (uint32_t)sizeof(*a) + len);
}

static int rd(struct peer *p, uint32_t region, uint64_t off, uint32_t len)
{
	struct vfio_user_region_access a = {off, region, len};

	return access_region(p, VFIO_USER_REGION_READ, &a, NULL, 0);
}

static int wr(struct peer *p, uint32_t region, uint64_t off, const void *data, uint32_t len)
{
	struct vfio_user_region_access a = {off, region, len};

	return access_region(p, VFIO_USER_REGION_WRITE, &a, data, len);
}

static void test_info_stock(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct vfio_region_info i;
	struct vfio_region_info_cap_sparse_mmap *cap;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (uint32_t n = 0; n < VFIO_PCI_NUM_REGIONS; n++) {
		assert_int_equal(info(&p, n, 32, &i), 0);
		assert_int_equal(i.index, n);
		assert_int_equal(p.nr_fds, 0);
		assert_int_equal(p.hdr.size, 16 + 32);
		assert_int_equal(i.size, n == 0	  ? VFU_BAR0_BYTES
					 : n == 4 ? 0x2000
					 : n == 7 ? 4096
						  : 0);
		assert_int_equal(i.flags & 3, i.size ? 3 : 0);
	}
	/* BAR0 needs more room: says how much, then comes with its descriptor */
	assert_int_equal(info(&p, 0, 32, &i), 0);
	assert_true(i.argsz > 32);
	/* QEMU's check of a reply that it will ask for again */
	assert_true(i.flags & VFIO_REGION_INFO_FLAG_CAPS && i.cap_offset >= 32 &&
		    i.cap_offset <= i.argsz);
	assert_int_equal(info(&p, 0, i.argsz, &i), 0);
	assert_int_equal(p.hdr.size, 16 + i.argsz);
	assert_int_equal(p.nr_fds, 1);
	assert_int_equal(i.cap_offset, 32);
	cap = (void *)(p.rx + i.cap_offset);
	assert_int_equal(cap->header.id, VFIO_REGION_INFO_CAP_SPARSE_MMAP);
	assert_int_equal(cap->nr_areas, 1);
	assert_int_equal(cap->areas[0].offset, 0x1000);
	assert_int_equal(cap->areas[0].size, 0x1000);
	/* the client can't take it away under us */
	assert_int_equal(ftruncate(p.fds[0], 4096), -1);
	assert_int_equal(errno, EPERM);

	assert_int_equal(info(&p, VFIO_PCI_NUM_REGIONS, 4096, &i), EINVAL);
	assert_int_equal(info(&p, PEAL_REGION_ARENA, 4096, &i), EINVAL);
	assert_int_equal(info(&p, UINT32_MAX, 4096, &i), EINVAL);
	assert_int_equal(info(&p, 0, 31, &i), EINVAL);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_REGION_INFO, &i, 31), EINVAL);
	peer_close(&p);
	rig_fini(&r);
}

/* SPDK's host sends as many bytes as it has room for. */
static void test_info_spdk(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint8_t buf[4064] = {0};
	uint32_t argsz = sizeof(buf);

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	memcpy(buf, &argsz, 4);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_REGION_INFO, buf, sizeof(buf)), 0);
	assert_int_equal(p.nr_fds, 1);
	peer_close(&p);
	rig_fini(&r);
}

static void test_info_peal(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct vfio_region_info i;
	struct vfio_region_info_cap_sparse_mmap *cap;
	struct mem_region *seg;
	struct stat st;
	int n;

	rig_init(&r, 3, NULL);
	assert_int_equal(mem_host_memfd("segment", 1u << 20, &seg), 0);
	seg->base[12345] = 77;
	n = tgt_subsys_segment_add(r.ss, seg);
	assert_true(n >= 0);
	peer_open(&r, &p, PEER_PEAL);
	assert_int_equal(p.nr_bells, 3);
	assert_int_equal(info(&p, 0, 4096, &i), 0);
	assert_int_equal(p.nr_fds, 1 + 3);
	cap = (void *)(p.rx + i.cap_offset);
	assert_int_equal(cap->nr_areas, 2);
	assert_int_equal(cap->areas[0].size, VFU_DOORBELL_BYTES_STRIDE64);
	assert_int_equal(cap->areas[1].offset, VFU_WAKE_OFFSET);
	assert_int_equal(cap->areas[1].size, 0x1000);

	assert_int_equal(info(&p, PEAL_REGION_ARENA + (uint32_t)n, 4096, &i), 0);
	assert_int_equal(p.nr_fds, 1);
	assert_int_equal(i.size, 1u << 20);
	assert_int_equal(i.flags, VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_MMAP);
	assert_int_equal(fstat(p.fds[0], &st), 0);
	/* readable, and not writable in any way */
	uint8_t *map = mmap(NULL, 1u << 20, PROT_READ, MAP_SHARED, p.fds[0], 0);

	assert_true(map != MAP_FAILED);
	assert_int_equal(map[12345], 77);
	munmap(map, 1u << 20);
	assert_true(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, p.fds[0], 0) == MAP_FAILED);
	assert_true(pwrite(p.fds[0], "x", 1, 0) < 0);
	assert_int_equal(info(&p, PEAL_REGION_ARENA + (uint32_t)n + 1, 4096, &i), EINVAL);
	assert_int_equal(rd(&p, PEAL_REGION_ARENA + (uint32_t)n, 0, 4), EINVAL);
	peer_close(&p);
	tgt_subsys_segment_del(r.ss, (uint32_t)n);
	mem_region_put(seg);
	rig_fini(&r);
}

static void test_registers(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint64_t cap;
	uint8_t all[0x1000 + 16];

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	cap = peer_reg(&p, 0, 8);
	assert_int_equal(cap & 0xffff, TGT_MQES);
	assert_int_equal(cap >> 32 & 0xf, 0); /* DSTRD */
	assert_int_equal(peer_reg(&p, 8, 4), 0x00020000);
	/* the same bytes in any cut */
	assert_int_equal(rd(&p, 0, 0, sizeof(all)), 0);
	memcpy(all, p.rx + 16, sizeof(all));
	for (uint32_t off = 0; off < 0x40; off++) {
		for (uint32_t len = 1; len < 20; len++) {
			assert_int_equal(rd(&p, 0, off, len), 0);
			assert_memory_equal(p.rx + 16, all + off, len);
		}
	}
	/* writes as NVMe has them: whole dwords */
	uint64_t val = 0x1234000;

	assert_int_equal(wr(&p, 0, 0x28, &val, 8), 0);
	assert_int_equal(peer_reg(&p, 0x28, 8), val);
	assert_int_equal(wr(&p, 0, 0x30, &val, 4), 0);
	assert_int_equal(peer_reg(&p, 0x30, 4), val);
	assert_int_equal(wr(&p, 0, 0x29, &val, 4), EINVAL);
	assert_int_equal(wr(&p, 0, 0x28, &val, 3), EINVAL);
	assert_int_equal(wr(&p, 0, 0xffc, all, 8), EINVAL);
	peer_close(&p);
	peer_open(&r, &p, PEER_PEAL);
	assert_int_equal(peer_reg(&p, 0, 8) >> 32 & 0xf, 4);
	peer_close(&p);
	rig_fini(&r);
}

static void test_bounds(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint8_t data[16] = {0};
	const struct {
		uint32_t region;
		uint64_t off;
		uint32_t len;
	} bad[] = {
		{0, VFU_BAR0_BYTES, 4},
		{0, VFU_BAR0_BYTES - 2, 4},
		{0, UINT64_MAX, 4},
		{0, UINT64_MAX - 3, 4},
		{0, 0, 0},
		{1, 0, 4},
		{4, 0x2000, 1},
		{6, 0, 1},
		{7, 4096, 1},
		{7, 4093, 4},
		{8, 0, 4},
		{9, 0, 4},
		{16, 0, 4},
		{UINT32_MAX, 0, 4},
	};

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(rd(&p, bad[i].region, bad[i].off, bad[i].len), EINVAL);
		assert_int_equal(wr(&p, bad[i].region, bad[i].off, data, bad[i].len), EINVAL);
	}
	assert_int_equal(rd(&p, 0, 0, UINT32_MAX), EINVAL);
	/* more announced than sent */
	struct vfio_user_region_access a = {0, 7, 8};

	assert_int_equal(access_region(&p, VFIO_USER_REGION_WRITE, &a, data, 7), EINVAL);
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_WRITE, &a, 15), EINVAL);
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_READ, &a, 15), EINVAL);
	/* the MSI-X table is memory */
	assert_int_equal(wr(&p, 4, 16, "0123456789abcdef", 16), 0);
	assert_int_equal(rd(&p, 4, 20, 4), 0);
	assert_memory_equal(p.rx + 16, "4567", 4);
	peer_close(&p);
	rig_fini(&r);
}

/* A client that doesn't map BAR0 rings by message. */
static void test_doorbell_by_message(void **state)
{
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	for (uint16_t qid = 1; qid <= 2; qid++) {
		assert_int_equal(peer_queue(&p, qid, 16), 0);
		for (uint32_t i = 0; i < 40; i++) {
			struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cdw12 = i};

			peer_submit(&p, qid, &sqe);
			assert_int_equal(wr(&p, 0, peal_doorbell_offset(qid, 0, 4),
					    &p.q[qid].sq_tail, 4),
					 0);
			assert_int_equal(peer_wait(&p, qid).dw0, i);
		}
	}
	assert_int_equal(wr(&p, 0, 0x1002, "1234", 4), EINVAL);
	assert_int_equal(wr(&p, 0, 0x1008, "12345678", 8), EINVAL);
	assert_int_equal(wr(&p, 0, 0x1ffc, "\0\0\0\0", 4), 0);		/* no such queue */
	assert_int_equal(wr(&p, 0, VFU_WAKE_OFFSET, "\1\0\0\0", 4), 0); /* ignored */
	assert_int_equal(rd(&p, 0, VFU_WAKE_OFFSET, 4), 0);
	assert_memory_equal(p.rx + 16, "\0\0\0\0", 4);
	peer_close(&p);
	rig_fini(&r);
}

static void test_multi(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct {
		uint64_t nr;
		struct vfio_user_write_one w[3];
	} m = {3, {{0x28, 0, 8, {0, 0x10}}, {0x30, 0, 4, {0, 0x20}}, {0x3c, 7, 1, {9}}}};
	uint64_t nr;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_WRITE_MULTI, &m, sizeof(m)), 0);
	memcpy(&nr, p.rx, 8);
	assert_int_equal(nr, 3);
	assert_int_equal(peer_reg(&p, 0x28, 8), 0x1000);
	assert_int_equal(peer_reg(&p, 0x30, 4), 0x2000);
	assert_int_equal(rd(&p, 7, 0x3c, 1), 0);
	assert_int_equal(p.rx[16], 9);
	m.nr = 4;
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_WRITE_MULTI, &m, sizeof(m)), EINVAL);
	m.nr = UINT64_MAX;
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_WRITE_MULTI, &m, sizeof(m)), EINVAL);
	m.nr = 1;
	m.w[0].count = 9;
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_WRITE_MULTI, &m, sizeof(m)), EINVAL);
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_WRITE_MULTI, &m, 7), EINVAL);
	m.nr = 0;
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_WRITE_MULTI, &m, 8), 0);
	peer_close(&p);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_info_stock), cmocka_unit_test(test_info_spdk),
		cmocka_unit_test(test_info_peal),  cmocka_unit_test(test_registers),
		cmocka_unit_test(test_bounds),	   cmocka_unit_test(test_doorbell_by_message),
		cmocka_unit_test(test_multi),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
