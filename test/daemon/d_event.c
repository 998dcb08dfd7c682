/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to a daemon beside commands: controllers reset and queues deleted with commands
 * under way, memory taken away from under them, aborts, namespaces made, resized and deleted, time
 * that passes. One thread.
 */
#include "d_int.h"

#include <errno.h>
#include <stdio.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "store/store_make.h"

/* ---- hosts ---- */

static void host_queues(struct d_host *h)
{
	for (uint16_t q = 1; q <= h->nr_queues; q++) {
		must(fake_tr_queue_create(h->t, q, h->qsize[q]));
		h->has_queue[q] = true;
	}
}

void d_host_init(struct d_world *w, struct d_host *h, bool is_operator)
{
	uint32_t nr_maps = w->ns[0].value_max > 100000 ? 20 : 6;
	struct fake_tr_opts o = {
		.home = (unsigned)rng_below(&w->rng, w->n->node.nr),
		.mem_pages = nr_maps * D_MAP_PAGES + 1024,
		.map_pages = D_MAP_PAGES,
		.is_operator = is_operator,
	};

	h->w = w;
	h->t = fake_tr_create(w->n, &o);
	d_mem_init(&h->mem, h->t, &w->rng, nr_maps * D_MAP_PAGES);
	h->nr_queues = 1 + (unsigned)rng_below(&w->rng, D_QUEUES_MAX);
	for (unsigned q = 1; q <= h->nr_queues; q++)
		h->qsize[q] = 2 + (uint32_t)rng_below(&w->rng, rng_chance(&w->rng, 1, 2) ? 6 : 62);
	must(fake_tr_enable(h->t));
	host_queues(h);
}

void d_host_fini(struct d_host *h)
{
	d_check(NULL, d_mem_check(&h->mem), "memory that nobody named has changed");
	fake_tr_destroy(h->t);
	d_mem_fini(&h->mem);
}

static bool host_has(const struct d_host *h, enum d_kind kind)
{
	for (unsigned i = 0; i < D_CMDS_MAX; i++)
		if (h->cmd[i].is_used && h->cmd[i].kind == kind)
			return true;
	return false;
}

static void ev_reset(struct d_world *w, struct d_host *h)
{
	/* It would wait for the pins of leases, and those for time. */
	if (host_has(h, D_NS_RESIZE))
		return;
	d_check(NULL, fake_tr_disable(h->t), "a reset that never ends");
	for (uint16_t q = 0; q <= h->nr_queues; q++)
		d_forget(h, q);
	d_lease_drop_host(w, h);
	d_check(NULL, d_mem_check(&h->mem), "after a reset: memory has changed");
	must(fake_tr_enable(h->t));
	host_queues(h);
}

static void ev_queue(struct d_world *w, struct d_host *h)
{
	uint16_t q = 1 + (uint16_t)rng_below(&w->rng, h->nr_queues);

	if (h->has_queue[q]) {
		d_check(NULL, fake_tr_queue_delete(h->t, q), "Delete I/O Queue failed");
		h->has_queue[q] = false;
		d_forget(h, q);
		d_check(NULL, d_mem_check(&h->mem), "after a deletion: memory has changed");
	} else {
		must(fake_tr_queue_create(h->t, q, h->qsize[q]));
		h->has_queue[q] = true;
	}
}

static void ev_memory(struct d_world *w, struct d_host *h)
{
	if (d_mem_is_away(&h->mem)) {
		d_mem_give(&h->mem);
		return;
	}
	d_mem_take(&h->mem);
	for (unsigned i = 0; i < D_CMDS_MAX; i++)
		h->cmd[i].is_excused = true;
}

static void ev_abort(struct d_world *w, struct d_host *h)
{
	struct d_cmd *cmd = &h->cmd[rng_below(&w->rng, D_CMDS_MAX)];
	struct nvme_sqe sqe = {.opc = 0x08};

	if (!cmd->is_used || cmd->qid == 0)
		return;
	cmd->is_aborted = true;
	sqe.cdw10 = (uint32_t)cmd->cid << 16 | cmd->qid;
	fake_tr_exec(h->t, 0, &sqe, NULL);
}

static void ev_look(struct d_world *w, struct d_host *h)
{
	d_check(NULL, d_mem_check(&h->mem), "memory that nobody named has changed");
	d_lease_check(w);
}

static void ev_time(struct d_world *w, struct d_host *h)
{
	w->n->clock_ns += rng_below(&w->rng, rng_chance(&w->rng, 1, 3) ? 2000000000u : 60000000u);
}

/* ---- namespaces ---- */

static const struct d_stack stacks[] = {
	{.name = "dram", .leases = true},
	{.name = "dram", .leases = true},
	{.name = "dram", .leases = true},
	{.name = "mem"},
	{.name = "dram/mem"},
	{.name = "dram/null", .loses = true},
	{.name = "fault/mem", .fault = {.delay_1024 = 200, .stale_1024 = 100}},
	{.name = "dram/fault/mem", .fault = {.delay_1024 = 200, .stale_1024 = 100}},
	{.name = "dram/fault/mem",
	 .fault = {.fail_1024 = 40, .delay_1024 = 200, .flip_1024 = 40, .stale_1024 = 100},
	 .loses = true,
	 .doubts = true},
	{.name = "fault/dram",
	 .fault = {.fail_1024 = 40, .delay_1024 = 100, .flip_1024 = 100, .stale_1024 = 100},
	 .loses = true,
	 .doubts = true},
};

struct d_build {
	struct d_ns *ns;
	uint64_t bytes, segment_bytes;
};

static int stack_layer(const struct d_build *b, const char *name, size_t n, struct store **s)
{
	struct store_fault_opts f = b->ns->stack->fault;
	struct store_dram_opts d = {.bytes = b->bytes,
				    .segment_bytes = b->segment_bytes,
				    .max_keys = 1024,
				    .policy = "lru"};

	if (!strncmp(name, "dram", n))
		return store_dram_create(&d, s);
	f.seed = rng_u64(&b->ns->w->rng);
	*s = !strncmp(name, "mem", n)	 ? store_mem_create()
	     : !strncmp(name, "null", n) ? store_null_create()
					 : store_fault_create(&f);
	return *s ? 0 : -ENOMEM;
}

static int stack_build(void *arg, struct store_set *set, unsigned shard)
{
	const struct d_build *b = arg;
	const char *at = b->ns->stack->name;
	struct store *s = NULL;
	size_t n;

	for (; *at; at += n + (at[n] == '/')) {
		n = strcspn(at, "/");
		must(!stack_layer(b, at, n, &s));
		store_set_push(set, shard, s);
	}
	return 0;
}

static void ns_keys(struct d_world *w, struct d_ns *ns)
{
	struct store_key *k;

	ns->nr_keys = 2 + (unsigned)rng_below(&w->rng, rng_chance(&w->rng, 1, 3) ? 120 : 12);
	ns->keys = calloc(ns->nr_keys, sizeof(*ns->keys));
	must(ns->keys);
	for (unsigned i = 0; i < ns->nr_keys; i++) {
		k = &ns->keys[i].k;
		k->len = (uint8_t)(1 + rng_below(&w->rng, 16));
		/* The first byte tells them apart. */
		k->b[0] = (uint8_t)i;
		for (unsigned j = 1; j < k->len; j++)
			k->b[j] = (uint8_t)rng_below(&w->rng, 256);
		k->hash = hash_key(k->b, k->len);
	}
}

void d_ns_create(struct d_world *w)
{
	struct d_ns *ns = &w->ns[w->nr_ns];
	uint64_t shard = (1 + rng_below(&w->rng, 3)) << 20;
	struct d_build b = {.ns = ns, .bytes = shard};
	char name[16];
	struct kv_ns_opts o = {.name = name};

	if (w->nr_ns == D_NS_MAX)
		return;
	*ns = (struct d_ns){.w = w, .stack = &stacks[rng_below(&w->rng, ARRAY_SIZE(stacks))]};
	ns->nsid = ++w->nr_ns; /* never one that was used: commands may be on their way to it */
	ns->salt = rng_u64(&w->rng);
	ns->is_immutable = rng_chance(&w->rng, 1, 3);
	ns->value_max = w->ns[0].value_max	    ? w->ns[0].value_max
			: rng_chance(&w->rng, 1, 5) ? 2u << 20
						    : 80000;
	b.segment_bytes = rng_chance(&w->rng, 1, 2) ? 1 << 20 : 256 << 10;
	snprintf(name, sizeof(name), "ns%u", ns->nsid);
	o.dram_bytes = shard * w->n->node.nr;
	o.segment_bytes = b.segment_bytes;
	o.max_keys = 1024 * w->n->node.nr;
	o.value_max = ns->value_max;
	o.is_immutable = ns->is_immutable;
	if (strcmp(ns->stack->name, "dram")) {
		o.build = stack_build;
		o.build_arg = &b;
	}
	ns_keys(w, ns);
	must(!kv_ns_create(w->n->ss, &o, &ns->ns));
	must(!tgt_subsys_ns_add(w->n->ss, ns->ns, ns->nsid));
}

void d_ns_fini(struct d_ns *ns)
{
	for (unsigned i = 0; i < ns->nr_keys; i++)
		vec_fini(&ns->keys[i].muts);
	free(ns->keys);
}

static void note(void *arg, uint16_t st)
{
	*(uint16_t *)arg = st;
}

static bool is_noted(void *arg)
{
	return *(uint16_t *)arg != 0xffff;
}

void d_ns_delete_now(struct d_ns *ns)
{
	uint16_t st = 0xffff;

	if (!tgt_subsys_ns(ns->w->n->ss, ns->nsid))
		return;
	d_lease_drop_ns(ns->w, ns);
	tgt_subsys_ns_del(ns->w->n->ss, ns->nsid, note, &st);
	d_check(NULL, fake_node_run(ns->w->n, is_noted, &st, 1000000) && st == NVME_ST_OK,
		"namespace %u doesn't go: %03x", ns->nsid, st);
}

static void ev_ns_create(struct d_world *w, struct d_host *h)
{
	d_ns_create(w);
}

static void ev_ns_delete(struct d_world *w, struct d_host *h)
{
	struct d_ns *ns = &w->ns[rng_below(&w->rng, w->nr_ns)];
	struct nvme_sqe sqe = {.opc = 0x0d, .nsid = ns->nsid, .cdw10 = 1};

	/* Only the first host is an operator. */
	if (ns->is_gone || ns->is_dying || w->nr_ns < 2)
		return;
	ns->is_dying = d_cmd_admin(&w->host[0], ns, D_NS_DELETE, &sqe);
	if (ns->is_dying)
		d_lease_drop_ns(w, ns);
}

static void ev_ns_resize(struct d_world *w, struct d_host *h)
{
	struct d_ns *ns = &w->ns[rng_below(&w->rng, w->nr_ns)];
	uint64_t bytes = (1 + rng_below(&w->rng, 4)) * w->n->node.nr << 20;
	struct nvme_sqe sqe = {.opc = PEAL_OPC_ADMIN_NS_RESIZE, .nsid = ns->nsid};

	if (ns->is_gone || ns->is_dying)
		return;
	sqe.cdw10 = (uint32_t)bytes;
	sqe.cdw11 = (uint32_t)(bytes >> 32);
	if (d_cmd_admin(&w->host[0], ns, D_NS_RESIZE, &sqe))
		ns->is_resized = true;
}

static const struct {
	unsigned weight;
	void (*run)(struct d_world *w, struct d_host *h);
} events[] = {
	{3, ev_look},  {6, ev_time},	  {6, ev_memory},    {4, ev_abort},	{2, ev_queue},
	{1, ev_reset}, {1, ev_ns_create}, {1, ev_ns_delete}, {2, ev_ns_resize},
};

void d_event(struct d_world *w)
{
	unsigned roll = (unsigned)rng_below(&w->rng, 26), i;

	for (i = 0; roll >= events[i].weight; i++)
		roll -= events[i].weight;
	events[i].run(w, &w->host[rng_below(&w->rng, w->nr_hosts)]);
}
