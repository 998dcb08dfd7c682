/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of fuzz_tcp.c: each has one connection to an NVMe/TCP target that runs in the same
 * thread. They say what they are told to, right or wrong, and check all that the target says: its
 * framing, its digests, that it ends what was begun, once, and that a value which is served was put
 * under that key. A host that said what it shouldn't have is wild: of what it is told only the
 * framing is checked.
 */
#pragma once

#include "fake_node.h"
#include "transport/tcp/tcp_int.h"

#define TCP_HOSTS 4u
#define TCP_HOST_CMDS 30u /* under way: less than the smallest queue that is asked for */
#define TCP_HOST_R2TS 64u
#define TCP_HOST_IN_BYTES (256u << 10)

struct tcp_hosts;

struct tcp_host_cmd {
	bool is_out, is_to_host, is_value;
	uint8_t opc, key;
	uint8_t fill;	/* of what is put */
	uint8_t others; /* bit i: what came is no value with fill i */
	uint32_t room;	/* bytes that may come, or be asked for */
	uint32_t at;	/* of the value's, where the data begins */
	uint32_t got;
};

struct tcp_host {
	struct tcp_hosts *of;
	int fd; /* its end; -1: it never came, or has hung up */
	uint8_t digests;
	uint32_t nr_r2t_max;
	bool is_welcome;  /* ICResp has come */
	bool has_connect; /* ... was sent */
	bool is_wild;
	bool is_ending; /* the target has said its last word */
	uint32_t in_len, out_len;
	unsigned nr_out, last;
	struct tcp_host_cmd cmd[TCP_HOST_CMDS];
	struct nvme_tcp_data r2t[TCP_HOST_R2TS];
	unsigned nr_r2ts;
};

struct tcp_hosts {
	struct fake_node *n;
	uint16_t cntlid;    /* of the last controller that was made */
	uint32_t put[8][8]; /* by key and fill: bit i, a value of tcp_host_lens[i] */
	bool is_wild;	    /* values of any shape were put */
	uint32_t piece;	    /* what is said is cut into pieces of so many bytes; 0: whole */
	struct tcp_host host[TCP_HOSTS];
};

extern const uint32_t tcp_host_lens[32];
/* The longest value with this key and fill; a shorter one is its beginning. */
const uint8_t *tcp_host_value(unsigned key, unsigned fill);

void tcp_host_end(struct tcp_host *h); /* hangs up */
void tcp_host_put(struct tcp_host *h, const void *p, size_t len);
void tcp_host_flush(struct tcp_host *h); /* what the socket had no room for */
/* A PDU that is framed right; hdr: hlen bytes, of which the first 8 are filled in here. */
void tcp_host_pdu(struct tcp_host *h, void *hdr, uint32_t hlen, const void *data, uint32_t len);
void tcp_host_sgl(struct nvme_sqe *sqe, bool is_capsule, uint32_t len);
/* Data of `len` bytes go with it. NULL: as many as it may have are under way. */
struct tcp_host_cmd *tcp_host_submit(struct tcp_host *h, struct nvme_sqe *sqe, const void *data,
				     uint32_t len);
/* The oldest R2T: in full, in part (1, 2), in pieces (3), wrongly (5 and more). */
void tcp_host_answer(struct tcp_host *h, uint8_t how);
bool tcp_host_read(struct tcp_host *h); /* false: nothing came */
/* Reads and answers; false: there was nothing to do. */
bool tcp_host_on(struct tcp_host *h);
