/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a replay found, as a table for people and as JSON for machines. The yardsticks (exact LRU
 * of as many blocks as the daemon held, an infinite cache) are computed here from the trace. One
 * thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/replay_run.h"
#include "cli/replay_tiers.h"

/* A model of which the values are a part, for what recomputing would cost. */
struct replay_model {
	const char *name; /* as on the command line */
	const char *text;
	uint64_t token_bytes; /* of KV cache per token */
	uint32_t prefill_tokens_per_s;
};
extern const struct replay_model replay_report_models[];
/* NULL: no model of that name. */
const struct replay_model *replay_report_model(const char *name);

struct replay_plant {
	bool is_done;
	bool is_miss;	/* the key that was planted on gave a miss, */
	bool is_below;	/* or the right bytes, from the tier below */
	bool is_logged; /* the daemon's log names the key */
	bool has_log;	/* we were told where the log is */
	bool is_healed; /* put again, it was served again */
	uint64_t media_errors_before;
	uint64_t media_errors_after;
	struct peal_key key;
};

/* The daemon was ended in the middle, however the command did it, and started again. */
struct replay_half {
	bool is_done;
	uint64_t since_ns;
	uint64_t after_requests;
	uint64_t down_ns;      /* until it took clients again */
	uint64_t first_hit_ns; /* likewise, until the first value came back; 0: none did */
	uint64_t nr_before;    /* blocks there, */
	uint64_t nr_after;     /* and afterwards */
};

struct replay_report {
	const char *trace; /* where it is from */
	const struct sim_trace *reqs;
	struct replay_stats *st;
	const struct replay_model *model;
	uint32_t prefill_tokens_per_s;
	uint32_t value_bytes;
	uint32_t depth;
	uint64_t capacity_bytes; /* the daemon's */
	uint32_t nsid;
	uint64_t residents; /* keys there at the end */
	uint64_t evictions;
	uint64_t wall_ns;
	struct replay_tiers tiers;
	struct replay_half half;
	struct replay_plant plant;
	/* Filled by replay_report_yardsticks(). */
	uint64_t uniques;
	double infinite_percent;
	double lru_percent;
};

/* 0 or -ENOMEM. */
int replay_report_yardsticks(struct replay_report *r);
void replay_report_print(const struct replay_report *r, FILE *out);
/* 0 or -errno; no message. */
int replay_report_json(const struct replay_report *r, const char *path);

/* Was the corruption that was planted caught in every way that we can see? */
bool replay_report_is_caught(const struct replay_plant *p);
double replay_report_hit_percent(const struct replay_report *r);

/* "12,345,678" */
const char *replay_report_count(uint64_t v, char buf[32]);
