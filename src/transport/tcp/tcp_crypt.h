/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of DH-HMAC-CHAP: hashes, HMAC, Diffie-Hellman in the groups of RFC 7919. OpenSSL's
 * (tcp_crypt.c), or none (no_tcp_crypt.c), then everything fails with -EOPNOTSUPP. Any thread;
 * nothing is kept but a struct tcp_crypt_dh, which is one thread's at a time.
 *
 * Numbers of hashes and groups are those of the wire and known (nvmf_hash_bytes()); values of a
 * group are big-endian, all its bytes.
 */
#ifndef TRANSPORT_TCP_CRYPT_H
#define TRANSPORT_TCP_CRYPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "nvme/nvme_auth.h"

struct tcp_crypt_dh;
struct tcp_crypt_part {
	const void *p;
	size_t n;
};

bool tcp_crypt_is_there(void);
int tcp_crypt_random(void *p, size_t n);
int tcp_crypt_hash(uint8_t hash, struct tcp_crypt_part in, uint8_t *out);
int tcp_crypt_hmac(uint8_t hash, struct tcp_crypt_part key, const struct tcp_crypt_part *in,
		   unsigned nr, uint8_t *out);
/* A new secret number x of the group; *pub: g^x. */
int tcp_crypt_dh_create(uint8_t group, struct tcp_crypt_dh **dh, uint8_t *pub);
/* The other's g^y: g^xy. -EBADMSG: that is no value of the group, or one that tells. */
int tcp_crypt_dh_derive(struct tcp_crypt_dh *dh, const uint8_t *pub, uint8_t *secret);
void tcp_crypt_dh_destroy(struct tcp_crypt_dh *dh); /* NULL is fine */
/* In the same time wherever they differ. */
bool tcp_crypt_is_same(const void *a, const void *b, size_t n);
void tcp_crypt_wipe(void *p, size_t n);

#endif
