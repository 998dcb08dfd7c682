/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vfio-user server as a transport: <dir>/cntrl, who may connect, and one poller per worker.
 *
 * The socket is made with mode 0600; whoever changes that decides who else may attach. A stale one
 * is taken away only when nobody answers behind it. Connections beyond max_clients are told so and
 * closed (vfu_refuse.c); those that say nothing can't take all of the places.
 *
 * The home reactor has the listener, all sockets and all admin queues. Idle: pollers
 * arm the wake pages (vfu_bell.c); while a client that can't ring has a queue on a worker, or a
 * queue waits for a CQ head, that worker sleeps at most poll_ns. A home apart has admin
 * queues alone, which nobody measures: it never looks more often than by default, or it would take
 * the processor from those who look for commands.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "base/mono.h"
#include "base/usock.h"
#include "core/fd_drop.h"
#include "transport/vfu/vfu_int.h"

#define VFU_POLL_NS_DEFAULT (5 * MONO_NS_PER_MS)
#define VFU_BACKLOG 64
#define VFU_ACCEPT_BUDGET 16
#define VFU_GOING_MAX 16
#define VFU_AGAIN_NS (100 * MONO_NS_PER_MS)

/* ---- workers ---- */

static void vfu_worker_rest(struct vfu_worker *w)
{
	uint64_t ns = UINT64_MAX;

	if (w->is_busy)
		ns = 0;
	else if (w->nr_stock || w->is_blocked)
		ns = w->poll_ns;
	if (ns == w->sleep_ns)
		return;
	w->sleep_ns = ns;
	reactor_poller_sleep(w->tw->reactor, &w->poller, ns);
}

static int vfu_worker_poll(struct poller *p)
{
	struct vfu_worker *w = container_of(p, struct vfu_worker, poller);
	int nr = vfu_qp_poll(w);

	vfu_worker_rest(w);
	return nr;
}

static void vfu_listen(struct vfu *v);

static void vfu_worker_start_at(struct mbox_msg *m)
{
	struct vfu_worker *w = container_of(m, struct vfu_worker, start);

	reactor_poller_add(w->tw->reactor, &w->poller);
	tgt_worker_watch(w->tw, &w->watcher);
	if (w != vfu_home(w->vfu))
		return;
	w->vfu->alone_since_ns = reactor_now_ns(w->tw->reactor);
	vfu_listen(w->vfu);
}

static void vfu_worker_init(struct vfu *v, unsigned id)
{
	struct vfu_worker *w = &v->workers[id];

	w->vfu = v;
	w->tw = v->node->workers[id];
	w->id = id;
	must(reactor_id(w->tw->reactor) == id);
	w->poll_ns = v->poll_ns;
	if (v->node->is_home_apart && w == vfu_home(v))
		w->poll_ns = max_t(uint64_t, w->poll_ns, VFU_POLL_NS_DEFAULT);
	else
		w->is_busy = v->is_busy;
	w->sleep_ns = w->is_busy ? 0 : UINT64_MAX;
	w->poller = (struct poller){.name = "vfu",
				    .poll = vfu_worker_poll,
				    .arm = vfu_bell_arm,
				    .disarm = vfu_bell_disarm,
				    .max_sleep_ns = w->sleep_ns};
	w->watcher.changed = vfu_watch_changed;
	list_init(&w->shares);
	list_init(&w->idle);
	list_init(&w->quiet);
	list_init(&w->busy);
	list_init(&w->held);
	list_init(&w->dying);
	list_init(&w->dirty);
}

/* ---- accepting ---- */

/*
 * Whether there is a place for one more. Of the places of clients a quarter may be taken by
 * connections that have said no VERSION yet; when there is no other, the oldest of those makes
 * room. Not before: many that start at once are all silent for a moment. One that is on its way
 * out, which takes a round, has no place any more; of such there are only so many, too.
 */
static bool vfu_has_place(struct vfu *v)
{
	unsigned nr_silent = 0, nr_going = 0;
	struct vfu_dev *d, *oldest = NULL;

	if (v->nr_devs < v->max_clients)
		return true;
	list_for_each_entry(d, &v->devs, node) {
		if (d->ctrl)
			continue;
		if (d->sock.is_shut) {
			nr_going++;
			continue;
		}
		nr_silent++;
		oldest = oldest ? oldest : d;
	}
	if (nr_going >= VFU_GOING_MAX)
		return false;
	if (v->nr_devs - nr_going < v->max_clients)
		return true;
	if (!oldest || nr_silent < v->max_clients / 4)
		return false;
	log_some_warn("vfu: %s: no VERSION yet and others want to come in, closed", oldest->host);
	v->refused.nr_silent++;
	vfu_sock_shut(oldest);
	return true;
}

static void vfu_accepted(struct vfu *v, int fd)
{
	int err;

	if (!vfu_has_place(v)) {
		log_some_warn("vfu: %s: more than %u clients, refused", v->path, v->max_clients);
		vfu_refuse(v, fd, EUSERS);
		return;
	}
	/* Else somebody who comes and goes could fill our table with descriptors. */
	if (fd_drop_nr_stuck() > FD_DROP_MANY) {
		log_some_warn("vfu: %s: too many descriptors that can't be closed, refused",
			      v->path);
		vfu_refuse(v, fd, EAGAIN);
		return;
	}
	err = vfu_dev_create(v, fd);
	if (err) {
		log_some_warn("vfu: %s: new client: %s, refused", v->path, strerrorname_np(-err));
		vfu_refuse(v, fd, -err);
	}
}

static void vfu_ready(struct io_req *io, int res)
{
	struct vfu *v = container_of(io, struct vfu, io);

	v->is_polling = false;
	for (int i = 0; i < VFU_ACCEPT_BUDGET && !v->is_stopping; i++) {
		int fd = accept4(v->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			vfu_accepted(v, fd);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			log_some_warn("vfu: %s: accept: %s", v->path, strerrorname_np(errno));
			timeout_set(vfu_home_reactor(v), &v->again,
				    reactor_now_ns(vfu_home_reactor(v)) + VFU_AGAIN_NS);
			return;
		} else if (errno != ECONNABORTED && errno != EINTR) {
			break;
		}
	}
	vfu_listen(v);
}

static void vfu_again(struct timeout *t)
{
	vfu_listen(container_of(t, struct vfu, again));
}

/* Goes on listening, or, when it is stopping, looks whether that was the last thing. */
static void vfu_listen(struct vfu *v)
{
	if (v->is_stopping) {
		vfu_dev_gone(v);
		return;
	}
	v->io = (struct io_req){
		.op = IO_POLL, .fd = v->listen_fd, .poll_mask = POLLIN, .end = vfu_ready};
	v->is_polling = true;
	reactor_io(vfu_home_reactor(v), &v->io);
}

static int vfu_start(struct tr *tr)
{
	struct vfu *v = container_of(tr, struct vfu, tr);
	int fd = usock_listen(v->path, VFU_BACKLOG);

	if (fd < 0)
		return fd;
	v->listen_fd = fd;
	for (unsigned i = 0; i < v->node->nr; i++) {
		v->workers[i].start.fn = vfu_worker_start_at;
		mbox_post(v->node->reactors[i], &v->workers[i].start);
	}
	return 0;
}

/* ---- stopping ---- */

static void vfu_pollers_off(struct reactor_round *rd, struct reactor *r)
{
	struct vfu *v = container_of(rd, struct vfu, round);
	struct vfu_worker *w = &v->workers[reactor_id(r)];

	must(list_is_empty(&w->shares) && list_is_empty(&w->held));
	must(list_is_empty(&w->dying) && list_is_empty(&w->dirty));
	tgt_worker_unwatch(&w->watcher);
	reactor_poller_del(r, &w->poller);
}

static void vfu_stopped(struct reactor_round *rd)
{
	struct vfu *v = container_of(rd, struct vfu, round);
	int fd;

	/* Who connected and was never accepted may have sent something, too. */
	while ((fd = accept4(v->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		vfu_sock_close(fd);
	close(v->listen_fd);
	v->listen_fd = -1;
	v->stopped(v->stopped_arg);
}

/* A client has gone, or the listener has. */
void vfu_dev_gone(struct vfu *v)
{
	if (!v->is_stopping || v->nr_devs || v->nr_refusals || v->is_polling || v->round.done)
		return;
	v->round.fn = vfu_pollers_off;
	v->round.done = vfu_stopped;
	reactor_round_start(&v->round, vfu_home_reactor(v), v->node->reactors, v->node->nr);
}

static void vfu_stop(struct tr *tr, void (*done)(void *arg), void *arg)
{
	struct vfu *v = container_of(tr, struct vfu, tr);
	struct vfu_dev *d, *tmp;

	must(!v->is_stopping);
	v->is_stopping = true;
	v->stopped = done;
	v->stopped_arg = arg;
	unlink(v->path);
	shutdown(v->listen_fd, SHUT_RDWR); /* ends the poll */
	timeout_cancel(&v->again);
	list_for_each_entry_safe(d, tmp, &v->devs, node)
		vfu_sock_shut(d);
	vfu_refuse_stop(v);
	vfu_dev_gone(v);
}

static void vfu_destroy(struct tr *tr)
{
	struct vfu *v = container_of(tr, struct vfu, tr);

	must(v->nr_devs == 0 && v->listen_fd < 0);
	free(v->workers);
	free(v->record_dir);
	free(v->path);
	free(v);
}

static unsigned vfu_nr_hosts(struct tr *tr)
{
	return container_of(tr, struct vfu, tr)->nr_devs;
}

static void vfu_refused(struct tr *tr, struct tr_refused *r)
{
	*r = container_of(tr, struct vfu, tr)->refused;
}

static uint64_t vfu_alone_since_ns(struct tr *tr)
{
	const struct vfu *v = container_of(tr, struct vfu, tr);

	return v->nr_devs ? 0 : v->alone_since_ns;
}

static const struct tr_ops vfu_ops = {
	.name = "vfu",
	.start = vfu_start,
	.stop = vfu_stop,
	.destroy = vfu_destroy,
	.nr_hosts = vfu_nr_hosts,
	.refused = vfu_refused,
	.alone_since_ns = vfu_alone_since_ns,
	.list_hosts = vfu_list_hosts,
};

/* Half of what the kernel gives a process; the rest is for everything else. */
static uint32_t vfu_mapped_max(void)
{
	unsigned nr = 65530;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");

	if (f) {
		if (fscanf(f, "%u", &nr) != 1)
			nr = 65530;
		fclose(f);
	}
	return nr / 2;
}

int vfu_create(struct tgt_subsys *ss, const struct vfu_opts *o, struct tr **tr)
{
	struct vfu *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->tr.ops = &vfu_ops;
	v->ss = ss;
	v->node = tgt_subsys_node(ss);
	v->max_clients = o->max_clients ? o->max_clients : VFU_CLIENTS_DEFAULT;
	v->poll_ns = o->poll_ns ? o->poll_ns : VFU_POLL_NS_DEFAULT;
	v->is_busy = o->is_busy;
	v->mapped_max = vfu_mapped_max();
	v->listen_fd = -1;
	list_init(&v->devs);
	vfu_refuse_init(v);
	timeout_init(&v->again, vfu_again);
	v->workers = calloc(v->node->nr, sizeof(*v->workers));
	if (!v->workers || asprintf(&v->path, "%s/cntrl", o->dir) < 0) {
		free(v->workers);
		free(v);
		return -ENOMEM;
	}
	if (o->record_dir)
		v->record_dir = strdup(o->record_dir);
	v->is_record_asked = o->is_record_asked;
	v->is_record_values = o->is_record_values;
	for (unsigned i = 0; i < v->node->nr; i++)
		vfu_worker_init(v, i);
	*tr = &v->tr;
	return 0;
}
