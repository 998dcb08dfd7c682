/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env_sim: an env for tests and the simulator. Time stands still until someone moves it; requests
 * take a random time and end in a random order, both from a seed; results come from a callback. One
 * thread drives any number of reactors, each with its own env_sim, all on one clock: the same seed
 * gives the same run.
 *
 * 	uint64_t clock_ns = 0;
 * 	struct env *env = env_sim_create(&(struct env_sim_opts){.seed = 1, .clock_ns = &clock_ns});
 * 	...
 * 	while (!is_over) {
 * 		reactor_step(r[rng_below(&rng, nr)]);
 * 		clock_ns += rng_below(&rng, 1000);
 * 	}
 */
#ifndef CORE_ENV_SIM_H
#define CORE_ENV_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/env.h"

struct env_sim_opts {
	uint64_t seed;
	uint64_t *clock_ns;    /* shared by the envs of a simulation; NULL: its own, from 0 on */
	uint64_t delay_max_ns; /* a request takes 0 to this long */
	/*
	 * Does a READ, WRITE, FSYNC or FALLOCATE when its time has come, and says its result;
	 * NULL: the real system call.
	 */
	int (*io)(void *arg, struct io_req *io);
	/* Told of each of these as it is submitted; NULL: nobody is. */
	void (*submitted)(void *arg, struct io_req *io);
	/* Instead of moving the clock in wait(); it may step other reactors. */
	void (*wait)(void *arg, struct env *env, uint64_t until_ns);
	void *arg;
};

struct env *env_sim_create(const struct env_sim_opts *o); /* NULL = no memory */

/*
 * From now on `fd` (any number) is ready for these poll events, 0 = none; other fds are asked with
 * poll(2).
 */
void env_sim_ready(struct env *env, int fd, uint32_t events);

/* When the next request, polls apart, is due; UINT64_MAX = none. */
uint64_t env_sim_next_ns(struct env *env);

/* wake() was called and no wait() has seen it yet. */
bool env_sim_is_woken(struct env *env);

/*
 * How often wait() was asked to wait for ever with nothing under way: in a test without a hook, a
 * lost wake-up.
 */
uint64_t env_sim_nr_stuck(struct env *env);

#endif
