/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See peald_id.h. Containers of one image share the machine's id and often the folder's name; the
 * host name is what tells them apart.
 * tidy: no-test: test/peer/options.py starts two daemons and compares
 */
#include "peald/peald_id.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"

static void id_add(struct hash_stream *st, const char *text)
{
	hash_stream_add(st, text, strlen(text) + 1);
}

static void id_add_machine(struct hash_stream *st)
{
	auto_close int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	char buf[64] = "";
	ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);

	buf[n < 0 ? 0 : n] = '\0';
	id_add(st, buf);
	if (gethostname(buf, sizeof(buf) - 1))
		buf[0] = '\0';
	id_add(st, buf);
}

static uint64_t id_hash(const char *text, const char *dir, uint64_t seed)
{
	auto_free char *full = realpath(dir, NULL);
	struct hash_stream st;

	hash_stream_init(&st, seed);
	id_add(&st, text);
	if (!text[0]) {
		id_add_machine(&st);
		id_add(&st, full ? full : dir);
	}
	return hash_stream_digest(&st);
}

void peald_id_make(const char *text, const char *dir, struct peald_id *id)
{
	uint64_t a = id_hash(text, dir, 1), b = id_hash(text, dir, 2);

	/* RFC 9562: version 8, our own making; variant 10b. */
	a = (a & ~0xf000ull) | 0x8000;
	b = (b & ~(3ull << 62)) | 1ull << 63;
	snprintf(id->nqn, sizeof(id->nqn),
		 "nqn.2014-08.org.nvmexpress:uuid:%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32),
		 (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xffff), (unsigned)(b >> 48),
		 (unsigned long long)(b & 0xffffffffffffull));
	snprintf(id->serial, sizeof(id->serial), "%016llx%04x", (unsigned long long)a,
		 (unsigned)(b & 0xffff));
}
