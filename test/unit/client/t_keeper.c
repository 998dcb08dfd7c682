/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handle through the loss of its daemon: what fails, what comes back by itself, what a child of
 * fork() may do.
 */
#include "t_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int setup(void **state)
{
	return client_setup(state, NULL);
}

/* Until the keeper has done its work. Bounded by the test's time-out. */
static void wait_connected(struct client *c)
{
	struct peal_info info;

	while (peal_info(c->p, &info) < 0)
		poll(NULL, 0, 1);
}

static void wait_lost(struct client *c)
{
	struct peal_info info;

	while (peal_info(c->p, &info) == 0)
		poll(NULL, 0, 1);
}

static void test_disconnect(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_req *done, get = {.op = PEAL_REQ_GET, .key = k, .flags = PEAL_DIRECT};
	struct peal_req *ptr = &get;
	struct peal_stats st;
	struct peal_queue *q;
	struct peal_mem *m;
	char buf[8] = {0};

	assert_int_equal(peal_put(c->p, &k, "value", 5, NULL), 0);
	assert_int_equal(peal_queue_open(c->p, 8, &q), 0);
	assert_int_equal(peal_mem_alloc(c->p, 4096, &m), 0);
	get.buf = peal_mem_ptr(m);
	get.bytes = 4096;

	/* Under way when the connection ends: only that ends it. */
	fake_pause(c->f, true);
	assert_int_equal(peal_submit(q, &ptr, 1), 1);
	assert_int_equal(peal_reap(q, &done, 1, 10), 0);
	fake_disconnect(c->f);
	assert_int_equal(peal_reap(q, &done, 1, 10000), 1);
	assert_int_equal(get.res, -ENOTCONN);
	wait_lost(c);
	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), -ENOTCONN);
	assert_non_null(strstr(peal_errmsg(), "gone"));
	assert_int_equal(peal_submit(q, &ptr, 1), -ENOTCONN);

	/* Everything is made again. */
	fake_pause(c->f, false);
	wait_connected(c);
	assert_int_equal(fake_nr_connects(c->f), 2);
	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), 5);
	assert_string_equal(buf, "value");
	assert_int_equal(peal_submit(q, &ptr, 1), 1);
	assert_int_equal(peal_reap(q, &done, 1, 10000), 1);
	assert_int_equal(get.res, 0);
	assert_memory_equal(get.buf, "value", 5);
	peal_stats(c->p, &st);
	assert_int_equal(st.reconnects, 1);
}

/* The first daemon dies, another one comes to the same place: cold, and found by itself. */
static void test_restart(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	char dir[64], buf[8];

	snprintf(dir, sizeof(dir), "%s", fake_dir(c->f));
	assert_int_equal(peal_put(c->p, &k, "value", 5, NULL), 0);
	fake_stop(c->f);
	wait_lost(c);
	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), -ENOTCONN);
	assert_int_equal(mkdir(dir, 0700), 0);
	c->f = fake_start(&(struct fake_opts){.dir = dir});
	wait_connected(c);
	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), -ENOENT);
	assert_int_equal(peal_put(c->p, &k, "value", 5, NULL), 0);
	assert_int_equal(peal_get(c->p, &k, buf, sizeof(buf), NULL), 5);
}

static int run_one(struct peal_queue *q, struct peal_req *req)
{
	struct peal_req *done;

	assert_int_equal(peal_submit(q, &req, 1), 1);
	assert_int_equal(peal_reap(q, &done, 1, 10000), 1);
	return req->res;
}

/* Memory that is registered and freed while there is no daemon: the next one knows what is left. */
static void test_memory_meanwhile(void **state)
{
	struct client *c = *state;
	struct peal_req put = {.op = PEAL_REQ_PUT, .key = peal_key_text("k"), .bytes = 4096};
	struct peal_mem *before, *freed, *during, *gone, *bad;
	int no_mem_fd = eventfd(0, EFD_CLOEXEC); /* can't be mapped */
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned nr_own;
	struct peal_queue *q;
	char dir[64];

	put.flags = PEAL_DIRECT;
	assert_int_equal(peal_queue_open(c->p, 8, &q), 0);
	nr_own = fake_nr_maps(c->f);
	assert_int_equal(peal_mem_register(c->p, no_mem_fd, 0, page, 4096, &bad), -ENOTSUP);
	assert_int_equal(peal_mem_alloc(c->p, 4096, &before), 0);
	assert_int_equal(peal_mem_alloc(c->p, 4096, &freed), 0);
	snprintf(dir, sizeof(dir), "%s", fake_dir(c->f));
	fake_stop(c->f);
	wait_lost(c);
	assert_int_equal(peal_mem_free(c->p, freed), 0);
	assert_int_equal(peal_mem_alloc(c->p, 4096, &during), 0);
	assert_int_equal(peal_mem_alloc(c->p, 4096, &gone), 0);
	assert_int_equal(peal_mem_free(c->p, gone), 0);
	assert_int_equal(peal_mem_register(c->p, no_mem_fd, 0, page, 4096, &bad), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	c->f = fake_start(&(struct fake_opts){.dir = dir});
	wait_connected(c);
	put.buf = peal_mem_ptr(before);
	assert_int_equal(run_one(q, &put), 0);
	put.buf = peal_mem_ptr(during);
	assert_int_equal(run_one(q, &put), 0);
	assert_int_equal(fake_nr_maps(c->f), nr_own + 2);
	/* What it refused is no reason to have no daemon. */
	put.buf = page;
	assert_int_equal(run_one(q, &put), -EINVAL);
	assert_int_equal(peal_mem_free(c->p, bad), 0);
	close(no_mem_fd);
	munmap(page, 4096);
}

static void test_no_reconnect(void **state)
{
	struct client *c = *state;
	struct peal *p;
	struct fake *f = fake_start(NULL);
	struct peal_info info;
	struct peal_mem *m;

	assert_int_equal(peal_open(fake_uri(f), &(struct peal_opts){.no_reconnect = true}, &p), 0);
	fake_disconnect(f);
	while (peal_info(p, &info) == 0)
		poll(NULL, 0, 1);
	assert_int_equal(peal_info(p, &info), -ENOTCONN);
	assert_int_equal(peal_mem_alloc(p, 4096, &m), -ENOTCONN);
	peal_close(p);
	assert_int_equal(fake_nr_connects(f), 1);
	fake_stop(f);
	assert_int_equal(peal_info(c->p, &info), 0);
}

static int in_child(struct client *c, struct peal_queue *q)
{
	struct peal_key k = peal_key_text("k");
	struct peal_req *none = NULL;
	char b;

	if (peal_get(c->p, &k, &b, 1, NULL) != -EPERM || !strstr(peal_errmsg(), "fork"))
		return 1;
	if (peal_submit(q, &none, 1) != -EPERM || peal_reap(q, &none, 1, 0) != -EPERM)
		return 2;
	peal_queue_close(q);
	peal_close(c->p);
	return 0;
}

static void test_fork(void **state)
{
	struct client *c = *state;
	struct peal_key k = peal_key_text("k");
	struct peal_queue *q;
	int status;
	pid_t pid;

	assert_int_equal(peal_put(c->p, &k, "v", 1, NULL), 0);
	assert_int_equal(peal_queue_open(c->p, 4, &q), 0);
	pid = fork();
	if (pid == 0)
		_exit(in_child(c, q));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	/* The parent noticed nothing. */
	assert_int_equal(peal_exist(c->p, &k, NULL), 0);
	assert_int_equal(fake_nr_connects(c->f), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_disconnect, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_memory_meanwhile, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_no_reconnect, setup, client_teardown),
		cmocka_unit_test_setup_teardown(test_fork, setup, client_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
