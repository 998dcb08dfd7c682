/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of peal.h for a sweep (nth_client.c): each as a function that checks what it got, and
 * what they work on. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nth.h"
#include "peal/peal.h"

struct nth_case {
	const char *name;
	int (*go)(void); /* 0, or the error that it gave; what is wrong ends the program */
	void (*after)(
		void); /* takes away what a half may have left, without a fault; NULL: nothing */
};
extern const struct nth_case nth_cases[]; /* ended by a name that is NULL */

struct nth_at {
	struct nth_page *page;
	struct peal *p; /* the handle under test; NULL in `open` */
	const char *uri;
	const char *name; /* of the case */
	uint64_t n;
};
extern struct nth_at nth_at;

/* A line that says what is wrong, and the end. */
void nth_wrong(const char *what, long v);
void nth_check(bool is_right, const char *what, long v);
/* The handle, and the values that the calls find. `open` wants only the first of them. */
void nth_calls_init(void);
void nth_calls_open(void);
void nth_calls_fini(void);
/* A get by the handle that has to be right: 0, or its error. */
int nth_calls_look(void);
