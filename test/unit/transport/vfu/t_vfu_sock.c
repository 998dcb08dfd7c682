/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing: whole, torn and malformed messages; descriptors never leak; one client's mistake is its
 * own.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "base/rng.h"
#include "core/fd_drop.h"
#include "lingering.h"
#include "transport/vfu/vfu_int.h"

static const uint8_t version[] = {0, 0, 1, 0};

static void send_raw(struct peer *p, const void *data, size_t len)
{
	assert_int_equal(send(p->fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Every message arrives one byte at a time, with turns in between. */
static void test_torn(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct {
		struct vfio_user_hdr h;
		struct vfio_user_version v;
	} m = {{7, VFIO_USER_VERSION, 20, 0, 0}, {0, 1}};
	struct {
		struct vfio_user_hdr h;
		struct vfio_user_region_access a;
	} rd = {{8, VFIO_USER_REGION_READ, 32, 0, 0}, {0, VFIO_PCI_BAR0_REGION_INDEX, 8}};

	rig_init(&r, 1, NULL);
	peer_connect(&r, &p);
	for (size_t i = 0; i < sizeof(m); i++) {
		send_raw(&p, (uint8_t *)&m + i, 1);
		rig_steps(&r, 3);
	}
	p.msg_id = 7;
	assert_int_equal(peer_recv(&p), 0);
	for (size_t i = 0; i < sizeof(rd); i++) {
		send_raw(&p, (uint8_t *)&rd + i, 1);
		rig_steps(&r, 3);
	}
	p.msg_id = 8;
	assert_int_equal(peer_recv(&p), 0);
	assert_int_equal(p.hdr.size, 32 + 8);
	/* dies in the middle of a header, and of a payload */
	send_raw(&p, &rd, 5);
	rig_steps(&r, 3);
	peer_close(&p);
	peer_connect(&r, &p);
	send_raw(&p, &m, 18);
	rig_steps(&r, 3);
	peer_close(&p);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_fini(&r);
}

/* Many messages in one packet are answered one by one, in order. */
static void test_many_at_once(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint8_t buf[200][32];

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	for (uint16_t i = 0; i < 200; i++) {
		struct vfio_user_hdr h = {i, VFIO_USER_REGION_READ, 32, 0, 0};
		struct vfio_user_region_access a = {i % 64, VFIO_PCI_CONFIG_REGION_INDEX, 1};

		memcpy(buf[i], &h, sizeof(h));
		memcpy(buf[i] + sizeof(h), &a, sizeof(a));
	}
	send_raw(&p, buf, sizeof(buf));
	for (uint16_t i = 0; i < 200; i++) {
		p.msg_id = i;
		assert_int_equal(peer_recv(&p), 0);
		assert_int_equal(p.rx[0], i % 64);
	}
	peer_close(&p);
	rig_fini(&r);
}

/* A client that asks and doesn't read: it is held up, nobody else, and nothing is lost. */
static void test_slow_reader(void **state)
{
	struct rig r = {0};
	struct peer p, other;
	struct {
		struct vfio_user_hdr h;
		struct vfio_user_region_access a;
	} m = {{0, VFIO_USER_REGION_READ, 32, 0, 0}, {0, VFIO_PCI_CONFIG_REGION_INDEX, 4096}};
	uint16_t nr = 0;

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_open(&r, &other, PEER_STOCK);
	for (;; nr++) {
		m.h.msg_id = nr;
		if (send(p.fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
			break;
		rig_step(&r);
		assert_true(nr < 10000);
	}
	rig_steps(&r, 100);
	peer_reg(&other, 0, 8);
	for (uint16_t i = 0; i < nr; i++) {
		p.msg_id = i;
		assert_int_equal(peer_recv(&p), 0);
		assert_int_equal(p.hdr.size, 16 + 16 + 4096);
	}
	peer_close(&p);
	peer_close(&other);
	rig_fini(&r);
}

static void test_malformed(void **state)
{
	const struct vfio_user_hdr bad[] = {
		{1, VFIO_USER_VERSION, 0, 0, 0},
		{1, VFIO_USER_VERSION, 15, 0, 0},
		{1, VFIO_USER_VERSION, 0xffffffff, 0, 0},
		{1, VFIO_USER_VERSION, 65536 + 4096, 0, 0},
		{1, VFIO_USER_VERSION, 20, VFIO_USER_REPLY, 0},
		{1, VFIO_USER_VERSION, 20, 2, 0},
	};
	struct rig r = {0};
	struct peer good, p;

	rig_init(&r, 1, NULL);
	peer_open(&r, &good, PEER_STOCK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		peer_connect(&r, &p);
		send_raw(&p, &bad[i], sizeof(bad[i]));
		p.msg_id = 1;
		assert_int_equal(peer_recv(&p), EINVAL);
		assert_true(peer_is_closed(&p));
		peer_close(&p);
	}
	/* random bytes */
	struct rng rng;

	rng_init(&rng, unit_seed(1));
	for (int i = 0; i < 200; i++) {
		uint8_t junk[300];

		rng_fill(&rng, junk, sizeof(junk));
		peer_connect(&r, &p);
		send_raw(&p, junk, 1 + rng_below(&rng, sizeof(junk)));
		rig_steps(&r, 4);
		peer_close(&p);
		rig_steps(&r, 4);
	}
	peer_reg(&good, 0, 8); /* lives on */
	peer_close(&good);
	rig_fini(&r);
}

/* VERSION comes first, once. */
static void test_order(void **state)
{
	struct rig r = {0};
	struct peer p;
	uint8_t payload[64] = {0};

	rig_init(&r, 1, NULL);
	for (uint16_t cmd = 2; cmd < 20; cmd++) {
		peer_connect(&r, &p);
		assert_int_equal(peer_call(&p, cmd, payload, sizeof(payload)), EINVAL);
		assert_true(peer_is_closed(&p));
		peer_close(&p);
	}
	peer_open(&r, &p, PEER_STOCK);
	assert_int_equal(peer_call(&p, VFIO_USER_VERSION, version, sizeof(version)), EINVAL);
	assert_true(peer_is_closed(&p));
	peer_close(&p);
	/* also one that wants no answer is told, and closed */
	peer_connect(&r, &p);
	peer_send(&p, &(struct peer_msg){VFIO_USER_DEVICE_RESET, VFIO_USER_NO_REPLY, payload, 0,
					 NULL, 0});
	assert_int_equal(peer_recv(&p), EINVAL);
	assert_true(peer_is_closed(&p));
	peer_close(&p);
	rig_fini(&r);
}

static void test_no_reply(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct vfio_user_region_access a = {0, VFIO_PCI_CONFIG_REGION_INDEX, 4};
	struct peer_msg m = {VFIO_USER_REGION_READ, VFIO_USER_NO_REPLY, &a, sizeof(a), NULL, 0};
	struct peer_msg bad = {VFIO_USER_REGION_READ, VFIO_USER_NO_REPLY, &a, 3, NULL, 0};

	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	peer_send(&p, &m);
	peer_send(&p, &bad);
	/* the next answer is the next question's */
	assert_int_equal(peer_call(&p, VFIO_USER_REGION_READ, &a, sizeof(a)), 0);
	peer_close(&p);
	rig_fini(&r);
}

/* Descriptors with messages that want none, in any number; none stays. rig_fini() counts. */
static void test_descriptors(void **state)
{
	const uint16_t cmds[] = {VFIO_USER_DEVICE_GET_INFO,
				 VFIO_USER_DMA_MAP,
				 VFIO_USER_REGION_READ,
				 VFIO_USER_DEVICE_SET_IRQS,
				 77,
				 VFIO_USER_DEVICE_RESET};
	struct rig r = {0};
	struct peer p;
	uint8_t payload[64] = {0};
	int fds[40], before;

	for (unsigned i = 0; i < 40; i++)
		fds[i] = eventfd(0, EFD_CLOEXEC);
	rig_init(&r, 1, NULL);
	peer_open(&r, &p, PEER_STOCK);
	before = rig_count_fds();
	for (size_t i = 0; i < sizeof(cmds) / sizeof(cmds[0]); i++) {
		for (unsigned nr = 1; nr <= 16; nr++) {
			struct peer_msg m = {.cmd = cmds[i],
					     .data = payload,
					     .len = sizeof(payload),
					     .fds = fds,
					     .nr_fds = nr};

			int err = peer_ask(&p, &m);

			assert_true(err >= 0);
			peer_drop_fds(&p);
			assert_int_equal(rig_count_fds(), before);
		}
	}
	/* more than we take: the client is closed */
	struct peer_msg m = {.cmd = VFIO_USER_DEVICE_GET_INFO,
			     .data = payload,
			     .len = 16,
			     .fds = fds,
			     .nr_fds = 17};

	peer_send(&p, &m);
	assert_int_equal(peer_recv(&p), EINVAL);
	assert_true(peer_is_closed(&p));
	peer_close(&p);
	/* before VERSION, with half a message, then death */
	peer_connect(&r, &p);
	m.nr_fds = 3;
	m.len = 0;
	peer_send(&p, &m);
	peer_close(&p);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	for (unsigned i = 0; i < 40; i++)
		close(fds[i]);
	r.nr_fds -= 40;
	rig_fini(&r);
}

/* Sends the message with `nr` descriptors, the last of which lingers and is ours no more. */
static void send_lingering(struct peer *p, uint16_t cmd, unsigned nr, int *other)
{
	struct vfio_user_dma_map map = {32, 3, 0, 0x1000, 0x1000};
	int fds[64];

	for (unsigned i = 0; i < nr; i++)
		fds[i] = p->fd;
	fds[nr - 1] = lingering(other);
	peer_send(p, &(struct peer_msg){cmd, 0, &map, sizeof(map), fds, nr});
	close(fds[nr - 1]);
}

/* However a descriptor comes whose close() waits, nobody waits. (The whole server runs here.) */
static void test_lingering(void **state)
{
	struct rig r = {0};
	struct peer p, q, good;
	int other[6];

	rig_init(&r, 1, &(struct vfu_opts){.max_clients = 3});
	peer_open(&r, &good, PEER_STOCK);
	peer_open(&r, &p, PEER_STOCK);
	send_lingering(&p, VFIO_USER_DMA_MAP, 1, &other[0]);
	assert_int_equal(peer_recv(&p), ENOTSUP);
	send_lingering(&p, VFIO_USER_DEVICE_RESET, 3, &other[1]);
	assert_int_equal(peer_recv(&p), 0);
	send_lingering(&p, VFIO_USER_DEVICE_RESET, 60, &other[2]);
	assert_int_equal(peer_recv(&p), EINVAL);
	peer_close(&p);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 1);
	/* never read: behind what closes the client, and in a socket that is refused */
	peer_open(&r, &p, PEER_STOCK);
	peer_send(&p, &(struct peer_msg){VFIO_USER_VERSION, 0, version, sizeof(version), NULL, 0});
	send_lingering(&p, VFIO_USER_DMA_MAP, 1, &other[3]);
	peer_reg(&good, 0, 8);
	peer_close(&p);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 1);
	peer_open(&r, &p, PEER_STOCK);
	peer_open(&r, &q, PEER_STOCK);
	peer_close(&q);
	peer_connect(&r, &q);
	send_lingering(&q, VFIO_USER_DMA_MAP, 1, &other[4]);
	rig_steps(&r, 100);
	peer_close(&q);
	peer_reg(&good, 0, 8);
	peer_close(&p);
	peer_close(&good);
	/* nor accepted */
	peer_connect(&r, &q);
	send_lingering(&q, VFIO_USER_DMA_MAP, 1, &other[5]);
	peer_close(&q);
	rig_stop(&r);
	for (unsigned i = 0; i < 6; i++)
		close(other[i]);
	while (fd_drop_nr_stuck())
		sched_yield();
	rig_fini(&r);
}

static struct vfu_dev *newest(struct rig *r)
{
	struct vfu *v = container_of(r->tr, struct vfu, tr);

	return list_last_entry(&v->devs, struct vfu_dev, node);
}

/* As if its time had come: the test doesn't wait for it. */
static void be_late(struct rig *r, struct peer *p)
{
	struct vfu_dev *d;

	rig_until(r, timeout_is_set(&newest(r)->sock.late));
	d = newest(r);
	timeout_cancel(&d->sock.late);
	timeout_set(r->reactors[0], &d->sock.late, reactor_now_ns(r->reactors[0]));
	rig_until(r, peer_is_closed(p));
	peer_close(p);
}

/* Connections are few: nobody keeps one by saying nothing, or half of something. */
static void test_late(void **state)
{
	struct rig r = {0};
	struct peer good, p;
	struct vfio_user_hdr h = {3, VFIO_USER_REGION_READ, 32, 0, 0};

	rig_init(&r, 1, NULL);
	peer_open(&r, &good, PEER_STOCK);
	assert_false(timeout_is_set(&newest(&r)->sock.late));
	peer_connect(&r, &p);
	be_late(&r, &p);
	/* in the middle of VERSION; a byte now and then doesn't help */
	peer_connect(&r, &p);
	rig_until(&r, timeout_is_set(&newest(&r)->sock.late));
	send_raw(&p, &h, 7);
	be_late(&r, &p);
	/* in the middle of a later message */
	peer_open(&r, &p, PEER_STOCK);
	send_raw(&p, &h, sizeof(h));
	be_late(&r, &p);
	/* Who has said all may be silent. */
	peer_reg(&good, 0, 8);
	rig_steps(&r, 10);
	assert_false(timeout_is_set(&newest(&r)->sock.late));
	peer_close(&good);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torn),	    cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_slow_reader), cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_order),	    cmocka_unit_test(test_no_reply),
		cmocka_unit_test(test_descriptors), cmocka_unit_test(test_lingering),
		cmocka_unit_test(test_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
