/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fake_node.h. Everything must() succeed here: a test without memory has nothing to say.
 */
#include "fake_node.h"
#include "base/must.h"
#include "core/env_sim.h"

static void node_worker(struct fake_node *n, const struct fake_node_opts *o, unsigned i)
{
	unsigned nr = o->nr ? o->nr : 1;
	struct env *env = env_sim_create(
		&(struct env_sim_opts){.seed = o->seed + i, .clock_ns = &n->clock_ns});
	struct reactor *r;

	must(env);
	r = reactor_create(&(struct reactor_opts){.id = i, .nr_peers = nr, .env = env, .cpu = -1});
	must(r);
	n->node.reactors[i] = r;
	must(!tgt_worker_create(r, i, o->nr_reqs ? o->nr_reqs : 256, &n->node.workers[i]));
}

struct fake_node *fake_node_create(const struct fake_node_opts *o)
{
	struct fake_node *n = calloc(1, sizeof(*n));
	struct tgt_subsys_opts so = {
		.nqn = "nqn.2024-01.io.peal:test",
		.serial = "PEAL0001",
		.model = "Peal test",
		.capacity_bytes = o->capacity_bytes,
	};

	must(n);
	rng_init(&n->rng, o->seed);
	n->clock_ns = 1000000000;
	n->node.nr = o->nr ? o->nr : 1;
	for (unsigned i = 0; i < n->node.nr; i++)
		node_worker(n, o, i);
	if (!o->no_subsys)
		must(!tgt_subsys_create(&n->node, &so, &n->ss));
	return n;
}

void fake_node_destroy(struct fake_node *n)
{
	/* Messages and rounds that nobody waits for. */
	fake_node_steps(n, 64 * n->node.nr);
	if (n->ss)
		tgt_subsys_destroy(n->ss);
	for (unsigned i = 0; i < n->node.nr; i++) {
		tgt_worker_destroy(n->node.workers[i]);
		reactor_destroy(n->node.reactors[i]);
	}
	free(n);
}

void fake_node_step(struct fake_node *n)
{
	reactor_step(n->node.reactors[rng_below(&n->rng, n->node.nr)]);
	n->clock_ns += rng_below(&n->rng, 2000);
}

void fake_node_steps(struct fake_node *n, unsigned nr)
{
	while (nr--)
		fake_node_step(n);
}

bool fake_node_run(struct fake_node *n, bool (*is_over)(void *arg), void *arg, unsigned max)
{
	while (!is_over(arg)) {
		if (max-- == 0)
			return false;
		fake_node_step(n);
	}
	return true;
}
