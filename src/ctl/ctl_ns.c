/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and holding a namespace; see ctl_ns.h. What has a namespace as parameter or result runs
 * on the home, the only one that takes namespaces away; the rest on the control
 * thread.
 * tidy: no-test: t_ctl.c names namespaces
 */
#include "ctl/ctl_ns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ctl_ns_ref ctl_ns_ref(const struct rpc_arg *a)
{
	struct ctl_ns_ref ref = {.nsid = (uint32_t)a->u};

	if (a->text)
		snprintf(ref.name, sizeof(ref.name), "%s", a->text);
	return ref;
}

struct tgt_ns *ctl_ns_find(struct ctl *c, const struct ctl_ns_ref *ref)
{
	struct tgt_ns *ns;

	if (ref->nsid)
		return tgt_subsys_ns(c->subsys, ref->nsid);
	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++) {
		ns = tgt_subsys_ns(c->subsys, nsid);
		if (ns && strcmp(ns->name, ref->name) == 0)
			return ns;
	}
	return NULL;
}

struct tgt_ns *ctl_ns_get(struct ctl *c, const struct ctl_ns_ref *ref)
{
	struct tgt_ns *ns = ctl_ns_find(c, ref);

	if (ns)
		counter_add(&ns->stat[0].inflight, 1);
	return ns;
}

void ctl_ns_put(struct tgt_ns *ns)
{
	counter_add(&ns->stat[0].inflight, (uint64_t)-1);
}

int ctl_ns_classes(const struct tgt_ns *ns, struct ctl_ns_classes *to)
{
	const struct kv_class *all;
	unsigned nr = kv_class_list(ns, &all);

	to->of = calloc(nr + 1, sizeof(*to->of));
	if (!to->of)
		return -ENOMEM;
	if (nr)
		memcpy(to->of, all, nr * sizeof(*all));
	to->nr = nr;
	kv_class_stats(ns, &to->st);
	return 0;
}

void ctl_ns_missing(struct rpc_req *req, const struct ctl_ns_ref *ref)
{
	if (ref->nsid)
		rpc_req_fail(req, -ENOENT, "namespace %u isn't there, expected one of ns.list",
			     ref->nsid);
	else
		rpc_req_fail(req, -ENOENT, "namespace '%s' isn't there, expected one of ns.list",
			     ref->name);
}

void ctl_ns_not_kv(struct rpc_req *req, const struct ctl_ns_ref *ref, const char *why)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", ref->nsid);
	rpc_req_fail(req, -EINVAL, "ns: '%s' is a block namespace%s, expected a key-value one",
		     ref->nsid ? number : ref->name, why);
}

int ctl_ns_errno(uint16_t st)
{
	switch (st & 0x7ff) {
	case NVME_ST_OK:
		return 0;
	case NVME_ST_INVALID_NS:
		return -ENOENT;
	case NVME_ST_NS_INSUFFICIENT_CAPACITY:
		return -ENOSPC;
	case NVME_ST_INTERRUPTED:
		return -EBUSY;
	case NVME_ST_INVALID_FIELD:
		return -EINVAL;
	default:
		return -EIO;
	}
}
