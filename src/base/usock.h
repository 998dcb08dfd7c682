/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets that a daemon listens on: how one gets its name, and who is at the other end. Any
 * thread.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * A stream socket that listens at path, mode 0600, non-blocking, close-on-exec. A stale one is
 * taken away only when nobody answers behind it. The descriptor, or -errno: -EADDRINUSE when
 * somebody listens there already, -EEXIST when something else is there, -ENAMETOOLONG.
 */
int usock_listen(const char *path, int backlog);

/* Who connected, by the kernel's word. 0 or -errno. */
int usock_peer(int fd, uid_t *uid, pid_t *pid);
