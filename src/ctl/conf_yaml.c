/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: YAML, walked along the option table.
 *
 * libyaml's node tree and not libcyaml, which is made of it: each node knows its line and column,
 * so that a value that is a good size but too large a one is still told with its place, and the
 * option table stays the only schema. What is accepted is narrow: mappings of the keys that have a
 * row, each at most once, scalars as values, and the lists below. Bounds: CONF_FILE_BYTES, and, as
 * libyaml's tree takes quadratic time for them, CONF_DEPTH_MAX and CONF_ANCHORS_MAX, which are
 * looked at before there is a tree. Main thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "ctl/conf.h"

#define CONF_FILE_BYTES (1u << 20)
#define CONF_PAIRS_MAX 256  /* of one mapping */
#define CONF_DEPTH_MAX 16   /* twice what the schema has */
#define CONF_ANCHORS_MAX 64 /* and as many uses of them */

struct walk {
	struct conf *c;
	const char *path;
	yaml_document_t doc;
	char *err;
	unsigned transports; /* bits: those that were there */
};

/* A key of a mapping that isn't a row: a list, read by a function of its own. */
struct walk_list {
	const char *key;
	int (*read)(struct walk *w, void *group, const yaml_node_t *value);
};

static int walk_where(struct walk *w, const yaml_mark_t *at)
{
	return snprintf(w->err, CONF_ERR_BYTES, "%s:%zu:%zu: ", w->path, at->line + 1,
			at->column + 1);
}

__attribute__((format(printf, 3, 4))) static int walk_bad(struct walk *w, const yaml_node_t *at,
							  const char *fmt, ...)
{
	int n = walk_where(w, &at->start_mark);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->err + n, CONF_ERR_BYTES - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static const yaml_node_t *walk_node(struct walk *w, int id)
{
	return yaml_document_get_node(&w->doc, id);
}

/* The text of a scalar; NULL for anything else, and for text with a NUL in it. */
static const char *walk_text(const yaml_node_t *n)
{
	const char *s = (const char *)n->data.scalar.value;

	if (n->type != YAML_SCALAR_NODE || strlen(s) != n->data.scalar.length)
		return NULL;
	return s;
}

static bool walk_is_empty(const yaml_node_t *n)
{
	return n->type == YAML_SCALAR_NODE && n->data.scalar.length == 0 &&
	       n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static int walk_scalar(struct walk *w, const struct opt *o, void *group, const yaml_node_t *value)
{
	char expected[OPT_EXPECTED_BYTES];
	const char *text = walk_text(value);

	if (!text) {
		opt_expected(o, expected);
		return walk_bad(w, value, "%s: this is no single value, expected %s", o->key,
				expected);
	}
	if (opt_set(o, group, text, expected))
		return walk_bad(w, value, "%s: '%.200s' is not good, expected %s", o->key, text,
				expected);
	return 0;
}

/* Has the mapping this key before pair `at`? */
static bool walk_is_twice(struct walk *w, const yaml_node_t *map, long at, const char *key)
{
	const yaml_node_pair_t *p = map->data.mapping.pairs.start;

	for (long i = 0; i < at; i++) {
		const char *k = walk_text(walk_node(w, p[i].key));

		if (k && strcmp(k, key) == 0)
			return true;
	}
	return false;
}

struct walk_map {
	const struct opt_group *group;
	const struct walk_list *lists; /* ended by a NULL key; NULL: none */
	void *at;		       /* the group's struct */
	const char *prefix;	       /* "" or "log." */
};

static int walk_unknown(struct walk *w, const struct walk_map *m, const yaml_node_t *key)
{
	char keys[OPT_EXPECTED_BYTES];
	const char *text = walk_text(key);
	size_t n;

	opt_keys(m->group, m->prefix, keys);
	for (const struct walk_list *l = m->lists; l && l->key; l++) {
		n = strlen(keys);
		snprintf(keys + n, sizeof(keys) - n, ", %s", l->key);
	}
	return walk_bad(w, key, "%s'%.64s' is no key here, expected one of %s", m->prefix,
			text ? text : "", keys);
}

static int walk_mapping(struct walk *w, const struct walk_map *m, const yaml_node_t *node);

static int walk_pair(struct walk *w, const struct walk_map *m, const yaml_node_t *key,
		     const yaml_node_t *value)
{
	const char *text = walk_text(key);
	const struct opt *o;
	char path[64];

	if (!text || strchr(text, '.') ||
	    snprintf(path, sizeof(path), "%s%s", m->prefix, text) >= (int)sizeof(path) - 1)
		return walk_unknown(w, m, key);
	for (const struct walk_list *l = m->lists; l && l->key; l++)
		if (strcmp(l->key, text) == 0)
			return walk_is_empty(value) ? 0 : l->read(w, m->at, value);
	o = opt_find(m->group, path);
	if (o)
		return walk_scalar(w, o, m->at, value);
	/* Sections aren't nested: the recursion ends here. */
	if (!m->prefix[0] && opt_is_section(m->group, path)) {
		struct walk_map sub = {.group = m->group, .at = m->at, .prefix = path};

		strcat(path, ".");
		return walk_is_empty(value) ? 0 : walk_mapping(w, &sub, value);
	}
	return walk_unknown(w, m, key);
}

static int walk_mapping(struct walk *w, const struct walk_map *m, const yaml_node_t *node)
{
	const yaml_node_pair_t *p;
	long nr;

	if (node->type != YAML_MAPPING_NODE)
		return walk_bad(w, node, "%sthis is no mapping, expected KEY: VALUE lines",
				m->prefix);
	p = node->data.mapping.pairs.start;
	nr = node->data.mapping.pairs.top - p;
	if (nr > CONF_PAIRS_MAX)
		return walk_bad(w, node, "%ld keys, expected at most %d", nr, CONF_PAIRS_MAX);
	for (long i = 0; i < nr; i++) {
		const yaml_node_t *key = walk_node(w, p[i].key);
		int err;

		if (walk_text(key) && walk_is_twice(w, node, i, walk_text(key)))
			return walk_bad(w, key, "'%.64s' is there twice, expected it once",
					walk_text(key));
		err = walk_pair(w, m, key, walk_node(w, p[i].value));
		if (err)
			return err;
	}
	return 0;
}

/* ---- lists ---- */

static int walk_items(struct walk *w, void *group, const yaml_node_t *node,
		      int (*item)(struct walk *w, void *group, const yaml_node_t *node))
{
	const yaml_node_item_t *it;
	int err;

	if (node->type != YAML_SEQUENCE_NODE)
		return walk_bad(w, node, "this is no list, expected lines that begin with -");
	for (it = node->data.sequence.items.start; it < node->data.sequence.items.top; it++) {
		err = item(w, group, walk_node(w, *it));
		if (err)
			return err;
	}
	return 0;
}

static int walk_class(struct walk *w, void *group, const yaml_node_t *node)
{
	struct kv_class *cls = conf_class_add(group);
	struct walk_map m = {.group = &conf_class, .at = cls, .prefix = ""};

	if (!cls)
		return walk_bad(w, node, "too many classes, expected at most %d", CONF_CLASSES_MAX);
	return walk_mapping(w, &m, node);
}

static int walk_classes(struct walk *w, void *group, const yaml_node_t *node)
{
	return walk_items(w, group, node, walk_class);
}

static const struct walk_list walk_ns_lists[] = {{"classes", walk_classes}, {0}};

static int walk_ns(struct walk *w, void *group, const yaml_node_t *node)
{
	struct conf_ns *ns = conf_ns_add(group);
	struct walk_map m = {
		.group = &conf_namespace, .lists = walk_ns_lists, .at = ns, .prefix = ""};

	if (!ns)
		return walk_bad(w, node, "too many namespaces, expected at most %d", CONF_NS_MAX);
	ns->line = (unsigned)node->start_mark.line + 1;
	return walk_mapping(w, &m, node);
}

static int walk_namespaces(struct walk *w, void *group, const yaml_node_t *node)
{
	return walk_items(w, group, node, walk_ns);
}

/* - vfu: {dir: /run/peal} */
static int walk_transport(struct walk *w, void *group, const yaml_node_t *node)
{
	const yaml_node_t *key, *value;
	const char *text;

	if (node->type != YAML_MAPPING_NODE ||
	    node->data.mapping.pairs.top - node->data.mapping.pairs.start != 1)
		return walk_bad(w, node,
				"this is no transport, expected NAME: {...}, as in vfu: {}");
	key = walk_node(w, node->data.mapping.pairs.start->key);
	value = walk_node(w, node->data.mapping.pairs.start->value);
	text = walk_text(key);
	for (unsigned i = 0; text && i < conf_nr_transports; i++) {
		const struct opt_group *g = conf_transports[i];
		struct walk_map m = {.group = g, .at = (char *)group + g->base, .prefix = ""};

		if (strcmp(g->name, text) != 0)
			continue;
		if (w->transports & 1u << i)
			return walk_bad(w, key, "%s is there twice, expected it once", text);
		w->transports |= 1u << i;
		return walk_is_empty(value) ? 0 : walk_mapping(w, &m, value);
	}
	return walk_bad(w, key, "'%.64s' is no transport, expected %s", text ? text : "",
			conf_transports[0]->name);
}

static int walk_transports(struct walk *w, void *group, const yaml_node_t *node)
{
	return walk_items(w, group, node, walk_transport);
}

static int walk_block(struct walk *w, void *group, const yaml_node_t *node)
{
	char expected[OPT_EXPECTED_BYTES] = "FILE[,size=SIZE][,lba=512|4096]";
	const char *text = walk_text(node);

	if (text && conf_block_parse(group, text, expected) == 0)
		return 0;
	return walk_bad(w, node, "blocks: '%.200s' is not good, expected %s", text ? text : "",
			expected);
}

static int walk_blocks(struct walk *w, void *group, const yaml_node_t *node)
{
	return walk_items(w, group, node, walk_block);
}

static const struct walk_list walk_root_lists[] = {{"transports", walk_transports},
						   {"namespaces", walk_namespaces},
						   {"blocks", walk_blocks},
						   {0}};

/* ---- the file ---- */

static int yaml_refused(struct walk *w, const yaml_parser_t *p)
{
	const yaml_mark_t *m = p->problem_mark.line || p->problem_mark.column ? &p->problem_mark
									      : &p->context_mark;

	/* The composer has no word for it. */
	if (p->error == YAML_MEMORY_ERROR || p->error == YAML_NO_ERROR)
		return -ENOMEM;
	snprintf(w->err, CONF_ERR_BYTES,
		 "%s:%zu:%zu: this is no YAML: %s%s%s, expected KEY: VALUE "
		 "lines",
		 w->path, m->line + 1, m->column + 1, p->problem ? p->problem : "unreadable",
		 p->context ? " " : "", p->context ? p->context : "");
	return -EINVAL;
}

static int yaml_walk(struct walk *w, yaml_parser_t *p)
{
	struct walk_map m = {
		.group = &conf_daemon, .lists = walk_root_lists, .at = w->c, .prefix = ""};
	const yaml_node_t *root;
	yaml_document_t more;
	int err;

	if (!yaml_parser_load(p, &w->doc))
		return yaml_refused(w, p);
	root = yaml_document_get_root_node(&w->doc);
	/* An empty file says nothing, which is fine. */
	err = root && !walk_is_empty(root) ? walk_mapping(w, &m, root) : 0;
	yaml_document_delete(&w->doc);
	if (err || !root)
		return err;
	if (!yaml_parser_load(p, &more))
		return yaml_refused(w, p);
	root = yaml_document_get_root_node(&more);
	if (root) {
		w->doc = more;
		err = walk_bad(w, root, "a second document, expected one");
	}
	yaml_document_delete(&more);
	return err;
}

struct yaml_counts {
	unsigned depth, nr_anchors, nr_aliases;
	bool is_over;
};

/* NULL, or what there is too much of. */
static const char *yaml_count(struct yaml_counts *n, const yaml_event_t *ev)
{
	bool has_anchor = false;

	switch (ev->type) {
	case YAML_SEQUENCE_START_EVENT:
		has_anchor = ev->data.sequence_start.anchor;
		n->depth++;
		break;
	case YAML_MAPPING_START_EVENT:
		has_anchor = ev->data.mapping_start.anchor;
		n->depth++;
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		n->depth--;
		break;
	case YAML_SCALAR_EVENT:
		has_anchor = ev->data.scalar.anchor;
		break;
	case YAML_ALIAS_EVENT:
		n->nr_aliases++;
		break;
	case YAML_STREAM_END_EVENT:
		n->is_over = true;
		break;
	default:
		break;
	}
	n->nr_anchors += has_anchor;
	if (n->depth > CONF_DEPTH_MAX)
		return "nested too deep, expected at most 16 levels";
	if (n->nr_anchors > CONF_ANCHORS_MAX || n->nr_aliases > CONF_ANCHORS_MAX)
		return "too many anchors or aliases, expected at most 64";
	return NULL;
}

/* 0, too, for what is no YAML: yaml_walk() meets the same, and says so. */
static int yaml_check_bounds(struct walk *w, const void *text, size_t bytes)
{
	struct yaml_counts n = {0};
	const char *why = NULL;
	yaml_parser_t p;
	yaml_event_t ev;
	int at;

	if (!yaml_parser_initialize(&p))
		return -ENOMEM;
	yaml_parser_set_input_string(&p, text, bytes);
	while (!n.is_over && !why && yaml_parser_parse(&p, &ev)) {
		why = yaml_count(&n, &ev);
		if (why) {
			at = walk_where(w, &ev.start_mark);
			snprintf(w->err + at, CONF_ERR_BYTES - (size_t)at, "%s", why);
		}
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&p);
	return why ? -EINVAL : 0;
}

int conf_yaml_parse(struct conf *c, const char *path, const void *text, size_t bytes,
		    char err[CONF_ERR_BYTES])
{
	struct walk w = {.c = c, .path = path, .err = err};
	yaml_parser_t p;
	int rc;

	snprintf(err, CONF_ERR_BYTES, "%s: no memory", path);
	rc = yaml_check_bounds(&w, text, bytes);
	if (rc)
		return rc;
	if (!yaml_parser_initialize(&p))
		return -ENOMEM;
	yaml_parser_set_input_string(&p, text, bytes);
	rc = yaml_walk(&w, &p);
	yaml_parser_delete(&p);
	conf_err_clean(err);
	return rc;
}

int conf_yaml_load(struct conf *c, const char *path, char err[CONF_ERR_BYTES])
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_free char *text = malloc(CONF_FILE_BYTES + 1);
	size_t have = 0;
	ssize_t n = 1;

	if (fd < 0 || !text) {
		n = fd < 0 ? -errno : -ENOMEM;
		snprintf(err, CONF_ERR_BYTES, "%s: %s", path, strerror((int)-n));
		return (int)n;
	}
	while (have <= CONF_FILE_BYTES && n > 0) {
		n = read(fd, text + have, CONF_FILE_BYTES + 1 - have);
		have += n > 0 ? (size_t)n : 0;
	}
	if (n < 0 || have > CONF_FILE_BYTES) {
		n = n < 0 ? -errno : -EFBIG;
		snprintf(err, CONF_ERR_BYTES, "%s: %s, expected a file of at most 1 MiB", path,
			 strerror((int)-n));
		return (int)n;
	}
	return conf_yaml_parse(c, path, text, have, err);
}
