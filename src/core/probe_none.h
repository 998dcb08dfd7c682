/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h where there are no trace points: the arguments are checked by the compiler and not
 * evaluated.
 */
#ifndef CORE_PROBE_NONE_H
#define CORE_PROBE_NONE_H

static inline int probe_none(int unused, ...)
{
	return unused;
}

#define PEAL_PROBE(name, ...) ((void)sizeof(probe_none(0, ##__VA_ARGS__)))

#endif
