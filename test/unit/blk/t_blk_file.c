/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk_file.c: files that are there, aren't, have another size, are another daemon's; identity by
 * path.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blk_host.h"

static void gone(void *arg, uint16_t st)
{
	assert_int_equal(st, NVME_ST_OK);
	*(bool *)arg = true;
}

static void destroy(struct blk_host *h, struct tgt_ns *ns)
{
	bool is_gone = false;

	ns->ops->destroy(ns, h->node.reactors[0], gone, &is_gone);
	assert_true(is_gone);
}

static int make(struct blk_host *h, const char *path, uint64_t size, uint32_t lba)
{
	struct blk_ns_opts o = {.path = path, .size_bytes = size, .lba_bytes = lba};
	struct tgt_ns *ns = NULL;
	int err = blk_ns_create(h->ss, &o, &ns);

	if (err)
		assert_null(ns);
	else
		destroy(h, ns);
	return err;
}

static void t_files(void **state)
{
	struct blk_host h;
	struct stat st;
	char path[96];

	blk_host_init(&h, &(struct blk_host_opts){.nr_workers = 2, .seed = 1});
	snprintf(path, sizeof(path), "%s.new", h.path);
	assert_int_equal(make(&h, path, 0, 512), -ENOENT);
	assert_int_equal(make(&h, path, 1 << 20, 1024), -EINVAL);
	assert_int_equal(make(&h, path, (1 << 20) + 1, 512), -EINVAL);
	assert_int_equal(make(&h, path, (1 << 20) + 512, 4096), -EINVAL);
	assert_int_equal(access(path, F_OK), -1); /* refused ones leave nothing behind */
	assert_int_equal(make(&h, path, 1 << 20, 4096), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 1 << 20);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(make(&h, path, 0, 512), 0);
	assert_int_equal(make(&h, path, 1 << 20, 512), 0);
	assert_int_equal(make(&h, path, 2 << 20, 512), -EINVAL);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 1 << 20);
	assert_int_equal(truncate(path, 1000), 0);
	assert_int_equal(make(&h, path, 0, 512), -EINVAL);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(make(&h, path, 0, 512), -EINVAL);
	unlink(path);
	/* The one that the host has. */
	assert_int_equal(make(&h, h.path, 0, 512), -EWOULDBLOCK);
	assert_int_equal(make(&h, "/dev/null", 0, 512), -EINVAL);
	assert_int_equal(make(&h, "/nowhere/file", 1 << 20, 512), -ENOENT);
	blk_host_fini(&h);
}

static void t_identity(void **state)
{
	struct blk_host h;
	struct blk_ns_opts o;
	struct tgt_ns *ns;
	uint8_t nguid[16];

	blk_host_init(&h, &(struct blk_host_opts){.seed = 1});
	memcpy(nguid, h.ns->nguid, 16);
	assert_int_equal(blk_ns_bytes(h.ns), h.bytes);
	assert_string_equal(h.ns->name, h.path);
	blk_host_ns_del(&h);
	o = (struct blk_ns_opts){.path = h.path, .lba_bytes = 512};
	assert_int_equal(blk_ns_create(h.ss, &o, &ns), 0);
	assert_memory_equal(ns->nguid, nguid, 16);
	destroy(&h, ns);
	blk_host_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_files),
		cmocka_unit_test(t_identity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
