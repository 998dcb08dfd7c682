/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of its file a tier may fill: less than all of it when the configuration says less than
 * an older one did, and less while the file system has too little free for others (ssd_watch.h).
 * A segment that is given back is empty and a hole in the file, but for its head, which says that
 * it is free; it is written with zeros before it is used again.
 *
 *     FREE -> punched -> HOLLOW -> allocated, zeros written, a MiB at a time -> FREE
 *
 * One segment at a time, and not faster than the watch looks: what it sees is what that one has
 * changed. Belongs to the shard's owner.
 */
#ifndef STORE_SSD_SSD_ROOM_H
#define STORE_SSD_SSD_ROOM_H

#include "core/timeout.h"
#include "store/ssd/ssd_unit.h"

struct ssd_room {
	uint32_t limit; /* segments that may be there, whatever is free */
	uint32_t nr_hollow;
	bool is_busy;
	bool is_unable; /* the file system can't punch holes */
	uint32_t seg;	/* being punched or filled */
	uint64_t pos;	/* in it, of the zeros */
	uint64_t next_ns;
	struct timeout wake; /* somebody asleep looks, too */
	struct io_req req;
	struct ssd_unit unit;
	uint8_t *zeros;
};

int ssd_room_init(struct ssd *s);
void ssd_room_fini(struct ssd *s);
int ssd_room_step(struct ssd *s);
/* Is less free than has to be, and nothing left to give? Then nothing is written. */
bool ssd_room_is_out(const struct ssd *s);

#endif
