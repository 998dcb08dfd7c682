/* SPDX-License-Identifier: Apache-2.0 */
/* ceph_words.c: words in any order, each once; what is refused leaves nothing behind. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "store/rados/ceph_words.h"

static void test_good(void **state)
{
	struct ceph_words w;

	assert_int_equal(ceph_words_parse(&w, "pool=kv"), 0);
	assert_string_equal(w.pool, "kv");
	assert_true(!w.ns[0] && !w.user[0] && !w.conf[0] && !w.keyring[0]);
	assert_true(!w.timeout_s && !w.max_keys);
	assert_int_equal(ceph_words_parse(&w, "\tkeys=5000 conf=/c  timeout=7 keyring=/k user=u "
					      "ns=n pool=p "),
			 0);
	assert_string_equal(w.pool, "p");
	assert_string_equal(w.ns, "n");
	assert_string_equal(w.user, "u");
	assert_string_equal(w.conf, "/c");
	assert_string_equal(w.keyring, "/k");
	assert_int_equal(w.timeout_s, 7);
	assert_int_equal(w.max_keys, 5000);
}

static void test_bad(void **state)
{
	static const char *const bad[] = {
		"",
		"ns=n",
		"pool=",
		"pool=p pool=p",
		"pool=p ns=a ns=b",
		"pool=p timeout=0",
		"pool=p timeout=301",
		"pool=p timeout=3s",
		"pool=p timeout=3 timeout=3",
		"pool=p keys=1023",
		"pool=p keys=268435457",
		"pool=p colour=red",
		"pool p",
		"pool=p |",
	};
	struct ceph_words w, was;
	char text[2000];

	memset(&was, 0xa5, sizeof(was));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		w = was;
		if (ceph_words_parse(&w, bad[i]) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
		assert_memory_equal(&w, &was, sizeof(w));
	}
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "pool=", 5);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(ceph_words_parse(&w, text), -EINVAL);
	text[5 + 128] = 0;
	assert_int_equal(ceph_words_parse(&w, text), -EINVAL);
	text[5 + 127] = 0;
	assert_int_equal(ceph_words_parse(&w, text), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
