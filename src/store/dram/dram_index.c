/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See dram_index.h. Runs on the shard's owner.
 */
#include "store/dram/dram_index.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"

#define INDEX_PAGE 4096u
#define ENTRIES_PER_BUCKET 9u

static uint32_t index_buckets(uint32_t nr_max)
{
	return (uint32_t)div_round_up(nr_max, ENTRIES_PER_BUCKET);
}

static size_t index_fixed_bytes(uint32_t nr_max)
{
	uint32_t nr = index_buckets(nr_max);

	return align_up(nr * sizeof(struct dram_bucket) + dram_bits_bytes(nr), INDEX_PAGE);
}

uint64_t dram_index_cost(uint32_t nr_max)
{
	return index_fixed_bytes(nr_max) +
	       align_up(((uint64_t)nr_max + 1) * sizeof(struct dram_entry), INDEX_PAGE);
}

int dram_index_init(struct dram_index *ix, uint32_t nr_max)
{
	uint8_t *at;

	must(nr_max > 0 && nr_max <= DRAM_KEYS_MAX);
	*ix = (struct dram_index){.nr_max = nr_max, .nr_shards = 1};
	ix->nr_buckets = index_buckets(nr_max);
	ix->fixed_bytes = index_fixed_bytes(nr_max);
	ix->map_bytes = dram_index_cost(nr_max);
	at = mmap(NULL, ix->map_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	/*
	 * Look-ups are random: small pages would cost two walks of the page table each. All of it
	 * is counted as taken, so larger steps of touching break no bound.
	 */
	madvise(at, ix->map_bytes, MADV_HUGEPAGE);
	ix->map = at;
	ix->buckets = (struct dram_bucket *)at;
	dram_bits_init(&ix->filled, &ix->buckets[ix->nr_buckets], ix->nr_buckets);
	ix->slab = (struct dram_entry *)(at + ix->fixed_bytes);
	return 0;
}

void dram_index_fini(struct dram_index *ix)
{
	munmap(ix->map, ix->map_bytes);
}

uint64_t dram_index_bytes(const struct dram_index *ix)
{
	return ix->fixed_bytes + ((uint64_t)ix->nr_high + 1) * sizeof(struct dram_entry);
}

struct dram_entry *dram_index_get(struct dram_index *ix)
{
	struct dram_entry *e;

	if (ix->free) {
		e = &ix->slab[ix->free];
		ix->free = e->next;
	} else if (ix->nr_high < ix->nr_max) {
		e = &ix->slab[++ix->nr_high];
	} else {
		return NULL;
	}
	ix->nr_used++;
	*e = (struct dram_entry){};
	return e;
}

void dram_index_put(struct dram_index *ix, struct dram_entry *e)
{
	must(!e->is_linked && ix->nr_used > 0);
	e->next = ix->free;
	ix->free = dram_index_no(ix, e);
	ix->nr_used--;
}

/*
 * The hash's place within the shard's range, scaled to the buckets: of (hash >> 32) * nr_shards the
 * upper half is the shard (store_shard_of), so the lower half ascends with the hash within it.
 */
static inline struct dram_bucket *index_bucket(const struct dram_index *ix, uint64_t hash)
{
	uint32_t place = (uint32_t)((hash >> 32) * ix->nr_shards);

	return &ix->buckets[(uint64_t)place * ix->nr_buckets >> 32];
}

static inline uint8_t index_tag(uint64_t hash)
{
	return (uint8_t)hash ? (uint8_t)hash : 1;
}

/*
 * Bit i: slot i has this tag. On x86 one comparison of sixteen bytes, of which the last four are no
 * tags; elsewhere eight and four at a time: a byte of x is zero where the tags are equal, and
 * (x - 1) & ~x has its top bit then (and, by the borrow, sometimes in a byte above one that is
 * equal, which the key's comparison sorts out).
 */
#ifdef __SSE2__
static inline uint32_t index_candidates(const struct dram_bucket *b, uint8_t tag)
{
	__m128i tags = _mm_load_si128((const __m128i *)b);

	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) &
	       ((1u << DRAM_SLOTS) - 1);
}
#else
static inline uint32_t index_equal_bytes(uint64_t tags, uint8_t tag)
{
	uint64_t x = tags ^ tag * 0x0101010101010101u;

	x = ((x - 0x0101010101010101u) & ~x & 0x8080808080808080u) >> 7;
	return (uint32_t)(x * 0x0102040810204080u >> 56);
}

static inline uint32_t index_candidates(const struct dram_bucket *b, uint8_t tag)
{
	uint64_t first;
	uint32_t last;

	memcpy(&first, b->tag, sizeof(first));
	memcpy(&last, b->tag + sizeof(first), sizeof(last));
	return index_equal_bytes(first, tag) | (index_equal_bytes(last, tag) & 0xf) << 8;
}
#endif

static inline bool entry_is(const struct dram_entry *e, const struct store_key *key)
{
	/* One branch, which is taken nearly always. */
	return !((e->key[0] ^ key->w[0]) | (e->key[1] ^ key->w[1]) | (e->key_len ^ key->len));
}

static struct dram_entry *index_find_more(const struct dram_index *ix, uint32_t no,
					  const struct store_key *key)
{
	for (; no; no = ix->slab[no].next)
		if (entry_is(&ix->slab[no], key))
			return &ix->slab[no];
	return NULL;
}

struct dram_entry *dram_index_find(const struct dram_index *ix, const struct store_key *key)
{
	const struct dram_bucket *b = index_bucket(ix, key->hash);
	struct dram_entry *e;
	uint32_t m = index_candidates(b, index_tag(key->hash));

	for (; m; m &= m - 1) {
		e = &ix->slab[b->no[__builtin_ctz(m)]];
		if (likely(entry_is(e, key)))
			return e;
	}
	return unlikely(b->more) ? index_find_more(ix, b->more, key) : NULL;
}

/* The entry that key is, if it is any, unless its bucket has more to look at. 0: none. */
static inline uint32_t index_likely(const struct dram_bucket *b, uint32_t candidates)
{
	uint32_t in_line = -(uint32_t)(candidates != 0);

	return (b->no[__builtin_ctz(candidates | 1u << (DRAM_SLOTS - 1))] & in_line) |
	       (b->more & ~in_line);
}

uint64_t dram_index_look(const struct dram_index *ix, const struct store_key *const *keys,
			 unsigned nr, uint32_t *no)
{
	const struct dram_bucket *b;
	struct dram_entry *e;
	uint64_t here = 0, rest = 0;
	uint32_t m, is_key;

	must(nr <= STORE_LOOK_MAX);
	for (unsigned i = 0; i < nr; i++)
		__builtin_prefetch(index_bucket(ix, keys[i]->hash));
	/* No branch here depends on whether a key is there: half of them would be guessed wrong. */
	for (unsigned i = 0; i < nr; i++) {
		b = index_bucket(ix, keys[i]->hash);
		m = index_candidates(b, index_tag(keys[i]->hash));
		rest |= (uint64_t)(((m & (m - 1)) | b->more) != 0) << i;
		no[i] = index_likely(b, m);
		__builtin_prefetch(&ix->slab[no[i]]);
	}
	for (unsigned i = 0; i < nr; i++) {
		is_key = entry_is(&ix->slab[no[i]], keys[i]);
		no[i] &= -is_key;
		here |= (uint64_t)is_key << i;
	}
	for (rest &= ~here; rest; rest &= rest - 1) {
		unsigned i = (unsigned)__builtin_ctzll(rest);

		e = dram_index_find(ix, keys[i]);
		no[i] = e ? dram_index_no(ix, e) : 0;
		here |= (uint64_t)(e != NULL) << i;
	}
	return here;
}

/* Entry numbers of a bucket, at most DRAM_CHAIN_MAX. */
static uint32_t index_members(const struct dram_index *ix, const struct dram_bucket *b,
			      uint32_t no[DRAM_CHAIN_MAX])
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < DRAM_SLOTS; i++)
		if (b->no[i])
			no[nr++] = b->no[i];
	for (uint32_t i = b->more; i; i = ix->slab[i].next) {
		must(nr < DRAM_CHAIN_MAX);
		no[nr++] = i;
	}
	return nr;
}

bool dram_index_has_more(const struct dram_index *ix, const struct store_key *key)
{
	static_assert(DRAM_SLOTS < DRAM_CHAIN_MAX, "a bucket's own line is never too many");
	return index_bucket(ix, key->hash)->more != 0;
}

uint32_t dram_index_count(const struct dram_index *ix, const struct store_key *key,
			  struct dram_entry **oldest)
{
	uint32_t no[DRAM_CHAIN_MAX];
	uint32_t nr = index_members(ix, index_bucket(ix, key->hash), no);

	*oldest = NULL;
	for (uint32_t i = 0; i < nr; i++)
		if (!*oldest || ix->slab[no[i]].ver < (*oldest)->ver)
			*oldest = &ix->slab[no[i]];
	return nr;
}

/* The first empty slot, or DRAM_SLOTS. */
static uint32_t index_empty_slot(const struct dram_bucket *b)
{
	uint32_t i = 0;

	while (i < DRAM_SLOTS && b->no[i])
		i++;
	return i;
}

void dram_index_link(struct dram_index *ix, struct dram_entry *e, uint64_t hash)
{
	struct dram_bucket *b = index_bucket(ix, hash);
	uint32_t i = index_empty_slot(b);

	must(!e->is_linked);
	if (i < DRAM_SLOTS) {
		b->tag[i] = index_tag(hash);
		b->no[i] = dram_index_no(ix, e);
		if (i == 0)
			dram_bits_set(&ix->filled, (uint64_t)(b - ix->buckets));
	} else {
		e->next = b->more;
		b->more = dram_index_no(ix, e);
	}
	e->is_linked = true;
	ix->nr_linked++;
}

/* The chain's first entry moves to the slot that has become empty. */
static void index_refill(struct dram_index *ix, struct dram_bucket *b, uint32_t slot)
{
	struct dram_entry *e = &ix->slab[b->more];
	struct store_key key;

	if (!b->more)
		return;
	dram_index_key(e, &key);
	b->tag[slot] = index_tag(key.hash);
	b->no[slot] = b->more;
	b->more = e->next;
	e->next = 0;
}

void dram_index_unlink(struct dram_index *ix, struct dram_entry *e)
{
	uint32_t no = dram_index_no(ix, e), i = 0, *at;
	struct dram_bucket *b;
	struct store_key key;

	must(e->is_linked);
	dram_index_key(e, &key);
	b = index_bucket(ix, key.hash);
	while (i < DRAM_SLOTS && b->no[i] != no)
		i++;
	if (i < DRAM_SLOTS) {
		b->tag[i] = 0;
		b->no[i] = 0;
		index_refill(ix, b, i);
	} else {
		for (at = &b->more; *at != no; at = &ix->slab[*at].next)
			must(*at);
		*at = e->next;
	}
	e->next = 0;
	e->is_linked = false;
	ix->nr_linked--;
}

void dram_index_prefetch(const struct dram_index *ix, const struct store_key *key, int stage)
{
	const struct dram_bucket *b = index_bucket(ix, key->hash);

	if (stage == 0)
		__builtin_prefetch(b);
	else
		__builtin_prefetch(
			&ix->slab[index_likely(b, index_candidates(b, index_tag(key->hash)))]);
}

void dram_index_key(const struct dram_entry *e, struct store_key *key)
{
	key->w[0] = e->key[0];
	key->w[1] = e->key[1];
	key->len = (uint8_t)e->key_len;
	key->hash = hash_key(key->b, key->len);
}

/* ---- listing ---- */

void dram_index_cursor_init(struct dram_cursor *c, struct dram_index *ix,
			    const struct store_list *list)
{
	unsigned shard = store_shard_of(list->after.hash, ix->nr_shards);

	c->ix = ix;
	c->list = list;
	c->nr = 0;
	c->at = 0;
	c->bucket = 0;
	if (shard == ix->shard)
		c->bucket = (uint64_t)(index_bucket(ix, list->after.hash) - ix->buckets);
	else if (shard > ix->shard)
		c->bucket = ix->nr_buckets;
}

/* The wanted keys of one bucket, sorted. Insertion: they are few. */
static void cursor_load(struct dram_cursor *c, const struct dram_bucket *b)
{
	struct dram_index *ix = c->ix;
	uint32_t no[DRAM_CHAIN_MAX], at, nr = index_members(ix, b, no);
	struct store_key key;

	c->nr = 0;
	c->at = 0;
	for (uint32_t i = 0; i < nr; i++) {
		dram_index_key(&ix->slab[no[i]], &key);
		if (!store_list_wants(c->list, &key))
			continue;
		for (at = c->nr++; at && store_key_cmp(&c->keys[at - 1], &key) > 0; at--)
			c->keys[at] = c->keys[at - 1];
		c->keys[at] = key;
	}
	/* Slots are filled from the first on, so only an empty bucket may be forgotten. */
	if (!nr)
		dram_bits_clear(&ix->filled, (uint64_t)(b - ix->buckets));
}

const struct store_key *dram_index_cursor_next(struct dram_cursor *c)
{
	while (c->at == c->nr) {
		c->bucket = dram_bits_next(&c->ix->filled, c->bucket);
		if (c->bucket == DRAM_BITS_END)
			return NULL;
		cursor_load(c, &c->ix->buckets[c->bucket++]);
	}
	return &c->keys[c->at++];
}
