/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mailbox is a stack that senders push with one compare-and-swap; the owner takes the whole stack
 * with one exchange and turns it round, which restores each sender's order. mbox_push() and
 * mbox_post() run on any thread, mbox_take() on the owner.
 */
#include "core/mbox.h"

#include "base/must.h"
#include "core/reactor_int.h"

void mbox_init(struct mbox *mb)
{
	atomic_init(&mb->head, NULL);
	mb->local = NULL;
}

static struct mbox_msg *mbox_reverse(struct mbox_msg *m)
{
	struct mbox_msg *prev = NULL, *next;

	for (; m; m = next) {
		next = m->next;
		m->next = prev;
		prev = m;
	}
	return prev;
}

_Bool mbox_push(struct mbox *mb, struct mbox_msg *first, struct mbox_msg *last)
{
	struct mbox_msg *head = atomic_load_explicit(&mb->head, memory_order_relaxed);

	last->next = NULL;
	must(mbox_reverse(first) == last);
	/*
	 * Sequentially consistent, because the sender's next step is to look whether the owner
	 * sleeps: either it sees that, or the owner's last look before sleep sees this message
	 * (reactor_kick(), reactor_sleep()).
	 */
	do {
		first->next = head;
	} while (!atomic_compare_exchange_weak_explicit(
		&mb->head, &head, last, memory_order_seq_cst, memory_order_relaxed));
	return !head;
}

struct mbox_msg *mbox_take(struct mbox *mb)
{
	struct mbox_msg *m = mb->local;

	if (!m) {
		/*
		 * The common case, nothing there, is one load and no write to a line that others
		 * write.
		 */
		if (!atomic_load_explicit(&mb->head, memory_order_relaxed))
			return NULL;
		m = mbox_reverse(atomic_exchange_explicit(&mb->head, NULL, memory_order_acquire));
	}
	mb->local = m->next;
	return m;
}

void mbox_post(struct reactor *to, struct mbox_msg *m)
{
	mbox_push(&to->mbox, m, m);
	reactor_kick(to);
}
