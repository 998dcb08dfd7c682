/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal_match(): how many leading keys of a chain are there. Any number of keys, in commands of at
 * most match_max; the first command that ends before its last key ends the count. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "client/call.h"
#include "client/errmsg.h"

static int match_fill(const struct call *call, const struct peal_key *keys, size_t nr)
{
	struct peal_wire_key *w = (struct peal_wire_key *)call->buf.ptr;

	for (size_t i = 0; i < nr; i++) {
		int err = call_check_key(call->conn, "match", &keys[i]);

		if (err)
			return err;
		memset(&w[i], 0, sizeof(w[i]));
		memcpy(w[i].b, keys[i].b, keys[i].len);
		w[i].len = keys[i].len;
	}
	return 0;
}

/* One command. Counts of it are checked: the daemon can't name more keys than there are. */
static int match_some(struct call *call, size_t nr, size_t *present, size_t *in_memory)
{
	struct chan_cmd cmd = call_cmd(call, PEAL_OPC_MATCH, 0);
	size_t here, memory;
	int err;

	cmd.data_bytes = cmd.sqe.cdw10 = (uint32_t)(nr * sizeof(struct peal_wire_key));
	err = call_exec(call, &cmd);
	if (!err)
		err = call_status(call, cmd.status);
	if (err)
		return err;
	here = cmd.dw0 & 0xffff;
	memory = cmd.dw0 >> 16;
	if (here > nr || memory > here)
		return errmsg_set(-EPROTO,
				  "match: the daemon found %zu (%zu in memory) of %zu keys", here,
				  memory, nr);
	*present = here;
	*in_memory = memory;
	return 0;
}

ssize_t peal_match(struct peal *p, const struct peal_key *keys, size_t nr, size_t *in_memory,
		   struct peal_call *c)
{
	size_t total = 0, total_memory = 0, max;
	struct call call;
	int err = call_begin(p, "match", NULL, c, &call);

	if (err)
		return err;
	max = call.conn->ns.match_max < nr ? call.conn->ns.match_max : nr;
	if (!keys && nr)
		err = errmsg_set(-EINVAL, "match: no keys");
	else if (nr && (!conn_has_cmd(call.conn, PEAL_OPC_MATCH) || !max))
		err = errmsg_set(-EOPNOTSUPP, "match: the daemon has no MATCH");
	else if (nr)
		err = call_buf(&call, max * sizeof(struct peal_wire_key));
	while (!err && total < nr) {
		size_t n = nr - total < max ? nr - total : max;
		size_t present = 0, memory = 0;

		err = match_fill(&call, keys + total, n);
		if (!err)
			err = match_some(&call, n, &present, &memory);
		total += present;
		total_memory += memory;
		if (present < n)
			break;
	}
	if (!err && in_memory)
		*in_memory = total_memory;
	return call_end(&call, err ? err : (ssize_t)total);
}
