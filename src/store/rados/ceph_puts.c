/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of large values. librados copies what it is given to write, into fresh memory: 64 MiB
 * are 65 ms of a processor, checked on the way some 10 more, which no reactor has. So values of
 * more than a chunk are checked, gathered where they lie in pieces, and handed over here, one after
 * the other; how they end goes to their owners like all completions. What waits here is bounded by
 * who sends it. When all stores are gone it is who waits for the link's other thread.
 * tidy: no-test: test/ceph has it, with a real cluster
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/must.h"
#include "core/thread.h"
#include "store/rados/ceph_int.h"

static void *puts_run(void *arg)
{
	struct ceph_link *link = arg;
	struct mbox_msg *m;

	for (;;) {
		while ((m = mbox_take(&link->puts)))
			ceph_write_run(container_of(m, struct ceph_write, msg), link->gather);
		if (atomic_load_explicit(&link->is_stopping, memory_order_acquire))
			break;
		while (sem_wait(&link->puts_wake) && errno == EINTR)
			;
	}
	munmap(link->gather, link->gather_bytes);
	ceph_link_puts_over(link);
	return NULL;
}

int ceph_puts_start(struct ceph_link *link)
{
	int err;

	link->gather_bytes = align_up((size_t)link->o.value_max, 4096);
	link->gather = mmap(NULL, link->gather_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (link->gather == MAP_FAILED)
		return -ENOMEM;
	err = thread_start(&link->puts_thread, "peal-ceph-put", -1, puts_run, link);
	if (err)
		munmap(link->gather, link->gather_bytes);
	return err;
}

void ceph_puts_stop(struct ceph_link *link)
{
	atomic_store_explicit(&link->is_stopping, true, memory_order_release);
	sem_post(&link->puts_wake);
	pthread_join(link->puts_thread, NULL);
}

void ceph_puts_push(struct ceph_link *link, struct ceph_write *w)
{
	mbox_push(&link->puts, &w->msg, &w->msg);
	sem_post(&link->puts_wake);
}
