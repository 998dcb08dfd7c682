/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases, see lease.h. A lease is one allocation: the public struct, a reference to the connection
 * whose mappings its extents point into, extents, seals. The reply of LEASE comes from another
 * process and is checked once, in lease_check().
 *
 * A whole chunk inside one extent is copied and hashed in one pass, straight to its place. A part
 * of a chunk, or a chunk that crosses extents, goes through 64 KiB of our own first: only a whole
 * chunk can be checked.
 */
#include "client/lease.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mono.h"
#include "client/errmsg.h"
#include "peal/seal.h"

#define LEASE_REPLY_BYTES 65536u
#define LEASE_FEW_EXTENTS 128u
#define LEASE_RELEASE_NS (500 * MONO_NS_PER_MS)
#define LEASE_WAKE_NS (40 * MONO_NS_PER_US)

struct lease {
	struct peal_lease pub;
	struct list node; /* p->leases */
	struct peal *p;
	struct conn *conn;
	struct chan *ch; /* that it came by, and goes; NULL: another queue */
	uint64_t key_hash;
	struct peal_extent ext[];
};

static const struct lease *lease_of(const struct peal_lease *l)
{
	return (const struct lease *)l; /* its first member */
}

/* What the daemon sent must be whole and cover the value. */
static int lease_check(const struct peal_wire_lease *w, uint32_t bytes)
{
	uint64_t need = sizeof(*w) + (uint64_t)w->nr_ext * sizeof(struct peal_wire_extent) +
			(uint64_t)w->nr_seals * sizeof(uint64_t);

	if (bytes < sizeof(*w) || need > bytes || !w->nr_ext || w->value_bytes > PEAL_VALUE_MAX ||
	    w->nr_seals != peal_seal_count(w->value_bytes))
		return errmsg_set(-EPROTO,
				  "the daemon's lease is damaged: %u bytes, %u extents, %u seals, "
				  "a value of %u",
				  bytes, w->nr_ext, w->nr_seals, w->value_bytes);
	return 0;
}

int lease_map(struct call *call, struct peal_lease *pub)
{
	struct lease *l = (struct lease *)pub;
	const uint8_t *exts = call->buf.ptr + sizeof(struct peal_wire_lease);
	uint64_t left = l->pub.value_bytes;

	for (uint32_t i = 0; i < l->pub.nr_ext; i++) {
		struct peal_wire_extent at;
		int err;

		memcpy(&at, exts + i * sizeof(at), sizeof(at));
		err = conn_arena_ptr(call->conn, &at, &l->ext[i].ptr, call->deadline_ns);
		if (err)
			return err;
		l->ext[i].bytes = at.len < left ? at.len : left;
		left -= l->ext[i].bytes;
	}
	if (left)
		return errmsg_set(-EPROTO, "the daemon's lease is %llu bytes short of the value",
				  (unsigned long long)left);
	return 0;
}

static void lease_free(struct lease *l)
{
	pthread_mutex_lock(&l->p->lock);
	list_del(&l->node);
	pthread_mutex_unlock(&l->p->lock);
	conn_put(l->conn);
	free(l);
}

void lease_free_all(struct peal *p)
{
	struct lease *l, *tmp;

	list_for_each_entry_safe(l, tmp, &p->leases, node)
		lease_free(l);
}

size_t lease_reply_bytes(uint64_t value_bytes)
{
	return sizeof(struct peal_wire_lease) +
	       LEASE_FEW_EXTENTS * sizeof(struct peal_wire_extent) +
	       peal_seal_count(value_bytes) * sizeof(uint64_t);
}

int lease_make(struct call *call, uint32_t bytes, uint64_t asked_ns, struct peal_lease **out)
{
	const uint8_t *reply = call->buf.ptr;
	struct peal_wire_lease w;
	const uint8_t *exts = reply + sizeof(w);
	struct lease *l;
	uint64_t *seals;
	int err;

	memcpy(&w, reply, sizeof(w));
	err = lease_check(&w, bytes);
	if (err)
		return err;
	l = malloc(sizeof(*l) + w.nr_ext * sizeof(l->ext[0]) + w.nr_seals * sizeof(*seals));
	if (!l)
		return errmsg_set(-ENOMEM, "no memory for a lease");
	seals = (uint64_t *)(l->ext + w.nr_ext);
	memcpy(seals, exts + w.nr_ext * sizeof(struct peal_wire_extent),
	       w.nr_seals * sizeof(*seals));
	l->pub = (struct peal_lease){
		.id = w.id,
		.version = w.version,
		.value_bytes = w.value_bytes,
		.until_ns = asked_ns + w.lease_ms * MONO_NS_PER_MS,
		.key = *call->key,
		.nr_ext = w.nr_ext,
		.nr_seals = w.nr_seals,
		.ext = l->ext,
		.seals = seals,
	};
	l->key_hash = hash_key(call->key->b, call->key->len);
	conn_get(call->conn);
	l->conn = call->conn;
	l->ch = NULL;
	l->p = call->p;
	pthread_mutex_lock(&l->p->lock);
	list_add_tail(&l->p->leases, &l->node);
	pthread_mutex_unlock(&l->p->lock);
	*out = &l->pub;
	return 0;
}

/* The whole of it. It ends, also where it can't be read, by the channel that it came by. */
static int lease_open(struct call *call, uint32_t bytes, uint64_t asked_ns, struct peal_lease **out)
{
	struct peal_lease *l;
	int err = lease_make(call, bytes, asked_ns, &l);

	if (err)
		return err;
	((struct lease *)l)->ch = chan_mine(call->conn);
	err = lease_map(call, l);
	if (err) {
		lease_drop(l);
		return err;
	}
	*out = l;
	return 0;
}

int lease_take(struct call *call, uint32_t ms, struct peal_lease **out)
{
	size_t room = LEASE_REPLY_BYTES;
	int err = 0;

	if (!conn_has_cmd(call->conn, PEAL_OPC_LEASE) || !call->conn->has_arena)
		return errmsg_set(-EOPNOTSUPP, "the daemon gives no leases");
	for (unsigned tries = 0; tries < 2; tries++) {
		struct chan_cmd cmd = call_cmd(call, PEAL_OPC_LEASE, 0);
		uint64_t asked_ns = mono_ns();

		if (!call->buf.ptr || call->buf.bytes < room) {
			if (call->buf.ptr)
				bufs_put(&call->conn->bufs, &call->buf);
			err = call_buf(call, room);
		}
		if (err)
			return err;
		cmd.data_bytes = cmd.sqe.cdw10 = (uint32_t)call->buf.bytes;
		cmd.sqe.cdw12 = ms;
		err = call_exec(call, &cmd);
		if (!err)
			err = call_status(call, cmd.status);
		if (err)
			return err;
		if (cmd.dw0 <= call->buf.bytes)
			return lease_open(call, cmd.dw0, asked_ns, out);
		room = cmd.dw0; /* nothing was leased; this is what it takes */
	}
	return errmsg_set(-EAGAIN, "lease: the value's extents changed twice under us");
}

void lease_release_sqe(const struct peal_lease *l, struct nvme_sqe *sqe)
{
	*sqe = (struct nvme_sqe){
		.opc = PEAL_OPC_RELEASE,
		.cdw10 = (uint32_t)l->id,
		.cdw11 = (uint32_t)(l->id >> 32),
	};
}

void lease_forget(struct peal_lease *pub)
{
	lease_free((struct lease *)pub);
}

int lease_drop(struct peal_lease *pub)
{
	struct lease *l = (struct lease *)pub;
	struct chan_cmd cmd = {0};
	int err;

	lease_release_sqe(pub, &cmd.sqe);
	/*
	 * Also after a deadline: it must not hold the arena longer than it need. Nobody waits for
	 * the answer, unless a daemon that doesn't answer has left too many.
	 */
	err = conn_is_dead(l->conn) ? 0 : l->ch ? chan_post(l->ch, &cmd) : -EAGAIN;
	if (err == -EAGAIN) {
		err = chan_exec(l->conn, &cmd, mono_ns() + LEASE_RELEASE_NS);
		if (!err)
			err = errmsg_errno(cmd.status);
	}
	lease_free(l);
	/* It had run out already, or went with the daemon. */
	return err == -ENOENT || err == -ENOTCONN ? 0 : err;
}

/* The bytes at `at`, out of as many extents as it takes. */
static void lease_gather(const struct peal_lease *l, uint64_t at, uint8_t *to, size_t bytes)
{
	for (uint32_t i = 0; i < l->nr_ext && bytes; i++) {
		const struct peal_extent *x = &l->ext[i];
		size_t n;

		if (at >= x->bytes) {
			at -= x->bytes;
			continue;
		}
		n = x->bytes - at < bytes ? x->bytes - at : bytes;
		memcpy(to, (const uint8_t *)x->ptr + at, n);
		to += n;
		bytes -= n;
		at = 0;
	}
}

/* Its place when [at, at + bytes) lies in one extent, else NULL. */
static const uint8_t *lease_contiguous(const struct peal_lease *l, uint64_t at, size_t bytes)
{
	for (uint32_t i = 0; i < l->nr_ext; i++) {
		const struct peal_extent *x = &l->ext[i];

		if (at < x->bytes)
			return bytes <= x->bytes - at ? (const uint8_t *)x->ptr + at : NULL;
		at -= x->bytes;
	}
	return NULL;
}

/* One chunk, the part [from, to) of it, to `buf`. `own` is 64 KiB. */
static int lease_copy_chunk(const struct lease *l, uint64_t chunk, uint64_t range[2], uint8_t *buf,
			    uint8_t *own)
{
	uint64_t at = chunk * PEAL_CHUNK_BYTES;
	uint32_t len = peal_seal_chunk_len(l->pub.value_bytes, chunk);
	uint64_t seed = peal_seal_seed_at(l->key_hash, chunk);
	bool is_whole = range[0] == at && range[1] == at + len;
	const uint8_t *src = lease_contiguous(&l->pub, at, len);
	uint64_t seal;

	if (is_whole && src) {
		seal = hash_copy_xxh3(buf, src, len, seed);
	} else {
		if (src) {
			seal = hash_copy_xxh3(own, src, len, seed);
		} else {
			lease_gather(&l->pub, at, own, len);
			seal = hash_xxh3(own, len, seed);
		}
		if (seal == l->pub.seals[chunk])
			memcpy(buf, own + (range[0] - at), range[1] - range[0]);
	}
	return seal == l->pub.seals[chunk] ? 0 : -EILSEQ;
}

/*
 * A worker without work sleeps after some 50 us, and to wake it takes 5 to 40. Behind the value's
 * last byte comes its release, so it is woken while the last bytes are copied. True: it was.
 */
static bool lease_wake(const struct lease *l, uint64_t start_ns, uint64_t done, uint64_t left)
{
	if ((mono_ns() - start_ns) * left > LEASE_WAKE_NS * done)
		return false;
	return l->ch && chan_wake(l->ch);
}

ssize_t lease_copy(const struct peal_lease *pub, uint64_t off, void *buf, size_t bytes)
{
	const struct lease *l = lease_of(pub);
	uint64_t end = off + bytes < pub->value_bytes ? off + bytes : pub->value_bytes;
	uint64_t start_ns = mono_ns();
	bool is_awake = end < pub->value_bytes;
	uint8_t *own = NULL, *to = buf;
	int err = 0;

	if (off >= pub->value_bytes)
		return 0;
	own = malloc(PEAL_CHUNK_BYTES);
	if (!own)
		return errmsg_set(-ENOMEM, "no memory to check a chunk in");
	for (uint64_t at = off; at < end && !err;) {
		uint64_t chunk = at / PEAL_CHUNK_BYTES;
		uint64_t next = (chunk + 1) * PEAL_CHUNK_BYTES;
		uint64_t range[2] = {at, next < end ? next : end};

		err = lease_copy_chunk(l, chunk, range, to, own);
		to += range[1] - range[0];
		at = range[1];
		if (!is_awake && at < end)
			is_awake = lease_wake(l, start_ns, at - off, end - at);
	}
	free(own);
	if (err) {
		char key[ERRMSG_KEY_BYTES];

		return errmsg_set(
			err, "lease of %s: these are not the bytes that were leased (any more)",
			errmsg_key(&pub->key, key));
	}
	return (ssize_t)(end - off);
}

int peal_lease(struct peal *p, const struct peal_key *k, uint32_t ms, struct peal_lease **l)
{
	struct call call;
	int err = call_begin(p, "lease", k ? k : &(struct peal_key){0}, NULL, &call);

	if (err)
		return err;
	err = lease_take(&call, ms, l);
	return (int)call_end(&call, err);
}

ssize_t peal_lease_read(struct peal *p, struct peal_lease *l, uint64_t off, void *buf, size_t bytes)
{
	ssize_t n;

	if (mono_ns() >= l->until_ns)
		return errmsg_set(-ETIMEDOUT, "the lease has run out");
	n = lease_copy(l, off, buf, bytes);
	if (n == -EILSEQ)
		call_count(&p->bad_seals, 1);
	if (n > 0)
		call_count(&p->bytes_out, (uint64_t)n);
	return n;
}

int peal_release(struct peal *p, struct peal_lease *l)
{
	(void)p;
	return l ? lease_drop(l) : 0;
}
