/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to numbers and keys and back; parse.h has the grammar. Nothing here depends on the locale,
 * which strtod() and printf's %f would. Pure functions, any thread.
 */
#include "base/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"

static const char parse_units[] = "kmgtpe";

static char parse_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int parse_digit(char c, unsigned base)
{
	int d = -1;

	c = parse_lower(c);
	if (c >= '0' && c <= '9')
		d = c - '0';
	else if (c >= 'a' && c <= 'f')
		d = c - 'a' + 10;
	return d < (int)base ? d : -1;
}

/* Digits at *s as a number; *s moves behind them. */
static int parse_digits(const char **s, unsigned base, uint64_t *v)
{
	uint64_t x = 0;
	const char *p = *s;
	int d;

	while ((d = parse_digit(*p, base)) >= 0) {
		if (__builtin_mul_overflow(x, (uint64_t)base, &x) ||
		    __builtin_add_overflow(x, (uint64_t)d, &x))
			return -ERANGE;
		p++;
	}
	if (p == *s)
		return -EINVAL;
	*s = p;
	*v = x;
	return 0;
}

static bool parse_is_hex(const char *s)
{
	return s[0] == '0' && parse_lower(s[1]) == 'x';
}

int parse_u64(const char *s, uint64_t *v)
{
	unsigned base = parse_is_hex(s) ? 16 : 10;
	uint64_t x;
	int err;

	if (base == 16)
		s += 2;
	err = parse_digits(&s, base, &x);
	if (err)
		return err;
	if (*s)
		return -EINVAL;
	*v = x;
	return 0;
}

/*
 * The fraction behind a point in units of 10^-9; further digits can't matter below a byte of 1
 * GiB.
 */
static int parse_fraction(const char **s, uint64_t *nano)
{
	const char *p = *s;
	uint64_t x = 0, scale = 100000000;

	while (*p >= '0' && *p <= '9') {
		x += scale * (uint64_t)(*p - '0');
		scale /= 10;
		p++;
	}
	if (p == *s)
		return -EINVAL;
	*s = p;
	*nano = x;
	return 0;
}

/* The shift of a unit such as "", "b", "k", "kb", "kib"; negative when it is none. */
static int parse_unit(const char *s)
{
	const char *u;
	int shift = 0;

	if (*s && (u = strchr(parse_units, parse_lower(*s)))) {
		shift = 10 * (int)(u - parse_units + 1);
		s++;
		if (parse_lower(s[0]) == 'i' && parse_lower(s[1]) == 'b')
			s++;
	}
	if (parse_lower(*s) == 'b')
		s++;
	return *s ? -EINVAL : shift;
}

int parse_size(const char *s, uint64_t *bytes)
{
	uint64_t whole, nano = 0;
	bool has_point;
	int shift, err;

	err = parse_digits(&s, 10, &whole);
	if (err)
		return err;
	has_point = *s == '.';
	if (has_point) {
		s++;
		err = parse_fraction(&s, &nano);
		if (err)
			return err;
	}
	if (*s == ' ')
		s++;
	shift = parse_unit(s);
	if (shift < 0 || (has_point && !shift))
		return -EINVAL;
	if (whole > UINT64_MAX >> shift)
		return -ERANGE;
	*bytes = (whole << shift) + (uint64_t)((((unsigned __int128)nano) << shift) / 1000000000);
	return 0;
}

int parse_size_within(const char *s, uint64_t min, uint64_t max, uint64_t *bytes,
		      char expected[PARSE_EXPECTED_BYTES])
{
	char lo[16], hi[16];
	uint64_t got;
	int err = parse_size(s, &got);

	if (!err && got >= min && got <= max) {
		*bytes = got;
		return 0;
	}
	format_size(min, lo);
	format_size(max, hi);
	snprintf(expected, PARSE_EXPECTED_BYTES, "a size from %s to %s, as in 64K or 8G", lo, hi);
	return err ? err : -ERANGE;
}

int parse_u64_within(const char *s, uint64_t min, uint64_t max, uint64_t *v,
		     char expected[PARSE_EXPECTED_BYTES])
{
	uint64_t got;
	int err = parse_u64(s, &got);

	if (!err && got >= min && got <= max) {
		*v = got;
		return 0;
	}
	snprintf(expected, PARSE_EXPECTED_BYTES, "a number from %llu to %llu",
		 (unsigned long long)min, (unsigned long long)max);
	return err ? err : -ERANGE;
}

static int parse_key_hex(const char *s, uint8_t key[PARSE_KEY_MAX], uint8_t *len)
{
	size_t nr = strlen(s);
	uint8_t k[PARSE_KEY_MAX] = {0};
	int hi, lo;

	if (!nr || nr % 2)
		return -EINVAL;
	if (nr > 2 * PARSE_KEY_MAX)
		return -ERANGE;
	for (size_t i = 0; i < nr; i += 2) {
		hi = parse_digit(s[i], 16);
		lo = parse_digit(s[i + 1], 16);
		if (hi < 0 || lo < 0)
			return -EINVAL;
		k[i / 2] = (uint8_t)(hi << 4 | lo);
	}
	memcpy(key, k, sizeof(k));
	*len = (uint8_t)(nr / 2);
	return 0;
}

int parse_key(const char *s, uint8_t key[PARSE_KEY_MAX], uint8_t *len)
{
	size_t nr;

	if (parse_is_hex(s))
		return parse_key_hex(s + 2, key, len);
	nr = strlen(s);
	if (!nr)
		return -EINVAL;
	if (nr > PARSE_KEY_MAX)
		return -ERANGE;
	memset(key, 0, PARSE_KEY_MAX);
	memcpy(key, s, nr);
	*len = (uint8_t)nr;
	return 0;
}

/* tidy: format_ is the way back of parse_ */
void format_size(uint64_t bytes, char buf[16])
{
	unsigned unit = 0;
	uint64_t whole, tenths;

	if (bytes < 1024) {
		snprintf(buf, 16, "%u B", (unsigned)bytes);
		return;
	}
	/* A value that would be shown as 1024.0 of a unit belongs to the next one. */
	while (unit < sizeof(parse_units) - 2 && bytes >> (10 * (unit + 1)) >= 1024)
		unit++;
	whole = bytes >> (10 * (unit + 1));
	tenths = ((bytes >> (10 * unit)) & 1023) * 10 / 1024;
	snprintf(buf, 16, "%u.%u %ciB", (unsigned)whole, (unsigned)tenths,
		 parse_units[unit] - 'a' + 'A');
}

/* tidy: format_ is the way back of parse_ */
void format_key(const uint8_t *key, uint8_t len, char buf[PARSE_KEY_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	must(len <= PARSE_KEY_MAX);
	*buf++ = '0';
	*buf++ = 'x';
	for (unsigned i = 0; i < len; i++) {
		*buf++ = digits[key[i] >> 4];
		*buf++ = digits[key[i] & 15];
	}
	*buf = '\0';
}
