/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper thread, see keeper.h. All signals are blocked in it. p->conn is written by it alone.
 */
#include "client/keeper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mono.h"
#include "client/batch.h"
#include "client/call.h"
#include "client/errmsg.h"
#include "client/memreg.h"
#include "client/spawn.h"

#define KEEPER_BACKOFF_MIN_MS 10
#define KEEPER_BACKOFF_MAX_MS 1000
#define KEEPER_TICK_MS 20 /* the grain of deadlines for those who poll a queue's eventfd */
#define KEEPER_TRY_NS (2 * MONO_NS_PER_S)
#define KEEPER_SPAWN_NS (10 * MONO_NS_PER_S)
#define KEEPER_BUFFER_BYTES (64ull << 20)

static _Atomic unsigned keeper_forks;

static void keeper_fork_child(void)
{
	atomic_fetch_add(&keeper_forks, 1);
}

static void keeper_fork_init(void)
{
	pthread_atfork(NULL, NULL, keeper_fork_child);
}

unsigned keeper_fork_gen(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, keeper_fork_init);
	return atomic_load_explicit(&keeper_forks, memory_order_relaxed);
}

/*
 * What a daemon may take to come up: where it has an SSD, it makes its files whole first, which a
 * slow device does at 64 MiB a second.
 */
static uint64_t keeper_spawn_ns(const struct peal *p)
{
	uint64_t asked_ns = p->opts.timeout_ms * MONO_NS_PER_MS;
	uint64_t ns = KEEPER_SPAWN_NS + (p->uri.ssd_bytes >> 26) * MONO_NS_PER_S;

	return asked_ns > ns ? asked_ns : ns;
}

static int keeper_connect(struct peal *p, uint64_t deadline_ns, struct conn **c)
{
	struct conn_opts o = {
		.path = p->uri.path,
		.nsid = p->opts.nsid,
		.buffer_bytes = p->opts.buffer_bytes ? p->opts.buffer_bytes : KEEPER_BUFFER_BYTES,
		.is_operator = p->opts.is_operator,
		.deadline_ns = deadline_ns,
	};

	int err = p->uri.is_spawn ? spawn_attach(&p->uri, &o, c) : conn_open(&o, c);

	if (!err)
		(*c)->p = p;
	return err;
}

/* Registered memory is known to the new connection before anybody can use it. */
static int keeper_publish(struct peal *p, struct conn *c, uint64_t deadline_ns)
{
	int err;

	pthread_mutex_lock(&p->mem_lock);
	err = memreg_map_all(p, c, deadline_ns);
	if (!err) {
		pthread_mutex_lock(&p->lock);
		p->conn = c;
		p->last_error[0] = 0;
		pthread_mutex_unlock(&p->lock);
	}
	pthread_mutex_unlock(&p->mem_lock);
	return err;
}

static void keeper_lose(struct peal *p, struct conn *c)
{
	conn_kill(c);
	pthread_mutex_lock(&p->lock);
	p->conn = NULL;
	pthread_mutex_unlock(&p->lock);
	batch_kick_all(p, UINT64_MAX);
	conn_put(c);
}

/* One try. The thread's message becomes what callers read meanwhile. */
static void keeper_retry(struct peal *p)
{
	uint64_t deadline = mono_ns() + (p->uri.is_spawn ? keeper_spawn_ns(p) : KEEPER_TRY_NS);
	struct conn *c;
	int err = keeper_connect(p, deadline, &c);

	if (!err) {
		err = keeper_publish(p, c, deadline);
		if (err)
			conn_put(c);
	}
	if (!err) {
		call_count(&p->reconnects, 1);
		batch_kick_all(p, UINT64_MAX);
		return;
	}
	pthread_mutex_lock(&p->lock);
	snprintf(p->last_error, sizeof(p->last_error), "%s", peal_errmsg());
	pthread_mutex_unlock(&p->lock);
}

/* True when the daemon has closed its side. */
static bool keeper_watch(struct peal *p, struct conn *c, int timeout_ms)
{
	struct pollfd pfd[2] = {
		{.fd = p->keeper_fd, .events = POLLIN},
		{.fd = c ? c->wire.fd : -1, .events = POLLRDHUP},
	};
	uint64_t count;

	if (poll(pfd, 2, timeout_ms) <= 0)
		return false;
	if (pfd[0].revents && read(p->keeper_fd, &count, sizeof(count)) < 0)
		return false;
	return pfd[1].revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static void *keeper_main(void *arg)
{
	struct peal *p = arg;
	int backoff_ms = KEEPER_BACKOFF_MIN_MS;

	while (!atomic_load(&p->is_closing)) {
		struct conn *c = p->conn; /* only this thread changes it */
		bool is_ticking = batch_kick_all(p, mono_ns());

		if (c && keeper_watch(p, c, is_ticking ? KEEPER_TICK_MS : -1)) {
			keeper_lose(p, c);
			backoff_ms = KEEPER_BACKOFF_MIN_MS;
			continue;
		}
		if (c || atomic_load(&p->is_closing))
			continue;
		if (p->opts.no_reconnect) {
			keeper_watch(p, NULL, -1);
			continue;
		}
		keeper_retry(p);
		if (p->conn)
			continue;
		keeper_watch(p, NULL, backoff_ms);
		backoff_ms = backoff_ms * 2 < KEEPER_BACKOFF_MAX_MS ? backoff_ms * 2
								    : KEEPER_BACKOFF_MAX_MS;
	}
	return NULL;
}

int keeper_start(struct peal *p)
{
	uint64_t now = mono_ns();
	sigset_t all, before;
	struct conn *c;
	int err = keeper_connect(
		p, p->uri.is_spawn ? now + keeper_spawn_ns(p) : call_deadline(p, 0), &c);

	if (err)
		return err;
	p->keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->keeper_fd < 0) {
		err = errmsg_set(-errno, "no eventfd: %s", strerror(errno));
		goto put_conn;
	}
	p->conn = c;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&p->keeper, NULL, keeper_main, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		err = errmsg_set(-err, "no thread: %s", strerror(err));
		goto close_fd;
	}
	return 0;
close_fd:
	close(p->keeper_fd);
	p->conn = NULL;
put_conn:
	conn_put(c);
	return err;
}

void keeper_kick(struct peal *p)
{
	uint64_t one = 1;

	if (write(p->keeper_fd, &one, sizeof(one)) < 0)
		return; /* full: it will look */
}

void keeper_stop(struct peal *p)
{
	atomic_store(&p->is_closing, true);
	keeper_kick(p);
	pthread_join(p->keeper, NULL);
	close(p->keeper_fd);
}
