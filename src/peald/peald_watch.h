/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who looks after the SSDs of the daemon: the watch thread of store/ssd as the configuration wants
 * it, with its words in the log. Made and ended on the main thread.
 */
#ifndef PEALD_PEALD_WATCH_H
#define PEALD_PEALD_WATCH_H

#include "ctl/conf.h"
#include "store/ssd/ssd_watch.h"

int peald_watch_create(const struct conf *c, struct ssd_watch **w);
/* The folder is made if it isn't there. */
int peald_watch_add(struct ssd_watch *w, const char *folder, struct ssd_watch_dev **dev);

#endif
