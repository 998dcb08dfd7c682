/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When writes of values begin: ssd_pace.c. Inside ssd/ only. Runs on the shard's owner.
 */
#ifndef STORE_SSD_SSD_PACE_H
#define STORE_SSD_SSD_PACE_H

#include "store/ssd/ssd_int.h"

void ssd_pace_init(struct ssd *s);
void ssd_pace_fini(struct ssd *s);
/* Writes of the stream's queue begin, as many as may now. */
void ssd_pace_pump(struct ssd_stream *st);

#endif
