/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake daemon's commands: admin as far as libpeal uses it, and the KV set with the vendor
 * commands over an array of entries and a bump-allocated arena. In the fake's thread.
 */
#include "fake_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "peal/seal.h"

#define FAKE_MATCH_MAX 64

struct fake_entry *fake_kv_find(struct fake *f, const uint8_t *key, uint8_t len)
{
	for (unsigned i = 0; i < f->nr_entries; i++)
		if (f->entries[i].key_len == len && memcmp(f->entries[i].key, key, len) == 0)
			return &f->entries[i];
	return NULL;
}

static uint64_t fake_kv_seal(struct fake *f, const struct fake_entry *e, uint64_t chunk)
{
	return hash_xxh3(f->arena + e->at + chunk * PEAL_CHUNK_BYTES,
			 peal_seal_chunk_len(e->bytes, chunk),
			 peal_seal_seed(e->key, e->key_len, chunk));
}

static bool fake_kv_is_good(struct fake *f, const struct fake_entry *e)
{
	for (uint64_t i = 0; i < peal_seal_count(e->bytes); i++)
		if (fake_kv_seal(f, e, i) != e->seals[i])
			return false;
	return true;
}

/* Is there room where the entry's old bytes lie? Nobody has a lease on them, or ever had. */
static bool fake_kv_has_room(const struct fake *f, const struct fake_entry *e, uint32_t bytes)
{
	return e && !f->lease_id && (bytes + 4095) / 4096 == (e->bytes + 4095) / 4096;
}

static uint16_t fake_kv_store(struct fake *f, const struct nvme_sqe *sqe, uint32_t head)
{
	uint8_t opts = nvme_kv_options(sqe), key[16];
	uint32_t bytes = sqe->cdw10 - head;
	struct fake_entry *e;
	uint64_t at;
	uint8_t *data;

	nvme_kv_key_get(sqe, key);
	e = fake_kv_find(f, key, nvme_kv_key_len(sqe));
	if (opts & NVME_KV_STORE_IF_ABSENT && e)
		return NVME_ST_KEY_EXISTS;
	if (opts & NVME_KV_STORE_IF_EXISTS && !e)
		return NVME_ST_KEY_NOT_FOUND;
	at = fake_kv_has_room(f, e, bytes) ? e->at : f->arena_next;
	if (at + bytes > FAKE_ARENA_BYTES || (!e && f->nr_entries == FAKE_ENTRIES_MAX))
		return NVME_ST_CAPACITY_EXCEEDED;
	data = malloc(sqe->cdw10);
	if (!fake_xfer(f, sqe, data, sqe->cdw10, false)) {
		free(data);
		return NVME_ST_DATA_TRANSFER;
	}
	if (!e)
		e = &f->entries[f->nr_entries++];
	free(e->seals);
	memset(e, 0, sizeof(*e));
	memcpy(e->key, key, 16);
	e->key_len = nvme_kv_key_len(sqe);
	e->bytes = bytes;
	e->at = at;
	if (at == f->arena_next)
		f->arena_next += (bytes + 4095) & ~4095u;
	e->version = ++f->next_version;
	if (head)
		memcpy(&e->ex, data, head);
	memcpy(f->arena + e->at, data + head, bytes);
	free(data);
	e->seals = calloc(peal_seal_count(bytes), sizeof(uint64_t));
	for (uint64_t i = 0; i < peal_seal_count(bytes); i++)
		e->seals[i] = fake_kv_seal(f, e, i);
	return NVME_ST_OK;
}

static uint16_t fake_kv_retrieve_ex(struct fake *f, const struct nvme_sqe *sqe,
				    struct fake_entry *e, struct nvme_cqe *cqe)
{
	uint64_t off = (uint64_t)sqe->cdw12 * 4096;
	uint32_t head = nvme_kv_options(sqe) & PEAL_RETRIEVE_EX_META ? PEAL_RETRIEVE_EX_BYTES : 0;
	uint32_t room = sqe->cdw10 - head;
	uint32_t left = off < e->bytes ? e->bytes - (uint32_t)off : 0;
	uint32_t n = left < room ? left : room;
	struct peal_retrieve_ex x = {
		.version = e->version,
		.value_bytes = e->bytes,
		.cls = e->ex.cls,
		.parent_len = e->ex.parent_len,
		.group_len = e->ex.group_len,
		.cost_us = e->ex.cost_us,
	};
	uint8_t *data;
	bool ok;

	if (sqe->cdw13 && sqe->cdw13 != (uint32_t)e->version)
		return NVME_ST_KEY_NOT_FOUND;
	if (!left || sqe->cdw10 < head || !sqe->cdw10)
		return NVME_ST_INVALID_FIELD;
	memcpy(x.parent, e->ex.parent, 16);
	memcpy(x.group, e->ex.group, 16);
	memcpy(x.tag, e->ex.tag, PEAL_TAG_BYTES);
	data = malloc(head + n + 1);
	memcpy(data, &x, head);
	memcpy(data + head, f->arena + e->at + off, n);
	ok = fake_xfer(f, sqe, data, head + n, true);
	free(data);
	cqe->dw0 = n;
	cqe->dw1 = (uint32_t)e->version;
	if (f->is_churning)
		e->version = ++f->next_version;
	return ok ? NVME_ST_OK : NVME_ST_DATA_TRANSFER;
}

static uint16_t fake_kv_lease(struct fake *f, const struct nvme_sqe *sqe, struct fake_entry *e,
			      struct nvme_cqe *cqe)
{
	/* Two extents, cut where no chunk ends, as soon as there are two chunks. */
	uint32_t cut = e->bytes > 2 * PEAL_CHUNK_BYTES ? 100000 : 0;
	struct {
		struct peal_wire_lease l;
		struct peal_wire_extent x[2];
		uint64_t seals[2048];
	} * r;
	uint32_t nr_seals = (uint32_t)peal_seal_count(e->bytes), nr_ext = cut ? 2 : 1;
	uint32_t head = (uint32_t)(sizeof(r->l) + nr_ext * sizeof(r->x[0]));
	bool ok;

	if (f->no_arena)
		return NVME_ST_INVALID_OPCODE;
	cqe->dw0 = head + nr_seals * 8;
	if (cqe->dw0 > sqe->cdw10)
		return NVME_ST_OK;
	r = calloc(1, sizeof(*r));
	r->l = (struct peal_wire_lease){++f->lease_id, e->version, e->bytes,
					2000,	       nr_ext,	   nr_seals};
	if (f->has_lease_0)
		r->l.version = 0;
	r->x[0] = (struct peal_wire_extent){0, cut ? cut : e->bytes, e->at};
	r->x[1] = (struct peal_wire_extent){0, e->bytes - cut, e->at + cut};
	memcpy((uint8_t *)r + head, e->seals, nr_seals * 8ul);
	ok = fake_xfer(f, sqe, r, cqe->dw0, true);
	free(r);
	return ok ? NVME_ST_OK : NVME_ST_DATA_TRANSFER;
}

static uint16_t fake_kv_match(struct fake *f, const struct nvme_sqe *sqe, struct nvme_cqe *cqe)
{
	struct peal_wire_key keys[FAKE_MATCH_MAX];
	uint32_t nr = sqe->cdw10 / sizeof(keys[0]), n = 0;

	if (nr > FAKE_MATCH_MAX || sqe->cdw10 % sizeof(keys[0]))
		return NVME_ST_INVALID_FIELD;
	if (!fake_xfer(f, sqe, keys, sqe->cdw10, false))
		return NVME_ST_DATA_TRANSFER;
	while (n < nr && fake_kv_find(f, keys[n].b, keys[n].len))
		n++;
	cqe->dw0 = n | n << 16;
	return NVME_ST_OK;
}

/* In insertion order; a key that isn't there starts over, which is not what a real store does. */
static uint16_t fake_kv_list(struct fake *f, const struct nvme_sqe *sqe)
{
	uint8_t key[16], data[65536] = {0};
	uint32_t at = 4, nrk = 0, room = sqe->cdw10 < sizeof(data) ? sqe->cdw10 : sizeof(data);
	struct fake_entry *e;
	unsigned i;

	nvme_kv_key_get(sqe, key);
	e = fake_kv_find(f, key, nvme_kv_key_len(sqe));
	for (i = e ? (unsigned)(e - f->entries) : 0; i < f->nr_entries && nrk < 100; i++) {
		e = &f->entries[i];
		if (at + nvme_kv_list_entry_bytes(e->key_len) > room)
			break;
		le16_put(data + at, e->key_len);
		memcpy(data + at + 2, e->key, e->key_len);
		at += nvme_kv_list_entry_bytes(e->key_len);
		nrk++;
	}
	le32_put(data, nrk);
	return fake_xfer(f, sqe, data, at, true) ? NVME_ST_OK : NVME_ST_DATA_TRANSFER;
}

static uint16_t fake_kv_run(struct fake *f, const struct nvme_sqe *sqe, struct nvme_cqe *cqe)
{
	struct fake_entry *e;
	uint8_t key[16];
	uint32_t n;

	nvme_kv_key_get(sqe, key);
	e = fake_kv_find(f, key, nvme_kv_key_len(sqe));
	switch (sqe->opc) {
	case NVME_KV_FLUSH:
	case PEAL_OPC_RELEASE:
		return NVME_ST_OK;
	case NVME_KV_STORE:
		return fake_kv_store(f, sqe, 0);
	case PEAL_OPC_STORE_EX:
		return fake_kv_store(f, sqe, PEAL_STORE_EX_BYTES);
	case NVME_KV_LIST:
		return fake_kv_list(f, sqe);
	case PEAL_OPC_MATCH:
		return fake_kv_match(f, sqe, cqe);
	default:
		break;
	}
	if (!e)
		return NVME_ST_KEY_NOT_FOUND;
	switch (sqe->opc) {
	case NVME_KV_EXIST:
		return NVME_ST_OK;
	case NVME_KV_DELETE:
		free(e->seals);
		*e = f->entries[--f->nr_entries];
		f->entries[f->nr_entries].seals = NULL;
		return NVME_ST_OK;
	case PEAL_OPC_LEASE:
		return fake_kv_lease(f, sqe, e, cqe);
	default:
		break;
	}
	if (!fake_kv_is_good(f, e))
		return NVME_ST_KEY_NOT_FOUND;
	if (sqe->opc == PEAL_OPC_RETRIEVE_EX)
		return fake_kv_retrieve_ex(f, sqe, e, cqe);
	if (sqe->opc != NVME_KV_RETRIEVE)
		return NVME_ST_INVALID_OPCODE;
	cqe->dw0 = e->bytes;
	n = e->bytes < sqe->cdw10 ? e->bytes : sqe->cdw10;
	return fake_xfer(f, sqe, f->arena + e->at, n, true) ? NVME_ST_OK : NVME_ST_DATA_TRANSFER;
}

void fake_kv_io(struct fake *f, const struct nvme_sqe *sqe, struct nvme_cqe *cqe)
{
	uint32_t fail = atomic_load(&f->fail_next);
	bool is_vendor = sqe->opc >= 0x80;

	atomic_fetch_add(&f->nr_cmds[sqe->opc], 1);
	if (fail && fail >> 16 == sqe->opc) {
		atomic_store(&f->fail_next, 0);
		cqe->status = (uint16_t)(fail & 0xffff);
	} else if (is_vendor && f->no_vendor) {
		cqe->status = NVME_ST_INVALID_OPCODE;
	} else {
		cqe->status = fake_kv_run(f, sqe, cqe);
	}
}

/* ---- admin ---- */

static void fake_kv_id_ns(struct fake *f, uint32_t nsid, uint8_t *buf)
{
	struct nvme_kv_id_ns *id = (struct nvme_kv_id_ns *)buf;
	struct peal_id_vendor v = {
		.magic = PEAL_ID_MAGIC,
		.version = 1,
		.chunk_shift = 16,
		.commands = 1ull << 1 | 1ull << 2 | 1ull << 5 | 1ull << 0xa | 1ull << 0xc,
		.match_max = FAKE_MATCH_MAX,
		.lease_ms_max = 2000,
		.nr_segments = 1,
	};

	id->nsze = f->ns_bytes[nsid - 1];
	id->nuse = f->arena_next;
	id->kvf[0] = (struct nvme_kv_format){.kml = 16, .vml = PEAL_VALUE_MAX};
	if (f->value_max)
		id->kvf[0].vml = f->value_max;
	if (!f->no_vendor)
		memcpy(id->vs, &v, sizeof(v));
}

static uint16_t fake_kv_identify(struct fake *f, const struct nvme_sqe *sqe)
{
	uint8_t buf[4096] = {0};
	unsigned n = 0;

	switch (sqe->cdw10 & 0xff) {
	case 0x01:
		buf[77] = f->mdts;
		le32_put(buf + 536, f->no_sgl ? 0 : 1);
		memcpy(buf + 768, "nqn.2025-01.test:fake", 21);
		break;
	case 0x05:
		if (!sqe->nsid || sqe->nsid > FAKE_NS_MAX || !f->ns_bytes[sqe->nsid - 1])
			return NVME_ST_INVALID_NS;
		fake_kv_id_ns(f, sqe->nsid, buf);
		break;
	case 0x07:
		for (uint32_t i = 0; i < FAKE_NS_MAX; i++)
			if (f->ns_bytes[i])
				le32_put(buf + 4 * n++, i + 1);
		break;
	default:
		return NVME_ST_INVALID_FIELD;
	}
	return fake_xfer(f, sqe, buf, sizeof(buf), true) ? NVME_ST_OK : NVME_ST_DATA_TRANSFER;
}

static uint16_t fake_kv_create_queue(struct fake *f, const struct nvme_sqe *sqe)
{
	uint32_t qid = sqe->cdw10 & 0xffff, size = (sqe->cdw10 >> 16) + 1;
	bool is_cq = sqe->opc == 0x05;
	struct fake_queue *q;
	uint8_t *p = fake_ptr(f, sqe->prp1, size * (is_cq ? 16ull : 64ull));

	if (!qid || qid > f->nr_queues || !p)
		return NVME_ST_QID_INVALID;
	q = &f->q[qid];
	if (is_cq ? q->cq != NULL : q->sq != NULL)
		return NVME_ST_QID_INVALID; /* there is one */
	if (is_cq) {
		*q = (struct fake_queue){.cq = p, .cq_size = size, .phase = 1};
		q->has_irq = sqe->cdw11 >> 1 & 1;
		q->vector = sqe->cdw11 >> 16;
	} else {
		q->sq_size = size;
		q->sq_head = 0;
		q->sq = p;
	}
	/* A new queue's doorbells start at 0. */
	memset(f->bar + VFU_DOORBELL_OFFSET + (uint64_t)(2 * qid + is_cq) * f->stride, 0, 4);
	return NVME_ST_OK;
}

static uint16_t fake_kv_ns_manage(struct fake *f, const struct nvme_sqe *sqe, struct nvme_cqe *cqe)
{
	uint8_t data[4096];

	if (sqe->cdw10 == 1) {
		if (!sqe->nsid || sqe->nsid > FAKE_NS_MAX || !f->ns_bytes[sqe->nsid - 1])
			return NVME_ST_INVALID_NS;
		f->ns_bytes[sqe->nsid - 1] = 0;
		return NVME_ST_OK;
	}
	if (!fake_xfer(f, sqe, data, sizeof(data), false))
		return NVME_ST_DATA_TRANSFER;
	for (uint32_t i = 0; i < FAKE_NS_MAX; i++) {
		if (f->ns_bytes[i])
			continue;
		f->ns_bytes[i] = le64_get(data);
		cqe->dw0 = i + 1;
		return NVME_ST_OK;
	}
	return NVME_ST_NS_ID_UNAVAILABLE;
}

static uint16_t fake_kv_log(struct fake *f, const struct nvme_sqe *sqe)
{
	uint8_t data[4096];
	uint32_t bytes = ((sqe->cdw10 >> 16) + 1) * 4;

	/* A page whose bytes say where they are. */
	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(sqe->cdw10 + (sqe->cdw12 + i) / 256);
	return fake_xfer(f, sqe, data, bytes, true) ? NVME_ST_OK : NVME_ST_DATA_TRANSFER;
}

void fake_kv_admin(struct fake *f, const struct nvme_sqe *sqe, struct nvme_cqe *cqe)
{
	atomic_fetch_add(&f->nr_admin[sqe->opc], 1);
	switch (sqe->opc) {
	case 0x00:
		f->q[sqe->cdw10 & 0x3f].sq = NULL;
		break;
	case 0x04:
		if (f->q[sqe->cdw10 & 0x3f].sq)
			cqe->status = NVME_ST_INVALID_QUEUE_DELETION;
		else
			f->q[sqe->cdw10 & 0x3f].cq = NULL;
		break;
	case 0x01:
	case 0x05:
		cqe->status = fake_kv_create_queue(f, sqe);
		break;
	case 0x02:
		cqe->status = fake_kv_log(f, sqe);
		break;
	case 0x06:
		cqe->status = fake_kv_identify(f, sqe);
		break;
	case 0x09:
		cqe->dw0 = (f->nr_queues - 1) << 16 | (f->nr_queues - 1);
		break;
	case 0x0d:
		cqe->status = fake_kv_ns_manage(f, sqe, cqe);
		break;
	case PEAL_OPC_ADMIN_NS_RESIZE:
		f->ns_bytes[sqe->nsid - 1] = (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;
		break;
	default:
		cqe->status = NVME_ST_INVALID_OPCODE;
		break;
	}
}
