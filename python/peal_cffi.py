#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of pealkv._peal: the public headers as cffi reads them, and a few loops.

usage: peal_cffi.py INCLUDE_DIR OUT.c

Declarations come out of peal/types.h, peal/peal.h and peal/key.h, so that there is no second list
of them: comments and directives are dropped, numeric macros become constants that the compiler
fills in. API mode: a difference between a header and the library doesn't compile. The module is
made for the limited API (cffi's default), one file for all Pythons.
"""

import os
import re
import sys

import cffi

HEADERS = ["types.h", "peal.h", "key.h"]

GLUE_DECLARATIONS = """
struct pk_fill {
	int op;
	uint32_t flags;
	const char *keys;
	const uint8_t *lengths;
	void **bufs;
	size_t *bytes;
	const uint8_t *tags;
	struct peal_meta *metas;
	...;
};
void pk_fill(struct peal_req *reqs, unsigned nr, const struct pk_fill *f);
void pk_results(const struct peal_req *reqs, unsigned nr, int64_t *out);
int pk_names(const uint8_t *digest, uint8_t type, const char *text, const size_t *ends, unsigned nr,
	     uint8_t *keys, uint8_t *tags);
"""

# Loops over a batch that would cost a microsecond a turn in Python.
GLUE = """
#include <errno.h>
#include <string.h>
#include "peal/key.h"
#include "peal/peal.h"

struct pk_fill {
	int op;
	uint32_t flags;
	const char *keys; /* PEAL_KEY_MAX bytes each */
	const uint8_t *lengths; /* NULL: all are that long */
	void **bufs; /* NULL: none */
	size_t *bytes;
	const uint8_t *tags; /* NULL, or PEAL_TAG_BYTES each, wanted; with metas: to go along */
	struct peal_meta *metas; /* NULL, or room for one each */
};

static void pk_fill(struct peal_req *reqs, unsigned nr, const struct pk_fill *f)
{
	for (unsigned i = 0; i < nr; i++) {
		const uint8_t *tag = f->tags ? f->tags + i * PEAL_TAG_BYTES : NULL;

		reqs[i] = (struct peal_req){
			.op = (enum peal_req_op)f->op,
			.flags = f->flags,
			.key = peal_key_bytes(f->keys + i * PEAL_KEY_MAX,
					      f->lengths ? f->lengths[i] : PEAL_KEY_MAX),
			.buf = f->bufs ? f->bufs[i] : NULL,
			.bytes = f->bufs ? f->bytes[i] : 0,
			.want_tag = f->metas ? NULL : tag,
		};
		if (tag && f->metas) {
			f->metas[i] = (struct peal_meta){0};
			memcpy(f->metas[i].tag, tag, PEAL_TAG_BYTES);
			reqs[i].meta = &f->metas[i];
		}
	}
}

/* The size of the value, or a negative errno. */
static void pk_results(const struct peal_req *reqs, unsigned nr, int64_t *out)
{
	for (unsigned i = 0; i < nr; i++)
		out[i] = reqs[i].res ? reqs[i].res : (int64_t)reqs[i].value_bytes;
}

/* Of engine keys one behind the other, each up to its end: PEAL_KEY_MAX and PEAL_TAG_BYTES each. */
static int pk_names(const uint8_t *digest, uint8_t type, const char *text, const size_t *ends,
		    unsigned nr, uint8_t *keys, uint8_t *tags)
{
	size_t at = 0;

	for (unsigned i = 0; i < nr; at = ends[i++]) {
		struct peal_key_named n;
		int err = peal_key_make(digest, type, text + at, ends[i] - at, &n);

		if (err < 0)
			return err;
		memcpy(keys + i * PEAL_KEY_MAX, n.key.b, PEAL_KEY_MAX);
		memcpy(tags + i * PEAL_TAG_BYTES, n.tag, PEAL_TAG_BYTES);
	}
	return 0;
}
"""


def declarations(include):
    text, numbers = "", {}
    for name in HEADERS:
        with open(os.path.join(include, "peal", name), encoding="utf-8") as f:
            header = re.sub(r"/\*.*?\*/|//[^\n]*", "", f.read(), flags=re.S)
        header = header.replace('extern "C" {', "")
        header = re.sub(r"#ifdef __cplusplus\s*\}\s*#endif", "", header)
        for macro, value in re.findall(r"^#define (PEAL_\w+) +(\S.*)$", header, flags=re.M):
            text += f"#define {macro} ...\n"
            if re.fullmatch(r"\d+u?", value.strip()):
                numbers[macro] = value.strip().rstrip("u")
        text += re.sub(r"^\s*#.*$", "", header, flags=re.M)
    # Sizes of arrays: the one place where cffi wants the number itself.
    text = re.sub(r"\[(PEAL_\w+)\]", lambda m: f"[{numbers[m.group(1)]}]", text)
    return text + GLUE_DECLARATIONS


def main():
    include, out = sys.argv[1:]
    ffi = cffi.FFI()
    ffi.cdef(declarations(include))
    ffi.set_source("pealkv._peal", GLUE)
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main()
