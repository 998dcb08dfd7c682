/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk along the log to a value's neighbours: one at a time, made with the tier. Runs on the
 * shard's owner.
 */
#ifndef STORE_SSD_SSD_AHEAD_H
#define STORE_SSD_SSD_AHEAD_H

#include "store/ssd/ssd_int.h"
#include "store/store_ahead.h"

int ssd_ahead_init(struct ssd *s); /* 0, -ENOMEM */
void ssd_ahead_fini(struct ssd *s);
void ssd_ahead(struct store *st, struct store_ahead *a); /* the op */
int ssd_ahead_step(struct ssd *s);
bool ssd_ahead_is_busy(const struct ssd *s);

#endif
