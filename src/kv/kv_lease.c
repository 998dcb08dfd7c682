/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: a value stays pinned where it lies while a client reads it in place. One table per
 * namespace and worker, so no lock: a lease lives on the worker whose queue asked for it, and its
 * id says which that is.
 *
 *   id = generation 39:0 of 32 bits | worker << 16 | slot
 *
 * Bounds: KV_LEASES_MAX per table, of which a controller gets one more while it holds fewer than
 * are free: one alone comes to half of them, two that keep asking to a third each. Nothing is taken
 * back: who had his half before others came keeps it for as long as his leases last, and they
 * share what is left by the same rule. Besides, each is sure of KV_LEASES_SURE, whatever others
 * hold. KV_LEASE_CTRL_MIB_MAX per controller, in all tables; KV_LEASE_MS_MAX of
 * time.
 * The time is the client's deadline; the pin goes KV_LEASE_GRACE_MS later, for a copy that began in
 * time. A client that reads even later finds bytes that fail their seals, nothing worse: its
 * mapping is read-only.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/container.h"
#include "base/hash.h"
#include "base/must.h"
#include "kv/kv_int.h"

#define KV_LEASE_GRACE_MS 500u
#define KV_LEASE_AWAKE_NS 300000u
#define KV_LEASE_SLOTS (KV_LEASES_MAX + TGT_CTRLS_MAX * KV_LEASES_SURE)
#define KV_LEASE_BUCKETS 256u
static_assert(KV_LEASE_SLOTS <= 0xffff, "the slot of an id");

struct kv_lease {
	struct kv_lease_table *table;
	struct store_view view;
	struct timeout timeout;
	uint32_t gen;
	uint32_t next_free;
	uint16_t ctrl;
	struct store_key key; /* pinned by a HINT: */
	struct list pin;      /* in its bucket; not linked: no such pin */
	bool is_held;	      /* false: free, or being released */
};

struct kv_lease_table {
	struct tgt_worker *worker;
	struct tgt_subsys *ss;
	struct counter nr_busy;
	uint64_t seed;			    /* of the buckets: keys are a client's choice */
	struct list pins[KV_LEASE_BUCKETS]; /* by key */
	uint32_t first_free;
	struct counter ctrl_bytes[TGT_CTRLS_MAX], ctrl_nr[TGT_CTRLS_MAX];
	struct kv_lease lease[KV_LEASE_SLOTS];
};

/* Never 0, so that what a controller holds is 0 when it has no lease. */
static uint64_t lease_bytes(const struct store_view *v)
{
	return max_t(uint64_t, v->value_len, 1);
}

static void lease_account(struct kv_lease_table *t, uint16_t ctrl, uint64_t nr, uint64_t bytes)
{
	counter_add(&t->ctrl_nr[ctrl % TGT_CTRLS_MAX], nr);
	counter_add(&t->ctrl_bytes[ctrl % TGT_CTRLS_MAX], bytes);
}

static void lease_released(struct store_view *v)
{
	struct kv_lease *l = container_of(v, struct kv_lease, view);
	struct kv_lease_table *t = l->table;

	l->next_free = t->first_free;
	t->first_free = (uint32_t)(l - t->lease);
	counter_add(&t->nr_busy, (uint64_t)-1);
}

static void lease_end(struct kv_lease *l)
{
	lease_account(l->table, l->ctrl, (uint64_t)-1, -(uint64_t)l->view.value_len);
	atomic_fetch_sub_explicit(tgt_subsys_leased(l->table->ss, l->ctrl), lease_bytes(&l->view),
				  memory_order_relaxed);
	l->is_held = false;
	list_del(&l->pin);
	if (++l->gen == 0) /* an id of 0 says "none" */
		l->gen = 1;
	timeout_cancel(&l->timeout);
	store_release(&l->view, l->table->worker->reactor, lease_released);
}

static void lease_expired(struct timeout *to)
{
	lease_end(container_of(to, struct kv_lease, timeout));
}

/*
 * Who holds fewer than it is sure of finds a slot: so many of them are nobody else's. Above that,
 * as many as are free (Choudhury and Hahne, "Dynamic queue length thresholds", 1998, alpha 1).
 */
static bool lease_may(const struct kv_lease_table *t, uint16_t ctrl)
{
	uint64_t held = counter_get(&t->ctrl_nr[ctrl % TGT_CTRLS_MAX]);
	uint64_t busy = counter_get(&t->nr_busy);

	return held < KV_LEASES_SURE || held + busy < KV_LEASES_MAX;
}

/* Of the controller's bytes, which other workers take from, too. */
static bool lease_reserve(struct kv_lease_table *t, uint16_t ctrl, uint64_t bytes)
{
	_Atomic uint64_t *all = tgt_subsys_leased(t->ss, ctrl);
	uint64_t before = atomic_fetch_add_explicit(all, bytes, memory_order_relaxed);

	if (before + bytes <= (uint64_t)KV_LEASE_CTRL_MIB_MAX << 20)
		return true;
	atomic_fetch_sub_explicit(all, bytes, memory_order_relaxed);
	return false;
}

static struct kv_lease *lease_take(struct kv_lease_table *t, uint16_t ctrl, struct store_view *view,
				   uint32_t ms)
{
	struct kv_lease *l;
	uint32_t slot = t->first_free;

	/* All taken: some are on their way back to their shards. */
	if (slot == KV_LEASE_SLOTS || !lease_may(t, ctrl) ||
	    !lease_reserve(t, ctrl, lease_bytes(view)))
		return NULL;
	l = &t->lease[slot];
	t->first_free = l->next_free;
	counter_add(&t->nr_busy, 1);
	lease_account(t, ctrl, 1, view->value_len);
	l->view = *view;
	view->st = NULL;
	l->ctrl = ctrl;
	l->is_held = true;
	timeout_set(t->worker->reactor, &l->timeout,
		    reactor_now_ns(t->worker->reactor) + (uint64_t)ms * 1000000u);
	return l;
}

uint64_t kv_lease_add(struct kv_lease_table *t, uint16_t ctrl, struct store_view *view, uint32_t ms)
{
	struct kv_lease *l = lease_take(t, ctrl, view, ms + KV_LEASE_GRACE_MS);

	if (!l)
		return 0;
	return (uint64_t)l->gen << 32 | t->worker->id << 16 | (uint32_t)(l - t->lease);
}

static struct list *lease_pins(struct kv_lease_table *t, const struct store_key *key)
{
	return &t->pins[hash_xxh3(key->b, key->len, t->seed) % KV_LEASE_BUCKETS];
}

bool kv_lease_pin(struct kv_lease_table *t, uint16_t ctrl, struct store_view *view,
		  const struct store_key *key, uint32_t ms)
{
	struct kv_lease *l = lease_take(t, ctrl, view, ms);

	if (!l)
		return false;
	l->key = *key;
	list_add_tail(lease_pins(t, key), &l->pin);
	return true;
}

bool kv_lease_unpin(struct kv_lease_table *t, uint16_t ctrl, const struct store_key *key)
{
	struct list *pins = lease_pins(t, key);
	struct kv_lease *l;

	list_for_each_entry(l, pins, pin) {
		if (l->ctrl != ctrl || !store_key_equal(&l->key, key))
			continue;
		lease_end(l);
		return true;
	}
	return false;
}

bool kv_lease_drop(struct kv_lease_table *t, uint16_t ctrl, uint64_t id)
{
	uint32_t slot = id & 0xffff;
	struct kv_lease *l;

	if (slot >= KV_LEASE_SLOTS)
		return false;
	l = &t->lease[slot];
	if (!l->is_held || l->gen != id >> 32 || l->ctrl != ctrl)
		return false;
	lease_end(l);
	return true;
}

void kv_lease_drop_ctrl(struct kv_lease_table *t, uint16_t ctrl)
{
	if (counter_get(&t->ctrl_nr[ctrl % TGT_CTRLS_MAX]) == 0)
		return;
	for (uint32_t i = 0; i < KV_LEASE_SLOTS; i++)
		if (t->lease[i].is_held && t->lease[i].ctrl == ctrl)
			lease_end(&t->lease[i]);
}

void kv_lease_drop_all(struct kv_lease_table *t)
{
	for (uint32_t i = 0; i < KV_LEASE_SLOTS; i++)
		if (t->lease[i].is_held)
			lease_end(&t->lease[i]);
}

void kv_lease_of(const struct kv_lease_table *t, uint16_t ctrl, uint64_t *nr, uint64_t *bytes)
{
	*nr += counter_get(&t->ctrl_nr[ctrl % TGT_CTRLS_MAX]);
	*bytes += counter_get(&t->ctrl_bytes[ctrl % TGT_CTRLS_MAX]);
}

unsigned kv_lease_count(const struct kv_lease_table *t)
{
	return (unsigned)counter_get(&t->nr_busy);
}

struct kv_lease_table *kv_lease_table_create(struct tgt_subsys *ss, struct tgt_worker *w)
{
	struct kv_lease_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->worker = w;
	t->ss = ss;
	if (getrandom(&t->seed, sizeof(t->seed), GRND_NONBLOCK) != sizeof(t->seed))
		t->seed = reactor_now_ns(w->reactor);
	for (uint32_t i = 0; i < KV_LEASE_BUCKETS; i++)
		list_init(&t->pins[i]);
	for (uint32_t i = 0; i < KV_LEASE_SLOTS; i++) {
		t->lease[i].table = t;
		t->lease[i].gen = 1;
		t->lease[i].next_free = i + 1;
		list_init(&t->lease[i].pin);
		timeout_init(&t->lease[i].timeout, lease_expired);
	}
	return t;
}

void kv_lease_table_destroy(struct kv_lease_table *t)
{
	if (!t)
		return;
	must(kv_lease_count(t) == 0);
	free(t);
}

/* ---- LEASE ---- */

static struct tgt_req *lease_req(struct kv_one *one)
{
	return kv_req_of(container_of(one, struct kv_cmd, one));
}

static void lease_let_go(struct store_view *v)
{
	struct kv_one *one = container_of(container_of(v, struct store_io, view), struct kv_one,
					  io);

	tgt_req_complete(lease_req(one), one->lease.status);
}

static void lease_fail(struct kv_one *one, uint16_t status)
{
	one->lease.status = status;
	store_release(&one->io.view, kv_home(lease_req(one)), lease_let_go);
}

static uint32_t lease_count_ext(const struct store_view *v)
{
	struct mem_run runs[8];
	uint64_t off = 0;
	uint32_t nr = 0;
	unsigned n, i;

	while (off < v->value_len && (n = store_runs(v, off, runs, ARRAY_SIZE(runs))) > 0) {
		for (i = 0; i < n; i++)
			off += runs[i].len;
		nr += n;
	}
	return nr;
}

static uint16_t lease_push_ext(struct tgt_req *req, const struct store_view *v)
{
	struct peal_wire_extent ext[8];
	struct mem_run runs[8];
	uint64_t off = 0;
	unsigned n, i;
	uint16_t st = NVME_ST_OK;

	while (st == NVME_ST_OK && off < v->value_len &&
	       (n = store_runs(v, off, runs, ARRAY_SIZE(runs))) > 0) {
		for (i = 0; i < n; i++) {
			ext[i].segment = runs[i].reg->id;
			ext[i].len = (uint32_t)min_t(uint64_t, runs[i].len, v->value_len - off);
			ext[i].offset = runs[i].off;
			off += runs[i].len;
		}
		st = tgt_req_iter_put(req, ext, n * (uint32_t)sizeof(ext[0]));
	}
	return st;
}

static uint16_t lease_push(struct tgt_req *req, const struct peal_wire_lease *head,
			   const struct store_view *v)
{
	uint16_t st = tgt_req_iter_put(req, head, sizeof(*head));

	if (st == NVME_ST_OK)
		st = lease_push_ext(req, v);
	if (st == NVME_ST_OK)
		st = tgt_req_iter_put(req, store_seals(v), head->nr_seals * 8);
	return st;
}

/*
 * Whoever leases a value reads it and lets it go: that long (at 4 GB/s) the worker stays awake,
 * since a client that copies 1 MiB in 60 to 260 us would pay 10 to 40 for a wake-up each time. What
 * takes longer is worth the sleep; libpeal rings before it is through.
 */
static void lease_expect(const struct tgt_req *req, uint64_t bytes)
{
	uint64_t ns = bytes / 4;

	if (ns <= KV_LEASE_AWAKE_NS)
		reactor_expect(kv_home(req), ns);
}

static void lease_pinned(struct store_io *io, int res)
{
	struct kv_one *one = container_of(io, struct kv_one, io);
	struct tgt_req *req = lease_req(one);
	struct kv_lease_table *t = kv_ns_of(req)->leases[req->sq->worker->id];
	struct store_view *v = &io->view;
	uint16_t ctrl = tgt_ctrl_id(req->sq->ctrl);
	uint32_t ms = req->sqe.cdw12 ? req->sqe.cdw12 : KV_LEASE_MS_DEFAULT;
	struct peal_wire_lease head;
	uint16_t st;

	kv_cmd_count_read(req, 0);
	if (res) {
		tgt_req_complete(req, kv_cmd_status(res));
		return;
	}
	/*
	 * Only a value that lies in the arena as a whole can be read in place: others are to be
	 * retrieved. What has just come from below lies in a buffer of the tier there.
	 */
	if (v->off || v->len < v->value_len || !v->st->ops->is_memory) {
		lease_fail(one, NVME_ST_INTERRUPTED);
		return;
	}
	head.version = v->ver;
	head.value_bytes = v->value_len;
	head.lease_ms = min_t(uint32_t, ms, KV_LEASE_MS_MAX);
	head.nr_ext = lease_count_ext(v);
	head.nr_seals = (v->value_len + MEM_CHUNK_BYTES - 1) / MEM_CHUNK_BYTES;
	req->dw0 = (uint32_t)(sizeof(head) + head.nr_ext * sizeof(struct peal_wire_extent) +
			      head.nr_seals * 8);
	if (req->dw0 > req->sqe.cdw10) {
		lease_fail(one, NVME_ST_OK);
		return;
	}
	/* The reply is written from the table's view: once the lease is there, it holds the pin. */
	head.id = kv_lease_add(t, ctrl, v, head.lease_ms);
	if (!head.id) {
		req->dw0 = 0;
		lease_fail(one, NVME_ST_INTERRUPTED);
		return;
	}
	st = lease_push(req, &head, &t->lease[head.id & 0xffff].view);
	if (st != NVME_ST_OK) {
		kv_lease_drop(t, ctrl, head.id);
		req->dw0 = 0;
		tgt_req_complete(req, st);
		return;
	}
	lease_expect(req, v->value_len);
	tgt_req_complete(req, NVME_ST_OK);
}

void kv_lease_execute(struct tgt_req *req)
{
	struct kv_cmd *cmd = kv_cmd_of(req);
	struct store_io *io = &cmd->one.io;
	uint16_t st = NVME_ST_INVALID_FIELD;

	/* Where memory isn't shared nobody could look. */
	if (!req->sq->ops->resolve)
		st = NVME_ST_INVALID_OPCODE;
	else if (req->sqe.cdw10 >= sizeof(struct peal_wire_lease) &&
		 nvme_kv_options(&req->sqe) == 0)
		st = req->sq->ops->data(req, req->sqe.cdw10, MEM_TO_PEER);
	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	io->op = STORE_GET;
	io->flags = 0;
	io->key = cmd->key;
	io->off = 0;
	io->len = NVME_KV_VALUE_MAX;
	io->ver = 0;
	io->meta = NULL;
	io->view.st = NULL;
	io->end = lease_pinned;
	store_submit(kv_ns_of(req)->set, kv_home(req), io);
}

/* ---- RELEASE ---- */

static void lease_release_done(struct mbox_msg *m)
{
	struct kv_one *one = container_of(m, struct kv_one, lease.msg);

	tgt_req_complete(lease_req(one), one->lease.status);
}

static void lease_release_there(struct mbox_msg *m)
{
	struct kv_one *one = container_of(m, struct kv_one, lease.msg);
	struct tgt_req *req = lease_req(one);
	struct kv_lease_table *t = kv_ns_of(req)->leases[one->lease.id >> 16 & 0xffff];

	if (!kv_lease_drop(t, tgt_ctrl_id(req->sq->ctrl), one->lease.id))
		one->lease.status = NVME_ST_KEY_NOT_FOUND;
	m->fn = lease_release_done;
	reactor_send(t->worker->reactor, kv_home(req), m);
}

void kv_lease_release(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	const struct tgt_node *node = tgt_subsys_node(req->ns->subsys);
	uint64_t id = (uint64_t)req->sqe.cdw11 << 32 | req->sqe.cdw10;
	unsigned w = id >> 16 & 0xffff;

	if (w >= tgt_node_nr_io(node)) {
		tgt_req_complete(req, NVME_ST_KEY_NOT_FOUND);
		return;
	}
	/* Its own worker's at once: the LEASE behind it finds the room. */
	if (w == req->sq->worker->id) {
		bool is = kv_lease_drop(kv_ns_of(req)->leases[w], tgt_ctrl_id(req->sq->ctrl), id);

		tgt_req_complete(req, is ? NVME_ST_OK : NVME_ST_KEY_NOT_FOUND);
		return;
	}
	one->lease.id = id;
	one->lease.status = NVME_ST_OK;
	one->lease.msg.fn = lease_release_there;
	reactor_send(kv_home(req), node->reactors[w], &one->lease.msg);
}
