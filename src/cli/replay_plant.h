/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bit flipped in the memory of a running daemon, as a bad DIMM or a stray write would do it: the
 * value's first bytes are looked for in the shared-memory mappings of the process (its arenas) and
 * one of their bits is turned over through /proc/PID/mem. Only for tests and demonstrations; needs
 * the right to trace that process. One thread; keeps nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How many bytes of a value say where it is. */
#define REPLAY_PLANT_BYTES 64u

/*
 * Flips one bit of each place where the process has these bytes in shared memory: of the value,
 * and of what is left of it in room that is free again. How many places, or -errno: -ENOENT none,
 * -EACCES not allowed, -ESRCH no such process.
 */
int replay_plant(pid_t pid, const uint8_t head[REPLAY_PLANT_BYTES]);
