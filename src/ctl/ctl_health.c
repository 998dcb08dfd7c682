/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ctl_health.h. What is looked at are states that last, not figures that come and go: a probe
 * that asks twice gets the same answer. Control thread.
 */
#include "ctl/ctl_health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/ssd/ssd_watch.h"

static void health_tiers(FILE *f, const struct ctl_stat_ns *s)
{
	for (unsigned t = 0; t < s->nr_tiers; t++) {
		const struct store_health *h = &s->tiers[t].health;

		if (h->nr_shards && h->state != TRIP_RW)
			fprintf(f, "namespace %u: tier %u-%s is %s\n", s->nsid, t, s->tiers[t].name,
				trip_name(h->state));
	}
}

static void health_parts(FILE *f, const struct ctl_stat *st)
{
	for (unsigned i = 0; i < st->nr_parts; i++) {
		const struct store_part *p = &st->parts[i].part;
		const struct ctl_stat_ns *s = &st->ns[st->parts[i].ns];

		if (p->state == STORE_PART_LOST || p->state == STORE_PART_MISSING)
			fprintf(f, "namespace %u: the SSD under %s is %s\n", s->nsid, p->folder,
				store_health_part_name(p->state));
		else if (p->state == STORE_PART_IN && p->health.state != TRIP_RW)
			fprintf(f, "namespace %u: the SSD under %s is %s\n", s->nsid, p->folder,
				trip_name(p->health.state));
	}
}

static void health_device(FILE *f, const struct ssd_watch_info *w)
{
	if (w->state != WEAR_OK)
		fprintf(f, "device under %s: wear is %s\n", w->folder, wear_state_name(w->state));
	if (!w->may_write)
		fprintf(f, "device under %s: no values are written\n", w->folder);
	if (w->is_tight)
		fprintf(f, "folder %s: less than min_free is free\n", w->folder);
}

char *ctl_health_text(const struct ctl *c, const struct ctl_stat *st, size_t *bytes)
{
	static const char head[] = "degraded\n";
	struct ssd_watch_info info;
	char *text = NULL;
	FILE *f = open_memstream(&text, bytes);
	bool is_bad;

	if (!f)
		return NULL;
	fputs(head, f);
	for (unsigned i = 0; i < st->nr_ns; i++)
		health_tiers(f, &st->ns[i]);
	health_parts(f, st);
	for (unsigned i = 0; i < ssd_watch_nr(c->watch); i++) {
		ssd_watch_info(c->watch, i, &info);
		health_device(f, &info);
	}
	is_bad = ferror(f);
	if (fclose(f) || is_bad) {
		free(text);
		return NULL;
	}
	if (*bytes == sizeof(head) - 1) {
		strcpy(text, "ok\n");
		*bytes = strlen(text);
	}
	return text;
}
