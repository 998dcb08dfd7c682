/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane: one thread beside the reactors that answers JSON-RPC on a unix socket and
 * serves /metrics and /healthz over HTTP. It holds no lock that a reactor takes and touches nothing
 * of theirs: what it wants to know or done goes to a reactor as a message, and comes back as one.
 *
 *   socket, HTTP -> control thread --mbox_post-> the home -> (others) -> control thread -> reply
 *
 * Nothing is open that the configuration doesn't name. Made and stopped on the main thread.
 */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include "ctl/conf.h"
#include "target/tgt.h"
#include "transport/tr.h"

struct ctl;
struct ssd_watch;

struct ctl_opts {
	const struct conf *conf;
	struct tgt_subsys *subsys;
	struct tr *tr;
	struct ssd_watch *watch; /* NULL: nothing lies on an SSD */
};

#define CTL_WHAT_BYTES 192

/* Opens the sockets; 0, or -errno and what failed. *c is NULL when there is nothing to do. */
int ctl_create(const struct ctl_opts *o, struct ctl **c, char what[CTL_WHAT_BYTES]);
int ctl_start(struct ctl *c); /* the reactors run; NULL is fine */
/* What is under way is cancelled and ended, sockets are closed; the reactors still run. */
void ctl_stop(struct ctl *c);
void ctl_destroy(struct ctl *c); /* stopped or never started; NULL is fine */

#endif
