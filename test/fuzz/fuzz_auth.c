/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of a host: the messages that it sends, and the file of secrets. The first byte:
 * bit 0, the rest is a file; else records, of an authentication without OpenSSL's help to the
 * fuzzer but for one:
 *
 *	0 bytes      length, bytes as they are
 *	1 receive    room / 8
 *	2 Negotiate  hash, group (bit 3: the null group), right but for them
 *	3 Reply      the right one to the challenge: bit 7, C2 is in it; then one byte of it is
 *	             changed: offset and by what, 0: none
 *
 * Whatever comes: nobody is in who didn't give the right Reply; what is given is framed right; a
 * failure has a reason, and the next thing is the end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/le.h"
#include "base/must.h"
#include "transport/tcp/tcp_auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOST "nqn.2024-01.io.peal:host"
#define SUBSYSTEM "nqn.2024-01.io.peal:test"

static const struct tcp_secret_host fuzz_host = {
	.nqn = HOST, .host = {.bytes = 32, .b = "abc"}, .ctrl = {.bytes = 32, .b = "def"}};

struct fuzz {
	const uint8_t *at, *end;
	struct tcp_auth auth;
	bool is_right; /* the host said what takes its secret */
};

static uint8_t next_u8(struct fuzz *f)
{
	return f->at < f->end ? *f->at++ : 0;
}

static void take(struct fuzz *f, const uint8_t *msg, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1); /* for ASan: not a byte more */

	must(copy);
	memcpy(copy, msg, n);
	tcp_auth_take(&f->auth, copy, n);
	free(copy);
}

static void do_bytes(struct fuzz *f)
{
	size_t n = min_t(size_t, next_u8(f) * 9u, (size_t)(f->end - f->at));

	take(f, f->at, n);
	f->at += n;
}

static void do_receive(struct fuzz *f)
{
	uint8_t out[TCP_AUTH_OUT_MAX];
	int n = tcp_auth_give(&f->auth, out, min_t(size_t, next_u8(f) * 8u, sizeof(out)));

	if (n < 0)
		return;
	must(n >= 8 && out[0] <= 1 && le16_get(out + 4) == f->auth.tid);
	if (out[0] == 0)
		must(n == 8 && out[1] == 0xf1 && out[6] == 1 && out[7] >= 1 && out[7] <= 7 &&
		     f->auth.step == TCP_AUTH_OVER);
	else if (out[1] == NVMF_AUTH_CHALLENGE)
		must((uint32_t)n == 16u + out[6] + le16_get(out + 10) &&
		     out[6] == nvmf_hash_bytes(out[8]));
	else
		must(out[1] == NVMF_AUTH_SUCCESS1 && f->is_right &&
		     n == 16 + (out[8] ? out[6] : 0));
}

static void do_negotiate(struct fuzz *f)
{
	uint8_t msg[72] = {[4] = 5, [7] = 1, [8] = 1, [10] = 1, [11] = 1};
	uint8_t group;

	msg[12] = next_u8(f);
	group = next_u8(f);
	msg[42] = group & 8 ? NVMF_GROUP_NULL : group & 1;
	take(f, msg, sizeof(msg));
}

static void do_reply(struct fuzz *f)
{
	const struct tcp_auth *a = &f->auth;
	uint32_t hash = nvmf_hash_bytes(a->hash);
	uint8_t msg[16 + 2 * NVMF_HASH_MAX] = {1, 2}, numbers[7] = {0}, at, flip;
	bool has_c2 = next_u8(f) & 0x80, is_due = a->step == TCP_AUTH_REPLY && !a->group;
	const struct tcp_crypt_part in[] = {{a->c1, hash},
					    {numbers, sizeof(numbers)},
					    {"HostHost" HOST, 8 + strlen(HOST)},
					    {"", 1},
					    {SUBSYSTEM, strlen(SUBSYSTEM)}};

	at = next_u8(f) % (16 + hash);
	flip = next_u8(f);
	le16_put(msg + 4, a->tid);
	le16_put(numbers + 4, a->tid);
	le32_put(numbers, a->seq);
	msg[6] = (uint8_t)hash;
	msg[8] = msg[12] = has_c2;
	if (hash)
		must(!tcp_crypt_hmac(a->hash, (struct tcp_crypt_part){fuzz_host.host.b, 32}, in,
				     ARRAY_SIZE(in), msg + 16));
	msg[at] ^= flip;
	/* A byte that nobody looks at, or that says whether we are to prove ourselves, is fine. */
	f->is_right |= is_due && (!flip || at < 16);
	take(f, msg, 16 + 2 * hash);
}

static void fuzz_messages(struct fuzz *f)
{
	struct tcp_auth *a = &f->auth;
	bool has_failed = false;

	tcp_auth_init(a, &fuzz_host, SUBSYSTEM);
	while (f->at < f->end && a->step != TCP_AUTH_DONE && a->step != TCP_AUTH_OVER) {
		switch (next_u8(f) & 3) {
		case 0:
			do_bytes(f);
			break;
		case 1:
			do_receive(f);
			break;
		case 2:
			do_negotiate(f);
			break;
		default:
			do_reply(f);
		}
		must(!has_failed || a->step == TCP_AUTH_FAILURE1 || a->step == TCP_AUTH_OVER);
		has_failed |= a->step == TCP_AUTH_FAILURE1;
		must(!has_failed || (a->why >= NVMF_AUTH_FAILED && a->why <= NVMF_AUTH_MESSAGE) ||
		     a->step == TCP_AUTH_OVER);
	}
	must(a->step != TCP_AUTH_DONE || f->is_right);
	tcp_auth_fini(a);
}

static void fuzz_file(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct tcp_secrets s;
	const char *why;
	unsigned line;

	must(text);
	memcpy(text, data, size);
	text[size] = 0;
	if (!tcp_secrets_parse(text, &s, &line, &why)) {
		for (size_t i = 0; i < s.nr; i++)
			must(s.of[i].host.bytes && tcp_secrets_find(&s, s.of[i].nqn) == &s.of[i]);
		tcp_secrets_fini(&s);
	} else {
		must(why && line);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {.at = data + 1, .end = data + size};

	if (!size || !tcp_crypt_is_there())
		return 0;
	if (data[0] & 1)
		fuzz_file(data + 1, size - 1);
	else
		fuzz_messages(&f);
	return 0;
}
