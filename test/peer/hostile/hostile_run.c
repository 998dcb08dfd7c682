/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes around the victim: the daemon, whose descriptors and memory are looked at from
 * outside, and attackers, which are this program started again with `attack_word`. What an attacker
 * and its parent share comes by descriptor number. Main thread of either.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/must.h"
#include "hostile.h"

#define START_MS 60000

char attack_word[] = "--attack";

#define RUN_OURS 4u /* the victim's, two reactors', the rest of the daemon's */
#define RUN_REST (RUN_OURS - 1)

static bool run_is_apart;
static unsigned run_ours[RUN_OURS];
static cpu_set_t run_theirs; /* the attackers' */

/* The CPUs of cpu's core, itself included. */
static void run_core(unsigned cpu, cpu_set_t *core)
{
	unsigned first, last;
	char path[96];
	FILE *f;
	int nr;

	CPU_ZERO(core);
	CPU_SET(cpu, core);
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
		 cpu);
	f = fopen(path, "re");
	if (!f)
		return;
	while ((nr = fscanf(f, "%u-%u", &first, &last)) >= 1) {
		for (unsigned c = first; c <= (nr == 2 ? last : first) && c < CPU_SETSIZE; c++)
			CPU_SET(c, core);
		if (fgetc(f) != ',')
			break;
	}
	fclose(f);
}

static void run_on(pid_t tid, unsigned cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	must(sched_setaffinity(tid, sizeof(one), &one) == 0);
}

void attackers_apart(void)
{
	cpu_set_t core, both;
	unsigned nr = 0;

	must(sched_getaffinity(0, sizeof(run_theirs), &run_theirs) == 0);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && nr < RUN_OURS; cpu++) {
		if (!CPU_ISSET(cpu, &run_theirs))
			continue;
		run_ours[nr++] = cpu;
		run_core(cpu, &core);
		CPU_AND(&both, &core, &run_theirs);
		CPU_XOR(&run_theirs, &run_theirs, &both);
	}
	if (nr < RUN_OURS || CPU_COUNT(&run_theirs) == 0)
		return;
	run_is_apart = true;
	run_on(0, run_ours[0]);
	printf("pinned: the victim to CPU %u, reactors to %u and %u, the daemon's other threads to "
	       "%u; attackers have %d\n",
	       run_ours[0], run_ours[1], run_ours[2], run_ours[RUN_REST], CPU_COUNT(&run_theirs));
}

/* By the names of its threads; one that comes later runs where who starts it does. */
void daemon_apart(const struct daemon *d)
{
	char path[300], name[32];
	struct dirent *e;
	unsigned no;
	DIR *dir;
	FILE *f;

	if (!run_is_apart)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", d->pid);
	dir = opendir(path);
	must(dir);
	while ((e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", d->pid, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!f)
			continue;
		if (!fgets(name, sizeof(name), f) || sscanf(name, "peal-%u", &no) != 1 || no > 1)
			no = RUN_REST - 1;
		fclose(f);
		run_on(atoi(e->d_name), run_ours[1 + no]);
	}
	closedir(dir);
}

bool attackers_are_apart(void)
{
	return run_is_apart;
}

/* ---- the daemon ---- */

static bool log_says(const struct daemon *d, const char *what)
{
	char line[512];
	bool yes = false;
	FILE *f = fopen(d->log, "re");

	while (f && !yes && fgets(line, sizeof(line), f))
		yes = strstr(line, what);
	if (f)
		fclose(f);
	return yes;
}

void daemon_start(struct daemon *d, const char *peald, const char *reactors)
{
	unsigned ms = 0;

	snprintf(d->dir, sizeof(d->dir), "/tmp/peal-hostile-XXXXXX");
	must(mkdtemp(d->dir));
	snprintf(d->path, sizeof(d->path), "%s/cntrl", d->dir);
	snprintf(d->log, sizeof(d->log), "%s/log", d->dir);
	d->pid = fork();
	must(d->pid >= 0);
	if (d->pid == 0) {
		int fd = open(d->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fd, 2);
		execl(peald, peald, "--dir", d->dir, "--reactors", reactors, "--ns",
		      "victim=64M,rw", "--ns", "other=24M,rw", NULL);
		_exit(127);
	}
	while (!log_says(d, "listening on")) {
		if (ms++ > START_MS || waitpid(d->pid, NULL, WNOHANG) == d->pid) {
			fprintf(stderr, "peald did not start, see %s\n", d->log);
			exit(1);
		}
		poll(NULL, 0, 1);
	}
}

void daemon_stop(struct daemon *d)
{
	int status = -1;
	FILE *f;

	kill(d->pid, SIGTERM);
	must(waitpid(d->pid, &status, 0) == d->pid);
	if (status) {
		fprintf(stderr, "peald ended with status %x, see %s\n", (unsigned)status, d->log);
		exit(1);
	}
	f = fopen(d->log, "re");
	must(f && fseek(f, 0, SEEK_END) == 0);
	printf("peald's log: %ld bytes\n", ftell(f));
	fclose(f);
	must(unlink(d->log) == 0);
	must(rmdir(d->dir) == 0);
}

/* Not counted: the files that values lie in, which come as they are needed and stay. */
unsigned daemon_fds(const struct daemon *d)
{
	char path[64], what[64];
	struct dirent *e;
	unsigned nr = 0;
	DIR *dir;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd", d->pid);
	dir = opendir(path);
	if (!dir) {
		fprintf(stderr, "peald is gone, see %s\n", d->log);
		exit(1);
	}
	while ((e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, what, sizeof(what) - 1);
		what[n > 0 ? n : 0] = 0;
		nr += n > 0 && !strstr(what, "peal-arena");
	}
	closedir(dir);
	return nr;
}

/*
 * What isn't values: those lie in files of memory. Anonymous mappings that were advised to be of
 * huge pages are pools and tables. Their size is set when they are made; how much of it has been
 * touched, 2 MiB at a time, is only the most that ever was under way at once. So of those it is the
 * size that must not grow, and of all else the memory.
 */
struct daemon_memory daemon_memory(const struct daemon *d)
{
	unsigned long long inode = 0, size = 0, anon = 0, n;
	struct daemon_memory m = {0};
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", d->pid);
	f = fopen(path, "re");
	must(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*x-%*x %*s %*s %*s %llu", &n) == 1)
			inode = n;
		else if (sscanf(line, "Size: %llu kB", &n) == 1)
			size = n << 10;
		else if (sscanf(line, "Anonymous: %llu kB", &n) == 1)
			anon = n << 10;
		else if (strncmp(line, "VmFlags:", 8) != 0)
			continue;
		else if (inode == 0 && strstr(line, " hg"))
			m.pool_bytes += size;
		else
			m.anon_bytes += anon;
	}
	fclose(f);
	must(m.anon_bytes);
	return m;
}

/* ---- attackers ---- */

void attacker_init(struct attacker *at, unsigned index, const struct attack_kind *kind)
{
	*at = (struct attacker){.kind = kind, .index = index};
	/* Inherited: no O_CLOEXEC. The page of what was seen lies behind the guest's memory. */
	at->mem_fd = memfd_create("guest", 0);
	must(at->mem_fd >= 0 && ftruncate(at->mem_fd, HOST_BYTES + 4096) == 0);
	at->mem = mmap(NULL, HOST_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_SHARED, at->mem_fd, 0);
	must(at->mem != MAP_FAILED);
	at->seen = (void *)(uintptr_t)(at->mem + HOST_BYTES);
}

void attacker_start(struct attacker *at, const struct daemon *d)
{
	char fd[16], seed[16];

	snprintf(fd, sizeof(fd), "%d", at->mem_fd);
	snprintf(seed, sizeof(seed), "%u", at->index * 1000 + at->lives);
	at->acts_before = at->seen->acts;
	at->lives++;
	at->pid = fork();
	must(at->pid >= 0);
	if (at->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (run_is_apart)
			sched_setaffinity(0, sizeof(run_theirs), &run_theirs);
		execl("/proc/self/exe", "hostile", attack_word, at->kind->name, d->path, fd, seed,
		      NULL);
		_exit(127);
	}
}

void attacker_kill(struct attacker *at)
{
	int status = 0;

	kill(at->pid, SIGKILL);
	must(waitpid(at->pid, &status, 0) == at->pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
		fprintf(stderr, "attacker %s ended by itself: %x\n", at->kind->name,
			(unsigned)status);
		exit(1);
	}
}

bool attacker_look(struct attacker *at, const struct daemon *d, double times)
{
	if ((double)(at->seen->acts - at->acts_before) < (double)at->kind->min_acts * times)
		return false;
	if (at->lives >= (double)at->kind->nr_lives * times)
		return true;
	attacker_kill(at);
	attacker_start(at, d);
	return false;
}

void attacker_check(struct attacker *at)
{
	const uint64_t *word = (const void *)at->mem;

	for (size_t i = 0; i < HOST_BYTES / 8; i++) {
		if (word[i] != VICTIM_MARK)
			continue;
		fprintf(stderr, "attacker %s has the victim's bytes at %zx\n", at->kind->name,
			i * 8);
		exit(1);
	}
	if (at->seen->faults) {
		fprintf(stderr, "attacker %s: its memory was written after DMA_UNMAP's answer\n",
			at->kind->name);
		exit(1);
	}
	munmap((void *)(uintptr_t)at->mem, HOST_BYTES + 4096);
	close(at->mem_fd);
}

/* --attack NAME SOCKET MEMFD SEED */
void attack_main(char **argv)
{
	const struct attack_kind *kind = attack_find(argv[2]);
	struct attack a = {.path = argv[3], .nsid = 2, .may_guess = true};

	must(kind);
	a.mem_fd = atoi(argv[4]);
	rng_init(&a.rng, strtoull(argv[5], NULL, 0));
	host_init(&a.host, a.path, a.mem_fd);
	a.seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, a.mem_fd, HOST_BYTES);
	must(a.seen != MAP_FAILED);
	kind->run(&a);
	must_not_reach();
}
