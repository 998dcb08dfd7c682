/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that somebody else drives, peal/pair.h: a connection that can't ring the daemon's
 * bell, one I/O queue, memory. One thread at a time for each.
 */
#include "peal/pair.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/mono.h"
#include "client/conn.h"
#include "client/errmsg.h"
#include "client/spawn.h"
#include "client/uri.h"

#define PAIR_DEPTH 1023u
#define PAIR_DATA_BYTES (64ull << 20)
#define PAIR_BUFFER_BYTES (256ull << 10)
#define PAIR_TIMEOUT_MS 2000u

struct peal_pair {
	struct conn *c;
	struct qp *q;
	struct shm data;
	uint32_t timeout_ms;
};

static uint64_t pair_deadline(const struct peal_pair *pair)
{
	return mono_ns() + pair->timeout_ms * (uint64_t)MONO_NS_PER_MS;
}

static int pair_connect(struct peal_pair *pair, const char *uri, uint32_t nsid)
{
	struct conn_opts o = {
		.nsid = nsid,
		.buffer_bytes = PAIR_BUFFER_BYTES,
		.is_silent = true,
		.deadline_ns = pair_deadline(pair),
	};
	struct uri u;
	int err = uri_parse(uri, &u);

	if (err)
		return err;
	o.path = u.path;
	return u.is_spawn ? spawn_attach(&u, &o, &pair->c) : conn_open(&o, &pair->c);
}

static int pair_make(struct peal_pair *pair, const struct peal_pair_opts *o)
{
	uint64_t deadline = pair_deadline(pair);
	int err;

	if (!pair->c->has_sgl)
		return errmsg_set(-EOPNOTSUPP, "the controller takes no SGLs");
	err = qp_create(pair->c, o->depth ? o->depth : PAIR_DEPTH, &pair->q, deadline);
	if (err)
		return err;
	return shm_create(pair->c, o->data_bytes ? o->data_bytes : PAIR_DATA_BYTES, "peal-pair",
			  &pair->data, deadline);
}

int peal_pair_open(const char *uri, const struct peal_pair_opts *opts, struct peal_pair **out)
{
	struct peal_pair_opts o = opts ? *opts : (struct peal_pair_opts){0};
	struct peal_pair *pair;
	int err;

	if (o.depth > QP_DEPTH_MAX)
		return errmsg_set(-EINVAL, "a queue of %u, expected at most %u", o.depth,
				  QP_DEPTH_MAX);
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return errmsg_set(-ENOMEM, "no memory for a queue pair");
	pair->timeout_ms = o.timeout_ms ? o.timeout_ms : PAIR_TIMEOUT_MS;
	err = pair_connect(pair, uri, o.nsid);
	if (!err)
		err = pair_make(pair, &o);
	if (err) {
		peal_pair_close(pair);
		return err;
	}
	*out = pair;
	return 0;
}

void peal_pair_close(struct peal_pair *pair)
{
	if (!pair)
		return;
	/* The answer comes when its last command is over; without one the socket's end says it. */
	if (pair->q)
		qp_destroy(pair->q, pair_deadline(pair));
	shm_destroy(&pair->data);
	if (pair->c)
		conn_put(pair->c);
	free(pair);
}

void peal_pair_info(const struct peal_pair *pair, struct peal_pair_info *info)
{
	const struct conn *c = pair->c;
	const struct qp *q = pair->q;

	*info = (struct peal_pair_info){
		.q = {.sq = (struct peal_sqe *)q->sq,
		      .cq = (volatile struct peal_cqe *)q->cq,
		      .sq_bell = q->sq_doorbell,
		      .cq_bell = q->cq_doorbell,
		      .size = q->size},
		.rings = q->shm.ptr,
		.rings_bytes = q->shm.bytes,
		.bells = c->doorbells,
		.bells_bytes = c->doorbells_bytes,
		.data = pair->data.ptr,
		.data_bytes = pair->data.bytes,
		.data_iova = pair->data.iova,
		.nsid = c->ns.nsid,
		.value_max = c->ns.value_max,
		.match_max = conn_has_cmd(c, PEAL_OPC_MATCH) ? c->ns.match_max : 0,
		.has_lease = c->has_arena && conn_has_cmd(c, PEAL_OPC_LEASE),
	};
	peal_device_start(&info->q);
}

int peal_pair_check(struct peal_pair *pair)
{
	struct pollfd pfd = {.fd = pair->c->wire.fd, .events = POLLRDHUP};

	if (poll(&pfd, 1, 0) > 0)
		conn_kill(pair->c);
	return conn_is_dead(pair->c) ? errmsg_set(-ENOTCONN, "the daemon is gone") : 0;
}

int peal_pair_segment(struct peal_pair *pair, uint32_t nr, const void **ptr, size_t *bytes)
{
	return conn_arena_segment(pair->c, nr, ptr, bytes, pair_deadline(pair));
}
