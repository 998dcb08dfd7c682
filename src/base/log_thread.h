/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink for log.h that never makes a thread wait for whoever reads the log: lines go into a ring
 * of LOG_THREAD_BYTES, and a thread of its own writes them out. A pipe that nobody empties, a
 * stopped terminal or a slow collector costs lines, which are counted and told when there is room
 * again, and never a reactor's turn.
 *
 *   log_line() --memcpy--> ring --write(2), this thread alone--> fd
 */
#pragma once

#include <stdint.h>

#define LOG_THREAD_BYTES (256u << 10)

/* From now on, to fd, which the caller keeps. Once at a time. 0 or -errno. */
int log_thread_start(int fd);
/*
 * What is in the ring is written, for at most wait_ms; then lines go to stderr as before. Lines
 * that nobody has taken by then are lost.
 */
void log_thread_stop(uint32_t wait_ms);
/* Lines that had no room, since the start. Any thread. */
uint64_t log_thread_lost(void);
