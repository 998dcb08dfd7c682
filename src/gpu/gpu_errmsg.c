/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See gpu_errmsg.h. A message is cut where it is too long, never missing. Any thread.
 */
/* tidy: no-test: t_gpu.c reads messages */
#include "gpu/gpu_errmsg.h"

#include <stdarg.h>
#include <stdio.h>

#include "peal/gpu.h"

static _Thread_local char text[320];

int gpu_errmsg_set(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err;
}

const char *peal_gpu_errmsg(void)
{
	return text;
}
