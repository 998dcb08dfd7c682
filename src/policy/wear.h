/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How worn a device is, and what that allows: from what its SMART log says and from the bytes that
 * were written. Pure: no I/O, no clock; the caller gives both. One thread.
 *
 *   OK -> WARN: 70 % used, or the spare within 10 of its threshold
 *      -> NO_WRITE: less than 20 % of its life left, spare at the threshold, or the device itself
 *         says that its spare is low, that it is degraded or read-only (critical bits 0, 2, 3)
 *
 * A state is left only when the figures are better than its threshold by a margin, so that one
 * that wavers doesn't switch. In NO_WRITE nothing is written but what keeps old values dead. An
 * operator's word counts for more than the device's.
 *
 * Figures of the SMART log: NVMe base specification 2.0, 5.16.1.3, log page 02h.
 */
#ifndef POLICY_WEAR_H
#define POLICY_WEAR_H

#include <stdbool.h>
#include <stdint.h>

#define WEAR_PAGE_BYTES 512u
#define WEAR_UNIT_BYTES 512000u /* of "data units written" */
#define WEAR_HOURS 24u
#define WEAR_DAYS_UNKNOWN UINT32_MAX

enum wear_state {
	WEAR_OK,
	WEAR_WARN,
	WEAR_NO_WRITE,
};

enum wear_override {
	WEAR_AUTO,
	WEAR_WRITE, /* whatever the device says */
	WEAR_STOP,
};

struct wear_smart {
	uint8_t critical;
	uint8_t spare; /* %, as the rest */
	uint8_t spare_threshold;
	uint8_t used; /* may be more than 100 */
	uint64_t written_bytes;
	uint64_t media_errors;
};

struct wear_opts {
	uint8_t warn_used; /* 0: 70 */
	uint8_t stop_used; /* 0: 80 */
	/* What the maker says can be written in its life; 0: to be guessed from what was. */
	uint64_t endurance_bytes;
};

struct wear {
	struct wear_opts o;
	enum wear_state state;
	enum wear_override override;
	bool has_smart;
	struct wear_smart smart;
	/* What was written in each of the last hours, the running one at `hour` % WEAR_HOURS. */
	uint64_t hours[WEAR_HOURS];
	uint64_t hour;
	uint64_t born_ns, at_ns;
	uint64_t own_bytes, device_bytes; /* seen last */
};

void wear_init(struct wear *w, const struct wear_opts *o, uint64_t now_ns);
void wear_parse(const uint8_t page[WEAR_PAGE_BYTES], struct wear_smart *s);
/* A new look at the device. True: the state is another one. */
bool wear_look(struct wear *w, const struct wear_smart *s);
void wear_blind(struct wear *w); /* the log can't be read; the state stays */
/*
 * own_bytes: all that we have written since the start. What others write to the device counts where
 * the SMART log shows it.
 */
void wear_wrote(struct wear *w, uint64_t now_ns, uint64_t own_bytes);
bool wear_may_write(const struct wear *w);
uint64_t wear_day_bytes(const struct wear *w); /* at the rate of the last 24 hours */
/* Until nothing of its life is left, at that rate; WEAR_DAYS_UNKNOWN. */
uint32_t wear_days_left(const struct wear *w);
const char *wear_state_name(enum wear_state state);
const char *wear_override_name(enum wear_override how);

/*
 * A budget of bytes a day, as a bucket that fills evenly and holds at most a quarter of a day. It
 * may be overdrawn by what was under way when it ran dry; that is paid back first.
 */
struct wear_budget {
	uint64_t day_bytes; /* 0: no limit */
	int64_t level;
	uint64_t at_ns;
};
void wear_budget_init(struct wear_budget *b, uint64_t day_bytes, uint64_t now_ns);
void wear_budget_set(struct wear_budget *b, uint64_t day_bytes, uint64_t now_ns);
void wear_budget_spend(struct wear_budget *b, uint64_t bytes);
/* 1024: full or no limit; 0: dry. */
uint32_t wear_budget_level(struct wear_budget *b, uint64_t now_ns);

#endif
