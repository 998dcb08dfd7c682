/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checks of peal doctor share: a check looks at one thing, changes nothing, and says it in
 * one line, with what to do when it isn't good. Main thread.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

#define DOCTOR_TEXT_BYTES 400

enum doctor_state {
	DOCTOR_GOOD,
	DOCTOR_NOTE, /* works, but less well, or isn't needed here */
	DOCTOR_BAD,
	DOCTOR_SKIP, /* nobody asked, or a line before says why not: not printed */
};

struct doctor_ceph;

struct doctor {
	const struct cli *c;
	struct doctor_ceph *ceph;
	char text[DOCTOR_TEXT_BYTES];
};

__attribute__((format(printf, 3, 4))) static inline enum doctor_state doctor_say(
	struct doctor *d, enum doctor_state state, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->text, sizeof(d->text), fmt, ap);
	va_end(ap);
	return state;
}

#endif
