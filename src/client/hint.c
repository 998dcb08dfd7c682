/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_hint(): what the caller knows about keys, told in commands of at most PEAL_HINT_MAX. Any
 * thread.
 * tidy: no-test: test/peer/t_ssd_daemon.c tells the real daemon
 */
#include <errno.h>
#include <string.h>

#include "client/call.h"
#include "client/errmsg.h"

_Static_assert((int)PEAL_SAY_PREFETCH == (int)PEAL_HINT_PREFETCH &&
		       (int)PEAL_SAY_CANCEL == (int)PEAL_HINT_CANCEL &&
		       (int)PEAL_SAY_DEMOTE == (int)PEAL_HINT_DEMOTE &&
		       (int)PEAL_SAY_PIN == (int)PEAL_HINT_PIN &&
		       (int)PEAL_SAY_UNPIN == (int)PEAL_HINT_UNPIN &&
		       (int)PEAL_SAY_SCORE == (int)PEAL_HINT_SCORE,
	       "verbs as on the wire");

static int hint_fill(const struct call *call, const struct peal_hint *hints, size_t nr)
{
	struct peal_wire_hint *w = (struct peal_wire_hint *)call->buf.ptr;

	for (size_t i = 0; i < nr; i++) {
		int err = call_check_key(call->conn, "hint", &hints[i].key);

		if (err)
			return err;
		if (hints[i].say < PEAL_SAY_PREFETCH || hints[i].say > PEAL_SAY_SCORE)
			return errmsg_set(-EINVAL, "hint: no such verb as %d", (int)hints[i].say);
		memset(&w[i], 0, sizeof(w[i]));
		memcpy(w[i].b, hints[i].key.b, hints[i].key.len);
		w[i].len = hints[i].key.len;
		w[i].verb = (uint8_t)hints[i].say;
		w[i].weight = hints[i].weight;
		w[i].ms = hints[i].ms;
	}
	return 0;
}

static int hint_some(struct call *call, size_t nr, size_t *taken)
{
	struct chan_cmd cmd = call_cmd(call, PEAL_OPC_HINT, 0);
	int err;

	cmd.data_bytes = cmd.sqe.cdw10 = (uint32_t)(nr * sizeof(struct peal_wire_hint));
	err = call_exec(call, &cmd);
	if (!err)
		err = call_status(call, cmd.status);
	if (err)
		return err;
	if (cmd.dw0 > nr)
		return errmsg_set(-EPROTO, "hint: the daemon took %u of %zu", cmd.dw0, nr);
	*taken += cmd.dw0;
	return 0;
}

ssize_t peal_hint(struct peal *p, const struct peal_hint *hints, size_t nr, struct peal_call *c)
{
	size_t taken = 0, n, max = nr < PEAL_HINT_MAX ? nr : PEAL_HINT_MAX;
	struct call call;
	int err = call_begin(p, "hint", NULL, c, &call);

	if (err)
		return err;
	if (!hints && nr)
		err = errmsg_set(-EINVAL, "hint: no hints");
	else if (nr && !conn_has_cmd(call.conn, PEAL_OPC_HINT))
		err = errmsg_set(-EOPNOTSUPP, "hint: the daemon has no HINT");
	else if (nr)
		err = call_buf(&call, max * sizeof(struct peal_wire_hint));
	for (size_t at = 0; !err && at < nr; at += n) {
		n = nr - at < max ? nr - at : max;
		err = hint_fill(&call, hints + at, n);
		if (!err)
			err = hint_some(&call, n, &taken);
	}
	return call_end(&call, err ? err : (ssize_t)taken);
}
