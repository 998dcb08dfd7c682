/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_crypt.h by OpenSSL 3, through EVP alone: no structure of its own is looked into. Its default
 * provider has all of it; one in FIPS mode has it, too. Any thread.
 */
#include "transport/tcp/tcp_crypt.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>

#include "base/must.h"

struct tcp_crypt_dh {
	EVP_PKEY *key;
	uint8_t group;
};

static const char *const crypt_hashes[] = {
	[NVMF_HASH_SHA256] = "SHA256",
	[NVMF_HASH_SHA384] = "SHA384",
	[NVMF_HASH_SHA512] = "SHA512",
};
static const char *const crypt_groups[] = {
	[NVMF_GROUP_2048] = "ffdhe2048", [NVMF_GROUP_3072] = "ffdhe3072",
	[NVMF_GROUP_4096] = "ffdhe4096", [NVMF_GROUP_6144] = "ffdhe6144",
	[NVMF_GROUP_8192] = "ffdhe8192",
};

bool tcp_crypt_is_there(void)
{
	return true;
}

int tcp_crypt_random(void *p, size_t n)
{
	return RAND_bytes(p, (int)n) == 1 ? 0 : -EIO;
}

int tcp_crypt_hash(uint8_t hash, struct tcp_crypt_part in, uint8_t *out)
{
	must(nvmf_hash_bytes(hash));
	return EVP_Q_digest(NULL, crypt_hashes[hash], NULL, in.p, in.n, out, NULL) == 1 ? 0 : -EIO;
}

static bool crypt_hmac(EVP_MAC_CTX *ctx, const char *name, struct tcp_crypt_part key)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)name, 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_MAC_init(ctx, key.p, key.n, params) == 1;
}

int tcp_crypt_hmac(uint8_t hash, struct tcp_crypt_part key, const struct tcp_crypt_part *in,
		   unsigned nr, uint8_t *out)
{
	EVP_MAC *mac = EVP_MAC_fetch(NULL, OSSL_MAC_NAME_HMAC, NULL);
	EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
	size_t len = nvmf_hash_bytes(hash);
	bool is_ok;

	must(len);
	is_ok = ctx && crypt_hmac(ctx, crypt_hashes[hash], key);
	for (unsigned i = 0; i < nr && is_ok; i++)
		is_ok = EVP_MAC_update(ctx, in[i].p, in[i].n) == 1;
	is_ok = is_ok && EVP_MAC_final(ctx, out, &len, len) == 1;
	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(mac);
	return is_ok ? 0 : -EIO;
}

static EVP_PKEY_CTX *crypt_ctx(uint8_t group)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME,
						 (char *)crypt_groups[group], 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);

	if (ctx && EVP_PKEY_keygen_init(ctx) == 1 && EVP_PKEY_CTX_set_params(ctx, params) == 1)
		return ctx;
	EVP_PKEY_CTX_free(ctx);
	return NULL;
}

/* EVP gives it in all the group's bytes. */
static bool crypt_pub(EVP_PKEY *key, uint8_t *pub, size_t bytes)
{
	size_t n = 0;

	return EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, pub, bytes,
					       &n) == 1 &&
	       n == bytes;
}

int tcp_crypt_dh_create(uint8_t group, struct tcp_crypt_dh **dh, uint8_t *pub)
{
	struct tcp_crypt_dh *d = calloc(1, sizeof(*d));
	EVP_PKEY_CTX *ctx;

	must(nvmf_group_bytes(group));
	if (!d)
		return -ENOMEM;
	d->group = group;
	ctx = crypt_ctx(group);
	if (!ctx || EVP_PKEY_generate(ctx, &d->key) != 1 ||
	    !crypt_pub(d->key, pub, nvmf_group_bytes(group))) {
		EVP_PKEY_CTX_free(ctx);
		tcp_crypt_dh_destroy(d);
		return -EIO;
	}
	EVP_PKEY_CTX_free(ctx);
	*dh = d;
	return 0;
}

static EVP_PKEY *crypt_peer(const struct tcp_crypt_dh *dh, const uint8_t *pub)
{
	EVP_PKEY *peer = EVP_PKEY_new();

	if (peer && EVP_PKEY_copy_parameters(peer, dh->key) == 1 &&
	    EVP_PKEY_set1_encoded_public_key(peer, pub, nvmf_group_bytes(dh->group)) == 1)
		return peer;
	EVP_PKEY_free(peer);
	return NULL;
}

/* set_peer checks the value: between 1 and p - 1, and of the subgroup. */
int tcp_crypt_dh_derive(struct tcp_crypt_dh *dh, const uint8_t *pub, uint8_t *secret)
{
	EVP_PKEY *peer = crypt_peer(dh, pub);
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, dh->key, NULL);
	unsigned pad = 1;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_uint(OSSL_EXCHANGE_PARAM_PAD, &pad),
		OSSL_PARAM_construct_end(),
	};
	size_t n = nvmf_group_bytes(dh->group);
	int err = -EBADMSG;

	if (!ctx || EVP_PKEY_derive_init_ex(ctx, params) != 1)
		err = -EIO;
	else if (peer && EVP_PKEY_derive_set_peer(ctx, peer) == 1 &&
		 EVP_PKEY_derive(ctx, secret, &n) == 1 && n == nvmf_group_bytes(dh->group))
		err = 0;
	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(peer);
	return err;
}

void tcp_crypt_dh_destroy(struct tcp_crypt_dh *dh)
{
	if (!dh)
		return;
	EVP_PKEY_free(dh->key);
	free(dh);
}

bool tcp_crypt_is_same(const void *a, const void *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

void tcp_crypt_wipe(void *p, size_t n)
{
	OPENSSL_cleanse(p, n);
}
