/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_get(), and peal_exist(), which is a get of nothing. The daemon never learns of the caller's
 * memory; bytes get there by our own copy, and only what has arrived and is checked:
 *
 *	small, no peal_call    one Retrieve into our buffer; DW0 is the value's size
 *	small                  one RETRIEVE_EX, whose block says version, size and metadata
 *	large                  a lease: one copy out of the arena, each chunk checked by it
 *	large, no lease        RETRIEVE_EX in pieces of 1 MiB, pinned to the first piece's version
 *
 * A lease that doesn't check out is read again in pieces: then the daemon sees for itself, and
 * answers with a miss when the bytes really are bad. Any thread.
 */
#include "client/get.h"

#include <errno.h>
#include <string.h>

#include "base/mono.h"
#include "client/errmsg.h"
#include "client/lease.h"

#define GET_SMALL_BYTES 65536u
#define GET_PIECE_BYTES (1u << 20)
#define GET_LEASE_MS 2000
#define GET_TRIES 3
#define GET_OFFSET_UNIT 4096u

struct get {
	struct call call;
	struct peal_call *c; /* may be NULL */
	uint8_t *to;
	size_t room;
	uint64_t offset;
	bool is_part; /* what fits is enough */
	uint8_t opts;
	/* of the value, when known */
	uint64_t value_bytes;
	uint64_t version;
};

/* How many bytes the caller gets of a value of that size; -EMSGSIZE. */
static ssize_t get_share(struct get *g, uint64_t value_bytes)
{
	uint64_t n = value_bytes > g->offset ? value_bytes - g->offset : 0;
	char key[ERRMSG_KEY_BYTES];

	if (g->c)
		g->c->value_bytes = value_bytes;
	if (!n)
		return errmsg_set(-EINVAL,
				  "get %s: offset %llu isn't inside the value of %llu bytes",
				  errmsg_key(g->call.key, key), (unsigned long long)g->offset,
				  (unsigned long long)value_bytes);
	if (n <= g->room)
		return (ssize_t)n;
	if (g->is_part)
		return (ssize_t)g->room;
	return errmsg_set(-EMSGSIZE,
			  "get %s: the value has %llu bytes from %llu on, the buffer %zu",
			  errmsg_key(g->call.key, key), (unsigned long long)n,
			  (unsigned long long)g->offset, g->room);
}

static ssize_t get_plain(struct get *g)
{
	struct chan_cmd cmd = call_cmd(&g->call, NVME_KV_RETRIEVE, g->opts);
	ssize_t n;
	int err = g->room ? call_buf(&g->call, g->room) : 0;

	if (err)
		return err;
	cmd.data_bytes = cmd.sqe.cdw10 = (uint32_t)g->room;
	err = call_exec(&g->call, &cmd);
	if (!err)
		err = call_status(&g->call, cmd.status);
	if (err)
		return err;
	n = get_share(g, cmd.dw0);
	if (n > 0)
		memcpy(g->to, g->call.buf.ptr, (size_t)n);
	return n;
}

/* ---- RETRIEVE_EX ---- */

int get_check_tag(const struct call *call, const uint8_t *want, const struct peal_retrieve_ex *x)
{
	char key[ERRMSG_KEY_BYTES];

	if (!want || memcmp(x->tag, want, PEAL_TAG_BYTES) == 0)
		return 0;
	call_count(&call->p->bad_tags, 1);
	return errmsg_set(-ENOENT, "%s %s: there is a value, but its tag is another one",
			  call->verb, errmsg_key(call->key, key));
}

static struct peal_key get_wire_key(const uint8_t b[16], uint8_t len)
{
	struct peal_key k = {.len = len <= PEAL_KEY_MAX ? len : 0};

	memcpy(k.b, b, k.len);
	return k;
}

struct peal_meta get_meta(const struct peal_retrieve_ex *x)
{
	struct peal_meta m = {
		.parent = get_wire_key(x->parent, x->parent_len),
		.group = get_wire_key(x->group, x->group_len),
		.cls = x->cls,
		.cost_us = x->cost_us,
		.seq = x->seq,
	};

	memcpy(m.tag, x->tag, PEAL_TAG_BYTES);
	return m;
}

static void get_take_meta(struct get *g, const struct peal_retrieve_ex *x)
{
	g->version = x->version;
	g->value_bytes = x->value_bytes;
	if (!g->c)
		return;
	g->c->version = x->version;
	if (g->c->meta)
		*g->c->meta = get_meta(x);
}

/*
 * One RETRIEVE_EX with its block: `bytes` from `offset` on (0: the block alone, which is a look and
 * not a use), of version `want` (0 = any), into the call's buffer. The block is taken and the tag
 * checked; what was delivered follows it there.
 */
static ssize_t get_ex(struct get *g, uint64_t offset, size_t bytes, uint64_t want)
{
	struct chan_cmd cmd = call_cmd(&g->call, PEAL_OPC_RETRIEVE_EX,
				       g->opts | PEAL_RETRIEVE_EX_META);
	char key[ERRMSG_KEY_BYTES];
	struct peal_retrieve_ex x;
	int err = 0;

	if (!g->call.buf.ptr)
		err = call_buf(&g->call, PEAL_RETRIEVE_EX_BYTES + bytes);
	if (err)
		return err;
	cmd.data_bytes = cmd.sqe.cdw10 = (uint32_t)(PEAL_RETRIEVE_EX_BYTES + bytes);
	cmd.sqe.cdw12 = (uint32_t)(offset / GET_OFFSET_UNIT);
	cmd.sqe.cdw13 = (uint32_t)want;
	err = call_exec(&g->call, &cmd);
	if (!err)
		err = call_status(&g->call, cmd.status);
	if (err == -EINVAL && offset)
		errmsg_set(err, "get %s: offset %llu isn't inside the value",
			   errmsg_key(g->call.key, key), (unsigned long long)offset);
	if (err)
		return err;
	memcpy(&x, g->call.buf.ptr, sizeof(x));
	if (cmd.dw0 > bytes)
		return errmsg_set(-EPROTO, "get: the daemon says it delivered %u bytes into %zu",
				  cmd.dw0, bytes);
	if (want && x.version != want)
		return errmsg_set(-ENOENT, "get %s: the value changed while it was read",
				  errmsg_key(g->call.key, key));
	err = get_check_tag(&g->call, g->c ? g->c->want_tag : NULL, &x);
	if (err)
		return err;
	get_take_meta(g, &x);
	return cmd.dw0;
}

/* The value's bytes inside the call's buffer. */
static const uint8_t *get_ex_bytes(const struct get *g)
{
	return g->call.buf.ptr + PEAL_RETRIEVE_EX_BYTES;
}

static ssize_t get_small(struct get *g)
{
	ssize_t got = get_ex(g, g->offset, g->room ? g->room : 1, 0);
	ssize_t n = got < 0 ? got : get_share(g, g->value_bytes);

	if (n < 0)
		return n;
	if (got < n)
		return errmsg_set(-EPROTO, "get: %zd bytes came of %zd", got, n);
	if (n)
		memcpy(g->to, get_ex_bytes(g), (size_t)n);
	return n;
}

/* Once through all pieces. -ENOENT with *has_changed: the version went away under us. */
static ssize_t get_pieces_once(struct get *g, bool *has_changed)
{
	size_t piece = g->room < GET_PIECE_BYTES ? g->room : GET_PIECE_BYTES;
	ssize_t got = get_ex(g, g->offset, piece, 0);
	ssize_t n = got < 0 ? got : get_share(g, g->value_bytes);
	uint64_t version = g->version, at = 0;

	*has_changed = false;
	if (n < 0)
		return n;
	for (;;) {
		size_t left = (size_t)n - at;
		size_t part = (size_t)got < left ? (size_t)got : left;

		if (part)
			memcpy(g->to + at, get_ex_bytes(g), part);
		at += part;
		if (at >= (uint64_t)n)
			return n;
		if (got < (ssize_t)GET_PIECE_BYTES)
			return errmsg_set(-EPROTO, "get: a piece of %zd bytes, expected %u", got,
					  GET_PIECE_BYTES);
		got = get_ex(g, g->offset + at, piece, version);
		if (got == -ENOENT)
			*has_changed = true;
		if (got < 0)
			return got;
	}
}

static ssize_t get_pieces(struct get *g)
{
	bool has_changed = true;
	ssize_t n = -ENOENT;

	for (unsigned i = 0; i < GET_TRIES && has_changed; i++)
		n = get_pieces_once(g, &has_changed);
	return n;
}

/* ---- by lease ---- */

static bool get_needs_block(const struct get *g)
{
	return g->c && (g->c->meta || g->c->want_tag);
}

/* -EAGAIN: not this way. */
static ssize_t get_by_lease(struct get *g)
{
	struct peal_lease *l;
	ssize_t n = 0;
	int err;

	if (get_needs_block(g)) {
		n = get_ex(g, 0, 0, 0);
		if (n < 0)
			return n;
	}
	err = lease_take(&g->call, GET_LEASE_MS, &l);
	if (err == -ENOENT || err == -ETIMEDOUT || err == -ENOTCONN)
		return err;
	if (err)
		return -EAGAIN;
	if (get_needs_block(g) && l->version != g->version)
		n = -EAGAIN; /* replaced in between; the pieces pin one version */
	else
		n = get_share(g, l->value_bytes);
	if (g->c)
		g->c->version = l->version;
	if (n > 0)
		n = lease_copy(l, g->offset, g->to, (size_t)n);
	if (n == -EILSEQ) {
		call_count(&g->call.p->bad_seals, 1);
		n = -EAGAIN;
	}
	lease_drop(l);
	return n;
}

static void get_learn(struct get *g, enum estimate_source from, ssize_t n, uint64_t start_ns)
{
	if (n > 0)
		estimate_add(&g->call.p->ns_per_mib[from], (uint64_t)n, mono_ns() - start_ns);
}

static ssize_t get_large(struct get *g)
{
	bool has_lease = conn_has_cmd(g->call.conn, PEAL_OPC_LEASE) && g->call.conn->has_arena &&
			 !(g->opts & NVME_KV_RETRIEVE_RAW);
	ssize_t n = has_lease ? -EAGAIN : -EOPNOTSUPP;
	uint64_t start_ns = mono_ns();

	if (has_lease)
		n = get_by_lease(g);
	get_learn(g, ESTIMATE_MEMORY, n, start_ns);
	if (n != -EAGAIN && has_lease)
		return n;
	if (g->call.buf.ptr)
		bufs_put(&g->call.conn->bufs, &g->call.buf);
	n = get_pieces(g);
	get_learn(g, has_lease ? ESTIMATE_BELOW : ESTIMATE_MEMORY, n, start_ns);
	return n;
}

static int get_check(const struct get *g)
{
	bool has_ex = conn_has_cmd(g->call.conn, PEAL_OPC_RETRIEVE_EX);
	uint32_t flags = g->c ? g->c->flags : 0;
	char key[ERRMSG_KEY_BYTES];

	errmsg_key(g->call.key, key);
	if (!g->to && g->room)
		return errmsg_set(-EINVAL, "get %s: no buffer", key);
	if (flags & ~(PEAL_RAW | PEAL_PART))
		return errmsg_set(-EINVAL, "get %s: flags %#x, expected PEAL_RAW, PEAL_PART or 0",
				  key, flags);
	if (g->offset % GET_OFFSET_UNIT || g->offset >= PEAL_VALUE_MAX)
		return errmsg_set(-EINVAL,
				  "get %s: offset %llu, expected a multiple of %u below %u", key,
				  (unsigned long long)g->offset, GET_OFFSET_UNIT, PEAL_VALUE_MAX);
	if (!has_ex && (g->offset || get_needs_block(g)))
		return errmsg_set(-EOPNOTSUPP, "get %s: the daemon has no ranges and no metadata",
				  key);
	return 0;
}

static int get_check_look(const struct get *g)
{
	char key[ERRMSG_KEY_BYTES];

	if (g->c->flags)
		return errmsg_set(-EINVAL, "exist %s: flags %#x, expected 0",
				  errmsg_key(g->call.key, key), g->c->flags);
	if (get_needs_block(g) && !conn_has_cmd(g->call.conn, PEAL_OPC_RETRIEVE_EX))
		return errmsg_set(-EOPNOTSUPP, "exist %s: the daemon has no metadata",
				  errmsg_key(g->call.key, key));
	return 0;
}

/* Exist doesn't tell a size; a block without a value does, and a stranger's Retrieve of nothing. */
static int get_look(struct get *g)
{
	struct chan_cmd cmd = call_cmd(&g->call, NVME_KV_RETRIEVE, 0);
	int err;

	if (conn_has_cmd(g->call.conn, PEAL_OPC_RETRIEVE_EX)) {
		err = (int)get_ex(g, 0, 0, 0);
		if (!err)
			g->c->value_bytes = g->value_bytes;
		return err;
	}
	err = call_exec(&g->call, &cmd);
	if (!err)
		err = call_status(&g->call, cmd.status);
	if (!err) {
		g->c->value_bytes = cmd.dw0;
		g->c->version = 0;
	}
	return err;
}

static ssize_t get_run(struct get *g)
{
	bool has_ex = conn_has_cmd(g->call.conn, PEAL_OPC_RETRIEVE_EX);

	if (!has_ex || (!g->c && g->room <= GET_SMALL_BYTES))
		return get_plain(g);
	if (g->room <= GET_SMALL_BYTES)
		return get_small(g);
	return get_large(g);
}

ssize_t peal_get(struct peal *p, const struct peal_key *k, void *buf, size_t bytes,
		 struct peal_call *c)
{
	struct get g = {
		.c = c,
		.to = buf,
		.room = bytes < PEAL_VALUE_MAX ? bytes : PEAL_VALUE_MAX,
		.offset = c ? c->offset : 0,
		.is_part = c && c->flags & PEAL_PART,
		.opts = c && c->flags & PEAL_RAW ? NVME_KV_RETRIEVE_RAW : 0,
	};
	ssize_t n = call_begin(p, "get", k ? k : &(struct peal_key){0}, c, &g.call);

	if (n < 0)
		return n;
	n = get_check(&g);
	if (!n)
		n = get_run(&g);
	if (n >= 0 || n == -ENOENT)
		call_count(n >= 0 ? &p->hits : &p->misses, 1);
	if (n > 0)
		call_count(&p->bytes_out, (uint64_t)n);
	return call_end(&g.call, n);
}

int peal_exist(struct peal *p, const struct peal_key *k, struct peal_call *c)
{
	struct get g = {.c = c};
	ssize_t n;

	k = k ? k : &(struct peal_key){0};
	if (!c)
		return call_simple(p, "exist", k, NVME_KV_EXIST, NULL);
	n = call_begin(p, "exist", k, c, &g.call);
	if (n < 0)
		return (int)n;
	n = get_check_look(&g);
	if (!n)
		n = get_look(&g);
	return (int)call_end(&g.call, n);
}
