/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people write on command lines and in configuration, and back: sizes, numbers, keys. Strict:
 * all of the string must be used, no sign, no overflow. Errors are -EINVAL for what can't be read
 * and -ERANGE for what doesn't fit; the out parameters are then untouched. Pure functions, any
 * thread.
 */
#pragma once

#include <stdint.h>

#define PARSE_KEY_MAX 16
/* "0x", 32 digits, NUL. */
#define PARSE_KEY_TEXT_BYTES 35

/*
 * "4096", "64K", "8G", "1.5GiB", "512kb". Units are powers of 1024 whether written K, KB or KiB, in
 * any case. A fraction needs a unit and is rounded down to whole bytes.
 */
int parse_size(const char *s, uint64_t *bytes);

/* Decimal, or hexadecimal after 0x. */
int parse_u64(const char *s, uint64_t *v);

/*
 * The same with -ERANGE outside min..max as well. On failure, and only then, `expected` is the end
 * of a message: "a size from 1.0 MiB to 64.0 TiB, as in 8G", "a number from 1 to 32".
 */
#define PARSE_EXPECTED_BYTES 80
int parse_size_within(const char *s, uint64_t min, uint64_t max, uint64_t *bytes,
		      char expected[PARSE_EXPECTED_BYTES]);
int parse_u64_within(const char *s, uint64_t min, uint64_t max, uint64_t *v,
		     char expected[PARSE_EXPECTED_BYTES]);

/*
 * A key of 1 to 16 bytes: "0x" and an even number of hex digits, or else the text's own bytes. What
 * is left of key[] is set to zero.
 */
int parse_key(const char *s, uint8_t key[PARSE_KEY_MAX], uint8_t *len);

/* "512 B", "4.0 KiB", "1.5 GiB": at most 15 characters. */
void format_size(uint64_t bytes, char buf[16]);

/* Always the hex form, which parse_key() reads back to the same bytes. */
void format_key(const uint8_t *key, uint8_t len, char buf[PARSE_KEY_TEXT_BYTES]);
