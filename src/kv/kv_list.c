/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List: keys in the store's order (64-bit hash of the key, key), KV_BATCH at a time, written behind
 * the count as they come; the count goes in front at the end, through the data a second time. Only
 * whole entries are returned (KV Command Set 1.0c, 3.2.2.2). The start key comes first if it
 * exists, else the list begins where it would stand.
 *
 *   data:  u32 count | {u16 len, key, pad to 4} ...
 */
#include <errno.h>

#include "base/container.h"
#include "base/le.h"
#include "base/must.h"
#include "kv/kv_int.h"

#define LIST_TURN_KEYS 256u /* about 25 us */

/* A host goes on from the last key that it got, however many there were. */
static uint32_t list_bytes(const struct tgt_req *req)
{
	uint32_t max = req->sq->back_max;

	return max && max < req->sqe.cdw10 ? max : req->sqe.cdw10;
}

static void list_finish(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	uint8_t count[4];
	uint16_t st = req->sq->ops->data(req, list_bytes(req), MEM_TO_PEER);

	le32_put(count, one->list.nr);
	if (st == NVME_ST_OK)
		st = tgt_req_iter_put(req, count, sizeof(count));
	kv_cmd_count_read(req, 0);
	tgt_req_complete(req, st);
}

/* Packs what fits. False when the buffer is full. */
static bool list_push(struct tgt_req *req, const struct store_list *l, uint16_t *st)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	uint8_t buf[KV_BATCH * 20];
	uint32_t i, n, at = 0;

	for (i = 0; i < l->nr; i++) {
		n = nvme_kv_list_entry_bytes(l->keys[i].len);
		if (n > one->list.room)
			break;
		memset(buf + at, 0, n);
		le16_put(buf + at, l->keys[i].len);
		memcpy(buf + at + 2, l->keys[i].b, l->keys[i].len);
		at += n;
		one->list.room -= n;
		one->list.nr++;
	}
	*st = tgt_req_iter_put(req, buf, at);
	return i == l->nr;
}

static void list_page_end(struct store_io *io, int res);
static void list_run(struct tgt_req *req);

static void list_resume(struct tgt_req *req)
{
	if (kv_cmd_one_submit(req))
		list_run(req);
}

/* Page after page until the buffer is full or the keys are out. */
static void list_run(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	struct store_list *l = &one->io.list;
	uint32_t nr_keys = 0;
	uint16_t st;

	do {
		if (one->res) {
			tgt_req_complete(req, kv_cmd_status(one->res));
			return;
		}
		if (!list_push(req, l, &st) || st != NVME_ST_OK || !l->more || l->nr == 0) {
			if (st != NVME_ST_OK)
				tgt_req_complete(req, st);
			else
				list_finish(req);
			return;
		}
		l->after = l->keys[l->nr - 1];
		l->has_after = true;
		l->is_inclusive = false;
		nr_keys += KV_BATCH;
		if (nr_keys >= kv_turn_keys(req, LIST_TURN_KEYS)) {
			tgt_req_later(req, list_resume);
			return;
		}
	} while (kv_cmd_one_submit(req));
}

static void list_page_end(struct store_io *io, int res)
{
	struct kv_one *one = container_of(io, struct kv_one, io);

	if (kv_cmd_one_back(one, res))
		kv_cmd_one_on(kv_req_of(container_of(one, struct kv_cmd, one)), list_run);
}

/* The start key and the place of the count; the list begins with the first page. */
static uint16_t list_check(struct tgt_req *req)
{
	struct store_list *l = &kv_cmd_of(req)->one.io.list;
	uint8_t len = nvme_kv_key_len(&req->sqe);
	uint8_t raw[16], count[4] = {0};
	uint16_t st = NVME_ST_OK;

	memset(l, 0, sizeof(*l));
	if (req->sqe.cdw10 < sizeof(count))
		return NVME_ST_INVALID_FIELD;
	if (len) {
		nvme_kv_key_get(&req->sqe, raw);
		st = kv_cmd_key_make(&l->after, raw, len);
		l->has_after = l->is_inclusive = true;
	}
	if (st == NVME_ST_OK)
		st = req->sq->ops->data(req, list_bytes(req), MEM_TO_PEER);
	if (st == NVME_ST_OK)
		st = tgt_req_iter_put(req, count, sizeof(count));
	return st;
}

void kv_list_execute(struct tgt_req *req)
{
	struct kv_one *one = &kv_cmd_of(req)->one;
	struct store_io *io = &one->io;
	uint16_t st = list_check(req);

	if (st != NVME_ST_OK) {
		tgt_req_fail(req, st);
		return;
	}
	one->list.room = list_bytes(req) - 4;
	one->list.nr = 0;
	io->op = STORE_LIST;
	io->flags = STORE_NO_TOUCH;
	memset(&io->key, 0, sizeof(io->key));
	io->meta = NULL;
	io->ver = 0;
	io->view.st = NULL;
	io->list.keys = one->list.keys;
	io->list.max = KV_BATCH;
	io->end = list_page_end;
	if (kv_cmd_one_submit(req))
		list_run(req);
}
