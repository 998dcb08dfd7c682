/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with a deadline: the frame that call.h describes, and the simple ones on it (put, del,
 * flush). Any thread.
 */
#include "client/call.h"

#include <errno.h>
#include <string.h>

#include "base/mono.h"
#include "base/must.h"
#include "client/errmsg.h"
#include "client/keeper.h"

#define CALL_TIMEOUT_MS 2000

uint64_t call_deadline(const struct peal *p, uint32_t timeout_ms)
{
	uint64_t ms = timeout_ms ? timeout_ms : p->opts.timeout_ms;

	return mono_ns() + (ms ? ms : CALL_TIMEOUT_MS) * MONO_NS_PER_MS;
}

struct conn *call_conn(struct peal *p, int *err)
{
	struct conn *c;

	if (p->fork_gen != keeper_fork_gen()) {
		*err = errmsg_set(-EPERM, "this handle was opened before fork(): open a new one");
		return NULL;
	}
	pthread_mutex_lock(&p->lock);
	c = p->conn;
	if (c)
		conn_get(c);
	else
		*err = errmsg_set(-ENOTCONN, "the daemon at %s is gone%s%s", p->uri.path,
				  p->last_error[0] ? "; last try: " : "", p->last_error);
	pthread_mutex_unlock(&p->lock);
	return c;
}

int call_check_key(const struct conn *c, const char *verb, const struct peal_key *k)
{
	if (!k)
		return errmsg_set(-EINVAL, "%s: no key", verb);
	if (k->len < 1 || k->len > c->ns.key_max)
		return errmsg_set(-EINVAL, "%s: a key of %u bytes, expected 1 to %u", verb, k->len,
				  c->ns.key_max);
	return 0;
}

int call_begin(struct peal *p, const char *verb, const struct peal_key *k,
	       const struct peal_call *c, struct call *call)
{
	int err = 0;

	*call = (struct call){
		.p = p,
		.verb = verb,
		.key = k,
		.deadline_ns = call_deadline(p, c ? c->timeout_ms : 0),
	};
	call_count(&p->calls, 1);
	call->conn = call_conn(p, &err);
	if (err)
		return err;
	if (k)
		err = call_check_key(call->conn, verb, k);
	if (err)
		conn_put(call->conn);
	return err;
}

int call_buf(struct call *call, size_t bytes)
{
	return bufs_get(&call->conn->bufs, bytes, &call->buf, call->deadline_ns);
}

struct chan_cmd call_cmd(const struct call *call, uint8_t opc, uint8_t opts)
{
	struct chan_cmd cmd = {.sqe = {.opc = opc}};

	if (call->key)
		nvme_kv_key_set(&cmd.sqe, call->key->b, call->key->len, opts);
	else
		nvme_kv_key_set(&cmd.sqe, "", 0, opts);
	return cmd;
}

int call_exec(struct call *call, struct chan_cmd *cmd)
{
	char key[ERRMSG_KEY_BYTES];
	int err;

	cmd->buf = cmd->data_bytes ? &call->buf : NULL;
	err = chan_exec(call->conn, cmd, call->deadline_ns);
	if (err == -ETIMEDOUT)
		errmsg_set(err, "%s%s%s: no answer from the daemon in time", call->verb,
			   call->key ? " " : "", call->key ? errmsg_key(call->key, key) : "");
	return err;
}

int call_status(const struct call *call, uint16_t status)
{
	return errmsg_status(status, call->verb, call->key);
}

ssize_t call_end(struct call *call, ssize_t res)
{
	if (call->buf.ptr)
		bufs_put(&call->conn->bufs, &call->buf);
	conn_put(call->conn);
	if (res == -ETIMEDOUT)
		call_count(&call->p->timeouts, 1);
	return res;
}

void call_fill_store_ex(struct peal_store_ex *x, const struct peal_meta *m)
{
	*x = (struct peal_store_ex){
		.parent_len = m->parent.len,
		.group_len = m->group.len,
		.cls = m->cls,
		.cost_us = m->cost_us,
		.seq = m->seq,
	};
	memcpy(x->parent, m->parent.b, sizeof(x->parent));
	memcpy(x->group, m->group.b, sizeof(x->group));
	memcpy(x->tag, m->tag, sizeof(x->tag));
}

static int call_check_put(const struct call *call, const void *value, size_t bytes,
			  const struct peal_call *c)
{
	uint32_t flags = c ? c->flags : 0;
	char key[ERRMSG_KEY_BYTES];

	errmsg_key(call->key, key);
	if (!value || !bytes)
		return errmsg_set(-EINVAL, "put %s: a value of 0 bytes, expected 1 to %u", key,
				  call->conn->ns.value_max);
	if (bytes > call->conn->ns.value_max)
		return errmsg_set(-EFBIG, "put %s: a value of %zu bytes, the namespace takes %u",
				  key, bytes, call->conn->ns.value_max);
	if (flags & ~(PEAL_IF_ABSENT | PEAL_IF_PRESENT) ||
	    flags == (PEAL_IF_ABSENT | PEAL_IF_PRESENT))
		return errmsg_set(
			-EINVAL, "put %s: flags %#x, expected PEAL_IF_ABSENT, PEAL_IF_PRESENT or 0",
			key, flags);
	if (c && c->meta &&
	    (c->meta->parent.len > PEAL_KEY_MAX || c->meta->group.len > PEAL_KEY_MAX))
		return errmsg_set(-EINVAL, "put %s: parent or group of more than %u bytes", key,
				  PEAL_KEY_MAX);
	if (c && c->meta && !conn_has_cmd(call->conn, PEAL_OPC_STORE_EX))
		return errmsg_set(-EOPNOTSUPP, "put %s: the daemon takes no metadata", key);
	return 0;
}

int peal_put(struct peal *p, const struct peal_key *k, const void *value, size_t bytes,
	     struct peal_call *c)
{
	bool has_meta = c && c->meta;
	size_t head = has_meta ? PEAL_STORE_EX_BYTES : 0;
	uint8_t opts = 0;
	struct chan_cmd cmd;
	struct call call;
	int err = call_begin(p, "put", k ? k : &(struct peal_key){0}, c, &call);

	if (err)
		return err;
	err = call_check_put(&call, value, bytes, c);
	if (!err)
		err = call_buf(&call, head + bytes);
	if (err)
		return (int)call_end(&call, err);
	if (has_meta)
		call_fill_store_ex((struct peal_store_ex *)call.buf.ptr, c->meta);
	memcpy(call.buf.ptr + head, value, bytes);
	if (c && c->flags & PEAL_IF_ABSENT)
		opts = NVME_KV_STORE_IF_ABSENT;
	else if (c && c->flags & PEAL_IF_PRESENT)
		opts = NVME_KV_STORE_IF_EXISTS;
	cmd = call_cmd(&call, has_meta ? PEAL_OPC_STORE_EX : NVME_KV_STORE, opts);
	cmd.data_bytes = cmd.sqe.cdw10 = (uint32_t)(head + bytes);
	err = call_exec(&call, &cmd);
	if (!err)
		err = call_status(&call, cmd.status);
	if (!err)
		call_count(&p->bytes_in, bytes);
	return (int)call_end(&call, err);
}

int call_simple(struct peal *p, const char *verb, const struct peal_key *k, uint8_t opc,
		struct peal_call *c)
{
	struct chan_cmd cmd;
	struct call call;
	int err = call_begin(p, verb, k, c, &call);

	if (err)
		return err;
	cmd = call_cmd(&call, opc, 0);
	err = call_exec(&call, &cmd);
	if (!err)
		err = call_status(&call, cmd.status);
	return (int)call_end(&call, err);
}

int peal_del(struct peal *p, const struct peal_key *k, struct peal_call *c)
{
	return call_simple(p, "del", k ? k : &(struct peal_key){0}, NVME_KV_DELETE, c);
}

int peal_flush(struct peal *p, struct peal_call *c)
{
	return call_simple(p, "flush", NULL, NVME_KV_FLUSH, c);
}
