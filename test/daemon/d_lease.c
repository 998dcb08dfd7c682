/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases as a client uses them: the reply names extents of arena segments, whose bytes are read in
 * place and must stay what they are until the lease ends by RELEASE, by time, or with its host or
 * namespace. One thread.
 */
#include "d_int.h"

#include "base/container.h"
#include "base/must.h"

static bool lease_holds(const struct d_lease *l, const struct d_mut *m)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < l->nr_ext; i++) {
		if (at + l->ext[i].len > m->len ||
		    !d_value_check(m->seed, at, l->ext[i].reg->base + l->ext[i].off, l->ext[i].len))
			return false;
		at += l->ext[i].len;
	}
	return at == m->len;
}

void d_lease_drop(struct d_lease *l)
{
	for (unsigned i = 0; i < l->nr_ext; i++)
		mem_region_put(l->ext[i].reg);
	l->nr_ext = 0;
	l->is_held = false;
}

static struct d_lease *lease_new(struct d_world *w)
{
	for (unsigned i = 0; i < D_LEASES_MAX; i++)
		if (!w->lease[i].is_held)
			return &w->lease[i];
	return NULL;
}

static void lease_extents(struct d_cmd *cmd, struct d_lease *l, const struct peal_wire_lease *head)
{
	struct d_world *w = cmd->h->w;
	struct peal_wire_extent e;

	d_check(cmd, head->nr_ext <= ARRAY_SIZE(l->ext), "%u extents", head->nr_ext);
	for (l->nr_ext = 0; l->nr_ext < head->nr_ext; l->nr_ext++) {
		memcpy(&e, w->scratch + sizeof(*head) + l->nr_ext * sizeof(e), sizeof(e));
		l->ext[l->nr_ext].reg = tgt_subsys_segment_get(w->n->ss, e.segment);
		d_check(cmd, l->ext[l->nr_ext].reg, "segment %u isn't there", e.segment);
		d_check(cmd, e.offset + e.len <= l->ext[l->nr_ext].reg->len, "behind its segment");
		l->ext[l->nr_ext].off = e.offset;
		l->ext[l->nr_ext].len = e.len;
	}
}

static struct d_mut *lease_find(struct d_cmd *cmd, const struct d_lease *l,
				const struct peal_wire_lease *head)
{
	struct d_span s = d_span_of(cmd);

	vec_for_each(&cmd->key->muts, m)
		if (m->len == head->value_bytes && d_key_may_see(cmd->key, m, &s) &&
		    lease_holds(l, m))
			return m;
	return NULL;
}

void d_lease_note(struct d_cmd *cmd, uint32_t bytes)
{
	struct d_world *w = cmd->h->w;
	struct d_lease *l = lease_new(w);
	struct peal_wire_lease head;
	const uint64_t *seals;
	struct d_mut *m;

	if (!l || !cmd->ns->stack->leases)
		return;
	d_buf_read(&cmd->h->mem, &cmd->buf, 0, w->scratch, bytes);
	memcpy(&head, w->scratch, sizeof(head));
	*l = (struct d_lease){.h = cmd->h, .ns = cmd->ns, .key = cmd->key, .id = head.id};
	l->until_ns = cmd->begin_ns + head.lease_ms * 1000000ull;
	/* Only while it lasts: the segments may be others' by now. */
	if (w->n->clock_ns >= l->until_ns || cmd->ns->is_dying || cmd->ns->is_gone)
		return;
	lease_extents(cmd, l, &head);
	m = lease_find(cmd, l, &head);
	d_check(cmd, m, "a lease of wrong bytes, of a value of %u", head.value_bytes);
	if (!cmd->ns->is_immutable)
		d_check(cmd, d_key_note_ver(cmd->key, m, (uint32_t)head.version), "version %llu",
			(unsigned long long)head.version);
	seals = (const uint64_t *)(w->scratch + sizeof(head) +
				   head.nr_ext * sizeof(struct peal_wire_extent));
	for (uint32_t i = 0; i < head.nr_seals; i++)
		d_check(cmd, seals[i] == d_value_seal(cmd->key, m, i), "wrong seal %u", i);
	l->mut = *m;
	l->is_held = true;
	w->tally.leases++;
}

void d_lease_check(struct d_world *w)
{
	for (unsigned i = 0; i < D_LEASES_MAX; i++) {
		struct d_lease *l = &w->lease[i];

		if (l->is_held && w->n->clock_ns >= l->until_ns)
			d_lease_drop(l);
		if (l->is_held)
			d_check(NULL, lease_holds(l, &l->mut), "leased bytes have changed");
	}
}

struct d_lease *d_lease_any(struct d_world *w, struct d_host *h)
{
	struct d_lease *l = &w->lease[rng_below(&w->rng, D_LEASES_MAX)];

	return l->is_held && !l->ns->is_dying && !l->ns->is_gone ? l : NULL;
}

void d_lease_drop_ns(struct d_world *w, const struct d_ns *ns)
{
	for (unsigned i = 0; i < D_LEASES_MAX; i++)
		if (w->lease[i].is_held && w->lease[i].ns == ns)
			d_lease_drop(&w->lease[i]);
}

void d_lease_drop_host(struct d_world *w, const struct d_host *h)
{
	for (unsigned i = 0; i < D_LEASES_MAX; i++)
		if (w->lease[i].is_held && w->lease[i].h == h)
			d_lease_drop(&w->lease[i]);
}
