/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the queues of one reactor share: requests, the copy engine, and the sink that bit buckets
 * of SGLs are written to. Made before its reactor runs, destroyed after it has stopped.
 */
#include "target/tgt_int.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/must.h"

int tgt_worker_create(struct reactor *r, unsigned id, uint32_t nr_reqs, struct tgt_worker **out)
{
	struct tgt_worker *w = aligned_alloc(64, (sizeof(*w) + 63) & ~(size_t)63);
	int err = -ENOMEM;

	if (!w)
		return -ENOMEM;
	*w = (struct tgt_worker){.reactor = r, .id = id};
	list_init(&w->watchers);
	err = pool_init(&w->reqs, sizeof(struct tgt_req), nr_reqs, 64);
	if (err)
		goto free_worker;
	err = -ENOMEM;
	w->sink_base = pool_map(TGT_SINK_BYTES, &w->sink_map_bytes);
	if (!w->sink_base)
		goto fini_pool;
	w->sink = mem_host_wrap(w->sink_base, TGT_SINK_BYTES, MEM_READABLE | MEM_WRITABLE);
	if (!w->sink)
		goto unmap_sink;
	w->engine = mem_engine_create(r);
	if (!w->engine)
		goto put_sink;
	w->trace = tgt_trace_create(w);
	if (!w->trace)
		goto destroy_engine;
	*out = w;
	return 0;

destroy_engine:
	mem_engine_destroy(w->engine);
put_sink:
	mem_region_put(w->sink);
unmap_sink:
	pool_unmap(w->sink_base, w->sink_map_bytes);
fini_pool:
	pool_fini(&w->reqs);
free_worker:
	free(w);
	return err;
}

void tgt_worker_destroy(struct tgt_worker *w)
{
	must(w->nr_busy == 0);
	tgt_trace_destroy(w->trace);
	mem_engine_destroy(w->engine);
	mem_region_put(w->sink);
	pool_unmap(w->sink_base, w->sink_map_bytes);
	pool_fini(&w->reqs);
	free(w);
}

/* tidy: name: what workers are, as one */
void tgt_node_name(const struct tgt_node *n, unsigned id, char name[TGT_WORKER_NAME_BYTES])
{
	if (id < tgt_node_nr_io(n))
		snprintf(name, TGT_WORKER_NAME_BYTES, "peal-%u", id);
	else
		snprintf(name, TGT_WORKER_NAME_BYTES, "peal-home");
}

void tgt_worker_watch(struct tgt_worker *w, struct tgt_watcher *wt)
{
	list_add_tail(&w->watchers, &wt->node);
	wt->changed(wt);
}

void tgt_worker_unwatch(struct tgt_watcher *wt)
{
	list_del(&wt->node);
}

void tgt_worker_changed(struct tgt_worker *w)
{
	struct tgt_watcher *wt;

	list_for_each_entry(wt, &w->watchers, node)
		wt->changed(wt);
}
