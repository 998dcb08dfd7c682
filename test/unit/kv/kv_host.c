/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See kv_host.h. The controller is enabled through its registers as a host does it; its admin queue
 * is never used.
 */
#include "kv_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/container.h"
#include "base/must.h"
#include "store/store_make.h"

static void host_respond(struct tgt_req *req)
{
	struct kv_host_cmd *cmd = req->tr;

	must(!cmd->is_over);
	cmd->is_over = true;
	cmd->raw_status = req->status;
	cmd->status = req->status & 0x7ff;
	cmd->dw0 = req->dw0;
	cmd->dw1 = req->dw1;
	pool_put(&req->sq->worker->reqs, req);
}

static int host_resolve(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
			struct mem_run *run)
{
	struct kv_host *h = tgt_ctrl_priv(req->sq->ctrl);

	if (h->is_faulty || addr >= KV_HOST_MEM_BYTES)
		return -EFAULT;
	run->reg = h->reg;
	run->off = addr;
	run->len = min_t(uint64_t, len, KV_HOST_MEM_BYTES - addr);
	return 0;
}

static void host_again(struct mbox_msg *m)
{
	tgt_req_again(container_of(m, struct tgt_req, turn));
}

/* In the next turn, as without it. */
static void host_later(struct tgt_req *req)
{
	struct kv_host *h = tgt_ctrl_priv(req->sq->ctrl);
	struct reactor *r = req->sq->worker->reactor;

	h->nr_later++;
	req->turn.fn = host_again;
	reactor_send(r, r, &req->turn);
}

static const struct tgt_sq_ops host_sq_ops = {
	.respond = host_respond,
	.later = host_later,
	.data = tgt_dptr_init,
	.resolve = host_resolve,
};

static void host_enable(struct tgt_ctrl *c, const struct tgt_queue_params *asq,
			const struct tgt_queue_params *acq)
{
	tgt_ctrl_enabled(c, true);
}

static void host_disable(struct tgt_ctrl *c)
{
	tgt_ctrl_disabled(c);
}

static const struct tgt_ctrl_ops host_ctrl_ops = {
	.enable = host_enable,
	.disable = host_disable,
};

/* Above another tier. Segments that nobody leases need no names. */
static const struct store_dram_opts host_dram = {.bytes = 32u << 20, .policy = "lru"};

static int host_build(void *arg, struct store_set *set, unsigned shard)
{
	const struct kv_host_opts *o = arg;
	const char *at = o->stack;
	struct store *s;

	while (*at) {
		size_t n = strcspn(at, "/");

		if (!strncmp(at, "mem", n))
			s = store_mem_create();
		else if (!strncmp(at, "null", n))
			s = store_null_create();
		else if (!strncmp(at, "dram", n))
			must(store_dram_create(&host_dram, &s) == 0);
		else
			return -EINVAL;
		store_set_push(set, shard, s);
		at += n + (at[n] == '/');
	}
	return 0;
}

static void host_workers(struct kv_host *h, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		struct env_sim_opts eo = {.seed = i + 1, .clock_ns = &h->clock_ns};
		struct reactor_opts ro = {
			.id = i, .nr_peers = nr, .spin_ns = UINT64_MAX, .cpu = -1};

		ro.env = env_sim_create(&eo);
		must(ro.env);
		h->node.reactors[i] = reactor_create(&ro);
		must(h->node.reactors[i]);
		must(tgt_worker_create(h->node.reactors[i], i, KV_HOST_REQS, &h->node.workers[i]) ==
		     0);
		h->node.nr = i + 1;
	}
}

static void host_ctrl(struct kv_host *h)
{
	struct tgt_ctrl_opts co = {
		.ops = &host_ctrl_ops,
		.home = h->node.workers[0],
		.max_queues = 8,
		.host = "test",
	};
	uint64_t csts = 0;

	must(tgt_ctrl_create(h->ss, &co, &h->ctrl) == 0);
	tgt_ctrl_set_priv(h->ctrl, h);
	must(tgt_ctrl_reg_write(h->ctrl, 0x24, 4, 31 << 16 | 31) == 0);
	must(tgt_ctrl_reg_write(h->ctrl, 0x28, 8, 0x1000) == 0);
	must(tgt_ctrl_reg_write(h->ctrl, 0x30, 8, 0x2000) == 0);
	/* CSS 6, IOSQES 6, IOCQES 4, EN */
	must(tgt_ctrl_reg_write(h->ctrl, 0x14, 4, 0x460061) == 0);
	for (unsigned i = 0; i < 100 && !(csts & 1); i++) {
		kv_host_turn(h);
		tgt_ctrl_reg_read(h->ctrl, 0x1c, 4, &csts);
	}
	must(csts & 1);
	for (unsigned i = 0; i < h->node.nr; i++)
		tgt_sq_init(&h->sq[i], &host_sq_ops, h->ctrl, h->node.workers[i],
			    (uint16_t)(i + 1));
}

void kv_host_init(struct kv_host *h, const struct kv_host_opts *o)
{
	struct tgt_subsys_opts so = {.nqn = "nqn.2026-11.test:kv", .serial = "1", .model = "test"};
	struct kv_host_opts opts = *o;

	memset(h, 0, sizeof(*h));
	rng_init(&h->rng, 1);
	must(mem_guard_init() == 0);
	host_workers(h, o->nr_workers ? o->nr_workers : 1);
	must(tgt_subsys_create(&h->node, &so, &h->ss) == 0);
	h->csi = kv_csi_create(h->ss, &o->ns);
	must(h->csi);
	tgt_subsys_csi_add(h->ss, h->csi);
	if (!opts.ns.dram_bytes)
		opts.ns.dram_bytes = 64u << 20;
	if (!opts.stack)
		opts.stack = "mem";
	if (strcmp(opts.stack, "dram")) {
		opts.ns.build = host_build;
		opts.ns.build_arg = &opts;
	}
	must(kv_ns_create(h->ss, &opts.ns, &h->ns) == 0);
	must(tgt_subsys_ns_add(h->ss, h->ns, 1) == 0);
	h->mem = mmap(NULL, KV_HOST_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	must(h->mem != MAP_FAILED);
	h->reg = mem_host_wrap(h->mem, KV_HOST_MEM_BYTES, MEM_PEER | MEM_READABLE | MEM_WRITABLE);
	must(h->reg);
	host_ctrl(h);
}

static void host_gone(void *arg, uint16_t st)
{
	*(bool *)arg = true;
}

static void host_reset(void *arg)
{
	*(bool *)arg = true;
}

void kv_host_fini(struct kv_host *h)
{
	bool is_reset = false, is_gone = false;

	tgt_ctrl_reset(h->ctrl, host_reset, &is_reset);
	while (!is_reset)
		kv_host_turn(h);
	tgt_ctrl_destroy(h->ctrl);
	if (tgt_subsys_ns(h->ss, 1)) {
		tgt_subsys_ns_del(h->ss, 1, host_gone, &is_gone);
		while (!is_gone)
			kv_host_turn(h);
	}
	for (unsigned i = 0; i < 1000; i++)
		kv_host_turn(h);
	tgt_subsys_destroy(h->ss);
	kv_csi_destroy(h->csi);
	mem_region_put(h->reg);
	munmap(h->mem, KV_HOST_MEM_BYTES);
	for (unsigned i = 0; i < h->node.nr; i++)
		tgt_worker_destroy(h->node.workers[i]);
	for (unsigned i = 0; i < h->node.nr; i++)
		reactor_destroy(h->node.reactors[i]);
}

void kv_host_turn(struct kv_host *h)
{
	reactor_step(h->node.reactors[rng_below(&h->rng, h->node.nr)]);
	h->clock_ns += 100000;
}

void kv_host_start(struct kv_host *h, unsigned q, const struct nvme_sqe *sqe,
		   struct kv_host_cmd *cmd)
{
	struct tgt_req *req = pool_get(&h->node.workers[q]->reqs);

	must(req);
	memset(cmd, 0, sizeof(*cmd));
	cmd->req = req;
	req->tr = cmd;
	tgt_req_init(req, &h->sq[q], sqe);
	tgt_req_prefetch(req);
	tgt_req_execute(req);
}

void kv_host_wait(struct kv_host *h, struct kv_host_cmd *cmd)
{
	for (unsigned i = 0; i < 1000000 && !cmd->is_over; i++)
		kv_host_turn(h);
	must(cmd->is_over);
}

struct kv_host_cmd kv_host_run(struct kv_host *h, unsigned q, const struct nvme_sqe *sqe)
{
	struct kv_host_cmd cmd;

	kv_host_start(h, q, sqe, &cmd);
	kv_host_wait(h, &cmd);
	return cmd;
}

struct nvme_sqe kv_host_sqe(uint8_t opc, const char *key, uint8_t opts)
{
	struct nvme_sqe sqe = {.opc = opc, .nsid = 1};

	nvme_kv_key_set(&sqe, key, (uint8_t)strlen(key), opts);
	return sqe;
}

void kv_host_data(struct nvme_sqe *sqe, uint64_t at, uint32_t len)
{
	sqe->flags = 1 << 6;
	sqe->sgl = (struct nvme_sgl){.addr = at, .len = len};
	sqe->cdw10 = len;
}

uint16_t kv_host_store(struct kv_host *h, const char *key, const void *value, uint32_t len,
		       uint8_t opts)
{
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_STORE, key, opts);

	memcpy(h->mem + KV_HOST_OUT, value, len);
	kv_host_data(&sqe, KV_HOST_OUT, len);
	return kv_host_run(h, 0, &sqe).status;
}

uint16_t kv_host_retrieve(struct kv_host *h, const char *key, uint32_t room, uint32_t *len)
{
	struct nvme_sqe sqe = kv_host_sqe(NVME_KV_RETRIEVE, key, 0);
	struct kv_host_cmd cmd;

	kv_host_data(&sqe, KV_HOST_IN, room);
	cmd = kv_host_run(h, h->node.nr - 1, &sqe);
	*len = cmd.dw0;
	return cmd.status;
}
