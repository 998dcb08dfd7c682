/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who shares what: a party is what comes from one address under one host NQN, with all its
 * connections. Of what there is a bounded number of - connections, controllers, and on each worker
 * requests and buffers - it may have more as long as that isn't more than twice what is left then.
 * So one that wants all has two thirds of it, two have two fifths each, and whoever comes finds
 * some. While there is no other, a party leaves an eighth to the next.
 *
 * An address may have so many connections that haven't said who they are, and so many names.
 * Parties are the home's, and live as long as one of their connections; their shares of the workers
 * are tcp_share.c's.
 */
/* tidy: no-test: test/peer/tcp_bound.py */
#include "transport/tcp/tcp_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTY_NAMES_MAX 32u /* of one address */

bool tcp_party_is_allowed(const struct tcp_tr *t, const char *hostnqn)
{
	size_t n = strlen(hostnqn);

	for (const char *at = t->hosts, *end; *at; at = *end ? end + 1 : end) {
		end = strchrnul(at, ',');
		if ((size_t)(end - at) == n && memcmp(at, hostnqn, n) == 0)
			return true;
	}
	return !t->hosts[0];
}

bool tcp_party_may(bool is_alone, struct tcp_quota q)
{
	if (q.left < q.more)
		return false;
	return is_alone ? q.left - q.more >= q.keep : q.has + q.more <= 2 * q.left;
}

static bool party_is(const struct tcp_party *p, const struct tcp_conn *c)
{
	return strcmp(p->addr, c->addr) == 0;
}

static struct tcp_party *party_create(struct tcp_tr *t, const struct tcp_conn *c, const char *name)
{
	struct tcp_party *p = calloc(1, sizeof(*p) + t->node->nr * sizeof(p->of[0]));

	if (!p)
		return NULL;
	for (unsigned i = 0; i < t->node->nr; i++)
		tcp_share_init(&p->of[i]);
	memcpy(p->addr, c->addr, sizeof(p->addr));
	memcpy(p->hostnqn, name, strnlen(name, NVMF_NQN_MAX));
	list_add_tail(&t->parties, &p->node);
	t->nr_parties++;
	return p;
}

static void party_free(struct tcp_tr *t, struct tcp_party *p)
{
	if (p->nr_conns)
		return;
	list_del(&p->node);
	t->nr_parties--;
	free(p);
}

static bool party_may_come(const struct tcp_tr *t, const struct tcp_party *p, bool is_admin)
{
	bool is_alone = t->nr_parties == 1;
	struct tcp_quota conns = {.has = p->nr_conns,
				  .left = t->max_conns - t->nr_conns, /* without this one */
				  .keep = TCP_PARTY_KEPT(t->max_conns)};
	struct tcp_quota ctrls = {.has = p->nr_ctrls,
				  .more = 1,
				  .left = TCP_CTRLS - t->nr_ctrls,
				  .keep = TCP_PARTY_KEPT(TCP_CTRLS)};

	return tcp_party_may(is_alone, conns) && (!is_admin || tcp_party_may(is_alone, ctrls));
}

int tcp_party_get(struct tcp_conn *c, const char *hostnqn, bool is_admin)
{
	struct tcp_tr *t = c->tcp;
	struct tcp_party *p, *found = NULL;
	unsigned nr_names = 0;

	list_for_each_entry(p, &t->parties, node) {
		nr_names += party_is(p, c);
		if (party_is(p, c) && strcmp(p->hostnqn, hostnqn) == 0)
			found = p;
	}
	if (!found && nr_names >= PARTY_NAMES_MAX)
		return -EUSERS;
	p = found ? found : party_create(t, c, hostnqn);
	if (!p)
		return -ENOMEM;
	if (!party_may_come(t, p, is_admin)) {
		party_free(t, p);
		return -EUSERS;
	}
	p->nr_conns++;
	p->nr_ctrls += is_admin;
	c->party = p;
	return 0;
}

void tcp_party_put(struct tcp_conn *c, bool is_admin)
{
	struct tcp_party *p = c->party;

	if (!p)
		return;
	must(p->nr_conns > 0 && p->nr_ctrls >= is_admin);
	p->nr_conns--;
	p->nr_ctrls -= is_admin;
	c->party = NULL;
	party_free(c->tcp, p);
}

bool tcp_party_may_knock(const struct tcp_tr *t, const char *addr)
{
	const struct tcp_conn *c;
	unsigned nr = 0;

	list_for_each_entry(c, &t->conns, node)
		nr += !c->party && strcmp(c->addr, addr) == 0;
	return nr < max_t(unsigned, t->max_conns / 4, 8);
}
