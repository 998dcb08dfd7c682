/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssd tier, alone and under dram, over disks that fail, through lives that end cleanly, by a
 * kill or by a power cut at any moment. What is read is exactly what the history of the key allows,
 * or a miss; where no fault is injected, what was acknowledged as durable and not evicted must be
 * there in every later life. Half of the lives are used while they recover: then a miss is never
 * wrong, everything else is as ever, and some of them end right there.
 *
 *     m_ssd [OPERATIONS [ROW]]     10^6 by default, shared by the rows; PEAL_SEED sets the seed
 */
#include "m_random_int.h"

#include "ssd/fake_disk.h"
#include "store/ssd/ssd_int.h"
#include "store/ssd/ssd_watch.h"
#include "store/store_health.h"
#include "store/store_make.h"

#define LIVES_MAX 6 /* of a world, then its disks are new */

/* Loud: the disk says so. Quiet: it doesn't. */
#define LOUD \
	{ \
		[FAKE_READ_EIO] = 200, [FAKE_READ_SHORT] = 100, [FAKE_WRITE_EIO] = 300, \
		[FAKE_WRITE_SHORT] = 200, [FAKE_WRITE_FULL] = 300, [FAKE_SYNC_EIO] = 200, \
	}
#define QUIET_WRITE [FAKE_WRITE_LOST] = 100, [FAKE_WRITE_ELSEWHERE] = 100, [FAKE_WRITE_FLIP] = 100
#define QUIET_READ [FAKE_READ_FLIP] = 300, [FAKE_READ_ELSEWHERE] = 300, [FAKE_READ_STALE] = 300

struct row {
	struct m_stack st;
	struct fake_faults faults;
};

static const struct row rows[] = {
	{.st = {.name = "ssd(durable)",
		.layers = {M_SSD},
		.ssd_bytes = 64 << 20,
		.ssd_seg_bytes = 4 << 20,
		.is_durable = true,
		.is_sure = true}},
	{.st = {.name = "ssd",
		.layers = {M_SSD},
		.ssd_bytes = 64 << 20,
		.ssd_seg_bytes = 4 << 20,
		.is_sure = true}},
	{.st = {.name = "ssd(small)",
		.layers = {M_SSD},
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10}},
	{.st = {.name = "dram/ssd",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 64 << 20,
		.ssd_seg_bytes = 4 << 20,
		.is_sure = true}},
	{.st = {.name = "dram/ssd(small)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10}},
	{.st = {.name = "dram/ssd(ack ssd)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 64 << 20,
		.ssd_seg_bytes = 4 << 20,
		.is_durable = true,
		.is_acked_below = true,
		.is_sure = true}},
	{.st = {.name = "dram/ssd(ack ssd, small)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.is_durable = true,
		.is_acked_below = true}},
	{.st = {.name = "dram/ssd(through)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 64 << 20,
		.ssd_seg_bytes = 4 << 20,
		.is_through = true,
		.is_sure = true}},
	{.st = {.name = "dram/ssd(ack ssd, loud)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.is_durable = true,
		.is_acked_below = true,
		.fails = true},
	 .faults = {LOUD}},
	{.st = {.name = "dram/ssd(immutable)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 64 << 20,
		.ssd_seg_bytes = 4 << 20,
		.is_immutable = true,
		.is_sure = true}},
	{.st = {.name = "dram/ssd(immutable, small)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.is_immutable = true}},
	{.st = {.name = "dram/ssd(immutable, ack ssd)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 64 << 20,
		.ssd_seg_bytes = 4 << 20,
		.is_immutable = true,
		.is_durable = true,
		.is_acked_below = true,
		.is_sure = true}},
	{.st = {.name = "dram/ssd(immutable, louder)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.is_immutable = true,
		.fails = true},
	 .faults = {{[FAKE_WRITE_EIO] = 2000, [FAKE_WRITE_SHORT] = 500, [FAKE_SYNC_EIO] = 3000}}},
	{.st = {.name = "ssd(loud)",
		.layers = {M_SSD},
		.ssd_bytes = 8 << 20,
		.ssd_seg_bytes = 512 << 10,
		.fails = true},
	 .faults = {LOUD}},
	{.st = {.name = "dram/ssd(loud)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.fails = true},
	 .faults = {LOUD}},
	{.st = {.name = "ssd(louder)",
		.layers = {M_SSD},
		.ssd_bytes = 8 << 20,
		.ssd_seg_bytes = 512 << 10,
		.fails = true},
	 .faults = {{[FAKE_WRITE_EIO] = 2000, [FAKE_WRITE_SHORT] = 500, [FAKE_SYNC_EIO] = 3000}}},
	{.st = {.name = "dram/ssd(louder)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.fails = true},
	 .faults = {{[FAKE_WRITE_EIO] = 2000, [FAKE_WRITE_SHORT] = 500, [FAKE_SYNC_EIO] = 3000}}},
	{.st = {.name = "ssd(quiet reads)",
		.layers = {M_SSD},
		.ssd_bytes = 8 << 20,
		.ssd_seg_bytes = 512 << 10,
		.flips = true,
		.fails = true},
	 .faults = {{QUIET_READ}}},
	{.st = {.name = "dram/ssd(quiet reads)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.flips = true,
		.fails = true},
	 .faults = {{QUIET_READ}}},
	{.st = {.name = "ssd(quiet writes)",
		.layers = {M_SSD},
		.ssd_bytes = 8 << 20,
		.ssd_seg_bytes = 512 << 10,
		.flips = true,
		.fails = true},
	 .faults = {{QUIET_WRITE}}},
	{.st = {.name = "dram/ssd(quiet writes)",
		.layers = {M_DRAM, M_SSD},
		.dram_bytes = 768 << 10,
		.ssd_bytes = 4 << 20,
		.ssd_seg_bytes = 256 << 10,
		.flips = true,
		.fails = true},
	 .faults = {{QUIET_WRITE}}},
};

struct m_ssd {
	struct model m;
	const struct row *row;
	struct fake_disks disks;
	struct ssd_watch_dev watch;
	unsigned nr_shards;
	bool has_evicted; /* in an earlier life of these disks */
	bool is_early;	  /* this life still recovers */
	uint64_t begin;	  /* of this life */
	struct ssd *tier[FAKE_DISKS];
	/* Of each key, after a crash: was its value acknowledged, and must it be there? */
	enum { KEY_ANY, KEY_ACKED, KEY_KEPT } kept[M_KEYS];
	uint64_t nr_lives, nr_crashes, nr_found, nr_early, nr_early_crashes, nr_early_ops;
	uint64_t nr_acked, nr_lost; /* at crashes */
	uint64_t nr_faults[FAKE_NR_FAULTS];
};

static unsigned nr_layers(const struct m_stack *st)
{
	unsigned n = 0;

	while (st->layers[n] != M_END)
		n++;
	return n;
}

static uint64_t nr_evictions(struct model *m)
{
	struct store_stats st = {0};

	must(store_set_stats(m->w.set, nr_layers(m->st) - 1, &st) == 0);
	must(st.used_bytes <= st.capacity_bytes);
	return st.evictions;
}

bool m_is_sure(struct model *m)
{
	struct m_ssd *ms = container_of(m, struct m_ssd, m);

	return m->st->is_sure && !ms->is_early && !ms->has_evicted && nr_evictions(m) == 0;
}

/* ---- lives ----------------------------------------------------------------------------------- */

/* How touchy the tier is: not at all, as a rule, for a disk that is off tests little. */
static struct store_ssd_care care_draw(struct m_ssd *ms)
{
	struct rng *r = &ms->m.rng;

	return (struct store_ssd_care){
		.watch = &ms->watch,
		.rate_bytes = rng_chance(r, 1, 8) ? (32 + rng_below(r, 256)) << 20 : 0,
		.errors_max = rng_chance(r, 3, 4) ? UINT32_MAX : 1 + (uint32_t)rng_below(r, 20),
		.faults_max = rng_chance(r, 1, 2) ? UINT32_MAX : 0,
	};
}

static void ssd_push(struct m_ssd *ms, unsigned shard)
{
	struct store_ssd_care care = care_draw(ms);
	struct store_ssd_opts o = {
		.care = &care,
		.dev = &ms->disks.disk[shard].dev,
		.name = "test",
		.segment_bytes = ms->m.st->ssd_seg_bytes,
		.max_keys = 4096,
		.value_max = M_VALUE_MAX,
		.shard = shard,
		.nr_shards = ms->nr_shards,
		.reinsert_1024 = 300,
		.is_durable = ms->m.st->is_durable,
		.seed = rng_u64(&ms->m.rng) | 1,
	};
	struct store *s;
	int err = store_ssd_create(&o, &s);

	if (err) {
		printf("%s: life %llu: shard %u: %s\n", ms->m.st->name,
		       (unsigned long long)ms->nr_lives, shard, strerror(-err));
		abort();
	}
	ms->tier[shard] = ssd_of(s);
	ssd_of(s)->straight = rng_chance(&ms->m.rng, 1, 2) ? SSD_STRAIGHT_ALWAYS
							   : SSD_STRAIGHT_NEVER;
	store_set_push(ms->m.w.set, shard, s);
	if (rng_chance(&ms->m.rng, 2, 3))
		ssd_bad_clear(ssd_of(s));
	/* A whole life of reading only, or of nothing. */
	if (ms->m.st->fails && rng_chance(&ms->m.rng, 1, 10))
		trip_set(&ssd_of(s)->health.trip, 1 + (unsigned)rng_below(&ms->m.rng, 2));
}

static void faults_set(struct m_ssd *ms, bool are_on)
{
	for (unsigned i = 0; i < ms->nr_shards; i++)
		ms->disks.disk[i].faults = are_on ? ms->row->faults : (struct fake_faults){0};
}

/* Has what lies below memory the key, written, and is it not about to go? */
static bool key_is_below(struct m_ssd *ms, const struct store_key *key, const struct mut *mu)
{
	struct ssd *s = ms->tier[store_shard_of(key->hash, ms->nr_shards)];
	struct ssd_entry *e = ssd_seg_live(s, key);

	return e && e->len == mu->len && s->evict.state == SSD_EVICT_IDLE;
}

/*
 * Before a crash: which keys are there by an acknowledged put and nothing else? Those that this
 * crash may not take: all, at level ssd; otherwise what was written, when the disk keeps that.
 */
static void kept_note(struct m_ssd *ms, enum fake_crash how, bool is_written_durable)
{
	struct model *m = &ms->m;
	const struct mut *mu;

	for (unsigned i = 0; i < M_KEYS; i++) {
		mu = history_current(&m->h[i], m->now);
		ms->kept[i] = mu ? KEY_ACKED : KEY_ANY;
		ms->nr_acked += mu != NULL;
		if (mu && m_is_sure(m) &&
		    (is_written_durable ||
		     (how == FAKE_KILL && key_is_below(ms, &m->h[i].key, mu))))
			ms->kept[i] = KEY_KEPT;
	}
}

/*
 * What has been changed since this life began is no longer what the last crash left; and what a
 * kill left may go with the next power cut, if nothing was promised.
 */
static void kept_touch(struct m_ssd *ms, bool is_kept)
{
	struct model *m = &ms->m;

	for (unsigned i = 0; i < M_KEYS && !is_kept; i++)
		ms->kept[i] = ms->kept[i] == KEY_KEPT ? KEY_ACKED : ms->kept[i];
	for (unsigned i = 0; i < M_KEYS; i++)
		vec_for_each(&m->h[i].muts, mu)
			if (mu->begin > ms->begin)
				ms->kept[i] = KEY_ANY;
}

static void kept_check(struct m_ssd *ms)
{
	struct model *m = &ms->m;
	int res;

	for (unsigned i = 0; i < M_KEYS; i++) {
		struct world_io wi = {.io = {.op = STORE_EXIST, .key = m->h[i].key}};

		if (ms->kept[i] == KEY_ANY)
			continue;
		res = world_run(&m->w, 0, &wi);
		ms->nr_lost += res != 0;
		if (res && ms->kept[i] == KEY_KEPT && nr_evictions(m) == 0) {
			printf("%s: life %llu: key %u was acknowledged and is lost (%d)\n",
			       m->st->name, (unsigned long long)ms->nr_lives, i, res);
			history_print(&m->h[i], m->now);
			abort();
		}
		ms->kept[i] = KEY_ANY;
	}
}

static void drain(struct model *m)
{
	for (uint64_t n = 0; !m_is_quiet(m); n++) {
		must(n < 10000000); /* else a verb never ends */
		m_turn(m, false);
	}
}

static bool is_reading(const struct m_ssd *ms)
{
	for (unsigned i = 0; i < ms->nr_shards; i++)
		if (ssd_recover_is_reading(ms->tier[i]))
			return true;
	return false;
}

/* The first part of a life. False: it ends there. */
static bool life_recover(struct m_ssd *ms)
{
	struct model *m = &ms->m;
	bool ends = rng_chance(&m->rng, 1, 6), is_used = rng_chance(&m->rng, 1, 2);
	uint64_t nr = rng_below(&m->rng, 3) ? rng_below(&m->rng, 300) : UINT64_MAX, ops = m->nr_ops;

	ms->begin = m->now++;
	ms->is_early = true;
	for (; nr && is_used && is_reading(ms); nr--)
		m_turn(m, true);
	if (ends && is_reading(ms)) {
		ms->nr_early_crashes++;
		return false;
	}
	for (uint64_t n = 0; is_reading(ms); n++) {
		must(n < 10000000); /* else it never ends */
		m_turn(m, false);
	}
	drain(m);
	ms->nr_early += is_used;
	ms->nr_early_ops += m->nr_ops - ops;
	ms->is_early = false;
	kept_touch(ms, nr_evictions(m) == 0);
	return true;
}

static bool life_begin(struct m_ssd *ms)
{
	struct model *m = &ms->m;
	struct env_sim_opts sim = {
		.delay_max_ns = 20000,
		.io = fake_disk_io,
		.submitted = fake_disk_submitted,
		.arg = &ms->disks,
	};
	struct store_stats st;

	m->is_dead = false;
	atomic_store(&ms->watch.may_write, true);
	atomic_store(&ms->watch.is_tight, !m->st->is_sure && rng_chance(&m->rng, 1, 3));
	atomic_store(&ms->watch.spare_bytes, UINT64_MAX);
	world_init_sim(&m->w, 1 + (unsigned)rng_below(&m->rng, 3), rng_u64(&m->rng), &sim);
	m->w.is_immutable = m->st->is_immutable;
	world_set(&m->w, ms->nr_shards, M_VALUE_MAX);
	for (unsigned i = 0; i < ms->nr_shards; i++)
		for (unsigned l = 0; m->st->layers[l] != M_END; l++)
			if (m->st->layers[l] == M_SSD)
				ssd_push(ms, i);
			else
				store_set_push(m->w.set, i,
					       m_layer_create(m->st, m->st->layers[l], 0));
	store_set_open(m->w.set);
	faults_set(ms, true);
	ms->nr_lives++;
	if (!life_recover(ms))
		return false;
	must(store_set_stats(m->w.set, nr_layers(m->st) - 1, &st) == 0);
	ms->nr_found += st.nr_keys;
	ms->has_evicted |= st.evictions > 0;
	if (ms->row->faults.chance[FAKE_READ_STALE])
		for (unsigned i = 0; i < ms->nr_shards; i++)
			fake_disk_age(&ms->disks.disk[i]);
	kept_check(ms);
	return true;
}

/* What was acknowledged and isn't durable may be gone; what wasn't may be there. */
static void histories_cut(struct model *m, bool is_written_durable)
{
	uint64_t t = ++m->now;
	struct mut loss = {.kind = MUT_DEL, .state = MUT_FAILED, .begin = t, .end = t};
	bool is_lossy;

	for (unsigned i = 0; i < M_KEYS; i++) {
		is_lossy = false;
		vec_for_each(&m->h[i].muts, mu) {
			if (mu->state == MUT_PENDING) {
				mu->state = MUT_FAILED;
				mu->end = t;
			}
			is_lossy |= mu->kind == MUT_PUT && mu->state == MUT_ACKED &&
				    mu->end > m->flushed_at;
		}
		loss.id = ++m->next_id;
		if (is_lossy && !is_written_durable)
			must(vec_push(&m->h[i].muts, loss));
	}
	m->now++;
}

static void life_crash(struct m_ssd *ms)
{
	struct model *m = &ms->m;
	enum fake_crash how = (enum fake_crash)rng_below(&m->rng, FAKE_NR_CRASHES);
	bool is_alone = m->st->layers[0] == M_SSD;
	bool is_durable = m->st->is_acked_below ||
			  (is_alone && (how == FAKE_KILL || m->st->is_durable));

	ms->nr_crashes++;
	if (ms->is_early)
		kept_touch(ms, is_durable || how == FAKE_KILL);
	else
		kept_note(ms, how, is_durable);
	for (unsigned i = 0; i < ms->nr_shards; i++)
		fake_disk_crash(&ms->disks.disk[i], how);
	m->is_dead = true;
	histories_cut(m, is_durable);
	drain(m);
}

static void life_stop(struct m_ssd *ms)
{
	struct model *m = &ms->m;
	struct world_io wi = {.io = {.op = STORE_FLUSH}};
	int res;

	drain(m);
	res = world_run(&m->w, 0, &wi);
	if (res && !m->st->fails) {
		printf("%s: flush at the end: %d\n", m->st->name, res);
		abort();
	}
	if (!res)
		m->flushed_at = ++m->now;
	histories_cut(m, false);
}

static void life_end(struct m_ssd *ms)
{
	struct model *m = &ms->m;

	must(m->st->flips || m->st->fails || m->w.nr_alerts == 0);
	ms->has_evicted |= nr_evictions(m) > 0;
	if (ms->is_early || rng_chance(&m->rng, 2, 3))
		life_crash(ms);
	else
		life_stop(ms);
	world_fini(&m->w);
	faults_set(ms, false);
	for (unsigned i = 0; i < ms->nr_shards; i++)
		fake_disk_revive(&ms->disks.disk[i]);
}

/* ---- a world --------------------------------------------------------------------------------- */

static void world_new(struct m_ssd *ms, const struct row *row, uint64_t seed)
{
	m_actors_init(&ms->m, &row->st, seed);
	ms->row = row;
	ms->has_evicted = false;
	memset(ms->kept, 0, sizeof(ms->kept));
	ms->nr_shards = 1 + (unsigned)rng_below(&ms->m.rng, 2);
	for (unsigned i = 0; i < ms->nr_shards; i++)
		fake_disk_init(&ms->disks, i, row->st.ssd_bytes, rng_u64(&ms->m.rng));
}

static void world_old(struct m_ssd *ms)
{
	for (unsigned i = 0; i < ms->nr_shards; i++) {
		for (unsigned f = 0; f < FAKE_NR_FAULTS; f++)
			ms->nr_faults[f] += ms->disks.disk[i].nr_faults[f];
		fake_disk_fini(&ms->disks.disk[i]);
	}
	m_actors_fini(&ms->m);
}

static void report(const struct m_ssd *ms, const struct row *row, const uint64_t sum[4])
{
	printf("  %-22s %llu ops, %llu hits, %llu misses, %llu puts; %llu lives, %llu crashes, "
	       "%llu keys found again, %llu of %llu acknowledged ones lost in crashes, "
	       "%llu used early (%llu ops), %llu ended there",
	       row->st.name, (unsigned long long)sum[0], (unsigned long long)sum[1],
	       (unsigned long long)sum[2], (unsigned long long)sum[3],
	       (unsigned long long)ms->nr_lives, (unsigned long long)ms->nr_crashes,
	       (unsigned long long)ms->nr_found, (unsigned long long)ms->nr_lost,
	       (unsigned long long)ms->nr_acked, (unsigned long long)ms->nr_early,
	       (unsigned long long)ms->nr_early_ops, (unsigned long long)ms->nr_early_crashes);
	for (unsigned f = 0; f < FAKE_NR_FAULTS; f++)
		if (ms->nr_faults[f])
			printf(", %s %llu", fake_disk_fault_name(f),
			       (unsigned long long)ms->nr_faults[f]);
	printf("\n");
}

/* Hard, in every tier, after every turn. */
static void capacity_check(struct model *m)
{
	struct store_stats st;

	for (unsigned i = 0; m->st->layers[i] != M_END; i++) {
		must(store_set_stats(m->w.set, i, &st) == 0);
		must(st.used_bytes <= st.capacity_bytes);
	}
}

static uint64_t run(const struct row *row, uint64_t seed, uint64_t nr_ops)
{
	struct m_ssd *ms = calloc(1, sizeof(*ms));
	uint64_t sum[4] = {0}, end;

	must(ms);
	while (sum[0] < nr_ops) {
		world_new(ms, row, seed);
		for (unsigned l = 0; l < LIVES_MAX; l++) {
			end = ms->m.nr_ops;
			if (life_begin(ms))
				end = ms->m.nr_ops + 200 + rng_below(&ms->m.rng, 3000);
			while (ms->m.nr_ops < end) {
				m_turn(&ms->m, true);
				capacity_check(&ms->m);
			}
			life_end(ms);
		}
		sum[0] += ms->m.nr_ops;
		sum[1] += ms->m.nr_hits;
		sum[2] += ms->m.nr_misses;
		sum[3] += ms->m.nr_puts;
		world_old(ms);
		seed = seed * 0x9E3779B97F4A7C15ull + 1;
	}
	report(ms, row, sum);
	free(ms);
	return sum[0];
}

int main(int argc, char **argv)
{
	uint64_t nr_ops = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	uint64_t seed = unit_seed(20261130), nr_done = 0;
	const char *only = argc > 2 ? argv[2] : NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (!only || strcmp(only, rows[i].st.name) == 0)
			nr_done += run(&rows[i], seed + 100000 * i, nr_ops / ARRAY_SIZE(rows));
	printf("%llu operations, nothing wrong\n", (unsigned long long)nr_done);
	return 0;
}
