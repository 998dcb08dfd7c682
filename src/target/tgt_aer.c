/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events (Base 2.0, 5.2): a bounded table of events and the requests that wait for
 * one. An event is reported once and then masked until the host has read its log page with RAE 0;
 * one that happens again meanwhile is told by that page. Home worker.
 */
#include "target/tgt_int.h"
#include "base/must.h"

/*
 * An AER keeps a slot of the admin CQ for as long as it waits, so one slot is left for all other
 * commands: a small ring gets fewer AERs than AERL says, rather than none of its commands answered.
 * No AQA: a fabric, whose responses need no ring.
 */
static unsigned aer_max(const struct tgt_ctrl *c)
{
	uint32_t room = c->aqa >> 16 & 0xfff; /* 0's based: slots less the one that stays free */

	return room && room <= TGT_AERS_MAX ? room - 1 : TGT_AERS_MAX;
}

void tgt_aer_execute(struct tgt_ctrl *c, struct tgt_req *req)
{
	tgt_admin_of(req)->is_quiet = true;
	if (c->nr_aers >= aer_max(c)) {
		tgt_req_fail(req, NVME_ST_AER_LIMIT);
		return;
	}
	c->aers[c->nr_aers++] = req;
	tgt_aer_flush(c);
}

/* Feature 0Bh: errors can't be switched off, SMART warnings and notices can, bit by bit. */
static bool event_is_wanted(const struct tgt_ctrl *c, uint8_t type, uint8_t info)
{
	switch (type) {
	case NVME_AER_SMART:
		return c->feat.aen & 0xff;
	case NVME_AER_NOTICE:
		return info < 24 && c->feat.aen >> (8 + info) & 1;
	default:
		return true;
	}
}

void tgt_aer_flush(struct tgt_ctrl *c)
{
	struct tgt_event *e;
	struct tgt_req *req;

	for (unsigned i = 0; i < TGT_EVENTS_MAX && c->nr_aers; i++) {
		e = &c->events[i];
		if (!e->is_used || e->is_reported)
			continue;
		e->is_reported = true;
		req = c->aers[0];
		c->nr_aers--;
		memmove(&c->aers[0], &c->aers[1], c->nr_aers * sizeof(c->aers[0]));
		req->dw0 = e->type | (uint32_t)e->info << 8 | (uint32_t)e->log << 16;
		tgt_req_complete(req, NVME_ST_OK);
	}
}

void tgt_aer_post(struct tgt_ctrl *c, uint8_t type, uint8_t info, uint8_t log)
{
	struct tgt_event *free_slot = NULL, *e;

	if (c->state != TGT_CTRL_UP || !event_is_wanted(c, type, info))
		return;
	for (unsigned i = 0; i < TGT_EVENTS_MAX; i++) {
		e = &c->events[i];
		if (!e->is_used)
			free_slot = free_slot ? free_slot : e;
		else if (e->type == type && e->info == info && e->log == log)
			return;
	}
	if (!free_slot) /* more kinds of events than there are; the log pages still tell */
		return;
	*free_slot = (struct tgt_event){type, info, log, .is_used = true};
	tgt_aer_flush(c);
}

void tgt_aer_clear(struct tgt_ctrl *c, uint8_t log)
{
	for (unsigned i = 0; i < TGT_EVENTS_MAX; i++)
		if (c->events[i].log == log)
			c->events[i].is_used = false;
}

void tgt_aer_give_back(struct tgt_ctrl *c)
{
	struct tgt_req *req;

	memset(c->events, 0, sizeof(c->events));
	while (c->nr_aers) {
		req = c->aers[--c->nr_aers];
		req->watch |= TGT_WATCH_SILENT;
		tgt_req_complete(req, NVME_ST_ABORTED_SQ_DELETED);
	}
}

bool tgt_aer_abort(struct tgt_ctrl *c, uint16_t cid)
{
	struct tgt_req *req;

	for (unsigned i = 0; i < c->nr_aers; i++) {
		req = c->aers[i];
		if (req->sqe.cid != cid)
			continue;
		c->nr_aers--;
		memmove(&c->aers[i], &c->aers[i + 1], (c->nr_aers - i) * sizeof(c->aers[0]));
		tgt_req_complete(req, NVME_ST_ABORTED);
		return true;
	}
	return false;
}
