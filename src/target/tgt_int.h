/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of target/ share and nobody else sees: the controller, the subsystem, and the
 * doors between admin, identify, features, logs and events.
 *
 * A struct tgt_ctrl belongs to its home worker, apart from the fields that say otherwise. A struct
 * tgt_subsys belongs to the node's home, apart from its atomic tables and what its lock guards.
 */
#ifndef TARGET_TGT_INT_H
#define TARGET_TGT_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <nvme/types.h>
#include "core/timeout.h"
#include "target/tgt.h"

#define TGT_NSID_ALL 0xffffffffu
#define TGT_PAGE 4096u
#define TGT_ERRORS_MAX 16
#define TGT_EVENTS_MAX 16
#define TGT_ABORTS_MAX 8
#define TGT_CSI_NR 4
#define TGT_KAS_NS 1000000000ull /* granularity of Keep Alive: KAS 10 */
#define TGT_HOST_BEHAVIOR_BYTES 512
#define TGT_CHANGED_WORDS (TGT_NS_MAX / 64 + 1)

enum tgt_ctrl_state {
	TGT_CTRL_DOWN,	 /* no queues */
	TGT_CTRL_COMING, /* ops->enable() is under way */
	TGT_CTRL_UP,
	TGT_CTRL_GOING, /* ops->disable() is under way */
};

enum tgt_queue_state {
	TGT_QUEUE_NONE,
	TGT_QUEUE_COMING, /* the transport is making it */
	TGT_QUEUE_LIVE,
	TGT_QUEUE_GOING,
};

struct tgt_queue {
	uint8_t sq, cq; /* enum tgt_queue_state */
	uint16_t cqid;	/* of the SQ */
};

/* An asynchronous event: waiting for an AER, or reported and masked until its log page is read. */
struct tgt_event {
	uint8_t type, info, log;
	bool is_used, is_reported;
};

/* Values of Set Features, each as CDW11 had it. Back to their defaults with every reset. */
struct tgt_features {
	uint32_t arbitration;
	uint32_t power;
	uint32_t temp_over, temp_under;
	uint32_t error_recovery;
	uint32_t cache;
	uint32_t coalescing;
	uint64_t vector_cd[(TGT_QUEUES_MAX + 1 + 63) / 64];
	uint32_t atomicity;
	uint32_t profile;
	uint32_t aen;
	uint32_t kato_ms;
	uint32_t nr_queues; /* I/O queue pairs granted */
	uint8_t host_id[16];
	uint8_t behavior[3]; /* ACRE, ETDAS, LBAFEE */
};

/*
 * Kelvin. There is no sensor, but log 02h has no word for that (Base 2.0, 5.16.1.3: only the single
 * sensors' 0 is "not implemented"), and hosts show 0 as -273 degrees: room temperature, always.
 * Identify's thresholds shall not be 0 (5.17.2.1, WCTEMP: 0157h is what it recommends).
 */
#define TGT_TEMP_K 298u
#define TGT_TEMP_WARN_K 0x157u
#define TGT_TEMP_CRIT_K 0x175u

struct tgt_ctrl {
	struct tgt_subsys *ss;
	const struct tgt_ctrl_ops *ops;
	struct tgt_worker *home;
	void *priv;
	/* command sets enabled; set while there are no queues, read by any worker */
	uint32_t csi_mask;
	uint16_t id;
	uint8_t dstrd;
	uint8_t mdts;
	uint16_t mqes;
	bool is_operator;
	bool is_fabrics;
	bool is_discovery;
	uint8_t fabrics_host_id[16]; /* Connect's, and so is its Keep Alive */
	uint32_t fabrics_kato_ms;
	uint32_t max_queues;
	char host[64];

	enum tgt_ctrl_state state;
	bool is_armed; /* CC.EN went up and nothing has taken it down since */
	bool is_ready; /* CSTS.RDY */
	bool is_fatal; /* CSTS.CFS */
	uint8_t shst;
	uint32_t cc;
	uint32_t int_mask;
	uint32_t aqa;
	uint64_t asq, acq;
	struct tgt_ctrl_waiter {
		void (*done)(void *arg);
		void *arg;
	} waiters[4];
	unsigned nr_waiters;

	struct reactor_round gone; /* GOING: namespaces drop what they hold for it */
	struct tgt_features feat;
	struct timeout keep_alive;
	struct tgt_queue queues[TGT_QUEUES_MAX + 1];
	struct counter nr_sqs; /* I/O submission queues that are live */
	unsigned nr_aborts;

	struct tgt_req *aers[TGT_AERS_MAX];
	unsigned nr_aers;
	struct tgt_event events[TGT_EVENTS_MAX];

	struct nvme_error_log_page errors[TGT_ERRORS_MAX];
	uint64_t nr_errors;

	struct list node;			     /* ss->ctrls; under ss->lock */
	_Atomic uint64_t changed[TGT_CHANGED_WORDS]; /* namespaces, log 04h; any thread sets */
	struct mbox_msg changed_msg;
	_Atomic bool changed_is_posted; /* set under ss->lock, cleared on home */
	bool is_dead;			/* destroyed while changed_msg was on its way */
};

struct tgt_subsys {
	const struct tgt_node *node;
	char nqn[224];
	char serial[21];
	char model[41];
	uint64_t capacity_bytes;
	uint64_t born_ns;
	const struct tgt_csi_ops *csi[TGT_CSI_NR];
	uint32_t csi_mask; /* bit 0, NVM, always: CAP.CSS says so */
	_Atomic(struct tgt_ns *) ns[TGT_NS_MAX + 1];

	/* the node's home's */
	bool ns_is_busy[TGT_NS_MAX + 1]; /* on its way in, out, or to another size */
	/* of namespaces that are not, or not yet so large, in the table; the node's home writes */
	_Atomic uint64_t reserved_bytes;
	struct tgt_ns_stat gone; /* counters of deleted namespaces, for log 02h */

	_Atomic uint64_t media_errors;
	_Atomic uint64_t leased[TGT_CTRLS_MAX];
	/* tracing, under lock: which controller switched it on; 0 = none */
	uint16_t trace_owner;
	bool trace_is_on;
	uint32_t trace_session;
	pthread_mutex_t lock; /* control plane: ctrls, segments */
	struct list ctrls;
	unsigned nr_ctrls;
	uint16_t last_id;
	struct mem_region *segments[TGT_SEGMENTS_MAX];
	unsigned next_segment;
};

/* An admin request's use of its scratch. */
struct tgt_admin {
	void (*done)(struct tgt_req *req); /* before the response, once; NULL = nothing to do */
	bool is_quiet;			   /* failure isn't for the error log */
	/* Namespace Management: to the node's home and back */
	struct mbox_msg msg;
	struct tgt_req *req;
	uint64_t bytes;
	uint32_t nsid;
	uint8_t csi;
	uint8_t verb;
	uint16_t status;
};
static_assert(sizeof(struct tgt_admin) <= TGT_SCRATCH_BYTES, "fits the scratch");

static inline struct tgt_admin *tgt_admin_of(struct tgt_req *req)
{
	return (struct tgt_admin *)req->scratch;
}

/* The namespace, if it is there and its command set is enabled; within one turn. */
static inline struct tgt_ns *tgt_ctrl_ns(const struct tgt_ctrl *c, uint32_t nsid)
{
	struct tgt_ns *ns;

	if (nsid == 0 || nsid > TGT_NS_MAX)
		return NULL;
	ns = atomic_load_explicit(&c->ss->ns[nsid], memory_order_acquire);
	return ns && c->csi_mask >> ns->ops->csi & 1 ? ns : NULL;
}

/* Space padded, no terminator (Base 2.0, 1.4.2). */
static inline void tgt_put_ascii(char *dst, size_t len, const char *src)
{
	for (; len; len--)
		*dst++ = *src ? *src++ : ' ';
}

/* tgt_admin.c */
void tgt_admin_init(struct tgt_req *req);
void tgt_admin_done(struct tgt_req *req);

/* The admin commands: each completes req exactly once. */
void tgt_identify_execute(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_log_execute(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_feature_get(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_feature_set(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_queue_create_cq(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_queue_create_sq(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_queue_delete_cq(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_queue_delete_sq(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_aer_execute(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_nsmgmt_manage(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_nsmgmt_attach(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_nsmgmt_resize(struct tgt_ctrl *c, struct tgt_req *req);

struct tgt_trace *tgt_trace_create(struct tgt_worker *w); /* NULL = no memory */
void tgt_trace_destroy(struct tgt_trace *t);
void tgt_trace_execute(struct tgt_ctrl *c, struct tgt_req *req);
void tgt_trace_ctrl_gone(struct tgt_ctrl *c);

/* tgt_fabrics.c: a Fabrics command, whatever the controller's state. */
void tgt_fabrics_execute(struct tgt_req *req);

void tgt_feature_reset(struct tgt_ctrl *c);	   /* defaults */
bool tgt_feature_is_hot(const struct tgt_ctrl *c); /* beyond a threshold that was set */
uint32_t tgt_feature_effects(uint8_t fid);	   /* log 12h; 0 = there is no such feature */
bool tgt_queue_exists(const struct tgt_ctrl *c);   /* any I/O queue, also on its way */
void tgt_admin_effects(const struct tgt_ctrl *c, __le32 acs[256]); /* log 05h */

void tgt_aer_post(struct tgt_ctrl *c, uint8_t type, uint8_t info, uint8_t log);
void tgt_aer_flush(struct tgt_ctrl *c);
void tgt_aer_clear(struct tgt_ctrl *c, uint8_t log); /* its log page was read */
void tgt_aer_give_back(struct tgt_ctrl *c);	     /* all of them, silently; forgets events */
bool tgt_aer_abort(struct tgt_ctrl *c, uint16_t cid);

void tgt_log_error(struct tgt_ctrl *c, const struct tgt_req *req);
void tgt_ctrl_keep_alive(struct tgt_ctrl *c); /* restarts the timer */

/* tgt_subsys.c */
int tgt_subsys_ctrl_add(struct tgt_subsys *ss, struct tgt_ctrl *c);
void tgt_subsys_ctrl_del(struct tgt_subsys *ss, struct tgt_ctrl *c);
/* IDs of controllers from `first` up, ascending; at most max. */
unsigned tgt_subsys_ctrl_ids(struct tgt_subsys *ss, uint16_t first, uint16_t *ids, unsigned max);
/* Namespace nsid came, went or changed: log 04h and an event for every controller. */
void tgt_subsys_tell(struct tgt_subsys *ss, uint32_t nsid);

/* tgt_subsys_ns.c */
uint64_t tgt_subsys_ns_capacity(struct tgt_subsys *ss); /* bytes in use; any worker */
/* The node's home: bytes for a namespace that is being made. False: over the node's capacity. */
bool tgt_subsys_ns_reserve(struct tgt_subsys *ss, uint64_t bytes);
void tgt_subsys_ns_unreserve(struct tgt_subsys *ss, uint64_t bytes);

#endif
