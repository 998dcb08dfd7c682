/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport is to peald: something that listens for hosts and turns their bytes into tgt
 * requests. Each has its own create function with its own options and gives back this head.
 */
#ifndef TRANSPORT_TR_H
#define TRANSPORT_TR_H

#include <stdint.h>
#include "target/tgt.h"

struct tr;

/* A host that is attached, as an operator sees it. */
struct tr_host {
	char peer[64]; /* "pid 4711 uid 0" */
	int pid;       /* 0: it isn't of this machine */
	uint32_t uid;
	uint16_t ctrl; /* 0: none yet */
	bool is_operator, is_recorded;
	uint64_t since_ns;  /* reactor_now_ns() then */
	unsigned nr_queues; /* I/O submission queues */
	uint64_t nr_cmds, read_bytes, write_bytes;
};

#define TR_HOSTS_MAX TGT_CTRLS_MAX
struct tr_hosts {
	void (*done)(struct tr_hosts *h); /* on the home reactor */
	unsigned nr;
	struct tr_host of[TR_HOSTS_MAX];
	/* The transport's. */
	struct tr *tr;
	struct reactor_round round;
	_Atomic uint64_t sums[TR_HOSTS_MAX][4];
};

/* Connections that weren't taken, since the start. */
struct tr_refused {
	uint64_t nr_told;   /* why */
	uint64_t nr_silent; /* closed without a word: too many at a time, or they said nothing */
};

struct tr_ops {
	const char *name;
	/* listen; 0 or -errno; once, by any thread, also while the reactors run */
	int (*start)(struct tr *tr);
	/*
	 * No new hosts, reset those that are there; done(arg) on the home reactor when none is
	 * left.
	 */
	void (*stop)(struct tr *tr, void (*done)(void *arg), void *arg);
	void (*destroy)(struct tr *tr); /* stopped */
	/* attached now; the home reactor */
	unsigned (*nr_hosts)(struct tr *tr);
	/* The home reactor. NULL: it refuses nobody. */
	void (*refused)(struct tr *tr, struct tr_refused *r);
	/*
	 * When the last host left, or when it started while none has come yet; 0: one is attached.
	 * The home reactor. peald's --linger counts from it. NULL: its hosts don't count.
	 */
	uint64_t (*alone_since_ns)(struct tr *tr);
	/*
	 * Fills in h, zeroed but for done, which runs later. One at a time. The home reactor.
	 * NULL: its hosts can't be listed.
	 */
	void (*list_hosts)(struct tr *tr, struct tr_hosts *h);
};

struct tr {
	const struct tr_ops *ops;
};

#define VFU_CLIENTS_DEFAULT 64u
struct vfu_opts {
	const char *dir;      /* <dir>/cntrl is the socket */
	unsigned max_clients; /* 0 = VFU_CLIENTS_DEFAULT */
	uint64_t poll_ns;     /* sleep bound while stock guests are attached, 0 = 5 ms */
	bool is_busy;	      /* never sleep */
	/* NULL: off; else each controller's SQEs and CQEs go to a file there (transport/replay) */
	const char *record_dir;
	bool is_record_values; /* ... with the values that are stored */
	bool is_record_asked;  /* ... of those only that an operator names (PEAL_TRACE_RECORD) */
};
int vfu_create(struct tgt_subsys *ss, const struct vfu_opts *o, struct tr **tr);

/* Who may attach and how it proves that: transport/tcp/tcp_secrets.h. */
struct tcp_secrets;
#define TCP_WHY_BYTES 160
/* A file of them: 0; or -errno, and why says what is wrong, none of it being a secret. */
int tcp_secrets_load(const char *path, struct tcp_secrets **s, char why[TCP_WHY_BYTES]);
void tcp_secrets_destroy(struct tcp_secrets *s); /* NULL is fine */

#define TCP_CONNS_DEFAULT 256u
struct tcp_opts {
	const char *host;	     /* numeric address to listen on */
	uint16_t port;		     /* 0: any free one */
	unsigned max_conns;	     /* connections, one per queue; 0 = TCP_CONNS_DEFAULT */
	const char *hosts;	     /* NQNs that may attach, a comma between; "" or NULL: any */
	struct tcp_secrets *secrets; /* NULL: nobody has to; taken over unless it fails */
};
int tcp_create(struct tgt_subsys *ss, const struct tcp_opts *o, struct tr **tr);
uint16_t tcp_port(const struct tr *tr); /* started */

#endif
