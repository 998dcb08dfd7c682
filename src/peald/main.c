/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peald: the program as a list. Options, guards, parts, threads; then the main thread waits for a
 * signal to stop.
 * tidy: no-test: test/peer starts the real thing
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/log_thread.h"
#include "base/parse.h"
#include "ctl/rpc.h"
#include "mem/mem.h"
#include "peald/peald_node.h"

#define MAIN_LOG_WAIT_MS 1000u

/*
 * Whoever started us may have closed them, and what we open first would be them: an eventfd as
 * stderr takes the log and wakes a reactor for each line of it.
 */
static bool main_has_std(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
			return false;
	}
	return true;
}

static void main_limits(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	signal(SIGPIPE, SIG_IGN);
}

static void main_block(sigset_t *stop)
{
	sigemptyset(stop);
	sigaddset(stop, SIGTERM);
	sigaddset(stop, SIGINT);
	pthread_sigmask(SIG_BLOCK, stop, NULL);
}

int main(int argc, char **argv)
{
	struct peald_node *node = NULL;
	struct conf *c;
	sigset_t stop;
	char size[16];
	int sig, err;

	if (!main_has_std()) {
		log_err("peald does not start: /dev/null: %s", strerror(errno));
		return 1;
	}
	c = conf_create();
	if (!c) {
		log_err("peald does not start: configuration: %s", strerror(ENOMEM));
		return 1;
	}
	rpc_mem_init();
	opt_args_parse(argc, argv, c);
	log_set_level(c->log_level);
	main_limits();
	main_block(&stop);
	err = log_thread_start(STDERR_FILENO);
	if (err)
		log_err("peald does not start: thread of the log: %s", strerror(-err));
	if (!err) {
		err = mem_guard_init();
		if (err)
			log_err("peald does not start: signal handlers: %s", strerror(-err));
	}
	/* These two say by themselves what failed. */
	if (err || peald_node_create(c, &node) || peald_node_start(node)) {
		log_thread_stop(MAIN_LOG_WAIT_MS);
		return 1;
	}
	format_size(c->dram_bytes, size);
	log_info("peald %s: pid %d, %s of DRAM, %u reactor%s, seals by %s, listening on %s/cntrl",
		 PEAL_VERSION, (int)getpid(), size, c->nr_reactors, c->nr_reactors == 1 ? "" : "s",
		 hash_isa_name(), c->vfu.dir);
	while (sigwait(&stop, &sig))
		;
	log_info("signal %d: stopping", sig);
	peald_node_stop(node);
	peald_node_destroy(node);
	conf_destroy(c);
	log_info("stopped");
	log_thread_stop(MAIN_LOG_WAIT_MS);
	return 0;
}
