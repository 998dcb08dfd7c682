/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_cap.h. A look at the folder each time, for whoever else may have made or deleted files.
 */
#include "store/ssd/ssd_cap.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/store_health.h"

static bool cap_is_ours(const char *name)
{
	static const char end[] = ".peal";
	size_t n = strlen(name);

	return n >= sizeof(end) && strcmp(name + n - (sizeof(end) - 1), end) == 0;
}

/* By their sizes, not by the blocks that they have: what is a hole may be filled again. */
static int cap_sum(const char *folder, uint64_t *sum)
{
	DIR *dir = opendir(folder);
	struct dirent *d;
	struct stat st;

	*sum = 0;
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while ((d = readdir(dir)))
		if (cap_is_ours(d->d_name) && !fstatat(dirfd(dir), d->d_name, &st, 0) &&
		    S_ISREG(st.st_mode))
			*sum += (uint64_t)st.st_size;
	closedir(dir);
	return 0;
}

int ssd_cap_check(const struct store_ssd_opts *o)
{
	auto_free char *path = NULL;
	uint64_t cap, sum;
	int err;

	if (!o->care || !o->care->cap_bytes || access(o->path, F_OK) == 0)
		return 0;
	cap = o->care->cap_bytes;
	path = strdup(o->path);
	if (!path)
		return -ENOMEM;
	err = cap_sum(dirname(path), &sum);
	if (err)
		return err;
	return sum > cap || o->bytes > cap - sum ? -EDQUOT : 0;
}
