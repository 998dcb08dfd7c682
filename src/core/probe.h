/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static trace points: PEAL_PROBE(name, up to 12 integers or pointers) is a nop and a note in the
 * ELF file that perf, bpftrace and SystemTap find as usdt:peald:peal:name. Where <sys/sdt.h> is
 * missing, or with -Dprobes=disabled, it is nothing. meson chooses by writing core/probe_impl.h.
 */
#ifndef CORE_PROBE_H
#define CORE_PROBE_H

#include "core/probe_impl.h"

#endif
