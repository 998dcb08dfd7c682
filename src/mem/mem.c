/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of domains, regions' counts, and the door's synchronous functions, which check what a
 * run allows and hand it to its domain. The table is written at start and read by any thread
 * afterwards; the host is in it from the beginning.
 */
#include "mem/mem.h"

#include <errno.h>

#include "base/must.h"
#include "mem/mem_domain.h"
#include "mem/mem_int.h"

static const struct mem_domain_ops *mem_domains[MEM_NR_DOMAINS] = {
	[MEM_HOST] = &mem_host_ops,
};

void mem_domain_register(enum mem_domain domain, const struct mem_domain_ops *ops)
{
	must(domain < MEM_NR_DOMAINS && !mem_domains[domain]);
	must(!ops->open == !ops->copy && !ops->open == !ops->poll && !ops->open == !ops->close);
	mem_domains[domain] = ops;
}

const struct mem_domain_ops *mem_domain_ops(enum mem_domain domain)
{
	return mem_domains[domain];
}

void mem_region_put(struct mem_region *reg)
{
	/* Release what we did with it to whoever undoes it; acquire what the others did. */
	uint32_t refs = atomic_fetch_sub_explicit(&reg->refs, 1, memory_order_acq_rel);

	must(refs > 0);
	if (refs == 1)
		reg->destroy(reg);
}

int mem_peek(const struct mem_run *src, void *dst)
{
	const struct mem_domain_ops *ops = mem_domains[src->reg->domain];

	mem_run_must(src);
	if (!(src->reg->flags & MEM_READABLE) || !ops || !ops->peek)
		return -EFAULT;
	return ops->peek(src, dst);
}

int mem_poke(const struct mem_run *dst, const void *src)
{
	const struct mem_domain_ops *ops = mem_domains[dst->reg->domain];

	mem_run_must(dst);
	if (!(dst->reg->flags & MEM_WRITABLE) || !ops || !ops->poke)
		return -EFAULT;
	return ops->poke(dst, src);
}

int mem_poke_cqe(const struct mem_run *dst, const void *cqe)
{
	const struct mem_domain_ops *ops = mem_domains[dst->reg->domain];

	mem_run_must(dst);
	must(dst->len && dst->len % 16 == 0);
	if (!(dst->reg->flags & MEM_WRITABLE) || !ops || !ops->poke_cqe)
		return -EFAULT;
	return ops->poke_cqe(dst, cqe);
}

void *mem_own_ptr(const struct mem_run *run)
{
	mem_run_must(run);
	must(run->reg->domain == MEM_HOST && !(run->reg->flags & MEM_PEER));
	return run->reg->base + run->off;
}
