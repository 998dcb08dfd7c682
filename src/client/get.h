/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What RETRIEVE_EX's block says of a value, read in one place: get.c asks for one value at a time,
 * batch_wave.c for many. Any thread.
 */
#pragma once

#include "client/call.h"

/* 0; -ENOENT, counted and with a message: the value has another tag than `want` (NULL: any). */
int get_check_tag(const struct call *call, const uint8_t *want, const struct peal_retrieve_ex *x);
struct peal_meta get_meta(const struct peal_retrieve_ex *x);
