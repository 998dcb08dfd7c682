/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real threads, for ThreadSanitizer: loads on three reactors, while worker 0 makes and deletes the
 * namespace they use and others beside it, and controllers come and go.
 */
#include "replay_fix.h"
#include <errno.h>
#include <semaphore.h>

#define NR 3
#define ROUNDS 8

/* Commands of all kinds at namespace 1, which may be gone: what comes back may be that, too. */
struct tload {
	struct replay_load l;
	unsigned worker;
	uint32_t at;
	_Atomic uint32_t nr_ok, nr_gone;
};

static int64_t tload_next(struct replay_load *l, uint32_t slot, struct nvme_sqe *sqe, void *buf)
{
	struct tload *t = container_of(l, struct tload, l);

	t->at++;
	*sqe = (struct nvme_sqe){
		.nsid = 1, .cdw10 = 4096, .cdw12 = t->worker * 4096, .cdw13 = t->at};
	sqe->opc = t->at % 3 == 0 ? FAKE_WRITE : t->at % 3 == 1 ? FAKE_READ : FAKE_PING;
	return sqe->opc == FAKE_PING ? 0 : 4096;
}

static void tload_done(struct replay_load *l, uint32_t slot, const struct nvme_cqe *cqe,
		       const void *buf)
{
	struct tload *t = container_of(l, struct tload, l);
	uint16_t st = cqe->status >> 1 & 0x7ff;

	must(st == NVME_ST_OK || st == NVME_ST_INVALID_NS);
	atomic_fetch_add_explicit(st == NVME_ST_OK ? &t->nr_ok : &t->nr_gone, 1,
				  memory_order_relaxed);
}

struct control {
	struct mbox_msg msg;
	struct tgt_subsys *ss;
	struct replay_host *host, *visitor;
	struct tload loads[NR];
	unsigned round;
	sem_t over;
};

static void round_start(struct control *c);

static void main_host_gone(void *arg)
{
	struct control *c = arg;

	replay_host_destroy(c->host);
	sem_post(&c->over);
}

static void last_ns_gone(void *arg, uint16_t st)
{
	struct control *c = arg;

	must(st == NVME_ST_OK);
	replay_host_stop(c->host, main_host_gone, c);
}

static void visitor_gone(void *arg)
{
	struct control *c = arg;

	replay_host_destroy(c->visitor);
	if (++c->round < ROUNDS)
		round_start(c);
	else
		tgt_subsys_ns_del(c->ss, 1, last_ns_gone, c);
}

static void ns_gone(void *arg, uint16_t st)
{
	struct control *c = arg;

	must(st == NVME_ST_OK);
	must(!tgt_subsys_ns_add(c->ss, &fake_ns_create(1, 1 << 20)->ns, 1));
	replay_host_stop(c->visitor, visitor_gone, c);
}

/* A visitor with a queue on some worker; namespace 1 goes and comes; the visitor leaves. */
static void round_start(struct control *c)
{
	struct replay_queue_opts o = {.worker = c->round % NR,
				      .depth = 3,
				      .slot_bytes = 4096,
				      .load = &c->loads[c->round % NR].l};

	must(!replay_host_create(c->ss, &c->visitor));
	must(!replay_queue_create(c->visitor, &o, NULL));
	tgt_subsys_ns_del(c->ss, 1, ns_gone, c);
}

static void control_start(struct mbox_msg *m)
{
	round_start(container_of(m, struct control, msg));
}

static struct tgt_node node;
static struct control control;

static void node_start(void)
{
	struct tgt_subsys_opts so = {.nqn = "nqn", .serial = "1", .model = "m"};
	struct env *env;
	struct reactor *r;

	node.nr = NR;
	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(env_linux_create(64, &env), 0);
		r = reactor_create(
			&(struct reactor_opts){.id = i, .nr_peers = NR, .env = env, .cpu = -1});
		assert_non_null(r);
		node.reactors[i] = r;
		assert_int_equal(tgt_worker_create(r, i, 128, &node.workers[i]), 0);
	}
	assert_int_equal(tgt_subsys_create(&node, &so, &control.ss), 0);
	tgt_subsys_csi_add(control.ss, fake_ns_csi());
	assert_int_equal(tgt_subsys_ns_add(control.ss, &fake_ns_create(1, 1 << 20)->ns, 1), 0);
	assert_int_equal(replay_host_create(control.ss, &control.host), 0);
}

static void test_threads(void **state)
{
	struct replay_queue_opts o = {.depth = 16, .slot_bytes = 4096};
	uint32_t nr_ok = 0;

	node_start();
	sem_init(&control.over, 0, 0);
	for (unsigned i = 0; i < NR; i++) {
		control.loads[i].l = (struct replay_load){tload_next, tload_done};
		control.loads[i].worker = i;
		o.worker = i;
		o.load = &control.loads[i].l;
		assert_int_equal(replay_queue_create(control.host, &o, NULL), 0);
	}
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(reactor_start(node.reactors[i], "peal-test"), 0);
	control.msg.fn = control_start;
	mbox_post(node.reactors[0], &control.msg);
	while (sem_wait(&control.over) && errno == EINTR)
		;
	for (unsigned i = 0; i < NR; i++)
		reactor_stop(node.reactors[i]);
	for (unsigned i = 0; i < NR; i++)
		reactor_join(node.reactors[i]);
	for (unsigned i = 0; i < NR; i++)
		nr_ok += control.loads[i].nr_ok;
	assert_true(nr_ok > 0);
	tgt_subsys_destroy(control.ss);
	for (unsigned i = 0; i < NR; i++) {
		tgt_worker_destroy(node.workers[i]);
		reactor_destroy(node.reactors[i]);
	}
	sem_destroy(&control.over);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
