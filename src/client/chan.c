/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels, see chan.h. Under a channel's lock: the SQ side, CIDs, slots. The CQ side is the
 * poller's while there is one (it looks without the lock), and the lock holder's otherwise.
 */
#include "client/chan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mono.h"
#include "base/must.h"
#include "client/errmsg.h"

#define CHAN_DEPTH 64u
#define CHAN_POSTS_MAX 16u /* of it, with those that timed out */
#define CHAN_SPIN_NS (25 * MONO_NS_PER_US)
#define CHAN_COND_NS (50 * MONO_NS_PER_MS)
#define CHAN_ARM_NS (100 * MONO_NS_PER_MS)

struct chan_slot {
	enum conn_slot_state state;
	struct nvme_cqe cqe;
	struct buf buf; /* CONN_SLOT_GIVEN_UP: ours; ptr NULL = none */
};

struct chan {
	struct conn *conn;
	struct qp *q;
	int fd;
	bool has_tried_arm;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool has_poller;
	uint32_t nr_waiting;
	uint32_t nr_given_up;
	struct chan_slot slots[CHAN_DEPTH];
};

static int chan_create(struct conn *c, struct chan **out, uint64_t deadline_ns)
{
	struct chan *ch = calloc(1, sizeof(*ch));
	int err;

	if (!ch)
		return errmsg_set(-ENOMEM, "no memory for a queue");
	ch->conn = c;
	ch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ch->fd < 0) {
		err = errmsg_set(-errno, "no eventfd: %s", strerror(errno));
		goto free_chan;
	}
	err = qp_create(c, CHAN_DEPTH, &ch->q, deadline_ns);
	if (err)
		goto close_fd;
	pthread_mutex_init(&ch->lock, NULL);
	turn_cond_init(&ch->cond);
	*out = ch;
	return 0;
close_fd:
	close(ch->fd);
free_chan:
	free(ch);
	return err;
}

void chan_destroy_all(struct conn *c)
{
	for (unsigned i = 0; i < CONN_CHANS_MAX; i++) {
		struct chan *ch = atomic_load_explicit(&c->chans[i], memory_order_acquire);

		if (!ch)
			continue;
		/* The connection goes as a whole: nothing is asked of the daemon. */
		qp_free(ch->q);
		for (unsigned s = 0; s < CHAN_DEPTH; s++)
			if (ch->slots[s].buf.big.ptr)
				shm_destroy(&ch->slots[s].buf.big);
		close(ch->fd);
		pthread_cond_destroy(&ch->cond);
		pthread_mutex_destroy(&ch->lock);
		free(ch);
	}
}

/* Which channel is this thread's. */
static unsigned chan_index(const struct conn *c)
{
	static _Atomic unsigned nr_threads;
	static _Thread_local unsigned mine;
	unsigned nr = c->nr_queues / 2; /* the other half is for peal_queue_open() */

	if (!mine)
		mine = 1 + atomic_fetch_add_explicit(&nr_threads, 1, memory_order_relaxed);
	nr = nr < 1 ? 1 : nr;
	return (mine - 1) % (nr < CONN_CHANS_MAX ? nr : CONN_CHANS_MAX);
}

/* No queue for this channel. If none can ever be had, only another connection has more. */
static int chan_share(struct conn *c, struct chan **ch)
{
	bool has_lost;

	*ch = atomic_load_explicit(&c->chans[0], memory_order_acquire);
	if (*ch)
		return 0;
	pthread_mutex_lock(&c->lock);
	has_lost = c->has_lost_qids;
	pthread_mutex_unlock(&c->lock);
	if (!has_lost)
		return -EAGAIN;
	conn_hang_up(c);
	return errmsg_set(-ENOTCONN, "queues were lost while the daemon stood still");
}

static int chan_pick(struct conn *c, struct chan **out, uint64_t deadline_ns)
{
	unsigned i = chan_index(c);
	struct chan *ch = atomic_load_explicit(&c->chans[i], memory_order_acquire);
	int err = 0;

	if (!ch) {
		if (turn_take(&c->chans_turn, deadline_ns))
			return errmsg_set(-ETIMEDOUT, "no queue to the daemon in time");
		ch = atomic_load_explicit(&c->chans[i], memory_order_acquire);
		if (!ch)
			err = chan_create(c, &ch, deadline_ns);
		if (!err)
			atomic_store_explicit(&c->chans[i], ch, memory_order_release);
		turn_give(&c->chans_turn);
	}
	if (err == -EAGAIN)
		err = chan_share(c, &ch);
	if (!err)
		*out = ch;
	return err;
}

struct chan *chan_mine(struct conn *c)
{
	struct chan *ch = atomic_load_explicit(&c->chans[chan_index(c)], memory_order_acquire);

	return ch ? ch : atomic_load_explicit(&c->chans[0], memory_order_acquire);
}

/* Takes what has come. Locked, and no other thread is the poller. */
static void chan_reap(struct chan *ch)
{
	struct nvme_cqe cqes[16];
	unsigned n, nr_done = 0;

	while ((n = qp_reap(ch->q, cqes, 16)) > 0) {
		for (unsigned i = 0; i < n; i++) {
			struct chan_slot *s;

			if (cqes[i].cid >= CHAN_DEPTH)
				continue; /* a broken peer */
			s = &ch->slots[cqes[i].cid];
			if (s->state == CONN_SLOT_WAITING) {
				s->cqe = cqes[i];
				s->state = CONN_SLOT_DONE;
				nr_done++;
			} else if (s->state == CONN_SLOT_GIVEN_UP) {
				if (s->buf.ptr)
					bufs_put_late(&ch->conn->bufs, &s->buf);
				s->state = CONN_SLOT_FREE;
				ch->nr_given_up--;
				qp_cid_put(ch->q, cqes[i].cid);
				nr_done++;
			}
		}
	}
	if (nr_done && ch->nr_waiting > 1)
		pthread_cond_broadcast(&ch->cond);
}

void chan_reap_all(struct conn *c)
{
	for (unsigned i = 0; i < CONN_CHANS_MAX; i++) {
		struct chan *ch = atomic_load_explicit(&c->chans[i], memory_order_acquire);

		if (!ch)
			continue;
		pthread_mutex_lock(&ch->lock);
		if (!ch->has_poller)
			chan_reap(ch);
		pthread_mutex_unlock(&ch->lock);
	}
}

void chan_kick_all(struct conn *c)
{
	for (unsigned i = 0; i < CONN_CHANS_MAX; i++) {
		struct chan *ch = atomic_load_explicit(&c->chans[i], memory_order_acquire);
		uint64_t one = 1;

		if (!ch)
			continue;
		pthread_mutex_lock(&ch->lock);
		pthread_cond_broadcast(&ch->cond);
		pthread_mutex_unlock(&ch->lock);
		if (write(ch->fd, &one, sizeof(one)) < 0)
			continue; /* full: it will be read */
	}
}

/* The poller's wait, without the lock. */
static void chan_poll(struct chan *ch, uint64_t spin_until_ns, uint64_t deadline_ns)
{
	while (mono_ns() < spin_until_ns) {
		for (unsigned i = 0; i < 32; i++) {
			if (qp_has_cqe(ch->q))
				return;
			QP_RELAX();
		}
	}
	if (!ch->has_tried_arm) {
		uint64_t until = mono_ns() + CHAN_ARM_NS;

		/* Look once more afterwards: what came before the interrupt was set made none. */
		ch->has_tried_arm = true;
		qp_arm(ch->q, ch->fd, until < deadline_ns ? until : deadline_ns);
		return;
	}
	qp_doze(ch->q, deadline_ns);
}

static void chan_sleep(struct chan *ch, uint64_t deadline_ns)
{
	uint64_t until = mono_ns() + CHAN_COND_NS;

	turn_cond_wait(&ch->cond, &ch->lock, until < deadline_ns ? until : deadline_ns);
}

/* Until the slot is done, or `s` is NULL and a CID may be free. Locked. */
static int chan_wait(struct chan *ch, const struct chan_slot *s, uint64_t deadline_ns)
{
	uint64_t spin_until = mono_ns() + CHAN_SPIN_NS;
	int err = 0;

	ch->nr_waiting++;
	for (;;) {
		if (!ch->has_poller)
			chan_reap(ch);
		if (s ? s->state == CONN_SLOT_DONE : ch->q->nr_free > 0)
			break;
		err = conn_is_dead(ch->conn) ? -ENOTCONN : 0;
		if (!err && mono_ns() >= deadline_ns)
			err = -ETIMEDOUT;
		if (!err && !s && ch->nr_given_up == ch->q->size - 1)
			err = -EAGAIN;
		if (err)
			break;
		if (ch->has_poller) {
			chan_sleep(ch, deadline_ns);
			continue;
		}
		ch->has_poller = true;
		pthread_mutex_unlock(&ch->lock);
		chan_poll(ch, spin_until, deadline_ns);
		pthread_mutex_lock(&ch->lock);
		ch->has_poller = false;
	}
	/* Somebody else must become the poller. */
	if (--ch->nr_waiting)
		pthread_cond_broadcast(&ch->cond);
	return err;
}

static int chan_submit(struct chan *ch, const struct chan_cmd *cmd, int cid)
{
	struct nvme_sqe *sqe = qp_sqe(ch->q);
	int err = 0;

	*sqe = cmd->sqe;
	sqe->cid = (uint16_t)cid;
	sqe->nsid = ch->conn->ns.nsid;
	if (cmd->buf && cmd->data_bytes)
		err = qp_set_data(ch->q, sqe, cmd->buf->iova, cmd->data_bytes);
	if (err)
		return errmsg_set(err, "%u bytes are more than the controller takes in one command",
				  cmd->data_bytes);
	ch->slots[cid].state = CONN_SLOT_WAITING;
	qp_push(ch->q);
	qp_ring(ch->q);
	return 0;
}

/* Nobody waits for it (any more). buf: its data's, or NULL. */
static void chan_give_up(struct chan *ch, struct buf *buf, int cid)
{
	struct chan_slot *s = &ch->slots[cid];

	s->state = CONN_SLOT_GIVEN_UP;
	s->buf.ptr = NULL;
	ch->nr_given_up++;
	if (!buf)
		return;
	s->buf = *buf;
	buf->ptr = NULL;
	bufs_quarantine(&ch->conn->bufs, &s->buf);
}

static int chan_run(struct chan *ch, struct chan_cmd *cmd, uint64_t deadline_ns)
{
	int cid, err;

	while ((cid = qp_cid_get(ch->q)) < 0) {
		err = chan_wait(ch, NULL, deadline_ns);
		if (err)
			return err == -ETIMEDOUT ? -EAGAIN : err;
	}
	err = chan_submit(ch, cmd, cid);
	if (err) {
		qp_cid_put(ch->q, (uint16_t)cid);
		return err;
	}
	err = chan_wait(ch, &ch->slots[cid], deadline_ns);
	if (err) {
		/* Dead: the buffer goes with the connection, nobody else will get it. */
		chan_give_up(ch, cmd->buf, cid);
		return err;
	}
	cmd->dw0 = ch->slots[cid].cqe.dw0;
	cmd->dw1 = ch->slots[cid].cqe.dw1;
	cmd->status = ch->slots[cid].cqe.status >> 1;
	ch->slots[cid].state = CONN_SLOT_FREE;
	qp_cid_put(ch->q, (uint16_t)cid);
	return 0;
}

int chan_post(struct chan *ch, const struct chan_cmd *cmd)
{
	int cid = -EAGAIN, err;

	must(!cmd->data_bytes);
	pthread_mutex_lock(&ch->lock);
	if (!ch->has_poller)
		chan_reap(ch);
	if (ch->nr_given_up < CHAN_POSTS_MAX)
		cid = qp_cid_get(ch->q);
	err = cid < 0 ? cid : chan_submit(ch, cmd, cid);
	if (!err)
		chan_give_up(ch, NULL, cid);
	pthread_mutex_unlock(&ch->lock);
	return err;
}

bool chan_wake(const struct chan *ch)
{
	return qp_wake(ch->q);
}

int chan_exec(struct conn *c, struct chan_cmd *cmd, uint64_t deadline_ns)
{
	struct chan *ch = NULL;
	int err = conn_is_dead(c) ? -ENOTCONN : chan_pick(c, &ch, deadline_ns);

	if (err == -ENOTCONN)
		return errmsg_set(err, "the daemon is gone");
	if (err)
		return err;
	pthread_mutex_lock(&ch->lock);
	err = chan_run(ch, cmd, deadline_ns);
	pthread_mutex_unlock(&ch->lock);
	if (err == -ETIMEDOUT)
		errmsg_set(err, "no answer from the daemon in time");
	else if (err == -ENOTCONN)
		errmsg_set(err, "the daemon is gone");
	else if (err == -EAGAIN)
		errmsg_set(err, "%u commands of this queue wait for the daemon", CHAN_DEPTH);
	return err;
}
