/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small headers of base/: must, container, le, cleanup, mono. One thread.
 */
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "base/le.h"
#include "base/mono.h"
#include "base/must.h"

static void t_must_aborts(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		/* The message is wanted by a human, not by this test's output. */
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		must(1 + 1 == 3);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void t_must_passes(void **state)
{
	int nr = 0;

	must(++nr == 1);
	assert_int_equal(nr, 1);
}

struct outer {
	int a;
	char pad[3];
	int inner;
};

static void t_container(void **state)
{
	struct outer o = {0};
	int three[3];
	int nr = 0;

	assert_ptr_equal(container_of(&o.inner, struct outer, inner), &o);
	assert_int_equal(ARRAY_SIZE(three), 3);
	assert_int_equal(min_t(int, ++nr, 5), 1);
	assert_int_equal(nr, 1);
	assert_int_equal(max_t(uint64_t, 3, UINT64_MAX), UINT64_MAX);
}

static void t_arithmetic(void **state)
{
	assert_int_equal(align_up(0, 4096), 0);
	assert_int_equal(align_up(1, 4096), 4096);
	assert_int_equal(align_up(4096, 4096), 4096);
	assert_int_equal(align_down(4095, 4096), 0);
	assert_int_equal(align_down(UINT64_MAX, 2), UINT64_MAX - 1);
	assert_false(is_pow2(0));
	assert_true(is_pow2(1));
	assert_false(is_pow2(6));
	assert_true(is_pow2(1ull << 63));
	assert_int_equal(div_round_up(0, 7), 0);
	assert_int_equal(div_round_up(8, 7), 2);
	assert_int_equal(div_round_up(UINT64_MAX, 2), 1ull << 63);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(ilog2_u64(1ull << i), i);
	assert_int_equal(ilog2_u64(UINT64_MAX), 63);
}

static void t_le(void **state)
{
	uint8_t b[16] = {0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};
	uint8_t c[16] = {0};

	assert_int_equal(le16_get(b + 1), 0x0201);
	assert_int_equal(le32_get(b + 1), 0x04030201);
	assert_int_equal(le64_get(b + 1), 0x0807060504030201ull);
	le64_put(c + 1, le64_get(b + 1));
	assert_memory_equal(b, c, sizeof(b));
	memset(c, 0, sizeof(c));
	le16_put(c + 1, 0x0201);
	le32_put(c + 3, 0x06050403);
	assert_memory_equal(b, c, 7);
	assert_int_equal(c[7], 0);
}

static int open_in_scope(int *seen)
{
	auto_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	auto_free char *s = strdup("x");

	*seen = fd;
	errno = ENOTTY;
	return s ? fd : -1;
}

static void t_cleanup(void **state)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	int fd, seen = -1;

	fd = open_in_scope(&seen);
	assert_int_equal(errno, ENOTTY);
	assert_true(fd >= 0 && fd == seen);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	{
		auto_unlock pthread_mutex_t *held = cleanup_lock(&m);

		assert_int_equal(pthread_mutex_trylock(held), EBUSY);
	}
	assert_int_equal(pthread_mutex_trylock(&m), 0);
	pthread_mutex_unlock(&m);
	{
		auto_close int none = -1;
		auto_fclose FILE *no_file = NULL;
		auto_fclose FILE *file = fopen("/dev/null", "re");
		auto_free void *no_mem = NULL;

		assert_non_null(file);
		assert_null(no_file);
		assert_null(no_mem);
		assert_int_equal(none, -1);
	}
}

static void t_mono(void **state)
{
	uint64_t a = mono_ns(), b = mono_ns();

	assert_true(a > 0 && b >= a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_must_aborts), cmocka_unit_test(t_must_passes),
		cmocka_unit_test(t_container),	 cmocka_unit_test(t_arithmetic),
		cmocka_unit_test(t_le),		 cmocka_unit_test(t_cleanup),
		cmocka_unit_test(t_mono),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
