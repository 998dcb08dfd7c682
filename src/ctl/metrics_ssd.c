/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of tiers that lie on devices, and of the devices: what was written and why, what was
 * refused and why, wear, room. Control thread.
 * tidy: no-test: t_metrics.c has them
 */
#include <inttypes.h>

#include "base/container.h"
#include "ctl/metrics_int.h"
#include "store/ssd/ssd_watch.h"

static void tier_labels(FILE *f, const char *family, const struct ctl_stat_ns *s, unsigned tier)
{
	metrics_ns_labels(f, family, s);
	fprintf(f, ",tier=\"%u-%s\"", tier, s->tiers[tier].name);
}

/* A family of one value for each name. */
struct ssd_counts {
	const char *family;
	const char *help;
	const char *label;
	const char *const *names;
	uint32_t at; /* of the array in struct store_health */
};

static const struct ssd_counts ssd_counts[] = {
	{"tier_device_written_bytes_total",
	 "Bytes that went to the device: back (memory let go of them), through (as they came), "
	 "again "
	 "(eviction kept them), tables, first (zeros before the first use).",
	 "cause", store_health_wrote, offsetof(struct store_health, wrote)},
	{"tier_refused_total", "Values that were not written to the device, by why not.", "reason",
	 store_health_refused, offsetof(struct store_health, refused)},
	{"tier_device_errors_total", "Errors of the device.", "kind", store_health_errors,
	 offsetof(struct store_health, errors)},
};

static void put_counts(FILE *f, const struct ctl_stat *st, const struct ssd_counts *row)
{
	metrics_family(f, row->family, row->help, METRICS_COUNTER);
	for (unsigned i = 0; i < st->nr_ns; i++) {
		for (unsigned t = 0; t < st->ns[i].nr_tiers; t++) {
			const struct store_health *h = &st->ns[i].tiers[t].health;
			const uint64_t *v = (const uint64_t *)((const char *)h + row->at);

			for (unsigned k = 0; h->nr_shards && row->names[k]; k++) {
				tier_labels(f, row->family, &st->ns[i], t);
				fprintf(f, ",%s=\"%s\"} %" PRIu64 "\n", row->label, row->names[k],
					v[k]);
			}
		}
	}
}

struct ssd_row {
	const char *family;
	const char *help;
	uint64_t (*get)(const struct store_health *h);
};

static uint64_t get_state(const struct store_health *h)
{
	return h->state;
}

static uint64_t get_dead(const struct store_health *h)
{
	return h->nr_dead;
}

static uint64_t get_bad(const struct store_health *h)
{
	return h->nr_bad;
}

static uint64_t get_budget(const struct store_health *h)
{
	return h->budget_day_bytes;
}

static uint64_t get_given_back(const struct store_health *h)
{
	return h->given_back_bytes;
}

static uint64_t get_recovering(const struct store_health *h)
{
	return h->nr_recovering;
}

static uint64_t get_recover_segments(const struct store_health *h)
{
	return h->recover_segments;
}

static uint64_t get_recovered_segments(const struct store_health *h)
{
	return h->recovered_segments;
}

static uint64_t get_recover_bytes(const struct store_health *h)
{
	return h->recover_bytes;
}

static uint64_t get_recover_ms(const struct store_health *h)
{
	return h->recover_ms;
}

static const struct ssd_row ssd_rows[] = {
	{"tier_state", "0 read and written, 1 read-only, 2 off.", get_state},
	{"tier_dead_segments", "Segments that failed and are never used again.", get_dead},
	{"tier_bad_keys", "Keys that could not be read back and are not written again.", get_bad},
	{"tier_budget_day_bytes", "Bytes that may be written a day; 0: no limit.", get_budget},
	{"tier_given_back_bytes", "Bytes given back to a file system that had too little room.",
	 get_given_back},
	{"tier_recovering", "Shards that still look for what was there when the daemon started.",
	 get_recovering},
	{"tier_recover_segments", "Segments that had something in them then.",
	 get_recover_segments},
	{"tier_recovered_segments", "Those of them that are known.", get_recovered_segments},
	{"tier_recover_bytes", "Bytes read for it.", get_recover_bytes},
	{"tier_recover_milliseconds", "What it took, of the shard that took longest.",
	 get_recover_ms},
};

static void put_row(FILE *f, const struct ctl_stat *st, const struct ssd_row *row)
{
	metrics_family(f, row->family, row->help, METRICS_GAUGE);
	for (unsigned i = 0; i < st->nr_ns; i++) {
		for (unsigned t = 0; t < st->ns[i].nr_tiers; t++) {
			if (!st->ns[i].tiers[t].health.nr_shards)
				continue;
			tier_labels(f, row->family, &st->ns[i], t);
			fprintf(f, "} %" PRIu64 "\n", row->get(&st->ns[i].tiers[t].health));
		}
	}
}

/* ---- devices of a tier that lies on several -------------------------------------------------- */

static uint64_t part_state(const struct store_part *p)
{
	return p->state;
}

static uint64_t part_trip(const struct store_part *p)
{
	return p->health.state;
}

static uint64_t part_capacity(const struct store_part *p)
{
	return p->st.capacity_bytes;
}

static uint64_t part_used(const struct store_part *p)
{
	return p->st.used_bytes;
}

static uint64_t part_keys(const struct store_part *p)
{
	return p->st.nr_keys;
}

static uint64_t part_hits(const struct store_part *p)
{
	return p->st.hits;
}

static uint64_t part_puts(const struct store_part *p)
{
	return p->st.puts;
}

static uint64_t part_moved(const struct store_part *p)
{
	return p->moved;
}

static uint64_t part_moved_bytes(const struct store_part *p)
{
	return p->moved_bytes;
}

static const struct {
	const char *family;
	const char *help;
	enum metrics_type type;
	uint64_t (*get)(const struct store_part *p);
} part_rows[] = {
	{"tier_device_state",
	 "Of a device of a tier that lies on several: 0 in, 1 drained, 2 draining, 3 lost, 4 "
	 "missing.",
	 METRICS_GAUGE, part_state},
	{"tier_device_trip", "0 read and written, 1 read-only, 2 off.", METRICS_GAUGE, part_trip},
	{"tier_device_capacity_bytes", "Of the device's part of the tier.", METRICS_GAUGE,
	 part_capacity},
	{"tier_device_used_bytes", "Of them, those that are used.", METRICS_GAUGE, part_used},
	{"tier_device_keys", "Values that lie there.", METRICS_GAUGE, part_keys},
	{"tier_device_hits_total", "Reads that it answered.", METRICS_COUNTER, part_hits},
	{"tier_device_puts_total", "Values written to it.", METRICS_COUNTER, part_puts},
	{"tier_device_moved", "Values that draining has moved away from it.", METRICS_GAUGE,
	 part_moved},
	{"tier_device_moved_bytes", "Bytes of those.", METRICS_GAUGE, part_moved_bytes},
};

static void put_parts(FILE *f, const struct ctl_stat *st)
{
	for (unsigned r = 0; r < ARRAY_SIZE(part_rows) && st->nr_parts; r++) {
		metrics_family(f, part_rows[r].family, part_rows[r].help, part_rows[r].type);
		for (unsigned i = 0; i < st->nr_parts; i++) {
			const struct ctl_stat_part *p = &st->parts[i];

			tier_labels(f, part_rows[r].family, &st->ns[p->ns], p->tier);
			fputs(",folder=\"", f);
			metrics_label(f, p->part.folder);
			fprintf(f, "\"} %" PRIu64 "\n", part_rows[r].get(&p->part));
		}
	}
}

/* ---- devices --------------------------------------------------------------------------------- */

static int64_t get_used(const struct ssd_watch_info *w)
{
	return w->has_smart ? w->smart.used : -1;
}

static int64_t get_spare(const struct ssd_watch_info *w)
{
	return w->has_smart ? w->smart.spare : -1;
}

static int64_t get_media(const struct ssd_watch_info *w)
{
	return w->has_smart ? (int64_t)w->smart.media_errors : -1;
}

static int64_t get_wear(const struct ssd_watch_info *w)
{
	return w->state;
}

static int64_t get_may_write(const struct ssd_watch_info *w)
{
	return w->may_write;
}

static int64_t get_written(const struct ssd_watch_info *w)
{
	return (int64_t)w->written_bytes;
}

static int64_t get_day(const struct ssd_watch_info *w)
{
	return (int64_t)w->day_bytes;
}

static int64_t get_days_left(const struct ssd_watch_info *w)
{
	return w->days_left == WEAR_DAYS_UNKNOWN ? -1 : (int64_t)w->days_left;
}

static int64_t get_free(const struct ssd_watch_info *w)
{
	return (int64_t)w->free_bytes;
}

static int64_t get_tight(const struct ssd_watch_info *w)
{
	return w->is_tight;
}

/* What isn't known is negative, and left out. */
static const struct {
	const char *family;
	const char *help;
	enum metrics_type type;
	int64_t (*get)(const struct ssd_watch_info *w);
} device_rows[] = {
	{"device_wear_state", "0 good, 1 worn, 2 too worn to be written.", METRICS_GAUGE, get_wear},
	{"device_may_write", "1 when values may be written, an operator's word included.",
	 METRICS_GAUGE, get_may_write},
	{"device_used_percent", "Of its life, as the device says; may be over 100.", METRICS_GAUGE,
	 get_used},
	{"device_spare_percent", "Spare blocks left, as the device says.", METRICS_GAUGE,
	 get_spare},
	{"device_media_errors_total", "As the device says.", METRICS_COUNTER, get_media},
	{"device_written_bytes_total", "By this daemon, everything included.", METRICS_COUNTER,
	 get_written},
	{"device_day_bytes", "Written a day, at the rate of the last 24 hours.", METRICS_GAUGE,
	 get_day},
	{"device_days_left", "Until it is worn out at that rate.", METRICS_GAUGE, get_days_left},
	{"device_free_bytes", "Free on the file system.", METRICS_GAUGE, get_free},
	{"device_tight", "1 when less is free than ssd.min_free.", METRICS_GAUGE, get_tight},
};

static void put_devices(FILE *f, struct ssd_watch *w)
{
	struct ssd_watch_info info;

	for (unsigned r = 0; r < ARRAY_SIZE(device_rows); r++) {
		metrics_family(f, device_rows[r].family, device_rows[r].help, device_rows[r].type);
		for (unsigned i = 0; i < ssd_watch_nr(w); i++) {
			ssd_watch_info(w, i, &info);
			if (device_rows[r].get(&info) < 0)
				continue;
			fprintf(f, "peal_%s{folder=\"", device_rows[r].family);
			metrics_label(f, info.folder);
			fprintf(f, "\"} %" PRId64 "\n", device_rows[r].get(&info));
		}
	}
}

void metrics_ssd_put(FILE *f, const struct ctl *c, const struct ctl_stat *st)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ssd_counts); i++)
		put_counts(f, st, &ssd_counts[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(ssd_rows); i++)
		put_row(f, st, &ssd_rows[i]);
	put_parts(f, st);
	put_devices(f, c->watch);
}
