/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a recording: the events of the file in their order - a command is submitted when
 * everything that was over before it then is over now - and every completion compared with the
 * recorded one. One part per worker, each with a queue of its own and the events of its recorded
 * queues. A part's load runs on its worker; the counters are for all.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/container.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rng.h"
#include "transport/replay/replay_file.h"
#include "transport/replay/replay_int.h"

#define PLAY_MEM_DEFAULT (256ull << 20)
#define PLAY_DEPTH_MAX 1024u

struct play_part {
	struct replay_load load;
	struct replay_play *p;
	unsigned index;
	uint32_t at;		      /* next event */
	uint32_t nr_running;	      /* submitted and not over */
	uint32_t seq[PLAY_DEPTH_MAX]; /* by slot */
	struct counter nr_done, nr_checked, nr_wrong, first_wrong;
	_Atomic bool is_over;
};

struct replay_play {
	struct tr tr;
	struct replay_file f;
	struct replay_host *host;
	int err; /* of making the queues; start() says it */
	_Atomic bool is_started;
	uint8_t *is_done; /* by seq */
	uint32_t slot_bytes;
	unsigned nr_parts;
	struct play_part parts[];
};

static bool part_owns(const struct play_part *part, uint32_t seq)
{
	const struct replay_play *p = part->p;

	return p->f.cmds[seq].qid % p->nr_parts == part->index;
}

/* Data that weren't kept: any bytes will do, but the same ones every time. */
static void data_fill(const struct replay_cmd *c, uint32_t seq, void *buf, uint32_t len)
{
	struct rng rng;

	if (c->data) {
		memcpy(buf, c->data, len);
		return;
	}
	rng_init(&rng, seq);
	rng_fill(&rng, buf, len);
}

/* A command that failed before it looked at its data has no length on record; CDW10 is it. */
static uint32_t cmd_len(const struct replay_play *p, const struct replay_cmd *c)
{
	uint32_t len = c->has_data ? c->len : c->sqe->cdw10;

	if (!c->has_data && !(c->sqe->opc & 3))
		return 0;
	return len < p->slot_bytes ? len : p->slot_bytes;
}

/*
 * The next event of this part that is a command to submit; -EAGAIN: something has to be over
 * first.
 */
static int64_t part_event(struct play_part *part)
{
	struct replay_play *p = part->p;
	uint64_t event;
	uint32_t seq;

	for (; part->at < p->f.nr_events; part->at++) {
		event = p->f.events[part->at];
		seq = (uint32_t)(event >> 1);
		if (!part_owns(part, seq))
			continue;
		if (!(event & 1))
			return seq;
		if (!p->is_done[seq])
			return -EAGAIN;
	}
	if (part->nr_running == 0)
		atomic_store_explicit(&part->is_over, true, memory_order_release);
	return -EAGAIN;
}

static int64_t part_next(struct replay_load *l, uint32_t slot, struct nvme_sqe *sqe, void *buf)
{
	struct play_part *part = container_of(l, struct play_part, load);
	const struct replay_cmd *c;
	int64_t seq = -EAGAIN;
	uint32_t len;

	if (atomic_load_explicit(&part->p->is_started, memory_order_acquire))
		seq = part_event(part);
	if (seq < 0)
		return seq;
	c = &part->p->f.cmds[seq];
	*sqe = *c->sqe;
	sqe->mptr = 0;
	len = cmd_len(part->p, c);
	if (c->has_data ? c->is_from_host : c->sqe->opc & 1)
		data_fill(c, (uint32_t)seq, buf, len);
	part->seq[slot] = (uint32_t)seq;
	part->nr_running++;
	part->at++;
	return len;
}

static void part_check(struct play_part *part, uint32_t seq, const struct nvme_cqe *cqe)
{
	const struct nvme_cqe *want = part->p->f.cmds[seq].cqe;

	if (!want)
		return;
	counter_add(&part->nr_checked, 1);
	if (want->status >> 1 == cqe->status >> 1 && want->dw0 == cqe->dw0)
		return;
	if (counter_get(&part->nr_wrong) == 0) {
		counter_set(&part->first_wrong, seq);
		log_warn("replay: command %u ended with status %x, DW0 %x; recorded were %x, %x",
			 seq, cqe->status >> 1, cqe->dw0, want->status >> 1, want->dw0);
	}
	counter_add(&part->nr_wrong, 1);
}

static void part_done(struct replay_load *l, uint32_t slot, const struct nvme_cqe *cqe,
		      const void *buf)
{
	struct play_part *part = container_of(l, struct play_part, load);
	uint32_t seq = part->seq[slot];

	must(!part->p->is_done[seq]);
	part->p->is_done[seq] = 1;
	part->nr_running--;
	part_check(part, seq, cqe);
	counter_add(&part->nr_done, 1);
}

static struct replay_play *play_of(const struct tr *tr)
{
	return container_of((struct tr *)tr, struct replay_play, tr);
}

static int play_start(struct tr *tr)
{
	struct replay_play *p = play_of(tr);

	if (p->err)
		return p->err;
	atomic_store_explicit(&p->is_started, true, memory_order_release);
	return 0;
}

static void play_stop(struct tr *tr, void (*done)(void *arg), void *arg)
{
	replay_host_stop(play_of(tr)->host, done, arg);
}

static void play_free(struct replay_play *p)
{
	replay_file_close(&p->f);
	free(p->is_done);
	free(p);
}

static void play_destroy(struct tr *tr)
{
	struct replay_play *p = play_of(tr);

	replay_host_destroy(p->host);
	play_free(p);
}

static unsigned play_nr_hosts(struct tr *tr)
{
	struct replay_play *p = play_of(tr);

	for (unsigned i = 0; i < p->nr_parts; i++)
		if (!atomic_load_explicit(&p->parts[i].is_over, memory_order_acquire))
			return 1;
	return 0;
}

static const struct tr_ops play_ops = {
	.name = "replay",
	.start = play_start,
	.stop = play_stop,
	.destroy = play_destroy,
	.nr_hosts = play_nr_hosts,
};

void replay_play_stats(const struct tr *tr, struct replay_play_stats *st)
{
	const struct replay_play *p = play_of(tr);
	const struct play_part *part;

	*st = (struct replay_play_stats){.nr_cmds = p->f.nr_cmds, .first_wrong = UINT32_MAX};
	for (unsigned i = 0; i < p->nr_parts; i++) {
		part = &p->parts[i];
		st->nr_done += counter_get(&part->nr_done);
		st->nr_checked += counter_get(&part->nr_checked);
		st->nr_wrong += counter_get(&part->nr_wrong);
		if (counter_get(&part->nr_wrong) &&
		    counter_get(&part->first_wrong) < st->first_wrong)
			st->first_wrong = (uint32_t)counter_get(&part->first_wrong);
	}
}

static uint32_t play_depth(const struct replay_play *p, uint64_t mem_bytes)
{
	uint64_t depth = p->f.depth_max, room;

	mem_bytes = (mem_bytes ? mem_bytes : PLAY_MEM_DEFAULT) / p->nr_parts;
	room = p->slot_bytes ? mem_bytes / p->slot_bytes : depth;
	depth = depth < room ? depth : room;
	depth = depth < PLAY_DEPTH_MAX ? depth : PLAY_DEPTH_MAX;
	return depth ? (uint32_t)depth : 1;
}

static int play_queues(struct replay_play *p, uint64_t mem_bytes)
{
	int err = 0;

	for (unsigned i = 0; i < p->nr_parts && !err; i++) {
		p->parts[i].p = p;
		p->parts[i].index = i;
		p->parts[i].load = (struct replay_load){part_next, part_done};
		err = replay_queue_create(p->host,
					  &(struct replay_queue_opts){
						  .worker = i,
						  .depth = play_depth(p, mem_bytes),
						  .slot_bytes = p->slot_bytes,
						  .load = &p->parts[i].load,
					  },
					  NULL);
	}
	return err;
}

int replay_play_create(struct tgt_subsys *ss, const struct replay_play_opts *o, struct tr **tr)
{
	unsigned nr = o->nr_workers ? o->nr_workers : 1;
	struct replay_play *p;
	int err;

	if (nr > tgt_subsys_node(ss)->nr)
		return -EINVAL;
	p = calloc(1, sizeof(*p) + nr * sizeof(p->parts[0]));
	if (!p)
		return -ENOMEM;
	err = replay_file_open(o->path, &p->f);
	if (err)
		goto free_play;
	p->tr.ops = &play_ops;
	p->nr_parts = nr;
	p->slot_bytes = p->f.len_max;
	err = -ENOMEM;
	p->is_done = calloc(p->f.nr_cmds + 1ull, 1);
	if (!p->is_done)
		goto free_play;
	err = replay_host_create(ss, &p->host);
	if (err)
		goto free_play;
	/* From here on it needs the reactors to go down: a failure is start()'s to report. */
	p->err = play_queues(p, o->mem_bytes);
	*tr = &p->tr;
	return 0;

free_play:
	play_free(p);
	return err;
}
