/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hugemap: any size and offset maps the file's bytes, aligned with the offset where it is large,
 * and leaves no address behind.
 */
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hugemap.h"

static unsigned nr_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned n = 0;
	int c;

	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static void t_maps(void **state)
{
	static const size_t sizes[] = {
		1, 4096, 5000, 2u << 20, (2u << 20) + 1, (5u << 20) + 4096, 9u << 20};
	static const uint64_t offs[] = {0, 4096, 2u << 20, (3u << 20) + 8192};
	int fd = memfd_create("t_hugemap", MFD_CLOEXEC);
	unsigned before = nr_maps();

	assert_int_equal(ftruncate(fd, 32 << 20), 0);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned k = 0; k < sizeof(offs) / sizeof(offs[0]); k++) {
			uint8_t *p = hugemap_shared(sizes[i], PROT_READ | PROT_WRITE, fd, offs[k]);
			uint8_t mark[2] = {(uint8_t)i, (uint8_t)k}, got[2];

			assert_true(p != MAP_FAILED);
			if (sizes[i] >= HUGEMAP_BYTES)
				assert_int_equal(((uintptr_t)p - offs[k]) % HUGEMAP_BYTES, 0);
			p[0] = mark[0];
			p[sizes[i] - 1] = mark[1];
			assert_int_equal(pread(fd, got, 1, (off_t)offs[k] + (off_t)sizes[i] - 1),
					 1);
			assert_int_equal(got[0], mark[1]);
			assert_int_equal(munmap(p, sizes[i]), 0);
		}
	}
	assert_int_equal(nr_maps(), before);
	assert_true(hugemap_shared(4u << 20, PROT_READ, -1, 0) == MAP_FAILED);
	assert_int_equal(nr_maps(), before);
	close(fd);
	/* a file that refuses */
	fd = memfd_create("t_hugemap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4 << 20), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	before = nr_maps();
	assert_true(hugemap_shared(4u << 20, PROT_READ | PROT_WRITE, fd, 0) == MAP_FAILED);
	assert_int_equal(nr_maps(), before);
	close(fd);
}

/* Aligned, zeroed, and ended whole. */
static void t_own(void **state)
{
	static const size_t sizes[] = {4096, 2u << 20, (2u << 20) + 4096, 9u << 20};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned before = nr_maps();
		uint8_t *p = hugemap_own(sizes[i]);

		assert_true(p != MAP_FAILED);
		assert_int_equal((uintptr_t)p % HUGEMAP_BYTES, 0);
		assert_int_equal(p[0] | p[sizes[i] / 2] | p[sizes[i] - 1], 0);
		memset(p, 1, sizes[i]);
		assert_int_equal(munmap(p, sizes[i]), 0);
		assert_int_equal(nr_maps(), before);
	}
	assert_true(hugemap_own(SIZE_MAX & ~(size_t)4095) == MAP_FAILED);
}

/* Whether the kernel makes some or not: what is in it stays. */
static void t_collapse(void **state)
{
	int err, fd = memfd_create("t_hugemap", MFD_CLOEXEC);
	uint8_t *p;

	assert_int_equal(ftruncate(fd, 8 << 20), 0);
	p = hugemap_shared(8 << 20, PROT_READ | PROT_WRITE, fd, 0);
	assert_true(p != MAP_FAILED);
	for (unsigned i = 0; i < 8u << 20; i += 12345)
		p[i] = (uint8_t)(i / 12345);
	err = hugemap_collapse(p, 4 << 20);
	assert_true(err <= 0);
	if (!err)
		assert_int_equal(hugemap_collapse(p, 4 << 20), 0);
	for (unsigned i = 0; i < 8u << 20; i += 12345)
		assert_int_equal(p[i], (uint8_t)(i / 12345));
	munmap(p, 8 << 20);
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(hugemap_collapse(p, 4096) < 0);
	munmap(p, 4096);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(t_maps), cmocka_unit_test(t_own),
					   cmocka_unit_test(t_collapse)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
