/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librados for commands that speak to a cluster themselves: loaded when one is asked for, so that
 * peal(1) runs, and is built, without it. Its C interface since 10.2. Main thread; every call
 * waits.
 */
#ifndef CLI_CEPH_API_H
#define CLI_CEPH_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "store/rados/ceph_words.h"

/* rados_object_list_item. Its strings have no zero at their ends. */
struct ceph_api_item {
	size_t oid_length;
	char *oid;
	size_t nspace_length;
	char *nspace;
	size_t locator_length;
	char *locator;
};

struct ceph_api {
	int (*create)(void **cluster, const char *id);
	int (*read_file)(void *cluster, const char *path);
	int (*conf_set)(void *cluster, const char *option, const char *value);
	int (*connect)(void *cluster);
	void (*shutdown)(void *cluster);
	int (*fsid)(void *cluster, char *buf, size_t len);
	int (*io_create)(void *cluster, const char *pool, void **io);
	void (*io_destroy)(void *io);
	void (*io_space)(void *io, const char *space);
	uint64_t (*io_version)(void *io); /* of the object of the last call */
	int (*stat)(void *io, const char *oid, uint64_t *size, time_t *mtime);
	int (*getxattr)(void *io, const char *oid, const char *name, char *buf, size_t len);
	/* Cursors, all of them made before they are given to be moved. */
	void *(*list_begin)(void *io);
	void *(*list_end)(void *io);
	void (*list_cursor_free)(void *io, void *cursor);
	int (*list_cmp)(void *io, void *a, void *b);
	void (*list_slice)(void *io, void *start, void *end, size_t n, size_t of, void **from,
			   void **to);
	int (*list)(void *io, void *start, void *end, size_t nr, const char *filter,
		    size_t filter_len, struct ceph_api_item *items, void **next);
	void (*list_free)(size_t nr, struct ceph_api_item *items);
	void *(*op_create)(void);
	void (*op_release)(void *op);
	void (*op_exists)(void *op);
	void (*op_version)(void *op, uint64_t ver);
	void (*op_remove)(void *op);
	int (*op_operate)(void *op, void *io, const char *oid, time_t *mtime, int flags);
	int (*mon_command)(void *cluster, const char **cmd, size_t nr, const char *in,
			   size_t in_len, char **out, size_t *out_len, char **err, size_t *err_len);
	void (*buffer_free)(char *buf);
};
extern struct ceph_api ceph_api;

/* False: there is no librados.so.2, or it has not all of this. It is never unloaded. */
bool ceph_api_load(void);
/*
 * As w's user, or client.peal, the tier's default. conf: NULL, where librados looks. wait_s: of the
 * connecting and of each call. 0 or -errno, then *cluster is untouched.
 */
int ceph_api_connect(const struct ceph_words *w, const char *conf, const char *wait_s,
		     void **cluster);
const char *ceph_api_user(const struct ceph_words *w);

#endif
