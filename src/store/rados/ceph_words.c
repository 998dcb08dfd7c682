/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a rados tier: a table of them; see ceph_words.h.
 */
#include "store/rados/ceph_words.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"

int ceph_words_add(struct ceph_words *w, const char *word)
{
	const struct {
		const char *name;
		char *to;
		size_t bytes;
		uint32_t *number;
		uint64_t min, max;
	} words[] = {
		{"pool=", w->pool, sizeof(w->pool), NULL, 0, 0},
		{"ns=", w->ns, sizeof(w->ns), NULL, 0, 0},
		{"user=", w->user, sizeof(w->user), NULL, 0, 0},
		{"conf=", w->conf, sizeof(w->conf), NULL, 0, 0},
		{"keyring=", w->keyring, sizeof(w->keyring), NULL, 0, 0},
		{"timeout=", NULL, 0, &w->timeout_s, 1, 300},
		{"keys=", NULL, 0, &w->max_keys, 1024, 1u << 28},
	};
	uint64_t number;

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].name);

		if (strncmp(word, words[i].name, n) != 0)
			continue;
		word += n;
		if (words[i].number) {
			if (*words[i].number || parse_u64(word, &number) || number < words[i].min ||
			    number > words[i].max)
				return -EINVAL;
			*words[i].number = (uint32_t)number;
			return 0;
		}
		if (!*word || *words[i].to || strlen(word) >= words[i].bytes)
			return -EINVAL;
		strcpy(words[i].to, word);
		return 0;
	}
	return -EINVAL;
}

int ceph_words_parse(struct ceph_words *out, const char *text)
{
	struct ceph_words w = {.timeout_s = 0};
	char buf[sizeof(w) + 128], *save = NULL;

	if (strlen(text) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, text);
	for (char *p = strtok_r(buf, " \t", &save); p; p = strtok_r(NULL, " \t", &save))
		if (ceph_words_add(&w, p))
			return -EINVAL;
	if (!w.pool[0])
		return -EINVAL;
	*out = w;
	return 0;
}
