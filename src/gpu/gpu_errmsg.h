/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text behind an error of libpeal-gpu, one for each thread: peal_gpu_errmsg() reads it. Any
 * thread.
 */
#ifndef GPU_GPU_ERRMSG_H
#define GPU_GPU_ERRMSG_H

/* Formats the thread's message and returns err. */
__attribute__((format(printf, 2, 3))) int gpu_errmsg_set(int err, const char *fmt, ...);

#endif
