/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's life: reset at any moment, death at any moment, and that nothing of it stays:
 * descriptors, requests, controllers, mappings (rig_fini() counts).
 */
#include "rig.h"

#include <glob.h>
#include <sys/mman.h>

#include "base/rng.h"
#include "peal/vendor.h"
#include "transport/replay/replay_file.h"

static int nr_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int nr = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		nr += strstr(line, "/memfd:") != NULL;
	fclose(f);
	return nr;
}

/* DEVICE_RESET is answered when everything is over; then it's a new device. */
static void test_reset(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe sqe = peer_read_sqe(1, RIG_DATA, 4096, 1);

	rig_init(&r, 2, NULL);
	peer_open(&r, &p, PEER_PEAL);
	assert_int_equal(peer_call(&p, VFIO_USER_DEVICE_RESET, NULL, 0), 0);
	for (int i = 0; i < 5; i++) {
		peer_enable(&p);
		assert_int_equal(peer_queue(&p, 1, 16), 0);
		r.is_held = true;
		peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		rig_until(&r, r.nr_held == 1);
		peer_send(&p, &(struct peer_msg){.cmd = VFIO_USER_DEVICE_RESET});
		p.rx_len = 0;
		rig_steps(&r, 100);
		assert_false(peer_try_recv(&p));
		rig_let_go(&r, NVME_ST_OK);
		r.is_held = false;
		assert_int_equal(peer_recv(&p), 0);
		assert_int_equal(peer_reg(&p, 0x1c, 4), 0);
		for (uint16_t qid = 0; qid < 3; qid++)
			assert_int_equal(*peer_bell(&p, qid, false) | *peer_bell(&p, qid, true), 0);
	}
	peer_close(&p);
	rig_fini(&r);
}

/* Killed in the middle of a wave, with commands in every stage. */
static void test_killed_mid_wave(void **state)
{
	struct rig r = {0};
	struct rng rng;
	int before;

	rng_init(&rng, unit_seed(5));
	rig_init(&r, 3, NULL);
	before = nr_mappings();
	for (int round = 0; round < 60; round++) {
		struct peer p;

		peer_open(&r, &p, rng_chance(&rng, 1, 2) ? PEER_PEAL : PEER_STOCK);
		peer_enable(&p);
		for (uint16_t qid = 1; qid <= 4; qid++)
			assert_int_equal(peer_queue(&p, qid, 128), 0);
		for (uint16_t qid = 1; qid <= 4; qid++) {
			for (uint16_t i = 0; i < 100; i++) {
				struct nvme_sqe sqe = peer_read_sqe(i, RIG_DATA + i * 4096u, 4096,
								    i);

				peer_submit(&p, qid, &sqe);
			}
			peer_ring(&p, qid);
		}
		r.is_held = rng_chance(&rng, 1, 2);
		rig_steps(&r, (unsigned)rng_below(&rng, 12));
		peer_close(&p);
		rig_steps(&r, (unsigned)rng_below(&rng, 12));
		r.is_held = false;
		rig_let_go(&r, NVME_ST_OK);
		rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
		assert_int_equal(rig_nr_free(&r), r.nr * r.nr_reqs);
		assert_int_equal(nr_mappings(), before);
	}
	rig_fini(&r);
}

/* Killed at any byte of its set-up. */
static void test_killed_in_set_up(void **state)
{
	struct rig r = {0};
	struct rng rng;

	rng_init(&rng, unit_seed(6));
	rig_init(&r, 2, NULL);
	for (int round = 0; round < 200; round++) {
		struct peer p;
		struct vfio_user_dma_map m = {32, 3, 0, 0x1000, 0x1000};
		struct peer_msg msg = {.cmd = VFIO_USER_DMA_MAP, .data = &m, .len = sizeof(m)};

		if (rng_chance(&rng, 1, 4)) {
			peer_connect(&r, &p);
		} else {
			peer_open(&r, &p, PEER_PEAL);
			if (rng_chance(&rng, 1, 2)) {
				msg.fds = &p.mem_fd;
				msg.nr_fds = 1;
			}
			peer_send(&p, &msg);
		}
		rig_steps(&r, (unsigned)rng_below(&rng, 6));
		if (rng_chance(&rng, 1, 2)) {
			peer_send(&p, &(struct peer_msg){.cmd = VFIO_USER_DEVICE_RESET});
			rig_steps(&r, (unsigned)rng_below(&rng, 6));
		}
		peer_close(&p);
		rig_steps(&r, (unsigned)rng_below(&rng, 6));
	}
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_fini(&r);
}

/* Dies while its own DMA_UNMAP waits for a command. */
static void test_killed_while_waiting(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct nvme_sqe sqe = peer_read_sqe(1, RIG_DATA, 4096, 1);
	struct vfio_user_dma_unmap u = {24, 0, RIG_IOVA, RIG_MEM_BYTES};

	rig_init(&r, 2, NULL);
	for (int i = 0; i < 2; i++) {
		peer_open(&r, &p, PEER_PEAL);
		peer_enable(&p);
		assert_int_equal(peer_queue(&p, 1, 16), 0);
		r.is_held = true;
		peer_submit(&p, 1, &sqe);
		peer_ring(&p, 1);
		rig_until(&r, r.nr_held == 1);
		if (i)
			peer_send(&p, &(struct peer_msg){.cmd = VFIO_USER_DEVICE_RESET});
		else
			peer_send(&p, &(struct peer_msg){
					      .cmd = VFIO_USER_DMA_UNMAP, .data = &u, .len = 24});
		rig_steps(&r, 50);
		peer_close(&p);
		rig_steps(&r, 50);
		assert_int_equal(r.tr->ops->nr_hosts(r.tr), 1);
		rig_let_go(&r, NVME_ST_OK);
		r.is_held = false;
		rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	}
	rig_fini(&r);
}

/* Many clients at once, each in its own memory; one dies, the others don't notice. */
static void test_many(void **state)
{
	enum { NR = 12 };
	static struct peer p[NR];
	struct rig r = {0};

	rig_init(&r, 3, NULL);
	for (int i = 0; i < NR; i++) {
		peer_open(&r, &p[i], i % 2 ? PEER_PEAL : PEER_STOCK);
		peer_enable(&p[i]);
		assert_int_equal(peer_queue(&p[i], 1, 32), 0);
		assert_int_equal(peer_queue(&p[i], 2, 32), 0);
	}
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < NR; i++) {
			if (p[i].fd < 0)
				continue;
			for (uint16_t qid = 1; qid <= 2; qid++) {
				struct nvme_sqe sqe = peer_read_sqe(qid, RIG_DATA + qid * 8192u,
								    8192, i * 100 + qid + round);

				peer_submit(&p[i], qid, &sqe);
				peer_ring(&p[i], qid);
			}
		}
		if (round < NR / 2)
			peer_close(&p[round]);
		for (uint32_t i = 0; i < NR; i++) {
			for (uint16_t qid = 1; p[i].fd >= 0 && qid <= 2; qid++) {
				assert_int_equal(peer_wait(&p[i], qid).status >> 1, 0);
				peer_check_data(&p[i], RIG_DATA + qid * 8192u, 8192,
						i * 100 + qid + round);
			}
		}
	}
	for (int i = 0; i < NR; i++) {
		if (p[i].fd >= 0)
			peer_close(&p[i]);
	}
	rig_fini(&r);
}

/* A recording has each command of the I/O queues, its data and its end; one file per client. */
/* The one recording of client `nr` in dir: vfu-START-PID-NR.rec. */
static void record_find(const char *dir, int nr, char *path, size_t size)
{
	char pattern[100];
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/vfu-*-%d-%d.rec", dir, (int)getpid(), nr);
	assert_int_equal(glob(pattern, 0, NULL, &g), 0);
	assert_int_equal(g.gl_pathc, 1);
	snprintf(path, size, "%s", g.gl_pathv[0]);
	globfree(&g);
}

static void test_record(void **state)
{
	struct rig r = {0};
	char dir[] = "/tmp/t_vfu.rec.XXXXXX", path[100];
	struct peer p;
	struct replay_file f;

	assert_non_null(mkdtemp(dir));
	rig_init(&r, 2, &(struct vfu_opts){.record_dir = dir, .is_record_values = true});
	for (int client = 0; client < 2; client++) {
		peer_open(&r, &p, PEER_STOCK);
		peer_enable(&p);
		assert_int_equal(peer_queue(&p, 1, 16), 0);
		assert_int_equal(peer_queue(&p, 2, 16), 0);
		for (uint16_t i = 0; i < 30; i++) {
			struct nvme_sqe sqe = peer_read_sqe(i, RIG_DATA, 512, i);

			sqe.opc = i % 3 ? RIG_READ : RIG_WRITE;
			for (uint32_t j = 0; j < 512; j++)
				p.mem[RIG_DATA + j] = rig_byte(i, j);
			peer_submit(&p, 1 + i % 2, &sqe);
			peer_ring(&p, 1 + i % 2);
			assert_int_equal(peer_wait(&p, 1 + i % 2).status >> 1, 0);
		}
		peer_close(&p);
		rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
		record_find(dir, client, path, sizeof(path));
		assert_int_equal(replay_file_open(path, &f), 0);
		assert_false(f.is_torn);
		assert_int_equal(f.nr_cmds, 30);
		for (uint32_t i = 0; i < 30; i++) {
			const struct replay_cmd *c = &f.cmds[i];

			assert_int_equal(c->sqe->cid, i);
			assert_int_equal(c->qid, 1 + i % 2);
			assert_int_equal(c->cqe->cid, i);
			assert_int_equal(c->len, 512);
			assert_int_equal(c->is_from_host, i % 3 == 0);
			for (uint32_t j = 0; i % 3 == 0 && j < 512; j++)
				assert_int_equal(c->data[j], rig_byte(i, j));
		}
		replay_file_close(&f);
		assert_int_equal(unlink(path), 0);
	}
	rig_fini(&r);
	assert_int_equal(rmdir(dir), 0);
	/* a folder that isn't there: served, not recorded */
	rig_init(&r, 1, &(struct vfu_opts){.record_dir = dir, .is_record_values = true});
	peer_open(&r, &p, PEER_STOCK);
	peer_enable(&p);
	peer_close(&p);
	rig_fini(&r);
}

/* Recording `no` is whole and has nr commands, from cid `first` on. */
static void check_asked(const char *dir, int no, uint32_t nr, uint16_t first)
{
	struct replay_file f;
	char path[100];

	record_find(dir, no, path, sizeof(path));
	assert_int_equal(replay_file_open(path, &f), 0);
	assert_false(f.is_torn);
	assert_int_equal(f.nr_cmds, nr);
	for (uint32_t i = 0; i < nr; i++) {
		assert_int_equal(f.cmds[i].sqe->cid, first + i);
		assert_int_equal(f.cmds[i].cqe->cid, first + i);
		assert_int_equal(f.cmds[i].qid, 1 + i % 2);
	}
	replay_file_close(&f);
	assert_int_equal(unlink(path), 0);
}

/* One client of two is recorded, from when an operator asks until it asks for the end; again. */
static void test_record_asked(void **state)
{
	struct rig r = {0};
	char dir[] = "/tmp/t_vfu.rec.XXXXXX";
	struct nvme_sqe ask = {.opc = PEAL_OPC_ADMIN_TRACE};
	struct peer p[2];

	assert_non_null(mkdtemp(dir));
	rig_init(&r, 2, &(struct vfu_opts){.record_dir = dir, .is_record_asked = true});
	for (int i = 0; i < 2; i++) {
		peer_open(&r, &p[i], i ? PEER_STOCK : PEER_PEAL);
		peer_enable(&p[i]);
		assert_int_equal(peer_queue(&p[i], 1, 16), 0);
	}
	for (uint16_t i = 0; i < 26; i++) {
		struct nvme_sqe sqe = peer_read_sqe(i, RIG_DATA, 512, i);

		if (i == 8) {
			ask.cdw11 = 2; /* the second that came */
			ask.cdw12 = PEAL_TRACE_RECORD_STOP;
			assert_int_equal(peer_admin(&p[0], &ask, NULL), NVME_ST_SEQUENCE);
			ask.cdw12 = PEAL_TRACE_RECORD;
			assert_int_equal(peer_admin(&p[0], &ask, NULL), 0);
			assert_int_equal(peer_admin(&p[0], &ask, NULL), NVME_ST_SEQUENCE);
			assert_int_equal(peer_queue(&p[1], 2, 16), 0);
		}
		if (i == 20) {
			/* Whole at once, whatever the client does then. */
			ask.cdw12 = PEAL_TRACE_RECORD_STOP;
			assert_int_equal(peer_admin(&p[0], &ask, NULL), 0);
			check_asked(dir, 0, 12, 8);
		}
		if (i == 22) {
			ask.cdw12 = PEAL_TRACE_RECORD;
			assert_int_equal(peer_admin(&p[0], &ask, NULL), 0);
		}
		for (int k = 0; k < 2; k++) {
			uint16_t qid = k && i >= 8 ? 1 + i % 2 : 1;

			peer_submit(&p[k], qid, &sqe);
			peer_ring(&p[k], qid);
			assert_int_equal(peer_wait(&p[k], qid).status >> 1, 0);
		}
	}
	peer_close(&p[0]);
	peer_close(&p[1]);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	check_asked(dir, 1, 4, 22);
	rig_fini(&r);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_killed_mid_wave),
		cmocka_unit_test(test_killed_in_set_up),
		cmocka_unit_test(test_killed_while_waiting),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_record_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
