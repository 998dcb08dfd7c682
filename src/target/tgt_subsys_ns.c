/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces of a subsystem: a table of atomic pointers that every worker reads within one
 * turn, changed by the node's home alone.
 *
 *   delete:  hide the pointer --> round (every turn that may have seen it is over)
 *            --> wait until no command is in it --> round (the last one's turn is over)
 *            --> ops->destroy --> hosts are told
 *
 * Capacity: what namespaces have, what is on its way in, and what is on its way out never exceeds
 * the node's.
 */
#include "target/tgt_int.h"
#include "target/tgt_time.h"
#include <errno.h>
#include <stdlib.h>
#include "base/container.h"
#include "base/must.h"

#define NS_DRAIN_NS 1000000ull /* how often a delete looks whether the namespace is empty */

/* A namespace's, for one delete or resize at a time. The node's home's. */
struct ns_job {
	struct tgt_subsys *ss;
	struct tgt_ns *ns;
	uint32_t nsid;
	uint64_t reserved_bytes;
	struct reactor_round round;
	struct timeout drain;
	void (*done)(void *arg, uint16_t st);
	void *arg;
};

static struct reactor *home_of(const struct tgt_subsys *ss)
{
	return tgt_node_home(ss->node)->reactor;
}

static uint64_t capacity_of(struct tgt_ns *ns)
{
	uint64_t capacity = 0, used = 0;

	ns->ops->sizes(ns, &capacity, &used);
	return capacity;
}

struct tgt_ns *tgt_subsys_ns(struct tgt_subsys *ss, uint32_t nsid)
{
	if (nsid == 0 || nsid > TGT_NS_MAX)
		return NULL;
	return atomic_load_explicit(&ss->ns[nsid], memory_order_acquire);
}

uint64_t tgt_subsys_ns_capacity(struct tgt_subsys *ss)
{
	uint64_t sum = atomic_load_explicit(&ss->reserved_bytes, memory_order_relaxed);
	struct tgt_ns *ns;

	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++) {
		ns = tgt_subsys_ns(ss, nsid);
		if (ns)
			sum += capacity_of(ns);
	}
	return sum;
}

bool tgt_subsys_ns_reserve(struct tgt_subsys *ss, uint64_t bytes)
{
	uint64_t used = tgt_subsys_ns_capacity(ss);

	if (ss->capacity_bytes && (bytes > ss->capacity_bytes || used > ss->capacity_bytes - bytes))
		return false;
	atomic_fetch_add_explicit(&ss->reserved_bytes, bytes, memory_order_relaxed);
	return true;
}

void tgt_subsys_ns_unreserve(struct tgt_subsys *ss, uint64_t bytes)
{
	must(atomic_load(&ss->reserved_bytes) >= bytes);
	atomic_fetch_sub_explicit(&ss->reserved_bytes, bytes, memory_order_relaxed);
}

static bool nsid_is_free(struct tgt_subsys *ss, uint32_t nsid)
{
	return !tgt_subsys_ns(ss, nsid) && !ss->ns_is_busy[nsid];
}

int tgt_subsys_ns_add(struct tgt_subsys *ss, struct tgt_ns *ns, uint32_t nsid)
{
	uint64_t bytes = capacity_of(ns);

	must(ss->csi_mask >> ns->ops->csi & 1); /* tgt_subsys_csi_add() comes first */
	if (nsid > TGT_NS_MAX)
		return -ENOSPC;
	if (nsid && !nsid_is_free(ss, nsid))
		return -EEXIST;
	for (uint32_t i = 1; nsid == 0 && i <= TGT_NS_MAX; i++)
		if (nsid_is_free(ss, i))
			nsid = i;
	if (nsid == 0)
		return -ENOSPC;
	ns->job = malloc(sizeof(*ns->job));
	if (!ns->job)
		return -ENOMEM;
	if (!tgt_subsys_ns_reserve(ss, bytes)) {
		free(ns->job);
		return -ENOSPC;
	}
	ns->subsys = ss;
	ns->nsid = nsid;
	ns->time = calloc(ss->node->nr, sizeof(*ns->time));
	atomic_store_explicit(&ss->ns[nsid], ns, memory_order_release);
	tgt_subsys_ns_unreserve(ss, bytes); /* now its own sizes() says it */
	tgt_subsys_tell(ss, nsid);
	return 0;
}

/* ---- delete ---- */

static void add_stat(struct tgt_ns_stat *sum, const struct tgt_ns_stat *s)
{
	counter_add(&sum->reads, counter_get(&s->reads));
	counter_add(&sum->writes, counter_get(&s->writes));
	counter_add(&sum->read_bytes, counter_get(&s->read_bytes));
	counter_add(&sum->write_bytes, counter_get(&s->write_bytes));
}

static void job_end(struct ns_job *job, uint16_t st)
{
	job->ss->ns_is_busy[job->nsid] = false;
	tgt_subsys_ns_unreserve(job->ss, job->reserved_bytes);
	tgt_subsys_tell(job->ss, job->nsid);
	job->done(job->arg, st);
}

static void del_destroyed(void *arg, uint16_t st)
{
	job_end(arg, st);
	free(arg); /* the namespace has gone */
}

static void del_empty(struct reactor_round *rd)
{
	struct ns_job *job = container_of(rd, struct ns_job, round);

	for (unsigned w = 0; w < job->ss->node->nr; w++)
		add_stat(&job->ss->gone, &job->ns->stat[w]);
	free(job->ns->time);
	job->ns->ops->destroy(job->ns, home_of(job->ss), del_destroyed, job);
}

static void job_round(struct ns_job *job, void (*done)(struct reactor_round *rd))
{
	const struct tgt_node *node = job->ss->node;

	job->round.fn = NULL;
	job->round.done = done;
	reactor_round_start(&job->round, home_of(job->ss), node->reactors, node->nr);
}

static void del_drain(struct timeout *t)
{
	struct ns_job *job = container_of(t, struct ns_job, drain);
	struct reactor *r = home_of(job->ss);
	uint64_t nr = 0;

	for (unsigned w = 0; w < job->ss->node->nr; w++)
		nr += counter_get(&job->ns->stat[w].inflight);
	if (nr)
		timeout_set(r, t, reactor_now_ns(r) + NS_DRAIN_NS);
	else
		job_round(job, del_empty);
}

static void del_hidden(struct reactor_round *rd)
{
	del_drain(&container_of(rd, struct ns_job, round)->drain);
}

void tgt_subsys_ns_del(struct tgt_subsys *ss, uint32_t nsid, void (*done)(void *arg, uint16_t st),
		       void *arg)
{
	struct tgt_ns *ns = tgt_subsys_ns(ss, nsid);
	struct ns_job *job;

	if (!ns) {
		done(arg, NVME_ST_INVALID_NS);
		return;
	}
	if (ss->ns_is_busy[nsid]) {
		done(arg, NVME_ST_INTERRUPTED);
		return;
	}
	job = ns->job;
	*job = (struct ns_job){.ss = ss, .ns = ns, .nsid = nsid, .done = done, .arg = arg};
	timeout_init(&job->drain, del_drain);
	ss->ns_is_busy[nsid] = true;
	/* Its bytes are taken until they are really free. */
	job->reserved_bytes = capacity_of(ns);
	atomic_fetch_add_explicit(&ss->reserved_bytes, job->reserved_bytes, memory_order_relaxed);
	atomic_store_explicit(&ss->ns[nsid], NULL, memory_order_release);
	job_round(job, del_hidden);
}

/* ---- resize ---- */

static void resize_end(void *arg, uint16_t st)
{
	job_end(arg, st);
}

void tgt_subsys_ns_resize(struct tgt_subsys *ss, uint32_t nsid, uint64_t bytes,
			  void (*done)(void *arg, uint16_t st), void *arg)
{
	struct tgt_ns *ns = tgt_subsys_ns(ss, nsid);
	uint16_t st = NVME_ST_OK;
	struct ns_job *job;
	uint64_t old, more;

	if (!ns)
		st = NVME_ST_INVALID_NS;
	else if (!ns->ops->resize || bytes == 0)
		st = NVME_ST_INVALID_FIELD;
	else if (ss->ns_is_busy[nsid])
		st = NVME_ST_INTERRUPTED;
	if (st != NVME_ST_OK) {
		done(arg, st);
		return;
	}
	old = capacity_of(ns);
	more = bytes > old ? bytes - old : 0;
	if (!tgt_subsys_ns_reserve(ss, more)) {
		done(arg, NVME_ST_NS_INSUFFICIENT_CAPACITY);
		return;
	}
	job = ns->job;
	*job = (struct ns_job){.ss = ss, .ns = ns, .nsid = nsid, .done = done, .arg = arg};
	job->reserved_bytes = more;
	ss->ns_is_busy[nsid] = true;
	ns->ops->resize(ns, home_of(ss), bytes, resize_end, job);
}
