/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subsystem: its controllers, command sets and the arena segments that LEASE can name.
 * Namespaces come and go in tgt_subsys_ns.c.
 *
 * Set-up and the registers of controllers and segments are the control plane: any worker, under
 * ss->lock, which no data path takes.
 */
#include "target/tgt_int.h"
#include <errno.h>
#include <stdlib.h>
#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"

#define SUBSYS_CNTLID_MAX 0xffef /* Base 2.0, 4.6: above are reserved */

static bool opts_check(const struct tgt_subsys_opts *o)
{
	return o->nqn && strlen(o->nqn) <= 223 && o->serial && strlen(o->serial) <= 20 &&
	       o->model && strlen(o->model) <= 40;
}

int tgt_subsys_create(const struct tgt_node *node, const struct tgt_subsys_opts *o,
		      struct tgt_subsys **out)
{
	struct tgt_subsys *ss;

	if (!opts_check(o))
		return -EINVAL;
	ss = aligned_alloc(64, (sizeof(*ss) + 63) & ~(size_t)63);
	if (!ss)
		return -ENOMEM;
	memset(ss, 0, sizeof(*ss));
	ss->node = node;
	snprintf(ss->nqn, sizeof(ss->nqn), "%s", o->nqn);
	snprintf(ss->serial, sizeof(ss->serial), "%s", o->serial);
	snprintf(ss->model, sizeof(ss->model), "%s", o->model);
	ss->capacity_bytes = o->capacity_bytes;
	ss->born_ns = reactor_now_ns(tgt_node_home(node)->reactor);
	ss->csi_mask = 1u << NVME_CSI_NVM;
	pthread_mutex_init(&ss->lock, NULL);
	list_init(&ss->ctrls);
	*out = ss;
	return 0;
}

void tgt_subsys_destroy(struct tgt_subsys *ss)
{
	must(list_is_empty(&ss->ctrls));
	for (uint32_t nsid = 0; nsid <= TGT_NS_MAX; nsid++)
		must(!atomic_load(&ss->ns[nsid]) && !ss->ns_is_busy[nsid]);
	for (unsigned i = 0; i < TGT_SEGMENTS_MAX; i++)
		if (ss->segments[i])
			mem_region_put(ss->segments[i]);
	pthread_mutex_destroy(&ss->lock);
	free(ss);
}

const char *tgt_subsys_nqn(const struct tgt_subsys *ss)
{
	return ss->nqn;
}

const struct tgt_node *tgt_subsys_node(const struct tgt_subsys *ss)
{
	return ss->node;
}

void tgt_subsys_ns_ids(const struct tgt_subsys *ss, struct tgt_ns *ns, const char *text)
{
	struct hash_stream st;
	uint64_t id;

	for (unsigned i = 0; i < 2; i++) {
		hash_stream_init(&st, i + 1);
		hash_stream_add(&st, ss->nqn, strlen(ss->nqn) + 1);
		hash_stream_add(&st, text, strlen(text));
		id = hash_stream_digest(&st);
		memcpy(ns->nguid + 8 * i, &id, 8);
	}
	memcpy(ns->uuid, ns->nguid, 16);
	ns->uuid[6] = (ns->uuid[6] & 0x0f) | 0x80; /* RFC 9562: version 8, our own making */
	ns->uuid[8] = (ns->uuid[8] & 0x3f) | 0x80;
}

void tgt_subsys_csi_add(struct tgt_subsys *ss, const struct tgt_csi_ops *ops)
{
	must(ops->csi < TGT_CSI_NR && !ss->csi[ops->csi]);
	ss->csi[ops->csi] = ops;
	ss->csi_mask |= 1u << ops->csi;
}

_Atomic uint64_t *tgt_subsys_leased(struct tgt_subsys *ss, uint16_t ctrl)
{
	return &ss->leased[ctrl % TGT_CTRLS_MAX];
}

void tgt_subsys_media_error(struct tgt_subsys *ss)
{
	atomic_fetch_add_explicit(&ss->media_errors, 1, memory_order_relaxed);
}

void tgt_subsys_info(struct tgt_subsys *ss, struct tgt_subsys_info *info)
{
	struct tgt_ctrl *c;

	*info = (struct tgt_subsys_info){
		.media_errors = atomic_load_explicit(&ss->media_errors, memory_order_relaxed)};
	pthread_mutex_lock(&ss->lock);
	list_for_each_entry(c, &ss->ctrls, node) {
		info->nr_ctrls++;
		info->nr_queues += (unsigned)counter_get(&c->nr_sqs);
	}
	pthread_mutex_unlock(&ss->lock);
}

/* ---- controllers ---- */

/* Or its place in tables of TGT_CTRLS_MAX: what is counted there is one live controller's. */
static bool ctrl_id_is_used(struct tgt_subsys *ss, uint16_t id)
{
	struct tgt_ctrl *c;

	list_for_each_entry(c, &ss->ctrls, node)
		if (c->id % TGT_CTRLS_MAX == id % TGT_CTRLS_MAX)
			return true;
	return false;
}

/* IDs go round, so that one isn't used again soon: a host may still hold the old one. */
static uint16_t ctrl_id_next(struct tgt_subsys *ss)
{
	do
		ss->last_id = ss->last_id >= SUBSYS_CNTLID_MAX ? 1 : ss->last_id + 1;
	while (ctrl_id_is_used(ss, ss->last_id));
	return ss->last_id;
}

static void ctrl_changed(struct mbox_msg *m)
{
	struct tgt_ctrl *c = container_of(m, struct tgt_ctrl, changed_msg);

	atomic_store_explicit(&c->changed_is_posted, false, memory_order_release);
	if (c->is_dead) {
		free(c);
		return;
	}
	/* Notice, namespace attribute changed, log 04h (Base 2.0, figure 146). */
	tgt_aer_post(c, NVME_AER_NOTICE, NVME_AER_NOTICE_NS_CHANGED, NVME_LOG_LID_CHANGED_NS);
}

int tgt_subsys_ctrl_add(struct tgt_subsys *ss, struct tgt_ctrl *c)
{
	int err = -ENOSPC;

	c->changed_msg.fn = ctrl_changed;
	pthread_mutex_lock(&ss->lock);
	if (ss->nr_ctrls < TGT_CTRLS_MAX) {
		c->id = ctrl_id_next(ss);
		list_add_tail(&ss->ctrls, &c->node);
		ss->nr_ctrls++;
		err = 0;
	}
	pthread_mutex_unlock(&ss->lock);
	return err;
}

void tgt_subsys_ctrl_del(struct tgt_subsys *ss, struct tgt_ctrl *c)
{
	pthread_mutex_lock(&ss->lock);
	list_del(&c->node);
	ss->nr_ctrls--;
	pthread_mutex_unlock(&ss->lock);
	/* Nobody posts any more; a message that is on its way finds it dead and frees it. */
	if (atomic_load_explicit(&c->changed_is_posted, memory_order_acquire))
		c->is_dead = true;
	else
		free(c);
}

unsigned tgt_subsys_ctrl_ids(struct tgt_subsys *ss, uint16_t first, uint16_t *ids, unsigned max)
{
	struct tgt_ctrl *c;
	unsigned nr = 0, i;

	pthread_mutex_lock(&ss->lock);
	list_for_each_entry(c, &ss->ctrls, node) {
		if (c->id < first || nr == max)
			continue;
		for (i = nr++; i > 0 && ids[i - 1] > c->id; i--)
			ids[i] = ids[i - 1];
		ids[i] = c->id;
	}
	pthread_mutex_unlock(&ss->lock);
	return nr;
}

void tgt_subsys_tell(struct tgt_subsys *ss, uint32_t nsid)
{
	struct tgt_ctrl *c;

	pthread_mutex_lock(&ss->lock);
	list_for_each_entry(c, &ss->ctrls, node) {
		atomic_fetch_or_explicit(&c->changed[nsid / 64], 1ull << nsid % 64,
					 memory_order_release);
		if (!atomic_exchange(&c->changed_is_posted, true))
			mbox_post(c->home->reactor, &c->changed_msg);
	}
	pthread_mutex_unlock(&ss->lock);
}

/* ---- segments ---- */

/* Indices go round: a client may still have mapped what had this one before. */
int tgt_subsys_segment_add(struct tgt_subsys *ss, struct mem_region *reg)
{
	int index = -ENOSPC;
	unsigned at;

	pthread_mutex_lock(&ss->lock);
	for (unsigned i = 0; i < TGT_SEGMENTS_MAX && index < 0; i++) {
		at = (ss->next_segment + i) % TGT_SEGMENTS_MAX;
		if (!ss->segments[at])
			index = (int)at;
	}
	if (index >= 0) {
		mem_region_get(reg);
		reg->id = (uint32_t)index;
		ss->segments[index] = reg;
		ss->next_segment = (unsigned)index + 1;
	}
	pthread_mutex_unlock(&ss->lock);
	return index;
}

void tgt_subsys_segment_del(struct tgt_subsys *ss, uint32_t segment)
{
	struct mem_region *reg;

	must(segment < TGT_SEGMENTS_MAX);
	pthread_mutex_lock(&ss->lock);
	reg = ss->segments[segment];
	ss->segments[segment] = NULL;
	pthread_mutex_unlock(&ss->lock);
	must(reg);
	mem_region_put(reg);
}

struct mem_region *tgt_subsys_segment_get(struct tgt_subsys *ss, uint32_t segment)
{
	struct mem_region *reg;

	if (segment >= TGT_SEGMENTS_MAX)
		return NULL;
	pthread_mutex_lock(&ss->lock);
	reg = ss->segments[segment];
	if (reg)
		mem_region_get(reg);
	pthread_mutex_unlock(&ss->lock);
	return reg;
}
