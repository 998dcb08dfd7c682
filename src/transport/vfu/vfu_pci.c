/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PCI configuration space of one controller: a type 0 header and the capabilities PM, MSI-X
 * and PCI Express. Reads copy bytes; a write passes a byte mask, which also is how BAR sizing
 * works (PCI Local Bus 3.0, 6.2.5.1). Whoever is the client emulates what it must (QEMU does BARs
 * and MSI-X itself). Run by the home reactor.
 *
 *   0x00 header   BAR0, 64 bit: registers, doorbells, wake page. BAR4, 32 bit: MSI-X table and PBA
 *   0x40 PM       0x50 MSI-X       0x60 PCI Express (endpoint)
 *
 * No INTx (interrupt pin 0), no MSI, no function level reset (DEVICE_RESET is there for that).
 */
#include <linux/pci_regs.h>
#include <string.h>
#include "base/le.h"
#include "transport/vfu/vfu_int.h"

#define VFU_PCI_PM 0x40u
#define VFU_PCI_MSIX 0x50u
#define VFU_PCI_EXP 0x60u

/*
 * Our own id. The stock NVMe drivers bind by class and look at ids for quirks only; neither
 * 1d1d:1f1f (SPDK takes it for an Open-Channel device) nor 1b36:0010 (QEMU's own controller: Linux
 * then distrusts its namespace ids) would do.
 */
#define VFU_PCI_VENDOR TGT_PCI_VID /* Identify Controller says the same */
#define VFU_PCI_DEVICE 0x414cu

static uint8_t vfu_pci_bar_mask(uint32_t off)
{
	uint64_t mask0 = ~(uint64_t)(VFU_BAR0_BYTES - 1);
	uint32_t mask4 = ~(VFU_MSIX_BYTES - 1);

	if (off < PCI_BASE_ADDRESS_2)
		return (uint8_t)(mask0 >> 8 * (off - PCI_BASE_ADDRESS_0));
	if (off >= PCI_BASE_ADDRESS_4 && off < PCI_BASE_ADDRESS_5)
		return (uint8_t)(mask4 >> 8 * (off - PCI_BASE_ADDRESS_4));
	return 0;
}

/* Bits of a byte that a client may change. */
static uint8_t vfu_pci_mask(uint32_t off)
{
	if (off >= PCI_BASE_ADDRESS_0 && off < PCI_CARDBUS_CIS)
		return vfu_pci_bar_mask(off);
	switch (off) {
	case PCI_COMMAND:
		return PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY;
	case PCI_COMMAND + 1:
		return (PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE) >> 8;
	case PCI_CACHE_LINE_SIZE:
	case PCI_INTERRUPT_LINE:
		return 0xff;
	case VFU_PCI_PM + PCI_PM_CTRL:
		return PCI_PM_CTRL_STATE_MASK;
	case VFU_PCI_MSIX + PCI_MSIX_FLAGS + 1:
		return (PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL) >> 8;
	case VFU_PCI_EXP + PCI_EXP_DEVCTL:
		return 0xff;
	case VFU_PCI_EXP + PCI_EXP_DEVCTL + 1:
		return 0x7f;
	case VFU_PCI_EXP + PCI_EXP_LNKCTL:
		return PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_CCC;
	default:
		return 0;
	}
}

static void vfu_pci_caps(uint8_t *c)
{
	le16_put(c + PCI_STATUS, PCI_STATUS_CAP_LIST);
	c[PCI_CAPABILITY_LIST] = VFU_PCI_PM;

	c[VFU_PCI_PM] = PCI_CAP_ID_PM;
	c[VFU_PCI_PM + 1] = VFU_PCI_MSIX;
	le16_put(c + VFU_PCI_PM + PCI_PM_PMC, 3);
	le16_put(c + VFU_PCI_PM + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET);

	c[VFU_PCI_MSIX] = PCI_CAP_ID_MSIX;
	c[VFU_PCI_MSIX + 1] = VFU_PCI_EXP;
	le16_put(c + VFU_PCI_MSIX + PCI_MSIX_FLAGS, VFU_VECTORS - 1);
	le32_put(c + VFU_PCI_MSIX + PCI_MSIX_TABLE, 4); /* BAR4, offset 0 */
	le32_put(c + VFU_PCI_MSIX + PCI_MSIX_PBA, VFU_PBA_OFFSET | 4);

	c[VFU_PCI_EXP] = PCI_CAP_ID_EXP;
	le16_put(c + VFU_PCI_EXP + PCI_EXP_FLAGS, 2 | PCI_EXP_TYPE_ENDPOINT << 4);
	le32_put(c + VFU_PCI_EXP + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_RBER);
	le32_put(c + VFU_PCI_EXP + PCI_EXP_LNKCAP, PCI_EXP_LNKCAP_SLS_2_5GB | 1u << 4);
	le16_put(c + VFU_PCI_EXP + PCI_EXP_LNKSTA, PCI_EXP_LNKSTA_CLS_2_5GB | 1u << 4);
}

/* As after power-on; DEVICE_RESET does it again. */
void vfu_pci_init(struct vfu_dev *d)
{
	uint8_t *c = d->cfg;

	memset(c, 0, sizeof(d->cfg));
	le16_put(c + PCI_VENDOR_ID, VFU_PCI_VENDOR);
	le16_put(c + PCI_DEVICE_ID, VFU_PCI_DEVICE);
	c[PCI_CLASS_PROG] = 0x02;     /* NVM Express */
	c[PCI_CLASS_PROG + 1] = 0x08; /* non-volatile memory controller */
	c[PCI_CLASS_PROG + 2] = 0x01; /* mass storage */
	c[PCI_BASE_ADDRESS_0] = PCI_BASE_ADDRESS_MEM_TYPE_64;
	le16_put(c + PCI_SUBSYSTEM_VENDOR_ID, VFU_PCI_VENDOR);
	le16_put(c + PCI_SUBSYSTEM_ID, VFU_PCI_DEVICE);
	vfu_pci_caps(c);

	/* MSI-X table: all masked (PCI 3.0, 6.8.2.9) */
	memset(d->msix, 0, sizeof(d->msix));
	for (unsigned i = 0; i < VFU_VECTORS; i++)
		d->msix[16 * i + PCI_MSIX_ENTRY_VECTOR_CTRL] = PCI_MSIX_ENTRY_CTRL_MASKBIT;
}

void vfu_pci_read(struct vfu_dev *d, uint32_t off, void *buf, uint32_t len)
{
	must(off <= VFU_PCI_BYTES && len <= VFU_PCI_BYTES - off);
	memcpy(buf, d->cfg + off, len);
}

void vfu_pci_write(struct vfu_dev *d, uint32_t off, const void *buf, uint32_t len)
{
	const uint8_t *b = buf;

	must(off <= VFU_PCI_BYTES && len <= VFU_PCI_BYTES - off);
	for (uint32_t i = 0; i < len; i++) {
		uint8_t mask = vfu_pci_mask(off + i);

		d->cfg[off + i] = (uint8_t)((d->cfg[off + i] & ~mask) | (b[i] & mask));
	}
}
