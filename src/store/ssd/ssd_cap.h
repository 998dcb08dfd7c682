/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a folder may hold: the files of all namespaces that lie there, those included that no
 * configuration names any more. Looked at when a file is to be made, for files keep their size; on
 * the thread that builds the store.
 */
#ifndef STORE_SSD_SSD_CAP_H
#define STORE_SSD_SSD_CAP_H

#include "store/store_make.h"

/* May o's file be made in its folder, if it isn't there? 0, -EDQUOT: beyond the cap; or -errno. */
int ssd_cap_check(const struct store_ssd_opts *o);

#endif
