/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text behind peal_errmsg(): one buffer per thread, written where an error is found, by the
 * function that knows the key, the value that was wrong and what was expected. Also the one place
 * where NVMe statuses become errno. Values never appear in a text. Any thread.
 */
#pragma once

#include <stdint.h>
#include "peal/peal.h"

#define ERRMSG_KEY_BYTES 40

/* Formats the thread's message and returns err, so that `return errmsg_set(-EINVAL, ...)` reads. */
__attribute__((format(printf, 2, 3))) int errmsg_set(int err, const char *fmt, ...);

/* A key as a person would write it: its text when it is printable, hex otherwise. */
const char *errmsg_key(const struct peal_key *k, char buf[ERRMSG_KEY_BYTES]);

/* The errno of a status (enum nvme_st, DNR ignored); 0 for success. No message. */
int errmsg_errno(uint16_t status);

/* errmsg_errno() with the message "VERB KEY: status text"; 0 and no message on success. */
int errmsg_status(uint16_t status, const char *verb, const struct peal_key *k);
