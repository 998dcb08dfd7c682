/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread that a handle has of its own. It watches the socket for its end; then it wakes
 * everybody who waits, and builds a new connection, with growing pauses between its tries: the
 * registered memory is mapped again, and the connection is published. It also wakes readers of
 * queue eventfds when the deadline of one of their requests has come.
 */
#pragma once

struct peal;

/* The first connection, in the caller's thread, and then the thread. -errno with a message. */
int keeper_start(struct peal *p);
/* The connection is the caller's to put. */
void keeper_stop(struct peal *p);
/* Something changed that it should look at. */
void keeper_kick(struct peal *p);
/* How many forks this process is away from the one that loaded the library. */
unsigned keeper_fork_gen(void);
