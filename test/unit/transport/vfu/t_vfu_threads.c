/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four reactors and four clients, each a thread, client and server over one mapping, so that
 * ThreadSanitizer sees both sides of every ring, doorbell and wake word. Each client goes through
 * its life several times: attach, waves in both directions with every byte checked, interrupts and
 * maps that change under I/O, disable, death in the middle of a wave.
 */
#include "rig.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include "base/rng.h"

#define NR_CLIENTS 4
#define NR_LIVES 2
#define NR_QUEUES 3
#define NR_WAVES 4

struct client {
	struct rig *rig;
	uint64_t seed;
	pthread_t thread;
	struct peer p;
};

static void wave(struct client *c, struct rng *rng, bool is_awaited)
{
	struct peer *p = &c->p;
	uint32_t nr[NR_QUEUES + 1], seed = (uint32_t)rng_u64(rng), left = 0;

	for (uint16_t qid = 1; qid <= NR_QUEUES; qid++) {
		nr[qid] = (uint32_t)(1 + rng_below(rng, 40));
		for (uint16_t i = 0; i < nr[qid]; i++) {
			uint32_t at = RIG_DATA + qid * 0x80000u + i * 4096u;
			struct nvme_sqe sqe = peer_read_sqe(i, at, 4096, seed + i);

			if (i % 3 == 1) {
				sqe.opc = RIG_WRITE;
				for (uint32_t j = 0; j < 4096; j++)
					p->mem[at + j] = rig_byte(seed + i, j);
			}
			peer_submit(p, qid, &sqe);
		}
		peer_ring(p, qid);
		left += nr[qid];
	}
	for (uint16_t qid = 1; is_awaited && left; qid = qid % NR_QUEUES + 1) {
		struct nvme_cqe cqe;

		rig_step(c->rig);
		while (peer_reap(p, qid, &cqe)) {
			uint32_t at = RIG_DATA + qid * 0x80000u + cqe.cid * 4096u;

			must(cqe.status >> 1 == 0);
			if (cqe.cid % 3 == 1)
				must(cqe.dw0 == 0);
			else
				peer_check_data(p, at, 4096, seed + cqe.cid);
			left--;
		}
	}
}

static void irqs(struct client *c, const int *fd)
{
	struct vfio_irq_set set = {
		sizeof(set), VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, 2, 1, 1};

	must(peer_ask(&c->p, &(struct peer_msg){.cmd = VFIO_USER_DEVICE_SET_IRQS,
						.data = &set,
						.len = sizeof(set),
						.fds = fd,
						.nr_fds = 1}) == 0);
}

static void life(struct client *c, struct rng *rng)
{
	struct peer *p = &c->p;
	int fd = eventfd(0, EFD_CLOEXEC);

	peer_open(c->rig, p, rng_chance(rng, 2, 3) ? PEER_PEAL : PEER_STOCK);
	peer_share(p);
	for (int round = 0; round < 2; round++) {
		peer_enable(p);
		for (uint16_t qid = 1; qid <= NR_QUEUES; qid++)
			must(peer_queue(p, qid, 64) == 0);
		for (int i = 0; i < NR_WAVES; i++) {
			wave(c, rng, true);
			if (i % 4 == 1)
				irqs(c, &fd);
			if (i % 4 == 2)
				must(peer_map(p, p->mem_fd, 0, 0x1000, 0x1000) == 0);
			if (i % 4 == 3)
				must(peer_unmap(p, 0x1000, 0x1000) == 0);
		}
		must(peer_queue_del(p, 2) == 0);
		if (round == 0)
			peer_disable(p);
	}
	must(peer_queue(p, 2, 64) == 0);
	wave(c, rng, rng_chance(rng, 1, 2));
	close(fd);
	peer_close(p);
}

static void *client_main(void *arg)
{
	struct client *c = arg;
	struct rng rng;

	rng_init(&rng, c->seed);
	for (int i = 0; i < NR_LIVES; i++)
		life(c, &rng);
	return NULL;
}

static void run(uint64_t spin_ns, bool is_home_apart)
{
	static struct client clients[NR_CLIENTS];
	struct rig r = {.is_threaded = true, .spin_ns = spin_ns, .is_home_apart = is_home_apart};
	uint64_t seed = unit_seed(1);

	rig_init(&r, 4, &(struct vfu_opts){.poll_ns = 200000});
	for (unsigned i = 0; i < NR_CLIENTS; i++) {
		clients[i].rig = &r;
		clients[i].seed = seed * 100 + i;
		must(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) == 0);
	}
	for (unsigned i = 0; i < NR_CLIENTS; i++)
		must(pthread_join(clients[i].thread, NULL) == 0);
	rig_fini(&r);
}

/* Reactors that sleep whenever they can. */
static void test_sleepy(void **state)
{
	run(1, false);
}

/* Reactors that rather spin. */
static void test_awake(void **state)
{
	run(1000000, false);
}

/* The same, three for I/O and one for all the rest. */
static void test_home_apart(void **state)
{
	run(1, true);
	run(1000000, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleepy),
		cmocka_unit_test(test_awake),
		cmocka_unit_test(test_home_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
