/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration space as a driver probes it: identity, BAR sizing, the capability list, and
 * that nothing else can be written.
 */
#include "rig.h"

#include <linux/pci_regs.h>

#include "base/le.h"
#include "base/rng.h"

static uint32_t get(struct peer *p, uint32_t off, uint32_t len)
{
	struct vfio_user_region_access a = {off, VFIO_PCI_CONFIG_REGION_INDEX, len};
	uint32_t val = 0;

	assert_int_equal(peer_call(p, VFIO_USER_REGION_READ, &a, sizeof(a)), 0);
	memcpy(&val, p->rx + sizeof(a), len);
	return val;
}

static void set(struct peer *p, uint32_t off, uint32_t len, uint32_t val)
{
	uint8_t buf[20];
	struct vfio_user_region_access a = {off, VFIO_PCI_CONFIG_REGION_INDEX, len};

	memcpy(buf, &a, 16);
	memcpy(buf + 16, &val, 4);
	assert_int_equal(peer_call(p, VFIO_USER_REGION_WRITE, buf, 16 + len), 0);
}

static void test_identity(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint32_t id;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	id = get(&p, PCI_VENDOR_ID, 4);
	assert_true(id != 0x1f1f1d1d && id != 0x00101b36 && id != 0 && id != UINT32_MAX);
	assert_int_equal(get(&p, PCI_CLASS_REVISION, 4) >> 8, 0x010802);
	assert_int_equal(get(&p, PCI_HEADER_TYPE, 1), 0);
	assert_int_equal(get(&p, PCI_INTERRUPT_PIN, 1), 0);
	/* Identify Controller: VID and SSVID are those of the header (Base 2.0, figure 275) */
	peer_enable(&p);
	struct nvme_sqe sqe = {.opc = 6, .cdw10 = 1, .prp1 = RIG_IOVA + RIG_DATA};

	assert_int_equal(peer_admin(&p, &sqe, NULL), 0);
	assert_int_equal(le16_get(p.mem + RIG_DATA), id & 0xffff);
	assert_int_equal(le16_get(p.mem + RIG_DATA + 2), get(&p, PCI_SUBSYSTEM_VENDOR_ID, 2));
	peer_close(&p);
	rig_fini(&r);
}

static void test_bar_sizing(void **state)
{
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (uint32_t off = PCI_BASE_ADDRESS_0; off <= PCI_BASE_ADDRESS_5; off += 4)
		set(&p, off, 4, 0xffffffff);
	set(&p, PCI_ROM_ADDRESS, 4, 0xffffffff);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_0, 4), (uint32_t)-VFU_BAR0_BYTES | 4);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_1, 4), 0xffffffff);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_2, 4), 0);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_3, 4), 0);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_4, 4), 0xffffe000);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_5, 4), 0);
	assert_int_equal(get(&p, PCI_ROM_ADDRESS, 4), 0);
	set(&p, PCI_BASE_ADDRESS_0, 4, 0xfebf8123);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_0, 4), 0xfebf8004);
	/* bytes and words */
	set(&p, PCI_BASE_ADDRESS_0 + 2, 2, 0x1234);
	set(&p, PCI_BASE_ADDRESS_0 + 1, 1, 0xff);
	assert_int_equal(get(&p, PCI_BASE_ADDRESS_0, 4), 0x12348004);
	peer_close(&p);
	rig_fini(&r);
}

static void test_capabilities(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint32_t at, seen = 0, nr = 0;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	assert_true(get(&p, PCI_STATUS, 2) & PCI_STATUS_CAP_LIST);
	for (at = get(&p, PCI_CAPABILITY_LIST, 1); at; at = get(&p, at + 1, 1)) {
		assert_true(at >= 0x40 && at % 4 == 0 && nr++ < 8);
		seen |= 1u << get(&p, at, 1);
		if (get(&p, at, 1) != PCI_CAP_ID_MSIX)
			continue;
		assert_int_equal(get(&p, at + PCI_MSIX_FLAGS, 2), TGT_QUEUES_MAX);
		assert_int_equal(get(&p, at + PCI_MSIX_TABLE, 4), 4);
		assert_int_equal(get(&p, at + PCI_MSIX_PBA, 4), 0x1004);
		set(&p, at + PCI_MSIX_FLAGS, 2, 0xffff);
		assert_int_equal(get(&p, at + PCI_MSIX_FLAGS, 2), 0xc000 | TGT_QUEUES_MAX);
	}
	assert_int_equal(seen, 1u << PCI_CAP_ID_PM | 1u << PCI_CAP_ID_MSIX | 1u << PCI_CAP_ID_EXP);
	assert_int_equal(get(&p, 0x100, 4), 0); /* no extended ones */
	peer_close(&p);
	rig_fini(&r);
}

static bool may_change(uint32_t off)
{
	return (off >= PCI_COMMAND && off < PCI_STATUS) || off == PCI_CACHE_LINE_SIZE ||
	       (off >= PCI_BASE_ADDRESS_0 && off < PCI_CARDBUS_CIS) || off == PCI_INTERRUPT_LINE ||
	       off == 0x44 || off == 0x53 || off == 0x68 || off == 0x69 || off == 0x70;
}

/* Random writes leave everything else as it is; a reset brings all of it back. */
static void test_write_mask(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct rng rng;
	uint8_t before[4096];
	struct vfio_user_region_access a = {0, VFIO_PCI_CONFIG_REGION_INDEX, 4096};

	rng_init(&rng, unit_seed(3));
	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_READ, &a, sizeof(a)), 0);
	memcpy(before, p.rx + 16, 4096);
	for (int i = 0; i < 3000; i++) {
		uint32_t len = (uint32_t)(1 + rng_below(&rng, 4));

		set(&p, (uint32_t)rng_below(&rng, i % 2 ? 0x100 : 4093), len,
		    (uint32_t)rng_u64(&rng));
	}
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_READ, &a, sizeof(a)), 0);
	for (uint32_t i = 0; i < 4096; i++) {
		if (!may_change(i))
			assert_int_equal(p.rx[16 + i], before[i]);
	}
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_RESET, NULL, 0), 0);
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_READ, &a, sizeof(a)), 0);
	assert_memory_equal(p.rx + 16, before, 4096);
	peer_close(&p);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_bar_sizing),
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_write_mask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
