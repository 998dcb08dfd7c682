/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener: mode, stale and live sockets, the bound on clients, stopping with clients attached.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "transport/vfu/vfu_int.h"

static void path_of(struct rig *r, char *path, size_t len)
{
	snprintf(path, len, "%s/cntrl", r->dir);
}

static void test_socket(void **state)
{
	struct rig r = {0};
	struct peer p;
	struct stat st;
	char path[128];
	struct tr *second;
	struct vfu_opts o = {0};

	rig_init(&r, 1, NULL);
	path_of(&r, path, sizeof(path));
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	/* a second server at the same place is refused, and takes nothing away */
	o.dir = r.dir;
	assert_int_equal(vfu_create(r.ss, &o, &second), 0);
	assert_int_equal(second->ops->start(second), -EADDRINUSE);
	second->ops->destroy(second);
	peer_open(&r, &p, PEER_STOCK);
	assert_int_equal(r.tr->ops->nr_hosts(r.tr), 1);
	peer_close(&p);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_stop(&r);
	assert_int_equal(stat(path, &st), -1); /* gone */
	rig_fini(&r);
}

/* What lies at the path when we start. */
static void test_in_the_way(void **state)
{
	struct rig r = {0};
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct vfu_opts o = {0};
	struct tr *tr;
	char dir[] = "/tmp/t_vfu.XXXXXX", longer[300];
	int fd;

	rig_init(&r, 1, NULL);
	assert_non_null(mkdtemp(dir));
	o.dir = dir;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/cntrl", dir);
	/* a file: not ours to remove */
	fd = open(sa.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(vfu_create(r.ss, &o, &tr), 0);
	assert_int_equal(tr->ops->start(tr), -EEXIST);
	unlink(sa.sun_path);
	/* a socket that nobody listens on any more: replaced */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(fd);
	assert_int_equal(tr->ops->start(tr), 0);
	bool is_stopped = false;

	rig_steps(&r, 3);

	rig_stop_begin(&r, tr, &is_stopped);
	rig_until(&r, is_stopped);
	tr->ops->destroy(tr);
	/* a path that no address holds, a folder that isn't there */
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	o.dir = longer;
	assert_int_equal(vfu_create(r.ss, &o, &tr), 0);
	assert_int_equal(tr->ops->start(tr), -ENAMETOOLONG);
	tr->ops->destroy(tr);
	o.dir = "/tmp/t_vfu.nowhere";
	assert_int_equal(vfu_create(r.ss, &o, &tr), 0);
	assert_int_equal(tr->ops->start(tr), -ENOENT);
	tr->ops->destroy(tr);
	assert_int_equal(rmdir(dir), 0);
	rig_fini(&r);
}

/* A thousand connects over the bound: each closed at once, those inside it untouched. */
static void test_bound(void **state)
{
	struct rig r = {0};
	struct vfu_opts o = {.max_clients = 3};
	static struct peer silent[VFU_REFUSALS];
	struct peer p[3], extra;
	struct tr_refused refused;
	struct timeout *late;
	int before;

	rig_init(&r, 2, &o);
	for (int i = 0; i < 3; i++)
		peer_open(&r, &p[i], PEER_STOCK);
	before = rig_count_fds();
	/* One too many is told so. */
	for (int i = 0; i < 1000; i++) {
		peer_connect(&r, &extra);
		peer_send(&extra, &(struct peer_msg){VFIO_USER_VERSION, 0, "\0\0\1", 4, NULL, 0});
		assert_int_equal(peer_recv(&extra), EUSERS);
		assert_true(peer_is_closed(&extra));
		peer_close(&extra);
	}
	/* Who says something else, or has gone, isn't. */
	for (int i = 0; i < 100; i++) {
		peer_connect(&r, &extra);
		if (i % 2) {
			peer_send(&extra,
				  &(struct peer_msg){VFIO_USER_DEVICE_RESET, 0, NULL, 0, NULL, 0});
			assert_true(peer_is_closed(&extra));
		}
		peer_close(&extra);
		rig_steps(&r, 4);
	}
	rig_steps(&r, 20);
	assert_int_equal(rig_count_fds(), before);
	r.tr->ops->refused(r.tr, &refused);
	assert_int_equal(refused.nr_told, 1000);
	assert_int_equal(refused.nr_silent, 100);
	/* Those that say nothing are waited for, a few of them; a stop doesn't wait. */
	for (unsigned i = 0; i < VFU_REFUSALS; i++)
		peer_connect(&r, &silent[i]);
	rig_steps(&r, 20);
	peer_connect(&r, &extra);
	assert_true(peer_is_closed(&extra));
	peer_close(&extra);
	r.tr->ops->refused(r.tr, &refused);
	assert_int_equal(refused.nr_silent, 101);
	for (unsigned i = 0; i < VFU_REFUSALS / 2; i++)
		peer_close(&silent[i]);
	for (unsigned i = VFU_REFUSALS / 2; i < VFU_REFUSALS; i++)
		assert_false(peer_is_closed(&silent[i]));
	late = &container_of(r.tr, struct vfu, tr)->refusal[VFU_REFUSALS - 1].late;
	timeout_cancel(late);
	timeout_set(r.reactors[0], late, reactor_now_ns(r.reactors[0]));
	rig_until(&r, peer_is_closed(&silent[VFU_REFUSALS - 1]));
	peer_close(&silent[VFU_REFUSALS - 1]);
	assert_int_equal(r.tr->ops->nr_hosts(r.tr), 3);
	for (int i = 0; i < 3; i++)
		peer_reg(&p[i], 0, 8);
	/* a place that gets free is given away again */
	peer_close(&p[1]);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 2);
	peer_open(&r, &p[1], PEER_STOCK);
	for (int i = 0; i < 3; i++)
		peer_close(&p[i]);
	rig_stop(&r);
	for (unsigned i = VFU_REFUSALS / 2; i < VFU_REFUSALS - 1; i++)
		peer_close(&silent[i]);
	rig_fini(&r);
}

/*
 * Connections that say nothing take all places: clients come in all the same, until silent ones
 * have no more than a quarter. Then one too many is told so, and those that were silent may speak.
 */
static void test_silent(void **state)
{
	struct vfu_opts o = {.max_clients = 8};
	static struct peer silent[12], p[7];
	struct tr_refused refused;
	struct rig r = {0};
	struct peer extra;
	unsigned before;

	rig_init(&r, 2, &o);
	before = (unsigned)rig_count_fds();
	for (unsigned i = 0; i < 8; i++)
		peer_connect(&r, &silent[i]);
	rig_steps(&r, 20);
	assert_int_equal(r.tr->ops->nr_hosts(r.tr), 8);
	/* silent among themselves, too: the newest stay */
	for (unsigned i = 8; i < 12; i++) {
		peer_connect(&r, &silent[i]);
		assert_true(peer_is_closed(&silent[i - 8]));
	}
	rig_steps(&r, 20);
	assert_int_equal(r.tr->ops->nr_hosts(r.tr), 8);
	for (unsigned i = 0; i < 7; i++) {
		peer_open(&r, &p[i], PEER_STOCK);
		if (i < 6)
			continue;
		assert_true(peer_is_closed(&silent[10]));
		assert_false(peer_is_closed(&silent[11]));
	}
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 8);
	peer_connect(&r, &extra);
	peer_send(&extra, &(struct peer_msg){VFIO_USER_VERSION, 0, "\0\0\1", 4, NULL, 0});
	assert_int_equal(peer_recv(&extra), EUSERS);
	peer_close(&extra);
	peer_send(&silent[11], &(struct peer_msg){VFIO_USER_VERSION, 0, "\0\0\1", 4, NULL, 0});
	assert_int_equal(peer_recv(&silent[11]), 0);
	r.tr->ops->refused(r.tr, &refused);
	assert_int_equal(refused.nr_silent, 11);
	assert_int_equal(refused.nr_told, 1);
	for (unsigned i = 0; i < 7; i++) {
		peer_reg(&p[i], 0, 8);
		peer_close(&p[i]);
	}
	for (unsigned i = 0; i < 12; i++)
		peer_close(&silent[i]);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	assert_int_equal(rig_count_fds(), before);
	rig_fini(&r);
}

/* A flood of them in one turn: so many are on their way out and no more, the rest is refused. */
static void test_silent_flood(void **state)
{
	struct vfu_opts o = {.max_clients = 1};
	static struct peer silent[60];
	struct rig r = {0};
	struct peer p;

	rig_init(&r, 2, &o);
	for (unsigned i = 0; i < 60; i++)
		peer_connect(&r, &silent[i]);
	for (unsigned i = 0; i < 100; i++) {
		rig_step(&r);
		assert_in_range(r.tr->ops->nr_hosts(r.tr), 0, 1 + 16);
	}
	peer_open(&r, &p, PEER_STOCK);
	peer_reg(&p, 0, 8);
	peer_close(&p);
	for (unsigned i = 0; i < 60; i++)
		peer_close(&silent[i]);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	rig_fini(&r);
}

/* --linger counts from the moment when the last client left, however short its visit was. */
static void test_alone(void **state)
{
	struct rig r = {0};
	uint64_t since, left;
	struct peer p[2];

	rig_init(&r, 2, NULL);
	since = r.tr->ops->alone_since_ns(r.tr);
	assert_true(since > 0 && since <= reactor_now_ns(r.reactors[0]));
	peer_open(&r, &p[0], PEER_STOCK);
	peer_open(&r, &p[1], PEER_STOCK);
	assert_int_equal(r.tr->ops->alone_since_ns(r.tr), 0);
	peer_close(&p[0]);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 1);
	assert_int_equal(r.tr->ops->alone_since_ns(r.tr), 0);
	left = reactor_now_ns(r.reactors[0]);
	peer_close(&p[1]);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
	since = r.tr->ops->alone_since_ns(r.tr);
	assert_true(since >= left && since <= reactor_now_ns(r.reactors[0]));
	rig_fini(&r);
}

/* stop() with clients in every state; commands under way are waited for. */
static void test_stop(void **state)
{
	struct rig r = {0};
	struct peer fresh, open, enabled, busy;
	struct nvme_sqe sqe = peer_read_sqe(1, RIG_DATA, 4096, 1);
	bool is_done = false;

	rig_init(&r, 2, NULL);
	peer_connect(&r, &fresh);
	rig_steps(&r, 10);
	peer_open(&r, &open, PEER_STOCK);
	peer_open(&r, &enabled, PEER_PEAL);
	peer_enable(&enabled);
	peer_open(&r, &busy, PEER_PEAL);
	peer_enable(&busy);
	assert_int_equal(peer_queue(&busy, 1, 16), 0);
	r.is_held = true;
	peer_submit(&busy, 1, &sqe);
	peer_ring(&busy, 1);
	rig_until(&r, r.nr_held == 1);
	rig_stop_begin(&r, r.tr, &is_done);
	rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 1);
	rig_steps(&r, 100);
	assert_false(is_done);
	assert_true(peer_is_closed(&busy));
	rig_let_go(&r, NVME_ST_OK);
	rig_until(&r, is_done);
	peer_close(&fresh);
	peer_close(&open);
	peer_close(&enabled);
	peer_close(&busy);
	rig_fini(&r);
}

/*
 * A short period is for those who look for commands. On two cores a home that looked as often took
 * the processor from them: a guest's Retrieve took 3.4 ms instead of 36 us.
 */
static void test_period_of_home(void **state)
{
	static const struct {
		bool is_home_apart;
		uint64_t poll_ns, home_ns;
		bool is_busy;
	} rows[] = {
		{true, 10000, 5000000, false},
		{true, 100000000, 100000000, false},
		{false, 10000, 10000, false},
		/* busy is for those who look for commands, too */
		{true, 0, 5000000, true},
		{false, 0, 0, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rig r = {.is_home_apart = rows[i].is_home_apart};
		struct vfu_opts o = {.poll_ns = rows[i].poll_ns, .is_busy = rows[i].is_busy};
		struct vfu *v;
		struct peer p;

		rig_init(&r, 2, &o);
		v = container_of(r.tr, struct vfu, tr);
		peer_open(&r, &p, PEER_STOCK);
		peer_enable(&p);
		for (uint16_t qid = 1; qid <= 2; qid++)
			assert_int_equal(peer_queue(&p, qid, 16), 0);
		rig_steps(&r, 4);
		assert_int_equal(vfu_home(v)->sleep_ns, rows[i].home_ns);
		assert_int_equal(v->workers[0].sleep_ns, rows[i].poll_ns);
		peer_close(&p);
		rig_until(&r, r.tr->ops->nr_hosts(r.tr) == 0);
		rig_fini(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_socket), cmocka_unit_test(test_in_the_way),
		cmocka_unit_test(test_bound),  cmocka_unit_test(test_alone),
		cmocka_unit_test(test_silent), cmocka_unit_test(test_silent_flood),
		cmocka_unit_test(test_stop),   cmocka_unit_test(test_period_of_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
