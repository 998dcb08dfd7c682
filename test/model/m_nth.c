/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th failure sweep: a life of an ssd tier - values long and short, put over, deleted, a log
 * that wraps, a clean end, a kill, two recoveries - with one fault, of each kind, at each request
 * that it can happen to. What is read is the bytes of a version that may be there, or a miss, and
 * never one older than what was acknowledged.
 *
 *     m_nth [STEP]     each STEP-th request, 29 by default; 1: every one, some minutes
 */
#include "ssd/ssd_world.h"

#include "base/container.h"
#include "store/store_make.h"

#define NR_KEYS 24u
#define DISK_BYTES ((3u << 20) + 4096)

struct key_state {
	uint64_t tried; /* generation */
	uint64_t acked;
	bool is_deleted; /* acked is a delete */
	bool may_go;	 /* a delete of it was tried, and failed */
};

static struct ssd_world *sw;
static struct key_state keys[NR_KEYS];
static uint64_t nr_runs, nr_hits, nr_misses, nr_refused;

static uint64_t len_of(uint32_t no, uint64_t gen)
{
	return no % 8 == 3 ? 66000 + gen * 977 : 200 + no * 173 + gen * 31;
}

static void put(uint32_t no)
{
	struct key_state *k = &keys[no];
	uint64_t gen = ++k->tried;
	int res = world_put(&sw->w, no, gen, len_of(no, gen));

	if (res)
		return;
	k->acked = k->tried;
	k->is_deleted = k->may_go = false;
}

static void del(uint32_t no)
{
	struct key_state *k = &keys[no];
	int res = world_op(&sw->w, STORE_DEL, no);

	if (res == 0 || res == -ENOENT) {
		k->acked = k->tried;
		k->is_deleted = true;
	} else {
		k->may_go = true;
	}
}

static void check(uint32_t no)
{
	struct world_io wi = {.io = {.op = STORE_GET, .key = world_key(no), .len = UINT32_MAX}};
	struct key_state *k = &keys[no];
	uint64_t gen = k->acked + k->is_deleted;

	if (world_run(&sw->w, 0, &wi)) {
		nr_misses++;
		return;
	}
	must(world_seals_fit(&wi.io.view, &wi.io.key));
	for (; gen <= k->tried; gen++)
		if (gen && wi.io.view.value_len == len_of(no, gen) &&
		    world_is_gen(&wi.io.view, &wi.io.key, gen))
			break;
	must(gen <= k->tried); /* else it is stale, or was never put */
	store_release(&wi.io.view, sw->w.r[0], NULL);
	nr_hits++;
}

static void check_all(void)
{
	for (uint32_t no = 0; no < NR_KEYS; no++)
		check(no);
}

/* A second life begins; what had been acknowledged holds in it, too. */
static bool again(void)
{
	if (ssd_world_begin(sw) == 0)
		return true;
	nr_refused++;
	return false;
}

static void life(unsigned rounds)
{
	for (unsigned r = 0; r < rounds; r++) {
		for (uint32_t no = 0; no < NR_KEYS; no++)
			put(no);
		del(r % NR_KEYS);
		del((r + 7) % NR_KEYS);
		check_all();
		if (r % 2)
			world_op(&sw->w, STORE_FLUSH, 0);
	}
}

/* Whether the fault came. */
static bool run(enum fake_fault kind, uint32_t nth)
{
	struct fake_disk *d = ssd_world_disk(sw);

	memset(keys, 0, sizeof(keys));
	fake_disk_zero(d);
	d->nth_left = 0;
	if (!again())
		must_not_reach();
	fake_disk_age(d);
	d->nth_kind = kind;
	d->nth_left = nth;
	life(6);
	ssd_world_end(sw);
	if (again()) {
		check_all();
		life(2);
		fake_disk_crash(d, FAKE_KILL);
		ssd_world_end(sw);
		fake_disk_revive(d);
		if (again()) {
			check_all();
			ssd_world_end(sw);
		}
	}
	nr_runs++;
	return d->nth_left == 0;
}

int main(int argc, char **argv)
{
	uint32_t step = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 29;

	must(step);
	sw = calloc(1, sizeof(*sw));
	must(sw);
	fake_disk_init(&sw->disks, 0, DISK_BYTES, 1);
	sw->o = (struct store_ssd_opts){
		.name = "nth",
		.segment_bytes = 192 << 10,
		.max_keys = 1024,
		.value_max = 1 << 20,
		.nr_shards = 1,
		.seed = 1,
		.reinsert_1024 = 300,
	};
	for (unsigned kind = 0; kind < FAKE_NR_FAULTS; kind++) {
		uint64_t nr = nr_runs;

		for (uint32_t n = 1; run(kind, n); n += step)
			;
		printf("  %-16s %llu runs\n", fake_disk_fault_name(kind),
		       (unsigned long long)(nr_runs - nr));
	}
	printf("%llu runs, %llu hits, %llu misses, %llu times refused; nothing wrong\n",
	       (unsigned long long)nr_runs, (unsigned long long)nr_hits,
	       (unsigned long long)nr_misses, (unsigned long long)nr_refused);
	return 0;
}
