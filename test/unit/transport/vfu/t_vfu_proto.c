/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VERSION in all its forms, and the messages that say what the device is.
 */
#include "rig.h"

#include <errno.h>
#include <jansson.h>

static int say(struct peer *p, uint16_t major, uint16_t minor, const char *json, int cut)
{
	uint8_t buf[4096];
	uint32_t len = 4;

	memcpy(buf, &major, 2);
	memcpy(buf + 2, &minor, 2);
	if (json) {
		strcpy((char *)buf + 4, json);
		len += (uint32_t)strlen(json) + 1;
	}
	return peer_call(p, VFIO_USER_VERSION, buf, len - (uint32_t)cut);
}

static json_t *heard(struct peer *p)
{
	json_t *root;

	assert_int_equal(p->rx[p->hdr.size - 17], 0);
	root = json_loads((char *)p->rx + 4, 0, NULL);
	assert_non_null(root);
	return root;
}

static void test_version_good(void **state)
{
	const char *stock[] = {
		NULL,
		"",
		"{}",
		"[]",
		"{\"capabilities\":{}}",
		"{\"capabilities\":7,\"else\":[1,2,{}]}",
		"{\"capabilities\":{\"twin_socket\":{\"supported\":true},\"migration\":{}}}",
		"{\"capabilities\":{\"peal\":null}}",
		"{\"capabilities\":{\"peal\":{\"doorbell_stride\":128,\"arena\":1,\"wakeup\":0}}}",
	};
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 2, NULL);
	for (size_t i = 0; i < sizeof(stock) / sizeof(stock[0]); i++) {
		uint16_t v[2];
		json_t *root, *caps;

		peer_connect(&r, &p);
		assert_int_equal(say(&p, 0, (uint16_t)i, stock[i], 0), 0);
		memcpy(v, p.rx, 4);
		assert_int_equal(v[0], 0);
		assert_true(v[1] <= i && v[1] <= 1);
		root = heard(&p);
		caps = json_object_get(root, "capabilities");
		/* QEMU takes no more than 16, and pgsizes in whole pages */
		assert_int_equal(json_integer_value(json_object_get(caps, "max_msg_fds")), 16);
		assert_int_equal(json_integer_value(json_object_get(caps, "pgsizes")), 4096);
		assert_true(json_is_true(json_object_get(caps, "write_multiple")));
		assert_true(json_integer_value(json_object_get(caps, "max_data_xfer_size")) >=
			    4096);
		assert_null(json_object_get(caps, "peal"));
		assert_null(json_object_get(caps, "twin_socket"));
		json_decref(root);
		peer_close(&p);
	}
	rig_fini(&r);
}

/* QEMU 10.1's words; its reply buffer is as large as its request. */
static void test_version_qemu(void **state)
{
	const char *qemu =
		"{\"capabilities\": {\"migration\": "
		"{\"pgsize\": 4096, \"max_bitmap_size\": 268435456}, "
		"\"max_msg_fds\": 16, \"max_data_xfer_size\": 1048576, \"pgsizes\": 4096, "
		"\"max_dma_maps\": 65535, \"write_multiple\": true}}";
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 1, NULL);
	peer_connect(&r, &p);
	assert_int_equal(say(&p, 0, 0, qemu, 0), 0);
	assert_true(p.hdr.size <= 16 + 4 + strlen(qemu) + 1);
	json_decref(heard(&p));
	peer_close(&p);
	rig_fini(&r);
}

static void test_version_peal(void **state)
{
	struct rig r = {0};
	struct peer p;
	json_t *root, *peal;

	rig_init(&r, 3, NULL);
	peer_connect(&r, &p);
	assert_int_equal(say(&p, 0, 1, PEER_PEAL, 0), 0);
	root = heard(&p);
	peal = json_object_get(json_object_get(root, "capabilities"), "peal");
	assert_int_equal(json_integer_value(json_object_get(peal, "doorbell_stride")), 64);
	assert_int_equal(json_integer_value(json_object_get(peal, "wakeup")), 3);
	assert_true(json_is_true(json_object_get(peal, "arena")));
	assert_true(json_is_true(json_object_get(peal, "operator"))); /* the same uid */
	json_decref(root);
	peer_close(&p);
	/* fewer eventfds than workers: that one isn't granted */
	peer_connect(&r, &p);
	assert_int_equal(
		say(&p, 0, 1, "{\"capabilities\":{\"peal\":{\"arena\":true,\"wakeup\":2}}}", 0), 0);
	root = heard(&p);
	peal = json_object_get(json_object_get(root, "capabilities"), "peal");
	assert_null(json_object_get(peal, "wakeup"));
	assert_null(json_object_get(peal, "operator"));
	assert_true(json_is_true(json_object_get(peal, "arena")));
	json_decref(root);
	peer_close(&p);
	rig_fini(&r);
}

static void test_version_bad(void **state)
{
	struct rig r = {0};
	struct peer p;
	char deep[4000];

	rig_init(&r, 1, NULL);
	for (int i = 0; i < 7; i++) {
		int err = 0;

		peer_connect(&r, &p);
		memset(deep, '[', sizeof(deep) - 1);
		deep[sizeof(deep) - 1] = 0;
		if (i == 0)
			err = say(&p, 1, 0, NULL, 0);
		else if (i == 1)
			err = say(&p, 0, 1, "{\"capabilities\":", 0);
		else if (i == 2)
			err = say(&p, 0, 1, "{}", 1); /* no NUL */
		else if (i == 3)
			err = peer_call(&p, VFIO_USER_VERSION, "\0\0\0", 3);
		else if (i == 4)
			err = peer_call(&p, VFIO_USER_VERSION, NULL, 0);
		else if (i == 5)
			err = say(&p, 0, 1, deep, 0);
		else
			err = say(&p, 65535, 65535, "\xff\xfe", 0);
		assert_int_equal(err, EINVAL);
		assert_true(peer_is_closed(&p));
		peer_close(&p);
	}
	rig_fini(&r);
}

static void test_info(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint32_t in[16] = {16}, out[4];

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_INFO, in, 16), 0);
	assert_int_equal(p.hdr.size, 32);
	memcpy(out, p.rx, 16);
	assert_int_equal(out[1], VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET);
	assert_int_equal(out[2], VFIO_PCI_NUM_REGIONS);
	assert_int_equal(out[3], VFIO_PCI_NUM_IRQS);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_INFO, in, 64), 0);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_INFO, in, 12), EINVAL);
	in[0] = 15;
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_INFO, in, 16), EINVAL);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_INFO, NULL, 0), EINVAL);

	for (uint32_t i = 0; i < VFIO_PCI_NUM_IRQS; i++) {
		struct vfio_irq_info q = {.argsz = 16, .index = i};

		assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_IRQ_INFO, &q, 16), 0);
		memcpy(&q, p.rx, 16);
		assert_int_equal(q.index, i);
		assert_int_equal(q.count, i == VFIO_PCI_MSIX_IRQ_INDEX ? TGT_QUEUES_MAX + 1 : 0);
	}
	struct vfio_irq_info bad = {.argsz = 16, .index = VFIO_PCI_NUM_IRQS};

	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_IRQ_INFO, &bad, 16), EINVAL);
	bad = (struct vfio_irq_info){.argsz = 15};
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_IRQ_INFO, &bad, 16), EINVAL);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_IRQ_INFO, &bad, 12), EINVAL);
	peer_close(&p);
	rig_fini(&r);
}

static void test_refused(void **state)
{
	const uint16_t cmds[] = {0, 11, 12, 14, 16, 17, 18, 19, 500, 65535};
	struct rig r = {0};
	struct peer p;
	uint32_t in[16] = {64}, out[4];

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (size_t i = 0; i < sizeof(cmds) / sizeof(cmds[0]); i++)
		assert_int_equal(peer_call(&p, cmds[i], in, sizeof(in)), ENOTSUP);
	/* REGION_IO_FDS: none */
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_REGION_IO_FDS, in, 16), 0);
	memcpy(out, p.rx, 16);
	assert_int_equal(out[0], 16);
	assert_int_equal(out[3], 0);
	in[2] = 99;
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_REGION_IO_FDS, in, 16), EINVAL);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_GET_REGION_IO_FDS, in, 8), EINVAL);
	peer_close(&p);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_good), cmocka_unit_test(test_version_qemu),
		cmocka_unit_test(test_version_peal), cmocka_unit_test(test_version_bad),
		cmocka_unit_test(test_info),	     cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
