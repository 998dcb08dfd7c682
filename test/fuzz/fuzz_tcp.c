/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe/TCP target fed with bytes by the hosts of four connections. Each input is a new daemon
 * in one thread under the simulated clock, with a KV namespace over DRAM, and a socketpair per
 * connection. Records:
 *
 *	op (bits 3:0; 5:4: of which connection; bit 7: cut into pieces of the next byte + 1), then
 *	0 bytes    length, bytes as they are
 *	1 PDU      type, flags, length, what follows the common header, which is right
 *	2 hello    1:0 digests, 4:2 MAXR2T, 7: hang up first
 *	3 Connect  2:0 queue, 3 discovery, 4 CNTLID comes, 5 no flow control, 6 size comes, 7 a byte
 *	           of the data is changed: offset / 4 and value come
 *	4 admin    one of admin[]
 *	5 command  bit 0 data in the capsule, else to be asked for; data's class, length, SQE
 *	6 value    2:0 key, 5:3 verb, 7:6 offset; 2:0 fill, 7:3 length
 *	7 turns    5:0 how many, 6: read the answers, 7: a second goes by
 *	8 answer   the oldest R2T: 2:0 how wrongly
 *	9 on       reads and answers until nothing more comes
 *
 * Whatever comes: no must() fails; what the target says is framed right, has right digests, ends
 * what was begun, once; a value that is served was put under that key; hosts that did nothing wrong
 * have all their answers in the end; when all have hung up everything that they had is back.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "base/must.h"
#include "core/fd_drop.h"
#include "kv/kv.h"
#include "peal/vendor.h"
#include "tcp_host.h"

#define FUZZ_TURNS 100000u
#define FUZZ_NQN "nqn.2024-01.io.peal:test"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz {
	struct tcp_hosts h;
	const struct tgt_csi_ops *csi;
	struct tr *tr;
	struct tcp_tr *t;
	const uint8_t *at, *end; /* of the input */
	int first_fd;		 /* the lowest number that is free before and after */
};

static uint8_t fuzz_data[TCP_CAPSULE_MAX];

static uint8_t next_u8(struct fuzz *f)
{
	return f->at < f->end ? *f->at++ : 0;
}

static const uint8_t *next_bytes(struct fuzz *f, size_t *len)
{
	const uint8_t *at = f->at;

	*len = min_t(size_t, *len, (size_t)(f->end - f->at));
	f->at += *len;
	return at;
}

static struct tcp_host *next_host(struct fuzz *f, uint8_t op)
{
	return &f->h.host[op >> 4 & (TCP_HOSTS - 1)];
}

/* ---- records ---- */

static void do_bytes(struct fuzz *f, struct tcp_host *h)
{
	size_t len = next_u8(f);
	const uint8_t *data = next_bytes(f, &len);

	h->is_wild = f->h.is_wild = true;
	tcp_host_put(h, data, len);
}

static void do_pdu(struct fuzz *f, struct tcp_host *h)
{
	uint8_t hdr[NVME_TCP_HDR_MAX] = {next_u8(f), next_u8(f)};
	size_t len = next_u8(f), hlen;
	const uint8_t *data = next_bytes(f, &len);

	hlen = hdr[0] == NVME_TCP_ICREQ ? 128 : hdr[0] == NVME_TCP_CMD ? 72 : 24;
	hlen = min_t(size_t, hlen, len + 8);
	memcpy(hdr + 8, data, hlen - 8);
	h->is_wild = f->h.is_wild = true;
	tcp_host_pdu(h, hdr, (uint32_t)hlen, data + hlen - 8, (uint32_t)(len + 8 - hlen));
}

/* In a turn of the home reactor, as the listener does. */
struct fuzz_job {
	struct mbox_msg msg;
	struct fuzz *f;
	int fd; /* of a new connection; -1: the transport is to stop */
	bool is_stopped;
	bool is_done;
};

static void note(void *arg)
{
	*(bool *)arg = true;
}

static bool is_noted(void *arg)
{
	return *(bool *)arg;
}

static void fuzz_job_run(struct mbox_msg *m)
{
	struct fuzz_job *j = container_of(m, struct fuzz_job, msg);

	if (j->fd >= 0)
		must(tcp_conn_create(j->f->t, j->fd) == 0);
	else
		j->f->tr->ops->stop(j->f->tr, note, &j->is_stopped);
	j->is_done = true;
}

static void fuzz_do(struct fuzz *f, struct fuzz_job *j)
{
	j->msg.fn = fuzz_job_run;
	j->f = f;
	mbox_post(tcp_home_reactor(f->t), &j->msg);
	must(fake_node_run(f->h.n, is_noted, &j->is_done, FUZZ_TURNS));
}

static void do_hello(struct fuzz *f, struct tcp_host *h)
{
	uint8_t how = next_u8(f);
	struct nvme_tcp_icreq ic = {.digest = how & 3, .max_r2t = how >> 2 & 7};
	int sv[2];

	if (how & 0x80)
		tcp_host_end(h);
	if (h->fd < 0) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
		must(fcntl(sv[1], F_SETFL, O_NONBLOCK) == 0);
		h->fd = sv[0];
		fuzz_do(f, &(struct fuzz_job){.fd = sv[1]});
		h->nr_r2t_max = ic.max_r2t + 1;
	} else {
		h->is_wild = true;
	}
	tcp_host_pdu(h, &ic, sizeof(ic), NULL, 0);
	fake_node_steps(f->h.n, 10);
	tcp_host_read(h);
}

static void do_connect(struct fuzz *f, struct tcp_host *h)
{
	uint8_t how = next_u8(f);
	struct nvmf_connect data = {.cntlid = how & 7 ? f->h.cntlid : NVMF_CNTLID_DYNAMIC,
				    .subnqn = FUZZ_NQN,
				    .hostnqn = "nqn.2024-01.io.peal:host"};
	struct nvme_sqe sqe = {.opc = NVMF_OPC, .nsid = NVMF_CONNECT};

	if (how & 8)
		memcpy(data.subnqn, NVMF_DISCOVERY_NQN, sizeof(NVMF_DISCOVERY_NQN));
	if (how & 0x10)
		data.cntlid = next_u8(f);
	sqe.cdw10 = (uint32_t)(how & 7) << 16;
	sqe.cdw11 = 31 | (how & 0x20 ? 1u << 18 : 0);
	if (how & 0x40) {
		sqe.cdw11 = next_u8(f);
		sqe.cdw12 = sqe.cdw11 > 200 ? 1000 : 0;
		h->is_wild = true; /* it may have more under way than that */
	}
	if (how & 0x80) {
		uint32_t at = next_u8(f) * 4u;

		((uint8_t *)&data)[at] = next_u8(f);
	}
	tcp_host_sgl(&sqe, true, sizeof(data));
	tcp_host_submit(h, &sqe, &data, sizeof(data));
	fake_node_steps(f->h.n, 20);
	tcp_host_read(h);
}

#define CC_ENABLE (4u << 20 | 6u << 16 | 6u << 4 | 1)

static const struct fuzz_admin {
	uint8_t opc;
	uint32_t nsid, cdw10, cdw11, cdw12, len;
} admin[] = {
	{NVMF_OPC, NVMF_PROPERTY_SET, 0, 0x14, CC_ENABLE},
	{NVMF_OPC, NVMF_PROPERTY_SET, 0, 0x14, 0},
	{NVMF_OPC, NVMF_PROPERTY_SET, 0, 0x14, CC_ENABLE | 1u << 14},
	{NVMF_OPC, NVMF_PROPERTY_GET, 0, 0x1c},
	{NVMF_OPC, NVMF_PROPERTY_GET, 1, 0},
	{NVMF_OPC, NVMF_DISCONNECT},
	{.opc = 0x0c},				/* AER */
	{.opc = 0x08, .cdw10 = 1},		/* Abort of an I/O queue's */
	{.opc = 0x08},				/* ... of its own */
	{.opc = 0x18},				/* Keep Alive */
	{.opc = 0x06, .cdw10 = 1, .len = 4096}, /* Identify */
	{.opc = 0x06, .cdw10 = 2, .len = 4096},
	{.opc = 0x02, .cdw10 = 1023u << 16 | 0x70, .len = 4096},
	{.opc = 0x02, .cdw10 = 1023u << 16 | 0x05, .len = 4096},
	{.opc = 0x09, .cdw10 = 7, .cdw11 = 1}, /* number of queues */
	{.opc = 0x0d, .len = 4096},	       /* Namespace Management */
};

static void do_admin(struct fuzz *f, struct tcp_host *h)
{
	const struct fuzz_admin *a = &admin[next_u8(f) % ARRAY_SIZE(admin)];
	struct nvme_sqe sqe = {.opc = a->opc,
			       .nsid = a->nsid,
			       .cdw10 = a->cdw10,
			       .cdw11 = a->cdw11,
			       .cdw12 = a->cdw12};

	if (a->opc == 8)
		sqe.cdw10 |= (uint32_t)h->last << 16;
	tcp_host_sgl(&sqe, false, a->len);
	tcp_host_submit(h, &sqe, NULL, 0);
}

static void do_command(struct fuzz *f, struct tcp_host *h)
{
	uint8_t how = next_u8(f);
	uint32_t bytes = tcp_host_lens[next_u8(f) % 32];
	size_t len = next_u8(f) % (sizeof(struct nvme_sqe) + 1);
	const uint8_t *data = next_bytes(f, &len);
	struct nvme_sqe sqe = {0};

	memcpy(&sqe, data, len);
	if (how & 1)
		bytes = min_t(uint32_t, bytes, TCP_CAPSULE_MAX);
	if (!(how & 2))
		tcp_host_sgl(&sqe, how & 1, bytes);
	f->h.is_wild |= (sqe.opc & 3) == 1 || sqe.opc >= 0xc0;
	h->is_wild |= how & 2 || (sqe.opc & 3) != (how & 1 ? 1 : 2);
	memset(fuzz_data, how, TCP_CAPSULE_MAX);
	tcp_host_submit(h, &sqe, how & 1 ? fuzz_data : NULL, how & 1 ? bytes : 0);
}

enum value_verb { PUT, PUT_ASKED, GET, GET_LESS, GET_EX, DEL, EXIST, LIST };

static void value_put(struct tcp_host *h, struct nvme_sqe *sqe, uint8_t what, bool is_capsule)
{
	uint8_t key = sqe->key_lo[0], fill = what & 7;
	uint32_t len = sqe->cdw10;
	struct tcp_host_cmd *cmd;

	is_capsule &= len <= TCP_CAPSULE_MAX;
	tcp_host_sgl(sqe, is_capsule, len);
	h->of->put[key][fill] |= 1u << (what >> 3);
	cmd = tcp_host_submit(h, sqe, tcp_host_value(key, fill), is_capsule ? len : 0);
	if (cmd) {
		cmd->key = key;
		cmd->fill = fill;
	}
}

static void do_value(struct fuzz *f, struct tcp_host *h)
{
	static const uint8_t opc[] = {NVME_KV_STORE,	NVME_KV_STORE,	      NVME_KV_RETRIEVE,
				      NVME_KV_RETRIEVE, PEAL_OPC_RETRIEVE_EX, NVME_KV_DELETE,
				      NVME_KV_EXIST,	NVME_KV_LIST};
	uint8_t how = next_u8(f), what = next_u8(f), key = how & 7, verb = how >> 3 & 7;
	uint32_t room = tcp_host_lens[what >> 3], off = how >> 6;
	struct nvme_sqe sqe = {.opc = opc[verb], .nsid = 1};
	bool is_get = verb >= GET && verb <= GET_EX;
	struct tcp_host_cmd *cmd;

	if (verb == GET_LESS)
		room = room / 2 + 1;
	nvme_kv_key_set(&sqe, &key, 1, 0);
	if (verb == GET_EX)
		sqe.cdw12 = off;
	if (verb != DEL && verb != EXIST)
		sqe.cdw10 = room;
	if (room && verb <= PUT_ASKED) {
		value_put(h, &sqe, what, verb == PUT);
		return;
	}
	tcp_host_sgl(&sqe, false, sqe.cdw10);
	cmd = tcp_host_submit(h, &sqe, NULL, 0);
	if (!cmd)
		return;
	cmd->is_value = is_get;
	cmd->key = key;
	cmd->at = verb == GET_EX ? off * 4096 : 0;
}

static void do_turns(struct fuzz *f, struct tcp_host *h)
{
	uint8_t how = next_u8(f);

	if (how & 0x80)
		f->h.n->clock_ns += 1000000000;
	fake_node_steps(f->h.n, how & 0x3f);
	tcp_host_flush(h);
	if (how & 0x40)
		tcp_host_read(h);
}

static void do_on(struct fuzz *f, struct tcp_host *h)
{
	unsigned nr_idle = 0;

	for (unsigned i = 0; i < 200 && nr_idle < 4; i++) {
		nr_idle = tcp_host_on(h) ? 0 : nr_idle + 1;
		fake_node_steps(f->h.n, 20);
	}
}

static void do_record(struct fuzz *f)
{
	uint8_t op = next_u8(f);
	struct tcp_host *h = next_host(f, op);

	f->h.piece = op & 0x80 ? next_u8(f) + 1u : 0;
	switch (op & 15) {
	case 0:
		do_bytes(f, h);
		break;
	case 1:
		do_pdu(f, h);
		break;
	case 2:
		do_hello(f, h);
		break;
	case 3:
		do_connect(f, h);
		break;
	case 4:
		do_admin(f, h);
		break;
	case 5:
		do_command(f, h);
		break;
	case 6:
		do_value(f, h);
		break;
	case 7:
		do_turns(f, h);
		break;
	case 8:
		tcp_host_answer(h, next_u8(f) & 7);
		break;
	default:
		do_on(f, h);
	}
	fake_node_steps(f->h.n, 2);
}

/* ---- the daemon ---- */

static void note_st(void *arg, uint16_t st)
{
	*(bool *)arg = true;
}

static bool is_alone(void *arg)
{
	const struct fuzz *f = arg;

	return f->t->nr_conns == 0 && f->t->nr_ctrls == 0;
}

static int fuzz_free_fd(void)
{
	int fd = dup(0);

	must(fd >= 0);
	close(fd);
	return fd;
}

static void fuzz_once(void)
{
	static bool is_done;

	if (is_done)
		return;
	is_done = true;
	log_set_level(LOG_LEVEL_ERR);
	must(mem_guard_init() == 0);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* most of it is never touched */
}

static void fuzz_begin(struct fuzz *f)
{
	struct kv_ns_opts ko = {.name = "fuzz", .dram_bytes = 2u << 20, .max_keys = 64};
	struct tcp_opts to = {.host = "127.0.0.1"};
	struct tgt_ns *ns;

	fuzz_once();
	f->first_fd = fuzz_free_fd();
	f->h.n = fake_node_create(&(struct fake_node_opts){
		.seed = 1, .nr = 2, .nr_reqs = 256, .capacity_bytes = 16u << 20});
	f->csi = kv_csi_create(f->h.n->ss, &ko);
	must(f->csi);
	tgt_subsys_csi_add(f->h.n->ss, f->csi);
	must(!kv_ns_create(f->h.n->ss, &ko, &ns) && !tgt_subsys_ns_add(f->h.n->ss, ns, 1));
	must(!tcp_create(f->h.n->ss, &to, &f->tr) && !f->tr->ops->start(f->tr));
	f->t = container_of(f->tr, struct tcp_tr, tr);
	fake_node_steps(f->h.n, 20);
	for (unsigned i = 0; i < TCP_HOSTS; i++)
		f->h.host[i] = (struct tcp_host){.of = &f->h, .fd = -1};
}

/* A command that a host without fault waits for; AERs stay. */
static bool fuzz_waits(const struct fuzz *f)
{
	for (unsigned i = 0; i < TCP_HOSTS; i++) {
		const struct tcp_host *h = &f->h.host[i];

		for (unsigned n = 0; n < TCP_HOST_CMDS && h->fd >= 0 && !h->is_wild; n++)
			if (h->cmd[n].is_out && h->cmd[n].opc != 0x0c)
				return true;
	}
	return false;
}

/* Whoever does what it has to do gets its answers, after the others' deadlines at the latest. */
static void fuzz_settle(struct fuzz *f)
{
	f->h.piece = 0;
	for (unsigned i = 0; fuzz_waits(f); i++) {
		must(i < 2000);
		for (unsigned n = 0; n < TCP_HOSTS; n++)
			if (!f->h.host[n].is_wild)
				tcp_host_on(&f->h.host[n]);
		fake_node_steps(f->h.n, 20);
		if (i > 60 && i % 10 == 0)
			f->h.n->clock_ns += 1000000000;
	}
}

static void fuzz_hang_up(struct fuzz *f)
{
	for (unsigned i = 0; i < TCP_HOSTS; i++)
		tcp_host_end(&f->h.host[i]);
	must(fake_node_run(f->h.n, is_alone, f, FUZZ_TURNS));
	for (unsigned i = 0; i < f->h.n->node.nr; i++) {
		const struct tcp_worker *w = &f->t->workers[i];

		must(w->tw->reqs.nr_free == w->tw->reqs.nr && w->nr_free_reqs == w->nr_reqs);
		must(w->nr_rx == w->nr_bufs && w->nr_tx == w->nr_bufs);
		must(w->segs.nr_free == w->segs.nr && w->events.nr_free == w->events.nr);
	}
}

static void fuzz_end(struct fuzz *f)
{
	struct fuzz_job stop = {.fd = -1};
	bool is_gone = false;

	fuzz_do(f, &stop);
	must(fake_node_run(f->h.n, is_noted, &stop.is_stopped, FUZZ_TURNS));
	tgt_subsys_ns_del(f->h.n->ss, 1, note_st, &is_gone);
	must(fake_node_run(f->h.n, is_noted, &is_gone, FUZZ_TURNS));
	f->tr->ops->destroy(f->tr);
	fake_node_destroy(f->h.n);
	kv_csi_destroy(f->csi);
	while (fd_drop_nr_stuck())
		sched_yield();
	must(fuzz_free_fd() == f->first_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {.at = data, .end = data + size};

	fuzz_begin(&f);
	while (f.at < f.end)
		do_record(&f);
	fuzz_settle(&f);
	fuzz_hang_up(&f);
	fuzz_end(&f);
	return 0;
}
