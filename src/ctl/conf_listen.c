/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What listens on the network: addresses as text, and the rows of the NVMe/TCP transport. Main
 * thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "ctl/conf.h"

#define NQN_MAX 223u /* NVMe Base 2.0, 4.5 */

/* Numbers only: no look-ups. */
int conf_listen_parse(const char *text, char host[CONF_HOST_BYTES], uint16_t *port_out)
{
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	char name[CONF_HOST_BYTES];
	unsigned char addr[16];
	uint64_t v;
	size_t n = colon ? (size_t)(colon - text) : 0;
	int family = AF_INET;

	if (strcmp(text, "none") == 0) {
		host[0] = 0;
		return 0;
	}
	if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
		family = AF_INET6;
		text++;
		n -= 2;
	}
	if (n >= sizeof(name))
		return -EINVAL;
	memcpy(name, text, n);
	name[n] = 0;
	if (!n || strcmp(name, "localhost") == 0)
		strcpy(name, "127.0.0.1");
	if (parse_u64(port, &v) || v > 65535 || inet_pton(family, name, addr) != 1)
		return -EINVAL;
	strcpy(host, name);
	*port_out = (uint16_t)v;
	return 0;
}

void conf_listen_print(const char *host, uint16_t port, char value[OPT_VALUE_BYTES])
{
	bool is_v6 = strchr(host, ':');

	if (!host[0])
		strcpy(value, "none");
	else
		snprintf(value, OPT_VALUE_BYTES, "%s%s%s:%u", is_v6 ? "[" : "", host,
			 is_v6 ? "]" : "", port);
}

static int set_tcp(void *group, const char *text, char *expected)
{
	struct conf_tcp *t = group;

	return conf_listen_parse(text, t->host, &t->port);
}

static void get_tcp(const void *group, char *value)
{
	const struct conf_tcp *t = group;

	conf_listen_print(t->host, t->port, value);
}

static bool is_nqn(const char *s, size_t n)
{
	return n > 4 && n <= NQN_MAX && memcmp(s, "nqn.", 4) == 0;
}

static int set_hosts(void *group, const char *text, char *expected)
{
	struct conf_tcp *t = group;

	if (strcmp(text, "any") == 0) {
		t->hosts[0] = 0;
		return 0;
	}
	if (strlen(text) >= sizeof(t->hosts))
		return -EINVAL;
	for (const char *at = text, *end;; at = end + 1) {
		end = strchrnul(at, ',');
		if (!is_nqn(at, (size_t)(end - at)))
			return -EINVAL;
		if (!*end)
			break;
	}
	strcpy(t->hosts, text);
	return 0;
}

static void get_hosts(const void *group, char *value)
{
	const struct conf_tcp *t = group;

	snprintf(value, OPT_VALUE_BYTES, "%s", t->hosts[0] ? t->hosts : "any");
}

static const struct opt tcp_rows[] = {
	{.key = "listen",
	 .name = "tcp",
	 .arg = "[ADDR:]PORT",
	 .kind = OPT_CALL,
	 .set = set_tcp,
	 .get = get_tcp,
	 .dflt = "none",
	 .expected = "a port, ADDR:PORT or [ADDR6]:PORT in numbers, or none",
	 .help = "Serve NVMe/TCP there; 4420 is its port, 0 a free one. Without ADDR on 127.0.0.1. "
		 "Whoever reaches the port may attach, unless there are secrets"},
	{.key = "max_connections",
	 .name = "tcp-connections",
	 .arg = "N",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf_tcp, max_conns),
	 .min = 2,
	 .max = 4096,
	 .dflt = "256",
	 .help = "Connections at a time; a host has one for each of its queues"},
	{.key = "hosts",
	 .name = "tcp-hosts",
	 .arg = "NQN[,NQN]...",
	 .kind = OPT_CALL,
	 .set = set_hosts,
	 .get = get_hosts,
	 .dflt = "any",
	 .expected = "host NQNs with a comma between, 1023 bytes at most, or any",
	 .help = "The hosts that may attach, by NQN (that of /etc/nvme/hostnqn there); others find "
		 "no subsystem in the discovery log. A name is no proof: whoever knows one may "
		 "use it, unless there are secrets"},
	{.key = "secrets",
	 .name = "tcp-secrets",
	 .arg = "FILE",
	 .kind = OPT_TEXT,
	 OPT_FIELD(conf_tcp, secrets),
	 .min = 1,
	 .expected = "a file",
	 .dflt_help = "no authentication",
	 .help = "Only hosts of that file may attach, and each proves that it is (DH-HMAC-CHAP): "
		 "a line has a host NQN, its secret as nvme gen-dhchap-key makes it, and, for a "
		 "host that asks who we are, ours. Mode 0600"},
};

const struct opt_group conf_tcp = {.name = "tcp",
				   .help = "NVMe/TCP: Linux and SPDK hosts on other machines.",
				   .opts = tcp_rows,
				   .nr = sizeof(tcp_rows) / sizeof(tcp_rows[0]),
				   .base = offsetof(struct conf, tcp)};
