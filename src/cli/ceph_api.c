/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ceph_api.h.
 * tidy: no-test: it takes a cluster, test/ceph/test_doctor.py and test_expire.py
 */
#include "cli/ceph_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct ceph_api ceph_api;

static const struct {
	const char *name;
	void *fn;
} api_names[] = {
	{"rados_create", &ceph_api.create},
	{"rados_conf_read_file", &ceph_api.read_file},
	{"rados_conf_set", &ceph_api.conf_set},
	{"rados_connect", &ceph_api.connect},
	{"rados_shutdown", &ceph_api.shutdown},
	{"rados_cluster_fsid", &ceph_api.fsid},
	{"rados_ioctx_create", &ceph_api.io_create},
	{"rados_ioctx_destroy", &ceph_api.io_destroy},
	{"rados_ioctx_set_namespace", &ceph_api.io_space},
	{"rados_get_last_version", &ceph_api.io_version},
	{"rados_stat", &ceph_api.stat},
	{"rados_getxattr", &ceph_api.getxattr},
	{"rados_object_list_begin", &ceph_api.list_begin},
	{"rados_object_list_end", &ceph_api.list_end},
	{"rados_object_list_cursor_free", &ceph_api.list_cursor_free},
	{"rados_object_list_cursor_cmp", &ceph_api.list_cmp},
	{"rados_object_list_slice", &ceph_api.list_slice},
	{"rados_object_list", &ceph_api.list},
	{"rados_object_list_free", &ceph_api.list_free},
	{"rados_create_write_op", &ceph_api.op_create},
	{"rados_release_write_op", &ceph_api.op_release},
	{"rados_write_op_assert_exists", &ceph_api.op_exists},
	{"rados_write_op_assert_version", &ceph_api.op_version},
	{"rados_write_op_remove", &ceph_api.op_remove},
	{"rados_write_op_operate", &ceph_api.op_operate},
	{"rados_mon_command", &ceph_api.mon_command},
	{"rados_buffer_free", &ceph_api.buffer_free},
};

bool ceph_api_load(void)
{
	void *lib = dlopen("librados.so.2", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; lib && i < sizeof(api_names) / sizeof(api_names[0]); i++) {
		void *fn = dlsym(lib, api_names[i].name);

		if (!fn)
			return false;
		memcpy(api_names[i].fn, &fn, sizeof(fn));
	}
	return lib;
}

const char *ceph_api_user(const struct ceph_words *w)
{
	return w->user[0] ? w->user : "peal";
}

int ceph_api_connect(const struct ceph_words *w, const char *conf, const char *wait_s, void **out)
{
	static const char *const waits[] = {"client_mount_timeout", "rados_mon_op_timeout",
					    "rados_osd_op_timeout"};
	void *cluster;
	int err = ceph_api.create(&cluster, ceph_api_user(w));

	if (err)
		return err;
	err = ceph_api.read_file(cluster, conf);
	if (!err && w->keyring[0])
		err = ceph_api.conf_set(cluster, "keyring", w->keyring);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]) && !err; i++)
		err = ceph_api.conf_set(cluster, waits[i], wait_s);
	if (!err)
		err = ceph_api.connect(cluster);
	if (err)
		ceph_api.shutdown(cluster);
	else
		*out = cluster;
	return err;
}
