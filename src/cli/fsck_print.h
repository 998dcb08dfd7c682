/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How `peal fsck` says what it finds: as text for people, or as a JSON object a line.
 */
#pragma once

#include <stdio.h>

#include "base/vec.h"
#include "store/ssd/ssd_fsck.h"

/* What the images of one namespace come to. */
struct fsck_ns {
	char name[64];
	uint32_t nr_shards, nr_devices, nr_seen; /* nr_seen: files */
	uint64_t nr_live, live_bytes, nr_tombs, nr_lost, nr_damages;
	uint64_t file_bytes;
};

struct fsck_print {
	FILE *out;
	bool is_json;
	bool has_entries;
	const char *path; /* of the image */
	uint64_t nr_damages, nr_torn;
	VEC(struct fsck_ns)
	nss;
};

extern const struct ssd_fsck_ops fsck_print_ops; /* arg: struct fsck_print */

void fsck_print_begin(struct fsck_print *p, const char *path);
/* err as ssd_fsck() gave it; it comes back, or -ENOMEM. */
int fsck_print_end(struct fsck_print *p, int err, const struct ssd_fsck_total *t);
/* The namespaces, and shards that are missing. */
void fsck_print_last(struct fsck_print *p);
