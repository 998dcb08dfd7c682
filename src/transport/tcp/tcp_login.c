/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that has to prove whose it is (tcp_auth.h), between Connect and its first other
 * command: only Authentication Send and Receive are taken, with their data in the capsule, until
 * the deadline of the handshake. Its home has it all that time, so that no arithmetic is done where
 * others' data moves, and not at home either: a thread does it, one message after the other.
 *
 *   home: Send -> login_queue() --list--> thread: tcp_auth_take() --mailbox--> home: login_back()
 *
 * Meanwhile nothing more is taken of that connection, and it isn't freed (nr_mail). The host picks
 * the group, up to 0.1 s of arithmetic, and needs no secret for that: hosts take turns, by party,
 * and what a connection has asked for ends with it.
 */
/* tidy: no-test: test/peer/tcp_auth.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/log.h"
#include "core/thread.h"
#include "transport/tcp/tcp_auth.h"

struct tcp_login {
	struct list node; /* of the thread's list */
	struct mbox_msg back;
	struct tcp_conn *conn;
	bool is_busy;	/* the thread has it, or will: */
	bool is_queued; /* then it waits in the list; under its lock */
	uint16_t cid;	/* of the Send */
	uint32_t len;
	struct tcp_auth auth;
	uint8_t msg[TCP_AUTH_IN_MAX];
};

/* ---- the thread ---- */

static struct tcp_login *thread_next(struct tcp_logins *ls)
{
	auto_unlock pthread_mutex_t *m = cleanup_lock(&ls->lock);
	struct tcp_login *l, *i;

	while (list_is_empty(&ls->jobs) && !ls->is_over)
		pthread_cond_wait(&ls->more, m);
	if (list_is_empty(&ls->jobs))
		return NULL;
	l = list_first_entry(&ls->jobs, struct tcp_login, node);
	list_for_each_entry(i, &ls->jobs, node)
		if (i->conn->party->login_turn < l->conn->party->login_turn)
			l = i;
	l->conn->party->login_turn = ++ls->turn;
	list_del(&l->node);
	l->is_queued = false;
	return l;
}

static void *thread_main(void *arg)
{
	struct tcp_tr *t = arg;
	struct tcp_login *l;

	while ((l = thread_next(&t->logins))) {
		tcp_auth_take(&l->auth, l->msg, l->len);
		mbox_post(tcp_home_reactor(t), &l->back);
	}
	return NULL;
}

int tcp_login_start(struct tcp_tr *t)
{
	struct tcp_logins *ls = &t->logins;
	int err;

	if (!t->secrets)
		return 0;
	list_init(&ls->jobs);
	pthread_mutex_init(&ls->lock, NULL);
	pthread_cond_init(&ls->more, NULL);
	err = thread_start(&ls->thread, "peal-login", -1, thread_main, t);
	ls->is_started = !err;
	return err;
}

void tcp_login_stop(struct tcp_tr *t)
{
	struct tcp_logins *ls = &t->logins;

	if (!ls->is_started)
		return;
	pthread_mutex_lock(&ls->lock);
	ls->is_over = true;
	pthread_cond_signal(&ls->more);
	pthread_mutex_unlock(&ls->lock);
	pthread_join(ls->thread, NULL);
	ls->is_started = false;
}

/* ---- what comes of it ---- */

static const char *login_why(const struct tcp_auth *a)
{
	static const char *const why[] = {
		[NVMF_AUTH_FAILED] = "the secret is another, or there is none",
		[NVMF_AUTH_NO_PROTOCOL] = "no protocol in common",
		[NVMF_AUTH_CONCAT] = "secure channel concatenation isn't supported",
		[NVMF_AUTH_NO_HASH] = "no hash in common",
		[NVMF_AUTH_NO_GROUP] = "no DH group in common",
		[NVMF_AUTH_PAYLOAD] = "a message was malformed",
		[NVMF_AUTH_MESSAGE] = "a message was out of order",
	};

	return a->why < ARRAY_SIZE(why) && why[a->why] ? why[a->why] : "no known reason";
}

void tcp_login_free(struct tcp_conn *c)
{
	if (!c->login)
		return;
	must(!c->login->is_busy);
	tcp_auth_fini(&c->login->auth);
	tcp_crypt_wipe(c->login, sizeof(*c->login));
	free(c->login);
	c->login = NULL;
}

/* The host is who it says: an admin queue begins, an I/O queue goes to its worker. */
static void login_done(struct tcp_conn *c)
{
	tcp_login_free(c);
	if (c->sq.qid) {
		c->state = TCP_CONN_MOVING;
		return;
	}
	tcp_share_move(c, &c->party->of[c->w->id]);
	c->state = TCP_CONN_LIVE;
	timeout_cancel(&c->late);
}

/* After what was said last. False: nothing more is taken. */
static bool login_step(struct tcp_conn *c)
{
	const struct tcp_auth *a = &c->login->auth;

	if (a->step == TCP_AUTH_DONE) {
		login_done(c);
		return c->state == TCP_CONN_LIVE;
	}
	if (a->step != TCP_AUTH_OVER)
		return true;
	log_some_warn("tcp: %s: queue %u isn't %s's: %s, closed", c->host, c->sq.qid, a->host->nqn,
		      login_why(a));
	c->tcp->refused.nr_told++;
	c->is_last_word = true;
	return false;
}

static void login_back(struct mbox_msg *m)
{
	struct tcp_login *l = container_of(m, struct tcp_login, back);
	struct tcp_conn *c = l->conn;

	l->is_busy = false;
	if (c->state == TCP_CONN_AUTH && tcp_recv_answer(c, l->cid, NVME_ST_OK))
		login_step(c);
	if (c->state != TCP_CONN_CLOSING)
		tcp_conn_kick(c);
	tcp_conn_mail_back(c);
}

static void login_queue(struct tcp_conn *c)
{
	struct tcp_logins *ls = &c->tcp->logins;
	auto_unlock pthread_mutex_t *m = cleanup_lock(&ls->lock);

	c->login->is_busy = c->login->is_queued = true;
	c->nr_mail++;
	list_add_tail(&ls->jobs, &c->login->node);
	pthread_cond_signal(&ls->more);
}

void tcp_login_drop(struct tcp_conn *c)
{
	struct tcp_logins *ls = &c->tcp->logins;
	bool was_queued;

	if (!tcp_login_is_busy(c))
		return;
	pthread_mutex_lock(&ls->lock);
	was_queued = c->login->is_queued;
	if (was_queued)
		list_del(&c->login->node);
	pthread_mutex_unlock(&ls->lock);
	if (!was_queued)
		return;
	c->login->is_busy = c->login->is_queued = false;
	c->nr_mail--; /* it isn't free: who closes it has it */
}

/* ---- commands ---- */

static uint16_t login_check(const struct nvme_sqe *sqe, uint32_t len)
{
	if (sqe->opc != NVMF_OPC ||
	    (nvmf_type(sqe) != NVMF_AUTH_SEND && nvmf_type(sqe) != NVMF_AUTH_RECEIVE))
		return NVMF_ST_AUTH_REQUIRED;
	if ((sqe->cdw10 & ~0xffu) != NVMF_AUTH_CDW10 || !sqe->cdw11)
		return NVME_ST_INVALID_FIELD;
	if (sqe->cdw11 != sqe->sgl.len)
		return NVME_ST_SGL_LEN;
	if (nvmf_type(sqe) == NVMF_AUTH_RECEIVE)
		return sqe->sgl.id == NVMF_SGL_TRANSPORT && !len ? NVME_ST_OK : NVME_ST_SGL_TYPE;
	if (sqe->sgl.id != NVMF_SGL_IN_CAPSULE)
		return NVME_ST_SGL_TYPE;
	if (sqe->sgl.addr)
		return NVME_ST_SGL_OFFSET;
	return sqe->sgl.len == len ? NVME_ST_OK : NVME_ST_SGL_LEN;
}

/* What is longer than any message is cut: it is wrong anyhow. */
static bool login_send(struct tcp_conn *c, const struct nvme_sqe *sqe, const uint8_t *data)
{
	struct tcp_login *l = c->login;

	l->cid = sqe->cid;
	l->len = sqe->cdw11;
	memcpy(l->msg, data, min_t(uint32_t, l->len, sizeof(l->msg)));
	login_queue(c);
	return false;
}

static bool login_receive(struct tcp_conn *c, const struct nvme_sqe *sqe)
{
	uint8_t out[TCP_AUTH_OUT_MAX];
	int n = tcp_auth_give(&c->login->auth, out, sqe->cdw11);

	if (n < 0)
		return tcp_recv_answer(c, sqe->cid, NVME_ST_INVALID_FIELD | NVME_ST_DNR);
	if (!tcp_send_data(c, sqe->cid, out, (uint32_t)n) ||
	    !tcp_recv_answer(c, sqe->cid, NVME_ST_OK))
		return false;
	return login_step(c);
}

bool tcp_login_command(struct tcp_conn *c, const struct nvme_sqe *sqe, const uint8_t *data,
		       uint32_t len)
{
	uint16_t st = login_check(sqe, len);

	if (st != NVME_ST_OK)
		return tcp_recv_answer(c, sqe->cid, st | NVME_ST_DNR);
	return nvmf_type(sqe) == NVMF_AUTH_SEND ? login_send(c, sqe, data) : login_receive(c, sqe);
}

/* ---- the beginning ---- */

int tcp_login_begin(struct tcp_conn *c, const char *hostnqn)
{
	const struct tcp_secrets *s = c->tcp->secrets;
	const struct tcp_secret_host *h = s && hostnqn ? tcp_secrets_find(s, hostnqn) : NULL;

	tcp_login_free(c); /* of a Connect that didn't come through */
	if (!h)
		return s && hostnqn ? -EACCES : 0;
	c->login = calloc(1, sizeof(*c->login));
	if (!c->login)
		return -ENOMEM;
	c->login->conn = c;
	c->login->back.fn = login_back;
	tcp_auth_init(&c->login->auth, h, tgt_subsys_nqn(c->tcp->ss));
	return 0;
}

bool tcp_login_is_busy(const struct tcp_conn *c)
{
	return c->login && c->login->is_busy;
}
