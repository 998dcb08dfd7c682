/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instead of all the others where librados was missing when this was built: a namespace that wants
 * a rados tier isn't made, and the daemon doesn't start. See ceph.h.
 * tidy: no-test: there is nothing in it
 */
#include <errno.h>

#include "base/must.h"
#include "store/rados/ceph.h"

/* tidy: name: twin of ceph_link.c */
int ceph_link_open(const struct ceph_opts *o, struct ceph_link **link)
{
	return -ENOSYS;
}

/* tidy: name: twin of ceph_link.c */
void ceph_link_close(struct ceph_link *link)
{
	must(!link);
}

/* tidy: name: twin of ceph_link.c */
void ceph_link_close_from(struct ceph_link *link, struct ceph_closing *c)
{
	must(!link);
}

/* tidy: name: twin of ceph_link.c */
bool ceph_link_is_up(const struct ceph_link *link)
{
	return false;
}

/* tidy: name: twin of ceph_link.c */
void ceph_link_ready(struct ceph_link *link)
{
}

/* tidy: name: twin of ceph.c */
int ceph_create(struct ceph_link *link, uint16_t shard, struct store **s)
{
	return -ENOSYS;
}
