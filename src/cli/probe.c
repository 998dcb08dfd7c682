/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of `peal probe` in the order in which they are checked, what each needs, and the end.
 * See probe.h.
 */
/* tidy: no-test: test/peer/probe.py runs it against devices with planted faults */
#include "cli/probe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mono.h"

#define PROBE_STEPS 4 /* a step may take this part of the whole */

const char *const probe_names[PROBE_NR] = {
	[PROBE_SOCKET] = "socket",     [PROBE_VERSION] = "version",
	[PROBE_DEVICE] = "device",     [PROBE_REGISTERS] = "registers",
	[PROBE_DMA] = "dma-map",       [PROBE_DOORBELLS] = "doorbells",
	[PROBE_ADMIN] = "admin-queue", [PROBE_IOQ] = "io-queue",
	[PROBE_SQE] = "sqe-seen",      [PROBE_VALUE] = "value-right",
	[PROBE_CQE] = "cqe-whole",     [PROBE_DATA] = "data-pointer",
	[PROBE_CLEANUP] = "clean-up",
};

static void probe_say(struct probe_line *l, enum probe_verdict v, const char *fmt, va_list ap)
{
	l->verdict = v;
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
}

void probe_good(struct probe *p, enum probe_layer l, const char *fmt, ...)
{
	va_list ap;

	p->lines[l].is_usable = true;
	if (p->lines[l].verdict == PROBE_BAD)
		return;
	va_start(ap, fmt);
	probe_say(&p->lines[l], PROBE_GOOD, fmt, ap);
	va_end(ap);
}

void probe_bad(struct probe *p, enum probe_layer l, const char *fmt, ...)
{
	va_list ap;

	if (p->lines[l].verdict == PROBE_BAD)
		return;
	va_start(ap, fmt);
	probe_say(&p->lines[l], PROBE_BAD, fmt, ap);
	va_end(ap);
}

uint64_t probe_deadline(const struct probe *p)
{
	uint64_t end = mono_ns() + p->step_ns;

	return end < p->end_ns ? end : p->end_ns;
}

/* ---- clean-up ---- */

static void probe_disable(struct probe *p)
{
	int err = probe_dev_write(p, PROBE_REG_CC, 4, 0);

	if (!err)
		err = probe_dev_wait_ready(p, false);
	if (err)
		probe_bad(p, PROBE_CLEANUP, "CC.EN = 0, but CSTS.RDY stays 1: %s",
			  probe_dev_error(err));
}

static void probe_cleanup(struct probe *p)
{
	bool had_io = p->has_io;
	unsigned nr_left;
	int err;

	/* It has a step of its own, whatever was used up before. */
	p->end_ns = mono_ns() + p->step_ns;
	nr_left = probe_value_delete(p);
	if (nr_left)
		probe_bad(p, PROBE_CLEANUP, "%u of our keys (probe-...) may still be there",
			  nr_left);
	err = p->has_io ? probe_admin_io_delete(p) : 0;
	if (err)
		probe_bad(p, PROBE_CLEANUP, "the I/O queue pair can't be deleted: %s",
			  probe_dev_error(err));
	if (p->is_enabled)
		probe_disable(p);
	err = p->is_mapped ? probe_dev_unmap(p, PROBE_IOVA, PROBE_MEM_BYTES) : 0;
	if (err)
		probe_bad(p, PROBE_CLEANUP, "DMA_UNMAP of our memory: %s", probe_dev_error(err));
	if (p->is_mapped)
		probe_good(p, PROBE_CLEANUP, "%s%s%smemory unmapped",
			   p->keys[0].bytes ? "keys deleted, " : "",
			   had_io ? "queues deleted, " : "",
			   p->is_enabled ? "controller disabled, " : "");
}

/* ---- the table ---- */

#define NEEDS(l) (1u << PROBE_##l)

static const struct probe_step {
	void (*run)(struct probe *p);
	uint32_t needs;
} probe_steps[] = {
	{probe_dev_socket, 0},
	{probe_dev_version, NEEDS(SOCKET)},
	{probe_dev_device, NEEDS(VERSION)},
	{probe_dev_registers, NEEDS(DEVICE)},
	{probe_dev_dma, NEEDS(VERSION)},
	{probe_dev_doorbells, NEEDS(DEVICE)},
	{probe_admin_queue, NEEDS(REGISTERS) | NEEDS(DMA) | NEEDS(DOORBELLS)},
	{probe_admin_io, NEEDS(ADMIN)},
	{probe_admin_sqes, NEEDS(IOQ)},
	{probe_value_simple, NEEDS(SQE)},
	{probe_admin_cqes, NEEDS(SQE)},
	{probe_value_layouts, NEEDS(SQE) | NEEDS(VALUE)},
	{probe_cleanup, NEEDS(VERSION)},
};

static bool probe_has(const struct probe *p, uint32_t needs)
{
	for (unsigned l = 0; l < PROBE_NR; l++)
		if ((needs >> l & 1) && !p->lines[l].is_usable)
			return false;
	return true;
}

void probe_run(struct probe *p, const char *path, uint32_t nsid, uint64_t time_ns)
{
	uint64_t seed;

	*p = (struct probe){.path = path, .nsid = nsid, .wire.fd = -1, .mem_fd = -1};
	p->scratch_fd = -1;
	p->step_ns = time_ns / PROBE_STEPS;
	p->end_ns = mono_ns() + time_ns - p->step_ns;
	p->next_cid = 0x5001; /* never 0: that is what an SQE of zeros has */
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = mono_ns();
	rng_init(&p->rng, seed);
	for (unsigned i = 0; i < sizeof(probe_steps) / sizeof(probe_steps[0]); i++)
		if (probe_has(p, probe_steps[i].needs))
			probe_steps[i].run(p);
	if (p->wire.fd >= 0)
		wire_close(&p->wire);
	if (p->bells)
		munmap(p->bells, PROBE_PAGE);
	if (p->mem)
		munmap(p->mem, PROBE_MEM_BYTES);
	if (p->scratch)
		munmap(p->scratch, PROBE_SCRATCH_BYTES);
	if (p->mem_fd >= 0)
		close(p->mem_fd);
	if (p->scratch_fd >= 0)
		close(p->scratch_fd);
}
