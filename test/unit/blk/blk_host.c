/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See blk_host.h. The controller is enabled through its registers as a host does it; its admin
 * queue is never used.
 */
#include "blk_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/container.h"

static void host_respond(struct tgt_req *req)
{
	struct blk_host_cmd *cmd = req->tr;

	must(!cmd->is_over);
	cmd->is_over = true;
	cmd->status = req->status;
	pool_put(&req->sq->worker->reqs, req);
}

static int host_resolve(struct tgt_req *req, uint64_t addr, uint64_t len, enum mem_xfer_dir dir,
			struct mem_run *run)
{
	struct blk_host *h = tgt_ctrl_priv(req->sq->ctrl);
	uint64_t end = BLK_HOST_MEM_BYTES;

	if (addr >= end || (addr >= h->hole && addr < h->hole + h->hole_len))
		return -EFAULT;
	if (addr < h->hole)
		end = h->hole;
	run->reg = h->reg;
	run->off = addr;
	run->len = min_t(uint64_t, len, end - addr);
	return 0;
}

static const struct tgt_sq_ops host_sq_ops = {
	.respond = host_respond,
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

static int host_real(const struct io_req *io, size_t len)
{
	struct iovec iov = io->nr_iov ? *io->iov : (struct iovec){0};
	ssize_t n = -1;

	iov.iov_len = min_t(size_t, iov.iov_len, len);
	if (io->op == IO_READ)
		n = preadv(io->fd, &iov, 1, (off_t)io->off);
	else if (io->op == IO_WRITE)
		n = pwritev(io->fd, &iov, 1, (off_t)io->off);
	else if (io->op == IO_FSYNC)
		n = 0; /* counted by host_io(); the machine's disk is not what is tested */
	else
		n = fallocate(io->fd, io->mode, (off_t)io->off, (off_t)io->len);
	return n < 0 ? -errno : (int)n;
}

static int host_io(void *arg, struct io_req *io)
{
	struct blk_host *h = arg;
	struct blk_host_fault *f = &h->fault;

	h->nr_io[io->op]++;
	if (f->times == 0 || io->op != f->op)
		return host_real(io, SIZE_MAX);
	if (f->after) {
		f->after--;
		return host_real(io, SIZE_MAX);
	}
	f->times--;
	return f->short_bytes ? host_real(io, f->short_bytes) : f->res;
}

static void host_workers(struct blk_host *h, const struct blk_host_opts *o)
{
	unsigned nr = o->nr_workers ? o->nr_workers : 1;

	for (unsigned i = 0; i < nr; i++) {
		struct env_sim_opts eo = {
			.seed = o->seed + i + 1,
			.clock_ns = &h->clock_ns,
			.delay_max_ns = 1000000,
			.io = host_io,
			.arg = h,
		};
		struct reactor_opts ro = {
			.id = i, .nr_peers = nr, .spin_ns = UINT64_MAX, .cpu = -1};

		ro.env = env_sim_create(&eo);
		must(ro.env);
		h->node.reactors[i] = reactor_create(&ro);
		must(h->node.reactors[i]);
		must(tgt_worker_create(h->node.reactors[i], i, BLK_HOST_REQS,
				       &h->node.workers[i]) == 0);
		h->node.nr = i + 1;
	}
}

static void host_ctrl(struct blk_host *h)
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
		blk_host_turn(h);
		tgt_ctrl_reg_read(h->ctrl, 0x1c, 4, &csts);
	}
	must(csts & 1);
	for (unsigned i = 0; i < h->node.nr; i++)
		tgt_sq_init(&h->sq[i], &host_sq_ops, h->ctrl, h->node.workers[i],
			    (uint16_t)(i + 1));
}

static void host_file(struct blk_host *h, const struct blk_host_opts *o)
{
	struct blk_ns_opts bo = {.path = h->path, .lba_bytes = o->lba_bytes};

	h->bytes = o->bytes ? o->bytes : 4u << 20;
	snprintf(h->path, sizeof(h->path), "/tmp/peal-test.XXXXXX");
	h->fd = mkstemp(h->path);
	must(h->fd >= 0 && ftruncate(h->fd, (off_t)h->bytes) == 0);
	must(blk_ns_create(h->ss, &bo, &h->ns) == 0);
	must(tgt_subsys_ns_add(h->ss, h->ns, 2) == 0);
}

void blk_host_init(struct blk_host *h, const struct blk_host_opts *o)
{
	struct tgt_subsys_opts so = {.nqn = "nqn.2026-11.test:blk", .serial = "1", .model = "test"};

	memset(h, 0, sizeof(*h));
	rng_init(&h->rng, o->seed);
	must(mem_guard_init() == 0);
	host_workers(h, o);
	must(tgt_subsys_create(&h->node, &so, &h->ss) == 0);
	tgt_subsys_csi_add(h->ss, blk_csi());
	host_file(h, o);
	h->hole = BLK_HOST_MEM_BYTES;
	h->mem = mmap(NULL, BLK_HOST_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	must(h->mem != MAP_FAILED);
	h->reg = mem_host_wrap(h->mem, BLK_HOST_MEM_BYTES, MEM_PEER | MEM_READABLE | MEM_WRITABLE);
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

void blk_host_ns_del(struct blk_host *h)
{
	bool is_gone = false;

	tgt_subsys_ns_del(h->ss, 2, host_gone, &is_gone);
	while (!is_gone)
		blk_host_turn(h);
}

void blk_host_fini(struct blk_host *h)
{
	bool is_reset = false;

	tgt_ctrl_reset(h->ctrl, host_reset, &is_reset);
	while (!is_reset)
		blk_host_turn(h);
	tgt_ctrl_destroy(h->ctrl);
	if (tgt_subsys_ns(h->ss, 2))
		blk_host_ns_del(h);
	for (unsigned i = 0; i < 1000; i++)
		blk_host_turn(h);
	tgt_subsys_destroy(h->ss);
	mem_region_put(h->reg);
	munmap(h->mem, BLK_HOST_MEM_BYTES);
	for (unsigned i = 0; i < h->node.nr; i++)
		tgt_worker_destroy(h->node.workers[i]);
	for (unsigned i = 0; i < h->node.nr; i++)
		reactor_destroy(h->node.reactors[i]);
	close(h->fd);
	unlink(h->path);
}

void blk_host_turn(struct blk_host *h)
{
	reactor_step(h->node.reactors[rng_below(&h->rng, h->node.nr)]);
	h->clock_ns += 100000;
}

void blk_host_start(struct blk_host *h, unsigned q, const struct nvme_sqe *sqe,
		    struct blk_host_cmd *cmd)
{
	struct tgt_req *req = pool_get(&h->node.workers[q]->reqs);

	must(req);
	memset(cmd, 0, sizeof(*cmd));
	req->tr = cmd;
	tgt_req_init(req, &h->sq[q], sqe);
	tgt_req_prefetch(req);
	tgt_req_execute(req);
}

void blk_host_wait(struct blk_host *h, struct blk_host_cmd *cmd)
{
	for (unsigned i = 0; i < 1000000 && !cmd->is_over; i++)
		blk_host_turn(h);
	must(cmd->is_over);
}

uint16_t blk_host_run(struct blk_host *h, const struct nvme_sqe *sqe)
{
	struct blk_host_cmd cmd;

	blk_host_start(h, (unsigned)rng_below(&h->rng, h->node.nr), sqe, &cmd);
	blk_host_wait(h, &cmd);
	return cmd.status;
}

struct nvme_sqe blk_host_sqe(uint8_t opc, uint64_t slba, uint32_t nlb)
{
	struct nvme_sqe sqe = {.opc = opc, .nsid = 2};

	sqe.cdw10 = (uint32_t)slba;
	sqe.cdw11 = (uint32_t)(slba >> 32);
	sqe.cdw12 = nlb - 1;
	return sqe;
}

void blk_host_data(struct nvme_sqe *sqe, uint64_t at, uint64_t len)
{
	sqe->flags = 1 << 6;
	sqe->sgl = (struct nvme_sgl){.addr = at, .len = (uint32_t)len};
}

uint32_t blk_host_lba(const struct blk_host *h)
{
	return 1u << container_of(h->ns, struct blk_ns, ns)->lba_shift;
}

uint16_t blk_host_write(struct blk_host *h, uint64_t slba, uint32_t nlb)
{
	struct nvme_sqe sqe = blk_host_sqe(BLK_WRITE, slba, nlb);

	blk_host_data(&sqe, BLK_HOST_DATA, (uint64_t)nlb * blk_host_lba(h));
	return blk_host_run(h, &sqe);
}

uint16_t blk_host_read(struct blk_host *h, uint64_t slba, uint32_t nlb)
{
	struct nvme_sqe sqe = blk_host_sqe(BLK_READ, slba, nlb);

	blk_host_data(&sqe, BLK_HOST_DATA, (uint64_t)nlb * blk_host_lba(h));
	return blk_host_run(h, &sqe);
}
