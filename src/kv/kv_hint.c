/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HINT: an array of {key, verb, weight, time}: prefetch, cancel, demote, pin, unpin, score. Each is
 * done, noted or refused at once on the owner of its key; the command is over when all have been,
 * and waits for no device.
 *
 *   KV_BATCH of them are fetched -> to each worker that owns keys of them, one after the other
 *   -> the next ones
 *
 * A pin is a lease without a name (kv_lease.c) on the worker that owns the key, wherever the HINT
 * came from: so whoever unpins finds it. It counts against the controller's lease bounds there, and
 * ends with its time, without grace, or with the controller.
 */
#include <errno.h>

#include "base/container.h"
#include "base/must.h"
#include "kv/kv_int.h"

static struct tgt_req *hint_req(struct kv_one *one)
{
	return kv_req_of(container_of(one, struct kv_cmd, one));
}

static void hint_run(struct tgt_req *req);

static struct store_key hint_key(const struct peal_wire_hint *h)
{
	struct store_key key;

	must(kv_cmd_key_make(&key, h->b, h->len) == NVME_ST_OK); /* hint_fetch() has looked */
	return key;
}

static unsigned hint_worker(const struct kv_ns *kn, const struct store_key *key)
{
	return reactor_id(store_set_owner(kn->set, key));
}

/* ---- on the owner ---- */

static int hint_pin(struct kv_ns *kn, uint16_t ctrl, const struct peal_wire_hint *h,
		    const struct store_key *key)
{
	struct reactor *owner = store_set_owner(kn->set, key);
	struct kv_lease_table *t = kn->leases[reactor_id(owner)];
	struct store_view v;
	int res = store_now(kn->set, owner, key, STORE_NO_TOUCH, &v);

	if (res)
		return -ENOENT;
	kv_lease_unpin(t, ctrl, key);
	if (kv_lease_pin(t, ctrl, &v, key, min_t(uint32_t, h->ms, KV_LEASE_MS_MAX)))
		return 0;
	store_release(&v, owner, NULL);
	return -EBUSY;
}

static int hint_store(struct kv_ns *kn, const struct peal_wire_hint *h, const struct store_key *key)
{
	static const uint8_t verbs[] = {
		[PEAL_HINT_PREFETCH] = STORE_HINT_PREFETCH,
		[PEAL_HINT_CANCEL] = STORE_HINT_CANCEL,
		[PEAL_HINT_DEMOTE] = STORE_HINT_DEMOTE,
		[PEAL_HINT_SCORE] = STORE_HINT_SCORE,
	};
	struct store_hint sh = {
		.key = *key,
		.until_ns = UINT64_MAX,
		.weight = h->weight,
		.verb = verbs[h->verb],
	};

	if (h->verb == PEAL_HINT_PREFETCH && h->ms)
		sh.until_ns = reactor_now_ns(store_set_owner(kn->set, key)) + h->ms * 1000000ull;
	return store_hint(kn->set, &sh);
}

static int hint_one(struct kv_ns *kn, uint16_t ctrl, const struct peal_wire_hint *h,
		    const struct store_key *key)
{
	unsigned w = hint_worker(kn, key);

	switch (h->verb) {
	case PEAL_HINT_PIN:
		return hint_pin(kn, ctrl, h, key);
	case PEAL_HINT_UNPIN:
		return kv_lease_unpin(kn->leases[w], ctrl, key) ? 0 : -ENOENT;
	default:
		return hint_store(kn, h, key);
	}
}

/* Those of the batch that are this worker's. */
static void hint_here(struct kv_one *one, unsigned w)
{
	struct tgt_req *req = hint_req(one);
	struct kv_ns *kn = kv_ns_of(req);
	struct store_key key;

	for (uint32_t i = 0; i < one->hint.nr; i++) {
		key = hint_key(&one->hint.h[i]);
		if (hint_worker(kn, &key) != w)
			continue;
		if (hint_one(kn, tgt_ctrl_id(req->sq->ctrl), &one->hint.h[i], &key) == 0)
			one->hint.nr_taken++;
	}
}

static void hint_back(struct mbox_msg *m)
{
	kv_cmd_one_on(hint_req(container_of(m, struct kv_one, hint.msg)), hint_run);
}

static void hint_there(struct mbox_msg *m)
{
	struct kv_one *one = container_of(m, struct kv_one, hint.msg);
	struct tgt_req *req = hint_req(one);
	const struct tgt_node *node = tgt_subsys_node(req->ns->subsys);
	unsigned w = one->hint.at;

	hint_here(one, w);
	m->fn = hint_back;
	reactor_send(node->reactors[w], kv_home(req), m);
}

/* ---- at home ---- */

static bool hint_check(const struct peal_wire_hint *h)
{
	return h->verb >= PEAL_HINT_PREFETCH && h->verb <= PEAL_HINT_SCORE;
}

static uint16_t hint_fetch(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	struct store_key key;
	uint16_t st;

	one->hint.nr = min_t(uint32_t, one->hint.nr_left, KV_BATCH);
	one->hint.nr_left -= one->hint.nr;
	st = tgt_req_iter_get(req, one->hint.h, one->hint.nr * (uint32_t)sizeof(one->hint.h[0]));
	one->hint.todo = 0;
	for (uint32_t i = 0; i < one->hint.nr && st == NVME_ST_OK; i++) {
		st = kv_cmd_key_make(&key, one->hint.h[i].b, one->hint.h[i].len);
		if (st == NVME_ST_OK && !hint_check(&one->hint.h[i]))
			st = NVME_ST_INVALID_FIELD;
		if (st == NVME_ST_OK)
			one->hint.todo |= 1ull << hint_worker(kv_ns_of(req), &key);
	}
	return st;
}

static void hint_next_batch(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	uint16_t st = hint_fetch(req);

	if (st == NVME_ST_OK) {
		hint_run(req);
		return;
	}
	req->dw0 = one->hint.nr_taken;
	tgt_req_fail(req, st);
}

static void hint_run(struct tgt_req *req)
{
	const struct tgt_node *node = tgt_subsys_node(req->ns->subsys);
	struct kv_one *one = &kv_cmd_of(req)->one;

	while (one->hint.todo) {
		one->hint.at = (uint8_t)__builtin_ctzll(one->hint.todo);
		one->hint.todo &= one->hint.todo - 1;
		if (node->reactors[one->hint.at] == kv_home(req)) {
			hint_here(one, one->hint.at);
			continue;
		}
		one->hint.msg.fn = hint_there;
		reactor_send(kv_home(req), node->reactors[one->hint.at], &one->hint.msg);
		return;
	}
	if (one->hint.nr_left) {
		tgt_req_later(req, hint_next_batch);
		return;
	}
	req->dw0 = one->hint.nr_taken;
	kv_cmd_count_read(req, 0);
	tgt_req_complete(req, NVME_ST_OK);
}

void kv_hint_execute(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	uint32_t len = req->sqe.cdw10;
	uint16_t st = NVME_ST_OK;

	if (len == 0 || len % sizeof(struct peal_wire_hint) ||
	    len / sizeof(struct peal_wire_hint) > PEAL_HINT_MAX || req->sqe.cdw12 || req->sqe.cdw13)
		st = NVME_ST_INVALID_FIELD;
	if (st == NVME_ST_OK)
		st = req->sq->ops->data(req, len, MEM_FROM_PEER);
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	one->hint.nr_left = len / (uint32_t)sizeof(struct peal_wire_hint);
	one->hint.nr_taken = 0;
	hint_next_batch(req);
}
