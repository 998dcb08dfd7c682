/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers of a namespace, from the configuration's words to what kv/ takes. Main thread.
 */
#ifndef PEALD_PEALD_TIER_H
#define PEALD_PEALD_TIER_H

#include "ctl/conf.h"
#include "kv/kv.h"

/* NULL: it has none of that kind. */
const struct conf_tier *peald_tier_find(const struct conf_ns *ns, enum conf_tier_kind kind);
/* Strings are the configuration's. */
void peald_tier_rados(const struct conf_tier *rados, struct ceph_opts *co, struct kv_ns_opts *ko);
/* What is likely behind an error of a namespace's making. */
const char *peald_tier_why(int err, const struct conf_tier *ssd, const struct conf_tier *rados);

#endif
