/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace that is as simple as one can be: 4 MiB of bytes, written and read at an offset, and
 * a command that stays until it is let go. CSI 1 unless said. For tests of target/ and of
 * transports.
 *
 *   81h write   CDW10 bytes from the host to offset CDW12
 *   82h read    CDW10 bytes from offset CDW12 to the host
 *   84h ping    DW0 = CDW12, DW1 = CDW13
 *   88h hang    until fake_ns_let_go(), or Abort
 */
#pragma once

#include "target/tgt.h"

#define FAKE_NS_BYTES (4u << 20) /* more than one page of PRP entries can say */
enum { FAKE_WRITE = 0x81, FAKE_READ = 0x82, FAKE_PING = 0x84, FAKE_HANG = 0x88 };

struct fake_ns {
	struct tgt_ns ns;
	uint64_t capacity;
	uint8_t *bytes;
	struct tgt_req *hung[64];
	unsigned nr_hung;
	_Atomic unsigned nr_prepared, nr_prefetched, nr_executed, nr_gone;
	bool *is_destroyed; /* set when it is */
};

struct fake_ns *fake_ns_create(uint8_t csi, uint64_t capacity);
void fake_ns_let_go(struct fake_ns *f); /* completes what hangs */
/* For tgt_subsys_csi_add(): CSI 1, with create. */
const struct tgt_csi_ops *fake_ns_csi(void);
