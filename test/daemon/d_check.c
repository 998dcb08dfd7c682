/* SPDX-License-Identifier: Apache-2.0 */
/*
 * d_sim's judge: every completion is looked at with what the oracle allows at that time - the
 * status, DW0 and DW1, each byte that was delivered, each byte around it. One thread.
 */
#include "d_int.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/container.h"
#include "base/must.h"

void d_wrong(const struct d_cmd *cmd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "WRONG: ");
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (cmd)
		fprintf(stderr, "\n  %s, qid %u cid %u, namespace %u (%s%s), %llu..%llu",
			d_kind_name(cmd->kind), cmd->qid, cmd->cid, cmd->ns ? cmd->ns->nsid : 0,
			cmd->ns ? cmd->ns->stack->name : "",
			cmd->ns && cmd->ns->is_immutable ? ", immutable" : "",
			(unsigned long long)cmd->begin, (unsigned long long)cmd->h->w->now);
	fprintf(stderr, "\n");
	if (cmd && cmd->key)
		vec_for_each(&cmd->key->muts, m)
			fprintf(stderr, "  %s %llu: %llu..%llu state %u, %u bytes, version %u\n",
				m->is_del ? "del" : "put", (unsigned long long)m->id,
				(unsigned long long)m->begin, (unsigned long long)m->end, m->state,
				m->len, m->ver);
	abort();
}

bool d_ns_may_miss(const struct d_cmd *cmd, struct d_key *key)
{
	struct d_span s = d_span_of(cmd);
	struct store_stats st = {0};

	if (cmd->ns->stack->loses || cmd->ns->is_dying || cmd->ns->is_gone)
		return true;
	/* A dram that never had to evict loses nothing. */
	store_set_stats(kv_ns_store(cmd->ns->ns), 0, &st);
	if (cmd->ns->is_resized || st.evictions)
		return true;
	return d_key_may_miss(key, &s);
}

/* A failure that has nothing to do with what was asked. */
static bool is_excused(const struct d_cmd *cmd, uint16_t st)
{
	switch (st) {
	case NVME_ST_INVALID_NS:
	case NVME_ST_NS_NOT_READY:
		return cmd->ns->is_dying || cmd->ns->is_gone;
	case NVME_ST_DATA_TRANSFER:
		return cmd->is_excused || cmd->has_wrong_seal;
	case NVME_ST_ABORTED:
		return cmd->is_aborted;
	case NVME_ST_INTERRUPTED:
		return strcmp(cmd->ns->stack->name, "mem");
	default:
		return false;
	}
}

static void count(struct d_cmd *cmd, bool is_hit)
{
	struct d_tally *t = &cmd->h->w->tally;

	if (is_hit)
		t->hits++;
	else
		t->misses++;
}

/* True when there is nothing more to look at. */
static bool check_miss(struct d_cmd *cmd, uint16_t st)
{
	if (st == NVME_ST_OK) {
		count(cmd, true);
		return false;
	}
	if (st == NVME_ST_KEY_NOT_FOUND) {
		d_check(cmd, d_ns_may_miss(cmd, cmd->key), "a miss of what must be there");
		count(cmd, false);
		return true;
	}
	d_check(cmd, is_excused(cmd, st), "status %03x", st);
	cmd->h->w->tally.failed++;
	return true;
}

/* The put whose value this is: size, bytes [off, off + len) at `at` of the buffer. */
static struct d_mut *find_value(struct d_cmd *cmd, uint32_t value_len, uint64_t at, uint64_t off,
				uint64_t len)
{
	struct d_span s = d_span_of(cmd);

	vec_for_each(&cmd->key->muts, m)
		if (m->len == value_len && d_key_may_see(cmd->key, m, &s) &&
		    d_buf_holds(&cmd->h->mem, &cmd->buf, at, (struct d_part){m->seed, off, len}))
			return m;
	return NULL;
}

static void check_retrieve(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	if (check_miss(cmd, st))
		return;
	d_check(cmd, find_value(cmd, cqe->dw0, 0, 0, min_t(uint32_t, cqe->dw0, cmd->sqe.cdw10)),
		"wrong bytes, of a value of %u", cqe->dw0);
}

static void check_size(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	if (!check_miss(cmd, st))
		d_check(cmd, find_value(cmd, cqe->dw0, 0, 0, 0), "wrong size %u", cqe->dw0);
}

static bool has_meta_of(const struct peal_retrieve_ex *ex, const struct d_mut *m)
{
	static const uint8_t zero[32];

	if (m->has_meta)
		return d_value_check(m->seed, 1 << 20, ex->parent, 16) && ex->parent_len == 16 &&
		       d_value_check(m->seed, 2 << 20, ex->group, 5) && ex->group_len == 5 &&
		       d_value_check(m->seed, 3 << 20, ex->tag, 32) &&
		       ex->cls == (uint16_t)m->seed && ex->cost_us == (uint32_t)(m->seed >> 16);
	return !memcmp(ex->parent, zero, 16) && !memcmp(ex->tag, zero, 32) && !ex->cls &&
	       !ex->cost_us && !ex->parent_len && !ex->group_len;
}

/* The block and the seals in front of the value. */
static void check_head(struct d_cmd *cmd, const struct d_mut *m, uint32_t hdr, uint64_t off)
{
	struct d_world *w = cmd->h->w;
	struct peal_retrieve_ex ex;
	const uint64_t *seals = (const uint64_t *)(w->scratch + PEAL_RETRIEVE_EX_BYTES);

	d_buf_read(&cmd->h->mem, &cmd->buf, 0, w->scratch, hdr);
	memcpy(&ex, w->scratch, sizeof(ex));
	d_check(cmd, ex.value_bytes == m->len, "the block says %u bytes", ex.value_bytes);
	d_check(cmd, ex.nr_seals * 8 <= hdr - PEAL_RETRIEVE_EX_BYTES, "%u seals", ex.nr_seals);
	d_check(cmd, has_meta_of(&ex, m), "somebody else's meta");
	for (uint32_t i = 0; i < ex.nr_seals; i++)
		d_check(cmd, seals[i] == d_value_seal(cmd->key, m, off / MEM_CHUNK_BYTES + i),
			"wrong seal %u", i);
}

/* Of a value of `len` bytes: see doc/vendor-commands.md. */
static uint32_t ex_hdr(const struct d_cmd *cmd, uint64_t off, uint64_t len)
{
	uint8_t opts = nvme_kv_options(&cmd->sqe);
	uint64_t left = min_t(uint64_t, len - off, cmd->sqe.cdw10);

	if (!(opts & PEAL_RETRIEVE_EX_META))
		return 0;
	if (!(opts & PEAL_RETRIEVE_EX_SEALS))
		return PEAL_RETRIEVE_EX_BYTES;
	return PEAL_RETRIEVE_EX_BYTES +
	       8 * (uint32_t)((off + left - 1) / MEM_CHUNK_BYTES - off / MEM_CHUNK_BYTES + 1);
}

/* Fewer bytes than that may be another value's by chance. */
#define TELLING_BYTES 8

/* What the block says, where the bytes are none or too few to know the value by. */
static bool is_block_of(struct d_cmd *cmd, const struct d_mut *m)
{
	struct peal_retrieve_ex ex;

	d_buf_read(&cmd->h->mem, &cmd->buf, 0, &ex, sizeof(ex));
	return ex.value_bytes == m->len && has_meta_of(&ex, m);
}

static struct d_mut *find_ex(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint64_t off)
{
	struct d_span s = d_span_of(cmd);
	uint32_t hdr, room = cmd->sqe.cdw10;

	vec_for_each(&cmd->key->muts, m) {
		if (m->len <= off || !d_key_may_see(cmd->key, m, &s) ||
		    (!cmd->ns->is_immutable && m->ver && m->ver != cqe->dw1))
			continue;
		hdr = ex_hdr(cmd, off, m->len);
		if (hdr && cqe->dw0 < TELLING_BYTES && !is_block_of(cmd, m))
			continue;
		if ((hdr < room || (hdr == room && hdr == PEAL_RETRIEVE_EX_BYTES)) &&
		    cqe->dw0 == min_t(uint64_t, m->len - off, room - hdr) &&
		    d_buf_holds(&cmd->h->mem, &cmd->buf, hdr,
				(struct d_part){m->seed, off, cqe->dw0}))
			return m;
	}
	return NULL;
}

static void check_retrieve_ex(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	uint64_t off = (uint64_t)cmd->sqe.cdw12 * 4096;
	struct d_mut *m;
	uint32_t hdr;

	if (st == NVME_ST_INVALID_FIELD) /* off behind the end, or no room behind the block */
		return;
	if (st == NVME_ST_KEY_NOT_FOUND && cmd->sqe.cdw13) /* another version */
		return;
	if (check_miss(cmd, st))
		return;
	m = find_ex(cmd, cqe, off);
	d_check(cmd, m, "wrong bytes, %u of them, version %u", cqe->dw0, cqe->dw1);
	d_check(cmd, !cmd->sqe.cdw13 || cmd->sqe.cdw13 == cqe->dw1, "version %u", cqe->dw1);
	hdr = ex_hdr(cmd, off, m->len);
	if (!cmd->ns->is_immutable &&
	    d_buf_shows(&cmd->h->mem, &cmd->buf, hdr, cqe->dw0) >= TELLING_BYTES)
		d_check(cmd, d_key_note_ver(cmd->key, m, cqe->dw1), "version %u of put %llu",
			cqe->dw1, (unsigned long long)m->id);
	if (nvme_kv_options(&cmd->sqe) & PEAL_RETRIEVE_EX_META)
		check_head(cmd, m, hdr, off);
}

static void check_exist(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	struct d_span s = d_span_of(cmd);

	if (!check_miss(cmd, st))
		d_check(cmd, d_key_may_hit(cmd->key, &s), "present, but it can't be");
}

/* What a mutation that failed has done. */
static enum d_mut_state after_failure(const struct d_cmd *cmd)
{
	return cmd->ns->stack->doubts ? D_MAYBE : D_FAILED;
}

static void check_store(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	uint8_t opts = nvme_kv_options(&cmd->sqe);
	struct d_span s = d_span_of(cmd);
	bool ok;

	switch (st) {
	case NVME_ST_OK:
		ok = !cmd->has_wrong_seal;
		cmd->h->w->tally.puts++;
		break;
	case NVME_ST_KEY_EXISTS:
		ok = opts & NVME_KV_STORE_IF_ABSENT && d_key_may_hit(cmd->key, &s);
		break;
	case NVME_ST_KEY_NOT_FOUND:
		ok = opts & NVME_KV_STORE_IF_EXISTS && d_ns_may_miss(cmd, cmd->key);
		break;
	case NVME_ST_INVALID_VALUE_SIZE: /* larger than the shard's arena */
		ok = cmd->sqe.cdw10 > D_ARENA_BYTES_MIN && strstr(cmd->ns->stack->name, "dram");
		break;
	case NVME_ST_CAPACITY_EXCEEDED:
		ok = strcmp(cmd->ns->stack->name, "mem");
		break;
	default:
		ok = is_excused(cmd, st);
		break;
	}
	d_check(cmd, ok, "status %03x", st);
	d_key_end(cmd->key, cmd->mut_id, cmd->h->w->now,
		  st == NVME_ST_OK ? D_ACKED : after_failure(cmd));
}

static void check_delete(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	enum d_mut_state state = after_failure(cmd);
	struct d_span s = d_span_of(cmd);
	bool ok = is_excused(cmd, st);

	if (st == NVME_ST_OK) {
		ok = d_key_may_hit(cmd->key, &s);
		state = D_ACKED;
	} else if (st == NVME_ST_KEY_NOT_FOUND) {
		ok = d_ns_may_miss(cmd, cmd->key);
		state = cmd->ns->stack->doubts ? D_MAYBE : D_ACKED;
	} else if (st == NVME_ST_CAPACITY_EXCEEDED) {
		ok = strcmp(cmd->ns->stack->name, "mem");
	}
	d_check(cmd, ok, "status %03x", st);
	d_key_end(cmd->key, cmd->mut_id, cmd->h->w->now, state);
}

static void check_flush(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	d_check(cmd,
		st == NVME_ST_OK || is_excused(cmd, st) ||
			(st == NVME_ST_CAPACITY_EXCEEDED && cmd->ns->stack->doubts),
		"status %03x", st);
}

/* ---- List ---- */

static struct d_key *find_key(struct d_cmd *cmd, const uint8_t *b, uint16_t len)
{
	struct d_key *k;

	for (unsigned i = 0; i < cmd->ns->nr_keys; i++) {
		k = &cmd->ns->keys[i];
		if (k->k.len == len && !memcmp(k->k.b, b, len))
			return k;
	}
	return NULL;
}

/* Every key that must be there, between the two. `to` NULL: to the end. */
static void check_complete(struct d_cmd *cmd, const struct store_key *from,
			   const struct store_key *to, const uint8_t *is_listed)
{
	struct d_key *k;

	for (unsigned i = 0; i < cmd->ns->nr_keys; i++) {
		k = &cmd->ns->keys[i];
		if (is_listed[i] || (from && store_key_cmp(&k->k, from) < 0) ||
		    (to && store_key_cmp(&k->k, to) > 0))
			continue;
		cmd->key = k; /* for the message */
		d_check(cmd, d_ns_may_miss(cmd, k), "key %u is missing", i);
	}
}

static void check_list(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	struct d_world *w = cmd->h->w;
	bool has_start = nvme_kv_key_len(&cmd->sqe);
	const struct store_key *last = NULL;
	struct d_span s = d_span_of(cmd);
	uint8_t is_listed[256] = {0};
	uint32_t nr, at = 4, room = cmd->sqe.cdw10;
	struct d_key *k;
	uint16_t len;

	if (st != NVME_ST_OK) {
		d_check(cmd, is_excused(cmd, st), "status %03x", st);
		return;
	}
	d_buf_read(&cmd->h->mem, &cmd->buf, 0, w->scratch, room);
	memcpy(&nr, w->scratch, 4);
	for (uint32_t i = 0; i < nr; i++) {
		d_check(cmd, at + 4 <= room, "%u keys in %u bytes", nr, room);
		memcpy(&len, w->scratch + at, 2);
		k = find_key(cmd, w->scratch + at + 2, len);
		d_check(cmd, k, "a key that nobody wrote, of %u bytes", len);
		d_check(cmd, d_key_may_hit(k, &s), "a key that is not there");
		d_check(cmd, !last || store_key_cmp(last, &k->k) < 0, "out of order");
		d_check(cmd, !has_start || store_key_cmp(&cmd->key->k, &k->k) <= 0, "too early");
		is_listed[k - cmd->ns->keys] = 1;
		last = &k->k;
		at += nvme_kv_list_entry_bytes((uint8_t)len);
	}
	/* Not even the first may have fitted. */
	if (last || at + 20 <= room)
		check_complete(cmd, has_start ? &cmd->key->k : NULL, at + 20 > room ? last : NULL,
			       is_listed);
}

/* ---- the rest ---- */

static void check_match(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	uint32_t lead = cqe->dw0 & 0xffff, memory = cqe->dw0 >> 16;
	struct d_span s = d_span_of(cmd);

	if (st != NVME_ST_OK) {
		d_check(cmd, is_excused(cmd, st), "status %03x", st);
		return;
	}
	d_check(cmd, lead <= cmd->nr_match && memory <= lead, "%u of %u, %u in memory", lead,
		cmd->nr_match, memory);
	for (uint32_t i = 0; i < lead; i++) {
		cmd->key = &cmd->ns->keys[cmd->match[i]];
		d_check(cmd, d_key_may_hit(cmd->key, &s), "key %u of the chain isn't there", i);
	}
	/* It looks at memory only, so with a tier below it may be short. */
	if (lead < cmd->nr_match && !strchr(cmd->ns->stack->name, '/'))
		d_check(cmd, d_ns_may_miss(cmd, &cmd->ns->keys[cmd->match[lead]]),
			"key %u of the chain must be there", lead);
}

static void check_lease(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	if (check_miss(cmd, st))
		return;
	if (cqe->dw0 > cmd->sqe.cdw10) /* too small: nothing is leased */
		return;
	d_lease_note(cmd, cqe->dw0);
}

/* The lease was let go when the command was sent; unless it is another host's. */
static void check_release(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	if (cmd->want)
		d_check(cmd, st == cmd->want || is_excused(cmd, st), "another's lease: %03x", st);
	else if (cmd->h->w->n->clock_ns < cmd->until_ns)
		d_check(cmd, st == NVME_ST_OK || is_excused(cmd, st), "status %03x", st);
}

static void check_bad(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	d_check(cmd,
		st == cmd->want || st == NVME_ST_CAPACITY_EXCEEDED ||
			(st != NVME_ST_OK && is_excused(cmd, st)),
		"status %03x, not %03x", st, cmd->want);
}

static void check_ns_delete(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	d_check(cmd, st == NVME_ST_OK || st == NVME_ST_INTERRUPTED, "status %03x", st);
	cmd->ns->is_dying = false;
	cmd->ns->is_gone = st == NVME_ST_OK;
}

static void check_ns_resize(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st)
{
	d_check(cmd,
		st == NVME_ST_OK || st == NVME_ST_INVALID_FIELD || st == NVME_ST_INTERRUPTED ||
			st == NVME_ST_NS_INSUFFICIENT_CAPACITY || st == NVME_ST_CAPACITY_EXCEEDED ||
			st == NVME_ST_INVALID_NS,
		"status %03x", st);
}

static const struct {
	const char *name;
	void (*check)(struct d_cmd *cmd, const struct nvme_cqe *cqe, uint16_t st);
} kinds[D_NR_KINDS] = {
	[D_STORE] = {"Store", check_store},
	[D_STORE_EX] = {"STORE_EX", check_store},
	[D_RETRIEVE] = {"Retrieve", check_retrieve},
	[D_RETRIEVE_EX] = {"RETRIEVE_EX", check_retrieve_ex},
	[D_SIZE] = {"Retrieve of 0", check_size},
	[D_EXIST] = {"Exist", check_exist},
	[D_DELETE] = {"Delete", check_delete},
	[D_LIST] = {"List", check_list},
	[D_FLUSH] = {"Flush", check_flush},
	[D_MATCH] = {"MATCH", check_match},
	[D_LEASE] = {"LEASE", check_lease},
	[D_RELEASE] = {"RELEASE", check_release},
	[D_BAD] = {"a bad one", check_bad},
	[D_NS_DELETE] = {"namespace delete", check_ns_delete},
	[D_NS_RESIZE] = {"namespace resize", check_ns_resize},
};

const char *d_kind_name(unsigned kind)
{
	return kinds[kind].name;
}

static void digest(struct d_world *w, uint64_t x)
{
	x ^= w->digest;
	w->digest = rng_splitmix(&x);
}

static void cmd_over(struct d_cmd *cmd)
{
	if (cmd->buf.bytes)
		d_check(cmd, d_buf_settle(&cmd->h->mem, &cmd->buf, cmd->to_host),
			"bytes outside the buffer have changed");
	cmd->is_used = false;
	cmd->h->nr_cmds--;
}

void d_reap(struct d_host *h)
{
	struct nvme_cqe cqe;
	struct d_cmd *cmd;
	uint16_t st;

	for (unsigned i = 0; i < D_CMDS_MAX; i++) {
		cmd = &h->cmd[i];
		if (!cmd->is_used || !fake_tr_done(h->t, cmd->qid, cmd->cid, &cqe))
			continue;
		st = fake_tr_status(&cqe) & 0x7ff;
		h->w->now++;
		digest(h->w, (uint64_t)st << 48 ^ (uint64_t)cqe.dw0 << 16 ^ cmd->cid);
		d_buf_reach(&h->mem, &cmd->buf);
		kinds[cmd->kind].check(cmd, &cqe, st);
		cmd_over(cmd);
	}
}

void d_forget(struct d_host *h, uint16_t qid)
{
	struct d_cmd *cmd;

	h->w->now++;
	for (unsigned i = 0; i < D_CMDS_MAX; i++) {
		cmd = &h->cmd[i];
		if (!cmd->is_used || cmd->qid != qid)
			continue;
		if (cmd->mut_id)
			d_key_end(cmd->key, cmd->mut_id, h->w->now, D_MAYBE);
		if (cmd->kind == D_NS_DELETE) {
			cmd->ns->is_dying = false;
			cmd->ns->is_gone = !tgt_subsys_ns(h->t->ss, cmd->ns->nsid);
		}
		h->w->tally.unknown++;
		d_buf_reach(&h->mem, &cmd->buf);
		cmd_over(cmd);
	}
}
