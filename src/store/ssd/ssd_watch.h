/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that looks after the folders of the SSD tiers: how worn the devices below them are and
 * how much room their file systems have. Both may take as long as a sick device does, so that
 * neither is a reactor's work; what the looks say, the tiers read from a few atomics.
 *
 *   watch thread:   SMART, statvfs -> policy/wear -> may_write, is_tight        (each folder's)
 *   reactors:       read those two, add to written_bytes
 *   control thread: ssd_watch_info(), ssd_watch_override()
 *
 * A change of state is told once. Folders are added before the start, on the main thread.
 */
#ifndef STORE_SSD_SSD_WATCH_H
#define STORE_SSD_SSD_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/wear.h"

struct ssd_watch;

struct ssd_watch_opts {
	const char *smart; /* "auto", "none", or a file with a page: ssd_smart.h */
	uint64_t min_free_bytes;
	struct wear_opts wear;
	/* NULL: statvfs. 0 or -errno. */
	int (*room)(const char *folder, uint64_t *free_bytes, uint64_t *total_bytes);
	/* On the thread that looks. is_bad: an operator should do something. May be NULL. */
	void (*tell)(void *arg, bool is_bad, const char *text);
	void *arg;
};

/* What tiers see of their folder. */
struct ssd_watch_dev {
	_Atomic bool may_write;
	_Atomic bool is_tight;		/* less is free than min_free */
	_Atomic uint64_t spare_bytes;	/* that are free beyond it */
	_Atomic uint64_t written_bytes; /* by our tiers, since the start */
};

struct ssd_watch_info {
	char folder[512];
	char device[128]; /* or the file; "": nobody tells */
	int smart_err;	  /* 0: it is read */
	bool has_smart;
	struct wear_smart smart;
	enum wear_state state;
	enum wear_override override;
	bool may_write;
	bool is_tight;
	uint64_t written_bytes; /* by us, since the start */
	uint64_t day_bytes;	/* at the rate of the last day */
	uint32_t days_left;	/* WEAR_DAYS_UNKNOWN */
	uint64_t free_bytes, total_bytes, min_free_bytes;
};

int ssd_watch_create(const struct ssd_watch_opts *o, struct ssd_watch **w); /* 0 or -errno */
/* The folder exists. The same one for the same folder; it lives as long as the watch. */
int ssd_watch_add(struct ssd_watch *w, const char *folder, struct ssd_watch_dev **dev);
/* One look at all of them; the thread's work. */
void ssd_watch_look(struct ssd_watch *w, uint64_t now_ns);
int ssd_watch_start(struct ssd_watch *w); /* NULL is fine, here and below */
void ssd_watch_stop(struct ssd_watch *w);
void ssd_watch_destroy(struct ssd_watch *w); /* stopped or never started */

/* Any thread, once all are added. */
unsigned ssd_watch_nr(const struct ssd_watch *w);
void ssd_watch_info(struct ssd_watch *w, unsigned i, struct ssd_watch_info *info);
void ssd_watch_override(struct ssd_watch *w, unsigned i, enum wear_override how);

#endif
