/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets of hosts: a file that nobody else may read, of lines
 *
 *	HOSTNQN  DHHC-1:NN:BASE64:  [DHHC-1:NN:BASE64:]
 *
 * a host, its secret, and the one by which we say who we are when it asks; `#` begins a comment.
 * NN: 00, the secret is used as it is; 01 to 03, it is hashed with the NQN first. What is in it is
 * never logged. Pure but for the file; what was loaded is constant.
 */
#ifndef TRANSPORT_TCP_SECRETS_H
#define TRANSPORT_TCP_SECRETS_H

#include <stddef.h>
#include <stdint.h>
#include "nvme/nvme_auth.h"
#include "nvme/nvme_tcp.h"
#include "transport/tr.h"

struct tcp_secret {
	uint8_t hash;  /* enum nvmf_hash */
	uint8_t bytes; /* 32, 48, 64; 0: there is none */
	uint8_t b[NVMF_HASH_MAX];
};

struct tcp_secret_host {
	char nqn[NVMF_NQN_BYTES];
	struct tcp_secret host, ctrl;
};

struct tcp_secrets {
	size_t nr;
	struct tcp_secret_host *of;
};

/* n bytes of text: 0 or -EINVAL, with nothing of it left in *s. */
int tcp_secrets_word(const char *text, size_t n, struct tcp_secret *s);
/*
 * A file's text; it is taken apart. 0; or -EINVAL and the line that is wrong, and why, which says
 * nothing of what stands there.
 */
int tcp_secrets_parse(char *text, struct tcp_secrets *s, unsigned *line, const char **why);
void tcp_secrets_fini(struct tcp_secrets *s);
/* NULL: it isn't in there. */
const struct tcp_secret_host *tcp_secrets_find(const struct tcp_secrets *s, const char *nqn);

#endif
