/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers of a namespace, from the configuration's words to what kv/ takes; see peald_tier.h. Main
 * thread.
 * tidy: no-test: test/peer and test/ceph start the real thing
 */
#include "peald/peald_tier.h"

#include <errno.h>
#include <stddef.h>

const struct conf_tier *peald_tier_find(const struct conf_ns *ns, enum conf_tier_kind kind)
{
	for (unsigned i = 0; i < ns->nr_tiers; i++)
		if (ns->tiers[i].kind == kind)
			return &ns->tiers[i];
	return NULL;
}

void peald_tier_rados(const struct conf_tier *rados, struct ceph_opts *co, struct kv_ns_opts *ko)
{
	const struct ceph_words *r = &rados->rados;

	*co = (struct ceph_opts){
		.conf = r->conf[0] ? r->conf : NULL,
		.id = r->user[0] ? r->user : "peal",
		.keyring = r->keyring[0] ? r->keyring : NULL,
		.pool = r->pool,
		.ns = r->ns[0] ? r->ns : NULL,
		.timeout_s = r->timeout_s,
		.max_keys = r->max_keys,
	};
	ko->rados = co;
}

const char *peald_tier_why(int err, const struct conf_tier *ssd, const struct conf_tier *rados)
{
	if (rados && err == -ENOSYS)
		return " (it has a rados tier, and this peald was built without librados)";
	if (rados && err == -ENOENT)
		return " (the configuration of its rados tier isn't there)";
	if (!ssd)
		return "";
	switch (err) {
	case -EBUSY:
		return " (another daemon has its SSD files open)";
	case -EPROTONOSUPPORT:
		return " (its SSD files were written by a newer version)";
	case -EXDEV:
		return " (its SSD files are another namespace's, or some are of one that is cut in "
		       "another number of shards: move those away; `peal fsck` says what they are)";
	case -EUCLEAN:
		return " (its SSD files are damaged, or none of ours)";
	case -EDQUOT:
		return " (the SSD files of all namespaces in its folder would go beyond ssd.cap)";
	case -ENOSPC:
		return " (its SSD files would not fit, or leave less than ssd.min_free)";
	case -EINVAL:
		return " (too small, or the SSD's file system has no direct I/O)";
	default:
		return "";
	}
}
