/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller: its registers (Base 2.0, 3.1.3) and the sequence behind CC.EN, CC.SHN, resets and
 * Keep Alive.
 *
 *   DOWN --EN 0->1--> COMING --tgt_ctrl_enabled()--> UP
 *    ^                                                |
 *    +--tgt_ctrl_disabled()-- GOING <--EN 0, SHN, reset, fatal
 *
 * The host's wishes (is_armed, CC) and what is (state) are kept apart; ctrl_step() takes the next
 * step whenever one of them changed, so a host may write what it likes at any time. Runs on the
 * controller's home worker.
 */
#include "target/tgt_int.h"
#include <errno.h>
#include <stdlib.h>
#include "base/container.h"
#include "base/log.h"
#include "base/must.h"

#define CTRL_REGS_BYTES 0x1000u
#define CTRL_TO 30u /* CAP.TO and CRTO: 15 s */
#define CTRL_CC_MASK 0x00fffff1u
#define CTRL_CC_EN 1u
#define CTRL_VS 0x00020000u

enum {
	REG_CAP = 0x00,
	REG_VS = 0x08,
	REG_INTMS = 0x0c,
	REG_INTMC = 0x10,
	REG_CC = 0x14,
	REG_CSTS = 0x1c,
	REG_AQA = 0x24,
	REG_ASQ = 0x28,
	REG_ACQ = 0x30,
	REG_CRTO = 0x68
};

enum { CTRL_SHST_NONE = 0, CTRL_SHST_UNDER_WAY = 1, CTRL_SHST_DONE = 2 };

static uint32_t cc_css(uint32_t cc)
{
	return cc >> 4 & 7;
}

static bool cc_is_shutdown(uint32_t cc)
{
	return (cc >> 14 & 3) != 0;
}

static uint64_t ctrl_cap(const struct tgt_ctrl *c)
{
	uint64_t cap = c->mqes;

	cap |= 1ull << 16;			 /* CQR */
	cap |= (uint64_t)CTRL_TO << 24;		 /* TO */
	cap |= (uint64_t)(c->dstrd & 0xf) << 32; /* DSTRD */
	cap |= 1ull << 37;			 /* CSS: NVM */
	cap |= 1ull << 43;			 /* CSS: one or more I/O command sets */
	cap |= 1ull << 59;			 /* CRMS.CRWMS, which 2.0 demands */
	return cap;
}

static uint32_t ctrl_csts(const struct tgt_ctrl *c)
{
	return (uint32_t)c->is_ready | (uint32_t)c->is_fatal << 1 | (uint32_t)c->shst << 2;
}

static uint32_t reg_read32(const struct tgt_ctrl *c, uint32_t off)
{
	switch (off) {
	case REG_CAP:
		return (uint32_t)ctrl_cap(c);
	case REG_CAP + 4:
		return (uint32_t)(ctrl_cap(c) >> 32);
	case REG_VS:
		return CTRL_VS;
	case REG_INTMS:
	case REG_INTMC:
		return c->int_mask;
	case REG_CC:
		return c->cc;
	case REG_CSTS:
		return ctrl_csts(c);
	case REG_AQA:
		return c->aqa;
	case REG_ASQ:
		return (uint32_t)c->asq;
	case REG_ASQ + 4:
		return (uint32_t)(c->asq >> 32);
	case REG_ACQ:
		return (uint32_t)c->acq;
	case REG_ACQ + 4:
		return (uint32_t)(c->acq >> 32);
	case REG_CRTO:
		return CTRL_TO;
	default: /* NSSR, CMB, BPINFO, PMR: not there */
		return 0;
	}
}

static uint64_t half_set(uint64_t reg, uint32_t off, uint32_t val)
{
	return off & 4 ? (reg & 0xffffffffu) | (uint64_t)val << 32 : (reg & ~0xffffffffull) | val;
}

/* Which command sets this CC.CSS opens. */
static uint32_t ctrl_csi_mask(const struct tgt_ctrl *c)
{
	if (c->is_discovery) /* it has no namespaces, whatever the subsystem has */
		return 0;
	switch (cc_css(c->cc)) {
	case 0:
		return 1;
	case 6:
		return c->ss->csi_mask;
	default:
		return 0;
	}
}

static bool ctrl_check_cc(const struct tgt_ctrl *c)
{
	uint32_t css = cc_css(c->cc), mps = c->cc >> 7 & 0xf, ams = c->cc >> 11 & 7;
	uint32_t iosqes = c->cc >> 16 & 0xf, iocqes = c->cc >> 20 & 0xf;
	uint32_t asqs = c->aqa & 0xfff, acqs = c->aqa >> 16 & 0xfff;

	if (css != 0 && css != 6)
		return false;
	if (mps || ams)
		return false;
	/* 0: not said yet; wanted when the first I/O queue is made. */
	if ((iosqes && iosqes != 6) || (iocqes && iocqes != 4))
		return false;
	return c->is_fabrics || (asqs && acqs && c->asq && c->acq);
}

static void ctrl_step(struct tgt_ctrl *c);

static void ctrl_start(struct tgt_ctrl *c)
{
	struct tgt_queue_params asq = {.size = (c->aqa & 0xfff) + 1, .addr = c->asq};
	struct tgt_queue_params acq = {
		.size = (c->aqa >> 16 & 0xfff) + 1, .addr = c->acq, .has_irq = true};

	if (!ctrl_check_cc(c)) {
		c->is_armed = false;
		c->is_fatal = true;
		return;
	}
	c->csi_mask = ctrl_csi_mask(c);
	tgt_feature_reset(c);
	for (unsigned i = 0; i < TGT_CHANGED_WORDS; i++) /* it will look at everything anyway */
		atomic_store_explicit(&c->changed[i], 0, memory_order_relaxed);
	tgt_ctrl_keep_alive(c); /* of Fabrics' Connect; else there is none yet */
	c->state = TGT_CTRL_COMING;
	c->ops->enable(c, &asq, &acq);
}

static void ctrl_stop(struct tgt_ctrl *c)
{
	c->state = TGT_CTRL_GOING;
	timeout_cancel(&c->keep_alive);
	tgt_aer_give_back(c);
	c->ops->disable(c);
}

/*
 * Down: the registers say so, and whoever waits for it hears of it. May end the controller's
 * life.
 */
static void ctrl_settle(struct tgt_ctrl *c)
{
	struct tgt_ctrl_waiter waiters[4];
	unsigned nr = c->nr_waiters;

	if (nr) {
		c->cc = 0;
		c->int_mask = 0;
		c->aqa = 0;
		c->asq = 0;
		c->acq = 0;
	}
	if (!(c->cc & CTRL_CC_EN)) {
		c->is_ready = false;
		c->is_fatal = false;
		c->shst = CTRL_SHST_NONE;
	}
	if (cc_is_shutdown(c->cc))
		c->shst = CTRL_SHST_DONE;
	memcpy(waiters, c->waiters, sizeof(waiters));
	c->nr_waiters = 0;
	for (unsigned i = 0; i < nr; i++)
		waiters[i].done(waiters[i].arg);
}

static void ctrl_step(struct tgt_ctrl *c)
{
	switch (c->state) {
	case TGT_CTRL_COMING:
	case TGT_CTRL_GOING:
		return;
	case TGT_CTRL_UP:
		if (!c->is_armed)
			ctrl_stop(c);
		return;
	case TGT_CTRL_DOWN:
		if (c->is_armed)
			ctrl_start(c);
		else
			ctrl_settle(c);
		return;
	}
}

static void ctrl_write_cc(struct tgt_ctrl *c, uint32_t val)
{
	bool was_enabled = c->cc & CTRL_CC_EN, is_enabled = val & CTRL_CC_EN;
	bool was_shutdown = cc_is_shutdown(c->cc), is_shutdown = cc_is_shutdown(val);

	if (c->nr_waiters) /* a reset is under way and ends with CC 0 */
		return;
	c->cc = val & CTRL_CC_MASK;
	if (!is_enabled || (is_shutdown && !was_shutdown))
		c->is_armed = false;
	else if (!was_enabled && !is_shutdown) {
		c->is_armed = true;
		c->shst = CTRL_SHST_NONE;
	}
	if (is_shutdown && !was_shutdown)
		c->shst = CTRL_SHST_UNDER_WAY;
	ctrl_step(c);
}

static void reg_write32(struct tgt_ctrl *c, uint32_t off, uint32_t val)
{
	bool is_down = c->state == TGT_CTRL_DOWN;

	switch (off) {
	case REG_INTMS:
		c->int_mask |= val;
		break;
	case REG_INTMC:
		c->int_mask &= ~val;
		break;
	case REG_CC:
		ctrl_write_cc(c, val);
		break;
	case REG_AQA:
		if (is_down)
			c->aqa = val & 0x0fff0fffu;
		break;
	case REG_ASQ:
	case REG_ASQ + 4:
		if (is_down)
			c->asq = half_set(c->asq, off, val) & ~(uint64_t)(TGT_PAGE - 1);
		break;
	case REG_ACQ:
	case REG_ACQ + 4:
		if (is_down)
			c->acq = half_set(c->acq, off, val) & ~(uint64_t)(TGT_PAGE - 1);
		break;
	default:
		break;
	}
}

static bool reg_check(uint32_t off, uint32_t len)
{
	return (len == 4 || len == 8) && off % len == 0 && off <= CTRL_REGS_BYTES - len;
}

int tgt_ctrl_reg_read(struct tgt_ctrl *c, uint32_t off, uint32_t len, uint64_t *val)
{
	if (!reg_check(off, len))
		return -EINVAL;
	*val = reg_read32(c, off);
	if (len == 8)
		*val |= (uint64_t)reg_read32(c, off + 4) << 32;
	return 0;
}

int tgt_ctrl_reg_write(struct tgt_ctrl *c, uint32_t off, uint32_t len, uint64_t val)
{
	if (!reg_check(off, len))
		return -EINVAL;
	reg_write32(c, off, (uint32_t)val);
	if (len == 8)
		reg_write32(c, off + 4, (uint32_t)(val >> 32));
	return 0;
}

void tgt_ctrl_enabled(struct tgt_ctrl *c, bool ok)
{
	must(c->state == TGT_CTRL_COMING);
	if (ok) {
		c->state = TGT_CTRL_UP;
		c->is_ready = c->is_armed;
	} else {
		c->state = TGT_CTRL_DOWN;
		c->is_fatal = true;
		c->is_armed = false;
	}
	ctrl_step(c);
}

static void ctrl_down(struct tgt_ctrl *c)
{
	tgt_trace_ctrl_gone(c);
	c->csi_mask = 0;
	c->state = TGT_CTRL_DOWN;
	ctrl_step(c);
}

/* The command sets drop what this controller holds in them, here. */
static void ctrl_gone_at(struct reactor_round *rd, struct reactor *r)
{
	const struct tgt_ctrl *c = container_of(rd, struct tgt_ctrl, gone);
	struct tgt_worker *w = c->ss->node->workers[reactor_id(r)];
	struct tgt_ns *ns;

	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++) {
		ns = tgt_subsys_ns(c->ss, nsid);
		if (ns && ns->ops->ctrl_gone)
			ns->ops->ctrl_gone(ns, w, c->id);
	}
}

static void ctrl_gone_done(struct reactor_round *rd)
{
	ctrl_down(container_of(rd, struct tgt_ctrl, gone));
}

/*
 * Down when nothing is held for it any more: one that is enabled and disabled in a loop has one
 * round under way, and without leases none.
 */
void tgt_ctrl_disabled(struct tgt_ctrl *c)
{
	const struct tgt_node *node = c->ss->node;

	must(c->state == TGT_CTRL_GOING);
	must(c->nr_aers == 0);
	memset(c->queues, 0, sizeof(c->queues));
	counter_set(&c->nr_sqs, 0);
	if (atomic_load_explicit(tgt_subsys_leased(c->ss, c->id), memory_order_acquire) == 0) {
		ctrl_down(c);
		return;
	}
	c->gone.fn = ctrl_gone_at;
	c->gone.done = ctrl_gone_done;
	reactor_round_start(&c->gone, c->home->reactor, node->reactors, tgt_node_nr_io(node));
}

void tgt_ctrl_reset(struct tgt_ctrl *c, void (*done)(void *arg), void *arg)
{
	must(c->nr_waiters < sizeof(c->waiters) / sizeof(c->waiters[0]));
	c->waiters[c->nr_waiters++] = (struct tgt_ctrl_waiter){done, arg};
	c->is_armed = false;
	ctrl_step(c);
}

void tgt_ctrl_fatal(struct tgt_ctrl *c)
{
	if (!c->is_armed) /* down, or on its way: nothing to say any more */
		return;
	c->is_fatal = true;
	c->is_armed = false;
	ctrl_step(c);
}

static void ctrl_keep_alive_end(struct timeout *t)
{
	struct tgt_ctrl *c = container_of(t, struct tgt_ctrl, keep_alive);

	log_some_warn("controller %u (%s): no Keep Alive within %u ms, stopped", c->id, c->host,
		      c->feat.kato_ms);
	c->is_fatal = true;
	c->is_armed = false;
	ctrl_step(c);
	if (c->ops->fatal)
		c->ops->fatal(c, "Keep Alive ran out");
}

void tgt_ctrl_keep_alive(struct tgt_ctrl *c)
{
	uint64_t ns = c->feat.kato_ms * 1000000ull;

	timeout_cancel(&c->keep_alive);
	if (ns == 0)
		return;
	ns = (ns + TGT_KAS_NS - 1) / TGT_KAS_NS * TGT_KAS_NS;
	timeout_set(c->home->reactor, &c->keep_alive, reactor_now_ns(c->home->reactor) + ns);
}

void tgt_ctrl_aen(struct tgt_ctrl *c, uint8_t type, uint8_t info, uint8_t log)
{
	tgt_aer_post(c, type, info, log);
}

int tgt_ctrl_create(struct tgt_subsys *ss, const struct tgt_ctrl_opts *o, struct tgt_ctrl **out)
{
	struct tgt_ctrl *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->ss = ss;
	c->ops = o->ops;
	c->home = o->home;
	c->mdts = o->mdts;
	c->mqes = o->mqes ? o->mqes : TGT_MQES;
	c->is_operator = o->is_operator;
	c->is_fabrics = o->is_fabrics;
	c->is_discovery = o->is_discovery;
	snprintf(c->host, sizeof(c->host), "%s", o->host ? o->host : "");
	tgt_ctrl_set_dstrd(c, o->dstrd, o->max_queues);
	timeout_init(&c->keep_alive, ctrl_keep_alive_end);
	tgt_feature_reset(c);
	err = tgt_subsys_ctrl_add(ss, c);
	if (err) {
		free(c);
		return err;
	}
	*out = c;
	return 0;
}

void tgt_ctrl_destroy(struct tgt_ctrl *c)
{
	must(c->state == TGT_CTRL_DOWN && c->nr_aers == 0);
	timeout_cancel(&c->keep_alive);
	tgt_subsys_ctrl_del(c->ss, c);
}

void tgt_ctrl_set_dstrd(struct tgt_ctrl *c, uint8_t dstrd, uint32_t max_queues)
{
	must(c->state == TGT_CTRL_DOWN);
	must(max_queues >= 1 && max_queues <= TGT_QUEUES_MAX);
	c->dstrd = dstrd;
	c->max_queues = max_queues;
	c->feat.nr_queues = max_queues;
}

struct tgt_worker *tgt_ctrl_home(const struct tgt_ctrl *c)
{
	return c->home;
}

uint16_t tgt_ctrl_id(const struct tgt_ctrl *c)
{
	return c->id;
}

struct tgt_subsys *tgt_ctrl_subsys(struct tgt_ctrl *c)
{
	return c->ss;
}

void *tgt_ctrl_priv(struct tgt_ctrl *c)
{
	return c->priv;
}

void tgt_ctrl_set_priv(struct tgt_ctrl *c, void *priv)
{
	c->priv = priv;
}
