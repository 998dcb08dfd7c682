/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole daemon in one thread: kv, target, stores and everything below them on a virtual clock,
 * its reactors stepped in an order that the seed decides, and hosts that do all that hosts may do
 * and some that they may not. Checked all the time:
 *
 *  - what a read delivers are the exact bytes of a version that may be seen then, or it is a miss;
 *    a miss only where something could be lost;
 *  - memory that no command names never changes, nor does what one named after its CQE;
 *  - a lease's bytes stay until it ends;
 *  - in the end every request, buffer, pin, region and file is back.
 *
 *     PEAL_SEEDS=n   how many seeds (default 2000), from PEAL_SEED on (default 1)
 *
 * A seed that fails is printed with how to run it again. With PEAL_SEED alone, one seed runs in
 * this very process, for a debugger.
 */
#include "d_int.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"

#define D_SEEDS 2000u
#define D_TURNS 100u
#define D_HEAP_SLACK (512u << 10)
#define D_DRAIN_STEPS 400000u

void d_step(struct d_world *w)
{
	fake_node_step(w->n);
}

static void world_init(struct d_world *w, uint64_t seed)
{
	*w = (struct d_world){.seed = seed};
	rng_init(&w->rng, seed);
	w->scratch = malloc(D_SCRATCH_BYTES);
	must(w->scratch);
	w->n = fake_node_create(&(struct fake_node_opts){
		.seed = rng_u64(&w->rng),
		.nr = 1 + (unsigned)rng_below(&w->rng, 4),
		.nr_reqs = 4 + (uint32_t)rng_below(&w->rng, 40),
	});
	w->csi = kv_csi_create(w->n->ss, &(struct kv_ns_opts){0});
	must(w->csi);
	tgt_subsys_csi_add(w->n->ss, w->csi);
	d_ns_create(w);
	if (rng_chance(&w->rng, 1, 2))
		d_ns_create(w);
	w->nr_hosts = 1 + (unsigned)rng_below(&w->rng, D_HOSTS_MAX);
	for (unsigned i = 0; i < w->nr_hosts; i++)
		d_host_init(w, &w->host[i], i == 0);
}

/* Verbs under way in namespaces that are there, pins on their way home included. */
static uint64_t nr_busy(struct d_world *w)
{
	struct store_door_stats door;
	uint64_t nr = 0;

	for (unsigned i = 0; i < w->nr_ns; i++) {
		if (w->ns[i].is_gone)
			continue;
		store_set_door_stats(kv_ns_store(w->ns[i].ns), &door);
		nr += door.busy;
	}
	return nr;
}

static bool has_no_cmds(struct d_world *w)
{
	bool idle = true;

	for (unsigned i = 0; i < w->nr_hosts; i++) {
		d_reap(&w->host[i]);
		idle = idle && w->host[i].nr_cmds == 0;
	}
	return idle;
}

/* A command may be over before its pin is home; a namespace is known to be gone once it is over. */
static bool is_idle(void *arg)
{
	struct d_world *w = arg;

	return has_no_cmds(w) && nr_busy(w) == 0;
}

static void all_back(struct d_world *w)
{
	struct pool *p;

	for (unsigned i = 0; i < w->n->node.nr; i++) {
		p = &w->n->node.workers[i]->reqs;
		d_check(NULL, p->nr_free == p->nr, "%u requests are missing", p->nr - p->nr_free);
	}
	d_check(NULL, nr_busy(w) == 0, "%llu verbs are under way", (unsigned long long)nr_busy(w));
}

static void world_fini(struct d_world *w)
{
	for (unsigned i = 0; i < w->nr_hosts; i++)
		d_mem_give(&w->host[i].mem);
	/* Pins of leases end with time, and what waits for them goes on. */
	for (unsigned i = 0; i < 8 && !fake_node_run(w->n, is_idle, w, D_DRAIN_STEPS / 8); i++)
		w->n->clock_ns += 1000000000;
	d_check(NULL, has_no_cmds(w), "commands that never end");
	d_lease_check(w);
	all_back(w);
	for (unsigned i = 0; i < w->nr_hosts; i++)
		d_lease_drop_host(w, &w->host[i]);
	if (rng_chance(&w->rng, 1, 2)) /* with hosts there, or without */
		for (unsigned i = 0; i < w->nr_ns; i++)
			d_ns_delete_now(&w->ns[i]);
	for (unsigned i = 0; i < w->nr_hosts; i++)
		d_host_fini(&w->host[i]);
	for (unsigned i = 0; i < w->nr_ns; i++) {
		d_ns_delete_now(&w->ns[i]);
		d_ns_fini(&w->ns[i]);
	}
	for (unsigned i = 0; i < TGT_SEGMENTS_MAX; i++)
		d_check(NULL, !tgt_subsys_segment_get(w->n->ss, i), "segment %u is still there", i);
	fake_node_destroy(w->n);
	kv_csi_destroy(w->csi);
	free(w->scratch);
}

static void turn(struct d_world *w)
{
	unsigned nr = 1 + (unsigned)rng_below(&w->rng, 8);

	while (nr--)
		d_cmd_start(w);
	if (rng_chance(&w->rng, 1, 5))
		d_event(w);
	for (nr = (unsigned)rng_below(&w->rng, rng_chance(&w->rng, 1, 4) ? 120 : 16); nr; nr--)
		d_step(w);
	for (unsigned i = 0; i < w->nr_hosts; i++)
		d_reap(&w->host[i]);
}

static uint64_t run_seed(uint64_t seed, struct d_tally *sum)
{
	static struct d_world w;

	world_init(&w, seed);
	for (unsigned i = 0; i < D_TURNS; i++)
		turn(&w);
	world_fini(&w);
	sum->cmds += w.tally.cmds;
	sum->hits += w.tally.hits;
	sum->misses += w.tally.misses;
	sum->puts += w.tally.puts;
	sum->leases += w.tally.leases;
	sum->failed += w.tally.failed;
	sum->unknown += w.tally.unknown;
	return w.digest;
}

/* ---- many seeds ---- */

static unsigned nr_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned nr = 0;

	must(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

static void run_seeds(uint64_t first, uint64_t nr, volatile uint64_t *at)
{
	struct d_tally sum = {0}, none = {0};
	uint64_t digest;
	size_t heap;
	unsigned fds;

	*at = first;
	digest = run_seed(first, &none);
	heap = mallinfo2().uordblks;
	fds = nr_fds();
	for (uint64_t i = 0; i < nr; i++) {
		*at = first + i;
		if (run_seed(*at, &sum) != digest && i == 0)
			d_wrong(NULL, "the same seed gave another run");
		d_check(NULL, nr_fds() <= fds, "files are lost");
		/* What free() keeps counts too; LeakSanitizer is the one that is exact. */
		d_check(NULL, mallinfo2().uordblks <= heap + D_HEAP_SLACK, "heap is lost");
	}
	printf("%llu seeds: %llu commands, %llu puts, %llu hits, %llu misses, %llu leases, "
	       "%llu failed, %llu unknown\n",
	       (unsigned long long)nr, (unsigned long long)sum.cmds, (unsigned long long)sum.puts,
	       (unsigned long long)sum.hits, (unsigned long long)sum.misses,
	       (unsigned long long)sum.leases, (unsigned long long)sum.failed,
	       (unsigned long long)sum.unknown);
	fflush(stdout);
}

static uint64_t env_number(const char *name, uint64_t dflt)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : dflt;
}

int main(int argc, char **argv)
{
	bool is_one = getenv("PEAL_SEED") && !getenv("PEAL_SEEDS");
	uint64_t first = env_number("PEAL_SEED", 1);
	uint64_t nr = is_one ? 1 : env_number("PEAL_SEEDS", D_SEEDS);
	volatile uint64_t *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				     -1, 0);
	int status = 0;
	pid_t pid;

	must(at != MAP_FAILED && nr > 0);
	log_set_level(LOG_LEVEL_ERR);
	must(!mem_guard_init());
	pid = is_one ? 0 : fork();
	must(pid >= 0);
	if (pid == 0) {
		run_seeds(first, nr, at);
		return 0;
	}
	must(waitpid(pid, &status, 0) == pid);
	if (status == 0)
		return 0;
	fprintf(stderr, "seed %llu failed; again: PEAL_SEED=%llu %s\n", (unsigned long long)*at,
		(unsigned long long)*at, argv[0]);
	return 1;
}
