/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets as text: what nvme gen-dhchap-key makes is taken, everything else refused with a reason
 * that says nothing of it; and a file that others may read.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/tcp/tcp_crypt.h"
#include "transport/tcp/tcp_secrets.h"

/* Bytes 0 to 31, their CRC-32 91267e8a. */
#define BYTES_32 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+Kfiab"
#define GOOD "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"

static int word(const char *text)
{
	struct tcp_secret s = {0};
	int err = tcp_secrets_word(text, strlen(text), &s);

	assert_int_equal(s.bytes, err ? 0 : 32);
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(s.b[i], err ? 0 : i);
	return err;
}

static void test_word(void **state)
{
	char text[128];

	assert_int_equal(word(GOOD), 0);
	assert_int_equal(word("DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"), 0);
	/* 32 bytes don't go with SHA-384. */
	assert_int_equal(word("DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"),
			 -EINVAL);
	assert_int_equal(word("DHHC-1:00:" BYTES_32 ":"), -EINVAL);
	assert_int_equal(word("DHHC-1:00:====:"), -EINVAL);
	assert_int_equal(word("DHHC-1:00::"), -EINVAL);
	assert_int_equal(word(""), -EINVAL);
	/* Any byte another, and cut anywhere. */
	for (size_t i = 0; i < strlen(GOOD); i++) {
		for (unsigned bit = 0; bit < 7; bit++) {
			strcpy(text, GOOD);
			text[i] ^= (char)(1 << bit);
			assert_true(i == 8 || word(text) == -EINVAL);
		}
		strcpy(text, GOOD);
		text[i] = 0;
		assert_int_equal(word(text), -EINVAL);
	}
}

static int lines(const char *text, struct tcp_secrets *s, unsigned *line, const char **why)
{
	char copy[4096];

	snprintf(copy, sizeof(copy), "%s", text);
	return tcp_secrets_parse(copy, s, line, why);
}

static void test_lines(void **state)
{
	static const struct {
		const char *text;
		unsigned line;
	} bad[] = {
		{"nqn.a", 1},
		{"\n\nuuid:a " GOOD, 3},
		{"nqn.a DHHC-1:00:secret:", 1},
		{"nqn.a " GOOD " x", 1},
		{"nqn.a " GOOD " " GOOD " x", 1},
		{"nqn.a " GOOD "\n# nqn.a\nnqn.a " GOOD, 3},
	};
	struct tcp_secrets s;
	const char *why;
	unsigned line;

	assert_int_equal(lines("# hosts\n\n \tnqn.a\t" GOOD "\r\nnqn.b " GOOD "  " GOOD, &s, &line,
			       &why),
			 0);
	assert_int_equal(s.nr, 2);
	assert_int_equal(tcp_secrets_find(&s, "nqn.a")->host.bytes, 32);
	assert_int_equal(tcp_secrets_find(&s, "nqn.a")->ctrl.bytes, 0);
	assert_int_equal(tcp_secrets_find(&s, "nqn.b")->ctrl.bytes, 32);
	assert_null(tcp_secrets_find(&s, "nqn.c"));
	tcp_secrets_fini(&s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(lines(bad[i].text, &s, &line, &why), -EINVAL);
		assert_int_equal(line, bad[i].line);
		assert_null(strstr(why, "secret:"));
		assert_null(s.of);
	}
	assert_int_equal(lines("", &s, &line, &why), 0);
	tcp_secrets_fini(&s);
}

static void test_file(void **state)
{
	char path[] = "/tmp/peal-test.XXXXXX", why[TCP_WHY_BYTES];
	int fd = mkstemp(path);
	struct tcp_secrets *s;

	assert_true(fd >= 0);
	dprintf(fd, "nqn.a %s\n", GOOD);
	assert_int_equal(tcp_secrets_load(path, &s, why), 0);
	assert_int_equal(tcp_secrets_find(s, "nqn.a")->host.bytes, 32);
	tcp_secrets_destroy(s);
	assert_int_equal(fchmod(fd, 0640), 0);
	assert_int_equal(tcp_secrets_load(path, &s, why), -EINVAL);
	assert_non_null(strstr(why, "0600"));
	assert_int_equal(fchmod(fd, 0600), 0);
	dprintf(fd, "nqn.b DHHC-1:00:secret:\n");
	assert_int_equal(tcp_secrets_load(path, &s, why), -EINVAL);
	assert_string_equal(why, "line 2: expected DHHC-1:NN:...: behind the host NQN, as nvme "
				 "gen-dhchap-key makes it");
	close(fd);
	unlink(path);
	assert_int_equal(tcp_secrets_load(path, &s, why), -EINVAL);
	assert_int_equal(tcp_secrets_load("/tmp", &s, why), -EINVAL);
	tcp_secrets_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_word),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_file),
	};

	if (!tcp_crypt_is_there())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
