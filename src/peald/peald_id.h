/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this daemon is to a host: NQN and serial number. Two daemons must not look like one subsystem
 * (a host takes the second for another path to the first: Linux, drivers/nvme/host/core.c,
 * nvme_init_subsystem()), and one that was restarted has to be the same again. Main thread.
 */
#ifndef PEALD_PEALD_ID_H
#define PEALD_PEALD_ID_H

struct peald_id {
	char nqn[72];	 /* nqn.2014-08.org.nvmexpress:uuid:..., Base 2.0, 4.7 */
	char serial[21]; /* 20 hexadecimal digits */
};

/* From text; "": from the machine's id, its name and the folder that it listens in. */
void peald_id_make(const char *text, const char *dir, struct peald_id *id);

#endif
