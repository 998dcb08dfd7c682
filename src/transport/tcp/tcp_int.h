/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the NVMe/TCP target share.
 *
 *   tcp ---- tcp_worker[w]: one per reactor: a poller, connections, buffers
 *    |
 *    +------ tcp_ctrl: one association = one tgt_ctrl; the home reactor's
 *    |
 *    +------ tcp_conn: one connection = one queue. Until Connect, and as an admin queue for ever,
 *              the home reactor's; an I/O queue moves to a worker with Connect and stays there
 *
 *   tcp_conn.c   a connection's life: handshake's deadline, closing, the way between reactors
 *   tcp_recv.c   bytes -> PDUs -> commands and their data
 *   tcp_req.c    a command's request
 *   tcp_pdu.c    what a PDU may look like: pure
 *   tcp_party.c, tcp_share.c  which part of all that a host may have
 *   tcp_connect.c  Fabrics Connect: which controller, which worker
 *   tcp_login.c  authentication behind it: tcp_auth.c, tcp_crypt.c, tcp_secrets.c
 *   tcp_data.c   a command's data as a mem_iter, both directions
 *   tcp_buf.c    the buffers that it lies in
 *   tcp_send.c   PDUs -> bytes
 *   tcp_ctrl.c   controllers: what target/ wants of a transport
 *   tcp.c        listening, workers, start and stop
 *
 * Data of a Store: what the capsule carries is copied out of the receive buffer at once, for it is
 * small; the rest is asked for by R2T, at most TCP_BUF_BYTES each, and only into buffers that were
 * put aside for the command, all that it will ever need: no command keeps another's data out. A
 * Retrieve goes into send buffers chunk by chunk, checked before it is sent. So there is one copy
 * between the arena and the socket in either direction, but for capsules.
 */
#ifndef TRANSPORT_TCP_INT_H
#define TRANSPORT_TCP_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include "base/list.h"
#include "base/must.h"
#include "core/counter.h"
#include "core/pool.h"
#include "core/reactor.h"
#include "core/timeout.h"
#include "mem/mem.h"
#include "nvme/nvme_tcp.h"
#include "target/tgt.h"
#include "transport/tr.h"

#define TCP_QUEUES (TGT_QUEUES_MAX + 1) /* with the admin queue */
#define TCP_RX_BYTES 32768u
#define TCP_CAPSULE_MAX 8192u /* of data: what Identify's IOCCSZ says, and Fabrics commands have */
#define TCP_BUF_BYTES 131072u /* of data in one R2T, one C2HData PDU */
#define TCP_BUF_ROOM 4096u    /* before the data in a send buffer: headers of small PDUs */
#define TCP_BUFS_IO 96u	      /* per worker and direction */
#define TCP_BUFS_HOME 16u
#define TCP_BUFS_KEPT 8u    /* of them, for what can't wait */
#define TCP_CONN_BUFS 8u    /* send buffers of one connection with unsent data */
#define TCP_CONN_IN 16u	    /* receive buffers of one connection */
#define TCP_REQ_BUFS 2u	    /* receive buffers of one command */
#define TCP_SEGS 4096u	    /* per worker */
#define TCP_CONN_SEGS 512u  /* of one connection */
#define TCP_OWN_BYTES 4608u /* a connection's own room: a page of data, its answer and some */
#define TCP_OWN_SEGS 4u	    /* ... which nobody else takes */
#define TCP_CONN_REQS_MIN 32u
#define TCP_IOV 64u
#define TCP_TURN_CMDS 32u	      /* of one connection */
#define TCP_HOT_TURNS 256u	      /* it is looked at without being told */
#define TCP_HELLO_NS 10000000000ull   /* until Connect is through */
#define TCP_STUCK_NS 30000000000ull   /* data that was asked for, or that isn't taken */
#define TCP_CTRLS (TGT_CTRLS_MAX / 2) /* the other half is for clients on this machine */
#define TCP_BACK_BYTES 65536u /* of data that is held back, so that its beginning may change */

struct tcp_tr;
struct tcp_conn;
struct tcp_req;
struct tcp_worker;

/* ---- hosts, as those who share: tcp_party.c ---- */

/* What somebody has of a worker; the worker's. */
struct tcp_part {
	uint32_t nr_conns, nr_reqs;
	uint32_t nr_in, nr_out; /* receive and send buffers */
};

struct tcp_share {
	struct tcp_part has;
	struct tcp_part *addr;	      /* ... and all from that address */
	struct list rx_wait, tx_wait; /* of tcp_req: for a buffer */
	struct list rx_turn, tx_turn; /* the worker's: somebody waits */
};

#define TCP_ADDR_BYTES 48u
struct tcp_addr {
	struct list node; /* tcp->addrs */
	char addr[TCP_ADDR_BYTES];
	unsigned nr_parties, nr_conns, nr_ctrls;
	struct tcp_part of[]; /* by worker */
};

struct tcp_party {
	struct list node; /* tcp->parties */
	struct tcp_addr *addr;
	char hostnqn[NVMF_NQN_BYTES];
	unsigned nr_conns, nr_ctrls;
	uint64_t login_turn;   /* the last that one of its had, of tcp->logins: under its lock */
	struct tcp_share of[]; /* by worker */
};

/* ---- buffers: a worker's ---- */

struct tcp_buf {
	uint8_t *p;
	struct mem_region *reg;
	uint64_t off;	/* of p in the region */
	uint32_t bytes; /* a worker's: TCP_BUF_ROOM + TCP_BUF_BYTES */
	uint32_t refs;	/* of a send buffer: segments, and the connection that fills it */
};

enum tcp_seg_state {
	TCP_SEG_OPEN, /* a C2HData PDU whose data isn't all there: what follows waits */
	TCP_SEG_READY,
	TCP_SEG_VOID, /* never to be sent */
};

/* A stretch of a send buffer, in the order of the stream. */
struct tcp_seg {
	struct list node; /* conn->tx */
	struct tcp_buf *buf;
	struct tcp_req *owner; /* of a C2HData PDU, while it isn't sent and the command lives */
	uint32_t off, len;
	uint32_t filled; /* OPEN: bytes of data that are there */
	uint8_t state;
	uint8_t nr_digest; /* bytes of the data's digest at the end */
};

/* ---- a command ---- */

enum tcp_dir {
	TCP_NO_DATA,
	TCP_FROM_HOST,
	TCP_TO_HOST,
	TCP_BOTH, /* can't be said on Fabrics */
};

struct tcp_req {
	struct tcp_conn *conn;
	struct tgt_req *req;
	struct mem_iter it; /* req->iter */
	struct list node;   /* conn->done or conn->asks */
	struct list wait;   /* rx_wait or tx_wait of its connection or share: for a buffer */
	struct list all;    /* conn->reqs */
	uint16_t index;	    /* in the worker's table: TTAG */
	uint8_t dir;	    /* enum tcp_dir */
	bool is_log;	    /* its answer has data that can't wait for room: conn->nr_logs */
	bool is_event;	    /* an AER: it is of a struct tcp_event, and not in the table */
	uint16_t bad;	    /* status that it ends with instead of being executed */
	bool is_executed;
	bool is_over;	 /* answered, as soon as the data that was asked for has come */
	bool is_capsule; /* its data came with it, and lies in the worker's place for it */
	bool is_broken;	 /* a digest of its data was wrong */
	bool has_sent;	 /* data: no second try */
	uint32_t total;	 /* bytes of data, as its SGL says */
	uint32_t want;	 /* ... that the command takes or gives */
	/* from the host: asked >= came >= taken; to the host, came: where the next PDU begins */
	uint32_t asked, came, taken;
	uint32_t r2t_at, r2t_len;	  /* the last that was asked for */
	struct tcp_buf *in[TCP_REQ_BUFS]; /* all that it will need, from its first R2T on */
	bool is_in_use[TCP_REQ_BUFS];	  /* asked for, not taken */
	/* to the host */
	struct tcp_seg *seg;  /* the last PDU, while it isn't sent */
	struct tcp_seg *open; /* the first whose data isn't all there */
	struct tcp_seg *head; /* of data that is held back: its first PDU */
	uint32_t gave;	      /* from the host: what was handed out and isn't taken */
};

/*
 * An AER with all that it needs, for as long as nothing happens: it takes nothing of what commands
 * that end share.
 */
struct tcp_event {
	struct tcp_req tr;
	struct tgt_req req;
};

/* ---- a connection ---- */

enum tcp_state {
	TCP_CONN_NEW,	  /* ICReq is next */
	TCP_CONN_CONNECT, /* Connect is next */
	TCP_CONN_AUTH,	  /* it is connected, and has to prove whose it is */
	TCP_CONN_MOVING,  /* on its way to its worker */
	TCP_CONN_LIVE,
	TCP_CONN_CLOSING,
};

struct tcp_conn {
	struct tgt_sq sq; /* LIVE */
	struct tcp_tr *tcp;
	struct tcp_worker *w;	 /* who has it */
	struct tcp_worker *to;	 /* MOVING: who will */
	struct tcp_ctrl *ctrl;	 /* the home's, from Connect on */
	struct tcp_party *party; /* likewise */
	struct tcp_share *share; /* w's; NULL: MOVING */
	struct list node;	 /* tcp->conns; the home's */
	struct list here;	 /* w->conns */
	struct list hot;	 /* w->hot: looked at this turn */
	int fd;
	uint8_t state;	 /* enum tcp_state */
	uint8_t digests; /* NVME_TCP_HDGST, NVME_TCP_DDGST */
	bool has_flow;	 /* SQHD means something */
	/* the home's */
	bool is_gone;	  /* closed: free when no mail is out */
	bool is_told;	  /* `close` is on its way, or was */
	uint32_t nr_mail; /* to its worker and not back yet */
	uint32_t nr_r2t_max;
	uint32_t size; /* of the queue */
	uint32_t sqhd;
	uint32_t nr_reqs;   /* commands taken and not answered */
	uint32_t nr_events; /* AERs among them */
	uint32_t nr_logs;
	uint32_t nr_turns_idle;
	struct list reqs; /* their tcp_reqs */
	struct mem_flow flow;
	struct timeout late;
	uint64_t out_ns;   /* something went last */
	uint64_t asked_ns; /* the oldest R2T that isn't answered in full, or an earlier one was */
	char host[64];	   /* with the port */
	char addr[TCP_ADDR_BYTES]; /* tcp_party_addr() */

	/* in: rx[rx_at .. rx_end) */
	uint32_t rx_at, rx_end;
	uint32_t nr_asked;	/* commands with data under way: bulk is coming */
	uint32_t rx_need;	/* bytes from rx_at on, to go on */
	struct tcp_req *rx_req; /* whose data comes now */
	uint32_t rx_left;	/* bytes of the PDU's data that haven't come */
	uint32_t rx_len;	/* of all its data */
	uint32_t rx_crc;
	uint8_t rx_flags;  /* of its header */
	uint32_t nr_calls; /* of recv(), this turn */
	bool has_rx;	   /* a data PDU is under way */
	bool is_polling_in, is_polling_out;
	bool is_rx_full; /* no request, no buffer: later */
	struct io_req in, out;

	/* out */
	struct list tx;	  /* tcp_seg */
	uint32_t tx_sent; /* of the first */
	struct tcp_buf *txb;
	struct tcp_buf own; /* used first; whatever others keep, it answers and is answered */
	uint32_t txb_at;    /* first free byte */
	uint32_t nr_bufs;   /* send buffers that are its own */
	uint32_t nr_in;	    /* receive buffers likewise */
	uint32_t nr_segs;
	struct list done;	      /* commands to be answered */
	struct list asks;	      /* R2Ts to be sent */
	struct list rx_wait, tx_wait; /* commands that wait for one of its own buffers */
	bool is_last_word;	      /* a C2HTermReq is in tx: closed when it is out */

	struct mbox_msg move, close, gone;
	struct tcp_login *login; /* AUTH: the home's */
	bool is_answered;	 /* Connect */
	uint16_t connect_cid;	 /* of the command that its worker answers */
	uint8_t room[TCP_OWN_BYTES];
	uint8_t rx[TCP_RX_BYTES];
};

/* ---- a controller: the home's ---- */

struct tcp_ctrl {
	struct list node; /* tcp->ctrls */
	struct tcp_tr *tcp;
	struct tgt_ctrl *ctrl;
	struct tcp_conn *q[TCP_QUEUES]; /* 0: admin */
	unsigned nr_q;
	bool is_discovery;
	bool is_disabling; /* tgt_ctrl_disabled() is due when the I/O queues are gone */
	bool is_dropped;   /* it goes when nothing is left of it */
	bool is_reset;
	char local[64]; /* our address that the host connected to */
	char hostnqn[NVMF_NQN_BYTES];
};

/* ---- one reactor's share ---- */

struct tcp_worker {
	struct tcp_tr *tcp;
	struct tgt_worker *tw;
	unsigned id;
	struct poller poller;
	struct list conns;
	struct list hot;
	uint32_t nr_hot;
	struct tcp_share strangers; /* connections that haven't said whose they are */
	struct tcp_part strangers_part;
	unsigned nr_shares, nr_addrs; /* with connections here */
	struct list rx_wait, tx_wait; /* shares in which somebody waits */
	struct tcp_req *reqs;
	uint16_t *free_reqs;
	uint32_t nr_free_reqs, nr_reqs;
	struct pool events; /* the home's: of tcp_event, for all controllers */
	uint8_t *caps;	    /* TCP_CAPSULE_MAX for each */
	struct mem_region *caps_reg;
	size_t caps_map_bytes;
	uint32_t conn_reqs;   /* of one connection; some are for other transports */
	struct tcp_buf *bufs; /* both directions */
	struct tcp_buf **free_rx, **free_tx;
	uint32_t nr_rx, nr_tx;
	uint32_t nr_bufs; /* per direction */
	struct mem_region *reg;
	void *map;
	size_t map_bytes;
	struct pool segs;
	struct mbox_msg start;
	uint32_t nr_burst;
	struct tgt_req *burst[TGT_BURST];
};

/* A thread for what takes long: tcp_login.c. */
struct tcp_logins {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct list jobs; /* of tcp_login */
	uint64_t turn;
	bool is_started, is_over;
};

struct tcp_tr {
	struct tr tr;
	struct tgt_subsys *ss;
	const struct tgt_node *node;
	struct tcp_worker *workers;
	char host[64];		     /* numeric */
	char *hosts;		     /* that may attach, a comma between; "": any */
	struct tcp_secrets *secrets; /* NULL: without authentication */
	struct tcp_logins logins;
	uint16_t port;
	unsigned max_conns;
	int listen_fd;
	struct io_req io;
	bool is_polling, is_stopping;
	struct timeout again;
	/* the home's */
	struct list conns, ctrls, parties, addrs;
	unsigned nr_conns, nr_ctrls, nr_parties, nr_addrs, next_worker;
	struct tr_refused refused;
	uint64_t alone_since_ns;
	void (*stopped)(void *arg);
	void *stopped_arg;
	struct reactor_round round;
};

static inline struct tcp_worker *tcp_home(const struct tcp_tr *t)
{
	return &t->workers[t->node->is_home_apart ? t->node->nr - 1 : 0];
}
static inline struct reactor *tcp_home_reactor(const struct tcp_tr *t)
{
	return tcp_home(t)->tw->reactor;
}

/* ---- tcp_pdu.c: pure ---- */

/* What a header says that is wrong; fes 0: nothing. */
struct tcp_pdu_fault {
	uint16_t fes;  /* enum nvme_tcp_fes */
	uint32_t info; /* offset of the field */
};
/* Bytes of the header that the type demands, with its digest; 0: no host sends this. */
uint32_t tcp_pdu_hdr_bytes(uint8_t type, uint8_t digests);
/* The common header, when 8 bytes are there. is_new: nothing was said before. */
struct tcp_pdu_fault tcp_pdu_check(const struct nvme_tcp_hdr *h, uint8_t digests, bool is_new);
/* Bytes of data, as a header says that tcp_pdu_check() has seen. */
uint32_t tcp_pdu_data_bytes(const struct nvme_tcp_hdr *h);
struct tcp_pdu_fault tcp_pdu_check_icreq(const struct nvme_tcp_icreq *ic);
/* A Connect's data: 0, or the offset of what is no string that ends. */
uint32_t tcp_pdu_check_connect(const struct nvmf_connect *c);

/* ---- tcp_conn.c ---- */

int tcp_conn_create(struct tcp_tr *t, int fd);		      /* home; takes fd unless it fails */
void tcp_conn_local(const struct tcp_conn *c, char addr[64]); /* without the port */
/* Its worker. No more of it; why: for the log, NULL when the host has just hung up. */
void tcp_conn_close(struct tcp_conn *c, const char *why);
/* Says why first. */
void tcp_conn_fatal(struct tcp_conn *c, struct tcp_pdu_fault f, const void *hdr, uint32_t len);
void tcp_conn_tell_close(struct tcp_conn *c); /* the home */
void tcp_conn_mail_back(struct tcp_conn *c);  /* likewise: one of nr_mail */
/* Its worker: has something to do in this turn or the next. */
void tcp_conn_kick(struct tcp_conn *c);
int tcp_conn_turn(struct tcp_worker *w);
/* Something is waited for that is the host's: the connection ends if nothing moves for long. */
void tcp_conn_late(struct tcp_conn *c);

/* ---- tcp_recv.c ---- */

/* > 0: something came. */
int tcp_recv_turn(struct tcp_conn *c);
/* R2T for what comes next, if there is a buffer for it and the host has no more to do. */
void tcp_recv_ask(struct tcp_req *tr);
/* Executes what was taken in this turn. */
void tcp_recv_burst(struct tcp_conn *c);

/* A command without a request is over; status with DNR or without. False: no room, closed. */
bool tcp_recv_answer(struct tcp_conn *c, uint16_t cid, uint16_t st);

/* ---- tcp_login.c: the home ---- */

int tcp_login_start(struct tcp_tr *t);
void tcp_login_stop(struct tcp_tr *t); /* when there are no more connections */
/*
 * A Connect of that host, NULL: of one that needn't. c->login: it has to prove who it is. -EACCES:
 * nobody knows how it could.
 */
int tcp_login_begin(struct tcp_conn *c, const char *hostnqn);
/* AUTH: a command with its data. False: nothing more for now. */
bool tcp_login_command(struct tcp_conn *c, const struct nvme_sqe *sqe, const uint8_t *data,
		       uint32_t len);
bool tcp_login_is_busy(const struct tcp_conn *c);
/* It is closing: what waits for the thread doesn't any more. */
void tcp_login_drop(struct tcp_conn *c);
void tcp_login_free(struct tcp_conn *c);

/* ---- tcp_req.c ---- */

/* An AER, which has a place of its own. */
bool tcp_req_is_event(const struct tcp_conn *c, const struct nvme_sqe *sqe);
/*
 * NULL: no room now; for an AER: there are as many as there may be. Of what all transports share a
 * part is left to the others.
 */
struct tcp_req *tcp_req_get(struct tcp_conn *c, const struct nvme_sqe *sqe);
/* Given back with all that it holds; it is no more in target/. */
void tcp_req_free(struct tcp_req *tr);

/* ---- tcp_connect.c ---- */

void tcp_connect(struct tcp_conn *c, const struct nvme_sqe *sqe, const struct nvmf_connect *data);

/* ---- tcp_party.c ---- */

/*
 * Of all there is: who asks has some, with others of the address so many, and wants more; this is
 * left, that a lone one leaves.
 */
struct tcp_quota {
	uint32_t has, addr_has, more, left, keep;
	bool is_alone;	    /* there is no other host */
	bool is_addr_alone; /* ... no other address */
};
#define TCP_PARTY_KEPT(all) ((all) / 8)
/* A host of that name may attach, when it has proved that it is; any thread. */
bool tcp_party_is_allowed(const struct tcp_tr *t, const char *hostnqn);
bool tcp_party_may(struct tcp_quota q); /* pure */
/* Those that share as one: an address of IPv4, of IPv6 its first half; "?": of neither. Pure. */
void tcp_party_addr(const struct sockaddr_storage *sa, char addr[TCP_ADDR_BYTES]);

/*
 * Home. Connect: c is of that host, or -EUSERS: it has all that it may have. And the end of that.
 */
int tcp_party_get(struct tcp_conn *c, const char *hostnqn, bool is_admin);
void tcp_party_put(struct tcp_conn *c, bool is_admin);
/* One more connection from there that says nothing yet. */
bool tcp_party_may_knock(const struct tcp_tr *t, const char *addr);

/* ---- tcp_share.c ---- */

void tcp_share_init(struct tcp_share *s, struct tcp_part *addr);
/* It has so much more; less: the number negated. */
static inline void tcp_share_count(struct tcp_share *s, struct tcp_part d)
{
	struct tcp_part *p[] = {&s->has, s->addr};

	for (unsigned i = 0; i < 2; i++) {
		p[i]->nr_conns += d.nr_conns;
		p[i]->nr_reqs += d.nr_reqs;
		p[i]->nr_in += d.nr_in;
		p[i]->nr_out += d.nr_out;
	}
}
/* c's worker: what it has counts there from now on; NULL: it has nothing and goes. */
void tcp_share_move(struct tcp_conn *c, struct tcp_share *s);
bool tcp_share_may_req(const struct tcp_conn *c);
bool tcp_share_may_in(const struct tcp_worker *w, const struct tcp_share *s, uint32_t nr);
bool tcp_share_may_out(const struct tcp_worker *w, const struct tcp_share *s, bool is_soft);

/* ---- tcp_buf.c ---- */

void tcp_buf_put_rx(struct tcp_conn *c, struct tcp_buf *b);
bool tcp_buf_get_rx(struct tcp_conn *c, struct tcp_buf **bufs, unsigned nr); /* all or none */
/* It has all that one may have on its way out. */
bool tcp_buf_is_full(const struct tcp_conn *c);
void tcp_buf_wait_rx(struct tcp_req *tr); /* tcp_recv_ask() when there is one */
void tcp_buf_wait_tx(struct tcp_req *tr); /* mem_iter_more() likewise */
/*
 * Of at least `len` bytes. is_soft: for what can't wait; takes of those that are kept, and before
 * that the connection's own.
 */
struct tcp_buf *tcp_buf_get_tx(struct tcp_conn *c, bool is_soft, uint32_t len);
/* An answer with `len` bytes of PDUs that can't wait has room. */
bool tcp_buf_has_room(const struct tcp_conn *c, uint32_t len);
void tcp_buf_unref_tx(struct tcp_conn *c, struct tcp_buf *b);

/* ---- tcp_data.c ---- */

extern const struct tgt_sq_ops tcp_sq_ops;
/* Bytes around the data of a PDU. */
uint32_t tcp_data_overhead(const struct tcp_conn *c);

/* ---- tcp_send.c ---- */

/* Answers and R2Ts that wait, then the socket. > 0: something went. */
int tcp_send_turn(struct tcp_conn *c);
/* A PDU of `len` bytes, header and all, to be written to *p; false: no room now. */
bool tcp_send_pdu(struct tcp_conn *c, uint32_t len, uint8_t **p);
/* The same for the handshake and the last word, where nothing waits. */
bool tcp_send_raw(struct tcp_conn *c, const void *pdu, uint32_t len);
bool tcp_send_may_seg(const struct tcp_conn *c);
struct tcp_seg *tcp_send_seg(struct tcp_conn *c, struct tcp_buf *b, uint32_t off, uint32_t len);
/* The data of a C2HData PDU is all there. */
void tcp_send_ready(struct tcp_conn *c, struct tcp_seg *s, bool is_last);
/* The command is over: its PDUs that were never filled aren't sent, and none knows of it. */
/* All that was held back for it, the last PDU as such. */
void tcp_send_held(struct tcp_conn *c, struct tcp_req *tr);
void tcp_send_disown(struct tcp_conn *c, struct tcp_req *tr);
void tcp_send_drop(struct tcp_conn *c); /* all of it */
/* Data of a command without a request, less than its own room. False: likewise. */
bool tcp_send_data(struct tcp_conn *c, uint16_t cid, const void *data, uint32_t len);
/* An answer to what is no command yet. False: no room, the connection is closed. */
bool tcp_send_resp(struct tcp_conn *c, const struct nvme_cqe *cqe);

/* ---- tcp_ctrl.c: the home ---- */

int tcp_ctrl_create(struct tcp_tr *t, bool is_discovery, const struct nvmf_connect *data,
		    struct tcp_ctrl **out);
struct tcp_ctrl *tcp_ctrl_find(struct tcp_tr *t, uint16_t cntlid);
void tcp_ctrl_gone(struct tcp_ctrl *tc, struct tcp_conn *c); /* a queue of it */
void tcp_ctrl_drop(struct tcp_ctrl *tc);

void tcp_gone(struct tcp_tr *t); /* a connection or a controller is */

#endif
