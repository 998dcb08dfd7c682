/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV command set: a table from opcode to function, the commands that are one store verb
 * (Delete, Exist, Flush), and the border where store results become NVMe statuses. Key rules: NVMe
 * KV Command Set 1.0c, 3.1; options and statuses: nvme/nvme_kv.h.
 *
 * CDW12 and CDW13 of the standard commands are ignored, not refused: Mooncake's NVMe-KV back end
 * writes a block count there.
 */
#include <errno.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "kv/kv_int.h"

uint16_t kv_cmd_status(int res)
{
	switch (res) {
	case 0:
		return NVME_ST_OK;
	case -ENOENT:
	case -ESTALE: /* the version that was asked for is gone: a miss */
		return NVME_ST_KEY_NOT_FOUND;
	case -EEXIST:
		return NVME_ST_KEY_EXISTS;
	case -ENOSPC:
		return NVME_ST_CAPACITY_EXCEEDED;
	case -EFBIG:
		return NVME_ST_INVALID_VALUE_SIZE;
	case -EFAULT:
	case -EREMOTEIO: /* the peer's memory failed, or the peer changed it while we wrote */
		return NVME_ST_DATA_TRANSFER;
	case -EBUSY:
		return NVME_ST_INTERRUPTED;
	case -ECANCELED:
		return NVME_ST_NS_NOT_READY;
	default:
		return NVME_ST_INTERNAL;
	}
}

uint16_t kv_cmd_key_make(struct store_key *k, const uint8_t b[16], uint8_t len)
{
	if (len == 0 || len > NVME_KV_KEY_MAX)
		return NVME_ST_INVALID_KEY_SIZE;
	memcpy(k->b, b, 16);
	if (unlikely(len < 16))
		memset(k->b + len, 0, 16u - len);
	k->len = len;
	k->hash = hash_key_words(k->w, len);
	return NVME_ST_OK;
}

void kv_cmd_count_read(struct tgt_req *req, uint64_t bytes)
{
	struct tgt_ns_stat *st = &req->ns->stat[req->sq->worker->id];

	counter_add(&st->reads, 1);
	counter_add(&st->read_bytes, bytes);
	req->sq->read_bytes += bytes;
}

void kv_cmd_count_write(struct tgt_req *req, uint64_t bytes)
{
	struct tgt_ns_stat *st = &req->ns->stat[req->sq->worker->id];

	counter_add(&st->writes, 1);
	counter_add(&st->write_bytes, bytes);
	req->sq->write_bytes += bytes;
}

uint16_t kv_cmd_xfer_status(const struct tgt_req *req, int res)
{
	return res == -EFAULT ? tgt_req_iter_status(req) : kv_cmd_status(res);
}

static struct tgt_req *kv_req_of_one(struct store_io *io)
{
	return kv_req_of(container_of(io, struct kv_cmd, one.io));
}

bool kv_cmd_one_submit(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;

	one->is_inline = true;
	one->is_back = false;
	store_submit(kv_ns_of(req)->set, kv_home(req), &one->io);
	one->is_inline = false;
	return one->is_back;
}

void kv_cmd_one_on(struct tgt_req *req, void (*step)(struct tgt_req *req))
{
	if (req->sq->worker->is_shared)
		tgt_req_later(req, step);
	else
		step(req);
}

bool kv_cmd_one_back(struct kv_one *one, int res)
{
	one->res = res;
	if (!one->is_inline)
		return true;
	one->is_back = true;
	return false;
}

static struct store_io *kv_one_init(struct tgt_req *req, enum store_op op, store_end_fn *end)
{
	struct kv_cmd *cmd = kv_cmd_of(req);
	struct store_io *io = &cmd->one.io;

	io->op = (uint8_t)op;
	io->flags = 0;
	io->key = cmd->key;
	io->off = 0;
	io->len = 0;
	io->ver = 0;
	io->meta = NULL;
	io->view.st = NULL;
	io->end = end;
	return io;
}

static void kv_exist_end(struct store_io *io, int res)
{
	tgt_req_complete(kv_req_of_one(io), kv_cmd_status(res));
}

/* The answer isn't in this reactor's memory. */
static void kv_exist_ask(struct tgt_req *req)
{
	struct store_io *io = kv_one_init(req, STORE_EXIST, kv_exist_end);

	io->flags = STORE_NO_TOUCH;
	store_submit(kv_ns_of(req)->set, kv_home(req), io);
}

/* A look, not a use: what was asked about and not read is no warmer for it. MATCH can touch. */
static void kv_exist(struct tgt_req *req)
{
	const struct store_key *key = &kv_cmd_of(req)->key;
	uint64_t ask, here = store_look(kv_ns_of(req)->set, kv_home(req), &key, 1, &ask);

	kv_cmd_count_read(req, 0);
	if (ask)
		kv_exist_ask(req);
	else
		tgt_req_complete(req, here ? NVME_ST_OK : NVME_ST_KEY_NOT_FOUND);
}

static bool kv_check_look(const struct tgt_ns *ns, const struct nvme_sqe *sqe)
{
	return sqe->opc == NVME_KV_EXIST && sqe->nsid == ns->nsid && tgt_check_flags(sqe);
}

/* The Exists of a burst; what is wrong with one, and what lies elsewhere, takes the usual way. */
uint64_t kv_cmd_look(struct tgt_ns *ns, struct tgt_worker *w, const struct nvme_sqe *sqes,
		     unsigned nr, uint16_t *status)
{
	struct kv_ns *kn = container_of(ns, struct kv_ns, ns);
	const struct store_key *ptr[TGT_BURST];
	struct store_key keys[TGT_BURST];
	uint64_t here, ask, over = 0;
	uint8_t raw[16], at[TGT_BURST];
	unsigned n = 0, nr_here;

	static_assert(TGT_BURST <= STORE_LOOK_MAX, "a burst is one look");
	for (unsigned i = 0; i < nr; i++) {
		if (!kv_check_look(ns, &sqes[i]))
			continue;
		nvme_kv_key_get(&sqes[i], raw);
		if (kv_cmd_key_make(&keys[n], raw, nvme_kv_key_len(&sqes[i])) != NVME_ST_OK)
			continue;
		ptr[n] = &keys[n];
		at[n++] = (uint8_t)i;
	}
	if (n == 0)
		return 0;
	here = store_look(kn->set, w->reactor, ptr, n, &ask);
	for (unsigned k = 0; k < n; k++) {
		status[at[k]] = here >> k & 1 ? NVME_ST_OK : NVME_ST_KEY_NOT_FOUND;
		over |= (~ask >> k & 1) << at[k];
	}
	n = (unsigned)__builtin_popcountll(over);
	nr_here = (unsigned)__builtin_popcountll(here & ~ask);
	counter_add(&ns->stat[w->id].reads, n);
	tgt_count(w, 1, NVME_KV_EXIST, TGT_DONE, nr_here);
	tgt_count(w, 1, NVME_KV_EXIST, TGT_MISSED, n - nr_here);
	return over;
}

/* Feature 20h EDNEK: whether an absent key makes Delete fail. */
static void kv_delete_end(struct store_io *io, int res)
{
	struct tgt_req *req = kv_req_of_one(io);
	uint32_t conf = atomic_load_explicit(&req->ns->kv_config, memory_order_relaxed);

	if (res == -ENOENT && !(conf & 1))
		res = 0;
	tgt_req_complete(req, kv_cmd_status(res));
}

static void kv_delete(struct tgt_req *req)
{
	if (kv_ns_of(req)->opts.is_read_only) {
		tgt_req_fail(req, NVME_ST_NS_WRITE_PROTECTED);
		return;
	}
	kv_cmd_count_write(req, 0);
	store_submit(kv_ns_of(req)->set, kv_home(req), kv_one_init(req, STORE_DEL, kv_delete_end));
}

static void kv_flush(struct tgt_req *req)
{
	store_submit(kv_ns_of(req)->set, kv_home(req), kv_one_init(req, STORE_FLUSH, kv_exist_end));
}

enum {
	KV_KEYED = 1, /* needs a key of 1 to 16 bytes */
};

struct kv_entry {
	void (*fn)(struct tgt_req *req);
	uint8_t flags;
};

static const struct kv_entry kv_table[256] = {
	[NVME_KV_FLUSH] = {kv_flush, 0},
	[NVME_KV_STORE] = {kv_put_store, KV_KEYED},
	[NVME_KV_RETRIEVE] = {kv_get_retrieve, KV_KEYED},
	[NVME_KV_LIST] = {kv_list_execute, 0},
	[NVME_KV_DELETE] = {kv_delete, KV_KEYED},
	[NVME_KV_EXIST] = {kv_exist, KV_KEYED},
	[PEAL_OPC_STORE_EX] = {kv_put_store_ex, KV_KEYED},
	[PEAL_OPC_RETRIEVE_EX] = {kv_get_retrieve_ex, KV_KEYED},
	[PEAL_OPC_MATCH] = {kv_match_execute, 0},
	[PEAL_OPC_HINT] = {kv_hint_execute, 0},
	[PEAL_OPC_LEASE] = {kv_lease_execute, KV_KEYED},
	[PEAL_OPC_RELEASE] = {kv_lease_release, 0},
};

void kv_cmd_prepare(struct tgt_req *req)
{
	struct kv_cmd *cmd = kv_cmd_of(req);
	uint8_t raw[16];

	if (!(kv_table[req->sqe.opc].flags & KV_KEYED))
		return;
	nvme_kv_key_get(&req->sqe, raw);
	cmd->key_status = kv_cmd_key_make(&cmd->key, raw, nvme_kv_key_len(&req->sqe));
	if (cmd->key_status == NVME_ST_OK)
		store_prefetch(kv_ns_of(req)->set, kv_home(req), &cmd->key, 0);
}

void kv_cmd_prefetch(struct tgt_req *req)
{
	struct kv_cmd *cmd = kv_cmd_of(req);

	if ((kv_table[req->sqe.opc].flags & KV_KEYED) && cmd->key_status == NVME_ST_OK)
		store_prefetch(kv_ns_of(req)->set, kv_home(req), &cmd->key, 1);
}

/* Only who reads the value wants its bytes. */
void kv_cmd_warm(struct tgt_req *req)
{
	struct kv_cmd *cmd = kv_cmd_of(req);

	if (req->sqe.opc == NVME_KV_RETRIEVE && cmd->key_status == NVME_ST_OK)
		store_prefetch(kv_ns_of(req)->set, kv_home(req), &cmd->key, 2);
}

void kv_cmd_execute(struct tgt_req *req)
{
	const struct kv_entry *e = &kv_table[req->sqe.opc];

	if (unlikely(!e->fn)) {
		tgt_req_fail(req, NVME_ST_INVALID_OPCODE);
		return;
	}
	if (unlikely((e->flags & KV_KEYED) && kv_cmd_of(req)->key_status != NVME_ST_OK)) {
		tgt_req_fail(req, kv_cmd_of(req)->key_status);
		return;
	}
	e->fn(req);
}
