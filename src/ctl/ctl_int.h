/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the control plane share. Everything belongs to the control thread, apart from
 * the mailbox and what says so.
 *
 *   ctl.c        the thread: its loop, its mailbox, calls to reactors and back
 *   rpc_sock.c   connections of the RPC socket       rpc.c, rpc_param.c, rpc_frame.c   JSON-RPC
 *   rpc_*.c      methods, by what they are about     ctl_stat.c   figures, gathered by reactors
 *   http.c       /metrics, /healthz                  metrics.c    figures as Prometheus text
 */
#ifndef CTL_CTL_INT_H
#define CTL_CTL_INT_H

#include <pthread.h>
#include "core/mbox.h"
#include "core/reactor.h"
#include "ctl/ctl.h"
#include "ctl/rpc.h"

struct ctl_stat;
struct rpc_sock;
struct http;

/* A descriptor that the loop watches. */
struct ctl_fd {
	int fd;
	uint32_t events; /* epoll's */
	void (*ready)(struct ctl_fd *f, uint32_t events);
};

struct ctl {
	const struct conf *conf;
	struct tgt_subsys *subsys;
	const struct tgt_node *node;
	struct tr *tr;
	struct ssd_watch *watch; /* NULL: nothing lies on an SSD */
	uint64_t born_ns;
	double born_s; /* since the epoch */
	int epoll_fd;
	struct ctl_fd wake;	  /* eventfd: something is in the mailbox, or it is time to stop */
	struct mbox mbox;	  /* any thread pushes */
	_Atomic bool is_stopping; /* any thread reads: long work ends early */
	unsigned nr_calls;	  /* sent to reactors and not yet back */
	bool is_started;
	bool is_closed; /* stopping, and has closed its sockets */
	pthread_t thread;
	struct rpc rpc;
	struct ctl_stat *stat; /* being gathered; NULL: none */
	struct rpc_sock *sock; /* NULL: none */
	struct http *http;     /* NULL: none */
	bool is_listing;       /* clients: one list at a time */
	/* The home's: the end of a quiesce. */
	struct timeout hold;
	struct reactor_round hold_round;
	bool is_letting_go;
	uint32_t hold_gen; /* moves with each quiesce, resume and end of the time */
};

/* ---- the loop ---- */

/* One turn, what the thread does for ever; a test calls it itself. False: it is over. */
bool ctl_step(struct ctl *c, int timeout_ms);
#define CTL_TICK_MS 200 /* how often deadlines are looked at while there are any */
int ctl_fd_add(struct ctl *c, struct ctl_fd *f); /* 0 or -errno */
void ctl_fd_set(struct ctl *c, struct ctl_fd *f, uint32_t events);
void ctl_fd_del(struct ctl *c, struct ctl_fd *f);

/* ---- to the home and back ---- */

struct ctl_call {
	struct mbox_msg msg;
	struct ctl *c;
	/* On the home, in a turn of it. Ends, now or later, with ctl_call_end() on any reactor. */
	void (*run)(struct ctl_call *call);
	void (*done)(struct ctl_call *call); /* on the control thread; frees the call */
};
void ctl_call_start(struct ctl *c, struct ctl_call *call);
void ctl_call_end(struct ctl_call *call);
static inline struct reactor *ctl_home(const struct ctl *c)
{
	return tgt_node_home(c->node)->reactor;
}

/* ---- rpc_sock.c ---- */

/* Listens at path; 0 or -errno, with a line in the log. */
int rpc_sock_create(struct ctl *c, const char *path, struct rpc_sock **s);
void rpc_sock_tick(struct rpc_sock *s, uint64_t now_ns); /* closes who takes too long */
int rpc_sock_timeout(const struct rpc_sock *s); /* ms until the next tick is due; -1: never */
void rpc_sock_stop(struct rpc_sock *s);		/* no more connections */
void rpc_sock_destroy(struct rpc_sock *s);	/* no call is under way */

/* ---- http.c ---- */

int http_create(struct ctl *c, struct http **h); /* 0 or -errno, with a line in the log */
int http_timeout(const struct http *h);		 /* ms until the next tick is due; -1: never */
void http_tick(struct http *h, uint64_t now_ns);
void http_stop(struct http *h);
void http_destroy(struct http *h); /* stopped or never started */

/* ---- methods ---- */

void rpc_hold_end(struct ctl *c); /* the daemon stops: nothing is held any more */

extern const struct rpc_method *const rpc_table_methods[]; /* ended by NULL */

static inline struct ctl *ctl_of(const struct rpc_req *req)
{
	return rpc_arg_of(req);
}

#endif
