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
#include "m_ssd_int.h"

#include <sys/prctl.h>

#include "store/store_health.h"
#include "store/store_make.h"

#define LIVES_MAX 6 /* of a world, then its disks are new */

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

static struct store_ssd_opts disk_opts(struct m_ssd *ms, unsigned disk, struct store_ssd_care *care)
{
	static const char *const folders[] = {"/a", "/b", "/c", "/d"};

	*care = care_draw(ms);
	return (struct store_ssd_opts){
		.care = care,
		.dev = &ms->disks.disk[disk].dev,
		.folder = folders[disk % ms->nr_devices],
		.name = "test",
		.segment_bytes = ms->m.st->ssd_seg_bytes,
		.max_keys = ms->m.st->ssd_keys ? ms->m.st->ssd_keys : 4096,
		.value_max = M_VALUE_MAX,
		.shard = disk / ms->nr_devices,
		.nr_shards = ms->nr_shards,
		.reinsert_1024 = 300,
		.is_durable = ms->m.st->is_durable,
		.seed = rng_u64(&ms->m.rng) | 1,
	};
}

static void disk_draw(struct m_ssd *ms, unsigned disk, struct ssd *s)
{
	ms->tier[disk] = s;
	if (!s)
		return;
	ms->nr_values[disk] = s->nr_free_values;
	s->straight = rng_chance(&ms->m.rng, 1, 2) ? SSD_STRAIGHT_ALWAYS : SSD_STRAIGHT_NEVER;
	/* Parts of a tier have no owner yet. */
	if (rng_chance(&ms->m.rng, 2, 3) && s->st.owner)
		ssd_bad_clear(s);
	/* A whole life of reading only, or of nothing. */
	if (ms->m.st->fails && rng_chance(&ms->m.rng, 1, 10))
		trip_set(&s->health.trip, 1 + (unsigned)rng_below(&ms->m.rng, 2));
}

static void ssd_push(struct m_ssd *ms, unsigned shard)
{
	struct store_ssd_care care[FAKE_DISKS];
	struct store_ssd_opts o[FAKE_DISKS];
	unsigned first = shard * ms->nr_devices;
	struct store *s;
	int err;

	for (unsigned i = 0; i < ms->nr_devices; i++)
		o[i] = disk_opts(ms, first + i, &care[i]);
	if (ms->nr_devices == 1)
		err = store_ssd_create(o, &s);
	else
		err = store_ssd_open(o, ms->nr_devices, ms->m.st->is_immutable, &s);
	if (err) {
		printf("%s: life %llu: shard %u: %s\n", ms->m.st->name,
		       (unsigned long long)ms->nr_lives, shard, strerror(-err));
		abort();
	}
	store_set_push(ms->m.w.set, shard, s);
	ms->span[shard] = ms->nr_devices > 1 ? ssd_span_of(s) : NULL;
	for (unsigned i = 0; i < ms->nr_devices; i++)
		disk_draw(ms, first + i, ms->span[shard] ? ms->span[shard]->dev[i].s : ssd_of(s));
}

/*
 * One of several devices may be away in a life, not in the first: then what it held is a miss, and
 * what the others held, too. Where nothing changes it comes back with what it had, deleted keys
 * included.
 */
static void disks_away(struct m_ssd *ms)
{
	bool is_away = ms->nr_devices > 1 && !ms->is_first && !ms->m.st->is_immutable &&
		       rng_chance(&ms->m.rng, 1, 5);

	ms->is_first = false;
	if (!is_away)
		return;
	ms->disks.disk[rng_below(&ms->m.rng, ms->nr_disks)].is_dead = true;
	ms->has_evicted = true;
	memset(ms->kept, 0, sizeof(ms->kept));
}

/* Somebody wants a device to be drained, or not any more. */
static void disks_drain(struct m_ssd *ms)
{
	struct ssd_span *sp = ms->span[rng_below(&ms->m.rng, ms->nr_shards)];

	struct store_control c = {.verb = STORE_CONTROL_DRAIN};

	if (!sp || !rng_chance(&ms->m.rng, 1, 600))
		return;
	c.arg = rng_chance(&ms->m.rng, 3, 4);
	c.rate_bytes = rng_chance(&ms->m.rng, 1, 2) ? 0 : 64 << 20;
	ssd_span_out_drain(sp, &sp->dev[rng_below(&ms->m.rng, sp->nr)], &c);
}

static void faults_set(struct m_ssd *ms, bool are_on)
{
	for (unsigned i = 0; i < ms->nr_disks; i++)
		ms->disks.disk[i].faults = are_on ? ms->row->faults : (struct fake_faults){0};
}

/* Has what lies below memory the key, written, and is it not about to go? */
static bool key_is_below(struct m_ssd *ms, const struct store_key *key, const struct mut *mu)
{
	unsigned first = store_shard_of(key->hash, ms->nr_shards) * ms->nr_devices;

	for (unsigned i = first; i < first + ms->nr_devices; i++) {
		struct ssd_entry *e = ms->tier[i] ? ssd_seg_live(ms->tier[i], key) : NULL;

		if (e && e->len == mu->len && ms->tier[i]->evict.state == SSD_EVICT_IDLE)
			return true;
	}
	return false;
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

/* Only where the index has less room than what is found: everything else has room enough. */
static bool may_trim(struct model *m)
{
	return m->st->ssd_keys && nr_evictions(m) > 0;
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
		/* What has been read may have gone already, where little is free. */
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
	for (unsigned i = 0; i < ms->nr_disks; i++)
		if (ms->tier[i] && ssd_recover_is_reading(ms->tier[i]))
			return true;
	return false;
}

/* Lines of dead values go from all footers, as if there were no room for what was found. */
static void life_tidy(struct m_ssd *ms)
{
	for (unsigned i = 0; i < ms->nr_disks; i++)
		if (ms->tier[i] && ms->tier[i]->recover)
			ms->tier[i]->recover->has_refused = true;
}

/* The first part of a life. False: it ends there. */
static bool life_recover(struct m_ssd *ms)
{
	struct model *m = &ms->m;
	bool ends = rng_chance(&m->rng, 1, 6), is_used = rng_chance(&m->rng, 1, 2);
	uint64_t nr = rng_below(&m->rng, 3) ? rng_below(&m->rng, 300) : UINT64_MAX, ops = m->nr_ops;

	ms->begin = m->now++;
	ms->is_early = true;
	if (rng_chance(&m->rng, 1, 5))
		life_tidy(ms);
	nr = is_used ? nr : 0;
	for (uint64_t n = 0; is_reading(ms); n++) {
		must(n < 10000000); /* else it never ends */
		if ((ends && n >= nr) || m_ssd_end_is_here(ms)) {
			ms->nr_early_crashes++;
			return false;
		}
		m_turn(m, n < nr);
	}
	drain(m);
	ms->nr_early += is_used;
	ms->nr_early_ops += m->nr_ops - ops;
	ms->is_early = false;
	kept_touch(ms, !may_trim(m));
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

	m->is_dead = ms->is_unflushed = false;
	m_ssd_end_draw(ms);
	atomic_store(&ms->watch.may_write, true);
	atomic_store(&ms->watch.is_tight, !m->st->is_sure && rng_chance(&m->rng, 1, 3));
	atomic_store(&ms->watch.spare_bytes, UINT64_MAX);
	world_init_sim(&m->w, 1 + (unsigned)rng_below(&m->rng, 3), rng_u64(&m->rng), &sim);
	m->w.is_immutable = m->st->is_immutable;
	world_set(&m->w, ms->nr_shards, M_VALUE_MAX);
	disks_away(ms);
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
	m_ssd_known_check(ms);
	must(store_set_stats(m->w.set, nr_layers(m->st) - 1, &st) == 0);
	ms->nr_found += st.nr_keys;
	ms->has_evicted |= st.evictions > 0;
	if (ms->row->faults.chance[FAKE_READ_STALE])
		for (unsigned i = 0; i < ms->nr_disks; i++)
			fake_disk_age(&ms->disks.disk[i]);
	kept_check(ms);
	return true;
}

/*
 * Same key is same bytes: one that is durable is not lost with a later one that isn't. Memory above
 * need not have written one that was put over while it was being flushed.
 */
static bool has_durable(const struct model *m, struct history *h)
{
	bool is_over;

	if (!m->st->is_immutable || m->st->layers[0] != M_SSD)
		return false;
	vec_for_each(&h->muts, p) {
		is_over = p->kind != MUT_PUT || p->state != MUT_ACKED || p->end > m->flushed_at;
		vec_for_each(&h->muts, n)
			is_over |= n->kind != MUT_PUT && n->end > p->begin;
		if (!is_over)
			return true;
	}
	return false;
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
		if (is_lossy && !is_written_durable && !has_durable(m, &m->h[i]))
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
		kept_touch(ms, (is_durable || how == FAKE_KILL) && !may_trim(m));
	else
		kept_note(ms, how, is_durable);
	for (unsigned i = 0; i < ms->nr_disks; i++)
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
	/* An index that is full may have nothing that can go. */
	if (res && !m->st->fails && !(res == -ENOSPC && m->st->ssd_keys)) {
		printf("%s: flush at the end: %d\n", m->st->name, res);
		abort();
	}
	if (!res)
		m->flushed_at = ++m->now;
	ms->is_unflushed = res != 0;
	histories_cut(m, false);
}

/* A head may say already that what the index still has is gone. */
static bool is_evicting(const struct m_ssd *ms)
{
	for (unsigned i = 0; i < ms->nr_disks; i++)
		if (ms->tier[i] && ms->tier[i]->evict.state != SSD_EVICT_IDLE)
			return true;
	return false;
}

static void life_end(struct m_ssd *ms)
{
	struct model *m = &ms->m;

	must(m->st->flips || m->st->fails || ms->nr_devices > 1 || m->w.nr_alerts == 0);
	ms->has_evicted |= nr_evictions(m) > 0 || is_evicting(ms);
	if (ms->is_early || ms->is_ended || rng_chance(&m->rng, 2, 3))
		life_crash(ms);
	else
		life_stop(ms);
	m_ssd_known_note(ms);
	ms->has_evicted |= nr_evictions(m) > 0 || is_evicting(ms);
	world_fini(&m->w);
	faults_set(ms, false);
	for (unsigned i = 0; i < ms->nr_disks; i++)
		fake_disk_revive(&ms->disks.disk[i]);
}

/* ---- a world --------------------------------------------------------------------------------- */

static void world_new(struct m_ssd *ms, const struct row *row, uint64_t seed)
{
	m_actors_init(&ms->m, &row->st, seed);
	ms->m.aim = m_ssd_aim;
	ms->row = row;
	ms->has_evicted = false;
	memset(ms->kept, 0, sizeof(ms->kept));
	m_ssd_known_new(ms);
	ms->nr_shards = 1 + (unsigned)rng_below(&ms->m.rng, 2);
	ms->nr_devices = row->st.ssd_devices ? row->st.ssd_devices : 1;
	ms->nr_disks = ms->nr_shards * ms->nr_devices;
	ms->is_first = true;
	for (unsigned i = 0; i < ms->nr_disks; i++) {
		fake_disk_init(&ms->disks, i, row->st.ssd_bytes, rng_u64(&ms->m.rng));
		/* One of 4 KiB sectors takes no less, nor memory that doesn't lie so. */
		if (rng_chance(&ms->m.rng, 1, 4))
			ms->disks.disk[i].dev.read_bytes = ms->disks.disk[i].dev.mem_bytes = 4096;
	}
}

static void world_old(struct m_ssd *ms)
{
	for (unsigned i = 0; i < ms->nr_disks; i++) {
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
	if (ms->nr_left)
		printf(", %llu puts failed and left what was there",
		       (unsigned long long)ms->nr_left);
	m_ssd_end_report(ms);
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
				end = ms->m.nr_ops + 200 +
				      rng_below(&ms->m.rng, row->st.is_aimed ? 6000 : 3000);
			while (ms->m.nr_ops < end && !m_ssd_end_is_here(ms)) {
				m_turn(&ms->m, true);
				capacity_check(&ms->m);
				m_ssd_live_check(ms);
				disks_drain(ms);
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
	/* Tiers come and go, and use little of what they have: a page's clearing is their cost. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	for (unsigned i = 0; i < m_ssd_nr_rows; i++)
		if (!only || strcmp(only, m_ssd_rows[i].st.name) == 0)
			nr_done += run(&m_ssd_rows[i], seed + 100000 * i, nr_ops / m_ssd_nr_rows);
	printf("%llu operations, nothing wrong\n", (unsigned long long)nr_done);
	return 0;
}
