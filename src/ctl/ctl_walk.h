/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over all keys of a namespace on the home, a page at a time: deleting those of a class or
 * all, or counting what each class has. Commands go on meanwhile; what is stored while a walk is
 * under way may be met or not.
 */
#ifndef CTL_CTL_WALK_H
#define CTL_CTL_WALK_H

#include "ctl/ctl_ns.h"
#include "kv/kv.h"

#define CTL_WALK_PAGE 64
#define CTL_WALK_CLASSES 256 /* that are counted apart; the rest goes together */

struct ctl_walk_class {
	uint16_t cls;
	uint64_t nr_keys;
	uint64_t bytes;
};

struct ctl_walk {
	struct ctl_call call;
	struct rpc_req *req;
	struct ctl_ns_ref ref;
	bool is_purge;
	bool has_class; /* only this one */
	uint16_t cls;
	/* Out. */
	struct ctl_ns_classes
		known; /* of the namespace, when the walk began; known.of is the caller's */
	/* 0, -ENOENT no such namespace, -EINVAL not a KV one, -ECANCELED the daemon stops */
	int res;
	uint64_t nr_seen, nr_deleted;
	unsigned nr_classes;
	struct ctl_walk_class classes[CTL_WALK_CLASSES + 1]; /* the last: of all others */
	/* Its own. */
	struct tgt_ns *ns;
	struct mbox_msg again;
	struct store_io io;
	struct store_list list; /* as the page before ended */
	struct store_key keys[CTL_WALK_PAGE];
	uint32_t nr, at;
	bool is_inside, is_back;
	bool (*step)(struct ctl_walk *w, int res); /* false: the walk is over, w may be gone */
	int step_res;
	uint16_t look_cls;
	uint64_t look_bytes;
};
/* Everything but req, ref and what is wanted is zero. done() is the caller's. */
void ctl_walk_start(struct ctl *c, struct ctl_walk *w);

#endif
