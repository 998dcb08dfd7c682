/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the whole daemon at one time, gathered by the reactors themselves:
 *
 *   control thread -> the home -> a round: each reactor writes down its own worker's -> the home:
 *   one namespace a turn -> control thread: done()
 *
 * Counters are summed when they are read, never on the data path; a gathering costs each reactor a
 * message and a few cache lines. At most one is under way: who asks meanwhile gets the same one.
 * What metrics.c writes for Prometheus and what the RPC `stats` says come from this struct alone.
 */
#ifndef CTL_CTL_STAT_H
#define CTL_CTL_STAT_H

#include "ctl/ctl_int.h"
#include "kv/kv.h"
#include "store/store.h"
#include "store/store_health.h"
#include "target/tgt_time.h"

struct ctl_stat_tier {
	const char *name;
	struct store_stats st;
	struct store_health health; /* nr_shards 0: it lies on no device */
};

struct ctl_stat_ns {
	uint32_t nsid;
	uint8_t csi;
	bool is_kv; /* info, door and tiers are set */
	char name[64];
	uint64_t capacity_bytes, used_bytes;
	uint64_t inflight, reads, writes, read_bytes, write_bytes;
	struct tgt_time_sum time[TGT_TIME_VERBS];
	struct kv_ns_info info;
	struct store_door_stats door;
	unsigned nr_tiers;
	struct ctl_stat_tier tiers[STORE_DEPTH_MAX];
};

/* Those of a namespace stand together, in the order of the namespaces. */
#define CTL_STAT_CLASSES 4096 /* of all; more are left out */
struct ctl_stat_class {
	unsigned ns; /* in ctl_stat.ns */
	bool is_registered;
	uint16_t cls;		       /* 0: of classes that aren't counted apart */
	char name[64];		       /* "": nobody has given it one */
	uint64_t nr_keys, value_bytes; /* in memory */
};

/* Devices of tiers that lie on several; those of a tier stand together, in its order. */
#define CTL_STAT_PARTS 256 /* of all; more are left out */
struct ctl_stat_part {
	unsigned ns, tier;
	struct store_part part;
};

struct ctl_stat_worker {
	uint64_t turns, mails, sleeps, mbox_full, busy_ns;
	uint64_t reqs_max, reqs_free, reqs_low, reqs_empty;
};

struct ctl_stat {
	struct ctl_call call;
	uint64_t at_ns;
	unsigned nr_workers;
	struct ctl_stat_worker workers[REACTORS_MAX];
	unsigned nr_clients;
	struct tr_refused refused;
	struct tgt_subsys_info subsys;
	/* Sums over the workers of tgt_counts. */
	uint64_t cmds[TGT_NR_KINDS][256][TGT_NR_OUTCOMES];
	uint64_t bad[8][256];
	unsigned nr_classes;
	struct ctl_stat_class classes[CTL_STAT_CLASSES];
	unsigned nr_parts;
	struct ctl_stat_part parts[CTL_STAT_PARTS];
	unsigned nr_ns;
	uint32_t next_nsid;
	struct reactor_round round;
	struct mbox_msg again;
	struct list waiters;	 /* of struct ctl_stat_wait */
	struct ctl_stat_ns ns[]; /* TGT_NS_MAX */
};

struct ctl_stat_wait {
	struct list node;
	/* The figures are there, until it returns; NULL: no memory, or the daemon stops. */
	void (*done)(struct ctl_stat_wait *w, const struct ctl_stat *st);
};
void ctl_stat_get(struct ctl *c, struct ctl_stat_wait *w);
void ctl_stat_forget(struct ctl_stat_wait *w); /* done() won't run */

/* "kv", "nvm", "none", "admin"; the name of an opcode there. */
const char *ctl_stat_kind(unsigned kind);
const char *ctl_stat_opcode(unsigned kind, unsigned opc);

#endif
