/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of g_sim and t_lanes: a daemon's target/, kv/ and a store in front of groups of lanes,
 * each with a queue pair and keys of its own, which run peal/device.h. Lanes are fibres in the one
 * and threads in the other.
 *
 *     g_sim.c    seeds, fibres            t_lanes.c  threads
 *     g_world.c  the daemon, doorbells    g_lane.c   what a lane does
 *     g_plan.c   what a wave consists of  g_check.c  what came of it
 */
#pragma once

#include "fake_tr.h"
#include "g_port.h"

#define G_GROUPS_MAX 4u
#define G_LEASES_MAX 16u
#define G_LIST_PAGES 1u
#define G_MATCH_MAX 6u
#define G_POISON 0xee

enum g_kind {
	G_STORE,
	G_STORE_EX,
	G_RETRIEVE,
	G_SIZE,
	G_RETRIEVE_EX,
	G_EXIST,
	G_DELETE,
	G_LIST,
	G_MATCH,
	G_HINT,
	G_LEASE,
	G_RELEASE,
	G_FLUSH,
	G_EXEC,
	G_NR_KINDS,
};

struct g_key {
	struct peal_key k;
	bool is_there;
	uint32_t len;
	uint64_t seed; /* of its bytes */
};

struct g_cmd {
	enum g_kind kind;
	struct g_key was; /* as the command will find it */
	struct g_key *key;
	uint32_t opts;
	uint32_t off;	/* of the data in the command's area */
	uint32_t bytes; /* of data; 0 = none */
	uint32_t range; /* RETRIEVE_EX: first byte */
	uint32_t want;	/* status */
	uint32_t want_dw0;
	uint64_t lease;
	uint8_t nr_match;
	uint8_t dptr; /* how the data are described */
	bool is_seen;
	struct g_key *match[G_MATCH_MAX];
};

struct g_world;
struct g_group {
	struct g_world *w;
	uint16_t qid;
	uint32_t nr_lanes;
	uint32_t nr_waves;
	struct rng rng; /* of whoever plans */
	struct peal_device_queue q;
	struct peal_result *res;
	struct g_cmd *cmd;
	uint32_t nr_cmds;
	uint32_t area_bytes; /* of each command: data, then a list */
	uint64_t area;	     /* bus address of the first */
	uint32_t nr_keys;
	struct g_key *keys;
	uint32_t *order; /* of the keys: a wave takes each once */
	uint32_t nr_taken;
	uint32_t nr_leases;
	uint64_t lease[G_LEASES_MAX];
	uint64_t next;
	_Atomic bool is_over;
	void *port; /* what its lanes need to meet */
};

struct g_opts {
	uint64_t seed;
	uint32_t lanes_max;
	uint32_t waves_max;
	bool is_small; /* queues of 64 at most */
};

struct g_world {
	struct g_opts o;
	struct rng rng;
	struct fake_node *n;
	struct fake_tr *t;
	const struct tgt_csi_ops *csi;
	bool has_arena;
	unsigned nr_groups;
	struct g_group group[G_GROUPS_MAX];
	uint32_t bells[2 * (FAKE_QUEUES + 1)] __attribute__((aligned(64)));
	_Atomic uint64_t nr_done; /* commands */
};

/* What is wrong, with the seed; never comes back: exit status G_WRONG. */
#define G_WRONG 3
__attribute__((noreturn, format(printf, 2, 3))) void g_wrong(const struct g_group *g,
							     const char *fmt, ...);
#define g_check(g, cond, ...) \
	do { \
		if (!(cond)) \
			g_wrong(g, __VA_ARGS__); \
	} while (0)

/* g_world.c */
void g_world_init(struct g_world *w, const struct g_opts *o);
void g_world_fini(struct g_world *w);
void g_world_turn(struct g_world *w); /* the daemon's: looks at the doorbells, one step */

/* g_lane.c: all of a lane's life. */
void g_lane_run(struct g_group *g, const struct peal_lane *lane);

/* g_plan.c */
void g_plan(struct g_group *g);
void g_plan_build(struct g_group *g, uint32_t i, struct peal_sqe *s);
uint8_t *g_data(struct g_group *g, uint32_t i);
void g_fill(uint64_t seed, uint64_t from, uint8_t *p, uint32_t bytes);
struct peal_store_ex g_store_ex(const struct g_key *k);

/* g_check.c: command i is over. */
void g_check_result(struct g_group *g, uint32_t i, const struct peal_result *r);
