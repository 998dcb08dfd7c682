/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the option table, and the few that read their value themselves. Order is that of the
 * documents; rows of one section of the file stand together. Main thread.
 * tidy: no-test: t_conf.c and t_opt_args.c go through every row
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "ctl/conf.h"
#include "nvme/nvme_kv.h"

#define ROWS(a) .opts = (a), .nr = sizeof(a) / sizeof((a)[0])
#define STRING_(x) #x
#define STRING(x) STRING_(x)

static const char *const log_levels[] = {"err", "warn", "info", "debug", NULL};

static int table_text(char *to, size_t bytes, const char *text)
{
	if (!*text || strlen(text) >= bytes)
		return -EINVAL;
	strcpy(to, text);
	return 0;
}

static int set_file(void *group, const char *text, char *expected)
{
	struct conf *c = group;

	return table_text(c->file, sizeof(c->file), text);
}

static int set_poll(void *group, const char *text, char *expected)
{
	struct conf *c = group;
	uint64_t us = 0;

	c->is_busy = strcmp(text, "busy") == 0;
	c->poll_ns = 0;
	if (c->is_busy || strcmp(text, "adaptive") == 0)
		return 0;
	if (parse_u64(text, &us) || us < 1 || us > 1000000)
		return -EINVAL;
	c->poll_ns = us * 1000;
	return 0;
}

static void get_poll(const void *group, char *value)
{
	const struct conf *c = group;

	if (c->poll_ns)
		snprintf(value, OPT_VALUE_BYTES, "%llu", (unsigned long long)c->poll_ns / 1000);
	else
		strcpy(value, c->is_busy ? "busy" : "adaptive");
}

static int set_mutable(void *group, const char *text, char *expected)
{
	((struct conf *)group)->is_immutable = false;
	return 0;
}

/* NAME=SIZE[,rw] */
static int set_ns(void *group, const char *text, char *expected)
{
	const char *eq = strchr(text, '='), *comma;
	struct conf *c = group;
	char size[32], bounds[PARSE_EXPECTED_BYTES];
	struct conf_ns *ns;
	size_t n;

	if (!eq || eq == text || (size_t)(eq - text) >= CONF_NAME_BYTES)
		return -EINVAL;
	comma = strchrnul(eq, ',');
	n = (size_t)(comma - eq - 1);
	if (n >= sizeof(size) || (*comma && strcmp(comma, ",rw")))
		return -EINVAL;
	if (!c->has_ns_args)
		conf_ns_clear(c);
	c->has_ns_args = true;
	ns = conf_ns_add(c);
	if (!ns) {
		snprintf(expected, OPT_EXPECTED_BYTES, "at most %d namespaces", CONF_NS_MAX);
		return -EINVAL;
	}
	memcpy(ns->name, text, (size_t)(eq - text));
	if (!conf_name_check(ns->name)) {
		strcpy(expected, CONF_NAME_EXPECTED " before the =");
		return -EINVAL;
	}
	memcpy(size, eq + 1, n);
	size[n] = 0;
	if (parse_size_within(size, CONF_NS_BYTES_MIN, CONF_BYTES_MAX, &ns->bytes, bounds)) {
		snprintf(expected, OPT_EXPECTED_BYTES, "'%s' to be %s", size, bounds);
		return -EINVAL;
	}
	ns->has_immutable = *comma;
	return 0;
}

/* [NAME=]TIERS; an '=' behind a space is a folder's. */
static int set_ns_tiers(void *group, const char *text, char *expected)
{
	size_t n = strcspn(text, "= \t|");
	struct conf *c = group;
	struct conf_ns *ns;

	n = text[n] == '=' ? n : 0;
	if ((n == 0 && *text == '=') || n >= CONF_NAME_BYTES)
		return -EINVAL;
	if (!c->has_ns_args)
		conf_ns_clear(c);
	c->has_ns_args = true;
	ns = conf_ns_add(c);
	if (!ns) {
		snprintf(expected, OPT_EXPECTED_BYTES, "at most %d namespaces", CONF_NS_MAX);
		return -EINVAL;
	}
	memcpy(ns->name, n ? text : "kv", n ? n : 2);
	if (!conf_name_check(ns->name)) {
		strcpy(expected, CONF_NAME_EXPECTED " before the =");
		return -EINVAL;
	}
	return conf_tier_parse(ns, n ? text + n + 1 : text, expected);
}

static int set_block(void *group, const char *text, char *expected)
{
	return conf_block_parse(group, text, expected);
}

static int set_listen(void *group, const char *text, char *expected)
{
	struct conf *c = group;

	return conf_listen_parse(text, c->http_host, &c->http_port);
}

static void get_listen(const void *group, char *value)
{
	const struct conf *c = group;

	conf_listen_print(c->http_host, c->http_port, value);
}

static const struct opt daemon_rows[] = {
	{.name = "config",
	 .letter = 'c',
	 .arg = "FILE",
	 .kind = OPT_CALL,
	 .set = set_file,
	 .expected = "a file of at most 1023 characters",
	 .help = "Read this file first; the command line overrides it. See peald.yaml(5)"},
	{.name = "check-config",
	 .kind = OPT_FLAG,
	 OPT_FIELD(conf, is_check),
	 .help = "Say whether the configuration is good, and stop: status 0, or 2 and what "
		 "is wrong"},
	{.key = "dram",
	 .name = "dram",
	 .letter = 'm',
	 .arg = "SIZE",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf, dram_bytes),
	 .min = CONF_NS_BYTES_MIN,
	 .max = CONF_BYTES_MAX,
	 .dflt_help = "what the namespaces want; without any, a quarter of what is free",
	 .help = "Memory for values, everything included, all namespaces together"},
	{.key = "reactors",
	 .name = "reactors",
	 .letter = 'r',
	 .arg = "N",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf, nr_reactors),
	 .min = 1,
	 .max = 31,
	 .dflt = "1",
	 .help = "Threads that serve commands. Keys are spread over them. Connections and "
		 "all that may take long have one more"},
	{.name = "ns",
	 .letter = 'n',
	 .arg = "NAME=SIZE[,rw]",
	 .kind = OPT_CALL,
	 .set = set_ns,
	 .expected = "NAME=SIZE or NAME=SIZE,rw, as in kv=4G",
	 .dflt_help = "one, kv, of all the memory",
	 .help = "A namespace; repeatable. rw: values of a key may change; else the same key "
		 "always "
		 "means the same bytes. Namespaces of the file are forgotten"},
	{.name = "tiers",
	 .letter = 't',
	 .arg = "[NAME=]TIERS",
	 .kind = OPT_CALL,
	 .set = set_ns_tiers,
	 .expected = "[NAME=]TIERS, as in dram 8G | ssd /data/peal 500G",
	 .help = "A namespace of more than memory, kv without a name; repeatable. Tiers from the "
		 "top down, each dram SIZE or ssd FOLDER SIZE, between them a bar: 'dram 8G | ssd "
		 "/data/peal 500G'; several devices with a comma: 'ssd /a 500G, /b 500G'; at the "
		 "bottom a pool of Ceph: 'rados pool=kv', see peald.yaml(5). "
		 "Namespaces of the file are forgotten"},
	{.key = "block",
	 .name = "block",
	 .arg = "FILE[,size=SIZE][,lba=512|4096]",
	 .kind = OPT_CALL,
	 .set = set_block,
	 .expected = "FILE[,size=SIZE][,lba=512|4096]",
	 .dflt_help = "none",
	 .help = "A block namespace on a file or block device, with an NSID behind the others', "
		 "or on an RBD image, rbd:POOL/[NAMESPACE/]IMAGE[?conf=FILE&id=USER&timeout=S]. "
		 "The option may be given again for more; in a file the list blocks has more than "
		 "one. size makes a file that isn't there. It tells a broken path from a "
		 "broken KV layer"},
	{.name = "no-immutable",
	 .kind = OPT_CALL,
	 .set = set_mutable,
	 .expected = "no value",
	 .help = "Namespaces are rw unless they say otherwise"},
	{.key = "immutable",
	 .kind = OPT_BOOL,
	 OPT_FIELD(conf, is_immutable),
	 .dflt = "yes",
	 .help = "Whether in namespaces that don't say a key always means the same bytes"},
	{.key = "value_max",
	 .name = "value-max",
	 .arg = "SIZE",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf, value_max),
	 .min = 1,
	 .max = NVME_KV_VALUE_MAX,
	 .dflt = "128M",
	 .help = "Largest value of namespaces that don't say"},
	{.key = "max_keys",
	 .name = "max-keys",
	 .arg = "N",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf, max_keys),
	 .min = 1024,
	 .max = UINT32_MAX - 1,
	 .dflt_help = "its size / 4 KiB",
	 .help = "Most keys of a namespace that doesn't say"},
	{.key = "id",
	 .name = "id",
	 .arg = "TEXT",
	 .kind = OPT_TEXT,
	 OPT_FIELD(conf, id),
	 .min = 1,
	 .expected = "a text",
	 .dflt_help = "made of the machine, its name and --dir",
	 .help = "What makes this daemon's NQN, serial number and namespace identifiers its own: "
		 "the same text gives the same ones"},
	{.key = "linger",
	 .name = "linger",
	 .arg = "SECONDS",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf, linger_s),
	 .min = 1,
	 .max = 365 * 86400,
	 .dflt_help = "never",
	 .help = "Exit when no client was attached for so long"},
	{.key = "poll",
	 .name = "poll",
	 .arg = "busy|adaptive|USEC",
	 .kind = OPT_CALL,
	 .set = set_poll,
	 .get = get_poll,
	 .dflt = "adaptive",
	 .expected = "busy, adaptive or a number of microseconds from 1 to 1000000",
	 .help = "What an idle thread that serves commands does: adaptive sleeps and is woken "
		 "(stock guests, which can't, are looked after every 5000 us), busy never sleeps, "
		 "a number is the period at which it looks. The thread of connections and admin "
		 "queues never looks more often than every 5000 us"},
	{.key = "log.level",
	 .name = "log-level",
	 .arg = "err|warn|info|debug",
	 .kind = OPT_CHOICE,
	 OPT_FIELD(conf, log_level),
	 .names = log_levels,
	 .dflt = "info",
	 .help = "What goes to the log, which is standard error"},
	{.key = "ssd.smart",
	 .name = "ssd-smart",
	 .arg = "auto|none|FILE",
	 .kind = OPT_TEXT,
	 OPT_FIELD(conf, ssd.smart),
	 .min = 1,
	 .expected = "auto, none or a path,",
	 .dflt = "auto",
	 .help = "Where the health of the devices below SSD tiers is read: auto from the NVMe "
		 "devices themselves, which takes CAP_SYS_ADMIN; a file has a SMART log page of "
		 "512 bytes"},
	{.key = "ssd.min_free",
	 .name = "ssd-min-free",
	 .arg = "SIZE",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf, ssd.min_free_bytes),
	 .max = CONF_BYTES_MAX,
	 .dflt = "0",
	 .help = "What has to stay free on the file systems of SSD tiers: no file is made that "
		 "would take it, and when others take it, the tiers give room back"},
	{.key = "ssd.cap",
	 .name = "ssd-cap",
	 .arg = "SIZE",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf, ssd.cap_bytes),
	 .max = CONF_BYTES_MAX,
	 .dflt = "0",
	 .help = "What the SSD files of all namespaces may take in one folder, those included that "
		 "nothing names any more: no file is made that would go beyond it. 0: no cap"},
	{.key = "ssd.endurance",
	 .name = "ssd-endurance",
	 .arg = "SIZE",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf, ssd.endurance_bytes),
	 .max = CONF_DAY_BYTES_MAX,
	 .dflt = "0",
	 .help = "What may be written to such a device in its life, as its maker says; 0: guessed "
		 "from what was written and what that used up. For the days left in stats"},
	{.key = "ssd.warn_used",
	 .name = "ssd-warn-used",
	 .arg = "PERCENT",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf, ssd.warn_used),
	 .min = 1,
	 .max = 255,
	 .dflt = "70",
	 .help = "Of a device's life, from which on it is told that it is worn"},
	{.key = "ssd.stop_used",
	 .name = "ssd-stop-used",
	 .arg = "PERCENT",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf, ssd.stop_used),
	 .min = 1,
	 .max = 255,
	 .dflt = "80",
	 .help = "Of a device's life, from which on no values are written to it; it is read on"},
	{.key = "http.listen",
	 .name = "http",
	 .arg = "[ADDR:]PORT",
	 .kind = OPT_CALL,
	 .set = set_listen,
	 .get = get_listen,
	 .dflt = "none",
	 .expected = "a port, ADDR:PORT or [ADDR6]:PORT in numbers, or none",
	 .help = "Serve /metrics and /healthz there. Without ADDR on 127.0.0.1: nobody else "
		 "reaches "
		 "it, and a Host that is a name other than localhost is refused there. 0 is a "
		 "free port, which the log names. Usual: " STRING(CONF_HTTP_PORT)},
	{.key = "rpc.socket",
	 .name = "rpc",
	 .arg = "PATH",
	 .kind = OPT_TEXT,
	 OPT_FIELD(conf, rpc_socket),
	 .min = 1,
	 .expected = "a path, or none,",
	 .dflt_help = "rpc in the folder of --dir",
	 .help = "Socket of the control plane (JSON-RPC), mode 0600, for the daemon's own user and "
		 "root; none: no such socket"},
};

const struct opt_group conf_daemon = {
	.name = "daemon", .help = "The whole daemon.", ROWS(daemon_rows)};

static const struct opt vfu_rows[] = {
	{.key = "dir",
	 .name = "dir",
	 .letter = 'd',
	 .arg = "DIR",
	 .kind = OPT_TEXT,
	 OPT_FIELD(conf_vfu, dir),
	 .min = 1,
	 .expected = "a path",
	 .dflt = "/run/peal",
	 .help = "Folder of the socket, DIR/cntrl"},
	{.key = "max_clients",
	 .name = "max-clients",
	 .arg = "N",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf_vfu, max_clients),
	 .min = 1,
	 .max = 256,
	 .dflt = "64",
	 .help = "Clients at a time"},
	{.key = "record",
	 .name = "record",
	 .arg = "DIR",
	 .kind = OPT_TEXT,
	 OPT_FIELD(conf_vfu, record),
	 .min = 1,
	 .expected = "a path",
	 .dflt_help = "no recording",
	 .help = "Record each controller's commands, without values, to a file of its own there: "
		 "for replay and bug reports"},
	{.key = "record_all",
	 .name = "record-all",
	 .arg = "yes|no",
	 .kind = OPT_BOOL,
	 OPT_FIELD(conf_vfu, is_record_all),
	 .dflt = "yes",
	 .help = "With record: all controllers from the start; no: each when peal record names it"},
	{.key = "record_values",
	 .name = "record-values",
	 .arg = "yes|no",
	 .kind = OPT_BOOL,
	 OPT_FIELD(conf_vfu, is_record_values),
	 .dflt = "no",
	 .help = "With record: what is stored is recorded too, up to 64 KiB of each value; values "
		 "are parts of prompts"},
};

const struct opt_group conf_vfu = {
	.name = "vfu",
	.help = "vfio-user on a unix socket: libpeal, QEMU, SPDK hosts, GPUs.",
	ROWS(vfu_rows),
	.base = offsetof(struct conf, vfu)};

const struct opt_group *const conf_transports[] = {&conf_vfu, &conf_tcp};
const unsigned conf_nr_transports = sizeof(conf_transports) / sizeof(conf_transports[0]);
