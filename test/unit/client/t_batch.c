/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: copies and direct requests, rings that wrap, arguments, bounds, deadlines, the eventfd,
 * what idle ones hold.
 */
#include "t_client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define DEPTH 7
#define MEM (8u << 20)

struct rig {
	struct client *c;
	struct peal_queue *q;
	struct peal_mem *m;
};

static int setup_with(void **state, const struct fake_opts *o)
{
	struct rig *r = calloc(1, sizeof(*r));

	if (client_setup((void **)&r->c, o) || peal_queue_open(r->c->p, DEPTH, &r->q) ||
	    peal_mem_alloc(r->c->p, MEM, &r->m))
		return -1;
	*state = r;
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, NULL);
}

static int setup_prp(void **state)
{
	return setup_with(state, &(struct fake_opts){.no_sgl = true});
}

static int teardown(void **state)
{
	struct rig *r = *state;
	void *c = r->c;

	/* Every other run leaves queue and memory to peal_close(). */
	if (r->q && r->m) {
		peal_queue_close(r->q);
		assert_int_equal(peal_mem_free(r->c->p, r->m), 0);
	}
	free(r);
	return client_teardown(&c);
}

static int run_one(struct rig *r, struct peal_req *req)
{
	struct peal_req *done = NULL;

	assert_int_equal(peal_submit(r->q, &req, 1), 1);
	assert_int_equal(peal_reap(r->q, &done, 1, 10000), 1);
	assert_ptr_equal(done, req);
	return req->res;
}

static void run_many(struct rig *r, uint32_t flags, size_t bytes)
{
	uint8_t *mem = peal_mem_ptr(r->m);
	struct peal_req reqs[100], *ptrs[100], *done[100];
	unsigned sent = 0, back = 0;

	for (unsigned i = 0; i < 100; i++) {
		reqs[i] = (struct peal_req){.op = PEAL_REQ_PUT,
					    .flags = flags,
					    .key = peal_key_bytes(&i, sizeof(i)),
					    .buf = mem + i * bytes,
					    .bytes = bytes};
		client_fill(reqs[i].buf, bytes, i);
		ptrs[i] = &reqs[i];
	}
	for (int pass = 0; pass < 2; pass++) {
		for (sent = back = 0; back < 100;) {
			int n = sent < 100 ? peal_submit(r->q, ptrs + sent, 100 - sent) : -EAGAIN;

			assert_true(n == -EAGAIN || (n > 0 && n <= DEPTH));
			sent += n > 0 ? (unsigned)n : 0;
			n = peal_reap(r->q, done, 100, 10000);
			assert_true(n > 0);
			for (int i = 0; i < n; i++)
				assert_int_equal(done[i]->res, 0);
			back += (unsigned)n;
		}
		for (unsigned i = 0; i < 100 && pass == 0; i++) {
			reqs[i].op = PEAL_REQ_GET;
			memset(reqs[i].buf, 0, bytes);
		}
	}
	for (unsigned i = 0; i < 100; i++) {
		uint8_t *v = malloc(bytes);

		client_fill(v, bytes, i);
		assert_memory_equal(reqs[i].buf, v, bytes);
		assert_int_equal(reqs[i].value_bytes, bytes);
		free(v);
	}
}

static void test_copied(void **state)
{
	run_many(*state, 0, 5000);
}

static void test_direct(void **state)
{
	run_many(*state, PEAL_DIRECT, 8192);
	run_many(*state, PEAL_DIRECT, 70000);
	run_many(*state, PEAL_DIRECT, 100);
}

static void test_verbs(void **state)
{
	struct rig *r = *state;
	char buf[8] = "value";
	struct peal_req put = {
		.op = PEAL_REQ_PUT, .key = peal_key_text("k"), .buf = buf, .bytes = 5};
	struct peal_req get = {.op = PEAL_REQ_GET, .key = put.key, .buf = buf, .bytes = 8};
	struct peal_req del = {.op = PEAL_REQ_DEL, .key = put.key};
	struct peal_req exist = {.op = PEAL_REQ_EXIST, .key = put.key};

	assert_int_equal(run_one(r, &exist), -ENOENT);
	put.flags = PEAL_IF_PRESENT;
	assert_int_equal(run_one(r, &put), -ENOENT);
	put.flags = PEAL_IF_ABSENT;
	assert_int_equal(run_one(r, &put), 0);
	assert_int_equal(run_one(r, &put), -EEXIST);
	assert_int_equal(run_one(r, &exist), 0);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(run_one(r, &get), 0);
	assert_int_equal(get.value_bytes, 5);
	assert_string_equal(buf, "value");
	get.bytes = 4;
	memset(buf, 0, sizeof(buf));
	assert_int_equal(run_one(r, &get), -EMSGSIZE);
	assert_int_equal(get.value_bytes, 5);
	assert_int_equal(buf[0], 0);
	get.flags = PEAL_PART;
	assert_int_equal(run_one(r, &get), 0);
	assert_int_equal(get.value_bytes, 5);
	assert_string_equal(buf, "valu");
	get.buf = peal_mem_ptr(r->m);
	get.flags |= PEAL_DIRECT;
	assert_int_equal(run_one(r, &get), 0);
	assert_int_equal(get.value_bytes, 5);
	assert_memory_equal(get.buf, "valu\0", 5);
	assert_int_equal(run_one(r, &del), 0);
	assert_int_equal(run_one(r, &del), -ENOENT);
}

static void test_arguments(void **state)
{
	struct rig *r = *state;
	char buf[8];
	struct peal_req bad = {
		.op = PEAL_REQ_GET, .key = peal_key_text("k"), .buf = buf, .bytes = 8};
	struct peal_queue *q;

	bad.flags = PEAL_DIRECT;
	assert_int_equal(run_one(r, &bad), -EINVAL); /* not registered */
	bad.buf = (uint8_t *)peal_mem_ptr(r->m) + MEM - 4;
	assert_int_equal(run_one(r, &bad), -EINVAL); /* not all of it */
	bad.flags = 0;
	bad.bytes = (1u << 20) + 1;
	assert_int_equal(run_one(r, &bad), -EFBIG);
	bad.buf = NULL;
	bad.bytes = 1;
	assert_int_equal(run_one(r, &bad), -EINVAL);
	bad.key.len = 0;
	assert_int_equal(run_one(r, &bad), -EINVAL);
	assert_int_equal(peal_queue_open(r->c->p, 0, &q), -EINVAL);
	assert_int_equal(peal_queue_open(r->c->p, 4096, &q), -EINVAL);
}

/* A flag that the op doesn't know is refused, not passed over. */
static void test_flags(void **state)
{
	static const uint32_t known[] = {
		[PEAL_REQ_GET] = PEAL_RAW | PEAL_PART | PEAL_DIRECT,
		[PEAL_REQ_PUT] = PEAL_IF_ABSENT | PEAL_IF_PRESENT | PEAL_DIRECT,
		[PEAL_REQ_DEL] = PEAL_DIRECT,
		[PEAL_REQ_EXIST] = PEAL_DIRECT,
	};
	struct rig *r = *state;

	for (int op = PEAL_REQ_GET; op <= PEAL_REQ_EXIST; op++) {
		for (uint32_t bit = 0; bit < 32; bit++) {
			struct peal_req req = {.op = (enum peal_req_op)op,
					       .flags = 1u << bit,
					       .key = peal_key_text("k"),
					       .buf = peal_mem_ptr(r->m),
					       .bytes = 4096};
			int res = run_one(r, &req);

			if (known[op] & req.flags)
				assert_int_not_equal(res, -EINVAL);
			else
				assert_int_equal(res, -EINVAL);
		}
	}
	struct peal_req both = {.op = PEAL_REQ_PUT,
				.flags = PEAL_IF_ABSENT | PEAL_IF_PRESENT,
				.key = peal_key_text("k"),
				.buf = "x",
				.bytes = 1};

	assert_int_equal(run_one(r, &both), -EINVAL);
}

static void test_deadlines(void **state)
{
	struct rig *r = *state;
	uint8_t buf[100];
	uint8_t *mem = peal_mem_ptr(r->m);
	struct peal_req put = {
		.op = PEAL_REQ_PUT, .key = peal_key_text("k"), .buf = mem, .bytes = 100};
	struct peal_req copied = {
		.op = PEAL_REQ_GET, .key = put.key, .buf = buf, .bytes = 100, .timeout_ms = 5};
	struct peal_req direct = {.op = PEAL_REQ_GET,
				  .key = put.key,
				  .buf = mem + 4096,
				  .bytes = 100,
				  .timeout_ms = 5,
				  .flags = PEAL_DIRECT};
	struct peal_req *both[2] = {&copied, &direct}, *done[2];

	client_fill(mem, 100, 1);
	assert_int_equal(run_one(r, &put), 0);
	fake_pause(r->c->f, true);
	assert_int_equal(peal_submit(r->q, both, 2), 2);
	/* The copied one ends with its deadline, the direct one doesn't. */
	assert_int_equal(peal_reap(r->q, done, 2, 10000), 1);
	assert_ptr_equal(done[0], &copied);
	assert_int_equal(copied.res, -ETIMEDOUT);
	assert_int_equal(peal_reap(r->q, done, 2, 20), 0);
	memset(buf, 0x33, sizeof(buf));
	fake_pause(r->c->f, false);
	assert_int_equal(peal_reap(r->q, done, 2, 10000), 1);
	assert_ptr_equal(done[0], &direct);
	assert_int_equal(direct.res, 0);
	assert_memory_equal(mem + 4096, mem, 100);
	for (unsigned i = 0; i < sizeof(buf); i++)
		assert_int_equal(buf[i], 0x33);
}

static void test_fd(void **state)
{
	struct rig *r = *state;
	struct pollfd pfd = {.fd = peal_queue_fd(r->q), .events = POLLIN};
	struct peal_req put = {
		.op = PEAL_REQ_PUT, .key = peal_key_text("k"), .buf = "x", .bytes = 1};
	struct peal_req late = {.op = PEAL_REQ_EXIST, .key = put.key, .timeout_ms = 5};
	struct peal_req *ptr = &put, *done;
	uint64_t n;
	int got = 0;

	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(peal_submit(r->q, &ptr, 1), 1);
		for (got = 0; !got;) {
			assert_int_equal(poll(&pfd, 1, 10000), 1);
			assert_int_equal(read(pfd.fd, &n, 8), 8);
			got = peal_reap(r->q, &done, 1, 0);
		}
		assert_int_equal(put.res, 0);
	}
	/* A deadline makes it readable too. */
	fake_pause(r->c->f, true);
	ptr = &late;
	assert_int_equal(peal_submit(r->q, &ptr, 1), 1);
	for (got = 0; !got;) {
		assert_int_equal(poll(&pfd, 1, 10000), 1);
		assert_int_equal(read(pfd.fd, &n, 8), 8);
		got = peal_reap(r->q, &done, 1, 0);
	}
	assert_int_equal(late.res, -ETIMEDOUT);
	fake_pause(r->c->f, false);
}

#define IDLE_QUEUES 4u
#define IDLE_BYTES (256u << 10)

/* All of a small pool in quarantine: idle queues' answers are taken by whoever wants buffers. */
static void test_idle(void **state)
{
	struct peal_opts o = {.buffer_bytes = IDLE_QUEUES * IDLE_BYTES};
	struct peal_key k = peal_key_text("k");
	struct peal_queue *q[IDLE_QUEUES + 1];
	struct peal_req reqs[IDLE_QUEUES + 1], *req;
	uint8_t *v = calloc(1, IDLE_BYTES);
	struct fake *f = fake_start(NULL);
	struct peal_stats st;
	struct peal *p;

	(void)state;
	assert_int_equal(peal_open(fake_uri(f), &o, &p), 0);
	for (unsigned i = 0; i <= IDLE_QUEUES; i++)
		assert_int_equal(peal_queue_open(p, 8, &q[i]), 0);
	assert_int_equal(peal_exist(p, &k, NULL), -ENOENT);
	for (unsigned round = 0; round < 2; round++) {
		fake_pause(f, true);
		for (unsigned i = 0; i <= IDLE_QUEUES; i++)
			reqs[i] = (struct peal_req){.op = PEAL_REQ_PUT,
						    .key = k,
						    .buf = v,
						    .bytes = IDLE_BYTES,
						    .timeout_ms = 10};
		for (unsigned i = 0; i < IDLE_QUEUES; i++) {
			req = &reqs[i];
			assert_int_equal(peal_submit(q[i], &req, 1), 1);
			assert_int_equal(peal_reap(q[i], &req, 1, 10000), 1);
			assert_int_equal(req->res, -ETIMEDOUT);
		}
		peal_stats(p, &st);
		assert_int_equal(st.quarantined_bytes, IDLE_QUEUES * IDLE_BYTES);
		req = &reqs[IDLE_QUEUES];
		assert_int_equal(peal_submit(q[IDLE_QUEUES], &req, 1), -EAGAIN);
		fake_pause(f, false);
		assert_int_equal(peal_exist(p, &k, NULL), 0); /* all before it is run */
		if (round) {
			assert_int_equal(peal_put(p, &k, v, IDLE_BYTES, NULL), 0);
		} else {
			req->timeout_ms = 0;
			assert_int_equal(peal_submit(q[IDLE_QUEUES], &req, 1), 1);
			assert_int_equal(peal_reap(q[IDLE_QUEUES], &req, 1, 10000), 1);
			assert_int_equal(req->res, 0);
		}
		peal_stats(p, &st);
		assert_int_equal(st.quarantined_bytes, 0);
	}
	peal_close(p);
	fake_stop(f);
	free(v);
}

struct looker {
	struct peal *p;
	_Atomic bool is_over;
};

static void *look(void *arg)
{
	struct looker *l = arg;
	struct peal_stats st;

	while (!atomic_load(&l->is_over)) {
		peal_stats(l->p, &st);
		sched_yield();
	}
	return NULL;
}

/* The same while the queue's own thread comes and goes. */
static void test_idle_race(void **state)
{
	struct client *c = ((struct rig *)*state)->c;
	struct looker l = {.p = c->p};
	struct peal_key k = peal_key_text("k");
	struct peal_queue *q;
	uint8_t v[4096] = {1};
	pthread_t thread;

	assert_int_equal(peal_queue_open(c->p, 4, &q), 0);
	assert_int_equal(pthread_create(&thread, NULL, look, &l), 0);
	for (unsigned i = 0; i < 60; i++) {
		struct peal_req req = {.op = PEAL_REQ_PUT,
				       .key = k,
				       .buf = v,
				       .bytes = sizeof(v),
				       .timeout_ms = 1},
				*ptr = &req;

		fake_pause(c->f, true);
		if (peal_submit(q, &ptr, 1) == 1) {
			assert_int_equal(peal_reap(q, &ptr, 1, 10000), 1);
			assert_int_equal(req.res, -ETIMEDOUT);
		}
		fake_pause(c->f, false);
		assert_int_equal(peal_run(q, &req, 1, 60000), 1);
	}
	atomic_store(&l.is_over, true);
	pthread_join(thread, NULL);
	peal_queue_close(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_copied, setup, teardown),
		cmocka_unit_test_setup_teardown(test_direct, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copied, setup_prp, teardown),
		cmocka_unit_test_setup_teardown(test_direct, setup_prp, teardown),
		cmocka_unit_test_setup_teardown(test_verbs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flags, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fd, setup, teardown),
		cmocka_unit_test(test_idle),
		cmocka_unit_test_setup_teardown(test_idle_race, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
