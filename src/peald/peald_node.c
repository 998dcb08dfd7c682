/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building and ending the daemon, in the order of the layers:
 *
 *   reactors -> workers -> subsystem -> namespaces -> control plane -> threads -> door, and back
 *
 * Stopping is a chain on the home reactor: transports stop, then namespaces one by one, then the
 * main thread is told.
 * tidy: no-test: test/peer starts the real thing
 */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/container.h"
#include "base/log.h"
#include "base/must.h"
#include "base/parse.h"
#include "base/usock.h"
#include "blk/blk.h"
#include "ctl/ctl.h"
#include "kv/kv.h"
#include "mem/mem.h"
#include "peald/peald_id.h"
#include "peald/peald_node.h"
#include "peald/peald_tier.h"
#include "peald/peald_watch.h"
#include "transport/tr.h"

#define NODE_REQS 4096	    /* commands under way per worker */
#define NODE_SPIN_NS 50000u /* idle time before sleep */
/* Admin commands under way, of the most clients there may be: what waits for events, and as many */
#define NODE_ADMIN_REQS(nr_clients) ((nr_clients)*2u * TGT_AERS_MAX)
#define NODE_IO_DEPTH 256
#define NODE_TRS_MAX 2

struct peald_node {
	struct tgt_node tgt;
	struct tgt_subsys *subsys;
	const struct tgt_csi_ops *csi;
	struct tr *tr[NODE_TRS_MAX]; /* the first is vfio-user */
	unsigned nr_trs, nr_stopping;
	struct ctl *ctl;
	struct ssd_watch *watch;
	uint32_t nsids[CONF_NS_MAX];
	uint32_t nr_started;
	const char *dir; /* of the socket; the configuration's */
	const struct conf_tcp *conf_tcp;
	/* The home's. */
	struct mbox_msg stop_msg;
	struct timeout linger;
	uint64_t linger_ns;
	uint32_t next_nsid;
	sem_t stopped;
};

/*
 * The one line of a start that fails, by who knows what it was. Then the process ends with status
 * 1; nobody could ever connect, and no socket is left.
 */
__attribute__((format(printf, 2, 3))) static int node_failed(int err, const char *fmt, ...)
{
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	log_err("peald does not start: %s", what);
	return err;
}

/*
 * Those that serve commands, then the home, which sleeps as soon as there is nothing to do: nobody
 * waits for a microsecond of its time, and it has no processor to itself.
 */
static int node_reactor(struct peald_node *n, const struct conf *o, unsigned i)
{
	bool is_home = i == o->nr_reactors;
	struct reactor_opts ro = {
		.id = i,
		.nr_peers = o->nr_reactors + 1,
		.spin_ns = is_home	? 0
			   : o->is_busy ? UINT64_MAX
					: NODE_SPIN_NS,
		.cpu = -1,
	};
	uint32_t nr_clients = o->vfu.max_clients ? o->vfu.max_clients : VFU_CLIENTS_DEFAULT;
	uint32_t nr_reqs = is_home ? NODE_ADMIN_REQS(nr_clients) : NODE_REQS;
	int err = env_linux_create(NODE_IO_DEPTH, &ro.env);

	if (err)
		return err;
	n->tgt.reactors[i] = reactor_create(&ro);
	if (!n->tgt.reactors[i]) {
		ro.env->ops->destroy(ro.env);
		return -ENOMEM;
	}
	n->tgt.nr = i + 1;
	n->tgt.is_home_apart = is_home;
	return tgt_worker_create(n->tgt.reactors[i], i, nr_reqs, &n->tgt.workers[i]);
}

static void node_ssd_log(struct tgt_ns *ns, unsigned nsid, const struct conf_tier *ssd)
{
	struct store_stats st = {0};
	struct store_part part;
	unsigned tier;
	char size[16];

	for (tier = 1; ssd && store_set_tier_name(kv_ns_store(ns), tier); tier++)
		if (strcmp(store_set_tier_name(kv_ns_store(ns), tier), "ssd") == 0)
			break;
	if (!ssd || store_set_stats(kv_ns_store(ns), tier, &st))
		return;
	format_size(st.capacity_bytes, size);
	if (ssd->nr_devices == 1)
		log_info("namespace %u: %s of SSD in %s", nsid, size, ssd->devices[0].path);
	for (unsigned i = 0; !store_health_part(kv_ns_store(ns), tier, i, &part); i++) {
		format_size(part.st.capacity_bytes, size);
		log_info("namespace %u: %s of SSD in %s%s", nsid, size, part.folder,
			 part.state == STORE_PART_MISSING ? ", which is missing" : "");
	}
}

/* The folders of an SSD tier, and who looks after them. */
static int node_devices(struct peald_node *n, const struct conf_tier *ssd, struct kv_ns_opts *ko)
{
	int err = 0;

	for (unsigned i = 0; ssd && i < ssd->nr_devices && !err; i++) {
		ko->ssd[i].folder = ssd->devices[i].path;
		ko->ssd[i].bytes = ssd->devices[i].bytes;
		err = peald_watch_add(n->watch, ssd->devices[i].path, &ko->ssd[i].watch);
		ko->nr_ssd = i + 1;
	}
	return err;
}

static int node_namespace(struct peald_node *n, const struct conf *o, unsigned i)
{
	const struct conf_tier *ssd = peald_tier_find(&o->ns[i], CONF_TIER_SSD);
	const struct conf_tier *rados = peald_tier_find(&o->ns[i], CONF_TIER_RADOS);
	struct ceph_opts co;
	struct kv_ns_opts ko = {
		.name = o->ns[i].name,
		.dram_bytes = o->ns[i].bytes,
		.max_keys = o->ns[i].max_keys,
		.value_max = o->ns[i].value_max,
		.is_immutable = o->ns[i].is_immutable,
		.is_read_only = o->ns[i].is_read_only,
		.is_acked_ssd = o->ns[i].ack == CONF_ACK_SSD,
		.is_acked_rados = o->ns[i].ack == CONF_ACK_RADOS,
		.is_through = o->ns[i].write == CONF_WRITE_THROUGH,
	};
	struct tgt_ns *ns;
	char size[16];
	int err;

	ko.ssd_care.day_bytes = o->ns[i].day_bytes;
	ko.ssd_care.rate_bytes = o->ns[i].rate_bytes;
	ko.ssd_care.min_free_bytes = o->ssd.min_free_bytes;
	ko.ssd_care.cap_bytes = o->ssd.cap_bytes;
	if (rados)
		peald_tier_rados(rados, &co, &ko);
	err = node_devices(n, ssd, &ko);
	if (!err)
		err = kv_ns_create(n->subsys, &ko, &ns);
	for (unsigned c = 0; c < o->ns[i].nr_classes && !err; c++)
		err = kv_class_add(ns, &o->ns[i].classes[c]);
	if (!err)
		err = tgt_subsys_ns_add(n->subsys, ns, i + 1);
	if (err) {
		return node_failed(err, "namespace %s of %llu bytes: %s%s", o->ns[i].name,
				   (unsigned long long)o->ns[i].bytes, strerror(-err),
				   peald_tier_why(err, ssd, rados));
	}
	format_size(o->ns[i].bytes, size);
	log_info("namespace %u: %s, %s of DRAM%s", i + 1, o->ns[i].name, size,
		 o->ns[i].is_immutable ? "" : ", rw");
	node_ssd_log(ns, i + 1, ssd);
	if (rados)
		log_info("namespace %u: pool %s of Ceph, RADOS namespace %s, as client.%s", i + 1,
			 co.pool, co.ns ? co.ns : o->ns[i].name, co.id);
	n->nsids[i] = i + 1;
	return 0;
}

static void node_block_size(const struct conf_block *b, const struct stat *st, char *why,
			    size_t bytes)
{
	char want[64] = "";

	if (b->size_bytes)
		snprintf(want, sizeof(want), "%llu bytes as size= says, ",
			 (unsigned long long)b->size_bytes);
	if (S_ISREG(st->st_mode))
		snprintf(
			why, bytes,
			" (it has %llu bytes, expected %sa multiple of its blocks of %u and not 0)",
			(unsigned long long)st->st_size, want, b->lba_bytes);
	else if (S_ISBLK(st->st_mode))
		snprintf(why, bytes,
			 " (expected a device of %sa multiple of its blocks of %u and not 0)", want,
			 b->lba_bytes);
	else
		snprintf(why, bytes, " (it is neither a file nor a block device, expected one)");
}

/* What is wrong with the file of a block namespace, as far as a look tells. */
static void node_block_why(const struct conf_block *b, int err, char *why, size_t bytes)
{
	struct stat st;

	*why = 0;
	if (err == -ENOENT)
		snprintf(why, bytes, " (size=SIZE would make it)");
	else if (err == -EWOULDBLOCK)
		snprintf(why, bytes, " (another daemon has it)");
	else if (err == -EINVAL && stat(b->path, &st) == 0)
		node_block_size(b, &st, why, bytes);
	else if (err == -EINVAL)
		snprintf(why, bytes, " (size=%llu is no multiple of its blocks of %u)",
			 (unsigned long long)b->size_bytes, b->lba_bytes);
}

static int node_block(struct peald_node *n, const struct conf_block *b, uint32_t nsid)
{
	char size[16], said[BLK_WHY_BYTES] = "", why[200];
	struct blk_ns_opts bo = {.path = b->path,
				 .size_bytes = b->size_bytes,
				 .lba_bytes = b->lba_bytes,
				 .why = said};
	struct tgt_ns *ns;
	int err = blk_ns_create(n->subsys, &bo, &ns);

	if (!err)
		err = tgt_subsys_ns_add(n->subsys, ns, nsid);
	if (err) {
		if (*said) /* an image says so itself */
			snprintf(why, sizeof(why), " (%s)", said);
		else
			node_block_why(b, err, why, sizeof(why));
		return node_failed(err, "block namespace on %s: %s%s", b->path, strerror(-err),
				   why);
	}
	format_size(blk_ns_bytes(ns), size);
	log_info("namespace %u: %s, %s of blocks of %u", nsid, b->path, size, b->lba_bytes);
	return 0;
}

static int node_subsys(struct peald_node *n, const struct conf *o)
{
	struct peald_id id;
	struct tgt_subsys_opts so = {
		.nqn = id.nqn,
		.serial = id.serial,
		.model = "Peal KV",
		.capacity_bytes = o->dram_bytes,
	};
	struct kv_ns_opts defaults = {.value_max = o->value_max, .is_immutable = o->is_immutable};
	const struct tgt_csi_ops *csi;
	int err = peald_watch_create(o, &n->watch);

	peald_id_make(o->id, o->vfu.dir, &id);
	if (!err)
		err = tgt_subsys_create(&n->tgt, &so, &n->subsys);
	if (err)
		return node_failed(err, "subsystem: %s", strerror(-err));
	csi = kv_csi_create(n->subsys, &defaults);
	if (!csi)
		return node_failed(-ENOMEM, "KV command set: %s", strerror(ENOMEM));
	n->csi = csi;
	tgt_subsys_csi_add(n->subsys, csi);
	for (unsigned i = 0; i < o->nr_ns && !err; i++)
		err = node_namespace(n, o, i);
	if (o->nr_blocks)
		tgt_subsys_csi_add(n->subsys, blk_csi());
	for (unsigned i = 0; i < o->nr_blocks && !err; i++)
		err = node_block(n, &o->blocks[i], o->nr_ns + i + 1);
	return err;
}

static int node_check_record(const char *dir)
{
	struct stat st;
	int err = 0;

	if (!dir[0])
		return 0;
	if (stat(dir, &st) || access(dir, W_OK | X_OK))
		err = -errno;
	else if (!S_ISDIR(st.st_mode))
		err = -ENOTDIR;
	return err ? node_failed(err, "--record %s: %s, expected a folder that can be written", dir,
				 strerror(-err))
		   : 0;
}

static int node_folders(const struct conf *o)
{
	int err = usock_folder_make(o->vfu.dir);

	if (err == -EPERM)
		return node_failed(err,
				   "--dir %s: another user owns it, or everybody may write there: "
				   "expected a folder of root or of uid %u",
				   o->vfu.dir, (unsigned)geteuid());
	if (err)
		return node_failed(err, "--dir %s: %s", o->vfu.dir, strerror(-err));
	return node_check_record(o->vfu.record);
}

/* The transports, and the control plane: it has figures of both. Nobody can connect yet. */
static int node_transport(struct peald_node *n, const struct conf *o)
{
	struct vfu_opts vo = {
		.dir = o->vfu.dir,
		.max_clients = o->vfu.max_clients,
		.poll_ns = o->poll_ns,
		.is_busy = o->is_busy,
		.record_dir = o->vfu.record[0] ? o->vfu.record : NULL,
		.is_record_asked = !o->vfu.is_record_all,
		.is_record_values = o->vfu.is_record_values,
	};
	char what[CTL_WHAT_BYTES], why[TCP_WHY_BYTES];
	struct tcp_opts to = {.host = o->tcp.host,
			      .port = o->tcp.port,
			      .max_conns = o->tcp.max_conns,
			      .hosts = o->tcp.hosts};
	int err = vfu_create(n->subsys, &vo, &n->tr[0]);

	if (err)
		return node_failed(err, "vfio-user: %s/cntrl: %s", o->vfu.dir, strerror(-err));
	n->nr_trs = 1;
	if (o->tcp.secrets[0] && o->tcp.host[0])
		err = tcp_secrets_load(o->tcp.secrets, &to.secrets, why);
	if (err)
		return node_failed(err, "--tcp-secrets %s: %s", o->tcp.secrets, why);
	if (o->tcp.host[0])
		err = tcp_create(n->subsys, &to, &n->tr[n->nr_trs++]);
	if (err) {
		tcp_secrets_destroy(to.secrets);
		return node_failed(err, "NVMe/TCP: %s", strerror(-err));
	}
	err = ctl_create(
		&(struct ctl_opts){
			.conf = o, .subsys = n->subsys, .tr = n->tr[0], .watch = n->watch},
		&n->ctl, what);
	if (err)
		return node_failed(err, "%s: %s", what, strerror(-err));
	return 0;
}

/* When the last client of all transports left; 0: one is attached. */
static uint64_t node_alone_since_ns(const struct peald_node *n)
{
	uint64_t since = 0;

	for (unsigned i = 0; i < n->nr_trs; i++) {
		uint64_t one = n->tr[i]->ops->alone_since_ns(n->tr[i]);

		if (!one)
			return 0;
		since = max_t(uint64_t, since, one);
	}
	return since;
}

static void node_linger(struct timeout *t)
{
	struct peald_node *n = container_of(t, struct peald_node, linger);
	struct reactor *r = tgt_node_home(&n->tgt)->reactor;
	uint64_t now = reactor_now_ns(r), since = node_alone_since_ns(n);

	if (since && now - since >= n->linger_ns) {
		log_info("no client for %llu s: stopping",
			 (unsigned long long)(n->linger_ns / 1000000000u));
		kill(getpid(), SIGTERM);
		return;
	}
	/* While somebody is attached the end is at least that far away. */
	timeout_set(r, t, (since ? since : now) + n->linger_ns);
}

int peald_node_create(const struct conf *o, struct peald_node **out)
{
	struct peald_node *n = calloc(1, sizeof(*n));
	int err = 0;

	if (!n)
		return node_failed(-ENOMEM, "node: %s", strerror(ENOMEM));
	n->dir = o->vfu.dir;
	n->conf_tcp = &o->tcp;
	sem_init(&n->stopped, 0, 0);
	for (unsigned i = 0; i <= o->nr_reactors && !err; i++) {
		err = node_reactor(n, o, i);
		if (err)
			node_failed(err, "reactor %u: %s", i, strerror(-err));
	}
	if (!err)
		err = node_folders(o);
	if (!err)
		err = node_subsys(n, o);
	if (!err)
		err = node_transport(n, o);
	if (err) {
		/* The process ends: what hangs on reactors that never ran goes with it. */
		free(n);
		return err;
	}
	timeout_init(&n->linger, node_linger);
	if (o->linger_s) {
		n->linger_ns = o->linger_s * 1000000000u;
		timeout_set(tgt_node_home(&n->tgt)->reactor, &n->linger,
			    reactor_now_ns(tgt_node_home(&n->tgt)->reactor) + n->linger_ns);
	}
	*out = n;
	return 0;
}

static void node_ns_gone(void *arg, uint16_t st);

static void node_ns_next(struct peald_node *n)
{
	while (n->next_nsid <= TGT_NS_MAX && !tgt_subsys_ns(n->subsys, n->next_nsid))
		n->next_nsid++;
	if (n->next_nsid > TGT_NS_MAX) {
		sem_post(&n->stopped);
		return;
	}
	tgt_subsys_ns_del(n->subsys, n->next_nsid++, node_ns_gone, n);
}

static void node_ns_gone(void *arg, uint16_t st)
{
	node_ns_next(arg);
}

static void node_tr_stopped(void *arg)
{
	struct peald_node *n = arg;

	if (--n->nr_stopping)
		return;
	n->next_nsid = 1;
	node_ns_next(n);
}

static void node_stop_there(struct mbox_msg *m)
{
	struct peald_node *n = container_of(m, struct peald_node, stop_msg);

	timeout_cancel(&n->linger);
	n->nr_stopping = n->nr_trs;
	for (unsigned i = 0; i < n->nr_trs; i++)
		n->tr[i]->ops->stop(n->tr[i], node_tr_stopped, n);
}

static void node_threads_end(struct peald_node *n)
{
	for (unsigned i = 0; i < n->nr_started; i++)
		reactor_stop(n->tgt.reactors[i]);
	for (unsigned i = 0; i < n->nr_started; i++)
		reactor_join(n->tgt.reactors[i]);
	ssd_watch_stop(n->watch);
}

static int node_threads(struct peald_node *n)
{
	char name[TGT_WORKER_NAME_BYTES];
	int err = ssd_watch_start(n->watch);

	if (err)
		return node_failed(err, "thread that watches the SSD: %s", strerror(-err));
	for (unsigned i = 0; i < n->tgt.nr; i++) {
		tgt_node_name(&n->tgt, i, name);
		err = reactor_start(n->tgt.reactors[i], name);
		if (err)
			return node_failed(err, "thread of reactor %u: %s", i, strerror(-err));
		n->nr_started = i + 1;
	}
	return 0;
}

/* vfio-user last: its line says that the daemon is there. */
static int node_doors(struct peald_node *n)
{
	int err = 0;

	if (n->nr_trs > 1) {
		err = n->tr[1]->ops->start(n->tr[1]);
		if (err)
			return node_failed(err, "NVMe/TCP: listening on %s port %u: %s",
					   n->conf_tcp->host, n->conf_tcp->port, strerror(-err));
	}
	err = n->tr[0]->ops->start(n->tr[0]);
	if (err)
		node_failed(err, "vfio-user: listening on %s/cntrl: %s", n->dir, strerror(-err));
	return err;
}

/*
 * The door is opened behind everything that can fail but the control plane's thread, which is the
 * one that is easily taken back: a daemon that doesn't start has never been seen.
 */
int peald_node_start(struct peald_node *n)
{
	int err = node_threads(n);

	if (err)
		goto end_threads;
	err = ctl_start(n->ctl);
	if (err) {
		node_failed(err, "thread of the control plane: %s", strerror(-err));
		goto end_threads;
	}
	err = node_doors(n);
	if (err)
		goto stop_ctl;
	return 0;

stop_ctl:
	ctl_stop(n->ctl);
end_threads:
	node_threads_end(n);
	ctl_destroy(n->ctl); /* its socket goes; what hangs on the reactors goes with the process */
	n->ctl = NULL;
	return err;
}

void peald_node_stop(struct peald_node *n)
{
	ctl_stop(n->ctl); /* before what it looks at goes away */
	n->stop_msg.fn = node_stop_there;
	mbox_post(tgt_node_home(&n->tgt)->reactor, &n->stop_msg);
	while (sem_wait(&n->stopped) && errno == EINTR)
		;
	node_threads_end(n);
}

void peald_node_destroy(struct peald_node *n)
{
	if (!n)
		return;
	ctl_destroy(n->ctl);
	for (unsigned i = 0; i < n->nr_trs; i++)
		n->tr[i]->ops->destroy(n->tr[i]);
	tgt_subsys_destroy(n->subsys);
	ssd_watch_destroy(n->watch);
	kv_csi_destroy(n->csi);
	for (unsigned i = 0; i < n->tgt.nr; i++)
		tgt_worker_destroy(n->tgt.workers[i]);
	for (unsigned i = 0; i < n->tgt.nr; i++)
		reactor_destroy(n->tgt.reactors[i]);
	sem_destroy(&n->stopped);
	free(n);
}
