/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of opcodes and status codes, for logs, tools and error messages. Every function gives a
 * constant string and never NULL: "unknown" for numbers without a name. Pure functions, any thread.
 */
#pragma once

#include <stdint.h>

const char *nvme_str_admin_opcode(uint8_t opc);

/* Opcodes of the KV command set and Peal's vendor commands on a KV namespace. */
const char *nvme_str_kv_opcode(uint8_t opc);

/* Opcodes of the NVM command set, as block namespaces have them. */
const char *nvme_str_nvm_opcode(uint8_t opc);

/* Fabrics command types, the byte in NSID's place when the opcode is 7Fh. */
const char *nvme_str_fabrics_type(uint8_t fctype);

/*
 * The text of a status: SCT in bits 10:8 and SC in 7:0, as the ioctl and cqe->status >> 1 have it;
 * bits above (CRD, More, DNR) are ignored. Codes 80h to BFh of the generic type are read as the KV
 * set has them.
 */
const char *nvme_str_status(uint16_t status);
