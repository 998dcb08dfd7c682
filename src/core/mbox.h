/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between threads: the only door into a reactor. A message is embedded in the object that
 * it is about, so posting never allocates and never fails; it may be posted again as soon as fn has
 * been entered. Per sender, order is kept.
 *
 * mbox_post() may be called from any thread (librados, CUDA, signal-handling and RPC threads
 * included) and wakes a sleeping reactor. Reactors among themselves use reactor_send(), which
 * collects messages for one burst and costs one atomic operation and at most one wake-up per
 * destination and turn.
 */
#ifndef CORE_MBOX_H
#define CORE_MBOX_H

#include <stdatomic.h>
#include <stddef.h>

struct reactor;

struct mbox_msg {
	struct mbox_msg *next;
	void (*fn)(struct mbox_msg *m); /* runs on the destination */
};

struct mbox {
	_Atomic(struct mbox_msg *) head; /* pushed last first */
	struct mbox_msg *local;		 /* in order, taken but not yet run; the owner's */
};

void mbox_init(struct mbox *mb);
/*
 * Pushes the chain first..last (linked by ->next, first is the oldest). True when the box was
 * empty before.
 */
_Bool mbox_push(struct mbox *mb, struct mbox_msg *first, struct mbox_msg *last);
/* Owner only: the oldest message or NULL. */
struct mbox_msg *mbox_take(struct mbox *mb);

void mbox_post(struct reactor *to, struct mbox_msg *m);

#endif
