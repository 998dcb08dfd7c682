/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods about one namespace: how it is named in a request, and how a reactor works on it for
 * longer than a turn without its going away. See ctl_ns.c for who runs what.
 */
#ifndef CTL_CTL_NS_H
#define CTL_CTL_NS_H

#include "ctl/ctl_int.h"
#include "kv/kv.h"

/* A namespace as a request named it: copied, since reactors don't read JSON. */
struct ctl_ns_ref {
	uint32_t nsid; /* 0: by name */
	char name[64];
};
struct ctl_ns_ref ctl_ns_ref(const struct rpc_arg *a);
/* On the home. NULL: there is none. */
struct tgt_ns *ctl_ns_find(struct ctl *c, const struct ctl_ns_ref *ref);
/* On the home: until ctl_ns_put() it isn't destroyed, as if a command were in it. */
struct tgt_ns *ctl_ns_get(struct ctl *c, const struct ctl_ns_ref *ref);
void ctl_ns_put(struct tgt_ns *ns);
/* The classes of a KV namespace as they are now. */
struct ctl_ns_classes {
	unsigned nr;
	struct kv_class *of; /* the caller's to free */
	struct kv_class_stats st;
};
int ctl_ns_classes(const struct tgt_ns *ns, struct ctl_ns_classes *to); /* the home; -ENOMEM */
/* "namespace 'x' isn't there, expected one of ns.list" */
void ctl_ns_missing(struct rpc_req *req, const struct ctl_ns_ref *ref);
/* "namespace 'x' is a block namespace, WHY, expected a key-value one"; why may be "" */
void ctl_ns_not_kv(struct rpc_req *req, const struct ctl_ns_ref *ref, const char *why);
/* An NVMe status as errno: what an RPC can say. */
int ctl_ns_errno(uint16_t st);

#endif
