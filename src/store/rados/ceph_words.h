/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a rados tier's objects are and who asks for them, as people write it: in peald.yaml behind
 * `rados`, in `peal doctor --rados` alone. NAME=VALUE each, in any order, each once, no blanks in
 * them. Stands alone and needs no librados. Pure functions, any thread.
 */
#ifndef STORE_RADOS_CEPH_WORDS_H
#define STORE_RADOS_CEPH_WORDS_H

#include <stdint.h>

#define CEPH_WORDS_EXPECTED \
	"pool=POOL [ns=NAME] [user=NAME] [conf=FILE] [keyring=FILE] [timeout=SECONDS] [keys=N]"

/* "", 0: not said. */
struct ceph_words {
	char pool[128], ns[128], user[64];
	char conf[512], keyring[512];
	uint32_t timeout_s; /* 1 to 300 */
	uint32_t max_keys;  /* 1024 to 2^28 */
};

/* One word more. 0 or -EINVAL: not known, not good, or said before. */
int ceph_words_add(struct ceph_words *w, const char *word);
/* All of a text, with blanks between. 0 or -EINVAL: one is bad, or no pool is among them. */
int ceph_words_parse(struct ceph_words *w, const char *text);

#endif
