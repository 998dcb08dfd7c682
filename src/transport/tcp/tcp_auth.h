/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller's side of DH-HMAC-CHAP (nvme/nvme_auth.h has the messages), of one queue: a
 * message of the host's goes in, what the host is to have next comes out. No I/O, no clock; chance
 * and arithmetic are tcp_crypt.h's. Any thread, one at a time; tcp_auth_take() may take
 * milliseconds.
 *
 *   NEGOTIATE --take--> CHALLENGE --give--> REPLY --take--> SUCCESS1 --give--> DONE
 *                                                              \--give--> SUCCESS2 --take--> DONE
 *   any --take, what isn't right--> FAILURE1 --give--> OVER        (the host proves us, too)
 *   REPLY, SUCCESS2 --take, Failure2--> OVER
 *
 * Promises: DONE only after a response that takes the host's secret, to a challenge of this
 * transaction; a failure says why (enum nvmf_auth_why), and nothing but OVER comes after it; of the
 * message nothing is read behind its end, of secrets nothing is left after fini.
 */
#ifndef TRANSPORT_TCP_AUTH_H
#define TRANSPORT_TCP_AUTH_H

#include "transport/tcp/tcp_crypt.h"
#include "transport/tcp/tcp_secrets.h"

#define TCP_AUTH_IN_MAX 2048u /* of a host's message: the longest Reply has 1168 */
#define TCP_AUTH_OUT_MAX (sizeof(struct nvmf_auth_challenge) + NVMF_HASH_MAX + NVMF_GROUP_MAX)

enum tcp_auth_step {
	TCP_AUTH_NEGOTIATE,
	TCP_AUTH_CHALLENGE,
	TCP_AUTH_REPLY,
	TCP_AUTH_SUCCESS1,
	TCP_AUTH_SUCCESS2,
	TCP_AUTH_FAILURE1,
	TCP_AUTH_DONE, /* the host is who it says */
	TCP_AUTH_OVER, /* hang up */
};

struct tcp_auth {
	const struct tcp_secret_host *host; /* its name and secrets; outlives this */
	char subnqn[NVMF_NQN_BYTES];
	uint8_t step; /* enum tcp_auth_step */
	uint8_t why;  /* of a failure, ours or the host's */
	uint16_t tid;
	uint8_t hash, group;
	bool is_both; /* we are to prove who we are, too */
	uint32_t seq;
	uint8_t c1[NVMF_HASH_MAX];
	struct tcp_crypt_dh *dh;
	uint8_t out[TCP_AUTH_OUT_MAX]; /* what is to be given */
	uint32_t out_len;
};

void tcp_auth_init(struct tcp_auth *a, const struct tcp_secret_host *host, const char *subnqn);
void tcp_auth_fini(struct tcp_auth *a);
/* What the host sends, n bytes at any address. */
void tcp_auth_take(struct tcp_auth *a, const void *msg, size_t n);
/*
 * What the host is to receive, at most n bytes: how many; -ENOBUFS: it has more, and nothing
 * happened. A host that asks when it is its turn to send has failed.
 */
int tcp_auth_give(struct tcp_auth *a, void *buf, size_t n);

#endif
