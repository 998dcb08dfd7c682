/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See mem_fake.h. poll() does some of the queued copies, picked at random: the bytes move only
 * then.
 */
#include "mem_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/must.h"
#include "base/vec.h"

struct mem_fake_stats mem_fake_stats;

static struct {
	struct rng rng;
	uint32_t fail_1024;
	VEC(struct mem_copy *)
	queue;
	int state;
} fake;

static int fake_open(struct reactor *r, void **state)
{
	*state = &fake.state;
	return 0;
}

static void fake_close(void *state)
{
	must(fake.queue.nr == 0);
	vec_fini(&fake.queue);
}

static void fake_copy(void *state, struct mem_copy *c)
{
	must(vec_push(&fake.queue, c));
	mem_fake_stats.nr_copies++;
	if (++mem_fake_stats.nr_out > mem_fake_stats.most_out)
		mem_fake_stats.most_out = mem_fake_stats.nr_out;
}

static void fake_one(void)
{
	size_t i = rng_below(&fake.rng, fake.queue.nr);
	struct mem_copy *c = fake.queue.at[i];
	uint8_t *own = c->value.reg->base + c->value.off;
	uint8_t *theirs = c->peer.reg->base + c->peer.off;

	fake.queue.at[i] = vec_last(&fake.queue);
	fake.queue.nr--;
	mem_fake_stats.nr_out--;
	must(c->peer.len == c->value.len);
	if (rng_chance(&fake.rng, fake.fail_1024, 1024)) {
		mem_fake_stats.nr_failed++;
		c->end(c, -EIO);
		return;
	}
	if (c->dir == MEM_TO_PEER)
		memcpy(theirs, own, c->peer.len);
	else
		memcpy(own, theirs, c->peer.len);
	c->end(c, 0);
}

static int fake_poll(void *state)
{
	size_t nr = rng_below(&fake.rng, fake.queue.nr + 1), left;

	for (left = nr; left > 0; left--)
		fake_one();
	return nr > 0;
}

static const struct mem_domain_ops fake_ops = {
	.name = "fake",
	.open = fake_open,
	.close = fake_close,
	.copy = fake_copy,
	.poll = fake_poll,
};

void mem_fake_init(uint64_t seed)
{
	rng_init(&fake.rng, seed);
	mem_domain_register(MEM_HIP, &fake_ops);
}

void mem_fake_set_fail(uint32_t fail_1024)
{
	fake.fail_1024 = fail_1024;
}

struct mem_region *mem_fake_region(void *base, uint64_t len, uint32_t flags)
{
	struct mem_region *reg = mem_host_wrap(base, len, flags);

	if (reg)
		reg->domain = MEM_HIP;
	return reg;
}
