/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get and Set Features (Base 2.0, 5.15 and 5.27): a table of features. Plain ones are a value that
 * is kept and given back; the others bring functions. Nothing is saveable: after a reset
 * everything is as in the table. Home worker.
 */
#include "target/tgt_int.h"
#include "base/must.h"

enum { SEL_CURRENT, SEL_DEFAULT, SEL_SAVED, SEL_SUPPORTED };

#define FEAT_KV_CONFIG 0x20

struct feature {
	uint8_t fid;
	bool is_ns;	     /* belongs to a namespace */
	uint16_t at;	     /* plain: its uint32_t in struct tgt_features */
	uint32_t dflt, mask; /* plain */
	/* Plain ones may check the value; the others have get and set, which complete req. */
	uint16_t (*check)(struct tgt_ctrl *c, uint32_t val);
	void (*get)(struct tgt_ctrl *c, struct tgt_req *req, bool is_default);
	void (*set)(struct tgt_ctrl *c, struct tgt_req *req);
};

static uint16_t power_check(struct tgt_ctrl *c, uint32_t val)
{
	return val & 0x1f ? NVME_ST_INVALID_FIELD : NVME_ST_OK; /* there is one power state */
}

static uint16_t error_recovery_check(struct tgt_ctrl *c, uint32_t val)
{
	return val >> 16 ? NVME_ST_INVALID_FIELD : NVME_ST_OK; /* DULBE: no such thing here */
}

/*
 * The cache can't be switched off: a value is durable after Flush, or as its namespace
 * acknowledges.
 */
static uint16_t cache_check(struct tgt_ctrl *c, uint32_t val)
{
	return val & 1 ? NVME_ST_OK : NVME_ST_FEAT_NOT_CHANGEABLE;
}

static uint16_t profile_check(struct tgt_ctrl *c, uint32_t val)
{
	return val & 0x1ff ? NVME_ST_IOCS_COMBINATION : NVME_ST_OK; /* CNS 1Ch has one vector */
}

static void kato_get(struct tgt_ctrl *c, struct tgt_req *req, bool is_default)
{
	req->dw0 = is_default ? 0 : c->feat.kato_ms;
	tgt_req_complete(req, NVME_ST_OK);
}

static void kato_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	c->feat.kato_ms = req->sqe.cdw11;
	tgt_ctrl_keep_alive(c);
	tgt_req_complete(req, NVME_ST_OK);
}

/*
 * CDW11: TMPTH 15:0, TMPSEL 19:16, THSEL 21:20. Composite only, which never changes: it warns when
 * a threshold is set on the other side of it.
 */
static uint32_t *temp_of(struct tgt_ctrl *c, uint32_t cdw11, bool is_set)
{
	uint32_t sel = cdw11 >> 16 & 0xf, over_under = cdw11 >> 20 & 3;

	if (sel != 0 && !(is_set && sel == 0xf))
		return NULL;
	if (over_under > 1)
		return NULL;
	return over_under ? &c->feat.temp_under : &c->feat.temp_over;
}

/* Base 2.0, 5.16.1.3, critical warning bit 1. */
bool tgt_feature_is_hot(const struct tgt_ctrl *c)
{
	return TGT_TEMP_K >= c->feat.temp_over || TGT_TEMP_K <= c->feat.temp_under;
}

static void temp_get(struct tgt_ctrl *c, struct tgt_req *req, bool is_default)
{
	uint32_t *t = temp_of(c, req->sqe.cdw11, false);

	if (!t) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	req->dw0 = *t;
	if (is_default)
		req->dw0 = t == &c->feat.temp_over ? TGT_TEMP_WARN_K : 0;
	tgt_req_complete(req, NVME_ST_OK);
}

static void temp_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint32_t *t = temp_of(c, req->sqe.cdw11, true);

	if (!t) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	*t = req->sqe.cdw11 & 0xffff;
	if (tgt_feature_is_hot(c))
		tgt_aer_post(c, NVME_AER_SMART, NVME_AER_SMART_TEMPERATURE_THRESHOLD,
			     NVME_LOG_LID_SMART);
	tgt_req_complete(req, NVME_ST_OK);
}

static uint32_t nr_queues_dw0(uint32_t nr)
{
	return (nr - 1) | (nr - 1) << 16;
}

static void queues_get(struct tgt_ctrl *c, struct tgt_req *req, bool is_default)
{
	req->dw0 = nr_queues_dw0(is_default ? c->max_queues : c->feat.nr_queues);
	tgt_req_complete(req, NVME_ST_OK);
}

static void queues_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint32_t nsq = req->sqe.cdw11 & 0xffff, ncq = req->sqe.cdw11 >> 16;
	uint32_t want = (nsq > ncq ? nsq : ncq) + 1;

	if (nsq == 0xffff || ncq == 0xffff) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	if (tgt_queue_exists(c)) {
		tgt_req_fail(req, NVME_ST_SEQUENCE);
		return;
	}
	c->feat.nr_queues = want < c->max_queues ? want : c->max_queues;
	req->dw0 = nr_queues_dw0(c->feat.nr_queues);
	tgt_req_complete(req, NVME_ST_OK);
}

/* CDW11: IV 15:0, CD 16. Coalescing isn't done at all, so CD is only remembered. */
static void vector_get(struct tgt_ctrl *c, struct tgt_req *req, bool is_default)
{
	uint32_t iv = req->sqe.cdw11 & 0xffff;

	if (iv > c->max_queues) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	req->dw0 = iv;
	if (!is_default)
		req->dw0 |= (uint32_t)(c->feat.vector_cd[iv / 64] >> iv % 64 & 1) << 16;
	tgt_req_complete(req, NVME_ST_OK);
}

static void vector_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint32_t iv = req->sqe.cdw11 & 0xffff;
	uint64_t bit = 1ull << iv % 64;

	if (iv > c->max_queues) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	if (req->sqe.cdw11 >> 16 & 1)
		c->feat.vector_cd[iv / 64] |= bit;
	else
		c->feat.vector_cd[iv / 64] &= ~bit;
	tgt_req_complete(req, NVME_ST_OK);
}

static void behavior_get(struct tgt_ctrl *c, struct tgt_req *req, bool is_default)
{
	uint8_t buf[TGT_HOST_BEHAVIOR_BYTES] = {0};

	if (!is_default)
		memcpy(buf, c->feat.behavior, sizeof(c->feat.behavior));
	tgt_req_send(req, buf, sizeof(buf), NVME_ST_OK);
}

static void behavior_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint8_t buf[TGT_HOST_BEHAVIOR_BYTES];
	uint16_t st = tgt_req_fetch(req, buf, sizeof(buf));

	if (st == NVME_ST_OK && (buf[0] > 1 || buf[1] > 1 || buf[2] > 1))
		st = NVME_ST_INVALID_FIELD;
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	memcpy(c->feat.behavior, buf, sizeof(c->feat.behavior));
	tgt_req_complete(req, NVME_ST_OK);
}

/* CDW11 bit 0, EXHID: 16 bytes instead of 8. */
static uint32_t host_id_bytes(const struct tgt_req *req)
{
	return req->sqe.cdw11 & 1 ? 16 : 8;
}

static void host_id_get(struct tgt_ctrl *c, struct tgt_req *req, bool is_default)
{
	uint8_t id[16] = {0};

	if (!is_default)
		memcpy(id, c->feat.host_id, sizeof(id));
	tgt_req_send(req, id, host_id_bytes(req), NVME_ST_OK);
}

static void host_id_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	static const uint8_t none[16];
	uint8_t id[16] = {0};
	uint16_t st = NVME_ST_SEQUENCE;

	/* Base 2.0, 5.27.1.25: once; on Fabrics Connect has set it. */
	if (!c->is_fabrics && memcmp(c->feat.host_id, none, sizeof(none)) == 0)
		st = tgt_req_fetch(req, id, host_id_bytes(req));
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	memcpy(c->feat.host_id, id, sizeof(id));
	tgt_req_complete(req, NVME_ST_OK);
}

static bool ns_is_kv(const struct tgt_ns *ns)
{
	return ns && ns->ops->csi == NVME_CSI_KV;
}

static void kv_config_get(struct tgt_ctrl *c, struct tgt_req *req, bool is_default)
{
	struct tgt_ns *ns = tgt_ctrl_ns(c, req->sqe.nsid);

	if (!ns_is_kv(ns)) {
		tgt_req_fail(req, ns ? NVME_ST_INVALID_FIELD : NVME_ST_INVALID_NS);
		return;
	}
	/* A new namespace has EDNEK set: kv_ns.c. */
	req->dw0 = is_default ? 1 : atomic_load_explicit(&ns->kv_config, memory_order_relaxed);
	tgt_req_complete(req, NVME_ST_OK);
}

static void kv_config_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint32_t val = req->sqe.cdw11 & 1, nsid = req->sqe.nsid;
	uint32_t first = nsid == TGT_NSID_ALL ? 1 : nsid;
	uint32_t last = nsid == TGT_NSID_ALL ? TGT_NS_MAX : nsid;
	struct tgt_ns *ns;

	if (nsid != TGT_NSID_ALL && !ns_is_kv(tgt_ctrl_ns(c, nsid))) {
		tgt_req_fail(req,
			     tgt_ctrl_ns(c, nsid) ? NVME_ST_INVALID_FIELD : NVME_ST_INVALID_NS);
		return;
	}
	for (nsid = first; nsid <= last; nsid++) {
		ns = tgt_ctrl_ns(c, nsid);
		if (ns_is_kv(ns))
			atomic_store_explicit(&ns->kv_config, val, memory_order_relaxed);
	}
	tgt_req_complete(req, NVME_ST_OK);
}

#define PLAIN(f) .at = offsetof(struct tgt_features, f)

static const struct feature features[] = {
	{NVME_FEAT_FID_ARBITRATION, PLAIN(arbitration), .dflt = 7, .mask = 0xffffff07u},
	{NVME_FEAT_FID_POWER_MGMT, PLAIN(power), .mask = 0xff, .check = power_check},
	{NVME_FEAT_FID_TEMP_THRESH, .get = temp_get, .set = temp_set},
	{NVME_FEAT_FID_ERR_RECOVERY, PLAIN(error_recovery), .mask = 0x1ffff,
	 .check = error_recovery_check},
	{NVME_FEAT_FID_VOLATILE_WC, PLAIN(cache), .dflt = 1, .mask = 1, .check = cache_check},
	{NVME_FEAT_FID_NUM_QUEUES, .get = queues_get, .set = queues_set},
	{NVME_FEAT_FID_IRQ_COALESCE, PLAIN(coalescing), .mask = 0xffff},
	{NVME_FEAT_FID_IRQ_CONFIG, .get = vector_get, .set = vector_set},
	{NVME_FEAT_FID_WRITE_ATOMIC, PLAIN(atomicity), .mask = 1},
	{NVME_FEAT_FID_ASYNC_EVENT, PLAIN(aen), .mask = 0x1ff},
	{NVME_FEAT_FID_KATO, .get = kato_get, .set = kato_set},
	{NVME_FEAT_FID_HOST_BEHAVIOR, .get = behavior_get, .set = behavior_set},
	{NVME_FEAT_FID_IOCS_PROFILE, PLAIN(profile), .mask = 0x1ff, .check = profile_check},
	{FEAT_KV_CONFIG, .is_ns = true, .get = kv_config_get, .set = kv_config_set},
	{NVME_FEAT_FID_HOST_ID, .get = host_id_get, .set = host_id_set},
};

#define NR_FEATURES (sizeof(features) / sizeof(features[0]))

static const struct feature *feature_find(uint8_t fid)
{
	for (size_t i = 0; i < NR_FEATURES; i++)
		if (features[i].fid == fid)
			return &features[i];
	return NULL;
}

static uint32_t *feature_value(struct tgt_ctrl *c, const struct feature *f)
{
	return (uint32_t *)((uint8_t *)&c->feat + f->at);
}

void tgt_feature_get(struct tgt_ctrl *c, struct tgt_req *req)
{
	const struct feature *f = feature_find((uint8_t)req->sqe.cdw10);
	uint32_t sel = req->sqe.cdw10 >> 8 & 7;

	if (!f || sel > SEL_SUPPORTED) {
		tgt_req_fail(req, NVME_ST_INVALID_FIELD);
		return;
	}
	if (sel == SEL_SUPPORTED) {
		req->dw0 = 1u << 2 | (uint32_t)f->is_ns << 1; /* changeable; not saveable */
		tgt_req_complete(req, NVME_ST_OK);
		return;
	}
	/* Nothing is ever saved, so the saved value is the default (5.15.1). */
	if (f->get) {
		f->get(c, req, sel != SEL_CURRENT);
		return;
	}
	req->dw0 = sel == SEL_CURRENT ? *feature_value(c, f) : f->dflt;
	tgt_req_complete(req, NVME_ST_OK);
}

static uint16_t set_check(const struct feature *f, const struct nvme_sqe *sqe)
{
	if (!f)
		return NVME_ST_INVALID_FIELD;
	if (sqe->cdw10 >> 31) /* SV */
		return NVME_ST_FEAT_NOT_SAVEABLE;
	if (!f->is_ns && sqe->nsid != 0 && sqe->nsid != TGT_NSID_ALL)
		return NVME_ST_FEAT_NOT_NS;
	return NVME_ST_OK;
}

void tgt_feature_set(struct tgt_ctrl *c, struct tgt_req *req)
{
	const struct feature *f = feature_find((uint8_t)req->sqe.cdw10);
	uint16_t st = set_check(f, &req->sqe);
	uint32_t val;

	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	if (f->set) {
		f->set(c, req);
		return;
	}
	val = req->sqe.cdw11 & f->mask;
	st = f->check ? f->check(c, val) : NVME_ST_OK;
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	*feature_value(c, f) = val;
	tgt_req_complete(req, NVME_ST_OK);
}

void tgt_feature_reset(struct tgt_ctrl *c)
{
	memset(&c->feat, 0, sizeof(c->feat));
	for (size_t i = 0; i < NR_FEATURES; i++)
		if (!features[i].get)
			*feature_value(c, &features[i]) = features[i].dflt;
	c->feat.temp_over = TGT_TEMP_WARN_K;
	c->feat.nr_queues = c->max_queues;
	if (c->is_fabrics) {
		memcpy(c->feat.host_id, c->fabrics_host_id, sizeof(c->feat.host_id));
		c->feat.kato_ms = c->fabrics_kato_ms;
	}
}

/* Log 12h: FSUPP, and the scope in 31:20. */
uint32_t tgt_feature_effects(uint8_t fid)
{
	const struct feature *f = feature_find(fid);

	if (!f)
		return 0;
	return NVME_FID_SUPPORTED_EFFECTS_FSUPP |
	       (uint32_t)(f->is_ns ? NVME_FID_SUPPORTED_EFFECTS_SCOPE_NS
				   : NVME_FID_SUPPORTED_EFFECTS_SCOPE_CTRL)
		       << NVME_FID_SUPPORTED_EFFECTS_SCOPE_SHIFT;
}
