/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a namespace and of a class of its values: what the file may say of them, checked,
 * with its help. The rest of the table is conf_table.c; main thread.
 * tidy: no-test: t_conf_yaml.c goes through the rows
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/conf.h"
#include "nvme/nvme_kv.h"

#define ROWS(a) .opts = (a), .nr = sizeof(a) / sizeof((a)[0])
#define STRING_(x) #x
#define STRING(x) STRING_(x)

static int set_immutable(void *group, const char *text, char *expected)
{
	static const struct opt row = {.kind = OPT_BOOL, OPT_FIELD(conf_ns, is_immutable)};
	struct conf_ns *ns = group;

	ns->has_immutable = true;
	return opt_set(&row, group, text, expected);
}

/* 0: none; less than a write is long would be no rate but a fault. */
static int set_rate(void *group, const char *text, char *expected)
{
	static const struct opt row = {
		.kind = OPT_SIZE, OPT_FIELD(conf_ns, rate_bytes), .max = CONF_DAY_BYTES_MAX};
	struct conf_ns was = *(struct conf_ns *)group, *ns = group;
	int err = opt_set(&row, group, text, expected);

	if (err || !ns->rate_bytes || ns->rate_bytes >= CONF_RATE_BYTES_MIN)
		return err;
	ns->rate_bytes = was.rate_bytes;
	snprintf(expected, OPT_EXPECTED_BYTES, "0, or a size of at least 1 MiB");
	return -EINVAL;
}

static void get_rate(const void *group, char *value)
{
	snprintf(value, OPT_VALUE_BYTES, "%llu",
		 (unsigned long long)((const struct conf_ns *)group)->rate_bytes);
}

static int set_name(void *group, const char *text, char *expected)
{
	if (!conf_name_check(text))
		return -EINVAL;
	strcpy(((struct conf_ns *)group)->name, text);
	return 0;
}

static void get_name(const void *group, char *value)
{
	strcpy(value, ((const struct conf_ns *)group)->name);
}

static void get_immutable(const void *group, char *value)
{
	strcpy(value, ((const struct conf_ns *)group)->is_immutable ? "yes" : "no");
}

static int set_tiers(void *group, const char *text, char *expected)
{
	return conf_tier_parse(group, text, expected);
}

static void get_tiers(const void *group, char *value)
{
	conf_tier_print(group, value);
}

static const char *const acks[] = {"dram", "ssd", "rados", NULL}, *const writes[] = {
									  "back", "through", NULL};

static const struct opt namespace_rows[] = {
	{.key = "name",
	 .kind = OPT_CALL,
	 .set = set_name,
	 .get = get_name,
	 .expected = CONF_NAME_EXPECTED,
	 .arg = "NAME",
	 .help = "What people, metrics and RPCs call it; its identifiers come from it"},
	{.key = "size",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf_ns, bytes),
	 .min = CONF_NS_BYTES_MIN,
	 .max = CONF_BYTES_MAX,
	 .arg = "SIZE",
	 .help = "Its share of the memory, everything included: the same as tiers: dram SIZE"},
	{.key = "tiers",
	 .kind = OPT_CALL,
	 .set = set_tiers,
	 .get = get_tiers,
	 .arg = "dram SIZE [| ssd FOLDER SIZE[, FOLDER SIZE...]] [| rados pool=POOL ...]",
	 .expected = "tiers from the top down, as in dram 8G | ssd /data/peal 500G, or on several "
		     "devices ssd /a 500G, /b 500G, below them rados pool=kv",
	 .help = "Where its values lie, from the top down; instead of size"},
	{.key = "ack",
	 .kind = OPT_CHOICE,
	 OPT_FIELD(conf_ns, ack),
	 .names = acks,
	 .arg = "dram|ssd|rados",
	 .dflt = "dram",
	 .help = "Where a Store must have arrived before it is answered. ssd: a power cut takes "
		 "nothing that was answered, but a value that was being replaced just then, and a "
		 "Store waits for the device; it writes through. rados: it is in the cluster, "
		 "where others see it"},
	{.key = "write",
	 .kind = OPT_CHOICE,
	 OPT_FIELD(conf_ns, write),
	 .names = writes,
	 .arg = "back|through",
	 .dflt = "back",
	 .help = "When what memory took is written to the tier below: when its room is needed, or "
		 "at once, so that a crash takes less"},
	{.key = "immutable",
	 .kind = OPT_CALL,
	 .set = set_immutable,
	 .get = get_immutable,
	 .arg = "yes|no",
	 .expected = "yes or no",
	 .dflt_help = "the daemon's",
	 .help = "Does a key always mean the same bytes, as when keys are hashes of what they "
		 "stand "
		 "for"},
	{.key = "write_budget",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf_ns, day_bytes),
	 .max = CONF_DAY_BYTES_MAX,
	 .arg = "SIZE",
	 .dflt = "0",
	 .help = "Bytes a day that may go to its SSD tier, a quarter of them at once; 0: no "
		 "limit"},
	{.key = "write_rate",
	 .kind = OPT_CALL,
	 .set = set_rate,
	 .get = get_rate,
	 .arg = "SIZE",
	 .expected = "0, or a size of at least 1 MiB",
	 .dflt_help = "0",
	 .help = "Bytes a second that its values may be written to its SSD tier with, a tenth of "
		 "them at once, so that reads of others find the device free; at least 1 MiB, 0: "
		 "no limit. A clean stop writes as fast as it can"},
	{.key = "read_only",
	 .kind = OPT_BOOL,
	 OPT_FIELD(conf_ns, is_read_only),
	 .arg = "yes|no",
	 .dflt = "no",
	 .help = "Stores and deletes are refused"},
	{.key = "value_max",
	 .kind = OPT_SIZE,
	 OPT_FIELD(conf_ns, value_max),
	 .min = 1,
	 .max = NVME_KV_VALUE_MAX,
	 .arg = "SIZE",
	 .dflt_help = "the daemon's",
	 .help = "Largest value"},
	{.key = "max_keys",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(conf_ns, max_keys),
	 .min = 1024,
	 .max = UINT32_MAX - 1,
	 .arg = "N",
	 .dflt_help = "the daemon's",
	 .help = "Most keys"},
};

const struct opt_group conf_namespace = {
	.name = "namespaces",
	.help = "A namespace has its own keys and its own share of each tier.",
	ROWS(namespace_rows)};

static const struct opt class_rows[] = {
	{.key = "id",
	 .kind = OPT_NUMBER,
	 OPT_FIELD(kv_class, id),
	 .min = 1,
	 .max = 65535,
	 .arg = "N",
	 .help = "The 16 bits that values of this class carry"},
	{.key = "name",
	 .kind = OPT_TEXT,
	 OPT_FIELD(kv_class, name),
	 .min = 1,
	 .arg = "NAME",
	 .expected = "a name",
	 .dflt_help = "class- and its id",
	 .help = "For people and metrics"},
	{.key = "model",
	 .kind = OPT_TEXT,
	 OPT_FIELD(kv_class, model),
	 .arg = "TEXT",
	 .help = "The model whose values they are"},
	{.key = "layout",
	 .kind = OPT_TEXT,
	 OPT_FIELD(kv_class, layout),
	 .arg = "TEXT",
	 .help = "How the numbers of a block lie: heads, layers, tokens per block"},
	{.key = "dtype",
	 .kind = OPT_TEXT,
	 OPT_FIELD(kv_class, dtype),
	 .arg = "TEXT",
	 .help = "What a number is: bf16, fp8_e4m3"},
	{.key = "codec",
	 .kind = OPT_TEXT,
	 OPT_FIELD(kv_class, codec),
	 .arg = "TEXT",
	 .dflt = "raw",
	 .help = "How values are stored"},
};

const struct opt_group conf_class = {
	.name = "classes",
	.help = "What the class numbers of a namespace's values stand for. A namespace that has "
		"classes refuses values of others; see peal class.",
	ROWS(class_rows)};
