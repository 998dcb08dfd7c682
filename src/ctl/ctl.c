/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: epoll over its sockets and an eventfd, a mailbox for what comes back from
 * reactors. See ctl.h. A reactor that answers writes the eventfd once per batch of answers, which
 * is all that the control plane costs it beside the work itself.
 *
 * Stopping: no new requests; calls under way see is_stopping and end early; when the last is back
 * the thread ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/container.h"
#include "base/mono.h"
#include "base/must.h"
#include "core/thread.h"
#include "ctl/ctl_int.h"

#define CTL_EVENTS 32

/* ---- descriptors ---- */

int ctl_fd_add(struct ctl *c, struct ctl_fd *f)
{
	struct epoll_event ev = {.events = f->events, .data.ptr = f};

	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, f->fd, &ev) ? -errno : 0;
}

void ctl_fd_set(struct ctl *c, struct ctl_fd *f, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = f};

	if (f->events == events)
		return;
	f->events = events;
	must(epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, f->fd, &ev) == 0);
}

void ctl_fd_del(struct ctl *c, struct ctl_fd *f)
{
	must(epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, f->fd, NULL) == 0);
}

/* ---- calls ---- */

static void ctl_kick(struct ctl *c)
{
	uint64_t one = 1;
	ssize_t n = write(c->wake.fd, &one, sizeof(one));

	/* EAGAIN: the counter is full, so that it is readable anyway. */
	must(n == sizeof(one) || errno == EAGAIN);
}

static void ctl_call_arrive(struct mbox_msg *m)
{
	struct ctl_call *call = container_of(m, struct ctl_call, msg);

	call->run(call);
}

void ctl_call_start(struct ctl *c, struct ctl_call *call)
{
	c->nr_calls++;
	call->c = c;
	call->msg.fn = ctl_call_arrive;
	mbox_post(ctl_home(c), &call->msg);
}

static void ctl_call_back(struct mbox_msg *m)
{
	struct ctl_call *call = container_of(m, struct ctl_call, msg);

	call->c->nr_calls--;
	call->done(call);
}

void ctl_call_end(struct ctl_call *call)
{
	struct ctl *c = call->c;

	call->msg.fn = ctl_call_back;
	if (mbox_push(&c->mbox, &call->msg, &call->msg))
		ctl_kick(c);
}

static void ctl_woken(struct ctl_fd *f, uint32_t events)
{
	struct ctl *c = container_of(f, struct ctl, wake);
	struct mbox_msg *m;
	uint64_t nr;
	ssize_t n = read(f->fd, &nr, sizeof(nr));

	(void)n; /* EAGAIN: somebody was woken for nothing */
	while ((m = mbox_take(&c->mbox)))
		m->fn(m);
}

/* ---- the thread ---- */

static int ctl_timeout(const struct ctl *c)
{
	int a = c->sock ? rpc_sock_timeout(c->sock) : -1;
	int b = c->http && !c->is_closed ? http_timeout(c->http) : -1;

	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void ctl_tick(struct ctl *c)
{
	if (c->sock)
		rpc_sock_tick(c->sock, mono_ns());
	if (c->http && !c->is_closed)
		http_tick(c->http, mono_ns());
}

bool ctl_step(struct ctl *c, int timeout_ms)
{
	struct epoll_event ev[CTL_EVENTS];
	int n = epoll_wait(c->epoll_fd, ev, CTL_EVENTS, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct ctl_fd *f = ev[i].data.ptr;

		f->ready(f, ev[i].events);
	}
	if (!c->is_closed && atomic_load(&c->is_stopping)) {
		c->is_closed = true;
		if (c->sock)
			rpc_sock_stop(c->sock);
		if (c->http)
			http_stop(c->http);
		rpc_hold_end(c);
	}
	ctl_tick(c);
	return !c->is_closed || c->nr_calls;
}

static void *ctl_main(void *arg)
{
	struct ctl *c = arg;

	while (ctl_step(c, ctl_timeout(c)))
		;
	return NULL;
}

int ctl_start(struct ctl *c)
{
	int err = c ? thread_start(&c->thread, "peal-ctl", -1, ctl_main, c) : 0;

	if (c && !err)
		c->is_started = true;
	return err;
}

void ctl_stop(struct ctl *c)
{
	if (!c || !c->is_started)
		return;
	atomic_store(&c->is_stopping, true);
	ctl_kick(c);
	pthread_join(c->thread, NULL);
	c->is_started = false;
}

void ctl_destroy(struct ctl *c)
{
	if (!c)
		return;
	must(!c->is_started && c->nr_calls == 0);
	if (c->sock)
		rpc_sock_destroy(c->sock);
	if (c->http)
		http_destroy(c->http);
	if (c->wake.fd >= 0)
		close(c->wake.fd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	free(c);
}

static bool ctl_has_rpc(const struct conf *c)
{
	return c->rpc_socket[0] && strcmp(c->rpc_socket, "none") != 0;
}

/* what: for the line that says what failed. */
static int ctl_open(struct ctl *c, char what[CTL_WHAT_BYTES])
{
	int err;

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->epoll_fd < 0 || c->wake.fd < 0)
		return -errno;
	c->wake.events = EPOLLIN;
	c->wake.ready = ctl_woken;
	err = ctl_fd_add(c, &c->wake);
	if (!err && ctl_has_rpc(c->conf)) {
		snprintf(what, CTL_WHAT_BYTES, "rpc: listening on %s", c->conf->rpc_socket);
		err = rpc_sock_create(c, c->conf->rpc_socket, &c->sock);
	}
	if (!err && c->conf->http_host[0]) {
		snprintf(what, CTL_WHAT_BYTES, "http: listening on %s port %u", c->conf->http_host,
			 c->conf->http_port);
		err = http_create(c, &c->http);
	}
	return err;
}

int ctl_create(const struct ctl_opts *o, struct ctl **out, char what[CTL_WHAT_BYTES])
{
	struct ctl *c;
	int err;

	*out = NULL;
	strcpy(what, "control plane");
	if (!ctl_has_rpc(o->conf) && !o->conf->http_host[0])
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->conf = o->conf;
	c->subsys = o->subsys;
	c->node = tgt_subsys_node(o->subsys);
	c->tr = o->tr;
	c->watch = o->watch;
	c->born_ns = mono_ns();
	c->born_s = (double)time(NULL);
	c->epoll_fd = c->wake.fd = -1;
	mbox_init(&c->mbox);
	c->rpc = (struct rpc){.methods = rpc_table_methods, .arg = c};
	err = ctl_open(c, what);
	if (err) {
		ctl_destroy(c);
		return err;
	}
	*out = c;
	return 0;
}
