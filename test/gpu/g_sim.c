/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal/device.h under a seeded scheduler, against the daemon's real target/, kv/ and stores: lanes
 * are fibres which yield at every access to memory that is shared; the daemon is one, too, and
 * yields before every SQE and between the halves of every CQE. Each status, DW0 and byte is
 * compared with what a model says.
 *
 *     PEAL_SEEDS=n   how many seeds (default 2000), from PEAL_SEED on (default 1)
 *     --broken       this program was made of a broken header: it must find that
 *
 * A seed that fails is printed; PEAL_SEED alone runs that one. One thread.
 */
#include "g_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"

#define SEEDS 2000u
#define TURNS_MAX 3000000u

uint64_t fibre_clock_ns;

/* ---- the daemon, as the one that serves ---- */

int __real_mem_peek(const struct mem_run *src, void *dst);
int __wrap_mem_peek(const struct mem_run *src, void *dst);
int __wrap_mem_poke_cqe(const struct mem_run *dst, const void *cqe);

int __wrap_mem_peek(const struct mem_run *src, void *dst)
{
	fibre_yield();
	return __real_mem_peek(src, dst);
}

/* As mem_poke_cqe() promises it, half by half; the mutant of a daemon the other way round. */
int __wrap_mem_poke_cqe(const struct mem_run *dst, const void *cqe)
{
	for (uint64_t at = 0; at < dst->len; at += 16) {
		for (unsigned i = 0; i < 2; i++) {
			unsigned half = i ^ G_CQE_HIGH_FIRST;

			fibre_yield();
			memcpy(dst->reg->base + dst->off + at + half * 8,
			       (const uint8_t *)cqe + at + half * 8, 8);
		}
	}
	fibre_yield();
	return 0;
}

struct daemon {
	struct g_world *w;
	struct fibres *f;
};

static void daemon_run(void *arg)
{
	struct daemon *d = arg;
	uint64_t done = 0;

	for (uint32_t idle = 0; !fibre_is_over(d->f); idle++) {
		g_world_turn(d->w);
		fibre_clock_ns = d->w->n->clock_ns;
		fibre_yield();
		if (d->w->nr_done != done)
			idle = 0;
		done = d->w->nr_done;
		g_check(&d->w->group[0], idle < TURNS_MAX, "nothing goes on any more");
	}
}

struct lane {
	struct g_group *g;
	struct fibre_group *fg;
	uint32_t id;
};

static void lane_run(void *arg)
{
	struct lane *l = arg;
	struct peal_lane lane = {l->id, l->g->nr_lanes, NULL, NULL};

	fibre_join(l->fg);
	g_lane_run(l->g, &lane);
}

static uint64_t run_seed(uint64_t seed, uint64_t *digest)
{
	static struct g_world w;
	static struct lane lanes[G_GROUPS_MAX * 64];
	static struct fibre_group fg[G_GROUPS_MAX];
	struct daemon d = {.w = &w};
	uint32_t nr = 0;

	g_world_init(&w, &(struct g_opts){.seed = seed, .lanes_max = 48, .waves_max = 4});
	d.f = fibre_create(&w.rng);
	fibre_serve(d.f, daemon_run, &d);
	for (unsigned i = 0; i < w.nr_groups; i++) {
		fg[i] = (struct fibre_group){.rng = &w.rng, .nr = w.group[i].nr_lanes};
		for (uint32_t id = 0; id < w.group[i].nr_lanes; id++) {
			lanes[nr] = (struct lane){&w.group[i], &fg[i], id};
			fibre_add(d.f, lane_run, &lanes[nr++]);
		}
	}
	fibre_clock_ns = w.n->clock_ns;
	fibre_run(d.f);
	fibre_destroy(d.f);
	*digest = rng_u64(&w.rng) ^ w.n->clock_ns;
	g_world_fini(&w);
	return w.nr_done;
}

static uint64_t env_number(const char *name, uint64_t dflt)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : dflt;
}

/* In a process of its own: exit status. */
static int run_seeds(uint64_t first, uint64_t nr)
{
	uint64_t done = 0, digest, again;
	int status = 0;
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0) {
		run_seed(first, &again);
		for (uint64_t i = 0; i < nr; i++) {
			done += run_seed(first + i, &digest);
			must(i || digest == again); /* the same seed, the same run */
		}
		printf("%llu seeds, %llu commands\n", (unsigned long long)nr,
		       (unsigned long long)done);
		fflush(stdout);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	bool is_broken = argc == 2 && !strcmp(argv[1], "--broken");
	bool is_one = getenv("PEAL_SEED") && !getenv("PEAL_SEEDS");
	uint64_t first = env_number("PEAL_SEED", 1);
	uint64_t nr = is_one ? 1 : env_number("PEAL_SEEDS", SEEDS);
	int rc;

	log_set_level(LOG_LEVEL_ERR);
	must(!mem_guard_init());
	rc = run_seeds(first, nr);
	if (!is_broken) {
		if (rc)
			fprintf(stderr, "failed; again: PEAL_SEED=<seed above> %s\n", argv[0]);
		return rc;
	}
	if (rc == G_WRONG)
		printf("found\n");
	else
		fprintf(stderr, "a broken header passes: status %d\n", rc);
	return rc != G_WRONG;
}
