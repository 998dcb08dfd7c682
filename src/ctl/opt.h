/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option table: one row says everything about one option - its key in the configuration file,
 * its name on the command line, what it takes, its bounds, its default and one sentence of help.
 * Behind it stand the file (conf_yaml.c), the command line (opt_args.c), --help, the man pages
 * (opt_doc.c) and what the RPC `config` says. A later tier, transport or namespace kind comes in
 * by rows.
 *
 * A group is the rows of one C struct: that of the daemon, of a transport, of a namespace. Values
 * come as text from everywhere and are checked here, once; what is wrong is told as "expected ...".
 * The tables are constant; functions run on the calling thread.
 */
#ifndef CTL_OPT_H
#define CTL_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPT_EXPECTED_BYTES 256
#define OPT_VALUE_BYTES 1100
#define OPT_RANGE_BYTES 64

enum opt_kind {
	OPT_SIZE,   /* uint64_t, or uint32_t: bytes */
	OPT_NUMBER, /* uint64_t, uint32_t or uint16_t */
	OPT_BOOL,   /* bool: yes or no */
	OPT_FLAG,   /* bool, command line only: it is given or not */
	OPT_TEXT,   /* char[] */
	OPT_CHOICE, /* uint8_t: index in names */
	OPT_CALL,   /* set() reads it, get() writes it */
};

struct opt {
	const char
		*key; /* in the file, "log.level" for a mapping in the mapping; NULL: not there */
	const char *name;      /* long option; NULL: not on the command line */
	int letter;	       /* short option; 0: none */
	const char *arg;       /* what stands for the value in texts */
	const char *help;      /* a sentence without its full stop */
	const char *dflt;      /* as text; NULL: none */
	const char *dflt_help; /* what the default is when that isn't a text */
	enum opt_kind kind;
	uint32_t at;	/* of the field in the group's struct */
	uint32_t bytes; /* of the field */
	uint64_t min, max;
	const char *const *names; /* OPT_CHOICE: ended by NULL */
	const char *expected;	  /* OPT_CALL: for texts and errors */
	/* OPT_CALL: 0 or -EINVAL; may write a better `expected`. text NULL: a flag. */
	int (*set)(void *group, const char *text, char expected[OPT_EXPECTED_BYTES]);
	void (*get)(const void *group, char value[OPT_VALUE_BYTES]);
};

struct opt_group {
	const char *name;
	const char *help;
	const struct opt *opts;
	unsigned nr;
	uint32_t base; /* of the struct in struct conf, for rows that have a name */
};

/* The field of struct `type` that a row fills, for its at and bytes. */
#define OPT_FIELD(type, member) \
	.at = offsetof(struct type, member), .bytes = sizeof(((struct type *)0)->member)

/* 0, or -EINVAL and what was expected. */
int opt_set(const struct opt *o, void *group, const char *text, char expected[OPT_EXPECTED_BYTES]);
/* As text that opt_set() reads back; "" when there is none. */
void opt_get(const struct opt *o, const void *group, char value[OPT_VALUE_BYTES]);
/* "a size from 1.0 MiB to 64.0 TiB, as in 8G" */
void opt_expected(const struct opt *o, char expected[OPT_EXPECTED_BYTES]);
/* "1 to 256", "1.0 MiB to 64.0 TiB"; "": it isn't of numbers. */
void opt_range(const struct opt *o, char range[OPT_RANGE_BYTES]);
/* Every row's default; the struct was zeroed. */
void opt_defaults(const struct opt_group *g, void *group);
const struct opt *opt_find(const struct opt_group *g, const char *key);
/* "listen, socket": the keys behind `prefix` ("" or "log."), sections once, as far as they fit. */
void opt_keys(const struct opt_group *g, const char *prefix, char keys[OPT_EXPECTED_BYTES]);
/* Is `key` a mapping in the mapping: does any row's key begin with "key."? */
bool opt_is_section(const struct opt_group *g, const char *key);

#endif
