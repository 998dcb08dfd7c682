/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the client's tests share: a fake daemon with a handle on it, and values.
 */
#pragma once

#include "unit.h"

#include "fake_peald.h"
#include "peal/peal.h"

struct client {
	struct fake *f;
	struct peal *p;
};

static inline int client_setup(void **state, const struct fake_opts *o)
{
	struct client *c = calloc(1, sizeof(*c));

	c->f = fake_start(o);
	if (peal_open(fake_uri(c->f), &(struct peal_opts){.is_operator = true}, &c->p) < 0) {
		fprintf(stderr, "peal_open: %s\n", peal_errmsg());
		return -1;
	}
	*state = c;
	return 0;
}

static inline int client_teardown(void **state)
{
	struct client *c = *state;

	peal_close(c->p);
	fake_stop(c->f);
	free(c);
	return 0;
}

/* Bytes that are different at every place and for every seed. */
static inline void client_fill(uint8_t *v, size_t bytes, uint64_t seed)
{
	uint64_t x = seed * 0x9E3779B97F4A7C15ull + 1;

	for (size_t i = 0; i < bytes; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		v[i] = (uint8_t)(x >> 56);
	}
}
