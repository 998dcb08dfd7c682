/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the metrics' text share: heads of families and labels (metrics.c), and the
 * families of devices (metrics_ssd.c). Control thread.
 */
#ifndef CTL_METRICS_INT_H
#define CTL_METRICS_INT_H

#include <stdio.h>

#include "ctl/metrics.h"

enum metrics_type {
	METRICS_COUNTER,
	METRICS_GAUGE,
	METRICS_HISTOGRAM,
};

void metrics_family(FILE *f, const char *name, const char *help, enum metrics_type type);
/* A label's value: the three characters that would end it are written otherwise. */
void metrics_label(FILE *f, const char *text);
/* `peal_NAME{namespace="...",nsid="..."`; the caller goes on with a comma or the bracket. */
void metrics_ns_labels(FILE *f, const char *family_name, const struct ctl_stat_ns *s);
void metrics_ssd_put(FILE *f, const struct ctl *c, const struct ctl_stat *st);

#endif
