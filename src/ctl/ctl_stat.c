/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathering figures; see ctl_stat.h. Asked on the control thread; each function below says on which
 * reactor it runs. Namespaces are read on the home, which alone takes them away, within one turn
 * each.
 * tidy: no-test: t_ctl.c reads figures
 */
#include "ctl/ctl_stat.h"

#include <stdlib.h>

#include "base/le.h"
#include "base/container.h"
#include "base/mono.h"
#include "nvme/nvme_str.h"

/* ---- on the reactors ---- */

/* Each reactor's own: what is no counter is read where it is written. */
static void stat_worker(struct reactor_round *rd, struct reactor *r)
{
	struct ctl_stat *st = container_of(rd, struct ctl_stat, round);
	const struct tgt_worker *w = st->call.c->node->workers[reactor_id(r)];
	const struct reactor_stats *rs = reactor_stats(r);

	st->workers[w->id] = (struct ctl_stat_worker){
		.turns = counter_get(&rs->turns),
		.mails = counter_get(&rs->mails),
		.sleeps = counter_get(&rs->sleeps),
		.mbox_full = counter_get(&rs->mbox_full),
		.busy_ns = counter_get(&w->busy_ns),
		.reqs_max = w->reqs.nr,
		.reqs_free = w->reqs.nr_free,
		.reqs_low = w->reqs.nr_low,
		.reqs_empty = counter_get(&w->reqs.nr_empty),
	};
}

static void stat_parts(struct ctl_stat *st, const struct store_set *set, unsigned tier)
{
	struct ctl_stat_part *p;

	for (unsigned i = 0; st->nr_parts < CTL_STAT_PARTS; i++) {
		p = &st->parts[st->nr_parts];
		if (store_health_part(set, tier, i, &p->part))
			return;
		p->ns = st->nr_ns - 1;
		p->tier = tier;
		st->nr_parts++;
	}
}

static void stat_kv(struct ctl_stat *st, struct ctl_stat_ns *s, struct tgt_ns *ns)
{
	struct store_set *set = kv_ns_store(ns);

	s->is_kv = true;
	kv_ns_info(ns, &s->info);
	store_set_door_stats(set, &s->door);
	for (unsigned t = 0; t < STORE_DEPTH_MAX; t++) {
		s->tiers[t].name = store_set_tier_name(set, t);
		if (!s->tiers[t].name || store_set_stats(set, t, &s->tiers[t].st))
			break;
		store_health_get(set, t, &s->tiers[t].health);
		stat_parts(st, set, t);
		s->nr_tiers = t + 1;
	}
}

static void stat_class(struct ctl_stat *st, const struct kv_class_stat *of,
		       const struct kv_class *k)
{
	struct ctl_stat_class *c;

	if (st->nr_classes == CTL_STAT_CLASSES)
		return;
	c = &st->classes[st->nr_classes++];
	c->ns = st->nr_ns - 1;
	c->cls = of->id;
	c->nr_keys = of->nr_keys;
	c->value_bytes = of->value_bytes;
	if (k) {
		c->is_registered = true;
		memcpy(c->name, k->name, sizeof(c->name));
	}
}

static void stat_classes(struct ctl_stat *st, const struct tgt_ns *ns)
{
	const struct kv_class *all;
	unsigned nr = kv_class_list(ns, &all);
	struct kv_class_stats of;

	kv_class_stats(ns, &of);
	for (unsigned i = 0; i < of.nr; i++)
		stat_class(st, &of.of[i], i < nr ? &all[i] : NULL);
	if (of.others.nr_keys)
		stat_class(st, &of.others, NULL);
}

/* A file's blocks are none of the node's capacity, which sizes() is about. NSZE, figure 97. */
static void stat_block(struct ctl_stat_ns *s, struct tgt_ns *ns)
{
	uint8_t id[4096] = {0};

	if (ns->ops->identify(ns, 0, id) == NVME_ST_OK)
		s->capacity_bytes = le64_get(id) << ns->lba_shift;
}

static void stat_ns(struct ctl_stat *st, struct tgt_ns *ns)
{
	struct ctl_stat_ns *s = &st->ns[st->nr_ns++];

	s->nsid = ns->nsid;
	s->csi = ns->ops->csi;
	memcpy(s->name, ns->name, sizeof(s->name));
	ns->ops->sizes(ns, &s->capacity_bytes, &s->used_bytes);
	for (unsigned w = 0; w < st->nr_workers; w++) {
		const struct tgt_ns_stat *t = &ns->stat[w];

		s->inflight += counter_get(&t->inflight);
		s->reads += counter_get(&t->reads);
		s->writes += counter_get(&t->writes);
		s->read_bytes += counter_get(&t->read_bytes);
		s->write_bytes += counter_get(&t->write_bytes);
	}
	for (unsigned v = 0; v < TGT_TIME_VERBS; v++)
		tgt_time_sum(ns, v, &s->time[v]);
	if (!kv_ns_is(ns)) {
		stat_block(s, ns);
		return;
	}
	stat_kv(st, s, ns);
	stat_classes(st, ns);
}

/* One namespace a turn: a thousand of them don't hold up a reactor. */
static void stat_next(struct mbox_msg *m)
{
	struct ctl_stat *st = container_of(m, struct ctl_stat, again);
	struct ctl *c = st->call.c;
	struct tgt_ns *ns = NULL;

	while (!ns && st->next_nsid <= TGT_NS_MAX)
		ns = tgt_subsys_ns(c->subsys, st->next_nsid++);
	if (!ns) {
		ctl_call_end(&st->call);
		return;
	}
	stat_ns(st, ns);
	reactor_send(ctl_home(c), ctl_home(c), &st->again);
}

static void stat_workers_done(struct reactor_round *rd)
{
	struct ctl_stat *st = container_of(rd, struct ctl_stat, round);
	struct tr *tr = st->call.c->tr;

	st->nr_clients = tr ? tr->ops->nr_hosts(tr) : 0;
	if (tr && tr->ops->refused)
		tr->ops->refused(tr, &st->refused);
	st->next_nsid = 1;
	st->again.fn = stat_next;
	stat_next(&st->again);
}

static void stat_run(struct ctl_call *call)
{
	struct ctl_stat *st = container_of(call, struct ctl_stat, call);

	st->round.fn = stat_worker;
	st->round.done = stat_workers_done;
	reactor_round_start(&st->round, ctl_home(call->c), call->c->node->reactors, st->nr_workers);
}

/* ---- on the control thread ---- */

static void stat_tell(struct list *waiters, const struct ctl_stat *st)
{
	while (!list_is_empty(waiters)) {
		struct ctl_stat_wait *w = list_first_entry(waiters, struct ctl_stat_wait, node);

		list_del(&w->node);
		w->done(w, st);
	}
}

/* Counters, which anybody may read: not the reactors' work. */
static void stat_counts(struct ctl_stat *st, const struct tgt_counts *t)
{
	for (unsigned k = 0; k < TGT_NR_KINDS; k++)
		for (unsigned opc = 0; opc < 256; opc++)
			for (unsigned o = 0; o < TGT_NR_OUTCOMES; o++)
				st->cmds[k][opc][o] += counter_get(&t->cmds[k][opc][o]);
	for (unsigned sct = 0; sct < 8; sct++)
		for (unsigned sc = 0; sc < 256; sc++)
			st->bad[sct][sc] += counter_get(&t->bad[sct][sc]);
}

static void stat_done(struct ctl_call *call)
{
	struct ctl_stat *st = container_of(call, struct ctl_stat, call);

	call->c->stat = NULL;
	tgt_subsys_info(call->c->subsys, &st->subsys);
	for (unsigned i = 0; i < st->nr_workers; i++)
		stat_counts(st, &call->c->node->workers[i]->counts);
	st->at_ns = mono_ns();
	stat_tell(&st->waiters, st);
	free(st);
}

void ctl_stat_get(struct ctl *c, struct ctl_stat_wait *w)
{
	struct ctl_stat *st = c->stat;

	if (!st) {
		/* Zeroed pages that nobody touches cost nothing: most have few namespaces. */
		st = calloc(1, sizeof(*st) + TGT_NS_MAX * sizeof(st->ns[0]));
		if (!st) {
			list_init(&w->node);
			w->done(w, NULL);
			return;
		}
		list_init(&st->waiters);
		st->nr_workers = c->node->nr;
		st->call.run = stat_run;
		st->call.done = stat_done;
		c->stat = st;
		ctl_call_start(c, &st->call);
	}
	list_add_tail(&st->waiters, &w->node);
}

void ctl_stat_forget(struct ctl_stat_wait *w)
{
	list_del(&w->node);
}

const char *ctl_stat_kind(unsigned kind)
{
	static const char *const names[TGT_NR_KINDS] = {"nvm", "kv", "none", "admin"};

	return names[kind];
}

const char *ctl_stat_opcode(unsigned kind, unsigned opc)
{
	if (kind == TGT_KIND_ADMIN)
		return nvme_str_admin_opcode((uint8_t)opc);
	return kind == 0 ? nvme_str_nvm_opcode((uint8_t)opc) : nvme_str_kv_opcode((uint8_t)opc);
}
