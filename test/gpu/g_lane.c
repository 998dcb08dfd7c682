/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a lane does: the client of peal/device.h that all of this is about. Waves by a group of any
 * number of lanes; a group of one goes one by one half of the time, the queue never empty and often
 * full.
 */
#include "g_int.h"

#define LATE_NS 40000u

static void look(struct g_group *g, const struct peal_lane *lane)
{
	for (uint32_t i = lane->id; i < g->nr_cmds; i += lane->nr) {
		if (g->cmd[i].is_seen || g->res[i].status == PEAL_ST_PENDING)
			continue;
		g->cmd[i].is_seen = true;
		g_check_result(g, i, &g->res[i]);
	}
}

static void wave(struct g_group *g, struct peal_device_queue *q, const struct peal_lane *lane,
		 struct rng *rng)
{
	struct peal_sqe s;
	int how;

	g_check(g, peal_wave_begin(q, g->nr_cmds), "no wave of %u", g->nr_cmds);
	for (uint32_t i = lane->id; i < g->nr_cmds; i += lane->nr) {
		g_plan_build(g, i, &s);
		peal_wave_put(q, i, &s, g->res);
	}
	peal_wave_ring(q, lane);
	do {
		uint64_t wait = rng_chance(rng, 1, 4) ? rng_below(rng, LATE_NS) : 1000 * LATE_NS;

		how = peal_wave_reap(q, lane, g->res, peal_port_ns() + wait);
		g_check(g, how != PEAL_WAVE_BAD, "a completion of no command");
		look(g, lane);
		peal_port_meet(lane, 1);
	} while (how == PEAL_WAVE_LATE);
	for (uint32_t i = lane->id; i < g->nr_cmds; i += lane->nr)
		g_check(g, g->cmd[i].is_seen, "command %u was never answered", i);
}

/* ---- one by one ---- */

static uint32_t put_some(struct g_group *g, struct peal_device_queue *q, uint32_t at, uint32_t most)
{
	struct peal_sqe s;

	for (; at < g->nr_cmds && most; at++, most--) {
		g_plan_build(g, at, &s);
		s.cid = (uint16_t)at;
		if (!peal_device_put(q, &s))
			break;
	}
	return at;
}

static uint32_t reap_some(struct g_group *g, struct peal_device_queue *q, uint32_t most)
{
	struct peal_result r = {0};
	struct peal_cqe c = {0};
	uint32_t nr = 0;

	for (; nr < most && peal_device_reap(q, &c); nr++) {
		g_check(g, c.cid < g->nr_cmds && !g->cmd[c.cid].is_seen, "CID %u", c.cid);
		g->cmd[c.cid].is_seen = true;
		r.status = peal_cqe_status(&c);
		r.dw0 = c.dw0;
		r.dw1 = c.dw1;
		g_check_result(g, c.cid, &r);
	}
	if (nr)
		peal_device_reaped(q);
	return nr;
}

static void one_by_one(struct g_group *g, struct peal_device_queue *q, struct rng *rng)
{
	uint32_t at = 0, nr_over = 0;

	while (nr_over < g->nr_cmds) {
		uint32_t was = at;

		at = put_some(g, q, at, 1 + (uint32_t)rng_below(rng, q->size));
		if (at != was)
			peal_device_ring(q);
		nr_over += reap_some(g, q, 1 + (uint32_t)rng_below(rng, q->size));
		peal_port_pause();
	}
}

void g_lane_run(struct g_group *g, const struct peal_lane *lane)
{
	struct peal_device_queue q = g->q;
	struct rng rng;

	rng_init(&rng, g->w->o.seed * 4096 + g->qid * 1024u + lane->id);
	for (uint32_t i = 0; i < g->nr_waves; i++) {
		if (lane->id == 0)
			g_plan(g);
		peal_port_meet(lane, 1);
		if (lane->nr == 1 && rng_chance(&rng, 1, 2))
			one_by_one(g, &q, &rng);
		else
			wave(g, &q, lane, &rng);
		peal_port_meet(lane, 1);
	}
}
