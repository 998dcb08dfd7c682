/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibres: many small threads of control in one real thread, which go on only where they yield, in
 * an order that a seed decides. The same seed gives the same run. Lanes of a GPU's block for
 * device.h, and beside them the daemon.
 *
 *	struct fibres *f = fibre_create(&rng);
 *	fibre_add(f, lane, &lane_arg[i]); ...
 *	fibre_serve(f, daemon, arg);      goes on as often as all the others together
 *	fibre_run(f);                     until all but that one are over
 *
 * Stores of a group that nothing has ordered yet wait in its store buffer and come out in any
 * order, some of them late: memory as weak as a GPU's, on a machine that isn't.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/rng.h"

#define FIBRE_PENDING 64u

struct fibres;

/* Lanes that meet; their stores. */
struct fibre_group {
	struct rng *rng;
	uint32_t nr; /* lanes */
	uint32_t nr_met;
	int ok, last_ok;
	uint64_t nr_barriers;
	uint32_t nr_pending;
	struct {
		void *to;
		uint32_t bytes;
		uint64_t v[2];
	} pending[FIBRE_PENDING];
};

struct fibres *fibre_create(struct rng *rng);
void fibre_destroy(struct fibres *f);
void fibre_add(struct fibres *f, void (*fn)(void *arg), void *arg);
void fibre_serve(struct fibres *f, void (*fn)(void *arg), void *arg);
bool fibre_is_over(const struct fibres *f); /* for the one that serves: it has to end now */
void fibre_run(struct fibres *f);

void fibre_yield(void); /* outside of fibres it does nothing */
struct fibre_group *fibre_group(void);
void fibre_join(struct fibre_group *g); /* this fibre is one of its lanes */

int fibre_meet(struct fibre_group *g, int ok);
void fibre_store(struct fibre_group *g, void *to, const uint64_t *v, uint32_t bytes);
void fibre_release(struct fibre_group *g); /* all that is pending comes out */
