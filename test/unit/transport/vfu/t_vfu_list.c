/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of clients: who they are, what they have done on queues that are there and on others
 * that are gone, and that a client may go while it is made.
 */
#include "rig.h"

struct listed {
	struct tr_hosts h;
	bool is_done;
};

static void done(struct tr_hosts *h)
{
	container_of(h, struct listed, h)->is_done = true;
}

static struct listed *list_now(struct rig *r)
{
	struct listed *l = calloc(1, sizeof(*l));

	l->h.done = done;
	r->tr->ops->list_hosts(r->tr, &l->h);
	return l;
}

static void work(struct peer *p, uint16_t qid, uint16_t nr)
{
	for (uint16_t i = 0; i < nr; i++) {
		struct nvme_sqe sqe = {.opc = RIG_NOP, .nsid = 1, .cid = i, .cdw12 = i};

		peer_submit(p, qid, &sqe);
		peer_ring(p, qid);
		assert_int_equal(peer_wait(p, qid).status >> 1, 0);
	}
}

static void test_list(void **state)
{
	struct rig r = {0};
	struct peer p[2];
	struct listed *l;
	uint64_t before;

	rig_init(&r, 2, &(struct vfu_opts){0});
	l = list_now(&r);
	rig_until(&r, l->is_done);
	assert_int_equal(l->h.nr, 0);
	free(l);
	for (int i = 0; i < 2; i++) {
		peer_open(&r, &p[i], i ? PEER_STOCK : PEER_PEAL);
		peer_enable(&p[i]);
	}
	l = list_now(&r);
	rig_until(&r, l->is_done);
	assert_int_equal(l->h.nr, 2);
	before = l->h.of[1].nr_cmds; /* on the admin queue */
	free(l);
	for (uint16_t q = 1; q <= 3; q++) {
		assert_int_equal(peer_queue(&p[1], q, 16), 0);
		work(&p[1], q, (uint16_t)(q * 10));
	}
	l = list_now(&r);
	rig_until(&r, l->is_done);
	assert_int_equal(l->h.of[0].ctrl, 1);
	assert_int_equal(l->h.of[1].ctrl, 2);
	assert_int_equal(l->h.of[1].pid, getpid());
	assert_int_equal(l->h.of[1].uid, geteuid());
	assert_int_equal(l->h.of[0].nr_queues, 0);
	assert_int_equal(l->h.of[1].nr_queues, 3);
	assert_int_equal(l->h.of[1].nr_cmds, before + 6 + 60); /* two to make a queue pair */
	free(l);
	/* Gone, and not forgotten. */
	struct nvme_sqe del = {.opc = 0x00, .cdw10 = 2};
	assert_int_equal(peer_admin(&p[1], &del, NULL), 0);
	l = list_now(&r);
	rig_until(&r, l->is_done);
	assert_int_equal(l->h.of[1].nr_queues, 2);
	assert_int_equal(l->h.of[1].nr_cmds, before + 7 + 60);
	free(l);
	l = list_now(&r);
	peer_close(&p[0]);
	peer_close(&p[1]);
	rig_until(&r, l->is_done);
	free(l);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
