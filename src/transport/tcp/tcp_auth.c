/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of tcp_auth.h, one function for each message that a host may send. A message is
 * checked when it comes, whole, and the answer to it made at once: giving it is a copy.
 */
#include "transport/tcp/tcp_auth.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"
#include "base/le.h"
#include "base/must.h"

#define PROTOCOL_DHCHAP 1u

void tcp_auth_init(struct tcp_auth *a, const struct tcp_secret_host *host, const char *subnqn)
{
	memset(a, 0, sizeof(*a));
	a->host = host;
	must(strlen(subnqn) < sizeof(a->subnqn));
	strcpy(a->subnqn, subnqn);
}

void tcp_auth_fini(struct tcp_auth *a)
{
	tcp_crypt_dh_destroy(a->dh);
	tcp_crypt_wipe(a, sizeof(*a));
}

/* ---- what we say ---- */

static void *auth_out(struct tcp_auth *a, uint8_t type, uint8_t id, size_t n)
{
	struct nvmf_auth_hdr h = {.type = type, .id = id, .tid = htole16(a->tid)};

	must(n <= sizeof(a->out));
	memset(a->out, 0, n);
	memcpy(a->out, &h, sizeof(h));
	a->out_len = (uint32_t)n;
	return a->out;
}

static void auth_fail(struct tcp_auth *a, enum nvmf_auth_why why)
{
	struct nvmf_auth_failure *f = auth_out(a, NVMF_AUTH_COMMON, NVMF_AUTH_FAILURE1, sizeof(*f));

	f->reason = 1;
	f->why = (uint8_t)why;
	a->why = (uint8_t)why;
	a->step = TCP_AUTH_FAILURE1;
}

/* A secret becomes the key of an HMAC: as it is, or hashed with the name of who has it. */
static int auth_key(const struct tcp_secret *s, const char *nqn, uint8_t key[NVMF_HASH_MAX])
{
	const struct tcp_crypt_part in[] = {{nqn, strlen(nqn)}, {"NVMe-over-Fabrics", 17}};

	if (s->hash != NVMF_HASH_NONE)
		return tcp_crypt_hmac(s->hash, (struct tcp_crypt_part){s->b, s->bytes}, in, 2, key);
	memcpy(key, s->b, s->bytes);
	return 0;
}

/* Who answers which challenge, and to whom. */
struct auth_ask {
	const struct tcp_secret *secret;
	const char *label, *who, *whom;
	const uint8_t *challenge; /* augmented by what Diffie-Hellman gave, if there is a group */
	uint32_t seq;
};

static int auth_response(const struct tcp_auth *a, const struct auth_ask *q, uint8_t *out)
{
	uint8_t numbers[7] = {0}, key[NVMF_HASH_MAX]; /* S, T_ID, SC_C */
	const struct tcp_crypt_part in[] = {
		{q->challenge, nvmf_hash_bytes(a->hash)},
		{numbers, sizeof(numbers)},
		{q->label, strlen(q->label)},
		{q->who, strlen(q->who)},
		{"", 1},
		{q->whom, strlen(q->whom)},
	};
	int err = auth_key(q->secret, q->who, key);

	le32_put(numbers, q->seq);
	le16_put(numbers + 4, a->tid);
	if (!err)
		err = tcp_crypt_hmac(a->hash, (struct tcp_crypt_part){key, q->secret->bytes}, in,
				     ARRAY_SIZE(in), out);
	tcp_crypt_wipe(key, sizeof(key));
	return err;
}

/* ---- Negotiate ---- */

static bool has_id(const uint8_t *ids, uint8_t nr, uint8_t id)
{
	return memchr(ids, id, nr) != NULL;
}

static void take_choice(struct tcp_auth *a, const struct nvmf_auth_protocol *p)
{
	/* What costs least of what is strong: a secret is no word of a dictionary. */
	static const uint8_t groups[] = {NVMF_GROUP_2048, NVMF_GROUP_3072, NVMF_GROUP_4096,
					 NVMF_GROUP_6144, NVMF_GROUP_8192, NVMF_GROUP_NULL};
	unsigned i = 0;

	for (a->hash = NVMF_HASH_SHA512; a->hash && !has_id(p->hashes, p->nr_hashes, a->hash);)
		a->hash--;
	while (i < ARRAY_SIZE(groups) && !has_id(p->groups, p->nr_groups, groups[i]))
		i++;
	if (!a->hash) {
		auth_fail(a, NVMF_AUTH_NO_HASH);
		return;
	}
	if (i == ARRAY_SIZE(groups)) {
		auth_fail(a, NVMF_AUTH_NO_GROUP);
		return;
	}
	a->group = groups[i];
}

static void take_challenge(struct tcp_auth *a)
{
	uint32_t hash = nvmf_hash_bytes(a->hash), group = nvmf_group_bytes(a->group);
	struct nvmf_auth_challenge *c = auth_out(a, NVMF_AUTH_DHCHAP, NVMF_AUTH_CHALLENGE,
						 sizeof(*c) + hash + group);
	int err = tcp_crypt_random(a->c1, hash);

	if (!err)
		err = tcp_crypt_random(&a->seq, sizeof(a->seq));
	if (!err && group)
		err = tcp_crypt_dh_create(a->group, &a->dh, c->c1_dh + hash);
	if (err) {
		auth_fail(a, NVMF_AUTH_FAILED);
		return;
	}
	a->seq |= !a->seq; /* 0 says something else */
	c->hash_bytes = (uint8_t)hash;
	c->hash = a->hash;
	c->group = a->group;
	c->group_bytes = htole16((uint16_t)group);
	c->seq = htole32(a->seq);
	memcpy(c->c1_dh, a->c1, hash);
	a->step = TCP_AUTH_CHALLENGE;
}

static void take_negotiate(struct tcp_auth *a, const uint8_t *msg, size_t n)
{
	struct nvmf_auth_negotiate h;
	struct nvmf_auth_protocol p;

	if (n < sizeof(h)) {
		auth_fail(a, NVMF_AUTH_PAYLOAD);
		return;
	}
	memcpy(&h, msg, sizeof(h));
	if (h.sc_c) {
		auth_fail(a, NVMF_AUTH_CONCAT);
		return;
	}
	if (n < sizeof(h) + h.nr_protocols * sizeof(p)) {
		auth_fail(a, NVMF_AUTH_PAYLOAD);
		return;
	}
	for (unsigned i = 0; i < h.nr_protocols; i++) {
		memcpy(&p, msg + sizeof(h) + i * sizeof(p), sizeof(p));
		if (p.id != PROTOCOL_DHCHAP)
			continue;
		if (p.nr_hashes > NVMF_AUTH_IDS || p.nr_groups > NVMF_AUTH_IDS)
			auth_fail(a, NVMF_AUTH_PAYLOAD);
		else
			take_choice(a, &p);
		if (a->step == TCP_AUTH_NEGOTIATE)
			take_challenge(a);
		return;
	}
	auth_fail(a, NVMF_AUTH_NO_PROTOCOL);
}

/* ---- Reply ---- */

/* The reply's parts, in the message. */
struct reply {
	const uint8_t *r1, *c2, *dh;
	uint32_t seq;
	bool has_c2;
};

static bool reply_check(const struct tcp_auth *a, const uint8_t *msg, size_t n, struct reply *r)
{
	uint32_t hash = nvmf_hash_bytes(a->hash), group = nvmf_group_bytes(a->group);
	struct nvmf_auth_reply h;

	if (n < sizeof(h) + 2 * hash + group)
		return false;
	memcpy(&h, msg, sizeof(h));
	if (h.hash_bytes != hash || le16toh(h.group_bytes) != group || h.has_c2 > 1)
		return false;
	*r = (struct reply){.r1 = msg + sizeof(h),
			    .c2 = msg + sizeof(h) + hash,
			    .dh = msg + sizeof(h) + 2 * hash,
			    .seq = le32toh(h.seq),
			    .has_c2 = h.has_c2};
	return true;
}

/* HMAC with what both have from Diffie-Hellman: the challenge that is answered. */
static int reply_augment(const struct tcp_auth *a, const uint8_t *shared, const uint8_t *challenge,
			 uint8_t out[NVMF_HASH_MAX])
{
	uint32_t hash = nvmf_hash_bytes(a->hash);
	const struct tcp_crypt_part in = {challenge, hash};
	uint8_t key[NVMF_HASH_MAX];
	int err;

	if (a->group == NVMF_GROUP_NULL) {
		memcpy(out, challenge, hash);
		return 0;
	}
	err = tcp_crypt_hash(a->hash, (struct tcp_crypt_part){shared, nvmf_group_bytes(a->group)},
			     key);
	if (!err)
		err = tcp_crypt_hmac(a->hash, (struct tcp_crypt_part){key, hash}, &in, 1, out);
	tcp_crypt_wipe(key, sizeof(key));
	return err;
}

/* The host's response to C1: 0, why it fails, or -errno. */
static int reply_verify(const struct tcp_auth *a, const struct reply *r, const uint8_t *shared)
{
	uint8_t c1[NVMF_HASH_MAX], want[NVMF_HASH_MAX];
	struct auth_ask q = {.secret = &a->host->host,
			     .label = "HostHost",
			     .who = a->host->nqn,
			     .whom = a->subnqn,
			     .challenge = c1,
			     .seq = a->seq};
	int err = reply_augment(a, shared, a->c1, c1);

	if (!err)
		err = auth_response(a, &q, want);
	if (!err && !tcp_crypt_is_same(want, r->r1, nvmf_hash_bytes(a->hash)))
		err = NVMF_AUTH_FAILED;
	tcp_crypt_wipe(want, sizeof(want));
	return err;
}

/* Ours to C2, into Success1. */
static int reply_answer(struct tcp_auth *a, const struct reply *r, const uint8_t *shared)
{
	uint8_t c2[NVMF_HASH_MAX];
	uint32_t hash = nvmf_hash_bytes(a->hash);
	struct auth_ask q = {.secret = &a->host->ctrl,
			     .label = "Controller",
			     .who = a->subnqn,
			     .whom = a->host->nqn,
			     .challenge = c2,
			     .seq = r->seq};
	struct nvmf_auth_success1 *s;
	int err;

	a->is_both = r->has_c2 && r->seq;
	s = auth_out(a, NVMF_AUTH_DHCHAP, NVMF_AUTH_SUCCESS1, sizeof(*s) + (a->is_both ? hash : 0));
	s->hash_bytes = (uint8_t)hash;
	s->has_response = a->is_both;
	if (!a->is_both)
		return 0;
	if (!q.secret->bytes)
		return NVMF_AUTH_FAILED; /* there is nothing to prove it with */
	err = reply_augment(a, shared, r->c2, c2);
	return err ? err : auth_response(a, &q, s->r2);
}

static void take_reply(struct tcp_auth *a, const uint8_t *msg, size_t n)
{
	uint8_t shared[NVMF_GROUP_MAX] = {0};
	struct reply r;
	int err = NVMF_AUTH_PAYLOAD;

	if (reply_check(a, msg, n, &r))
		err = a->group ? tcp_crypt_dh_derive(a->dh, r.dh, shared) : 0;
	if (err == -EBADMSG)
		err = NVMF_AUTH_PAYLOAD;
	if (!err)
		err = reply_verify(a, &r, shared);
	if (!err)
		err = reply_answer(a, &r, shared);
	tcp_crypt_wipe(shared, sizeof(shared));
	if (err)
		auth_fail(a, err > 0 ? (enum nvmf_auth_why)err : NVMF_AUTH_FAILED);
	else
		a->step = TCP_AUTH_SUCCESS1;
}

/* ---- steps ---- */

/* 0: what the host may say now. */
static int take_check(struct tcp_auth *a, const struct nvmf_auth_hdr *h)
{
	uint8_t type = NVMF_AUTH_DHCHAP, id;

	if (a->step == TCP_AUTH_NEGOTIATE) {
		type = NVMF_AUTH_COMMON;
		id = NVMF_AUTH_NEGOTIATE;
	} else if (a->step == TCP_AUTH_REPLY) {
		id = NVMF_AUTH_REPLY;
	} else if (a->step == TCP_AUTH_SUCCESS2) {
		id = NVMF_AUTH_SUCCESS2;
	} else {
		return NVMF_AUTH_MESSAGE; /* it has to receive first */
	}
	if (h->type != type || h->id != id)
		return NVMF_AUTH_MESSAGE;
	if (a->step == TCP_AUTH_NEGOTIATE)
		a->tid = le16toh(h->tid);
	return le16toh(h->tid) == a->tid ? 0 : NVMF_AUTH_PAYLOAD;
}

/* The host gives up. */
static bool take_failure(struct tcp_auth *a, const struct nvmf_auth_hdr *h, const uint8_t *msg,
			 size_t n)
{
	if (h->type != NVMF_AUTH_COMMON || h->id != NVMF_AUTH_FAILURE2 ||
	    n < sizeof(struct nvmf_auth_failure))
		return false;
	a->why = msg[offsetof(struct nvmf_auth_failure, why)];
	a->step = TCP_AUTH_OVER;
	return true;
}

void tcp_auth_take(struct tcp_auth *a, const void *msg, size_t n)
{
	struct nvmf_auth_hdr h;
	int why;

	must(a->step != TCP_AUTH_DONE && a->step != TCP_AUTH_OVER);
	if (n < sizeof(h) || n > TCP_AUTH_IN_MAX) {
		auth_fail(a, NVMF_AUTH_PAYLOAD);
		return;
	}
	memcpy(&h, msg, sizeof(h));
	if (take_failure(a, &h, msg, n))
		return;
	why = take_check(a, &h);
	if (!why && n < sizeof(struct nvmf_auth_success2) && a->step == TCP_AUTH_SUCCESS2)
		why = NVMF_AUTH_PAYLOAD;
	if (why)
		auth_fail(a, (enum nvmf_auth_why)why);
	else if (a->step == TCP_AUTH_NEGOTIATE)
		take_negotiate(a, msg, n);
	else if (a->step == TCP_AUTH_REPLY)
		take_reply(a, msg, n);
	else
		a->step = TCP_AUTH_DONE;
}

int tcp_auth_give(struct tcp_auth *a, void *buf, size_t n)
{
	must(a->step != TCP_AUTH_DONE && a->step != TCP_AUTH_OVER);
	if (a->step != TCP_AUTH_CHALLENGE && a->step != TCP_AUTH_SUCCESS1 &&
	    a->step != TCP_AUTH_FAILURE1)
		auth_fail(a, NVMF_AUTH_MESSAGE);
	if (n < a->out_len)
		return -ENOBUFS;
	memcpy(buf, a->out, a->out_len);
	if (a->step == TCP_AUTH_CHALLENGE)
		a->step = TCP_AUTH_REPLY;
	else if (a->step == TCP_AUTH_FAILURE1)
		a->step = TCP_AUTH_OVER;
	else
		a->step = a->is_both ? TCP_AUTH_SUCCESS2 : TCP_AUTH_DONE;
	return (int)a->out_len;
}
