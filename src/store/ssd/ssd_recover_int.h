/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recovery carries about. On the stack of the thread that builds the store.
 */
#ifndef STORE_SSD_SSD_RECOVER_INT_H
#define STORE_SSD_SSD_RECOVER_INT_H

#include "base/vec.h"
#include "store/ssd/ssd_int.h"

struct ssd_recover_tomb {
	struct store_key key;
	uint64_t ver;
};

struct ssd_recover {
	struct ssd *s;
	struct ssd_footer *lines; /* of one segment */
	uint32_t nr_lines;
	uint8_t *block;
	uint8_t *scan; /* a window of the segment */
	uint64_t scan_start;
	uint32_t scan_len;
	bool is_full; /* the index had no room: what it hasn't got must not stay a line */
	VEC(struct ssd_recover_tomb)
	tombs;
};

#endif
