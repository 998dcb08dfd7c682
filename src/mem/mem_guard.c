/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SIGSEGV and SIGBUS handler behind mem_guard.h. It reads one thread-local pointer and either
 * jumps or hands the signal on, both of which are async-signal-safe; the pointer is in the
 * initial-exec block of thread-local storage, so that reading it never allocates. The handler runs
 * on the faulting thread, any number of them at a time.
 */
#include "mem/mem_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/cleanup.h"
#include "mem/mem.h"

static _Thread_local struct mem_guard *mem_guard_top __attribute__((tls_model("initial-exec")));

static pthread_mutex_t mem_guard_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction mem_guard_old_segv, mem_guard_old_bus;

/* Somebody sent the signal, it isn't a fault: it doesn't come again when we return. */
static bool mem_guard_is_sent(const siginfo_t *si)
{
	return si->si_code <= 0;
}

static void mem_guard_default(int sig, const siginfo_t *si)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};

	/* The faulting instruction runs again and the core shows it, not us. */
	sigaction(sig, &dfl, NULL);
	if (mem_guard_is_sent(si))
		raise(sig);
}

static void mem_guard_chain(int sig, siginfo_t *si, void *ctx)
{
	const struct sigaction *old = sig == SIGBUS ? &mem_guard_old_bus : &mem_guard_old_segv;

	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(sig, si, ctx);
	else if (old->sa_handler == SIG_DFL ||
		 (old->sa_handler == SIG_IGN && !mem_guard_is_sent(si)))
		mem_guard_default(sig, si);
	else if (old->sa_handler != SIG_IGN)
		old->sa_handler(sig);
}

static void mem_guard_handler(int sig, siginfo_t *si, void *ctx)
{
	struct mem_guard *g = mem_guard_top;
	uintptr_t at = (uintptr_t)si->si_addr;

	if (g && !mem_guard_is_sent(si) && at >= g->lo && at < g->hi)
		mem_guard_jmp_go(g->jmp);
	mem_guard_chain(sig, si, ctx);
}

static int mem_guard_install(int sig, struct sigaction *old)
{
	/*
	 * NODEFER: we leave by a jump that doesn't restore the mask. ONSTACK: harmless without one.
	 */
	struct sigaction sa = {
		.sa_sigaction = mem_guard_handler,
		.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK,
	};
	struct sigaction now;

	if (sigaction(sig, NULL, &now))
		return -errno;
	if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == mem_guard_handler)
		return 0;
	*old = now;
	sigemptyset(&sa.sa_mask);
	return sigaction(sig, &sa, NULL) ? -errno : 0;
}

int mem_guard_init(void)
{
	auto_unlock pthread_mutex_t *lock = cleanup_lock(&mem_guard_lock);
	int err = mem_guard_install(SIGSEGV, &mem_guard_old_segv);

	return err ? err : mem_guard_install(SIGBUS, &mem_guard_old_bus);
}

/* Its frame must be there when the handler jumps into it, and hold nothing that fn could change. */
__attribute__((noinline)) int mem_guard_call(int (*fn)(struct mem_guard *g, void *arg), void *arg)
{
	struct mem_guard g;
	int res;

	g.outer = mem_guard_top;
	mem_guard_no_range(&g);
	if (mem_guard_jmp_set(g.jmp)) {
		mem_guard_top = g.outer;
		return -EFAULT;
	}
	mem_guard_top = &g;
	__asm__ volatile("" : : : "memory");
	res = fn(&g, arg);
	__asm__ volatile("" : : : "memory");
	mem_guard_top = g.outer;
	return res;
}
