/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake daemon's knobs and counters, see fake_peald.h: what tests tell it and ask it. Any
 * thread.
 */
#include "fake_peald.h"

#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "fake_int.h"

void fake_kick(struct fake *f)
{
	uint64_t one = 1;

	must(write(f->ctl_fd, &one, 8) == 8);
}

void fake_count_rings(struct fake *f)
{
	uint64_t n;

	if (read(f->wake_fd, &n, 8) == 8)
		f->nr_rings += (unsigned)n;
}

const char *fake_dir(const struct fake *f)
{
	return f->dir;
}

const char *fake_uri(const struct fake *f)
{
	return f->uri;
}

void fake_pause(struct fake *f, bool is_paused)
{
	/* Under the lock: no turn is under way when the knob moves. */
	pthread_mutex_lock(&f->lock);
	atomic_store(&f->is_paused, is_paused);
	pthread_mutex_unlock(&f->lock);
	fake_kick(f);
}

void fake_pause_at(struct fake *f, uint8_t opc)
{
	atomic_store(&f->pause_at, opc + 1u);
}

void fake_disconnect(struct fake *f)
{
	atomic_store(&f->wants_disconnect, true);
	fake_kick(f);
}

void fake_corrupt(struct fake *f, const char *key, uint64_t offset)
{
	struct fake_entry *e;

	pthread_mutex_lock(&f->lock);
	e = fake_kv_find(f, (const uint8_t *)key, (uint8_t)strlen(key));
	must(e && offset < e->bytes);
	f->arena[e->at + offset] ^= 1;
	pthread_mutex_unlock(&f->lock);
}

void fake_after(struct fake *f, uint8_t opc, unsigned nr, bool is_disconnect)
{
	pthread_mutex_lock(&f->lock);
	atomic_store(&f->after_opc, opc);
	atomic_store(&f->after_disconnect, is_disconnect);
	atomic_store(&f->after_nr, nr);
	pthread_mutex_unlock(&f->lock);
}

void fake_hold(struct fake *f, uint8_t opc, uint8_t until_opc, unsigned nr)
{
	pthread_mutex_lock(&f->lock);
	f->hold_opc = opc;
	f->hold_until_opc = until_opc;
	f->hold_nr = nr;
	pthread_mutex_unlock(&f->lock);
}

void fake_limits(struct fake *f, bool no_vendor, uint8_t mdts, uint32_t value_max)
{
	pthread_mutex_lock(&f->lock);
	f->no_vendor = no_vendor;
	f->mdts = mdts;
	f->value_max = value_max;
	pthread_mutex_unlock(&f->lock);
}

void fake_lease_0(struct fake *f, bool is_on)
{
	atomic_store(&f->has_lease_0, is_on);
}

unsigned fake_nr_rings(struct fake *f)
{
	unsigned n;

	/* A bell whose command has been run already may not have been heard yet. */
	pthread_mutex_lock(&f->lock);
	fake_count_rings(f);
	n = f->nr_rings;
	pthread_mutex_unlock(&f->lock);
	return n;
}

void fake_fail_next(struct fake *f, uint8_t opc, uint16_t status)
{
	atomic_store(&f->fail_next, (uint32_t)opc << 16 | status);
}

void fake_churn(struct fake *f, bool is_on)
{
	atomic_store(&f->is_churning, is_on);
}

unsigned fake_nr_connects(struct fake *f)
{
	return atomic_load(&f->nr_connects);
}

unsigned fake_nr_cmds(struct fake *f, uint8_t opc)
{
	return atomic_load(&f->nr_cmds[opc]);
}

unsigned fake_nr_admin(struct fake *f, uint8_t opc)
{
	return atomic_load(&f->nr_admin[opc]);
}

unsigned fake_nr_maps(struct fake *f)
{
	return atomic_load(&f->nr_maps);
}
