/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs that only look: ssd_look.c. Inside ssd/ only. Runs on the shard's owner.
 */
#ifndef STORE_SSD_SSD_LOOK_H
#define STORE_SSD_SSD_LOOK_H

#include "store/ssd/ssd_int.h"

void ssd_look_exist(struct store *s, struct store_io *io);
void ssd_look_match(struct store *s, struct store_io *io);
void ssd_look_list(struct store *s, struct store_io *io);
int ssd_look_step(struct ssd *s); /* lists that go on */

#endif
