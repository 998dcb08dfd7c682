/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See d_model.h. A history is an array that only grows: a world ends after some hundred commands.
 * One thread.
 */
#include "d_model.h"

#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"

/* ---- bytes ---- */

static uint64_t word_at(uint64_t seed, uint64_t i)
{
	uint64_t z = seed + i * 0x9E3779B97F4A7C15ull;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	return z ^ (z >> 29);
}

static uint8_t byte_at(uint64_t seed, uint64_t off)
{
	return (uint8_t)(word_at(seed, off / 8) >> off % 8 * 8);
}

void d_value_fill(uint64_t seed, uint64_t off, void *buf, size_t len)
{
	uint8_t *p = buf;
	uint64_t w;

	for (; len && off % 8; len--)
		*p++ = byte_at(seed, off++);
	for (; len >= 8; len -= 8, off += 8, p += 8) {
		w = word_at(seed, off / 8);
		memcpy(p, &w, 8);
	}
	for (; len; len--)
		*p++ = byte_at(seed, off++);
}

bool d_value_check(uint64_t seed, uint64_t off, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	uint64_t w, diff = 0;

	for (; len && off % 8; len--)
		diff |= *p++ ^ byte_at(seed, off++);
	for (; len >= 8 && !diff; len -= 8, off += 8, p += 8) {
		memcpy(&w, p, 8);
		diff |= w ^ word_at(seed, off / 8);
	}
	for (; len && !diff; len--)
		diff |= *p++ ^ byte_at(seed, off++);
	return !diff;
}

uint64_t d_value_seal(struct d_key *key, const struct d_mut *m, uint64_t chunk)
{
	static uint8_t buf[MEM_CHUNK_BYTES];
	uint64_t at = chunk * MEM_CHUNK_BYTES;
	size_t len = min_t(size_t, m->len - at, MEM_CHUNK_BYTES);

	d_value_fill(m->seed, at, buf, len);
	return hash_xxh3(buf, len, key->k.hash + (chunk + 1) * 0x9E3779B97F4A7C15ull);
}

/* ---- history ---- */

struct d_mut *d_key_begin(struct d_key *key, const struct d_mut *m)
{
	must(vec_push(&key->muts, *m));
	vec_last(&key->muts).end = D_NEVER;
	vec_last(&key->muts).state = D_PENDING;
	return &vec_last(&key->muts);
}

void d_key_end(struct d_key *key, uint64_t id, uint64_t now, enum d_mut_state state)
{
	vec_for_each(&key->muts, m) {
		if (m->id == id) {
			m->end = now;
			m->state = (uint8_t)state;
			return;
		}
	}
	must_not_reach();
}

/* Was m over before another, acknowledged one began that was over before the reader began? */
static bool is_replaced(struct d_key *key, const struct d_mut *m, const struct d_span *s)
{
	vec_for_each(&key->muts, o)
		if (o->state == D_ACKED && o->begin > m->end && o->end < s->begin)
			return true;
	return false;
}

bool d_key_may_see(struct d_key *key, const struct d_mut *m, const struct d_span *s)
{
	return m->id != s->self && !m->is_del && m->state != D_FAILED && m->begin < s->end &&
	       !is_replaced(key, m, s);
}

bool d_key_may_hit(struct d_key *key, const struct d_span *s)
{
	vec_for_each(&key->muts, m)
		if (d_key_may_see(key, m, s))
			return true;
	return false;
}

bool d_key_may_miss(struct d_key *key, const struct d_span *s)
{
	uint64_t put = 0, del = 0;
	bool has_put = false;

	vec_for_each(&key->muts, m) {
		if (m->id == s->self || m->state == D_FAILED || m->begin > s->end)
			continue;
		if (m->end > s->begin) /* it runs beside the reader */
			return true;
		if (m->is_del)
			del = max_t(uint64_t, del, m->end);
		else if (m->state == D_ACKED) {
			put = max_t(uint64_t, put, m->begin);
			has_put = true;
		}
	}
	return !has_put || del > put;
}

bool d_key_note_ver(struct d_key *key, struct d_mut *m, uint32_t ver)
{
	if (m->ver)
		return m->ver == ver;
	m->ver = ver;
	vec_for_each(&key->muts, o) {
		if (o == m || !o->ver)
			continue;
		if (o->ver == ver || (o->end < m->begin && o->ver > ver) ||
		    (m->end < o->begin && ver > o->ver))
			return false;
	}
	return true;
}
