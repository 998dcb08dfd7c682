/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands where blk_rbd.c would when librbd isn't there: an image can't be opened, and it says
 * why. Any thread.
 * tidy: no-test: it has one answer, which the build without librbd gives
 */
#include <errno.h>
#include <stdio.h>

#include "blk/blk_int.h"

int blk_rbd_open(struct blk_ns *bn, const struct blk_ns_opts *o, char id[BLK_ID_BYTES])
{
	if (o->why)
		snprintf(o->why, BLK_WHY_BYTES, "this peald was built without librbd");
	return -EOPNOTSUPP;
}
