/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify of a KV namespace and of the command set, and the command effects. What hosts look at:
 * Linux takes CNS 08h (NSTAT.NRDY) and log 05h; SPDK takes CNS 00h (NCAP must not be 0, even for
 * KV), then CNS 05h with CSI 1.
 * tidy: no-test: t_kv_ns.c looks at what it says
 */
#include "base/container.h"
#include "base/le.h"
#include "kv/kv_int.h"

#define KV_VENDOR_COMMANDS \
	(1u << (PEAL_OPC_STORE_EX - 0x80) | 1u << (PEAL_OPC_RETRIEVE_EX - 0x80) | \
	 1u << (PEAL_OPC_MATCH - 0x80) | 1u << (PEAL_OPC_LEASE - 0x80) | \
	 1u << (PEAL_OPC_RELEASE - 0x80) | 1u << (PEAL_OPC_HINT - 0x80))

static void identify_vendor(const struct kv_ns *kn, struct peal_id_vendor *v)
{
	v->magic = PEAL_ID_MAGIC;
	v->version = 1;
	v->chunk_shift = 16;
	v->commands = KV_VENDOR_COMMANDS;
	v->flags = kn->opts.is_immutable ? PEAL_ID_IMMUTABLE : 0;
	v->match_max = PEAL_MATCH_MAX;
	v->lease_bytes_max_mib = KV_LEASE_CTRL_MIB_MAX;
	v->lease_ms_max = KV_LEASE_MS_MAX;
	v->nr_segments = kn->nr_segments;
}

static void identify_kv(struct kv_ns *kn, struct nvme_kv_id_ns *id)
{
	kn->ns.ops->sizes(&kn->ns, &id->nsze, &id->nuse);
	id->nmic = 1; /* several controllers may be attached */
	id->novg = 4096;
	memcpy(id->nguid, kn->ns.nguid, 16);
	id->kvf[0].kml = NVME_KV_KEY_MAX;
	id->kvf[0].vml = kn->opts.value_max;
	id->kvf[0].mnks = kn->max_keys;
	identify_vendor(kn, (struct peal_id_vendor *)id->vs);
}

/*
 * CNS 00h: sizes in blocks of 512 with a format that no block host can use (LBADS 0), NCAP not 0.
 */
static void identify_nvm(struct kv_ns *kn, uint8_t *buf)
{
	uint64_t capacity, used;

	kn->ns.ops->sizes(&kn->ns, &capacity, &used);
	le64_put(buf, capacity / 512);
	le64_put(buf + 8, capacity / 512);
	le64_put(buf + 16, used / 512);
	buf[30] = 1; /* NMIC */
	memcpy(buf + 104, kn->ns.nguid, 16);
}

uint16_t kv_identify(struct tgt_ns *ns, uint8_t cns, void *buf)
{
	struct kv_ns *kn = container_of(ns, struct kv_ns, ns);
	uint8_t *b = buf;

	switch (cns) {
	case 0x00:
		identify_nvm(kn, buf);
		return NVME_ST_OK;
	case 0x05:
		identify_kv(kn, buf);
		return NVME_ST_OK;
	case 0x06: /* per-namespace part of the I/O command set: none */
		return NVME_ST_OK;
	case 0x08:
		b[1] = 1;  /* NMIC */
		b[14] = 1; /* NSTAT.NRDY */
		return NVME_ST_OK;
	default:
		return NVME_ST_INVALID_FIELD;
	}
}
