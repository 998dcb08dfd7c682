/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable array of any type. It may allocate, so it is for set-up, configuration, tests and
 * tools and not for the data path. `VEC(int) v = VEC_EMPTY;` declares one; vec_push() gives false
 * when there is no memory and leaves the array as it was. Elements move when it grows: keep
 * indices, not pointers.
 *
 * 	VEC(struct conf_ns) nss = VEC_EMPTY;
 * 	if (!vec_push(&nss, ns))
 * 		return -ENOMEM;
 * 	vec_for_each(&nss, p)
 * 		use(p);
 * 	vec_fini(&nss);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define VEC(type) \
	struct { \
		type *at; \
		size_t nr; \
		size_t nr_max; \
	}

#define VEC_EMPTY \
	{ \
		NULL, 0, 0 \
	}

/* Room for `want` elements of `size` bytes; false without memory. */
static inline bool vec_grow(void **at, size_t *nr_max, size_t want, size_t size)
{
	size_t nr = *nr_max ? *nr_max : 8;
	void *p;

	if (want <= *nr_max)
		return true;
	while (nr < want) {
		if (nr > SIZE_MAX / 2)
			return false;
		nr *= 2;
	}
	p = reallocarray(*at, nr, size);
	if (!p)
		return false;
	*at = p;
	*nr_max = nr;
	return true;
}

#define vec_init(v) ((v)->at = NULL, (v)->nr = 0, (v)->nr_max = 0)
#define vec_fini(v) (free((v)->at), vec_init(v))
#define vec_clear(v) ((void)((v)->nr = 0))

#define vec_reserve(v, want) \
	({ \
		void *vec_at_ = (v)->at; \
		bool vec_ok_ = vec_grow(&vec_at_, &(v)->nr_max, (want), sizeof(*(v)->at)); \
		(v)->at = vec_at_; \
		vec_ok_; \
	})

#define vec_push(v, ...) \
	({ \
		bool vec_pushed_ = vec_reserve(v, (v)->nr + 1); \
		if (vec_pushed_) \
			(v)->at[(v)->nr++] = (__VA_ARGS__); \
		vec_pushed_; \
	})

/* The last element, removed; the array must not be empty. */
#define vec_pop(v) ((v)->at[--(v)->nr])
#define vec_last(v) ((v)->at[(v)->nr - 1])

#define vec_for_each(v, p) for (__typeof__((v)->at) p = (v)->at; p && p < (v)->at + (v)->nr; p++)
