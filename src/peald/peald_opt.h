/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peald's command line: one table behind parsing and --help. Sizes are checked against the machine
 * here, once; what is wrong is named with its value and what was expected, and ends the program
 * with status 2.
 */
#ifndef PEALD_PEALD_OPT_H
#define PEALD_PEALD_OPT_H

#include <stdbool.h>
#include <stdint.h>

#define PEALD_NS_MAX 64

struct peald_ns_opt {
	char name[64];
	uint64_t bytes;
	bool is_mutable; /* ",rw": values of a key may change; default: same key, same bytes */
};

struct peald_opts {
	const char *dir;
	const char *record_dir;
	uint64_t dram_bytes;
	uint64_t linger_s; /* 0 = for ever */
	uint64_t poll_ns;
	uint32_t nr_reactors;
	uint32_t value_max;
	uint32_t max_keys;
	uint32_t max_clients;
	uint32_t nr_ns;
	bool is_busy;
	bool is_mutable; /* --no-immutable: of the namespaces that don't say */
	struct peald_ns_opt ns[PEALD_NS_MAX];
};

/* Does not return on --help, --version and errors. */
void peald_opt_parse(int argc, char **argv, struct peald_opts *o);

/* MemAvailable of /proc/meminfo, bytes; 0 when it can't be read. */
uint64_t peald_opt_mem_available(void);

#endif
