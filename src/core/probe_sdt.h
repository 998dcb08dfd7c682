/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h over SystemTap's <sys/sdt.h> (package systemtap-sdt-dev): no library, no cost but the
 * nop.
 */
#ifndef CORE_PROBE_SDT_H
#define CORE_PROBE_SDT_H

/* Asks for the form that takes any number of arguments. */
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>

#define PEAL_PROBE(name, ...) STAP_PROBEV(peal, name, ##__VA_ARGS__)

#endif
