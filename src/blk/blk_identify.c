/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Identify says of a block namespace: CNS 00h (NVM Command Set 1.0, 4.1.5.1), 05h, 06h, 08h.
 * One format, no metadata; blocks that were deallocated read as zeros. Home worker.
 */
#include <nvme/types.h>

#include "base/container.h"
#include "base/le.h"
#include "blk/blk_int.h"

#define IDENTIFY_UNIT 4096u /* what the file system below likes best */

static void identify_nvm(const struct blk_ns *bn, struct nvme_id_ns *id)
{
	uint16_t unit = (uint16_t)((IDENTIFY_UNIT >> bn->lba_shift) - 1);

	id->nsze = htole64(bn->nr_lbas);
	id->ncap = id->nsze;
	id->nuse = id->nsze;
	id->nsfeat = NVME_NS_FEAT_IO_OPT;
	id->nmic = 1;		 /* several controllers may be attached */
	id->dlfeat = 1 | 1 << 3; /* zeros; Write Zeroes may deallocate */
	le64_put(id->nvmcap, bn->nr_lbas << bn->lba_shift);
	id->npwg = htole16(unit);
	id->npwa = htole16(unit);
	id->npdg = htole16(unit);
	id->npda = htole16(unit);
	memcpy(id->nguid, bn->ns.nguid, sizeof(id->nguid));
	id->lbaf[0].ds = (uint8_t)bn->lba_shift;
}

uint16_t blk_identify(struct tgt_ns *ns, uint8_t cns, void *buf)
{
	const struct blk_ns *bn = container_of(ns, struct blk_ns, ns);
	uint8_t *b = buf;

	switch (cns) {
	case NVME_IDENTIFY_CNS_NS:
		identify_nvm(bn, buf);
		return NVME_ST_OK;
	case NVME_IDENTIFY_CNS_CSI_NS: /* no protection information, no extended formats */
	case NVME_IDENTIFY_CNS_CSI_CTRL:
		return NVME_ST_OK;
	case NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS:
		b[1] = 1;  /* NMIC */
		b[14] = 1; /* NSTAT.NRDY */
		return NVME_ST_OK;
	default:
		return NVME_ST_INVALID_FIELD;
	}
}
