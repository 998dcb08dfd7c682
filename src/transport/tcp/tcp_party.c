/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who shares what: a party is what comes from one address under one host NQN, with all its
 * connections. A host takes as many names as it likes, so what there is a bounded number of -
 * connections, controllers, and on each worker requests and buffers - is shared by addresses first,
 * and by an address's parties then.
 *
 *   an address may have more as long as that isn't more than twice what is left then: one that
 *   wants all has two thirds of it, two have two fifths each, and whoever comes finds some; a
 *   party of it likewise, of what its address may still have
 *
 * While there is no other party, one leaves an eighth to the next. While there is no other address,
 * its parties leave a sixteenth: what the first of them left is then for the second of them and
 * for the next address, half each. Near it a party may have three times what is left before it, so
 * that a third of them finds some, too.
 *
 * An address may have so many connections that haven't said who they are, and so many names.
 * Addresses and parties are the home's, and live as long as one of their connections; their shares
 * of the workers are tcp_share.c's.
 */
#include "transport/tcp/tcp_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/tcp/tcp_secrets.h"

#define PARTY_NAMES_MAX 32u /* of one address */

bool tcp_party_is_allowed(const struct tcp_tr *t, const char *hostnqn)
{
	size_t n = strlen(hostnqn);

	if (t->secrets && !tcp_secrets_find(t->secrets, hostnqn))
		return false;
	for (const char *at = t->hosts, *end; *at; at = *end ? end + 1 : end) {
		end = strchrnul(at, ',');
		if ((size_t)(end - at) == n && memcmp(at, hostnqn, n) == 0)
			return true;
	}
	return !t->hosts[0];
}

bool tcp_party_may(struct tcp_quota q)
{
	uint32_t keep = q.is_alone ? q.keep : q.is_addr_alone ? q.keep / 2 : 0;

	if (q.left < keep + q.more)
		return false;
	if (q.is_alone)
		return true;
	if (q.is_addr_alone)
		return q.has + q.more <= min_t(uint32_t, 2 * q.left, 3 * (q.left - keep));
	return q.addr_has + q.more <= 2 * q.left && q.has + q.more <= 2 * (2 * q.left - q.addr_has);
}

/* ---- addresses ---- */

void tcp_party_addr(const struct sockaddr_storage *sa, char addr[TCP_ADDR_BYTES])
{
	struct in6_addr six = ((const struct sockaddr_in6 *)sa)->sin6_addr;

	strcpy(addr, "?");
	if (sa->ss_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)sa)->sin_addr, addr,
			  TCP_ADDR_BYTES);
	} else if (sa->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six)) {
		inet_ntop(AF_INET, &six.s6_addr[12], addr, TCP_ADDR_BYTES);
	} else if (sa->ss_family == AF_INET6) {
		memset(&six.s6_addr[8], 0, 8);
		inet_ntop(AF_INET6, &six, addr, TCP_ADDR_BYTES);
	}
}

static struct tcp_addr *addr_find(const struct tcp_tr *t, const char *addr)
{
	struct tcp_addr *a;

	list_for_each_entry(a, &t->addrs, node)
		if (strcmp(a->addr, addr) == 0)
			return a;
	return NULL;
}

static struct tcp_addr *addr_create(struct tcp_tr *t, const char *addr)
{
	struct tcp_addr *a = calloc(1, sizeof(*a) + t->node->nr * sizeof(a->of[0]));

	if (!a)
		return NULL;
	snprintf(a->addr, sizeof(a->addr), "%s", addr);
	list_add_tail(&t->addrs, &a->node);
	t->nr_addrs++;
	return a;
}

static void addr_free(struct tcp_tr *t, struct tcp_addr *a)
{
	if (a->nr_parties)
		return;
	list_del(&a->node);
	t->nr_addrs--;
	free(a);
}

/* ---- parties ---- */

static struct tcp_party *party_find(const struct tcp_tr *t, const struct tcp_addr *a,
				    const char *name)
{
	struct tcp_party *p;

	list_for_each_entry(p, &t->parties, node)
		if (p->addr == a && strcmp(p->hostnqn, name) == 0)
			return p;
	return NULL;
}

static struct tcp_party *party_create(struct tcp_tr *t, struct tcp_addr *a, const char *name)
{
	struct tcp_party *p = calloc(1, sizeof(*p) + t->node->nr * sizeof(p->of[0]));

	if (!p)
		return NULL;
	for (unsigned i = 0; i < t->node->nr; i++)
		tcp_share_init(&p->of[i], &a->of[i]);
	p->addr = a;
	a->nr_parties++;
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
	p->addr->nr_parties--;
	free(p);
}

static bool party_may_come(const struct tcp_tr *t, const struct tcp_party *p, bool is_admin)
{
	struct tcp_quota conns = {.has = p->nr_conns,
				  .addr_has = p->addr->nr_conns,
				  .left = t->max_conns - t->nr_conns, /* without this one */
				  .keep = TCP_PARTY_KEPT(t->max_conns),
				  .is_alone = t->nr_parties == 1,
				  .is_addr_alone = t->nr_addrs == 1};
	struct tcp_quota ctrls = conns;

	ctrls.has = p->nr_ctrls;
	ctrls.addr_has = p->addr->nr_ctrls;
	ctrls.more = 1;
	ctrls.left = TCP_CTRLS - t->nr_ctrls;
	ctrls.keep = TCP_PARTY_KEPT(TCP_CTRLS);
	return tcp_party_may(conns) && (!is_admin || tcp_party_may(ctrls));
}

static int party_get(struct tcp_conn *c, struct tcp_addr *a, const char *hostnqn, bool is_admin)
{
	struct tcp_tr *t = c->tcp;
	struct tcp_party *p = party_find(t, a, hostnqn);

	if (!p && a->nr_parties >= PARTY_NAMES_MAX)
		return -EUSERS;
	if (!p)
		p = party_create(t, a, hostnqn);
	if (!p)
		return -ENOMEM;
	if (!party_may_come(t, p, is_admin)) {
		party_free(t, p);
		return -EUSERS;
	}
	p->nr_conns++;
	p->nr_ctrls += is_admin;
	a->nr_conns++;
	a->nr_ctrls += is_admin;
	c->party = p;
	return 0;
}

int tcp_party_get(struct tcp_conn *c, const char *hostnqn, bool is_admin)
{
	struct tcp_addr *a = addr_find(c->tcp, c->addr);
	int err;

	if (!a)
		a = addr_create(c->tcp, c->addr);
	if (!a)
		return -ENOMEM;
	err = party_get(c, a, hostnqn, is_admin);
	addr_free(c->tcp, a);
	return err;
}

void tcp_party_put(struct tcp_conn *c, bool is_admin)
{
	struct tcp_party *p = c->party;
	struct tcp_addr *a;

	if (!p)
		return;
	a = p->addr;
	must(p->nr_conns > 0 && p->nr_ctrls >= is_admin);
	p->nr_conns--;
	p->nr_ctrls -= is_admin;
	a->nr_conns--;
	a->nr_ctrls -= is_admin;
	c->party = NULL;
	party_free(c->tcp, p);
	addr_free(c->tcp, a);
}

bool tcp_party_may_knock(const struct tcp_tr *t, const char *addr)
{
	struct tcp_quota q = {.more = 1,
			      .left = t->max_conns - t->nr_conns,
			      .keep = TCP_PARTY_KEPT(t->max_conns)};
	const struct tcp_conn *c;
	unsigned nr = 0;

	list_for_each_entry(c, &t->conns, node) {
		if (strcmp(c->addr, addr) != 0)
			continue;
		q.addr_has++;
		nr += !c->party;
	}
	q.is_addr_alone = q.addr_has == t->nr_conns;
	return nr < max_t(unsigned, t->max_conns / 4, 8) && tcp_party_may(q);
}
