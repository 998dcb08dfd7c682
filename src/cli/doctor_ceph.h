/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of peal doctor about a Ceph cluster: its conf, its monitors, a pool, what a user may do
 * there, how much one write may carry. librados is loaded when it is asked, so that peal(1) runs
 * without it. Nothing is written to the cluster. Each question has 2 s. Main thread.
 */
#ifndef CLI_DOCTOR_CEPH_H
#define CLI_DOCTOR_CEPH_H

#include "cli/doctor.h"
#include "store/rados/ceph_words.h"

struct doctor_ceph {
	struct ceph_words words; /* of a rados tier */
	const char *id;
	char where[512]; /* the conf that is read */
	bool is_asked;
	bool is_loaded; /* librados */
	void *cluster;	/* connected, or NULL */
	void *io;
};

/* 0 or -EINVAL. NULL: only what the machine's conf tells, as client.peal, the tier's default. */
int doctor_ceph_parse(const char *text, struct doctor_ceph *dc);
void doctor_ceph_close(struct doctor_ceph *dc);

/* In this order; each skips what the one before has shown not to be there. */
enum doctor_state doctor_ceph_conf(struct doctor *d);
enum doctor_state doctor_ceph_mon(struct doctor *d);
enum doctor_state doctor_ceph_pool(struct doctor *d);
enum doctor_state doctor_ceph_rights(struct doctor *d);
enum doctor_state doctor_ceph_write(struct doctor *d);

#endif
