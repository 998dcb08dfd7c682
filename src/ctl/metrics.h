/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's figures in Prometheus' text form (exposition format 0.0.4): names begin with peal_,
 * units are bytes and seconds, counters end in _total, each family has HELP and TYPE and stands
 * together. Labels come from configuration and from the specification's names, so their number is
 * bounded: namespaces, tiers, reactors, opcodes, statuses. Pure.
 */
#ifndef CTL_METRICS_H
#define CTL_METRICS_H

#include "ctl/ctl_stat.h"

/* malloc()ed text and its length; NULL = no memory. */
char *metrics_text(const struct ctl *c, const struct ctl_stat *st, size_t *bytes);

#endif
