/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node for tests: some reactors on one simulated clock, their workers, a subsystem. One thread
 * drives everything by fake_node_step(), which picks the reactor by the seed, so the same seed
 * gives the same run.
 *
 *	struct fake_node *n = fake_node_create(&(struct fake_node_opts){.seed = 1, .nr = 2});
 *	struct fake_tr *host = fake_tr_create(n, NULL);
 *	must(fake_tr_enable(host));
 *	...
 *	fake_tr_destroy(host);
 *	fake_node_destroy(n);
 */
#pragma once

#include "base/rng.h"
#include "target/tgt.h"

struct fake_node_opts {
	uint64_t seed;
	unsigned nr;		 /* reactors, 0 = 1 */
	uint32_t nr_reqs;	 /* per worker, 0 = 256 */
	uint64_t capacity_bytes; /* of the subsystem, 0 = no limit */
	bool no_subsys;		 /* the caller makes its own over n->node */
};

struct fake_node {
	struct tgt_node node;
	struct tgt_subsys *ss;
	uint64_t clock_ns;
	struct rng rng;
};

struct fake_node *fake_node_create(const struct fake_node_opts *o);
void fake_node_destroy(struct fake_node *n); /* no controllers, no namespaces left */
void fake_node_step(struct fake_node *n);    /* one turn of one reactor; time goes on a little */
/* Steps until is_over(arg), at most `max` steps. */
bool fake_node_run(struct fake_node *n, bool (*is_over)(void *arg), void *arg, unsigned max);
void fake_node_steps(struct fake_node *n, unsigned nr);
