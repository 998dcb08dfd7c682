/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client: a socket, a PCI function, a controller. Made when the connection is accepted, gone
 * when everything it had is:
 *
 *   socket ends -> tgt_ctrl_reset (queues drain) -> nothing mapped, no interrupts: a round ->
 *   the last snapshot is let go, the bells are still -> tgt_ctrl_destroy -> free
 *
 * Home reactor, but for the part of a round that runs on each worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/log.h"
#include "transport/vfu/vfu_int.h"

#define VFU_DEV_DSTRD_64 4 /* 4 << 4 bytes */

/* ---- making ---- */

/*
 * Who is it? The same user and root may do what an operator does; the socket's mode decides who
 * comes this far at all.
 */
static int vfu_dev_peer(struct vfu_dev *d)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(d->sock.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	d->pid = cred.pid;
	d->uid = cred.uid;
	d->since_ns = reactor_now_ns(vfu_home_reactor(d->vfu));
	d->may_operate = cred.uid == 0 || cred.uid == geteuid();
	snprintf(d->host, sizeof(d->host), "pid %d uid %u", (int)cred.pid, (unsigned)cred.uid);
	return 0;
}

static int vfu_dev_bar0(struct vfu_dev *d)
{
	void *p;

	d->bar0_fd = memfd_create("peal-bar0", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (d->bar0_fd < 0)
		return -errno;
	if (ftruncate(d->bar0_fd, VFU_BAR0_BYTES) ||
	    fcntl(d->bar0_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	p = mmap(NULL, VFU_BAR0_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, d->bar0_fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	d->bar0 = p;
	return 0;
}

/*
 * Recordings of one daemon together: a client may attach as often as it likes. One without commands
 * leaves no file.
 */
#define DEV_RECORDINGS_MAX 4096u
#define DEV_RECORD_BYTES (1ull << 30) /* each */
#define DEV_RECORDS_BYTES (8ull << 30)

/* The start time, since a pid says little in a container: a second run has names of its own. */
static void dev_record_path(struct vfu *v, char *path, size_t size)
{
	struct timespec ts;
	struct tm tm;
	char start[32];

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(start, sizeof(start), "%Y%m%dT%H%M%S", &tm);
	snprintf(path, size, "%s/vfu-%s-%d-%u.rec", v->record_dir, start, (int)getpid(),
		 v->nr_recorded);
}

static int dev_record_open(struct vfu_dev *d, char *path, size_t size)
{
	struct vfu *v = d->vfu;
	uint64_t taken = v->recorded_bytes + v->nr_recording * DEV_RECORD_BYTES;
	struct replay_record_opts o = {
		.path = path,
		.stride = d->has_stride ? 64 : 4,
		.max_bytes = DEV_RECORD_BYTES,
		.has_values = v->is_record_values,
	};
	struct replay_record *rec;
	int err = -EEXIST;

	/* Nobody has made that name by chance sixteen times. */
	for (unsigned i = 0; i < 16 && err == -EEXIST; i++) {
		if (v->nr_recorded >= DEV_RECORDINGS_MAX ||
		    taken + DEV_RECORD_BYTES > DEV_RECORDS_BYTES)
			return -EDQUOT;
		dev_record_path(v, path, size);
		v->nr_recorded++;
		err = replay_record_open(&o, &rec);
	}
	if (!err) {
		d->rec = rec;
		v->nr_recording++;
	}
	return err;
}

static int dev_record_close(struct vfu_dev *d, struct replay_record *rec)
{
	struct vfu *v = d->vfu;
	uint64_t bytes;
	int err;

	if (!rec)
		return 0;
	err = replay_record_close(rec, &bytes);
	v->nr_recording--;
	v->recorded_bytes += bytes;
	if (!bytes)
		v->nr_recorded--;
	return err;
}

int vfu_dev_record_stop(struct vfu_dev *d)
{
	if (!d->rec)
		return -ENOENT;
	if (d->old_rec)
		return -EALREADY;
	d->old_rec = d->rec;
	d->rec = NULL;
	return 0;
}

void vfu_dev_record_end(struct vfu_dev *d)
{
	int err;

	if (!d->old_rec)
		return;
	err = dev_record_close(d, d->old_rec);
	d->old_rec = NULL;
	log_some_info("vfu: %s is recorded no more%s%s", d->host, err ? ": " : "",
		      err ? strerrorname_np(-err) : "");
}

static void vfu_dev_free(struct vfu_dev *d)
{
	vfu_must_home(d->vfu);
	vfu_bell_destroy(d);
	dev_record_close(d, d->rec);
	vfu_dev_record_end(d);
	if (d->bar0)
		munmap(d->bar0, VFU_BAR0_BYTES);
	if (d->bar0_fd >= 0)
		close(d->bar0_fd);
	free(d->view);
	free(d);
}

/* Takes fd over when it succeeds. */
int vfu_dev_create(struct vfu *v, int fd)
{
	struct vfu_dev *d = calloc(1, sizeof(*d));
	size_t bytes = v->node->nr * sizeof(*d->view);
	int err;

	if (!d)
		return -ENOMEM;
	d->vfu = v;
	d->sock.fd = fd;
	vfu_sock_init(d);
	d->bar0_fd = -1;
	d->view = aligned_alloc(64, bytes);
	err = d->view ? vfu_dev_peer(d) : -ENOMEM;
	if (!err)
		err = vfu_dev_bar0(d);
	if (err) {
		vfu_dev_free(d);
		return err;
	}
	memset(d->view, 0, bytes);
	for (unsigned i = 0; i < v->node->nr; i++) {
		vfu_share_init(&d->view[i].share, d);
		list_init(&d->view[i].stuck);
	}
	vfu_pci_init(d);
	vfu_irq_init(d);
	list_add_tail(&v->devs, &d->node);
	v->nr_devs++;
	vfu_sock_start(d);
	return 0;
}

/* A recording that can't be made is no reason to refuse the client. */
int vfu_dev_record(struct vfu_dev *d)
{
	char path[PATH_MAX];
	int err;

	if (!d->vfu->record_dir)
		return -ENOENT;
	if (d->rec)
		return -EALREADY;
	err = dev_record_open(d, path, sizeof(path));
	if (err == -EDQUOT) {
		log_some_warn("vfu: %s: not recorded: there are %u recordings already, expected at "
			      "most %u and 8 GiB, 1 GiB of them for each under way",
			      d->host, d->vfu->nr_recorded, DEV_RECORDINGS_MAX);
		return err;
	}
	if (err) {
		log_some_warn("vfu: %s: %s: %s, not recorded", d->host, path,
			      strerrorname_np(-err));
		return err;
	}
	log_some_info("vfu: %s is recorded to %s%s", d->host, path,
		      d->vfu->is_record_values ? ", with its values" : "");
	return 0;
}

int vfu_dev_negotiate(struct vfu_dev *d)
{
	struct tgt_ctrl_opts o = {
		.ops = &vfu_queue_ops,
		.home = vfu_home(d->vfu)->tw,
		.max_queues = TGT_QUEUES_MAX,
		.dstrd = d->has_stride ? VFU_DEV_DSTRD_64 : 0,
		.is_operator = d->is_operator,
		.host = d->host,
	};
	int err;

	if (d->has_wake) {
		err = vfu_bell_create(d);
		if (err)
			return err;
	}
	err = tgt_ctrl_create(d->vfu->ss, &o, &d->ctrl);
	if (err)
		return err; /* the bells go with the client */
	tgt_ctrl_set_priv(d->ctrl, d);
	if (d->vfu->record_dir && !d->vfu->is_record_asked)
		vfu_dev_record(d);
	log_some_info("vfu: %s attached as controller %u%s", d->host, tgt_ctrl_id(d->ctrl),
		      d->is_operator ? ", operator" : "");
	return 0;
}

/* ---- rounds ---- */

static void vfu_dev_round_at(struct reactor_round *rd, struct reactor *r)
{
	struct vfu_dev *d = container_of(rd, struct vfu_dev, round);
	struct vfu_worker *w = &d->vfu->workers[reactor_id(r)];

	vfu_dma_view(d, w);
	vfu_irq_view(d, w);
}

static void vfu_dev_round_done(struct reactor_round *rd)
{
	struct vfu_dev *d = container_of(rd, struct vfu_dev, round);

	d->is_round = false;
	d->round_done(d);
}

/* Every worker takes d->snap and d->irqs as they are now; then done(). */
void vfu_dev_round(struct vfu_dev *d, void (*done)(struct vfu_dev *d))
{
	struct vfu *v = d->vfu;

	must(!d->is_round);
	d->is_round = true;
	d->round_done = done;
	d->round.fn = vfu_dev_round_at;
	d->round.done = vfu_dev_round_done;
	reactor_round_start(&d->round, vfu_home_reactor(v), v->node->reactors, v->node->nr);
}

/* ---- waits ---- */

/* What a message waited for is over and its reply is made. */
void vfu_dev_resume(struct vfu_dev *d)
{
	d->wait = VFU_WAIT_NONE;
	if (d->sock.is_shut && !d->sock.is_polling)
		vfu_dev_close(d);
	else
		vfu_sock_start(d);
}

static void vfu_dev_destroy(struct vfu_dev *d)
{
	struct vfu *v = d->vfu;

	must(d->nr_queues == 0 && d->nr_maps == 0 && d->nr_dying == 0);
	if (d->ctrl) {
		log_some_info("vfu: %s gone, controller %u free", d->host, tgt_ctrl_id(d->ctrl));
		tgt_ctrl_destroy(d->ctrl);
	}
	list_del(&d->node);
	if (--v->nr_devs == 0)
		v->alone_since_ns = reactor_now_ns(vfu_home_reactor(v));
	vfu_sock_close(d->sock.fd);
	vfu_dev_free(d);
	vfu_dev_gone(v);
}

void vfu_dev_settle(struct vfu_dev *d)
{
	switch (d->wait) {
	case VFU_WAIT_UNMAP:
		if (d->is_round || d->nr_dying)
			return;
		vfu_sock_reply(d, sizeof(struct vfio_user_dma_unmap));
		vfu_dev_resume(d);
		return;
	case VFU_WAIT_IRQS:
		if (d->is_round || d->nr_old_irqs)
			return;
		vfu_irq_settled(d);
		vfu_sock_reply(d, 0);
		vfu_dev_resume(d);
		return;
	case VFU_WAIT_CLOSE:
		if (!d->is_quiet || d->is_round || d->nr_snaps || d->nr_bells || d->nr_vecs ||
		    d->nr_old_irqs)
			return;
		vfu_irq_settled(d);
		vfu_dev_destroy(d);
		return;
	case VFU_WAIT_NONE:
	case VFU_WAIT_ROUND:
	case VFU_WAIT_RESET:
		return;
	}
}

/* ---- reset and close ---- */

static void vfu_dev_reset_done(void *arg)
{
	struct vfu_dev *d = arg;

	vfu_pci_init(d);
	vfu_sock_reply(d, 0);
	vfu_dev_resume(d);
}

void vfu_dev_reset(struct vfu_dev *d)
{
	d->wait = VFU_WAIT_RESET;
	tgt_ctrl_reset(d->ctrl, vfu_dev_reset_done, d);
}

static void vfu_dev_unseen(struct vfu_dev *d)
{
	vfu_bell_stop(d);
	vfu_irq_quiet(d);
	vfu_dev_settle(d);
}

static void vfu_dev_quiet(void *arg)
{
	struct vfu_dev *d = arg;

	d->is_quiet = true;
	vfu_dma_unmap_all(d);
	vfu_irq_none(d);
	vfu_dev_round(d, vfu_dev_unseen);
}

/* The socket is shut and nothing of it is under way. Once; again while a message waits. */
void vfu_dev_close(struct vfu_dev *d)
{
	if (d->wait != VFU_WAIT_NONE)
		return;
	d->wait = VFU_WAIT_CLOSE;
	if (d->ctrl)
		tgt_ctrl_reset(d->ctrl, vfu_dev_quiet, d);
	else
		vfu_dev_quiet(d);
}

/* ---- a doorbell that came by message ---- */

static void vfu_dev_kicked(struct mbox_msg *m)
{
	struct vfu_worker *w = container_of(m, struct vfu_worker, kick);

	atomic_store_explicit(&w->is_kicked, false, memory_order_release);
}

void vfu_dev_kick(struct vfu_dev *d, unsigned qid)
{
	struct vfu_worker *w;

	if (!d->sq[qid])
		return;
	w = d->sq[qid]->w;
	if (w == vfu_home(d->vfu) ||
	    atomic_exchange_explicit(&w->is_kicked, true, memory_order_acq_rel))
		return;
	w->kick.fn = vfu_dev_kicked;
	reactor_send(vfu_home_reactor(d->vfu), w->tw->reactor, &w->kick);
}
