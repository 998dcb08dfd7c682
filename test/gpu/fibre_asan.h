/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AddressSanitizer has to be told when the stack changes; without it nothing is to be done. Used by
 * fibre.c alone.
 */
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define fibre_leave(save, stack, bytes) __sanitizer_start_switch_fiber(save, stack, bytes)
#define fibre_enter(save, from, bytes) __sanitizer_finish_switch_fiber(save, from, bytes)
#else
#define fibre_leave(save, stack, bytes) ((void)(save), (void)(stack), (void)(bytes))
#define fibre_enter(save, from, bytes) ((void)(save), (void)(from), (void)(bytes))
#endif
