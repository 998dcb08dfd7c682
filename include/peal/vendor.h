/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peal's vendor commands as they look on the wire; doc/vendor-commands.md is the text beside it. A
 * host finds them through the vendor area of Identify Namespace (CNS 05h, CSI 01h, bytes 3840 ff.:
 * struct peal_id_vendor). Bits 1:0 of an opcode are its data direction (01 host to controller, 10
 * controller to host, 11 both). All fields little-endian. C11, C++17, CUDA and HIP clean.
 */
#ifndef PEAL_VENDOR_H
#define PEAL_VENDOR_H

#include <stdint.h>
#include "types.h"

enum peal_opc {
	PEAL_OPC_STORE_EX = 0x81,
	PEAL_OPC_RETRIEVE_EX = 0x82,
	PEAL_OPC_EXEC = 0x83,
	PEAL_OPC_MATCH = 0x85,
	PEAL_OPC_HINT = 0x89,
	PEAL_OPC_LEASE = 0x8a,
	PEAL_OPC_RELEASE = 0x8c,
	/* admin, no data: CDW10/11 = new capacity in bytes, low and high half */
	PEAL_OPC_ADMIN_NS_RESIZE = 0xc0,
	PEAL_OPC_ADMIN_TRACE = 0xc2, /* admin, see struct peal_wire_trace */
};

/*
 * Our own statuses, where NVMe has room for them: command specific (SCT 1), vendor specific codes.
 * CLASS: STORE_EX of a class that the namespace doesn't know.
 */
#define PEAL_ST_CLASS 0x1c0u

#define PEAL_ID_MAGIC 0x4c414550u /* "PEAL" */

/* Identify Namespace (CNS 05h CSI 01h), offset 3840. */
struct peal_id_vendor {
	uint32_t magic;		      /* PEAL_ID_MAGIC */
	uint16_t version;	      /* 1 */
	uint16_t chunk_shift;	      /* 16: one seal per 64 KiB */
	uint64_t commands;	      /* bit n: vendor opcode 80h + n is served */
	uint32_t flags;		      /* PEAL_ID_IMMUTABLE ... */
	uint32_t match_max;	      /* keys in one MATCH */
	uint32_t lease_bytes_max_mib; /* leased bytes one client may hold, MiB */
	uint32_t lease_ms_max;
	uint32_t nr_segments; /* arena segments that LEASE can name */
	uint32_t reserved[7];
};
#define PEAL_ID_IMMUTABLE 1u

/*
 * STORE_EX: this block, then the value, in one data buffer. CDW10 = 128 + value bytes; key and
 * options as Store.
 */
#define PEAL_STORE_EX_BYTES 128u
struct peal_store_ex {
	uint8_t parent[16];
	uint8_t group[16]; /* chain root: conversation or document */
	uint8_t tag[PEAL_TAG_BYTES];
	uint8_t parent_len;
	uint8_t group_len;
	uint16_t cls;	  /* class, registered per namespace; 0 = none */
	uint32_t cost_us; /* recompute cost of this value, microseconds; 0 = unknown */
	/* PEAL_STORE_EX_SEALS: 8 bytes per chunk follow the value and are checked against it */
	uint32_t flags;
	uint32_t seq; /* position in the chain, blocks; a hint */
	uint8_t reserved[48];
};
#define PEAL_STORE_EX_SEALS 1u

/*
 * RETRIEVE_EX: CDW10 = buffer bytes, CDW12 = offset in 4 KiB units, CDW13 = wanted version (low 32
 * bits, 0 = any), options bit 0 = raw, bit 1 (PEAL_RETRIEVE_EX_META) = the data begin with a struct
 * peal_retrieve_ex, which may be all that there is room for. DW0 = value bytes delivered (without
 * the block), DW1 = version, low 32 bits.
 */
#define PEAL_RETRIEVE_EX_META 2u
#define PEAL_RETRIEVE_EX_BYTES 128u
struct peal_retrieve_ex {
	uint64_t version;
	uint32_t value_bytes; /* of the whole value */
	uint16_t cls;
	uint8_t parent_len;
	uint8_t group_len;
	uint8_t parent[16];
	uint8_t group[16];
	uint8_t tag[PEAL_TAG_BYTES];
	uint32_t cost_us;
	/* that follow this block, 8 bytes each, before the value; 0 unless bit 2 of the options */
	uint32_t nr_seals;
	uint32_t seq; /* as stored */
	uint8_t reserved[36];
};
#define PEAL_RETRIEVE_EX_SEALS 4u

/* MATCH and LEASE name keys by this. */
struct peal_wire_key {
	uint8_t b[16];
	uint8_t len;
	uint8_t reserved[7];
};

/*
 * MATCH: data = CDW10 bytes of struct peal_wire_key (at most match_max). CDW12 = PEAL_MATCH_* flags
 * | tier mask << 16 (0 = any), CDW13 = pin time in ms (0 = none). DW0 15:0 = leading keys present,
 * 31:16 = of them in memory.
 */
#define PEAL_MATCH_TOUCH 1u
#define PEAL_MATCH_MAX 4096u

/*
 * HINT: data = CDW10 bytes of struct peal_wire_hint, at most PEAL_HINT_MAX. DW0 = how many were
 * taken: done, or noted. ms: PREFETCH: wanted within that time (0 = whenever); PIN: for so long, at
 * most 60000. weight: PREFETCH: of equally urgent ones the greater goes first; SCORE: attention, 0
 * to 255.
 */
enum peal_hint_verb {
	PEAL_HINT_PREFETCH = 1, /* into memory */
	PEAL_HINT_CANCEL = 2,	/* no more of that */
	PEAL_HINT_DEMOTE = 3,	/* out of memory */
	PEAL_HINT_PIN = 4,	/* stays in memory, where it is */
	PEAL_HINT_UNPIN = 5,
	PEAL_HINT_SCORE = 6,
};
struct peal_wire_hint {
	uint8_t b[16];
	uint8_t len;
	uint8_t verb; /* enum peal_hint_verb */
	uint16_t weight;
	uint32_t ms;
};
#define PEAL_HINT_MAX 1024u

/*
 * LEASE: key as Retrieve, CDW10 = buffer bytes for the reply, CDW12 = time in ms. Reply: struct
 * peal_wire_lease, nr_ext times struct peal_wire_extent, nr_seals times u64. DW0 = bytes of the
 * whole reply (buffer too small: nothing is leased and DW0 tells the size). RELEASE: CDW10, CDW11 =
 * lease id; no data. A segment is the device region PEAL_REGION_ARENA + segment of the vfio-user
 * device, mapped read-only.
 */
struct peal_wire_lease {
	uint64_t id;
	uint64_t version;
	uint32_t value_bytes;
	uint32_t lease_ms; /* granted */
	uint32_t nr_ext;
	uint32_t nr_seals;
};
struct peal_wire_extent {
	uint32_t segment;
	uint32_t len;
	uint64_t offset;
};
#define PEAL_REGION_ARENA 16u

/*
 * TRACE (admin, operators): CDW12 7:0 = what to do. START: CDW11 15:0 = controller whose commands
 * are traced, FFFFh = all; whatever was traced before ends. READ: CDW10 = bytes of data, at most
 * 4096: a struct peal_wire_trace_head, then the records that there are, as many as fit, each given
 * once. STOP: what is there can still be read. Only who started it reads; it stops with its
 * controller. Times are CLOCK_MONOTONIC, 0 = that hop didn't happen.
 */
enum {
	PEAL_TRACE_READ = 0,
	PEAL_TRACE_START = 1,
	PEAL_TRACE_STOP = 2,
	PEAL_TRACE_RECORD = 3,	    /* for replay, to a file of the daemon: CDW11 = controller */
	PEAL_TRACE_RECORD_STOP = 4, /* no more: the file is whole */
};
#define PEAL_TRACE_ALL 0xffffu
struct peal_wire_trace_head {
	uint32_t nr;	       /* records that follow */
	uint32_t record_bytes; /* of each */
	uint64_t nr_dropped;   /* since START: there was no room */
};
struct peal_wire_trace {
	uint64_t bell_ns;  /* the doorbell was seen */
	uint64_t fetch_ns; /* the SQE was copied out */
	uint64_t store_ns; /* the store had answered: a value found, published, dropped */
	uint64_t copy_ns;  /* the data were moved and checked; 0: there were none */
	uint64_t done_ns;  /* the command was over */
	uint64_t cqe_ns;   /* the CQE was written; 0: it could not be within reason */
	uint64_t reserved;
	uint32_t nsid;
	uint32_t bytes; /* of data moved */
	uint16_t ctrl;
	uint16_t qid;
	uint16_t cid;
	uint16_t status;
	uint8_t opc;
	uint8_t key_len;
	uint8_t worker;
	uint8_t reserved2[4];
	uint8_t csi; /* of the namespace: 0 NVM, 1 KV; FFh = there is no such namespace */
	/* key_len bytes; NVM: the first block (SLBA, 8 bytes) where the command has one */
	uint8_t key[16];
};

#if defined(__cplusplus)
static_assert(sizeof(struct peal_wire_trace) == 96, "trace record");
static_assert(sizeof(struct peal_store_ex) == PEAL_STORE_EX_BYTES, "STORE_EX block");
static_assert(sizeof(struct peal_retrieve_ex) == PEAL_RETRIEVE_EX_BYTES, "RETRIEVE_EX block");
static_assert(sizeof(struct peal_id_vendor) == 64 && sizeof(struct peal_wire_key) == 24 &&
		      sizeof(struct peal_wire_hint) == 24,
	      "vendor structs");
#else
_Static_assert(sizeof(struct peal_wire_trace) == 96, "trace record");
_Static_assert(sizeof(struct peal_store_ex) == PEAL_STORE_EX_BYTES, "STORE_EX block");
_Static_assert(sizeof(struct peal_retrieve_ex) == PEAL_RETRIEVE_EX_BYTES, "RETRIEVE_EX block");
_Static_assert(sizeof(struct peal_id_vendor) == 64 && sizeof(struct peal_wire_key) == 24 &&
		       sizeof(struct peal_wire_hint) == 24,
	       "vendor structs");
#endif

#endif
