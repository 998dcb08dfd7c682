/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes of g_sim as threads, over the port layer that CPUs get, beside the daemon's thread: for
 * ThreadSanitizer. Small worlds; PEAL_SEEDS=n says how many.
 */
#include "g_int.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/must.h"

#define SEEDS 60u
#define LANES_MAX 6u

/* A barrier that answers for all. */
struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t all_there;
	uint32_t nr, nr_met;
	uint64_t round;
	int ok, last_ok;
};

struct lane {
	pthread_t thread;
	struct g_group *g;
	struct peal_lane lane;
};

static _Atomic uint32_t nr_lanes;

static int meet(void *arg, int ok)
{
	struct meeting *m = arg;
	uint64_t round;
	int all;

	pthread_mutex_lock(&m->lock);
	round = m->round;
	m->ok = m->nr_met ? m->ok && ok : ok;
	if (++m->nr_met == m->nr) {
		m->nr_met = 0;
		m->last_ok = m->ok;
		m->round++;
		pthread_cond_broadcast(&m->all_there);
	}
	while (m->round == round)
		pthread_cond_wait(&m->all_there, &m->lock);
	all = m->last_ok;
	pthread_mutex_unlock(&m->lock);
	return all;
}

static void *lane_thread(void *arg)
{
	struct lane *l = arg;

	g_lane_run(l->g, &l->lane);
	atomic_fetch_sub(&nr_lanes, 1);
	return NULL;
}

static uint64_t run_seed(uint64_t seed)
{
	static struct g_world w;
	struct lane lanes[G_GROUPS_MAX * LANES_MAX];
	struct meeting m[G_GROUPS_MAX];
	uint32_t nr = 0;

	g_world_init(&w, &(struct g_opts){.seed = seed,
					  .lanes_max = LANES_MAX,
					  .waves_max = 3,
					  .is_small = true});
	for (unsigned i = 0; i < w.nr_groups; i++) {
		m[i] = (struct meeting){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
					.nr = w.group[i].nr_lanes};
		for (uint32_t id = 0; id < m[i].nr; id++)
			lanes[nr++] = (struct lane){.g = &w.group[i],
						    .lane = {id, m[i].nr, meet, &m[i]}};
	}
	atomic_store(&nr_lanes, nr);
	for (uint32_t i = 0; i < nr; i++)
		must(!pthread_create(&lanes[i].thread, NULL, lane_thread, &lanes[i]));
	while (atomic_load(&nr_lanes)) {
		g_world_turn(&w);
		sched_yield();
	}
	for (uint32_t i = 0; i < nr; i++)
		must(!pthread_join(lanes[i].thread, NULL));
	g_world_fini(&w);
	return w.nr_done;
}

int main(void)
{
	const char *s = getenv("PEAL_SEEDS");
	uint64_t nr = s ? strtoull(s, NULL, 0) : SEEDS, done = 0;

	log_set_level(LOG_LEVEL_ERR);
	must(!mem_guard_init());
	for (uint64_t seed = 1; seed <= nr; seed++)
		done += run_seed(seed);
	printf("%llu seeds, %llu commands\n", (unsigned long long)nr, (unsigned long long)done);
	return 0;
}
