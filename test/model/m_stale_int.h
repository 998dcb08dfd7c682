/* SPDX-License-Identifier: Apache-2.0 */
/*
 * m_stale in two files: the table and the enumeration (m_stale.c), and the actors with what they
 * may see (m_stale_act.c). One thread.
 */
#pragma once

#include "m_history.h"
#include "m_hold.h"
#include "m_stack.h"

#define KEY_NO 7u
#define VALUE_BYTES 500u
#define TWO_CHUNKS 66000u
#define FILLER_BYTES 16384u
#define ACTORS_MAX 4
#define CHOICES_MAX 64
#define SETTLE_TURNS 48
#define FILLERS_MAX 24u
#define RUNS_MAX 2000000u

enum stack {
	HOLD_MEM,
	DRAM_HOLD_MEM,
	DRAM_HOLD_SLICE_MEM,
};

enum before {
	NOTHING,
	BELOW, /* the tier below has it */
	TOP,   /* the top has it, not yet written below */
	BOTH,
};

struct row {
	const char *name;
	enum stack stack;
	enum before before;
	bool holds_up;
	bool fails;
	const char *scripts[ACTORS_MAX];
};

struct actor {
	struct run *r;
	const char *next; /* of its script */
	bool is_busy;
	uint64_t begin;
	uint64_t id;
	unsigned nr_fillers;
	struct store_io io;
	struct store_key keys[FILLERS_MAX + 2];
	uint8_t found[1];
};

struct run {
	const struct row *row;
	struct world w;
	struct hold *hold;
	struct store *below;
	struct history h;
	struct actor actors[ACTORS_MAX];
	uint64_t now, next_id;
	uint64_t value_bytes;
	uint8_t choices[CHOICES_MAX];
	uint8_t nr_options[CHOICES_MAX];
	unsigned nr_choices; /* given; behind them always the first option */
	unsigned at;
	char trace[CHOICES_MAX][24];
};

/* Prints the choices and what is known of the key, and ends the test. */
_Noreturn void m_stale_wrong(struct run *r, const struct actor *a, const char *what, int res);
/* The next verb of a's script. */
void m_stale_start(struct actor *a);
