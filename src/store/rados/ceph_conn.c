/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handle of librados and what is asked with it: made as a link's options say, connected, the pool
 * found, whether we may read and write there. All of it waits, for at most timeout_s each; the
 * link's thread runs it, and whoever opens a link the first one.
 * tidy: no-test: test/ceph has it against clusters that come and go
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/rados/ceph_int.h"

static int conn_set(rados_t cl, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return rados_conf_set(cl, name, text);
}

/*
 * The bounds at which librados makes its caller wait are twice what we let be under way. Its own
 * signal handlers and its log on stderr are no business of a library in a daemon.
 */
static int conn_limits(const struct ceph_link *link, rados_t cl)
{
	const struct ceph_opts *o = &link->o;
	uint64_t reads = (uint64_t)o->nr_shards * (CEPH_LARGES + 4) * STORE_PIECE_BYTES;
	uint64_t writes = o->max_write_bytes + (uint64_t)o->nr_shards * o->value_max;
	int err = conn_set(cl, "objecter_inflight_op_bytes", 2 * (reads + writes));

	if (!err)
		err = conn_set(cl, "objecter_inflight_ops",
			       2 * o->nr_shards *
				       (CEPH_LOOKS + CEPH_SMALLS + CEPH_LARGES + CEPH_WRITES));
	if (!err)
		err = conn_set(cl, "rados_osd_op_timeout", o->timeout_s);
	if (!err)
		err = conn_set(cl, "rados_mon_op_timeout", o->timeout_s);
	if (!err)
		err = conn_set(cl, "client_mount_timeout", o->timeout_s);
	if (!err)
		err = rados_conf_set(cl, "log_to_stderr", "false");
	return err ? err : rados_conf_set(cl, "err_to_stderr", "false");
}

int ceph_conn_handle(const struct ceph_link *link, rados_t *out)
{
	rados_t cl;
	int err = rados_create(&cl, link->o.id);

	if (err)
		return err;
	err = rados_conf_read_file(cl, link->o.conf);
	if (!err && link->o.keyring)
		err = rados_conf_set(cl, "keyring", link->o.keyring);
	if (!err)
		err = conn_limits(link, cl);
	if (err)
		rados_shutdown(cl);
	else
		*out = cl;
	return err;
}

int ceph_conn_open(const struct ceph_link *link, rados_t *out)
{
	rados_t cl;
	int err = ceph_conn_handle(link, &cl);

	if (err)
		return err;
	err = rados_connect(cl);
	if (err)
		rados_shutdown(cl);
	else
		*out = cl;
	return err;
}

/*
 * Do the monitors answer? What librados asks of them without an end, a newer map or a pool that its
 * map hasn't, is only asked behind this, which has one. Any answer will do.
 */
bool ceph_conn_has_mon(rados_t cl)
{
	const char *ask = "{\"prefix\": \"osd stat\"}";
	char *out = NULL, *said = NULL;
	size_t nr_out, nr_said;
	int err = rados_mon_command(cl, &ask, 1, "", 0, &out, &nr_out, &said, &nr_said);

	rados_buffer_free(out);
	rados_buffer_free(said);
	return err != -ETIMEDOUT;
}

/* Is the pool in the map that we have? */
bool ceph_conn_knows(const struct ceph_link *link, rados_t cl)
{
	int need = rados_pool_list(cl, NULL, 0);
	auto_free char *names = need > 0 ? calloc(1, (size_t)need) : NULL;

	if (!names || rados_pool_list(cl, names, (size_t)need) > need)
		return false;
	/* Each ends with a zero, the last one with another. */
	for (const char *n = names; *n; n += strlen(n) + 1)
		if (strcmp(n, link->o.pool) == 0)
			return true;
	return false;
}

int ceph_conn_pool(const struct ceph_link *link, rados_t cl, rados_ioctx_t *io)
{
	int err = ceph_conn_knows(link, cl) || ceph_conn_has_mon(cl) ? 0 : -ETIMEDOUT;

	if (!err)
		err = rados_ioctx_create(cl, link->o.pool, io);
	if (!err)
		rados_ioctx_set_namespace(*io, link->o.ns);
	return err;
}

/* It demands that the object be there, which isn't, so it changes nothing. */
int ceph_conn_may(rados_ioctx_t io, const char *name)
{
	rados_write_op_t op;
	uint64_t size;
	time_t mtime;
	int err = rados_stat(io, name, &size, &mtime);

	if (err && err != -ENOENT)
		return err;
	op = rados_create_write_op();
	rados_write_op_assert_exists(op);
	rados_write_op_remove(op);
	err = rados_write_op_operate(op, io, name, NULL, LIBRADOS_OPERATION_FULL_TRY);
	rados_release_write_op(op);
	return err == -ENOENT ? 0 : err;
}
