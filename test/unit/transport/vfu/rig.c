/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's half of rig.h: reactors, workers, subsystem, and the namespace. The test's thread.
 */
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/stat.h>

#include "core/fd_drop.h"
#include "mem/mem_iter.h"

/* ---- the namespace ---- */

struct rig_ns {
	struct tgt_ns ns;
	struct rig *rig;
};

static void rig_ns_read(struct rig *r, struct tgt_req *req)
{
	uint8_t buf[4096];
	uint32_t len = req->sqe.cdw10, at = 0;

	while (at < len) {
		uint32_t n = min_t(uint32_t, sizeof(buf), len - at);
		uint16_t st;

		for (uint32_t i = 0; i < n; i++)
			buf[i] = rig_byte(req->sqe.cdw12, at + i);
		st = tgt_req_iter_put(req, buf, n);
		if (st != NVME_ST_OK) {
			tgt_req_complete(req, st);
			return;
		}
		at += n;
	}
	req->dw0 = len;
	tgt_req_complete(req, NVME_ST_OK);
}

static void rig_ns_write(struct rig *r, struct tgt_req *req)
{
	uint8_t buf[4096];
	uint32_t len = req->sqe.cdw10, at = 0, nr_bad = 0;

	while (at < len) {
		uint32_t n = min_t(uint32_t, sizeof(buf), len - at);
		uint16_t st = tgt_req_iter_get(req, buf, n);

		if (st != NVME_ST_OK) {
			tgt_req_complete(req, st);
			return;
		}
		for (uint32_t i = 0; i < n; i++)
			nr_bad += buf[i] != rig_byte(req->sqe.cdw12, at + i);
		at += n;
	}
	req->dw0 = nr_bad;
	tgt_req_complete(req, NVME_ST_OK);
}

struct rig_copy {
	struct mem_xfer x;
	struct mem_iter_runs value;
	struct mem_run run;
};

static void rig_copied(struct mem_xfer *x, int res)
{
	struct rig_copy *c = container_of(x, struct rig_copy, x);

	tgt_req_complete(container_of((void *)c, struct tgt_req, scratch),
			 res ? NVME_ST_DATA_TRANSFER : NVME_ST_OK);
}

static void rig_ns_copy(struct rig *r, struct tgt_req *req)
{
	struct rig_copy *c = (struct rig_copy *)req->scratch;
	uint32_t len = req->sqe.cdw10;

	c->run = (struct mem_run){r->own, 0, len};
	mem_iter_runs_init(&c->value, &c->run, 1);
	c->x = (struct mem_xfer){.dir = MEM_TO_PEER,
				 .len = len,
				 .value_len = len,
				 .value = &c->value.it,
				 .peer = req->iter,
				 .flow = req->sq->flow,
				 .end = rig_copied};
	mem_xfer_submit(req->sq->worker->engine, &c->x);
}

static void rig_ns_step(struct tgt_req *req)
{
	container_of(req->ns, struct rig_ns, ns)->rig->nr_steps++;
	if (--req->sqe.cdw12)
		tgt_req_later(req, rig_ns_step);
	else
		tgt_req_complete(req, NVME_ST_OK);
}

static void rig_ns_execute(struct tgt_req *req)
{
	struct rig *r = container_of(req->ns, struct rig_ns, ns)->rig;
	bool is_read = req->sqe.opc == RIG_READ || req->sqe.opc == RIG_COPY;
	uint16_t st;

	if (req->sqe.opc == RIG_NOP) {
		req->dw0 = req->sqe.cdw12;
		tgt_req_complete(req, NVME_ST_OK);
		return;
	}
	if (req->sqe.opc == RIG_STEPS) {
		tgt_req_later(req, rig_ns_step);
		return;
	}
	if (!is_read && req->sqe.opc != RIG_WRITE) {
		tgt_req_complete(req, NVME_ST_INVALID_OPCODE);
		return;
	}
	st = req->sq->ops->data(req, req->sqe.cdw10, is_read ? MEM_TO_PEER : MEM_FROM_PEER);
	if (st != NVME_ST_OK)
		tgt_req_complete(req, st);
	else if (req->sqe.opc == RIG_COPY)
		rig_ns_copy(r, req);
	else if (r->is_held)
		r->held[r->nr_held++] = req;
	else if (is_read)
		rig_ns_read(r, req);
	else
		rig_ns_write(r, req);
}

void rig_let_go(struct rig *r, uint16_t status)
{
	for (unsigned i = 0; i < r->nr_held; i++) {
		struct tgt_req *req = r->held[i];

		if (status != NVME_ST_OK || req->is_aborted)
			tgt_req_complete(req, status ? status : NVME_ST_ABORTED);
		else if (req->sqe.opc == RIG_READ)
			rig_ns_read(r, req);
		else
			rig_ns_write(r, req);
	}
	r->nr_held = 0;
}

static uint16_t rig_ns_identify(struct tgt_ns *ns, uint8_t cns, void *buf)
{
	return NVME_ST_OK;
}

static void rig_ns_sizes(struct tgt_ns *ns, uint64_t *capacity, uint64_t *used)
{
	*capacity = 1u << 20;
	*used = 0;
}

static void rig_ns_destroy(struct tgt_ns *ns, struct reactor *home,
			   void (*done)(void *arg, uint16_t st), void *arg)
{
	free(container_of(ns, struct rig_ns, ns));
	done(arg, NVME_ST_OK);
}

static const struct tgt_ns_ops rig_ns_ops = {
	.csi = 1,
	.execute = rig_ns_execute,
	.identify = rig_ns_identify,
	.sizes = rig_ns_sizes,
	.destroy = rig_ns_destroy,
};

static void rig_csi_effects(uint32_t iocs[256])
{
	iocs[RIG_READ] = 1;
}

static uint16_t rig_csi_identify(void *buf)
{
	return NVME_ST_OK;
}

static const struct tgt_csi_ops rig_csi_ops = {
	.csi = 1,
	.effects = rig_csi_effects,
	.identify_ctrl = rig_csi_identify,
};

/* ---- life ---- */

int rig_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int nr = 0;

	while (fd_drop_nr_stuck()) /* strange ones, on their way out */
		sched_yield();
	assert_non_null(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

unsigned rig_nr_free(struct rig *r)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < r->nr; i++)
		nr += r->node.workers[i]->reqs.nr_free;
	return nr;
}

/* With threads: let them run. */
void rig_step(struct rig *r)
{
	if (r->is_threaded) {
		sched_yield();
		return;
	}
	for (unsigned i = 0; i < r->nr; i++)
		reactor_step(r->reactors[i]);
}

void rig_steps(struct rig *r, unsigned nr)
{
	while (nr--)
		rig_step(r);
}

/* One clock for all: where it stands. Its reactors' envs are linux but for that. */
static struct env_ops rig_still_ops;
static uint64_t *rig_clock_ns;

static uint64_t rig_now_ns(struct env *env)
{
	return *rig_clock_ns;
}

static void rig_still(struct rig *r, struct env *env)
{
	rig_clock_ns = &r->clock_ns;
	rig_still_ops = *env->ops;
	rig_still_ops.now_ns = rig_now_ns;
	env->ops = &rig_still_ops;
}

void rig_init(struct rig *r, unsigned nr, const struct vfu_opts *o)
{
	struct vfu_opts opts = o ? *o : (struct vfu_opts){0};
	struct tgt_subsys_opts so = {.nqn = "nqn.2014-08.org.nvmexpress:uuid:rig",
				     .serial = "RIG",
				     .model = "rig",
				     .capacity_bytes = 1u << 30};
	uint32_t nr_reqs = r->nr_reqs ? r->nr_reqs : 512;
	struct rig_ns *ns;

	assert_int_equal(mem_guard_init(), 0);
	*r = (struct rig){.nr = nr,
			  .nr_reqs = nr_reqs,
			  .is_home_apart = r->is_home_apart,
			  .is_threaded = r->is_threaded,
			  .clock_ns = r->clock_ns,
			  .spin_ns = r->spin_ns ? r->spin_ns : UINT64_MAX,
			  .nr_fds = rig_count_fds()};
	strcpy(r->dir, "/tmp/t_vfu.XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	for (unsigned i = 0; i < nr; i++) {
		struct env *env;

		assert_int_equal(env_linux_create(256, &env), 0);
		if (r->clock_ns)
			rig_still(r, env);
		r->reactors[i] = reactor_create(&(struct reactor_opts){
			.id = i, .nr_peers = nr, .env = env, .spin_ns = r->spin_ns, .cpu = -1});
		assert_non_null(r->reactors[i]);
		assert_int_equal(tgt_worker_create(r->reactors[i], i, nr_reqs, &r->node.workers[i]),
				 0);
		r->node.reactors[i] = r->reactors[i];
	}
	r->node.nr = nr;
	r->node.is_home_apart = r->is_home_apart;
	assert_int_equal(tgt_subsys_create(&r->node, &so, &r->ss), 0);
	tgt_subsys_csi_add(r->ss, &rig_csi_ops);
	r->own_base = calloc(1, RIG_COPY_MAX);
	r->own = mem_host_wrap(r->own_base, RIG_COPY_MAX, MEM_READABLE);
	assert_non_null(r->own);
	ns = aligned_alloc(64, sizeof(*ns));
	assert_non_null(ns);
	memset(ns, 0, sizeof(*ns));
	ns->ns.ops = &rig_ns_ops;
	ns->rig = r;
	r->ns = &ns->ns;
	assert_int_equal(tgt_subsys_ns_add(r->ss, r->ns, 1), 0);
	opts.dir = r->dir;
	assert_int_equal(vfu_create(r->ss, &opts, &r->tr), 0);
	assert_int_equal(r->tr->ops->start(r->tr), 0);
	for (unsigned i = 0; i < nr && r->is_threaded; i++)
		assert_int_equal(reactor_start(r->reactors[i], "rig"), 0);
	if (!r->is_threaded)
		rig_steps(r, 4);
}

/* ---- the end ---- */

/* On the home reactor, whoever runs it. */
struct rig_job {
	struct mbox_msg msg;
	struct rig *rig;
	struct tr *tr;
	bool *is_stopped;
	bool is_done;
};

void rig_done(void *arg)
{
	__atomic_store_n((bool *)arg, true, __ATOMIC_RELEASE);
}

static void rig_ns_gone(void *arg, uint16_t st)
{
	rig_done(arg);
}

static void rig_job_stop(struct mbox_msg *m)
{
	struct rig_job *j = container_of(m, struct rig_job, msg);

	j->tr->ops->stop(j->tr, rig_done, j->is_stopped);
	rig_done(&j->is_done);
}

static void rig_job_ns_del(struct mbox_msg *m)
{
	struct rig_job *j = container_of(m, struct rig_job, msg);

	tgt_subsys_ns_del(j->rig->ss, 1, rig_ns_gone, &j->is_done);
}

static void rig_do(struct rig *r, struct rig_job *j)
{
	j->rig = r;
	mbox_post(tgt_node_home(&r->node)->reactor, &j->msg);
	rig_until(r, __atomic_load_n(&j->is_done, __ATOMIC_ACQUIRE));
}

void rig_stop_begin(struct rig *r, struct tr *tr, bool *is_stopped)
{
	r->is_stopped |= tr == r->tr;
	rig_do(r, &(struct rig_job){.msg.fn = rig_job_stop, .tr = tr, .is_stopped = is_stopped});
}

void rig_stop(struct rig *r)
{
	bool is_stopped = false;

	rig_stop_begin(r, r->tr, &is_stopped);
	rig_until(r, __atomic_load_n(&is_stopped, __ATOMIC_ACQUIRE));
}

void rig_fini(struct rig *r)
{
	if (!r->is_stopped)
		rig_stop(r);
	rig_do(r, &(struct rig_job){.msg.fn = rig_job_ns_del});
	for (unsigned i = 0; i < r->nr && r->is_threaded; i++) {
		reactor_stop(r->reactors[i]);
		reactor_join(r->reactors[i]);
	}
	assert_int_equal(r->tr->ops->nr_hosts(r->tr), 0);
	assert_int_equal(rig_nr_free(r), r->nr * r->nr_reqs);
	r->tr->ops->destroy(r->tr);
	tgt_subsys_destroy(r->ss);
	mem_region_put(r->own);
	free(r->own_base);
	for (unsigned i = 0; i < r->nr; i++) {
		tgt_worker_destroy(r->node.workers[i]);
		reactor_destroy(r->reactors[i]);
	}
	assert_int_equal(rmdir(r->dir), 0);
	assert_int_equal(rig_count_fds(), r->nr_fds);
}
