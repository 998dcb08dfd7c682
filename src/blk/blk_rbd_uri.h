/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RBD image as people write it where a file's path could stand:
 *
 *	rbd:POOL/[NAMESPACE/]IMAGE[?conf=FILE&id=USER&timeout=SECONDS]
 *
 * conf: Ceph's own list of places when it is left out; id: `admin`, as Ceph's tools take it, with
 * the key ring that the conf names. No part may be empty, or have a character of `/?&=,@` in it
 * (`@` would name a snapshot); a conf may have `/` and `@`. Pure functions, any thread.
 */
#ifndef BLK_BLK_RBD_URI_H
#define BLK_BLK_RBD_URI_H

#include <stdbool.h>
#include <stdint.h>

#define BLK_RBD_EXPECTED "rbd:POOL/[NAMESPACE/]IMAGE[?conf=FILE&id=USER&timeout=SECONDS]"

struct blk_rbd_uri {
	char pool[96];
	char space[96]; /* "": none */
	char image[96];
	char conf[256]; /* "": Ceph's default */
	char id[64];
	uint32_t timeout_s; /* 1 to 600: how long an operation may take; 10 when not said */
};

bool blk_rbd_uri_is(const char *path); /* starts as one: no file's path then */
int blk_rbd_uri_parse(const char *path, struct blk_rbd_uri *u); /* 0 or -EINVAL */

#endif
