/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of d_sim: a node of one to four reactors, namespaces over different stacks, hosts with
 * several queues, and what they have under way. Everything in one thread; d_step() runs one turn of
 * a reactor that the seed picks. Who does what:
 *
 *     d_sim.c    seeds, worlds, what happens next
 *     d_cmd.c    makes commands           d_check.c   looks at their outcome
 *     d_lease.c  leases, read in place    d_event.c   resets, queues, memory, namespaces, time
 *     d_model.c  the oracle               d_mem.c     host memory with a shadow
 */
#pragma once

#include "d_mem.h"
#include "d_model.h"
#include "kv/kv.h"
#include "peal/vendor.h"
#include "store/store_make.h"

#define D_HOSTS_MAX 3u
#define D_QUEUES_MAX 4u
#define D_CMDS_MAX 96u
#define D_NS_MAX 8u
#define D_LEASES_MAX 32u

enum d_kind {
	D_STORE,
	D_STORE_EX,
	D_RETRIEVE,
	D_RETRIEVE_EX,
	D_SIZE, /* Retrieve without a buffer */
	D_EXIST,
	D_DELETE,
	D_LIST,
	D_FLUSH,
	D_MATCH,
	D_LEASE,
	D_RELEASE,
	D_BAD, /* must fail with `want` */
	D_NS_DELETE,
	D_NS_RESIZE,
	D_NR_KINDS,
};

struct d_stack {
	const char *name; /* "dram/fault/mem" */
	struct store_fault_opts fault;
	bool loses;  /* evicts or fails: a miss is always right */
	bool leases; /* whole values lie in arenas */
	bool doubts; /* a failed mutation may have happened */
};

struct d_world;

struct d_ns {
	struct d_world *w;
	struct tgt_ns *ns;
	const struct d_stack *stack;
	uint32_t nsid;
	uint32_t value_max;
	bool is_immutable;
	bool is_resized; /* or about to be */
	bool is_dying;	 /* a delete is on its way */
	bool is_gone;
	uint64_t salt;
	unsigned nr_keys;
	struct d_key *keys;
};

struct d_lease {
	bool is_held;
	struct d_host *h;
	struct d_ns *ns;
	struct d_key *key;
	struct d_mut mut; /* what it is a lease of */
	uint64_t id;
	uint64_t until_ns;
	unsigned nr_ext;
	struct {
		struct mem_region *reg;
		uint64_t off;
		uint32_t len;
	} ext[512];
};

struct d_cmd {
	bool is_used;
	uint8_t kind; /* enum d_kind */
	bool to_host;
	/*
	 * memory was taken away, or it was aborted: it may fail in more ways, and a mutation that
	 * failed may have happened
	 */
	bool is_excused, is_aborted;
	bool has_seals, has_wrong_seal;
	struct d_host *h;
	struct d_ns *ns;
	struct d_key *key;
	uint16_t qid, cid;
	uint16_t want; /* D_BAD */
	struct nvme_sqe sqe;
	struct d_buf buf;
	uint64_t begin; /* in w->now */
	uint64_t begin_ns;
	uint64_t mut_id;
	uint64_t until_ns;  /* D_RELEASE: the lease's */
	uint16_t match[64]; /* key numbers */
	unsigned nr_match;
};

struct d_host {
	struct d_world *w;
	struct fake_tr *t;
	struct d_mem mem;
	unsigned nr_queues;
	uint32_t qsize[D_QUEUES_MAX + 1];
	bool has_queue[D_QUEUES_MAX + 1];
	struct d_cmd cmd[D_CMDS_MAX];
	unsigned nr_cmds;
};

struct d_world {
	uint64_t seed;
	struct rng rng;
	struct fake_node *n;
	const struct tgt_csi_ops *csi;
	uint64_t now; /* counts what hosts do and see */
	uint64_t next_id;
	struct d_host host[D_HOSTS_MAX];
	unsigned nr_hosts;
	struct d_ns ns[D_NS_MAX];
	unsigned nr_ns;
	struct d_lease lease[D_LEASES_MAX];
	uint8_t *scratch; /* of a value and its head */
	uint64_t digest;  /* of every outcome: the same seed gives the same */
	struct d_tally {
		uint64_t cmds, hits, misses, puts, leases, failed, unknown;
	} tally;
};
#define D_ARENA_BYTES_MIN (512u << 10) /* of a shard, its tables apart */
#define D_SCRATCH_BYTES (3u << 20)

/* Prints what is wrong and aborts: the seed is told by whoever watches. */
__attribute__((noreturn, format(printf, 2, 3))) void d_wrong(const struct d_cmd *cmd,
							     const char *fmt, ...);
#define d_check(cmd, cond, ...) \
	do { \
		if (!(cond)) \
			d_wrong(cmd, __VA_ARGS__); \
	} while (0)

static inline struct d_span d_span_of(const struct d_cmd *cmd)
{
	return (struct d_span){cmd->begin, cmd->h->w->now, cmd->mut_id};
}

/* d_sim.c */
void d_step(struct d_world *w);
const char *d_kind_name(unsigned kind);

/* d_cmd.c: one random command; false when there was no room for it. */
bool d_cmd_start(struct d_world *w);
uint64_t d_value_seed(const struct d_ns *ns, struct d_key *key, uint64_t id);
bool d_cmd_admin(struct d_host *h, struct d_ns *ns, enum d_kind kind, struct nvme_sqe *sqe);

/* d_check.c */
void d_reap(struct d_host *h);
void d_forget(struct d_host *h, uint16_t qid); /* the queue is gone: outcomes unknown */
bool d_ns_may_miss(const struct d_cmd *cmd, struct d_key *key);

/* d_lease.c */
void d_lease_note(struct d_cmd *cmd, uint32_t bytes);
void d_lease_check(struct d_world *w); /* those held: every byte */
struct d_lease *d_lease_any(struct d_world *w, struct d_host *h);
void d_lease_drop_ns(struct d_world *w, const struct d_ns *ns);
void d_lease_drop_host(struct d_world *w, const struct d_host *h);
void d_lease_drop(struct d_lease *l);

/* d_event.c: something that isn't a command. */
void d_event(struct d_world *w);
void d_host_init(struct d_world *w, struct d_host *h, bool is_operator);
void d_host_fini(struct d_host *h);
void d_ns_create(struct d_world *w);
void d_ns_fini(struct d_ns *ns);
void d_ns_delete_now(struct d_ns *ns);
