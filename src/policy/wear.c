/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See wear.h. One percent of a 7.68 TB drive of one write a day is 140 TB, 18 days: too coarse to
 * steer by. So SMART is a gate alone, and what is written is steered by our own count of bytes.
 * One thread.
 */
#include "policy/wear.h"

#include "base/container.h"
#include "base/le.h"

#define HOUR_NS (3600ull * 1000000000)
#define DAY_NS (24 * HOUR_NS)
#define SPARE_WARN 10u /* above its threshold */
#define MARGIN 3u
#define CRITICAL_STOP 0x0du /* bits 0, 2, 3 */
/* What less time than that shows is no rate. */
#define RATE_MIN_NS (HOUR_NS / 12)
#define BURST 4 /* th of a day */
#define BEGIN 8 /* th of a day is there at the start: restarts are no way around a budget */

void wear_init(struct wear *w, const struct wear_opts *o, uint64_t now_ns)
{
	*w = (struct wear){.o = *o, .born_ns = now_ns, .at_ns = now_ns};
	if (!w->o.warn_used)
		w->o.warn_used = 70;
	if (!w->o.stop_used)
		w->o.stop_used = 80;
}

/* 128 bits, of which devices use fewer than 64; in units, then in bytes. */
static uint64_t page_bytes(const uint8_t *p)
{
	uint64_t units = le64_get(p);

	if (le64_get(p + 8) || units > UINT64_MAX / WEAR_UNIT_BYTES)
		return UINT64_MAX;
	return units * WEAR_UNIT_BYTES;
}

void wear_parse(const uint8_t page[WEAR_PAGE_BYTES], struct wear_smart *s)
{
	*s = (struct wear_smart){
		.critical = page[0],
		.spare = page[3],
		.spare_threshold = page[4],
		.used = page[5],
		.written_bytes = page_bytes(page + 48),
		.media_errors = le64_get(page + 160),
	};
}

/* What the figures say when they have to be better by `margin` than the thresholds. */
static enum wear_state wear_level(const struct wear *w, const struct wear_smart *s, unsigned margin)
{
	/* 0 of 0: a device that doesn't tell. */
	bool tells = s->spare || s->spare_threshold;

	if (s->critical & CRITICAL_STOP || s->used + margin >= w->o.stop_used ||
	    (tells && s->spare <= s->spare_threshold + margin))
		return WEAR_NO_WRITE;
	if (s->used + margin >= w->o.warn_used ||
	    (tells && s->spare <= s->spare_threshold + SPARE_WARN + margin))
		return WEAR_WARN;
	return WEAR_OK;
}

bool wear_look(struct wear *w, const struct wear_smart *s)
{
	enum wear_state was = w->state, worst = wear_level(w, s, MARGIN), now = wear_level(w, s, 0);

	w->smart = *s;
	w->has_smart = true;
	/* Up at once, down by the margin. */
	w->state = now > was ? now : min_t(enum wear_state, was, worst);
	return w->state != was;
}

void wear_blind(struct wear *w)
{
	w->has_smart = false;
}

static void wear_hour(struct wear *w, uint64_t now_ns)
{
	uint64_t hour = (now_ns - w->born_ns) / HOUR_NS;

	if (hour - w->hour >= WEAR_HOURS)
		w->hour = hour - WEAR_HOURS;
	while (w->hour < hour)
		w->hours[++w->hour % WEAR_HOURS] = 0;
}

/* The first look at a device tells nothing of what was written since. */
static uint64_t wear_device_delta(struct wear *w)
{
	uint64_t before = w->device_bytes;

	if (!w->has_smart)
		return 0;
	w->device_bytes = w->smart.written_bytes;
	return before && w->device_bytes > before ? w->device_bytes - before : 0;
}

void wear_wrote(struct wear *w, uint64_t now_ns, uint64_t own_bytes)
{
	uint64_t own = own_bytes - w->own_bytes, device = wear_device_delta(w);

	if (now_ns < w->at_ns)
		now_ns = w->at_ns;
	wear_hour(w, now_ns);
	w->at_ns = now_ns;
	w->own_bytes = own_bytes;
	w->hours[w->hour % WEAR_HOURS] += max_t(uint64_t, own, device);
}

bool wear_may_write(const struct wear *w)
{
	switch (w->override) {
	case WEAR_AUTO:
		return w->state != WEAR_NO_WRITE;
	case WEAR_WRITE:
		return true;
	case WEAR_STOP:
		return false;
	}
	return false;
}

uint64_t wear_day_bytes(const struct wear *w)
{
	uint64_t sum = 0, ns = w->at_ns - w->born_ns;
	/* The running hour and the whole ones before it. */
	uint64_t whole = (WEAR_HOURS - 1) * HOUR_NS + ns % HOUR_NS;

	for (unsigned i = 0; i < WEAR_HOURS; i++)
		sum += w->hours[i];
	ns = min_t(uint64_t, ns, whole);
	return ns < RATE_MIN_NS ? sum : (uint64_t)((double)sum * (double)DAY_NS / (double)ns);
}

uint32_t wear_days_left(const struct wear *w)
{
	unsigned used = w->has_smart ? w->smart.used : 0, left = used < 100 ? 100 - used : 0;
	double bytes, day = (double)wear_day_bytes(w), days;

	if (!left)
		return 0;
	if (w->o.endurance_bytes)
		bytes = (double)w->o.endurance_bytes * left / 100;
	else if (used)
		bytes = (double)w->smart.written_bytes * left / used;
	else
		return WEAR_DAYS_UNKNOWN;
	if (w->at_ns - w->born_ns < RATE_MIN_NS || day < 1)
		return WEAR_DAYS_UNKNOWN;
	days = bytes / day;
	return days > 1e6 ? 1000000 : (uint32_t)days;
}

const char *wear_state_name(enum wear_state state)
{
	static const char *const names[] = {"ok", "warn", "no_write"};

	return names[state];
}

const char *wear_override_name(enum wear_override how)
{
	static const char *const names[] = {"auto", "write", "stop"};

	return names[how];
}

/* ---- the budget ------------------------------------------------------------------------------ */

static int64_t budget_burst(const struct wear_budget *b)
{
	return (int64_t)min_t(uint64_t, b->day_bytes / BURST, INT64_MAX / 2);
}

void wear_budget_init(struct wear_budget *b, uint64_t day_bytes, uint64_t now_ns)
{
	*b = (struct wear_budget){.day_bytes = day_bytes, .at_ns = now_ns};
	b->level = (int64_t)min_t(uint64_t, day_bytes / BEGIN, INT64_MAX / 2);
}

static void budget_fill(struct wear_budget *b, uint64_t now_ns)
{
	unsigned __int128 add;

	if (now_ns <= b->at_ns || !b->day_bytes)
		return;
	add = (unsigned __int128)(now_ns - b->at_ns) * b->day_bytes / DAY_NS;
	if (!add)
		return;
	/* The time of a byte's part is kept for the next one. */
	b->at_ns += (uint64_t)(add * DAY_NS / b->day_bytes);
	if (add > (unsigned __int128)(budget_burst(b) - b->level))
		b->level = budget_burst(b);
	else
		b->level += (int64_t)add;
}

void wear_budget_set(struct wear_budget *b, uint64_t day_bytes, uint64_t now_ns)
{
	budget_fill(b, now_ns);
	if (!b->day_bytes) {
		wear_budget_init(b, day_bytes, now_ns);
		return;
	}
	b->day_bytes = day_bytes;
	b->level = min_t(int64_t, b->level, budget_burst(b));
	b->at_ns = now_ns;
}

void wear_budget_spend(struct wear_budget *b, uint64_t bytes)
{
	if (b->day_bytes)
		b->level -= (int64_t)bytes;
}

uint32_t wear_budget_level(struct wear_budget *b, uint64_t now_ns)
{
	if (!b->day_bytes)
		return 1024;
	budget_fill(b, now_ns);
	if (b->level <= 0)
		return 0;
	return (uint32_t)max_t(uint64_t, 1,
			       (uint64_t)((unsigned __int128)b->level * 1024 /
					  (uint64_t)max_t(int64_t, budget_burst(b), 1)));
}
