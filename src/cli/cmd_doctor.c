/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal doctor: what the machine has of what Peal wants - kernel, huge pages, locked memory,
 * io_uring, sockets, GPU, cluster, and a daemon that answers. Each line is good, or says what to
 * do. Looks and changes nothing; checks are rows of a table.
 */
/* tidy: no-test: test/peer/ctl_cli.py runs it */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/cli_rpc.h"
#include "cli/cli_ssd.h"
#include "cli/doctor_ceph.h"

/* The number in a file such as /proc/sys/vm/nr_hugepages, or of the line that begins with key. */
static long long doctor_number(const char *path, const char *key)
{
	auto_fclose FILE *f = fopen(path, "re");
	long long v = -1;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (key && strncmp(line, key, strlen(key)) != 0)
			continue;
		sscanf(line + (key ? strlen(key) : 0), "%lld", &v);
		break;
	}
	return v;
}

static enum doctor_state check_kernel(struct doctor *d)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (major * 1000 + minor < 6001)
		return doctor_say(d, DOCTOR_BAD, "%s: install Linux 6.1 or later", u.release);
	return doctor_say(d, DOCTOR_GOOD, "Linux %s", u.release);
}

static enum doctor_state check_memory(struct doctor *d)
{
	long long kib = doctor_number("/proc/meminfo", "MemAvailable:");
	char size[16];

	format_size(kib < 0 ? 0 : (uint64_t)kib << 10, size);
	if (kib < 1 << 20)
		return doctor_say(d, DOCTOR_NOTE, "%s available: a DRAM tier wants some GiB", size);
	return doctor_say(d, DOCTOR_GOOD, "%s available", size);
}

static enum doctor_state check_hugepages(struct doctor *d)
{
	long long nr = doctor_number("/proc/meminfo", "HugePages_Free:");
	auto_fclose FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
	char thp[64] = "";

	if (nr > 0)
		return doctor_say(d, DOCTOR_GOOD, "%lld are free", nr);
	if (f && fgets(thp, sizeof(thp), f) && !strstr(thp, "[never]"))
		return doctor_say(
			d, DOCTOR_GOOD,
			"none reserved, transparent ones are on; `sysctl vm.nr_hugepages=N` "
			"reserves N of 2 MiB");
	return doctor_say(
		d, DOCTOR_NOTE,
		"none: look-ups cost more; `sysctl vm.nr_hugepages=N`, or `echo madvise > "
		"/sys/kernel/mm/transparent_hugepage/enabled`");
}

static enum doctor_state check_memlock(struct doctor *d)
{
	struct rlimit rl = {0};
	char size[16];

	getrlimit(RLIMIT_MEMLOCK, &rl);
	if (rl.rlim_max == RLIM_INFINITY || geteuid() == 0)
		return doctor_say(d, DOCTOR_GOOD, "no limit");
	format_size(rl.rlim_max, size);
	if (rl.rlim_max < 64u << 20)
		return doctor_say(
			d, DOCTOR_NOTE,
			"%s: GPU copies and fixed buffers want more; LimitMEMLOCK=infinity "
			"in the unit, or `ulimit -l unlimited`",
			size);
	return doctor_say(d, DOCTOR_GOOD, "%s", size);
}

static enum doctor_state check_files(struct doctor *d)
{
	struct rlimit rl = {0};

	getrlimit(RLIMIT_NOFILE, &rl);
	if (rl.rlim_max < 8192)
		return doctor_say(
			d, DOCTOR_NOTE,
			"%llu open files: each client takes some dozen; LimitNOFILE=65536",
			(unsigned long long)rl.rlim_max);
	return doctor_say(d, DOCTOR_GOOD, "%llu open files", (unsigned long long)rl.rlim_max);
}

static enum doctor_state check_uring(struct doctor *d)
{
	struct io_uring ring;
	int err = io_uring_queue_init(8, &ring, 0);

	if (err == -EPERM || err == -EACCES)
		return doctor_say(
			d, DOCTOR_BAD,
			"not permitted: `sysctl kernel.io_uring_disabled=0`; in a container "
			"allow io_uring_setup, _enter and _register in its seccomp profile");
	if (err)
		return doctor_say(d, DOCTOR_BAD, "%s: a kernel with CONFIG_IO_URING is needed",
				  strerrorname_np(-err));
	io_uring_queue_exit(&ring);
	return doctor_say(d, DOCTOR_GOOD, "works");
}

static enum doctor_state check_memfd(struct doctor *d)
{
	auto_close int fd = memfd_create("peal-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, 4096) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE))
		return doctor_say(d, DOCTOR_BAD, "%s: sealed memory files are needed (Linux 5.1)",
				  strerrorname_np(errno));
	return doctor_say(d, DOCTOR_GOOD, "can be sealed");
}

/* The folder of the URI, and its socket. */
static enum doctor_state check_socket(struct doctor *d)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *path = strchr(d->c->uri, ':');
	struct stat st;
	int n;

	path = path ? path + 1 : d->c->uri;
	n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%.*s", (int)strcspn(path, "?"), path);
	if (n >= (int)sizeof(sa.sun_path))
		return doctor_say(d, DOCTOR_BAD, "%s is too long, choose a shorter --dir", path);
	if (stat(sa.sun_path, &st) == 0 && S_ISDIR(st.st_mode))
		strncat(sa.sun_path, "/cntrl", sizeof(sa.sun_path) - (size_t)n - 1);
	if (stat(sa.sun_path, &st))
		return doctor_say(d, DOCTOR_BAD,
				  "%s: %s; start peald (systemctl start peald), or "
				  "name its folder with --uri vfu:DIR",
				  sa.sun_path, strerrorname_np(errno));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return doctor_say(d, DOCTOR_GOOD, "%s", sa.sun_path);
	if (errno == EACCES)
		return doctor_say(d, DOCTOR_BAD,
				  "%s: not permitted: become its owner, uid %u, or let it be yours "
				  "(chgrp, chmod)",
				  sa.sun_path, (unsigned)st.st_uid);
	return doctor_say(d, DOCTOR_BAD, "%s: %s: nobody is behind it, start peald", sa.sun_path,
			  strerrorname_np(errno));
}

/* Nothing answered at the control plane's socket. */
static const char *doctor_no_daemon(int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
		return "not permitted: become root or the daemon's own user";
	case ENOENT:
		return "start peald, unless it has --rpc none or another path: then name that in "
		       "$PEAL_RPC";
	case ECONNREFUSED:
		return "nobody is behind it, start peald";
	case ENAMETOOLONG:
		return "too long, choose a shorter --dir or name the socket in $PEAL_RPC";
	default:
		return "peald doesn't answer there, see its log";
	}
}

/* Asks the daemon itself: does it answer, and has it met wrong bytes? */
static enum doctor_state check_daemon(struct doctor *d)
{
	struct cli_rpc r;
	json_t *stats = NULL;
	bool is_error = true;
	long long up, bad;

	errno = 0;
	if (cli_rpc_open(d->c, &r) == 0)
		stats = cli_rpc_call(&r, "stats", NULL, 5000, &is_error);
	if (!stats || is_error) {
		const char *said = json_string_value(json_object_get(stats, "message"));

		doctor_say(d, DOCTOR_BAD, "%s: %s%s%s", r.path,
			   said ? said : strerrorname_np(errno), said ? "" : "; ",
			   said ? "" : doctor_no_daemon(errno));
		cli_rpc_close(&r);
		json_decref(stats);
		return DOCTOR_BAD;
	}
	cli_rpc_close(&r);
	up = (long long)json_real_value(json_object_get(stats, "uptime_seconds"));
	bad = json_integer_value(json_object_get(stats, "media_errors"));
	json_decref(stats);
	if (bad)
		return doctor_say(
			d, DOCTOR_BAD,
			"up for %lld s; %lld values did not fit their checksums: test the "
			"memory, see the log",
			up, bad);
	return doctor_say(d, DOCTOR_GOOD, "up for %lld s, no wrong byte", up);
}

/* As peald opens its files: a file without a name shows it, and leaves nothing behind. */
static const char *doctor_direct(const char *folder)
{
	auto_close int fd = open(folder, O_TMPFILE | O_DIRECT | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return NULL;
	return errno == EINVAL ? "no direct I/O on this file system: choose ext4 or XFS on a disk"
			       : strerrorname_np(errno);
}

static enum doctor_state check_ssd_one(struct doctor *d, const json_t *dev)
{
	const char *folder = json_string_value(json_object_get(dev, "folder")), *why;
	const char *smart = json_string_value(json_object_get(dev, "smart_error"));
	char text[CLI_SSD_BYTES];
	struct statfs fs;

	cli_ssd_device(dev, text);
	if (!folder || statfs(folder, &fs))
		return doctor_say(d, DOCTOR_BAD, "%s: %s", folder ? folder : "a folder",
				  strerrorname_np(errno));
	if (json_is_false(json_object_get(dev, "may_write")) ||
	    json_is_true(json_object_get(dev, "tight")))
		return doctor_say(d, DOCTOR_BAD, "%s: see ssd.devices", text);
	why = doctor_direct(folder);
	if (why)
		return doctor_say(d, strcmp(why, "EACCES") ? DOCTOR_BAD : DOCTOR_NOTE, "%s: %s",
				  folder, why);
	if (fs.f_type == BTRFS_SUPER_MAGIC)
		return doctor_say(
			d, DOCTOR_NOTE,
			"%s: btrfs moves what is written again: `chattr +C %s` before its "
			"files are made",
			text, folder);
	if (smart)
		return doctor_say(d, DOCTOR_NOTE,
				  "%s: its health can't be read: %s%s; or --ssd-smart FILE", text,
				  smart,
				  strcmp(smart, "ENODEV") ? ", that takes CAP_SYS_ADMIN"
							  : ", no NVMe device is below it");
	return doctor_say(d, DOCTOR_GOOD, "%s", text);
}

/* The first one that isn't good speaks for all. */
static enum doctor_state check_ssd(struct doctor *d)
{
	enum doctor_state state = DOCTOR_GOOD;
	json_t *list, *dev;
	size_t i;

	if (cli_rpc_maybe("doctor", d->c, "ssd.devices", 5000, &list))
		return doctor_say(d, DOCTOR_BAD, "the daemon can't be asked, see above");
	doctor_say(d, state, "no SSD tier here: memory serves alone");
	json_array_foreach(list, i, dev)
	{
		state = check_ssd_one(d, dev);
		if (state != DOCTOR_GOOD)
			break;
	}
	json_decref(list);
	return state;
}

static bool doctor_has_library(const char *name)
{
	void *lib = dlopen(name, RTLD_LAZY | RTLD_LOCAL);

	if (lib)
		dlclose(lib);
	return lib;
}

static enum doctor_state check_gpu(struct doctor *d)
{
	bool has_nvidia = access("/dev/nvidiactl", F_OK) == 0;
	bool has_amd = access("/dev/kfd", F_OK) == 0;

	if (!has_nvidia && !has_amd)
		return doctor_say(d, DOCTOR_NOTE, "none here: values are served to host memory");
	if (has_nvidia && !doctor_has_library("libcuda.so.1"))
		return doctor_say(
			d, DOCTOR_BAD,
			"an NVIDIA one, but no libcuda.so.1: install the driver's library");
	if (has_amd && !has_nvidia && !doctor_has_library("libamdhip64.so.6") &&
	    !doctor_has_library("libamdhip64.so"))
		return doctor_say(d, DOCTOR_BAD, "an AMD one, but no libamdhip64: install ROCm");
	return doctor_say(d, DOCTOR_GOOD, "%s", has_nvidia ? "NVIDIA" : "AMD");
}

static const struct {
	const char *name;
	enum doctor_state (*check)(struct doctor *d);
} doctor_checks[] = {
	{"kernel", check_kernel},
	{"memory", check_memory},
	{"hugepages", check_hugepages},
	{"memlock", check_memlock},
	{"files", check_files},
	{"io_uring", check_uring},
	{"memfd", check_memfd},
	{"socket", check_socket},
	{"daemon", check_daemon},
	{"ssd", check_ssd},
	{"gpu", check_gpu},
	{"cluster", doctor_ceph_conf},
	{"monitors", doctor_ceph_mon},
	{"pool", doctor_ceph_pool},
	{"rights", doctor_ceph_rights},
	{"max-write", doctor_ceph_write},
};

static const struct argp_option doctor_options[] = {
	{"rados", 'r', "TIER", 0, "A rados tier's cluster, too: " CEPH_WORDS_EXPECTED, 0},
	{0},
};

static error_t doctor_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'r':
		if (doctor_ceph_parse(arg, state->input))
			argp_error(state, "'%s' is not good, expected " CEPH_WORDS_EXPECTED, arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int doctor_run(struct cli *c, int argc, char **argv)
{
	static const struct argp argp = {
		.options = doctor_options,
		.parser = doctor_option,
		.doc = "Looks at what the machine has of what Peal wants. Each line is good, or "
		       "a note, "
		       "or bad with what to do. Exit status: 0, or 3 when something is bad.",
	};
	static const char *const states[] = {"good", "note", "BAD "};
	static const char *const names[] = {"good", "note", "bad"};
	struct doctor_ceph ceph;
	struct doctor d = {.c = c, .ceph = &ceph};
	int rc = CLI_OK;

	doctor_ceph_parse(NULL, &ceph);
	cli_parse(&argp, c, argc, argv, &ceph);
	for (size_t i = 0; i < sizeof(doctor_checks) / sizeof(doctor_checks[0]); i++) {
		enum doctor_state state = doctor_checks[i].check(&d);

		if (state == DOCTOR_SKIP)
			continue;
		if (c->is_json) {
			json_t *o = json_pack("{s:s, s:s, s:s}", "check", doctor_checks[i].name,
					      "state", names[state], "text", d.text);

			json_dumpf(o, stdout, JSON_COMPACT);
			putchar('\n');
			json_decref(o);
		} else {
			printf("%s  %-10s %s\n", states[state], doctor_checks[i].name, d.text);
		}
		if (state == DOCTOR_BAD)
			rc = CLI_ERROR;
	}
	doctor_ceph_close(&ceph);
	return rc;
}

const struct cli_cmd cmd_doctor = {"doctor", "", "is this machine ready?", doctor_run};
