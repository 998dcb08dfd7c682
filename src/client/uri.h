/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peal_open() takes, taken apart:
 *
 *	vfu:/run/peal/cntrl                   a socket, or the folder it is in
 *	spawn:/tmp/x?dram=1G&linger=600       a folder with a daemon of its own
 *	spawn:/tmp/x?dram=8G&ssd=100G         which keeps what memory gives up in /tmp/x/ssd
 *
 * Strict: an unknown scheme, option or value is -EINVAL, and errmsg says which and what was
 * expected. Pure, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define URI_PATH_BYTES 108 /* what sockaddr_un takes */

struct uri {
	bool is_spawn;
	char path[URI_PATH_BYTES]; /* the socket */
	char dir[URI_PATH_BYTES];  /* spawn: its folder */
	uint64_t dram_bytes;	   /* spawn; 0 = the daemon's default */
	uint64_t ssd_bytes;	   /* spawn; 0 = no SSD */
	uint64_t linger_s;
	uint64_t nr_reactors; /* 0 = the daemon's default */
};

int uri_parse(const char *text, struct uri *u);
