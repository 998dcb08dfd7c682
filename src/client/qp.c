/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs of the client, see qp.h; the arithmetic is peal/ring.h. Facts that matter here:
 *
 * - The doorbell store and the load of the `sleeping` word are both sequentially consistent, as
 *   the worker's store of the word and its last look at the doorbell are, so one sees the other.
 * - A CQE is taken when its phase is right, and then read again: a reader may have combined a new
 *   high half with an old low one (ROCm XIO pull request 205 met that on hardware).
 */
#include "client/qp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mono.h"
#include "base/must.h"
#include "client/conn.h"
#include "client/errmsg.h"
#include "peal/ring.h"

#define QP_DOZE_NS (50 * MONO_NS_PER_MS)
#define QP_NAP_NS (100 * MONO_NS_PER_US)
#define QP_PAGE 4096u

enum {
	QP_ADM_DELETE_SQ = 0x00,
	QP_ADM_CREATE_SQ = 0x01,
	QP_ADM_DELETE_CQ = 0x04,
	QP_ADM_CREATE_CQ = 0x05
};

static uint32_t *qp_doorbell(struct conn *c, uint16_t qid, uint32_t cq)
{
	uint64_t off = peal_doorbell_offset(qid, cq, c->stride) - VFU_DOORBELL_OFFSET;

	must(off + sizeof(uint32_t) <= c->doorbells_bytes);
	return (uint32_t *)((uint8_t *)c->doorbells + off);
}

/* The rings, the lists and the CIDs; nothing that the controller knows of yet. */
static int qp_alloc(struct conn *c, uint16_t qid, uint32_t depth, struct qp **out,
		    uint64_t deadline_ns)
{
	uint32_t size = depth + 1;
	size_t sq_bytes = ((size_t)size * sizeof(struct nvme_sqe) + QP_PAGE - 1) & ~(QP_PAGE - 1ul);
	size_t cq_bytes = ((size_t)size * sizeof(struct nvme_cqe) + QP_PAGE - 1) & ~(QP_PAGE - 1ul);
	size_t prp_bytes = c->has_sgl || !qid ? 0 : (size_t)depth * QP_PAGE;
	struct qp *q = calloc(1, sizeof(*q) + depth * sizeof(q->free_cids[0]));
	int err;

	if (!q)
		return errmsg_set(-ENOMEM, "no memory for a queue of %u", depth);
	err = shm_create(c, sq_bytes + cq_bytes + prp_bytes, "peal-queue", &q->shm, deadline_ns);
	if (err) {
		free(q);
		return err;
	}
	q->conn = c;
	q->qid = qid;
	q->size = size;
	q->phase = 1;
	q->fd = -1;
	q->sq = (struct nvme_sqe *)q->shm.ptr;
	q->cq = (struct nvme_cqe *)(q->shm.ptr + sq_bytes);
	if (prp_bytes) {
		q->prp_lists = q->shm.ptr + sq_bytes + cq_bytes;
		q->prp_iova = q->shm.iova + sq_bytes + cq_bytes;
	}
	q->sq_doorbell = qp_doorbell(c, qid, 0);
	q->cq_doorbell = qp_doorbell(c, qid, 1);
	for (uint32_t i = 0; i < depth; i++)
		q->free_cids[q->nr_free++] = (uint16_t)(depth - 1 - i);
	*out = q;
	return 0;
}

void qp_free(struct qp *q)
{
	shm_destroy(&q->shm);
	free(q);
}

/* Which line of the wake page is ours; the daemon writes that when it makes the queue. */
static void qp_find_worker(struct qp *q)
{
	struct vfu_wake_page *wake = q->conn->wake;
	uint8_t worker;

	if (!wake)
		return;
	worker = __atomic_load_n(&wake->queue_worker[q->qid], __ATOMIC_ACQUIRE);
	if (worker >= q->conn->nr_wake_fds)
		return;
	q->wake_fd = q->conn->wake_fds[worker];
	q->sleeping = &wake->worker[worker].sleeping;
}

int qp_create_admin(struct conn *c, struct qp **q, uint64_t deadline_ns)
{
	int err = qp_alloc(c, 0, QP_ADMIN_DEPTH, q, deadline_ns);

	if (!err)
		qp_find_worker(*q);
	return err;
}

static int qp_qid_get(struct conn *c)
{
	int qid = -EAGAIN;

	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 1; i <= c->nr_queues && qid < 0; i++) {
		if (c->qid_used[i])
			continue;
		c->qid_used[i] = true;
		qid = (int)i;
	}
	pthread_mutex_unlock(&c->lock);
	if (qid < 0)
		return errmsg_set(qid, "all %u queues that the daemon grants are open",
				  c->nr_queues);
	return qid;
}

/*
 * is_gone: the daemon has no queue of that number, nor will it make one. Else the number stays
 * taken: a late create makes a queue that is nobody's, a late delete must not hit a new one.
 */
static void qp_qid_put(struct conn *c, uint16_t qid, bool is_gone)
{
	pthread_mutex_lock(&c->lock);
	if (is_gone)
		c->qid_used[qid] = false;
	else
		c->has_lost_qids = true;
	pthread_mutex_unlock(&c->lock);
}

static int qp_admin(struct qp *q, uint8_t opc, uint32_t cdw10, uint32_t cdw11, uint64_t deadline_ns)
{
	static const char *const what[] = {
		[QP_ADM_DELETE_SQ] = "deleting a submission queue",
		[QP_ADM_CREATE_SQ] = "creating a submission queue",
		[QP_ADM_DELETE_CQ] = "deleting a completion queue",
		[QP_ADM_CREATE_CQ] = "creating a completion queue",
	};
	struct conn_admin_cmd cmd = {.sqe = {.opc = opc, .cdw10 = cdw10, .cdw11 = cdw11}};

	if (opc == QP_ADM_CREATE_SQ)
		cmd.sqe.prp1 = q->shm.iova;
	else if (opc == QP_ADM_CREATE_CQ)
		cmd.sqe.prp1 = q->shm.iova + (uint64_t)((uint8_t *)q->cq - q->shm.ptr);
	return conn_admin_must(q->conn, &cmd, what[opc], deadline_ns);
}

/* The controller's half of it. is_gone: as of qp_qid_put(), when it fails. */
static int qp_make(struct qp *q, bool has_irq, bool *is_gone, uint64_t deadline_ns)
{
	uint32_t qid = q->qid, size = (q->size - 1) << 16;
	int err = qp_admin(q, QP_ADM_CREATE_CQ, size | qid,
			   (uint32_t)q->vector << 16 | (uint32_t)has_irq << 1 | 1, deadline_ns);

	*is_gone = err != -ETIMEDOUT;
	if (err)
		return err;
	err = qp_admin(q, QP_ADM_CREATE_SQ, size | qid, qid << 16 | 1, deadline_ns);
	/* Not answered: it may be there yet, and a CQ isn't deleted below its SQ. */
	*is_gone = err && err != -ETIMEDOUT && !qp_admin(q, QP_ADM_DELETE_CQ, qid, 0, deadline_ns);
	return err;
}

int qp_create(struct conn *c, uint32_t depth, struct qp **out, uint64_t deadline_ns)
{
	uint32_t mqes = (uint32_t)(c->cap & 0xffff);
	int qid = qp_qid_get(c);
	bool has_irq, is_gone = true;
	struct qp *q = NULL;
	int err;

	if (qid < 0)
		return qid;
	err = qp_alloc(c, (uint16_t)qid, depth < mqes ? depth : mqes, &q, deadline_ns);
	if (!err) {
		has_irq = c->nr_vectors > (uint32_t)qid;
		q->vector = has_irq ? (uint16_t)qid : 0;
		err = qp_make(q, has_irq, &is_gone, deadline_ns);
		if (!err) {
			qp_find_worker(q);
			*out = q;
			return 0;
		}
		qp_free(q);
	}
	qp_qid_put(c, (uint16_t)qid, is_gone);
	return err;
}

int qp_destroy(struct qp *q, uint64_t deadline_ns)
{
	struct conn *c = q->conn;
	int err = 0;

	if (q->qid && !conn_is_dead(c)) {
		err = qp_admin(q, QP_ADM_DELETE_SQ, q->qid, 0, deadline_ns);
		if (!err)
			err = qp_admin(q, QP_ADM_DELETE_CQ, q->qid, 0, deadline_ns);
		qp_qid_put(c, q->qid, !err);
		if (!err)
			err = conn_dev_dma_unmap(c, q->shm.iova, q->shm.bytes, deadline_ns);
	}
	qp_free(q);
	return err;
}

int qp_cid_get(struct qp *q)
{
	return q->nr_free ? q->free_cids[--q->nr_free] : -EAGAIN;
}

void qp_cid_put(struct qp *q, uint16_t cid)
{
	must(q->nr_free < q->size - 1);
	q->free_cids[q->nr_free++] = cid;
}

struct nvme_sqe *qp_sqe(struct qp *q)
{
	struct nvme_sqe *sqe = &q->sq[q->sq_tail];

	memset(sqe, 0, sizeof(*sqe));
	return sqe;
}

static int qp_set_prps(struct qp *q, struct nvme_sqe *sqe, uint64_t iova, uint64_t bytes)
{
	uint64_t first = QP_PAGE - iova % QP_PAGE;
	uint64_t page = iova + first;
	uint64_t nr_more = bytes > first ? (bytes - first + QP_PAGE - 1) / QP_PAGE : 0;
	uint64_t *list;

	sqe->prp1 = iova;
	if (nr_more <= 1) {
		sqe->prp2 = nr_more ? page : 0;
		return 0;
	}
	if (!q->prp_lists || nr_more > QP_PAGE / sizeof(*list))
		return -EFBIG;
	list = (uint64_t *)(q->prp_lists + (size_t)sqe->cid * QP_PAGE);
	for (uint64_t i = 0; i < nr_more; i++, page += QP_PAGE)
		list[i] = page;
	sqe->prp2 = q->prp_iova + (uint64_t)sqe->cid * QP_PAGE;
	return 0;
}

int qp_set_data(struct qp *q, struct nvme_sqe *sqe, uint64_t iova, uint64_t bytes)
{
	if (bytes > q->conn->data_max)
		return -EFBIG;
	if (!q->conn->has_sgl || !q->qid)
		return qp_set_prps(q, sqe, iova, bytes);
	sqe->flags = 1 << 6; /* PSDT 1: one data block descriptor, addresses are contiguous */
	sqe->sgl.addr = iova;
	sqe->sgl.len = (uint32_t)bytes;
	sqe->sgl.id = NVME_SGL_DATA_BLOCK << 4;
	return 0;
}

void qp_push(struct qp *q)
{
	q->sq_tail = peal_ring_next(q->sq_tail, q->size);
}

bool qp_wake(const struct qp *q)
{
	uint64_t one = 1;

	if (!q->sleeping || !__atomic_load_n(q->sleeping, __ATOMIC_SEQ_CST))
		return false;
	/* It fails when the counter is full: then it has been woken already. */
	return write(q->wake_fd, &one, sizeof(one)) > 0;
}

void qp_ring(struct qp *q)
{
	__atomic_store_n(q->sq_doorbell, q->sq_tail, __ATOMIC_SEQ_CST);
	qp_wake(q);
}

static uint64_t qp_load_high(const struct nvme_cqe *cqe)
{
	return __atomic_load_n((const uint64_t *)cqe + 1, __ATOMIC_ACQUIRE);
}

bool qp_has_cqe(const struct qp *q)
{
	return (qp_load_high(&q->cq[q->cq_head]) >> 48 & 1) == q->phase;
}

unsigned qp_reap(struct qp *q, struct nvme_cqe *cqes, unsigned max)
{
	unsigned n = 0;

	while (n < max && qp_has_cqe(q)) {
		const uint64_t *from = (const uint64_t *)&q->cq[q->cq_head];
		uint64_t to[2];

		/* The acquire load of qp_has_cqe() stands between: now both halves are new. */
		to[0] = __atomic_load_n(from, __ATOMIC_RELAXED);
		to[1] = __atomic_load_n(from + 1, __ATOMIC_RELAXED);
		memcpy(&cqes[n++], to, sizeof(to));
		q->phase = peal_ring_phase(q->cq_head, q->size, q->phase);
		q->cq_head = peal_ring_next(q->cq_head, q->size);
	}
	if (n)
		__atomic_store_n(q->cq_doorbell, q->cq_head, __ATOMIC_RELEASE);
	return n;
}

int qp_arm(struct qp *q, int fd, uint64_t deadline_ns)
{
	int err;

	q->fd = fd;
	if (q->conn->nr_vectors <= q->vector || (q->qid && !q->vector))
		return -EOPNOTSUPP;
	err = conn_dev_set_irq(q->conn, q->vector, fd, deadline_ns);
	q->is_armed = !err;
	return err;
}

void qp_doze(struct qp *q, uint64_t until_ns)
{
	uint64_t now = mono_ns();
	uint64_t left = until_ns > now ? until_ns - now : 0;
	uint64_t most = q->is_armed ? QP_DOZE_NS : QP_NAP_NS;
	uint64_t nap = left < most ? left : most;
	struct timespec ts = {.tv_nsec = (long)nap};
	struct pollfd pfd = {.fd = q->fd, .events = POLLIN};
	uint64_t count;

	if (!q->is_armed) {
		nanosleep(&ts, NULL);
		return;
	}
	/* The eventfd is non-blocking: whoever comes second just goes and looks. */
	if (ppoll(&pfd, 1, &ts, NULL) > 0 && read(q->fd, &count, sizeof(count)) < 0)
		return;
}
