/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing a descriptor that somebody else made. close() of the last reference to a file runs what
 * that file has to say about it, and may wait: a socket with SO_LINGER for its peer, a file of FUSE
 * or of a network for its server, a terminal for its line. Whoever sends us such a one and closes
 * its own would choose how long we stand still.
 *
 * Memory files and eventfds, which is what clients have reason to send, are closed at once: they
 * never wait. For anything else a thread is made, which may take as long as it likes; with
 * FD_DROP_THREADS of them under way the descriptor waits for one that gets away.
 */
#ifndef CORE_FD_DROP_H
#define CORE_FD_DROP_H

#include <stdbool.h>

/* Files of shmem (memfd, /dev/shm) and hugetlbfs. Asks nobody but the kernel, never waits. */
bool fd_drop_is_memory(int fd);
bool fd_drop_is_eventfd(int fd);

/*
 * Never waits. Any thread. While more than FD_DROP_MANY are open still, take nothing new from
 * anybody: a message may carry 253.
 */
#define FD_DROP_THREADS 16u
#define FD_DROP_MANY 1024u
void fd_drop(int fd);
unsigned fd_drop_nr_stuck(void); /* not closed yet */

#endif
