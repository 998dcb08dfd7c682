/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is it what was asked for? What a read brought is compared with the index and with itself: the
 * head must be that of this key, version and piece, written at this address in this life of the
 * segment; every chunk of the payload must fit its seal. Runs on the shard's owner.
 * tidy: no-test: test/model/m_ssd has disks that lie in every way
 */
#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/hash.h"
#include "peal/seal.h"
#include "store/ssd/ssd_int.h"

int ssd_check_head(struct ssd_read *r)
{
	const struct ssd_rec_info *ri = &r->ri;

	if (ri->kind != SSD_REC_VALUE || ri->key.len != r->key.len ||
	    memcmp(ri->key.b, r->key.b, 16) != 0 || ri->ver != r->ver ||
	    ri->value_len != r->value_len || ri->piece != r->piece ||
	    (uint64_t)r->first * MEM_CHUNK_BYTES + r->want > ri->payload_len)
		return -EILSEQ;
	return r->is_small || ri->payload_off == SSD_BLOCK ? 0 : -EILSEQ;
}

int ssd_check_parse(struct ssd_read *r, uint32_t room)
{
	struct ssd_bind b = ssd_seg_bind(r->s, r->seg,
					 (uint64_t)r->off * SSD_GRANULE +
						 (uint64_t)r->piece * SSD_PIECE_STRIDE);
	const uint8_t *rec = r->mem + r->skip;

	if (ssd_format_rec_check(rec, room, &b, &r->ri) || ssd_check_head(r))
		return -EILSEQ;
	ssd_format_rec_seals(rec, &r->ri, r->seals);
	ssd_format_rec_meta(rec, &r->ri, &r->meta);
	r->has_head = true;
	return 0;
}

static bool check_payload_fits(const struct ssd_read *r)
{
	uint64_t first = (uint64_t)r->piece * SSD_PIECE_SEALS + r->first;
	const uint64_t *seals = r->seals + r->first;
	uint32_t n;

	for (uint32_t off = 0, c = 0; off < r->want; off += n, c++) {
		n = min_t(uint32_t, r->want - off, MEM_CHUNK_BYTES);
		if (hash_xxh3(r->payload + off, n, peal_seal_seed_at(r->key.hash, first + c)) !=
		    seals[c])
			return false;
	}
	return true;
}

int ssd_check_whole(struct ssd_read *r, int res)
{
	uint32_t room = (uint32_t)r->iov.iov_len - r->skip;
	int err;

	if (res < 0)
		return res;
	if ((uint32_t)res != r->iov.iov_len)
		return -EIO;
	err = ssd_check_parse(r, room);
	if (err || r->ri.payload_off + r->want > room)
		return -EILSEQ;
	r->payload = r->mem + r->skip + r->ri.payload_off;
	return check_payload_fits(r) ? 0 : -EILSEQ;
}

int ssd_check_parts(struct ssd_read *r)
{
	if (r->err)
		return r->err;
	if (r->is_small) {
		if (r->ri.payload_off + r->want > (uint32_t)r->iov.iov_len - r->skip)
			return -EILSEQ;
		r->payload = r->mem + r->skip + r->ri.payload_off;
	}
	/* The end of a value, up to the next block: it came by the slot. */
	if (r->tail)
		memcpy(r->payload + r->want - r->tail, r->mem + SSD_BLOCK, r->tail);
	return check_payload_fits(r) ? 0 : -EILSEQ;
}
