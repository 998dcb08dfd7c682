/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c and mem_host.c: mappings at any offset, what flags allow, counts, the seals of a segment
 * and what they stop, peeks and pokes of memory that has gone, and the publishing of a CQE. One
 * thread.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/mem.h"

#define RW (MEM_READABLE | MEM_WRITABLE)

static int make_fd(size_t len)
{
	int fd = memfd_create("t_mem", MFD_CLOEXEC);
	uint8_t b;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	for (size_t i = 0; i < len; i += 777) {
		b = (uint8_t)i;
		assert_int_equal(pwrite(fd, &b, 1, (off_t)i), 1);
	}
	return fd;
}

static void t_map(void **state)
{
	int fd = make_fd(100000);
	struct mem_region *reg, *untouched = NULL;
	uint8_t want[3000], got[3000];
	struct mem_run run;

	assert_int_equal(mem_host_map(fd, 5001, 90000, MEM_PEER | RW, &reg), 0);
	assert_int_equal(reg->len, 90000);
	run = (struct mem_run){reg, 70000, 3000};
	assert_int_equal(mem_peek(&run, got), 0);
	assert_int_equal(pread(fd, want, 3000, 75001), 3000);
	assert_memory_equal(got, want, 3000);
	memset(got, 0x5A, sizeof(got));
	assert_int_equal(mem_poke(&run, got), 0);
	assert_int_equal(pread(fd, want, 3000, 75001), 3000);
	assert_memory_equal(got, want, 3000);
	/* The mapping needs the descriptor no longer, and outlives all references but the last. */
	mem_region_get(reg);
	mem_region_put(reg);
	close(fd);
	assert_int_equal(mem_peek(&run, want), 0);
	assert_memory_equal(got, want, 3000);
	mem_region_put(reg);
	assert_int_equal(mem_host_map(-1, 0, 4096, RW, &untouched), -EBADF);
	assert_int_equal(mem_host_map(0, 0, 0, RW, &untouched), -EINVAL);
	assert_int_equal(mem_host_map(0, UINT64_MAX, 4096, RW, &untouched), -EINVAL);
	assert_int_equal(mem_host_map(0, 4096, UINT64_MAX - 5, RW, &untouched), -EINVAL);
	assert_null(untouched);
}

static void t_flags(void **state)
{
	uint8_t mine[64] = "mine", buf[64] = "";
	struct mem_region *none = mem_host_wrap(mine, 64, 0);
	struct mem_region *ro = mem_host_wrap(mine, 64, MEM_READABLE);
	struct mem_run run = {none, 0, 64};

	assert_int_equal(mem_peek(&run, buf), -EFAULT);
	assert_int_equal(mem_poke(&run, buf), -EFAULT);
	run.reg = ro;
	assert_int_equal(mem_poke(&run, buf), -EFAULT);
	assert_int_equal(mem_peek(&run, buf), 0);
	assert_memory_equal(buf, "mine", 5);
	assert_ptr_equal(mem_own_ptr(&(struct mem_run){ro, 5, 1}), mine + 5);
	run.len = 16;
	assert_int_equal(mem_poke_cqe(&run, buf), -EFAULT);
	/* A domain that this build has not. */
	ro->domain = MEM_CUDA;
	assert_int_equal(mem_peek(&run, buf), -EFAULT);
	mem_region_put(none);
	mem_region_put(ro);
}

static void t_gone(void **state)
{
	int fd = make_fd(40960);
	uint8_t buf[5000];
	struct mem_region *reg;

	assert_int_equal(mem_guard_init(), 0);
	assert_int_equal(mem_host_map(fd, 0, 40960, MEM_PEER | RW, &reg), 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	for (int i = 0; i < 10; i++) {
		struct mem_run in = {reg, 3192, 5000}, out = {reg, 3193, 5000};
		struct mem_run cqe = {reg, 8192, 16};

		assert_int_equal(mem_peek(&in, buf), 0);
		assert_int_equal(mem_poke(&in, buf), 0);
		assert_int_equal(mem_peek(&out, buf), -EFAULT);
		assert_int_equal(mem_poke(&out, buf), -EFAULT);
		assert_int_equal(mem_poke_cqe(&cqe, buf), -EFAULT);
	}
	mem_region_put(reg);
	close(fd);
}

static void t_cqe(void **state)
{
	_Alignas(16) uint8_t ring[64] = {0};
	struct mem_region *reg = mem_host_wrap(ring, sizeof(ring), RW);
	struct mem_run run = {reg, 32, 16};

	assert_int_equal(mem_poke_cqe(&run, "0123456789abcdef"), 0);
	assert_memory_equal(ring + 32, "0123456789abcdef", 16);
	assert_int_equal(ring[31] | ring[48], 0);
	run = (struct mem_run){reg, 0, 32};
	assert_int_equal(mem_poke_cqe(&run, "abcdefghijklmnopABCDEFGHIJKLMNOP"), 0);
	assert_memory_equal(ring, "abcdefghijklmnopABCDEFGHIJKLMNOP0123456789abcdef", 48);
	run.len = 16;
	run.off = 8;
	assert_int_equal(mem_poke_cqe(&run, "0123456789abcdef"), -EFAULT);
	mem_region_put(reg);
}

static void segment(uint64_t len)
{
	struct mem_region *reg;
	const int want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
	char path[64];
	uint8_t *ro;
	int fd;

	assert_int_equal(mem_host_memfd("t_segment", len, &reg), 0);
	assert_true(reg->fd >= 0 && reg->len == len && !(reg->flags & MEM_PEER));
	assert_int_equal(fcntl(reg->fd, F_GET_SEALS), want);
	reg->base[0] = 1;
	reg->base[len - 1] = 2;
	ro = mmap(NULL, len, PROT_READ, MAP_SHARED, reg->fd, 0);
	assert_true(ro != MAP_FAILED);
	assert_int_equal(ro[0] + ro[len - 1], 3);
	munmap(ro, len);
	/* What a client could try with the descriptor, and with a new one of its own. */
	assert_true(mmap(NULL, len, PROT_WRITE, MAP_SHARED, reg->fd, 0) == MAP_FAILED);
	assert_int_equal(pwrite(reg->fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(reg->fd, 0), -1);
	assert_int_equal(fallocate(reg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
			 -1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", reg->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		assert_true(mmap(NULL, len, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
		assert_int_equal(pwrite(fd, "x", 1, 0), -1);
		close(fd);
	}
	assert_int_equal(reg->base[0], 1);
	mem_region_put(reg);
}

static void t_segment(void **state)
{
	struct mem_region *untouched = NULL;

	segment(100 * 4096);
	segment(4 << 20);
	assert_int_equal(mem_host_memfd("t_none", 0, &untouched), -EINVAL);
	assert_int_equal(mem_host_memfd("t_none", UINT64_MAX, &untouched), -EINVAL);
	assert_null(untouched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_map), cmocka_unit_test(t_flags),   cmocka_unit_test(t_gone),
		cmocka_unit_test(t_cqe), cmocka_unit_test(t_segment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
