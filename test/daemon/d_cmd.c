/* SPDX-License-Identifier: Apache-2.0 */
/*
 * d_sim's commands: every opcode of the KV command set and of Peal's own, with data by PRP or SGL,
 * right ones and wrong ones. Each is noted with what its outcome will be judged by. One thread.
 */
#include "d_int.h"

#include "base/container.h"
#include "base/must.h"

uint64_t d_value_seed(const struct d_ns *ns, struct d_key *key, uint64_t id)
{
	uint64_t x = ns->salt ^ key->k.hash ^ (ns->is_immutable ? 0 : id * 0x9E3779B97F4A7C15ull);

	return rng_splitmix(&x);
}

static uint32_t any_len(struct d_world *w, const struct d_ns *ns, struct d_key *key)
{
	uint64_t x = ns->salt + key->k.hash, r;
	uint32_t max = ns->value_max;

	if (ns->is_immutable) { /* same key, same bytes */
		r = rng_splitmix(&x);
		return 1 + (uint32_t)(r % (r >> 60 ? min_t(uint32_t, max, 20000) : max));
	}
	switch (rng_below(&w->rng, 8)) {
	case 0:
		return 1 + (uint32_t)rng_below(&w->rng, max);
	case 1:
		return 1 + (uint32_t)rng_below(&w->rng, 64);
	case 2: /* around the chunk */
		return min_t(uint32_t, max, 65536u - 4 + (uint32_t)rng_below(&w->rng, 9));
	default:
		return 1 + (uint32_t)rng_below(&w->rng, min_t(uint32_t, max, 12000));
	}
}

/* ---- the parts of a command ---- */

static struct d_cmd *cmd_new(struct d_world *w, enum d_kind kind)
{
	struct d_host *h = &w->host[rng_below(&w->rng, w->nr_hosts)];
	struct d_cmd *cmd = NULL;

	for (unsigned i = 0; i < D_CMDS_MAX && !cmd; i++)
		if (!h->cmd[i].is_used)
			cmd = &h->cmd[i];
	if (!cmd)
		return NULL;
	*cmd = (struct d_cmd){.kind = (uint8_t)kind, .h = h};
	cmd->qid = 1 + (uint16_t)rng_below(&w->rng, h->nr_queues);
	cmd->ns = &w->ns[rng_below(&w->rng, w->nr_ns)];
	if (cmd->ns->is_gone || cmd->ns->is_dying)
		cmd->ns = &w->ns[rng_below(&w->rng, w->nr_ns)];
	cmd->key = &cmd->ns->keys[rng_below(&w->rng, cmd->ns->nr_keys)];
	return h->has_queue[cmd->qid] ? cmd : NULL;
}

static void cmd_key(struct d_cmd *cmd, uint8_t opc, uint8_t opts)
{
	cmd->sqe.opc = opc;
	cmd->sqe.nsid = cmd->ns->nsid;
	nvme_kv_key_set(&cmd->sqe, cmd->key->k.b, cmd->key->k.len, opts);
}

static bool cmd_data_out(struct d_cmd *cmd, uint64_t bytes)
{
	cmd->sqe.cdw10 = (uint32_t)bytes;
	return d_buf_make(&cmd->h->mem, &cmd->buf, bytes, false);
}

/* Bit buckets only where what comes back can be understood without what falls into them. */
static bool cmd_data_in(struct d_cmd *cmd, uint64_t bytes, bool has_holes)
{
	cmd->to_host = true;
	cmd->sqe.cdw10 = (uint32_t)bytes;
	return d_buf_make(&cmd->h->mem, &cmd->buf, bytes, has_holes);
}

static bool cmd_send(struct d_cmd *cmd)
{
	struct d_host *h = cmd->h;
	int cid;

	if (cmd->buf.bytes) {
		d_buf_commit(&h->mem, &cmd->buf);
		d_buf_dptr(&h->mem, &cmd->buf, &cmd->sqe);
	}
	cid = fake_tr_submit(h->t, cmd->qid, &cmd->sqe);
	if (cid < 0) {
		while (h->t->nr_lists)
			fake_tr_free(h->t, h->t->lists[--h->t->nr_lists], FAKE_PAGE);
		d_buf_free(&h->mem, &cmd->buf);
		return false;
	}
	cmd->cid = (uint16_t)cid;
	cmd->begin = ++h->w->now;
	cmd->begin_ns = h->w->n->clock_ns;
	cmd->is_excused = d_mem_is_away(&h->mem);
	cmd->is_used = true;
	h->nr_cmds++;
	h->w->tally.cmds++;
	return true;
}

/* ---- kinds ---- */

static void put_meta(const struct d_cmd *cmd, const struct d_mut *m, struct peal_store_ex *ex)
{
	*ex = (struct peal_store_ex){
		.parent_len = 16,
		.group_len = 5,
		.cls = (uint16_t)m->seed,
		.cost_us = (uint32_t)(m->seed >> 16),
		.flags = cmd->has_seals ? PEAL_STORE_EX_SEALS : 0,
	};
	d_value_fill(m->seed, 1 << 20, ex->parent, 16);
	d_value_fill(m->seed, 2 << 20, ex->group, 5);
	d_value_fill(m->seed, 3 << 20, ex->tag, sizeof(ex->tag));
}

static void put_seals(struct d_cmd *cmd, const struct d_mut *m)
{
	uint64_t nr = div_round_up(m->len, MEM_CHUNK_BYTES), seal;
	uint64_t wrong = cmd->has_wrong_seal ? rng_below(&cmd->h->w->rng, nr) : nr;

	for (uint64_t i = 0; i < nr; i++) {
		seal = d_value_seal(cmd->key, m, i) ^ (i == wrong);
		d_buf_write(&cmd->h->mem, &cmd->buf, PEAL_STORE_EX_BYTES + m->len + i * 8, &seal,
			    8);
	}
}

static bool start_store(struct d_cmd *cmd)
{
	struct d_world *w = cmd->h->w;
	struct d_mut m = {.id = ++w->next_id, .len = any_len(w, cmd->ns, cmd->key)};
	/* Immutable: the key says whether it has meta, else two puts would differ. */
	bool is_ex = cmd->ns->is_immutable ? cmd->key->k.hash & 1 : rng_chance(&w->rng, 1, 3);
	uint64_t seals = 8 * div_round_up(m.len, MEM_CHUNK_BYTES);
	uint8_t opts = (uint8_t)rng_below(&w->rng, 3) * rng_chance(&w->rng, 1, 3);
	struct peal_store_ex ex;

	cmd->kind = is_ex ? D_STORE_EX : D_STORE;
	cmd->has_seals = is_ex && rng_chance(&w->rng, 1, 2);
	cmd->has_wrong_seal = cmd->has_seals && rng_chance(&w->rng, 1, 8);
	m.seed = d_value_seed(cmd->ns, cmd->key, m.id);
	m.has_meta = is_ex;
	cmd_key(cmd, is_ex ? PEAL_OPC_STORE_EX : NVME_KV_STORE, opts);
	if (!cmd_data_out(cmd,
			  m.len + (is_ex ? PEAL_STORE_EX_BYTES : 0) + (cmd->has_seals ? seals : 0)))
		return false;
	d_buf_fill(&cmd->h->mem, &cmd->buf, is_ex ? PEAL_STORE_EX_BYTES : 0,
		   (struct d_part){m.seed, 0, m.len});
	if (is_ex) {
		put_meta(cmd, &m, &ex);
		d_buf_write(&cmd->h->mem, &cmd->buf, 0, &ex, sizeof(ex));
	}
	if (cmd->has_seals)
		put_seals(cmd, &m);
	if (!cmd_send(cmd))
		return false;
	m.begin = cmd->begin;
	cmd->mut_id = m.id;
	d_key_begin(cmd->key, &m);
	return true;
}

static bool start_delete(struct d_cmd *cmd)
{
	struct d_mut m = {.id = ++cmd->h->w->next_id, .is_del = true};

	cmd_key(cmd, NVME_KV_DELETE, 0);
	if (!cmd_send(cmd))
		return false;
	m.begin = cmd->begin;
	cmd->mut_id = m.id;
	d_key_begin(cmd->key, &m);
	return true;
}

/* Room for the value, less, or much more. */
static uint64_t any_room(struct d_world *w, const struct d_cmd *cmd)
{
	uint32_t len = any_len(w, cmd->ns, cmd->key);

	if (cmd->key->muts.nr && rng_chance(&w->rng, 3, 4))
		len = max_t(uint32_t, 1, vec_last(&cmd->key->muts).len);
	return rng_chance(&w->rng, 1, 3) ? len + rng_below(&w->rng, 5000) : len;
}

static bool start_retrieve(struct d_cmd *cmd)
{
	cmd_key(cmd, NVME_KV_RETRIEVE, (uint8_t)rng_below(&cmd->h->w->rng, 2));
	return cmd_data_in(cmd, any_room(cmd->h->w, cmd), true) && cmd_send(cmd);
}

static bool start_size(struct d_cmd *cmd)
{
	cmd_key(cmd, NVME_KV_RETRIEVE, 0);
	return cmd_send(cmd);
}

static bool start_retrieve_ex(struct d_cmd *cmd)
{
	struct d_world *w = cmd->h->w;
	static const uint8_t opts[] = {0, 2, 6, 3};
	uint8_t o = opts[rng_below(&w->rng, 4)];
	uint64_t room = any_room(w, cmd) + (o & 2 ? 400 : 0), muts = cmd->key->muts.nr;

	cmd_key(cmd, PEAL_OPC_RETRIEVE_EX, o);
	if (rng_chance(&w->rng, 1, 3))
		cmd->sqe.cdw12 = (uint32_t)rng_below(&w->rng, room / 4096 + 2);
	if (o == 2 && rng_chance(&w->rng, 1, 4))
		room = PEAL_RETRIEVE_EX_BYTES; /* the block alone */
	if (muts && rng_chance(&w->rng, 1, 4))
		cmd->sqe.cdw13 = cmd->key->muts.at[rng_below(&w->rng, muts)].ver;
	return cmd_data_in(cmd, room, !(o & 2)) && cmd_send(cmd);
}

static bool start_exist(struct d_cmd *cmd)
{
	cmd_key(cmd, NVME_KV_EXIST, 0);
	return cmd_send(cmd);
}

static bool start_flush(struct d_cmd *cmd)
{
	cmd->sqe.opc = NVME_KV_FLUSH;
	cmd->sqe.nsid = cmd->ns->nsid;
	return cmd_send(cmd);
}

static bool start_list(struct d_cmd *cmd)
{
	struct d_world *w = cmd->h->w;

	cmd_key(cmd, NVME_KV_LIST, 0);
	if (rng_chance(&w->rng, 1, 2))
		nvme_kv_key_set(&cmd->sqe, "", 0, 0);
	return cmd_data_in(cmd, 4 + rng_below(&w->rng, 900), false) && cmd_send(cmd);
}

static bool start_match(struct d_cmd *cmd)
{
	struct d_world *w = cmd->h->w;
	struct peal_wire_key wire;

	cmd->nr_match = 1 + (unsigned)rng_below(&w->rng, rng_chance(&w->rng, 1, 4) ? 64 : 6);
	cmd->sqe.opc = PEAL_OPC_MATCH;
	cmd->sqe.nsid = cmd->ns->nsid;
	cmd->sqe.cdw12 = (uint32_t)rng_below(&w->rng, 2);
	cmd->sqe.cdw13 = rng_chance(&w->rng, 1, 4) ? (uint32_t)rng_below(&w->rng, 50) : 0;
	if (!cmd_data_out(cmd, cmd->nr_match * sizeof(wire)))
		return false;
	for (unsigned i = 0; i < cmd->nr_match; i++) {
		const struct store_key *k;

		cmd->match[i] = (uint16_t)rng_below(&w->rng, cmd->ns->nr_keys);
		k = &cmd->ns->keys[cmd->match[i]].k;
		wire = (struct peal_wire_key){.len = k->len};
		memcpy(wire.b, k->b, 16);
		d_buf_write(&cmd->h->mem, &cmd->buf, i * sizeof(wire), &wire, sizeof(wire));
	}
	return cmd_send(cmd);
}

static bool start_lease(struct d_cmd *cmd)
{
	struct d_world *w = cmd->h->w;

	cmd_key(cmd, PEAL_OPC_LEASE, 0);
	cmd->sqe.cdw12 = (uint32_t)rng_below(&w->rng, 100);
	return cmd_data_in(cmd, rng_chance(&w->rng, 1, 6) ? 40 : 10000, false) && cmd_send(cmd);
}

static bool start_release(struct d_cmd *cmd)
{
	struct d_world *w = cmd->h->w;
	struct d_lease *l = d_lease_any(w, cmd->h);

	if (!l)
		return false;
	cmd->ns = l->ns;
	cmd->key = l->key;
	cmd->sqe.opc = PEAL_OPC_RELEASE;
	cmd->sqe.nsid = l->ns->nsid;
	cmd->sqe.cdw10 = (uint32_t)l->id;
	cmd->sqe.cdw11 = (uint32_t)(l->id >> 32);
	if (!cmd_send(cmd))
		return false;
	cmd->until_ns = l->until_ns;
	/* Another host's: it must not be let go. */
	if (l->h == cmd->h)
		d_lease_drop(l);
	else
		cmd->want = NVME_ST_KEY_NOT_FOUND;
	return true;
}

/* ---- wrong ones ---- */

static bool start_bad(struct d_cmd *cmd)
{
	struct d_world *w = cmd->h->w;

	cmd_key(cmd, NVME_KV_STORE, 0);
	cmd->sqe.cdw10 = 64;
	cmd->sqe.prp1 = cmd->h->mem.base;
	switch (rng_below(&w->rng, 7)) {
	case 0:
		cmd->sqe.opc = rng_chance(&w->rng, 1, 2) ? 0x03 : 0x9c;
		cmd->want = NVME_ST_INVALID_OPCODE;
		break;
	case 1:
		cmd->sqe.nsid = rng_chance(&w->rng, 1, 2) ? 0 : 700;
		cmd->want = NVME_ST_INVALID_NS;
		break;
	case 2:
		cmd->sqe.cdw11 = rng_chance(&w->rng, 1, 2) ? 0 : 17;
		cmd->want = NVME_ST_INVALID_KEY_SIZE;
		break;
	case 3:
		cmd->sqe.cdw11 |= 3u << 8;
		cmd->want = NVME_ST_INVALID_FIELD;
		break;
	case 4:
		cmd->sqe.cdw10 = rng_chance(&w->rng, 1, 2) ? 0 : cmd->ns->value_max + 1;
		cmd->want = NVME_ST_INVALID_VALUE_SIZE;
		break;
	case 5: /* nobody's memory: whatever comes back, it is no value */
		cmd->sqe.cdw10 = 1 + (uint32_t)rng_below(&w->rng, 4000);
		cmd->sqe.prp1 = 4;
		cmd->want = NVME_ST_DATA_TRANSFER;
		break;
	default:
		cmd->sqe.cdw10 = 512;
		cmd->sqe.prp1 = cmd->h->mem.base + 2;
		cmd->want = NVME_ST_PRP_OFFSET;
		break;
	}
	return cmd_send(cmd);
}

bool d_cmd_admin(struct d_host *h, struct d_ns *ns, enum d_kind kind, struct nvme_sqe *sqe)
{
	struct d_cmd *cmd = NULL;

	for (unsigned i = 0; i < D_CMDS_MAX && !cmd; i++)
		if (!h->cmd[i].is_used)
			cmd = &h->cmd[i];
	if (!cmd)
		return false;
	*cmd = (struct d_cmd){.kind = (uint8_t)kind, .h = h, .ns = ns, .sqe = *sqe};
	return cmd_send(cmd);
}

static const struct {
	unsigned weight;
	bool (*start)(struct d_cmd *cmd);
} kinds[D_NR_KINDS] = {
	[D_STORE] = {26, start_store},
	[D_RETRIEVE] = {30, start_retrieve},
	[D_RETRIEVE_EX] = {14, start_retrieve_ex},
	[D_SIZE] = {2, start_size},
	[D_EXIST] = {5, start_exist},
	[D_DELETE] = {5, start_delete},
	[D_LIST] = {4, start_list},
	[D_FLUSH] = {1, start_flush},
	[D_MATCH] = {4, start_match},
	[D_LEASE] = {6, start_lease},
	[D_RELEASE] = {3, start_release},
	[D_BAD] = {3, start_bad},
};

bool d_cmd_start(struct d_world *w)
{
	unsigned roll, kind;
	struct d_cmd *cmd;

	roll = (unsigned)rng_below(&w->rng, 103);
	for (kind = 0; roll >= kinds[kind].weight; kind++)
		roll -= kinds[kind].weight;
	cmd = cmd_new(w, kind);
	return cmd && kinds[kind].start(cmd);
}
