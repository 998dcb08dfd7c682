/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_plant on this process: exactly one bit of each copy in shared memory changes, also of one
 * that lies across two windows of the search, and nothing elsewhere. One thread.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/replay_plant.h"
#include "sim/sim_value.h"

#define BYTES (9u << 20)
#define WINDOW (4u << 20)

static uint8_t *shared;

static int setup(void **state)
{
	int fd = memfd_create("arena", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared == MAP_FAILED;
}

static int teardown(void **state)
{
	return munmap(shared, BYTES);
}

/* What is looked for is made on the stack and in the heap only where the caller wants it. */
static unsigned flipped(const uint8_t *at, const uint8_t *head)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < REPLAY_PLANT_BYTES; i++)
		nr += (unsigned)__builtin_popcount(at[i] ^ head[i]);
	return nr;
}

static int plant(const uint8_t *head)
{
	int rc = replay_plant(getpid(), head);

	if (rc == -EACCES || rc == -EPERM) {
		printf("skip: this process may not write its own /proc/PID/mem\n");
		skip();
	}
	return rc;
}

static void t_places(void **state)
{
	static const uint32_t places[] = {0, 4096, WINDOW - 40, WINDOW + 100, BYTES - 64};
	uint8_t key[SIM_KEY_BYTES] = {1}, head[REPLAY_PLANT_BYTES], all[REPLAY_PLANT_BYTES];
	unsigned nr = sizeof(places) / sizeof(places[0]);

	sim_value_fill(key, 0, head, sizeof(head));
	memcpy(all, head, sizeof(all));
	for (unsigned i = 0; i < nr; i++)
		memcpy(shared + places[i], head, sizeof(head));
	assert_int_equal(plant(head), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(flipped(shared + places[i], head), 1);
	assert_memory_equal(all, head, sizeof(all));
	/* Nothing is left to be found, and nothing else has changed. */
	assert_int_equal(plant(head), -ENOENT);
	for (unsigned i = 0; i < nr; i++)
		memset(shared + places[i], 0, sizeof(head));
	for (unsigned i = 0; i < BYTES; i++)
		assert_int_equal(shared[i], 0);
}

static void t_nobody(void **state)
{
	uint8_t head[REPLAY_PLANT_BYTES] = {1, 2, 3};

	assert_int_equal(replay_plant(INT32_MAX, head), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_places, setup, teardown),
		cmocka_unit_test(t_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
