/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_bufs.c: first come, first served; a waiter that gives its buffer back from inside got() is no
 * recursion, however many of them wait.
 */
#include "unit.h"

#include <string.h>

#include "base/container.h"
#include "blk/blk_int.h"

#define NR_WAIT 10000

struct waiter {
	struct blk_wait w;
	struct blk_buf *buf;
	unsigned turn; /* when it was served, from 1 on */
	bool is_brief;
};

static struct blk_bufs bufs;
static unsigned turn, depth, depth_max;

static void got(struct blk_wait *w, struct blk_buf *buf)
{
	struct waiter *me = container_of(w, struct waiter, w);

	depth++;
	depth_max = depth > depth_max ? depth : depth_max;
	me->turn = ++turn;
	if (me->is_brief)
		blk_bufs_put(&bufs, buf);
	else
		me->buf = buf;
	depth--;
}

static void get(struct waiter *me, bool is_brief)
{
	*me = (struct waiter){.w.got = got, .is_brief = is_brief};
	blk_bufs_get(&bufs, &me->w);
}

static void t_order(void **state)
{
	static struct waiter first[BLK_BUFS], then[NR_WAIT];

	memset(&bufs, 0, sizeof(bufs));
	assert_int_equal(blk_bufs_init(&bufs), 0);
	for (unsigned i = 0; i < BLK_BUFS; i++) {
		get(&first[i], false);
		assert_non_null(first[i].buf);
		memset(first[i].buf->p, (int)i, BLK_PIECE_BYTES);
	}
	for (unsigned i = 0; i < BLK_BUFS; i++)
		assert_int_equal(first[i].buf->p[BLK_PIECE_BYTES - 1], i);
	for (unsigned i = 0; i < NR_WAIT; i++)
		get(&then[i], true);
	assert_int_equal(turn, BLK_BUFS);
	assert_int_equal(counter_get(&bufs.nr_waited), NR_WAIT);
	blk_bufs_put(&bufs, first[0].buf);
	for (unsigned i = 0; i < NR_WAIT; i++)
		assert_int_equal(then[i].turn, BLK_BUFS + 1 + i);
	assert_int_equal(depth_max, 1);
	for (unsigned i = 1; i < BLK_BUFS; i++)
		blk_bufs_put(&bufs, first[i].buf);
	blk_bufs_fini(&bufs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
