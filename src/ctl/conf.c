/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration from its defaults to the point where it fits together. See conf.h. Main thread.
 */
#include "ctl/conf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/container.h"
#include "store/rados/ceph.h"

struct conf *conf_create(void)
{
	struct conf *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	opt_defaults(&conf_daemon, c);
	for (unsigned i = 0; i < conf_nr_transports; i++)
		opt_defaults(conf_transports[i], (char *)c + conf_transports[i]->base);
	return c;
}

void conf_ns_clear(struct conf *c)
{
	for (uint32_t i = 0; i < c->nr_ns; i++)
		free(c->ns[i].classes);
	memset(c->ns, 0, sizeof(c->ns));
	c->nr_ns = 0;
}

void conf_destroy(struct conf *c)
{
	if (!c)
		return;
	conf_ns_clear(c);
	free(c);
}

struct conf_ns *conf_ns_add(struct conf *c)
{
	struct conf_ns *ns;

	if (c->nr_ns == CONF_NS_MAX)
		return NULL;
	ns = &c->ns[c->nr_ns++];
	opt_defaults(&conf_namespace, ns);
	return ns;
}

struct kv_class *conf_class_add(struct conf_ns *ns)
{
	struct kv_class *cls;

	if (ns->nr_classes == CONF_CLASSES_MAX)
		return NULL;
	cls = reallocarray(ns->classes, ns->nr_classes + 1, sizeof(*cls));
	if (!cls)
		return NULL;
	ns->classes = cls;
	cls += ns->nr_classes++;
	memset(cls, 0, sizeof(*cls));
	opt_defaults(&conf_class, cls);
	return cls;
}

/*
 * Bytes of the UTF-8 character that s begins with, 0 when it is none: RFC 3629, section 4. Without
 * memory, so that there is one answer only.
 */
static size_t utf8_len(const unsigned char *s)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* too long for what it is; a surrogate; above 10FFFFh */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

bool conf_name_check(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n = strlen(text), len;

	if (n < 1 || n >= CONF_NAME_BYTES || strspn(text, "0123456789") == n)
		return false;
	for (size_t i = 0; i < n; i += len) {
		len = utf8_len(s + i);
		if (!len || s[i] < ' ' || s[i] == 0x7f)
			return false;
	}
	return true;
}

uint64_t conf_mem_available(void)
{
	auto_fclose FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			return (uint64_t)kib << 10;
	return 0;
}

/* "FILE:LINE: " of a namespace that came from the file. */
static int finish_where(const struct conf *c, const struct conf_ns *ns, char *err)
{
	if (!ns || !ns->line)
		return snprintf(err, CONF_ERR_BYTES, "%s%s", ns ? "" : c->file,
				ns || !c->file[0] ? "" : ": ");
	return snprintf(err, CONF_ERR_BYTES, "%s:%u: ", c->file, ns->line);
}

__attribute__((format(printf, 4, 5))) static int finish_bad(const struct conf *c,
							    const struct conf_ns *ns, char *err,
							    const char *fmt, ...)
{
	int n = finish_where(c, ns, err);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err + n, CONF_ERR_BYTES - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int finish_classes(const struct conf *c, struct conf_ns *ns, char *err)
{
	for (unsigned i = 0; i < ns->nr_classes; i++) {
		struct kv_class *cls = &ns->classes[i];

		if (!cls->id)
			return finish_bad(c, ns, err,
					  "namespace %s: a class has no id, expected one",
					  ns->name);
		for (unsigned j = 0; j < i; j++)
			if (ns->classes[j].id == cls->id)
				return finish_bad(c, ns, err,
						  "namespace %s: class %u is there twice, expected "
						  "each once",
						  ns->name, cls->id);
		if (!cls->name[0])
			snprintf(cls->name, sizeof(cls->name), "class-%u", cls->id);
	}
	return 0;
}

static bool finish_has(const struct conf_ns *ns, enum conf_tier_kind kind)
{
	for (unsigned i = 0; i < ns->nr_tiers; i++)
		if (ns->tiers[i].kind == kind)
			return true;
	return false;
}

/* Is there what it is to write to? */
static int finish_writes(const struct conf *c, const struct conf_ns *ns, char *err)
{
	bool has_rados = finish_has(ns, CONF_TIER_RADOS);

	if ((ns->nr_tiers == 1 && ns->write == CONF_WRITE_THROUGH) ||
	    (ns->ack == CONF_ACK_SSD && !finish_has(ns, CONF_TIER_SSD)))
		return finish_bad(
			c, ns, err,
			"namespace %s is to write to an ssd, expected one among its tiers",
			ns->name);
	if (ns->ack == CONF_ACK_RADOS && !has_rados)
		return finish_bad(c, ns, err,
				  "namespace %s is to write to rados, expected it among its tiers",
				  ns->name);
	if (ns->ack == CONF_ACK_SSD && has_rados)
		return finish_bad(
			c, ns, err,
			"namespace %s has ack ssd above a rados tier, whose cache the ssd is: "
			"expected dram or rados",
			ns->name);
	if (has_rados && ns->value_max > CEPH_VALUE_MAX)
		return finish_bad(c, ns, err,
				  "namespace %s has value_max %u, expected at most %u with a rados "
				  "tier",
				  ns->name, ns->value_max, CEPH_VALUE_MAX);
	return 0;
}

static int finish_ns(const struct conf *c, struct conf_ns *ns, char *err)
{
	int rc;

	if (!ns->name[0])
		return finish_bad(c, ns, err, "a namespace has no name, expected one");
	for (const struct conf_ns *o = c->ns; o < ns; o++)
		if (strcmp(o->name, ns->name) == 0)
			return finish_bad(c, ns, err,
					  "two namespaces have the name '%s', expected another",
					  ns->name);
	if (ns->nr_tiers && ns->bytes)
		return finish_bad(c, ns, err,
				  "namespace %s has size and tiers, expected one of them",
				  ns->name);
	if (!ns->nr_tiers && !ns->bytes)
		return finish_bad(c, ns, err,
				  "namespace %s has neither size nor tiers, expected one",
				  ns->name);
	if (!ns->nr_tiers) {
		ns->tiers[0] = (struct conf_tier){.kind = CONF_TIER_DRAM, .bytes = ns->bytes};
		ns->nr_tiers = 1;
	}
	rc = finish_writes(c, ns, err);
	if (rc)
		return rc;
	ns->bytes = ns->tiers[0].bytes;
	if (!ns->has_immutable)
		ns->is_immutable = c->is_immutable;
	if (!ns->is_immutable && finish_has(ns, CONF_TIER_SSD) && finish_has(ns, CONF_TIER_RADOS))
		return finish_bad(c, ns, err,
				  "namespace %s is not immutable: its ssd would keep what others "
				  "replace in rados, expected only one of the two, or immutable",
				  ns->name);
	if (!ns->value_max)
		ns->value_max = c->value_max;
	if (!ns->max_keys)
		ns->max_keys = c->max_keys;
	return finish_classes(c, ns, err);
}

/* Without a word about memory: a quarter of what is free. */
static int finish_memory(struct conf *c, char *err)
{
	const struct conf_ns *over = NULL;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c->nr_ns; i++) {
		sum += c->ns[i].bytes;
		if (c->dram_bytes && sum > c->dram_bytes && !over)
			over = &c->ns[i];
	}
	if (!c->dram_bytes)
		c->dram_bytes = sum ? sum
				    : align_down(conf_mem_available() / 4,
						 (uint64_t)CONF_NS_BYTES_MIN);
	if (over)
		return finish_bad(c, over, err,
				  "the namespaces want %llu bytes together, --dram has %llu: "
				  "expected a smaller %s or a larger dram",
				  (unsigned long long)sum, (unsigned long long)c->dram_bytes,
				  over->name);
	if (!c->dram_bytes)
		return finish_bad(c, NULL, err,
				  "no memory is free, expected --dram to say how much");
	return 0;
}

static int finish_paths(struct conf *c, char *err)
{
	int n;

	if (c->rpc_socket[0])
		return 0;
	n = snprintf(c->rpc_socket, sizeof(c->rpc_socket), "%s/rpc", c->vfu.dir);
	if (n >= (int)sizeof(c->rpc_socket))
		return finish_bad(c, NULL, err, "%s/rpc is too long for a socket", c->vfu.dir);
	return 0;
}

static bool finish_is_same(const struct conf_block *a, const struct conf_block *b)
{
	struct stat sa, sb;

	if (strcmp(a->path, b->path) == 0)
		return true;
	return stat(a->path, &sa) == 0 && stat(b->path, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

static int finish_blocks(struct conf *c, char *err)
{
	for (uint32_t i = 0; i < c->nr_blocks; i++)
		for (uint32_t j = 0; j < i; j++)
			if (finish_is_same(&c->blocks[i], &c->blocks[j]))
				return finish_bad(c, NULL, err,
						  "two block namespaces are on %s, expected each "
						  "on a file of its own",
						  c->blocks[i].path);
	return 0;
}

void conf_err_clean(char err[CONF_ERR_BYTES])
{
	for (char *at = err; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
}

int conf_finish(struct conf *c, char err[CONF_ERR_BYTES])
{
	int rc = 0;

	for (uint32_t i = 0; i < c->nr_ns && !rc; i++)
		rc = finish_ns(c, &c->ns[i], err);
	if (!rc)
		rc = finish_memory(c, err);
	if (!rc && c->nr_ns == 0) {
		struct conf_ns *ns = conf_ns_add(c);

		strcpy(ns->name, "kv");
		ns->bytes = c->dram_bytes;
		rc = finish_ns(c, ns, err);
	}
	if (!rc)
		rc = finish_paths(c, err);
	if (!rc)
		rc = finish_blocks(c, err);
	if (rc)
		conf_err_clean(err);
	return rc;
}
