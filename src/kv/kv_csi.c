/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The KV command set as the target registers it: command effects (log 05h, CSI 1), Identify of the
 * command set (CNS 06h) and the making of namespaces by Namespace Management. The home reactor.
 * tidy: no-test: t_kv_ns.c looks at what it says
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/le.h"
#include "kv/kv_int.h"

struct kv_csi {
	struct tgt_csi_ops ops;
	struct tgt_subsys *subsys;
	struct kv_ns_opts defaults;
	uint32_t nr_made;
};

/*
 * A plain user with rights on the device node may do KV I/O: nothing but CSUPP and LBCC (Linux
 * nvme_cmd_allowed()).
 */
static void csi_effects(uint32_t iocs[256])
{
	static const uint8_t reads[] = {NVME_KV_RETRIEVE, NVME_KV_LIST,		NVME_KV_EXIST,
					NVME_KV_FLUSH,	  PEAL_OPC_RETRIEVE_EX, PEAL_OPC_MATCH,
					PEAL_OPC_LEASE,	  PEAL_OPC_RELEASE,	PEAL_OPC_HINT};
	static const uint8_t writes[] = {NVME_KV_STORE, NVME_KV_DELETE, PEAL_OPC_STORE_EX};

	for (unsigned i = 0; i < ARRAY_SIZE(reads); i++)
		iocs[reads[i]] = NVME_KV_EFFECT_READ;
	for (unsigned i = 0; i < ARRAY_SIZE(writes); i++)
		iocs[writes[i]] = NVME_KV_EFFECT_WRITE;
}

/* KV Command Set 1.3: bytes 3:0 are the version; zero before. */
static uint16_t csi_identify(void *buf)
{
	le32_put(buf, 0x00010300);
	return NVME_ST_OK;
}

static void csi_create(void *arg, struct reactor *home, uint64_t bytes,
		       void (*done)(void *arg, uint16_t st, struct tgt_ns *ns), void *done_arg)
{
	struct kv_csi *csi = arg;
	struct kv_ns_opts o = csi->defaults;
	struct tgt_ns *ns = NULL;
	char name[32];
	int err;

	snprintf(name, sizeof(name), "made-%u", ++csi->nr_made);
	o.name = name;
	o.dram_bytes = bytes;
	o.max_keys = 0;
	err = kv_ns_create(csi->subsys, &o, &ns);
	if (err == -ENOSPC || err == -ENOMEM)
		done(done_arg, NVME_ST_NS_INSUFFICIENT_CAPACITY, NULL);
	else
		done(done_arg, err ? NVME_ST_INVALID_FIELD : NVME_ST_OK, ns);
}

const struct tgt_csi_ops *kv_csi_create(struct tgt_subsys *ss, const struct kv_ns_opts *defaults)
{
	struct kv_csi *csi = calloc(1, sizeof(*csi));

	if (!csi)
		return NULL;
	csi->subsys = ss;
	csi->defaults = *defaults;
	csi->defaults.name = NULL;
	csi->ops = (struct tgt_csi_ops){
		.csi = 1,
		.effects = csi_effects,
		.identify_ctrl = csi_identify,
		.create = csi_create,
		.arg = csi,
	};
	return &csi->ops;
}

void kv_csi_destroy(const struct tgt_csi_ops *csi)
{
	if (csi)
		free(container_of(csi, struct kv_csi, ops));
}
