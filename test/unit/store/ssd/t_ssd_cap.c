/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssd_cap.c: files of a folder, whosever they are, never have more bytes than its cap; what is
 * there is opened whatever the cap says.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"
#include "store/ssd/ssd_cap.h"
#include "store/store_health.h"

static char folder[] = "/tmp/peal-cap-XXXXXX";

static void make(const char *name, uint64_t bytes)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "we");
	must(f && ftruncate(fileno(f), (off_t)bytes) == 0);
	fclose(f);
}

static void gone(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	must(unlink(path) == 0);
}

static int may(const char *name, uint64_t bytes, uint64_t cap)
{
	struct store_ssd_care care = {.cap_bytes = cap};
	char path[128];
	struct store_ssd_opts o = {.path = path, .bytes = bytes, .care = &care};

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return ssd_cap_check(&o);
}

static void sums(void **state)
{
	must(mkdtemp(folder));
	assert_int_equal(may("kv.0.peal", 1 << 20, 0), 0); /* no cap */
	assert_int_equal(may("kv.0.peal", 1 << 20, 1 << 20), 0);
	assert_int_equal(may("kv.0.peal", (1 << 20) + 1, 1 << 20), -EDQUOT);
	make("kv.0.peal", 1 << 20);
	make("old.0.peal", 3 << 20); /* nobody's any more */
	make("notes", 5 << 20);
	make(".peal", 5 << 20);
	assert_int_equal(may("kv.1.peal", 1 << 20, 5 << 20), 0);
	assert_int_equal(may("kv.1.peal", 1 << 20, (5 << 20) - 1), -EDQUOT);
	assert_int_equal(may("kv.1.peal", UINT64_MAX, 5 << 20), -EDQUOT);
	assert_int_equal(may("kv.1.peal", 1, 1), -EDQUOT);
	/* It is there. */
	assert_int_equal(may("kv.0.peal", 1 << 20, 1), 0);
	gone("kv.0.peal");
	gone("old.0.peal");
	gone("notes");
	gone(".peal");
	must(rmdir(folder) == 0);
	/* A folder that is still to be made. */
	assert_int_equal(may("kv.0.peal", 1 << 20, 1 << 20), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
