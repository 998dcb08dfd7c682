/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: what the daemon is told, arguments, freeing it with a request under way. */
#include "t_client.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int setup(void **state)
{
	return client_setup(state, NULL);
}

static void test_register(void **state)
{
	struct client *c = *state;
	unsigned before = fake_nr_maps(c->f);
	int fd = memfd_create("t", 0);
	struct peal_mem *m, *a;
	uint8_t *p;

	assert_int_equal(ftruncate(fd, 3 * 4096), 0);
	p = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
	assert_int_equal(peal_mem_register(c->p, fd, 100, p, 4096, &m), -EINVAL);
	assert_int_equal(peal_mem_register(c->p, fd, 4096, p + 1, 4096, &m), -EINVAL);
	assert_int_equal(peal_mem_register(c->p, fd, 4096, p, 4095, &m), -EINVAL);
	assert_int_equal(peal_mem_register(c->p, -1, 4096, p, 4096, &m), -EBADF);
	assert_int_equal(peal_mem_alloc(c->p, 0, &m), -EINVAL);
	assert_int_equal(peal_mem_register(c->p, fd, 4096, p, 2 * 4096, &m), 0);
	close(fd); /* it has its own */
	assert_ptr_equal(peal_mem_ptr(m), p);
	assert_int_equal(peal_mem_bytes(m), 2 * 4096);
	assert_int_equal(peal_mem_alloc(c->p, 5000, &a), 0);
	assert_int_equal(peal_mem_bytes(a), 8192);
	assert_int_equal(fake_nr_maps(c->f), before + 2);
	assert_int_equal(peal_mem_free(c->p, m), 0);
	assert_int_equal(peal_mem_free(c->p, NULL), 0);
	assert_int_equal(fake_nr_maps(c->f), before + 1);
	p[0] = 1; /* still the caller's */
	munmap(p, 2 * 4096);
	/* The other one goes with the handle. */
}

struct freeing {
	struct client *c;
	struct peal_mem *m;
	_Atomic bool is_done;
};

static void *free_mem(void *arg)
{
	struct freeing *f = arg;

	unit_thread_begin();
	assert_int_equal(peal_mem_free(f->c->p, f->m), 0);
	atomic_store(&f->is_done, true);
	return NULL;
}

/* The daemon is stopped with a request under way: memory isn't free until it answers. */
static void test_free_waits(void **state)
{
	struct client *c = *state;
	struct freeing f = {.c = c};
	struct peal_req put = {
		.op = PEAL_REQ_PUT, .key = peal_key_text("k"), .flags = PEAL_DIRECT, .bytes = 4096};
	struct peal_req *ptr = &put, *done;
	struct peal_queue *q;
	pthread_t t;

	assert_int_equal(peal_queue_open(c->p, 4, &q), 0);
	assert_int_equal(peal_mem_alloc(c->p, 4096, &f.m), 0);
	put.buf = peal_mem_ptr(f.m);
	fake_pause(c->f, true);
	assert_int_equal(peal_submit(q, &ptr, 1), 1);
	assert_int_equal(pthread_create(&t, NULL, free_mem, &f), 0);
	assert_int_equal(peal_reap(q, &done, 1, 30), 0);
	assert_false(atomic_load(&f.is_done));
	fake_pause(c->f, false);
	assert_int_equal(peal_reap(q, &done, 1, 10000), 1);
	pthread_join(t, NULL);
	/* Not registered any more. */
	assert_int_equal(peal_submit(q, &ptr, 1), 1);
	assert_int_equal(peal_reap(q, &done, 1, 10000), 1);
	assert_int_equal(put.res, -EINVAL);
	peal_queue_close(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_register, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_free_waits, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
