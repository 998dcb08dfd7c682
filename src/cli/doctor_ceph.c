/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See doctor_ceph.h. Whether a user may write is asked with an operation that can't do anything: it
 * demands that an object be there which isn't, so the answer is either "not there" or "not
 * permitted". The object's name is none that a key has.
 * tidy: no-test: it takes a cluster, test/ceph/test_doctor.py
 */
#include "cli/doctor_ceph.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/ceph_api.h"

#define CEPH_WAIT_S "2"
#define CEPH_OBJECT "peal-doctor-looks-whether-it-may"
#define CEPH_WRITE_MIN_MIB 65 /* a value of 64 MiB and its attributes */

int doctor_ceph_parse(const char *text, struct doctor_ceph *dc)
{
	memset(dc, 0, sizeof(*dc));
	if (text && ceph_words_parse(&dc->words, text))
		return -EINVAL;
	dc->is_asked = text;
	dc->id = ceph_api_user(&dc->words);
	return 0;
}

void doctor_ceph_close(struct doctor_ceph *dc)
{
	if (dc->io)
		ceph_api.io_destroy(dc->io);
	if (dc->cluster)
		ceph_api.shutdown(dc->cluster);
	/* Not unloaded: threads of it may be on their way out. */
}

enum doctor_state doctor_ceph_conf(struct doctor *d)
{
	struct doctor_ceph *dc = d->ceph;
	const char *env = getenv("CEPH_CONF");

	snprintf(dc->where, sizeof(dc->where), "%s",
		 dc->words.conf[0] ? dc->words.conf : (env ? env : "/etc/ceph/ceph.conf"));
	if (access(dc->where, F_OK))
		return doctor_say(
			d, dc->is_asked ? DOCTOR_BAD : DOCTOR_NOTE,
			"no %s: only a namespace with a rados tier or on an RBD image wants it",
			dc->where);
	if (access(dc->where, R_OK))
		return doctor_say(d, DOCTOR_BAD, "%s can't be read by uid %u: chmod, chgrp",
				  dc->where, (unsigned)geteuid());
	dc->is_loaded = ceph_api_load();
	if (!dc->is_loaded)
		return doctor_say(d, DOCTOR_BAD, "%s, but no librados.so.2: install librados2",
				  dc->where);
	return doctor_say(d, DOCTOR_GOOD, "%s and librados", dc->where);
}

enum doctor_state doctor_ceph_mon(struct doctor *d)
{
	struct doctor_ceph *dc = d->ceph;
	char fsid[64] = "";
	/* Who hasn't named a pool may not want one. */
	enum doctor_state bad = dc->is_asked ? DOCTOR_BAD : DOCTOR_NOTE;
	int err;

	if (!dc->is_loaded)
		return DOCTOR_SKIP;
	err = ceph_api_connect(&dc->words, dc->where, CEPH_WAIT_S, &dc->cluster);
	if (err == 0) {
		ceph_api.fsid(dc->cluster, fsid, sizeof(fsid));
		return doctor_say(d, DOCTOR_GOOD, "client.%s is known to %s", dc->id, fsid);
	}
	switch (err) {
	case -ETIMEDOUT:
		return doctor_say(d, bad,
				  "no monitor answers within " CEPH_WAIT_S
				  " s: see mon_host in %s, "
				  "the network, `ceph -s`",
				  dc->where);
	case -ENOENT:
		return doctor_say(d, bad,
				  "no key ring for client.%s: put it where `keyring` of %s says, "
				  "by default /etc/ceph/ceph.client.%s.keyring",
				  dc->id, dc->where, dc->id);
	case -EACCES:
	case -EPERM:
		return doctor_say(d, bad,
				  "the monitors refuse client.%s: compare its key ring with `ceph "
				  "auth get client.%s`",
				  dc->id, dc->id);
	default:
		return doctor_say(d, bad, "%s: %s", dc->where, strerror(-err));
	}
}

enum doctor_state doctor_ceph_pool(struct doctor *d)
{
	struct doctor_ceph *dc = d->ceph;
	int err;

	if (!dc->cluster || !dc->is_asked)
		return DOCTOR_SKIP;
	err = ceph_api.io_create(dc->cluster, dc->words.pool, &dc->io);
	if (err) {
		dc->io = NULL;
		return doctor_say(d, DOCTOR_BAD,
				  "%s: %s: `ceph osd pool create %s`, doc/ceph.md has its settings",
				  dc->words.pool, strerror(-err), dc->words.pool);
	}
	ceph_api.io_space(dc->io, dc->words.ns[0] ? dc->words.ns : NULL);
	return doctor_say(d, DOCTOR_GOOD, "%s is there", dc->words.pool);
}

static enum doctor_state ceph_may(struct doctor *d, const char *what, int err)
{
	struct doctor_ceph *dc = d->ceph;

	if (err == -ETIMEDOUT)
		return doctor_say(d, DOCTOR_BAD,
				  "no OSD answers within " CEPH_WAIT_S " s: `ceph health detail`");
	if (err == -EPERM || err == -EACCES)
		return doctor_say(
			d, DOCTOR_BAD,
			"client.%s may not %s: `ceph auth caps client.%s mon 'allow r' osd "
			"'allow rw pool=%s%s%s'`",
			dc->id, what, dc->id, dc->words.pool, dc->words.ns[0] ? " namespace=" : "",
			dc->words.ns);
	return doctor_say(d, DOCTOR_BAD, "%s: %s", what, strerror(-err));
}

enum doctor_state doctor_ceph_rights(struct doctor *d)
{
	struct doctor_ceph *dc = d->ceph;
	uint64_t size;
	time_t when;
	void *op;
	int err;

	if (!dc->io)
		return DOCTOR_SKIP;
	err = ceph_api.stat(dc->io, CEPH_OBJECT, &size, &when);
	if (err && err != -ENOENT)
		return ceph_may(d, "read", err);
	op = ceph_api.op_create();
	ceph_api.op_exists(op);
	ceph_api.op_remove(op);
	err = ceph_api.op_operate(op, dc->io, CEPH_OBJECT, NULL, 0);
	ceph_api.op_release(op);
	if (err && err != -ENOENT)
		return ceph_may(d, "write", err);
	return doctor_say(d, DOCTOR_GOOD, "client.%s may read and write in %s%s%s", dc->id,
			  dc->words.pool, dc->words.ns[0] ? ", namespace " : "", dc->words.ns);
}

/* As the monitors have it; what is in the OSDs' own conf files they don't know. */
enum doctor_state doctor_ceph_write(struct doctor *d)
{
	static const char *ask = "{\"prefix\": \"config get\", \"who\": \"osd\", "
				 "\"key\": \"osd_max_write_size\"}";
	struct doctor_ceph *dc = d->ceph;
	char *out = NULL, *said = NULL, text[32] = "";
	size_t out_len = 0, said_len = 0;
	uint64_t said_mib;
	int err, mib;

	if (!dc->io)
		return DOCTOR_SKIP;
	err = ceph_api.mon_command(dc->cluster, &ask, 1, NULL, 0, &out, &out_len, &said, &said_len);
	if (!err)
		snprintf(text, sizeof(text), "%.*s", (int)(out_len < 31 ? out_len : 31), out);
	ceph_api.buffer_free(out);
	ceph_api.buffer_free(said);
	if (err)
		return doctor_say(d, DOCTOR_NOTE,
				  "osd_max_write_size can't be asked: %s; a value that a write "
				  "can't carry is refused",
				  strerror(-err));
	text[strcspn(text, "\r\n ")] = 0;
	if (parse_u64(text, &said_mib) || said_mib > INT_MAX)
		return doctor_say(d, DOCTOR_NOTE, "osd_max_write_size: the answer was '%s'", text);
	mib = (int)said_mib;
	if (mib < CEPH_WRITE_MIN_MIB)
		return doctor_say(d, DOCTOR_NOTE,
				  "osd_max_write_size is %d MiB: larger values are refused; `ceph "
				  "config set osd osd_max_write_size 90`",
				  mib);
	return doctor_say(d, DOCTOR_GOOD, "osd_max_write_size is %d MiB", mib);
}
