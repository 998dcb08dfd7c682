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
 * taken away only when nobody answers behind it; of a process that was killed it may listen for a
 * while (linger.h), which is waited for. The descriptor, or -errno: -EADDRINUSE when somebody
 * listens there already, -EEXIST when something else is there, -ENAMETOOLONG.
 */
int usock_listen(const char *path, int backlog);

/*
 * The folder that sockets of ours are in, made with mode 0755 if it isn't there. -EPERM: neither
 * root nor this user owns it, or everybody may write there and take our names away; -errno.
 */
int usock_folder_make(const char *dir);

/*
 * Connects fd, a stream socket, to path and makes sure who listens there: root, this user, or
 * whoever owns the folder when others can't rename what is in it. 0 or -errno: -ENAMETOOLONG;
 * -EPERM: it is somebody else. Nothing has been said to him.
 */
int usock_connect(int fd, const char *path);

/* Who connected, by the kernel's word. 0 or -errno. */
int usock_peer(int fd, uid_t *uid, pid_t *pid);
