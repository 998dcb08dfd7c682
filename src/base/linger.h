/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process that was killed still has. The kernel ends its io_uring requests behind its death:
 * its pid is gone, and for some milliseconds, with a slow disk for seconds, the files that they
 * name are open: locks are held, sockets listen. Who takes such a thing over waits for that, but
 * not for somebody who lives. Any thread that may sleep.
 */
#pragma once

#include <stdbool.h>

/* How often it is worth to look again, linger_wait() between: ten seconds in all. */
#define LINGER_TRIES 500u

/* Is this process neither gone nor about to be? */
bool linger_is_alive(int pid);

void linger_wait(void);

/* flock(), exclusive. 0 or -errno: -EBUSY: who has it lives, or still has it after all tries. */
int linger_lock(int fd);
