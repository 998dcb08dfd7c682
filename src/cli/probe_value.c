/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of `peal probe` that are values: Store, Exist, Retrieve, Delete of keys of our own,
 * every byte compared, seals where the device has them; then the same with data pointers of each
 * shape. See probe.h.
 *
 * Keys are "probe-", a digit and 72 random bits, stored only if absent: what is there already is
 * not touched. Each is deleted again.
 */
/* tidy: no-test: test/peer/probe.py runs it against devices with planted faults */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/probe.h"
#include "peal/seal.h"
#include "peal/vendor.h"

#define VALUE_LARGE 150006u /* 37 pages, three chunks, no whole word at the end */
#define VALUE_NR_SIMPLE 4u
#define VALUE_KEY_PRP2 4u
#define VALUE_KEY_LARGE 5u

static void value_key(struct probe *p, unsigned i, uint32_t bytes)
{
	struct probe_key *k = &p->keys[i];

	*k = (struct probe_key){.bytes = bytes, .tag = (uint16_t)rng_u64(&p->rng)};
	memcpy(k->b, "probe-", 6);
	k->b[6] = (uint8_t)('0' + i);
	rng_fill(&p->rng, k->b + 7, sizeof(k->b) - 7);
}

void probe_value_sqe(const struct probe *p, struct nvme_sqe *sqe, uint8_t opc,
		     const uint8_t key[16])
{
	sqe->opc = opc;
	sqe->nsid = p->nsid;
	nvme_kv_key_set(sqe, key, 16, opc == NVME_KV_STORE ? NVME_KV_STORE_IF_ABSENT : 0);
}

/* A command without data on a key: its status, or -errno. */
static int value_ask(struct probe *p, uint8_t opc, const struct probe_key *k)
{
	struct probe_cmd cmd = {0};
	int err;

	probe_value_sqe(p, &cmd.sqe, opc, k->b);
	err = probe_queue_exec(p, &p->io, &cmd);
	return err ? err : probe_queue_status(&cmd);
}

/* False with a verdict on `layer`, unless the queue has one. */
static bool value_judge(struct probe *p, enum probe_layer layer, const char *what, int res,
			uint16_t want)
{
	if (res == want)
		return true;
	if (res == -EBADMSG)
		return false;
	if (res < 0)
		probe_bad(p, layer, "%s: %s", what, probe_dev_error(res));
	else
		probe_bad(p, layer, "%s: status %03xh, expected %03xh", what, res, want);
	return false;
}

static bool value_store(struct probe *p, enum probe_layer layer, struct probe_key *k,
			enum probe_shape shape)
{
	struct probe_layout l = {.shape = shape, .area = PROBE_AT_OUT, .bytes = k->bytes};
	struct probe_cmd cmd = {0};
	char what[64];
	int err;

	probe_value_sqe(p, &cmd.sqe, NVME_KV_STORE, k->b);
	cmd.sqe.cdw10 = k->bytes;
	probe_data_blank(p, l.area);
	probe_data_lay(p, &l, &cmd.sqe);
	probe_data_fill(p, &l, k);
	k->is_tried = true;
	err = probe_queue_exec(p, &p->io, &cmd);
	snprintf(what, sizeof(what), "Store of %u bytes, %s", k->bytes, probe_shapes[shape]);
	k->is_stored = value_judge(p, layer, what, err ? err : probe_queue_status(&cmd), 0);
	return k->is_stored;
}

static bool value_retrieve(struct probe *p, enum probe_layer layer, const struct probe_key *k,
			   enum probe_shape shape)
{
	struct probe_layout l = {.shape = shape, .area = PROBE_AT_IN, .bytes = k->bytes};
	struct probe_cmd cmd = {0};
	char what[64];
	int err;

	probe_value_sqe(p, &cmd.sqe, NVME_KV_RETRIEVE, k->b);
	cmd.sqe.cdw10 = k->bytes;
	probe_data_blank(p, l.area);
	probe_data_lay(p, &l, &cmd.sqe);
	err = probe_queue_exec(p, &p->io, &cmd);
	snprintf(what, sizeof(what), "Retrieve of %u bytes, %s", k->bytes, probe_shapes[shape]);
	return value_judge(p, layer, what, err ? err : probe_queue_status(&cmd), 0) &&
	       probe_data_check(p, &l, k);
}

/* One stretch of the landing area; two pages at most unless there are SGLs. */
static bool value_stretch(struct probe *p, struct nvme_sqe *sqe, uint32_t bytes)
{
	sqe->cdw10 = bytes;
	sqe->prp1 = PROBE_IOVA + PROBE_AT_IN;
	sqe->prp2 = bytes > PROBE_PAGE ? sqe->prp1 + PROBE_PAGE : 0;
	if (bytes <= 2 * PROBE_PAGE)
		return true;
	sqe->flags = 1 << 6;
	sqe->sgl = (struct nvme_sgl){.addr = PROBE_IOVA + PROBE_AT_IN, .len = bytes};
	return p->sgls & 3;
}

/* The seals that the device tells are those of the bytes that we stored. */
static bool value_seals(struct probe *p, const struct probe_key *k)
{
	static uint8_t value[PROBE_AREA_PAGES * PROBE_PAGE];
	uint32_t nr = (uint32_t)peal_seal_count(k->bytes);
	struct probe_cmd cmd = {0};
	struct peal_retrieve_ex head;
	int err;

	if (!(p->vendor_cmds >> (PEAL_OPC_RETRIEVE_EX - 0x80) & 1))
		return true;
	probe_value_sqe(p, &cmd.sqe, PEAL_OPC_RETRIEVE_EX, k->b);
	cmd.sqe.cdw11 |= (PEAL_RETRIEVE_EX_META | PEAL_RETRIEVE_EX_SEALS) << 8;
	if (!value_stretch(p, &cmd.sqe, PEAL_RETRIEVE_EX_BYTES + nr * 8 + k->bytes))
		return true;
	err = probe_queue_exec(p, &p->io, &cmd);
	if (!value_judge(p, PROBE_VALUE, "RETRIEVE_EX of seals",
			 err ? err : probe_queue_status(&cmd), 0))
		return false;
	memcpy(&head, p->mem + PROBE_AT_IN, sizeof(head));
	if (head.value_bytes != k->bytes || head.nr_seals != nr) {
		probe_bad(p, PROBE_VALUE, "RETRIEVE_EX: %u bytes, %u seals, expected %u and %u",
			  head.value_bytes, head.nr_seals, k->bytes, nr);
		return false;
	}
	probe_data_value(k, value);
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t seal, want = peal_seal(value + (size_t)i * PEAL_CHUNK_BYTES,
						peal_seal_chunk_len(k->bytes, i),
						peal_seal_seed(k->b, 16, i));

		memcpy(&seal, p->mem + PROBE_AT_IN + sizeof(head) + i * 8, sizeof(seal));
		if (seal == want)
			continue;
		probe_bad(p, PROBE_VALUE, "seal of chunk %u is %016llx, expected %016llx", i,
			  (unsigned long long)seal, (unsigned long long)want);
		return false;
	}
	return true;
}

/* One page, aligned: nothing of a data pointer that could go wrong. */
static bool value_one(struct probe *p, unsigned i, uint32_t bytes)
{
	struct probe_key *k = &p->keys[i];

	value_key(p, i, bytes);
	return value_judge(p, PROBE_VALUE, "Exist of a key not yet stored",
			   value_ask(p, NVME_KV_EXIST, k), NVME_ST_KEY_NOT_FOUND) &&
	       value_store(p, PROBE_VALUE, k, PROBE_PRP1) &&
	       value_judge(p, PROBE_VALUE, "Exist of a key just stored",
			   value_ask(p, NVME_KV_EXIST, k), NVME_ST_OK);
}

void probe_value_simple(struct probe *p)
{
	static const uint32_t sizes[VALUE_NR_SIMPLE] = {64, 1001, 2222, 4096};
	struct probe_key *first = &p->keys[0];

	for (unsigned i = 0; i < VALUE_NR_SIMPLE; i++)
		if (!value_one(p, i, sizes[i]))
			return;
	for (unsigned i = 0; i < VALUE_NR_SIMPLE; i++)
		if (!value_retrieve(p, PROBE_VALUE, &p->keys[i], PROBE_PRP1) ||
		    !value_seals(p, &p->keys[i]))
			return;
	/* Another key than the one that is deleted must not go with it. */
	if (!value_judge(p, PROBE_VALUE, "Delete", value_ask(p, NVME_KV_DELETE, first), 0))
		return;
	first->is_stored = false;
	if (!value_judge(p, PROBE_VALUE, "Retrieve of a deleted key",
			 value_ask(p, NVME_KV_RETRIEVE, first), NVME_ST_KEY_NOT_FOUND) ||
	    !value_retrieve(p, PROBE_VALUE, &p->keys[1], PROBE_PRP1))
		return;
	probe_good(p, PROBE_VALUE, "stored, retrieved, compared%s, deleted",
		   p->vendor_cmds >> (PEAL_OPC_RETRIEVE_EX - 0x80) & 1 ? ", seals checked" : "");
}

/* ---- data pointers ---- */

/* Out by one shape, back by another: an error that undoes itself on the way back shows. */
static bool value_pair(struct probe *p, unsigned i, enum probe_shape out, enum probe_shape in)
{
	struct probe_key *k = &p->keys[i];
	uint32_t bytes = i == VALUE_KEY_PRP2 ? 5000 : VALUE_LARGE;

	if (bytes > p->data_max)
		bytes = (uint32_t)(p->data_max - 2);
	value_key(p, i, bytes);
	if (!value_store(p, PROBE_DATA, k, out) || !value_retrieve(p, PROBE_DATA, k, in) ||
	    !value_seals(p, k))
		return false;
	if (!value_judge(p, PROBE_VALUE, "Delete", value_ask(p, NVME_KV_DELETE, k), 0))
		return false;
	k->is_stored = k->is_tried = false;
	return true;
}

void probe_value_layouts(struct probe *p)
{
	bool has_sgl = (p->sgls & 3) != 0, has_prp2 = p->data_max > 5000;

	if (p->lines[PROBE_DATA].verdict == PROBE_BAD || !has_prp2)
		return;
	if (!value_pair(p, VALUE_KEY_PRP2, PROBE_PRP2, PROBE_PRP2))
		return;
	if (p->data_max > 3 * PROBE_PAGE &&
	    (!value_pair(p, VALUE_KEY_LARGE, PROBE_PRP_LIST, PROBE_PRP_CHAIN) ||
	     !value_pair(p, VALUE_KEY_LARGE, PROBE_PRP_CHAIN, PROBE_PRP_LIST)))
		return;
	if (has_sgl && (!value_pair(p, VALUE_KEY_LARGE, PROBE_SGL_BLOCK, PROBE_SGL_SEGMENTS) ||
			!value_pair(p, VALUE_KEY_LARGE, PROBE_SGL_SEGMENTS, PROBE_SGL_BLOCK)))
		return;
	probe_good(p, PROBE_DATA,
		   "PRP1, PRP2, lists, lists over two pages%s: bytes where they belong",
		   has_sgl ? ", SGL blocks and segments" : " (no SGL here)");
}

/* ---- clean-up ---- */

static bool value_is_gone(struct probe *p, const struct probe_key *k)
{
	int res = value_ask(p, NVME_KV_DELETE, k);

	if (res != 0 && res != NVME_ST_KEY_NOT_FOUND)
		return false;
	return value_ask(p, NVME_KV_EXIST, k) == NVME_ST_KEY_NOT_FOUND;
}

unsigned probe_value_delete(struct probe *p)
{
	unsigned nr_left = 0;

	for (unsigned i = 0; i < PROBE_NR_KEYS; i++)
		if (p->keys[i].is_tried && !value_is_gone(p, &p->keys[i]))
			nr_left++;
	return nr_left;
}
