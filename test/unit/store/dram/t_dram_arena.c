/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dram_arena.c: extents, bounds, retirement; and that a segment's descriptor gives nobody a second
 * writable mapping.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "store/dram/dram_arena.h"

static uint32_t nr_told;

static int on_segment(void *arg, struct mem_region *reg)
{
	if (arg)
		return -EPERM;
	reg->id = 100 + nr_told++;
	return 0;
}

static void t_segments(void **state)
{
	struct dram_arena a;

	nr_told = 0;
	assert_int_equal(dram_arena_init(&a), 0);
	a.on_segment = on_segment;
	assert_int_equal(dram_arena_add(&a, 1 << 20), 0);
	assert_int_equal(dram_arena_add(&a, 1 << 16), 0);
	assert_int_equal(nr_told, 2);
	assert_int_equal(a.segs[1].reg->id, 101);
	assert_int_equal(a.bytes, (1 << 20) + (1 << 16));
	a.arg = &a;
	assert_int_equal(dram_arena_add(&a, 1 << 16), -EPERM);
	assert_int_equal(a.nr_segs, 2);
	assert_int_equal(a.cost_bytes, dram_arena_seg_cost(1 << 20) + dram_arena_seg_cost(1 << 16));
	dram_arena_fini(&a);
}

/* /proc/self/fd makes a descriptor new; the seal has to stop it. */
static void t_sealed(void **state)
{
	struct dram_arena a;
	char path[64];
	int fd;

	assert_int_equal(dram_arena_init(&a), 0);
	assert_int_equal(dram_arena_add(&a, 1 << 20), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a.segs[0].reg->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
				 MAP_FAILED);
		assert_int_equal(write(fd, "x", 1), -1);
		assert_int_equal(ftruncate(fd, 0), -1);
		assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
				 -1);
		close(fd);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_ptr_not_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
	close(fd);
	/* Ours still is. */
	a.segs[0].reg->base[0] = 1;
	dram_arena_fini(&a);
}

/* Huge or not is told of pages that were asked for, and nothing in them changes. */
static void t_huge(void **state)
{
	struct dram_ext a_ext, b_ext;
	struct dram_arena a;
	struct mem_run run;

	assert_int_equal(dram_arena_init(&a), 0);
	assert_int_equal(dram_arena_add(&a, 6 << 20), 0);
	assert_int_equal(dram_arena_alloc(&a, 1 << 20, &a_ext, 1), 1);
	run = dram_arena_run(&a, a_ext);
	memset(run.reg->base + run.off, 0x5a, run.len);
	if (!(a.segs[0].reg->flags & MEM_HUGE)) {
		assert_int_equal(__builtin_popcountll(a.segs[0].asked[0]), 1);
		assert_int_equal(dram_arena_is_huge(&a, a_ext), a.nr_refused == 0);
	}
	assert_int_equal(dram_arena_alloc(&a, 4 << 20, &b_ext, 1), 1);
	for (uint64_t i = 0; i < run.len; i++)
		assert_int_equal(run.reg->base[run.off + i], 0x5a);
	/* A segment shorter than a huge page has none. */
	dram_arena_free(&a, &a_ext, 1);
	dram_arena_free(&a, &b_ext, 1);
	dram_arena_fini(&a);
	assert_int_equal(dram_arena_init(&a), 0);
	assert_int_equal(dram_arena_add(&a, 1 << 20), 0);
	assert_int_equal(dram_arena_alloc(&a, 1 << 20, &a_ext, 1), 1);
	assert_false(dram_arena_is_huge(&a, a_ext));
	assert_int_equal(a.nr_refused, 0);
	dram_arena_fini(&a);
}

static void t_extents(void **state)
{
	struct dram_ext ext[DRAM_EXTS_MAX], small[64];
	struct dram_arena a;

	assert_int_equal(dram_arena_init(&a), 0);
	assert_int_equal(dram_arena_add(&a, 1 << 16), 0);
	assert_int_equal(dram_arena_add(&a, 1 << 16), 0);
	/* One piece when there is one, exact to a granule. */
	assert_int_equal(dram_arena_alloc(&a, 40000, ext, 1), 1);
	assert_int_equal(ext[0].nr, 625);
	assert_int_equal(a.used_bytes, 40000);
	/* Larger than any segment: as few pieces as it takes, else nothing. */
	assert_int_equal(dram_arena_alloc(&a, 80000, ext + 1, 1), -ENOSPC);
	assert_int_equal(a.used_bytes, 40000);
	assert_int_equal(dram_arena_alloc(&a, 80000, ext + 1, 8), 2);
	assert_int_equal(ext[1].nr, 1024);
	dram_arena_free(&a, ext, 3);
	assert_int_equal(a.free_bytes, 2 << 16);
	/* Every second KiB free: the bound on pieces holds. */
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(dram_arena_alloc(&a, 1024, &small[i], 1), 1);
	assert_int_equal(dram_arena_alloc(&a, 1 << 16, ext, 1), 1);
	for (uint32_t i = 0; i < 64; i += 2)
		dram_arena_free(&a, &small[i], 1);
	assert_int_equal(dram_arena_alloc(&a, 4096, ext + 1, 3), -ENOSPC);
	assert_int_equal(dram_arena_alloc(&a, 4096, ext + 1, 4), 4);
	dram_arena_fini(&a);
}

static void t_retire(void **state)
{
	struct dram_ext ext[4];
	struct dram_arena a;

	assert_int_equal(dram_arena_init(&a), 0);
	assert_int_equal(dram_arena_add(&a, 1 << 16), 0);
	assert_int_equal(dram_arena_add(&a, 1 << 16), 0);
	assert_int_equal(dram_arena_alloc(&a, 1 << 15, ext, 1), 1);
	assert_int_equal(ext[0].seg, 0);
	dram_arena_retire(&a, 0);
	assert_int_equal(a.bytes, 1 << 16);
	assert_int_equal(a.free_bytes, 1 << 16);
	/* It gives nothing more, and goes when nothing is in it. */
	assert_int_equal(dram_arena_alloc(&a, 1 << 15, ext + 1, 1), 1);
	assert_int_equal(ext[1].seg, 1);
	assert_false(dram_arena_reap(&a, 0));
	dram_arena_free(&a, ext, 1);
	assert_int_equal(a.free_bytes, 1 << 15);
	assert_true(dram_arena_reap(&a, 0));
	assert_int_equal(a.cost_bytes, dram_arena_seg_cost(1 << 16));
	/* Its slot is used again. */
	assert_int_equal(dram_arena_add(&a, 1 << 17), 0);
	assert_int_equal(a.nr_segs, 2);
	assert_int_equal(a.retiring_bytes, 0);
	dram_arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_segments), cmocka_unit_test(t_sealed), cmocka_unit_test(t_huge),
		cmocka_unit_test(t_extents),  cmocka_unit_test(t_retire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
