/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal fsck: what lies in the files of an SSD tier, and what is wrong with it, off line. Never
 * writes; a file that a daemon has is left alone. It talks to no daemon.
 * tidy: no-test: test/peer/fsck.py runs it
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/fsck_print.h"

enum fsck_exit {
	FSCK_CLEAN = CLI_OK,
	FSCK_DAMAGED = 1,
};

struct fsck_opts {
	bool has_entries, has_data, is_forced;
	VEC(char *)
	paths;
};

enum {
	KEY_ENTRIES = 256,
	KEY_DATA,
	KEY_FORCE,
};

static const struct argp_option fsck_options[] = {
	{"entries", KEY_ENTRIES, NULL, 0, "Print every entry, and whether it counts", 0},
	{"data", KEY_DATA, NULL, 0, "Check the bytes of all values too: reads everything", 0},
	{"force-read", KEY_FORCE, NULL, 0,
	 "Read although a daemon has the file: what it is writing may look torn or damaged", 0},
	{0},
};

static error_t fsck_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct fsck_opts *o = state->input;

	switch (key) {
	case KEY_ENTRIES:
		o->has_entries = true;
		return 0;
	case KEY_DATA:
		o->has_data = true;
		return 0;
	case KEY_FORCE:
		o->is_forced = true;
		return 0;
	case ARGP_KEY_ARG:
		return vec_push(&o->paths, arg) ? 0 : ENOMEM;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no IMAGE or FOLDER given, expected one or more");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int fsck_refused(const char *path, int err)
{
	switch (err) {
	case -EBUSY:
		fprintf(stderr,
			"peal: %s: a daemon has it: stop that first, or see what there is with "
			"--force-read\n",
			path);
		break;
	case -EPROTONOSUPPORT:
		fprintf(stderr, "peal: %s: a newer version of Peal wrote it: use its fsck\n", path);
		break;
	default:
		errno = -err;
		cli_file_error("read", path, NULL);
	}
	return CLI_ERROR;
}

static int fsck_image(struct fsck_print *p, const struct fsck_opts *o, const char *path)
{
	const struct ssd_fsck_opts fo = {.ops = &fsck_print_ops, .arg = p, .has_data = o->has_data};
	struct ssd_fsck_total *total = calloc(1, sizeof(*total));
	auto_close int fd = ssd_fsck_open(path, o->is_forced);
	int err = fd < 0 ? fd : -ENOMEM;

	if (fd >= 0 && total) {
		fsck_print_begin(p, path);
		err = fsck_print_end(p, ssd_fsck(fd, &fo, total), total);
	}
	free(total);
	if (err >= 0 || err == -EUCLEAN || err == -ENODATA)
		return CLI_OK;
	return fsck_refused(path, err);
}

static int is_image(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 5 && strcmp(d->d_name + n - 5, ".peal") == 0;
}

static int fsck_folder(struct fsck_print *p, const struct fsck_opts *o, const char *folder)
{
	struct dirent **names = NULL;
	int nr = scandir(folder, &names, is_image, alphasort), rc = CLI_OK;
	char path[4096];

	if (nr < 0)
		return cli_file_error("read", folder, NULL);
	if (nr == 0) {
		fprintf(stderr, "peal: %s: no file in it ends with .peal\n", folder);
		rc = CLI_ERROR;
	}
	for (int i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		rc = fsck_image(p, o, path) ? CLI_ERROR : rc;
		free(names[i]);
	}
	free(names);
	return rc;
}

static void fsck_missing(struct fsck_print *p)
{
	vec_for_each(&p->nss, ns) {
		if (ns->nr_seen == ns->nr_shards * ns->nr_devices)
			continue;
		fprintf(stderr, "peal: namespace %s was cut in %u shards", ns->name, ns->nr_shards);
		if (ns->nr_devices > 1)
			fprintf(stderr, " on %u devices", ns->nr_devices);
		fprintf(stderr, ", and %u%s are here\n", ns->nr_seen,
			ns->nr_devices > 1 ? " of their files" : "");
	}
}

static int fsck_path(struct fsck_print *p, const struct fsck_opts *o, const char *path)
{
	struct stat st;
	int rc;

	if (stat(path, &st))
		return cli_file_error("read", path, NULL);
	if (!S_ISDIR(st.st_mode))
		return fsck_image(p, o, path);
	rc = fsck_folder(p, o, path);
	if (!rc)
		fsck_missing(p);
	return rc;
}

static int fsck_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = fsck_options,
		.parser = fsck_parse_opt,
		.args_doc = "IMAGE|FOLDER...",
		.doc = "Prints and checks files of an SSD tier while no daemon has them: "
		       "superblocks, heads, footers and the head of every record. Never writes. "
		       "Exit status: 0 clean (a crash's torn ends are told, and are no damage), 1 "
		       "damage found, 2 a wrong argument, 3 a file could not be read or is in use.",
	};
	struct fsck_opts o = {0};
	struct fsck_print p = {.out = stdout};
	int rc = CLI_OK;

	cli_parse(&argp, c, argc, argv, &o);
	p.is_json = c->is_json;
	p.has_entries = o.has_entries;
	vec_for_each(&o.paths, path) {
		int err = fsck_path(&p, &o, *path);

		rc = err ? err : rc;
	}
	fsck_print_last(&p);
	vec_fini(&o.paths);
	return rc ? rc : p.nr_damages ? FSCK_DAMAGED : FSCK_CLEAN;
}

const struct cli_cmd cmd_fsck = {"fsck", "IMAGE|FOLDER...", "check an SSD tier off line", fsck_run};
