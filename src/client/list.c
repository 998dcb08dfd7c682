/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_list(): keys behind a key, in the store's own order. A List command answers from its start
 * key on, that key included when it is there, so the first entry is dropped when it is the one
 * asked from. The reply comes from another process: every length in it is checked. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "base/le.h"
#include "client/call.h"
#include "client/errmsg.h"

#define LIST_BYTES 65536u
#define LIST_HEAD 4u

static bool list_is_same(const struct peal_key *a, const struct peal_key *b)
{
	return a->len == b->len && memcmp(a->b, b->b, a->len) == 0;
}

struct list_out {
	struct peal_key *keys;
	size_t max;
	size_t nr;
};

/* Appends what is new; the count of entries in the reply, or -EPROTO. */
static ssize_t list_parse(const struct call *call, const struct peal_key *after, struct list_out *o)
{
	const uint8_t *b = call->buf.ptr;
	uint32_t nrk = le32_get(b);
	size_t at = LIST_HEAD;

	for (uint32_t i = 0; i < nrk; i++) {
		struct peal_key k = {0};
		uint16_t len;

		if (at + 2 > LIST_BYTES)
			return errmsg_set(-EPROTO, "list: the daemon's reply ends in entry %u", i);
		len = le16_get(b + at);
		if (len < 1 || len > PEAL_KEY_MAX || at + 2 + len > LIST_BYTES)
			return errmsg_set(-EPROTO, "list: entry %u has a key of %u bytes", i, len);
		memcpy(k.b, b + at + 2, len);
		k.len = (uint8_t)len;
		at += nvme_kv_list_entry_bytes(k.len);
		if (i == 0 && after && list_is_same(&k, after))
			continue;
		if (o->nr < o->max)
			o->keys[o->nr++] = k;
	}
	return nrk;
}

static ssize_t list_run(struct call *call, const struct peal_key *after, struct list_out *o)
{
	struct peal_key from = after ? *after : (struct peal_key){0};

	while (o->nr < o->max) {
		struct chan_cmd cmd = {.sqe = {.opc = NVME_KV_LIST}};
		size_t before = o->nr;
		ssize_t n;
		int err;

		nvme_kv_key_set(&cmd.sqe, from.b, from.len, 0);
		cmd.data_bytes = cmd.sqe.cdw10 = LIST_BYTES;
		err = call_exec(call, &cmd);
		if (!err)
			err = call_status(call, cmd.status);
		if (err)
			return err;
		n = list_parse(call, from.len ? &from : NULL, o);
		if (n < 0)
			return n;
		if (o->nr == before)
			break;
		from = o->keys[o->nr - 1];
	}
	return (ssize_t)o->nr;
}

ssize_t peal_list(struct peal *p, const struct peal_key *after, struct peal_key *keys, size_t max,
		  struct peal_call *c)
{
	struct list_out o = {.keys = keys, .max = max};
	struct call call;
	ssize_t n = call_begin(p, "list", NULL, c, &call);

	if (n < 0)
		return n;
	if (after && (after->len < 1 || after->len > PEAL_KEY_MAX))
		n = errmsg_set(-EINVAL, "list: a start key of %u bytes, expected 1 to %u",
			       after->len, PEAL_KEY_MAX);
	else
		n = call_buf(&call, LIST_BYTES);
	if (!n)
		n = list_run(&call, after, &o);
	return call_end(&call, n);
}
