/* SPDX-License-Identifier: Apache-2.0 */
/* tidy: no-test: without OpenSSL those of tcp_crypt.c are skipped */
/* tcp_crypt.h without OpenSSL: no host can be asked who it is. Any thread. */
#include "transport/tcp/tcp_crypt.h"

#include <errno.h>
#include <string.h>

bool tcp_crypt_is_there(void)
{
	return false;
}

int tcp_crypt_random(void *p, size_t n)
{
	return -EOPNOTSUPP;
}

int tcp_crypt_hash(uint8_t hash, struct tcp_crypt_part in, uint8_t *out)
{
	return -EOPNOTSUPP;
}

int tcp_crypt_hmac(uint8_t hash, struct tcp_crypt_part key, const struct tcp_crypt_part *in,
		   unsigned nr, uint8_t *out)
{
	return -EOPNOTSUPP;
}

int tcp_crypt_dh_create(uint8_t group, struct tcp_crypt_dh **dh, uint8_t *pub)
{
	return -EOPNOTSUPP;
}

int tcp_crypt_dh_derive(struct tcp_crypt_dh *dh, const uint8_t *pub, uint8_t *secret)
{
	return -EOPNOTSUPP;
}

void tcp_crypt_dh_destroy(struct tcp_crypt_dh *dh)
{
}

bool tcp_crypt_is_same(const void *a, const void *b, size_t n)
{
	return false;
}

void tcp_crypt_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}
