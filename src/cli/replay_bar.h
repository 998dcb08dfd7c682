/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a long command is: on a terminal one line that is written over, at most ten times a
 * second; elsewhere a plain line every 10 %. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct replay_bar {
	FILE *out;
	uint64_t start_ns;
	uint64_t drawn_ns;
	unsigned tenth; /* last one that was written */
	bool is_terminal;
};

void replay_bar_init(struct replay_bar *b, FILE *out, bool is_terminal, uint64_t now_ns);
/* Is it time to draw? Cheap. */
bool replay_bar_is_due(const struct replay_bar *b, uint64_t done, uint64_t total, uint64_t now_ns);
struct replay_bar_at {
	uint64_t done;
	uint64_t total;
	uint64_t now_ns;
	const char *text; /* what else there is to say: one line of at most 40 columns */
};
void replay_bar_draw(struct replay_bar *b, const struct replay_bar_at *at);
/* Takes the line off the terminal. */
void replay_bar_end(struct replay_bar *b);
