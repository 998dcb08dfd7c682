/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of records that were read lately, for gets of parts of one piece: ssd_head.c. Inside ssd/
 * only. Runs on the shard's owner.
 */
#ifndef STORE_SSD_SSD_HEAD_H
#define STORE_SSD_SSD_HEAD_H

#include "store/ssd/ssd_int.h"

int ssd_head_init(struct ssd *s);
void ssd_head_fini(struct ssd *s);
enum ssd_head_is {
	SSD_HEAD_HERE,	  /* r has it now */
	SSD_HEAD_COMES,	  /* r is among those who wait */
	SSD_HEAD_MISSING, /* r has to read it, for r->head if that isn't NULL */
};
enum ssd_head_is ssd_head_find(struct ssd_read *r);
/* r has read it, or failed with err: those who waited have it now, or r->err, and are in woken. */
void ssd_head_came(struct ssd_read *r, int err, struct list *woken);

#endif
