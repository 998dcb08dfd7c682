/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVM command set as the target registers it: command effects (log 05h, CSI 0), Identify of
 * the command set (CNS 06h: no limits of its own, so all zeros) and its bits of ONCS. Constant.
 * tidy: no-test: t_blk_identify.c looks at what it says
 */
#include <nvme/types.h>

#include "blk/blk_int.h"

/* A plain user with rights on the device node may do I/O: nothing but CSUPP and LBCC. */
static void csi_effects(uint32_t iocs[256])
{
	iocs[BLK_FLUSH] = NVME_KV_EFFECT_READ;
	iocs[BLK_READ] = NVME_KV_EFFECT_READ;
	iocs[BLK_COMPARE] = NVME_KV_EFFECT_READ;
	iocs[BLK_WRITE] = NVME_KV_EFFECT_WRITE;
	iocs[BLK_WRITE_ZEROES] = NVME_KV_EFFECT_WRITE;
	iocs[BLK_DSM] = NVME_KV_EFFECT_WRITE;
}

static const struct tgt_csi_ops csi_ops = {
	.csi = NVME_CSI_NVM,
	.effects = csi_effects,
	.oncs = NVME_CTRL_ONCS_COMPARE | NVME_CTRL_ONCS_DSM | NVME_CTRL_ONCS_WRITE_ZEROES,
};

const struct tgt_csi_ops *blk_csi(void)
{
	return &csi_ops;
}
