/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of kv/ share: the namespace, the state of one command in its request's scratch,
 * and the entry point of each command. A command belongs to the worker of its queue from
 * kv_cmd_prepare() to tgt_req_complete().
 */
#ifndef KV_KV_INT_H
#define KV_KV_INT_H

#include "kv/kv.h"
#include "peal/vendor.h"
#include "store/store_read.h"
#include "store/store_make.h"

#define KV_SEGMENTS_MAX 1024
#define KV_BATCH 64	  /* keys per look-up of MATCH, per page of List */
#define KV_RESTARTS_MAX 3 /* a value replaced under a read: start over this often, then a miss */

struct kv_ns {
	struct tgt_ns ns;
	struct store_set *set;
	struct kv_ns_opts opts; /* name, path and build not kept */
	uint32_t max_keys;
	unsigned nr_shards; /* as many as there are reactors, unless files below say otherwise */
	/*
	 * Of segments[]. Both change in the making and in a resize, which goes from one owner to
	 * the next; Identify reads the number.
	 */
	_Atomic uint32_t nr_segments;
	uint32_t segments[KV_SEGMENTS_MAX];
	_Atomic uint32_t nr_alerts;
	_Atomic uint32_t nr_recovering; /* shards whose ssd tier doesn't know all of its file */
	struct kv_lease_table *leases[REACTORS_MAX]; /* one per worker, that worker's */
	/* kv_class.c: the home changes them, all look at how many there are and whether one is */
	struct kv_class *classes;
	_Atomic uint32_t nr_classes;
	_Atomic uint64_t class_bits[1u << 10];
	struct ceph_link *link; /* of its rados tier */
	struct ns_round *end;	/* made with it: its end needs no memory */
};

/* kv_tier.c: in how many shards the namespace's files are cut; 0: there are none. */
unsigned kv_tier_shards(const struct kv_ns *kn);
/* The connection of its rados tier, if it has one; 0, or what ceph_link_open() said. */
int kv_tier_link(struct kv_ns *kn);
/* A shard's rados tier, below what it has. */
int kv_tier_rados(struct kv_ns *kn, unsigned shard);
/* A shard's ssd tier, below what it has. 0, or what store_ssd_create() said. */
int kv_tier_ssd(struct kv_ns *kn, unsigned shard);
/* What their files hold is looked for from now on, while the namespace serves. */
void kv_tier_open(struct kv_ns *kn);

/* May values of this class be stored? */
static inline bool kv_class_is_known(const struct kv_ns *kn, uint16_t id)
{
	return !id || !atomic_load_explicit(&kn->nr_classes, memory_order_acquire) ||
	       (atomic_load_explicit(&kn->class_bits[id / 64], memory_order_relaxed) >> (id & 63) &
		1);
}

static inline struct kv_ns *kv_ns_of(const struct tgt_req *req)
{
	return container_of(req->ns, struct kv_ns, ns);
}

enum {
	KV_GET_EX = 1,
	KV_GET_TRACED = 2,
};

/* Retrieve and RETRIEVE_EX. */
struct kv_get {
	struct store_view_iter vi;
	struct mem_xfer x;
	uint64_t off;	    /* first byte of the value that is delivered */
	uint64_t room;	    /* bytes of the host's buffer for value bytes */
	uint64_t ver;	    /* RETRIEVE_EX: the one that was sized */
	uint32_t hdr_bytes; /* RETRIEVE_EX: block and seals before the value */
	uint8_t nr_restarts;
	uint8_t how;  /* KV_GET_*; 0 as a rule */
	bool has_hdr; /* already delivered */
	union {
		struct store_far far; /* its view is that of store_now(), too */
		struct store_read read;
	};
};

/* Store and STORE_EX. */
struct kv_put {
	struct store_io io;
	struct store_view_iter vi;
	struct mem_xfer x;
	struct store_meta meta;
	uint32_t len;
	uint16_t status; /* of a store that failed after it had its buffer */
	bool has_seals;
};

enum kv_match_step {
	KV_MATCH_LOOK,
	KV_MATCH_PIN,
	KV_MATCH_UNPIN,
};

/* Commands that are one store verb, MATCH and List. */
struct kv_one {
	struct store_io io;
	int res; /* of the verb that came back */
	/*
	 * inside store_submit(): its end() only notes that it came back, the caller's loop goes
	 * on
	 */
	bool is_inline;
	bool is_back;
	union {
		struct {
			struct store_key keys[KV_BATCH];
			uint8_t found[KV_BATCH];
			uint32_t nr_left, nr_lead, nr_memory, nr_pin, at_pin;
			uint32_t pin_ms;
			uint16_t tiers;
			bool is_over;
			enum kv_match_step step;
		} match;
		struct {
			struct store_key keys[KV_BATCH];
			uint64_t room; /* bytes of the host's buffer left */
			uint32_t nr;
		} list;
		struct {
			uint64_t id;
			uint32_t bytes; /* of the whole reply */
			uint32_t nr_ext;
			uint16_t status;
			struct mbox_msg msg; /* RELEASE on another worker than its lease */
		} lease;
		struct {
			struct peal_wire_hint h[KV_BATCH];
			uint32_t nr, nr_left, nr_taken;
			uint64_t todo; /* workers that own keys of the batch */
			uint8_t at;    /* which of them is at it */
			struct mbox_msg msg;
		} hint;
	};
};

struct kv_cmd {
	struct store_key key;
	uint16_t key_status; /* NVME_ST_OK or why the key is no key */
	union {
		struct kv_get get;
		struct kv_put put;
		struct kv_one one;
	};
};
static_assert(sizeof(struct kv_cmd) <= TGT_SCRATCH_BYTES, "a command's state fits the request");

static inline struct kv_cmd *kv_cmd_of(struct tgt_req *req)
{
	return (struct kv_cmd *)req->scratch;
}

static inline struct tgt_req *kv_req_of(const void *cmd)
{
	return container_of(cmd, struct tgt_req, scratch);
}

static inline struct reactor *kv_home(const struct tgt_req *req)
{
	return req->sq->worker->reactor;
}

/*
 * Submits cmd->one.io for a command that needs many verbs in a row: true when it is back already.
 * Otherwise kv_cmd_one_back() (called by its end()) says when to go on. So a long chain is a loop,
 * not a recursion on the peer's input.
 */
bool kv_cmd_one_submit(struct tgt_req *req);
/*
 * The next step of such a command when its verb has come back by message: at once, or, while others
 * wait for this worker, when its client's turn comes. Nothing is held.
 */
void kv_cmd_one_on(struct tgt_req *req, void (*step)(struct tgt_req *req));
/* Keys that it may look at in one turn, of `max` while nobody else waits. */
static inline uint32_t kv_turn_keys(const struct tgt_req *req, uint32_t max)
{
	return req->sq->worker->is_shared ? KV_BATCH : max;
}
bool kv_cmd_one_back(struct kv_one *one, int res);

/* Store result -> NVMe status: the one place. */
uint16_t kv_cmd_status(int res);
uint16_t kv_cmd_key_make(struct store_key *k, const uint8_t b[16], uint8_t len);
void kv_cmd_count_read(struct tgt_req *req, uint64_t bytes);
void kv_cmd_count_write(struct tgt_req *req, uint64_t bytes);

/*
 * The status behind a transfer, or a read of it, that ended with res: what the walk over the host's
 * memory met.
 */
uint16_t kv_cmd_xfer_status(const struct tgt_req *req, int res);

void kv_cmd_prepare(struct tgt_req *req);
void kv_cmd_prefetch(struct tgt_req *req);
void kv_cmd_warm(struct tgt_req *req);
void kv_cmd_execute(struct tgt_req *req);
uint64_t kv_cmd_look(struct tgt_ns *ns, struct tgt_worker *w, const struct nvme_sqe *sqes,
		     unsigned nr, uint16_t *status);

void kv_get_retrieve(struct tgt_req *req);
void kv_get_retrieve_ex(struct tgt_req *req);
void kv_put_store(struct tgt_req *req);
void kv_put_store_ex(struct tgt_req *req);
void kv_list_execute(struct tgt_req *req);
void kv_match_execute(struct tgt_req *req);
void kv_hint_execute(struct tgt_req *req);
void kv_lease_execute(struct tgt_req *req);
void kv_lease_release(struct tgt_req *req);
uint16_t kv_identify(struct tgt_ns *ns, uint8_t cns, void *buf);

/*
 * Leases of one worker: pinned views with an owner and an end. They end by RELEASE, by time, or
 * with their controller.
 */
struct kv_lease_table *kv_lease_table_create(struct tgt_subsys *ss, struct tgt_worker *w);
void kv_lease_table_destroy(struct kv_lease_table *t); /* no lease left */
/*
 * Takes the view over. Id, 0 when a bound of the table or of the controller is hit (then the view
 * stays the caller's).
 */
uint64_t kv_lease_add(struct kv_lease_table *t, uint16_t ctrl, struct store_view *view,
		      uint32_t ms);
/* False when that controller has no such lease. The table's worker, as the rest. */
bool kv_lease_drop(struct kv_lease_table *t, uint16_t ctrl, uint64_t id);
/* A lease without a name, of a key, that ends when its time does. False: a bound, as above. */
bool kv_lease_pin(struct kv_lease_table *t, uint16_t ctrl, struct store_view *view,
		  const struct store_key *key, uint32_t ms);
bool kv_lease_unpin(struct kv_lease_table *t, uint16_t ctrl, const struct store_key *key);
void kv_lease_drop_ctrl(struct kv_lease_table *t, uint16_t ctrl);
void kv_lease_drop_all(struct kv_lease_table *t);
unsigned kv_lease_count(const struct kv_lease_table *t); /* any worker */
/* Adds what a controller holds. Any worker. */
void kv_lease_of(const struct kv_lease_table *t, uint16_t ctrl, uint64_t *nr, uint64_t *bytes);
#define KV_LEASE_MS_MAX 60000u
#define KV_LEASE_MS_DEFAULT 2000u
#define KV_LEASES_MAX 2048u	   /* per worker and namespace; half of them a controller */
#define KV_LEASES_SURE 4u	   /* and those that others can't take from a controller */
#define KV_LEASE_CTRL_MIB_MAX 256u /* leased bytes of one controller */

#endif
