/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection, see conn.h. All connections of the process are in one list, so that a
 * child of fork() can close its copies of the sockets: the daemon must see the end of the parent,
 * whatever its children do.
 */
/* tidy: no-test: every test of a call opens and closes one */
#include "client/conn.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/chan.h"
#include "client/errmsg.h"

static struct list conn_all = LIST_INIT(conn_all);
static pthread_mutex_t conn_all_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t conn_fork_once = PTHREAD_ONCE_INIT;

static void conn_fork_prepare(void)
{
	pthread_mutex_lock(&conn_all_lock);
}

static void conn_fork_parent(void)
{
	pthread_mutex_unlock(&conn_all_lock);
}

static void conn_fork_child(void)
{
	struct conn *c;

	list_for_each_entry(c, &conn_all, node) {
		close(c->wire.fd);
		c->wire.fd = -1;
	}
	list_init(&conn_all);
	pthread_mutex_unlock(&conn_all_lock);
}

static void conn_fork_init(void)
{
	pthread_atfork(conn_fork_prepare, conn_fork_parent, conn_fork_child);
}

static void conn_free(struct conn *c)
{
	int admin_fd = c->admin ? c->admin->fd : -1;

	pthread_mutex_lock(&conn_all_lock);
	list_del(&c->node);
	pthread_mutex_unlock(&conn_all_lock);
	chan_destroy_all(c);
	conn_arena_fini(c);
	bufs_fini(&c->bufs);
	shm_destroy(&c->admin_data);
	if (c->admin)
		qp_free(c->admin);
	if (admin_fd >= 0)
		close(admin_fd);
	if (c->doorbells)
		munmap(c->doorbells, c->doorbells_bytes);
	if (c->wake)
		munmap(c->wake, 4096);
	for (unsigned i = 0; i < c->nr_wake_fds; i++)
		close(c->wake_fds[i]);
	if (c->wire.fd >= 0)
		wire_close(&c->wire);
	turn_fini(&c->admin_turn);
	pthread_mutex_destroy(&c->lock);
	turn_fini(&c->chans_turn);
	pthread_mutex_destroy(&c->arena_lock);
	free(c);
}

int conn_open(const struct conn_opts *o, struct conn **out)
{
	struct conn *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return errmsg_set(-ENOMEM, "no memory for a connection");
	pthread_once(&conn_fork_once, conn_fork_init);
	atomic_store(&c->refs, 1);
	c->wire.fd = -1;
	list_init(&c->node);
	turn_init(&c->admin_turn);
	pthread_mutex_init(&c->lock, NULL);
	turn_init(&c->chans_turn);
	pthread_mutex_init(&c->arena_lock, NULL);
	err = conn_setup_socket(c, o);
	if (err)
		goto free_conn;
	pthread_mutex_lock(&conn_all_lock);
	list_add_tail(&conn_all, &c->node);
	pthread_mutex_unlock(&conn_all_lock);
	err = conn_setup_ctrl(c, o);
	if (!err)
		err = conn_setup_ns(c, o);
	if (!err)
		err = bufs_init(&c->bufs, c, o->buffer_bytes, o->deadline_ns);
	if (err)
		goto free_conn;
	*out = c;
	return 0;
free_conn:
	conn_free(c);
	return err;
}

void conn_get(struct conn *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

void conn_put(struct conn *c)
{
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		conn_free(c);
}

void conn_kill(struct conn *c)
{
	uint64_t one = 1;

	atomic_store_explicit(&c->is_dead, true, memory_order_release);
	chan_kick_all(c);
	if (c->admin->fd >= 0 && write(c->admin->fd, &one, sizeof(one)) < 0)
		return; /* full: it will be read */
}

void conn_hang_up(struct conn *c)
{
	shutdown(c->wire.fd, SHUT_WR);
}
