/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MATCH: how many leading keys of a chain are here. Keys are fetched and looked up KV_BATCH at a
 * time, and it stops at the first that is absent, so a long chain that is not here costs one batch.
 * It never waits for a device or a cluster. With a pin time, those in memory are pinned as leases
 * without a name (kv_lease.c), within the controller's bounds.
 */
#include <errno.h>

#include "base/container.h"
#include "base/must.h"
#include "kv/kv_int.h"

/* Of one turn, in keys looked up: a chain of a thousand is answered in the turn that brings it. */
#define MATCH_TURN_COST 1024u
#define MATCH_PIN_COST 4u

static void match_end(struct store_io *io, int res);

static void match_finish(struct tgt_req *req, uint16_t st)
{
	struct kv_one *one = &kv_cmd_of(req)->one;

	if (st == NVME_ST_OK)
		req->dw0 = one->match.nr_lead | one->match.nr_memory << 16;
	kv_cmd_count_read(req, 0);
	tgt_req_complete(req, st);
}

/* The batch's answer: counts the leading run, and says what of it is to be pinned. */
static void match_count(struct kv_one *one)
{
	uint32_t i;

	for (i = 0; i < one->io.match.nr; i++) {
		uint8_t f = one->match.found[i];

		if (f == STORE_ABSENT ||
		    (one->match.tiers && !(one->match.tiers >> (f == STORE_MEMORY ? 0 : 1) & 1)))
			break;
		/* "Of them in memory" is a leading run too: a load can start with those at once. */
		if (f == STORE_MEMORY && one->match.nr_memory == one->match.nr_lead)
			one->match.nr_memory++;
		one->match.nr_lead++;
	}
	one->match.is_over = i < one->io.match.nr || one->match.nr_left == 0;
	one->match.at_pin = 0;
	one->match.nr_pin = one->match.pin_ms ? i : 0;
}

/*
 * A pin that does not fit the bounds is let go again and is the last: the answer stands, it never
 * promised that keys stay. True when there is something to let go.
 */
static bool match_pinned(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	struct kv_lease_table *t = kv_ns_of(req)->leases[req->sq->worker->id];

	if (one->res)
		return false;
	if (kv_lease_add(t, tgt_ctrl_id(req->sq->ctrl), &one->io.view, one->match.pin_ms))
		return false;
	one->match.nr_pin = 0;
	one->match.step = KV_MATCH_UNPIN;
	return true;
}

/* Sets up the pin of the next key in memory; false when the batch has none left. */
static bool match_pin_next(struct kv_one *one)
{
	struct store_io *io = &one->io;

	while (one->match.at_pin < one->match.nr_pin &&
	       one->match.found[one->match.at_pin] != STORE_MEMORY)
		one->match.at_pin++;
	if (one->match.at_pin >= one->match.nr_pin)
		return false;
	io->op = STORE_GET;
	io->flags = STORE_NO_TOUCH | STORE_MEM_ONLY;
	io->key = one->match.keys[one->match.at_pin++];
	io->off = 0;
	io->len = 1;
	io->ver = 0;
	one->match.step = KV_MATCH_PIN;
	return true;
}

/* Fetches the next keys and sets up their look-up. */
static uint16_t match_fetch(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	struct store_io *io = &one->io;
	struct peal_wire_key wire[KV_BATCH];
	uint32_t n = min_t(uint32_t, one->match.nr_left, KV_BATCH), i;
	uint16_t st = tgt_req_iter_get(req, wire, n * (uint32_t)sizeof(wire[0]));

	if (st != NVME_ST_OK)
		return st;
	for (i = 0; i < n && st == NVME_ST_OK; i++)
		st = kv_cmd_key_make(&one->match.keys[i], wire[i].b, wire[i].len);
	memset(one->match.found, STORE_ABSENT, sizeof(one->match.found));
	one->match.nr_left -= n;
	one->match.step = KV_MATCH_LOOK;
	io->op = STORE_MATCH;
	io->flags = STORE_MEM_ONLY | (req->sqe.cdw12 & PEAL_MATCH_TOUCH ? 0 : STORE_NO_TOUCH);
	io->match.keys = one->match.keys;
	io->match.found = one->match.found;
	io->match.nr = n;
	return st;
}

static void match_unpinned(struct store_view *v)
{
	match_end(container_of(v, struct store_io, view), 0);
}

/* Starts the verb that was set up; true when it is back already. */
static bool match_submit(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;

	if (one->match.step != KV_MATCH_UNPIN)
		return kv_cmd_one_submit(req);
	one->is_inline = true;
	one->is_back = false;
	store_release(&one->io.view, kv_home(req), match_unpinned);
	one->is_inline = false;
	return one->is_back;
}

/* What comes after the verb that is back. False: the command is over, with *st. */
static bool match_next(struct tgt_req *req, uint16_t *st)
{
	struct kv_one *one = &kv_cmd_of(req)->one;

	switch (one->match.step) {
	case KV_MATCH_PIN:
		if (match_pinned(req))
			return true;
		break;
	case KV_MATCH_UNPIN:
		break;
	case KV_MATCH_LOOK:
		*st = kv_cmd_status(one->res);
		if (*st != NVME_ST_OK)
			return false;
		match_count(one);
		break;
	}
	if (match_pin_next(one))
		return true;
	if (one->match.is_over)
		return false;
	*st = match_fetch(req);
	return *st == NVME_ST_OK;
}

static void match_run(struct tgt_req *req);

static void match_resume(struct tgt_req *req)
{
	if (match_submit(req))
		match_run(req);
}

static void match_run(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	uint32_t cost = 0;
	uint16_t st = NVME_ST_OK;

	do {
		if (!match_next(req, &st)) {
			match_finish(req, st);
			return;
		}
		cost += one->match.step == KV_MATCH_LOOK ? one->io.match.nr : MATCH_PIN_COST;
		/* A view that is to be let go isn't kept for a turn. */
		if (cost >= kv_turn_keys(req, MATCH_TURN_COST) &&
		    one->match.step != KV_MATCH_UNPIN) {
			tgt_req_later(req, match_resume);
			return;
		}
	} while (match_submit(req));
}

static void match_end(struct store_io *io, int res)
{
	struct kv_one *one = container_of(io, struct kv_one, io);
	struct tgt_req *req = kv_req_of(container_of(one, struct kv_cmd, one));

	if (!kv_cmd_one_back(one, res))
		return;
	/* What was pinned for it isn't kept until then. */
	if (one->match.step == KV_MATCH_LOOK)
		kv_cmd_one_on(req, match_run);
	else
		match_run(req);
}

void kv_match_execute(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	uint32_t len = req->sqe.cdw10;
	uint16_t st = NVME_ST_OK;

	if (len == 0 || len % sizeof(struct peal_wire_key) ||
	    len / sizeof(struct peal_wire_key) > PEAL_MATCH_MAX || (req->sqe.cdw12 & 0xfffe))
		st = NVME_ST_INVALID_FIELD;
	if (st == NVME_ST_OK)
		st = req->sq->ops->data(req, len, MEM_FROM_PEER);
	if (st == NVME_ST_OK) {
		one->match.nr_left = len / (uint32_t)sizeof(struct peal_wire_key);
		one->match.nr_lead = one->match.nr_memory = 0;
		one->match.tiers = (uint16_t)(req->sqe.cdw12 >> 16);
		one->match.pin_ms = min_t(uint32_t, req->sqe.cdw13, KV_LEASE_MS_MAX);
		one->match.is_over = false;
		memset(&one->io.key, 0, sizeof(one->io.key));
		one->io.meta = NULL;
		one->io.ver = 0;
		one->io.view.st = NULL;
		one->io.end = match_end;
		st = match_fetch(req);
	}
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	if (kv_cmd_one_submit(req))
		match_run(req);
}
