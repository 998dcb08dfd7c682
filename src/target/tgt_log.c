/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Log Page (Base 2.0, 5.16). A page is made on the stack, at most 4 KiB, and the wanted part
 * of it moved; what a host asks for behind the page's end isn't touched. Reading with RAE 0 clears
 * the page's event. Home worker.
 *
 * Figures of log 02h are the subsystem's: commands and bytes as the command sets counted them,
 * busy time as the busiest worker had it. The temperature is made up, see TGT_TEMP_K.
 */
#include "target/tgt_int.h"
#include "base/le.h"
#include "base/must.h"

#define LOG_BYTES 4096u
#define LOG_DISCOVERY_MAX (1u << 20)
#define NS_PER_MINUTE 60000000000ull
#define NS_PER_HOUR (60 * NS_PER_MINUTE)

#ifndef PEAL_VERSION
#define PEAL_VERSION "0"
#endif

static void put_u128(uint8_t dst[16], uint64_t val)
{
	le64_put(dst, val);
	le64_put(dst + 8, 0);
}

static void sum_stat(struct tgt_ns_stat *sum, const struct tgt_ns_stat *s)
{
	counter_add(&sum->reads, counter_get(&s->reads));
	counter_add(&sum->writes, counter_get(&s->writes));
	counter_add(&sum->read_bytes, counter_get(&s->read_bytes));
	counter_add(&sum->write_bytes, counter_get(&s->write_bytes));
}

static void sum_all(struct tgt_subsys *ss, struct tgt_ns_stat *sum)
{
	struct tgt_ns *ns;

	memset(sum, 0, sizeof(*sum));
	sum_stat(sum, &ss->gone);
	for (uint32_t nsid = 1; nsid <= TGT_NS_MAX; nsid++) {
		ns = tgt_subsys_ns(ss, nsid);
		for (unsigned w = 0; ns && w < ss->node->nr; w++)
			sum_stat(sum, &ns->stat[w]);
	}
}

static uint64_t busy_ns(const struct tgt_subsys *ss)
{
	uint64_t max = 0, ns;

	for (unsigned i = 0; i < ss->node->nr; i++) {
		ns = counter_get(&ss->node->workers[i]->busy_ns);
		max = ns > max ? ns : max;
	}
	return max;
}

/* Data units are thousands of 512 bytes, rounded up. */
static uint64_t data_units(uint64_t bytes)
{
	return (bytes + 511999) / 512000;
}

static uint32_t fill_smart(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct nvme_smart_log *l = buf;
	struct tgt_ns_stat sum;
	uint64_t on_ns = reactor_now_ns(c->home->reactor) - c->ss->born_ns;

	sum_all(c->ss, &sum);
	l->critical_warning = tgt_feature_is_hot(c) ? NVME_SMART_CRIT_TEMPERATURE : 0;
	le16_put(l->temperature, TGT_TEMP_K);
	l->avail_spare = 100;
	l->spare_thresh = 10;
	put_u128(l->data_units_read, data_units(counter_get(&sum.read_bytes)));
	put_u128(l->data_units_written, data_units(counter_get(&sum.write_bytes)));
	put_u128(l->host_reads, counter_get(&sum.reads));
	put_u128(l->host_writes, counter_get(&sum.writes));
	put_u128(l->ctrl_busy_time, busy_ns(c->ss) / NS_PER_MINUTE);
	put_u128(l->power_cycles, 1);
	put_u128(l->power_on_hours, on_ns / NS_PER_HOUR);
	put_u128(l->media_errors, atomic_load_explicit(&c->ss->media_errors, memory_order_relaxed));
	put_u128(l->num_err_log_entries, c->nr_errors);
	return sizeof(*l);
}

static uint32_t fill_errors(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct nvme_error_log_page *to = buf;
	uint64_t nr = c->nr_errors < TGT_ERRORS_MAX ? c->nr_errors : TGT_ERRORS_MAX;

	for (uint64_t i = 0; i < nr; i++) /* newest first */
		to[i] = c->errors[(c->nr_errors - 1 - i) % TGT_ERRORS_MAX];
	return sizeof(c->errors);
}

static uint32_t fill_firmware(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct nvme_firmware_slot *l = buf;

	l->afi = 1;
	tgt_put_ascii(l->frs[0], sizeof(l->frs[0]), PEAL_VERSION);
	return sizeof(*l);
}

/* Takes the bits; what was read in vain, or with RAE, is put back by changed_restore(). */
static uint32_t fill_changed(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	uint8_t *at = buf;
	uint64_t word;

	for (unsigned i = 0; i < TGT_CHANGED_WORDS; i++) {
		word = atomic_exchange_explicit(&c->changed[i], 0, memory_order_acquire);
		for (; word; word &= word - 1) {
			must(at < (uint8_t *)buf + LOG_BYTES);
			le32_put(at, i * 64 + (unsigned)__builtin_ctzll(word));
			at += 4;
		}
	}
	return LOG_BYTES;
}

static void changed_restore(struct tgt_ctrl *c, const void *buf)
{
	const uint8_t *at = buf;
	uint32_t nsid;

	for (; at < (const uint8_t *)buf + LOG_BYTES; at += 4) {
		nsid = le32_get(at);
		if (nsid == 0)
			return;
		atomic_fetch_or_explicit(&c->changed[nsid / 64], 1ull << nsid % 64,
					 memory_order_relaxed);
	}
}

static uint32_t fill_effects(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	struct nvme_cmd_effects_log *l = buf;
	uint8_t csi = (uint8_t)(req->sqe.cdw14 >> 24);

	if (csi >= TGT_CSI_NR || !(c->ss->csi_mask >> csi & 1))
		return 0;
	tgt_admin_effects(c, l->acs);
	if (c->ss->csi[csi] && c->ss->csi[csi]->effects)
		c->ss->csi[csi]->effects(l->iocs);
	return sizeof(*l);
}

static uint32_t fill_features(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	for (unsigned fid = 0; fid < 256; fid++)
		le32_put((uint8_t *)buf + fid * 4, tgt_feature_effects((uint8_t)fid));
	return 1024;
}

/* No management interface: none of its commands. */
static uint32_t fill_mi(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	return 4096;
}

static uint32_t fill_supported(struct tgt_ctrl *c, struct tgt_req *req, void *buf);

static const struct log_op {
	uint32_t (*fill)(struct tgt_ctrl *c, struct tgt_req *req,
			 void *buf); /* bytes; 0 = Invalid Field */
} log_ops[] = {
	[NVME_LOG_LID_SUPPORTED_LOG_PAGES] = {fill_supported},
	[NVME_LOG_LID_ERROR] = {fill_errors},
	[NVME_LOG_LID_SMART] = {fill_smart},
	[NVME_LOG_LID_FW_SLOT] = {fill_firmware},
	[NVME_LOG_LID_CHANGED_NS] = {fill_changed},
	[NVME_LOG_LID_CMD_EFFECTS] = {fill_effects},
	[NVME_LOG_LID_FID_SUPPORTED_EFFECTS] = {fill_features},
	[NVME_LOG_LID_MI_CMD_SUPPORTED_EFFECTS] = {fill_mi},
};

#define NR_LOGS (sizeof(log_ops) / sizeof(log_ops[0]))

static uint32_t fill_supported(struct tgt_ctrl *c, struct tgt_req *req, void *buf)
{
	for (unsigned lid = 0; lid < NR_LOGS; lid++)
		if (log_ops[lid].fill)
			le32_put((uint8_t *)buf + lid * 4, 1); /* LSUPP */
	return 1024;
}

/* NUMD, 0's based. */
static uint64_t log_len(const struct nvme_sqe *sqe)
{
	return ((sqe->cdw10 >> 16 | (uint64_t)(sqe->cdw11 & 0xffff) << 16) + 1) * 4;
}

/* Log 70h has any length: it comes in pieces of the stack's page. */
static void log_discovery(struct tgt_ctrl *c, struct tgt_req *req, uint64_t off, uint64_t len)
{
	uint8_t buf[LOG_BYTES];
	uint16_t st = NVME_ST_INVALID_FIELD;
	uint32_t n;

	if (off % 4 == 0 && len <= LOG_DISCOVERY_MAX)
		st = req->sq->ops->data(req, len, MEM_TO_PEER);
	for (; st == NVME_ST_OK && len; len -= n, off += n) {
		n = (uint32_t)(len < sizeof(buf) ? len : sizeof(buf));
		memset(buf, 0, n);
		c->ops->discovery(c, off, n, buf);
		st = tgt_req_iter_put(req, buf, n);
	}
	if (st != NVME_ST_OK)
		tgt_req_fail(req, st);
	else
		tgt_req_complete(req, NVME_ST_OK);
}

static uint16_t log_check(const struct tgt_ctrl *c, const struct nvme_sqe *sqe)
{
	uint8_t lid = (uint8_t)sqe->cdw10;
	uint64_t off = sqe->cdw12 | (uint64_t)sqe->cdw13 << 32;

	if (lid >= NR_LOGS || !log_ops[lid].fill)
		return NVME_ST_INVALID_LOG;
	/* No page is a namespace's own (LPA bit 0 is 0). */
	if (sqe->nsid != 0 && sqe->nsid != TGT_NSID_ALL)
		return NVME_ST_INVALID_FIELD;
	if (off & 3 || sqe->cdw14 >> 23 & 1) /* OT: no page has an index */
		return NVME_ST_INVALID_FIELD;
	return NVME_ST_OK;
}

static uint16_t log_move(struct tgt_req *req, const uint8_t *buf, uint64_t off, uint64_t len)
{
	uint16_t st = req->sq->ops->data(req, len, MEM_TO_PEER);

	return st == NVME_ST_OK ? tgt_req_iter_put(req, buf + off, (uint32_t)len) : st;
}

void tgt_log_execute(struct tgt_ctrl *c, struct tgt_req *req)
{
	uint8_t buf[LOG_BYTES] __attribute__((aligned(8))), lid = (uint8_t)req->sqe.cdw10;
	uint64_t off = req->sqe.cdw12 | (uint64_t)req->sqe.cdw13 << 32, len;
	bool rae = req->sqe.cdw10 >> 15 & 1;
	uint16_t st = log_check(c, &req->sqe);
	uint32_t bytes;

	len = log_len(&req->sqe);
	if (c->is_discovery && lid == NVME_LOG_LID_DISCOVER) {
		log_discovery(c, req, off, len);
		return;
	}
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	memset(buf, 0, sizeof(buf));
	bytes = log_ops[lid].fill(c, req, buf);
	if (bytes == 0 || off > bytes || (c->mdts && len > (uint64_t)TGT_PAGE << c->mdts))
		st = NVME_ST_INVALID_FIELD;
	else
		st = log_move(req, buf, off, len < bytes - off ? len : bytes - off);
	if (lid == NVME_LOG_LID_CHANGED_NS && (st != NVME_ST_OK || rae))
		changed_restore(c, buf);
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	if (!rae)
		tgt_aer_clear(c, lid);
	tgt_req_complete(req, NVME_ST_OK);
}

void tgt_log_error(struct tgt_ctrl *c, const struct tgt_req *req)
{
	c->errors[c->nr_errors % TGT_ERRORS_MAX] = (struct nvme_error_log_page){
		.error_count = htole64(c->nr_errors + 1),
		.sqid = htole16(req->sq->qid),
		.cmdid = htole16(req->sqe.cid),
		.status_field = htole16(nvme_status_wire(req->status, 0)),
		.parm_error_location = htole16(0xffff), /* not said */
		.nsid = htole32(req->sqe.nsid),
	};
	c->nr_errors++;
}
