/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of tcp_secrets.h. It has to be ours or root's, with no right for anybody else; its text
 * and what was made of it are wiped when they aren't needed any more. Main thread.
 */
#include "transport/tcp/tcp_secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/le.h"
#include "transport/tcp/tcp_crypt.h"

#define SECRET_HOSTS_MAX 4096u
#define SECRETS_BYTES_MAX (2u << 20)
#define SECRET_PREFIX "DHHC-1:"
#define SECRET_CRC_BYTES 4u

/* CRC-32 of zlib, of a secret's few bytes. */
static uint32_t secret_crc(const uint8_t *p, size_t n)
{
	uint32_t crc = UINT32_MAX;

	while (n--) {
		crc ^= *p++;
		for (unsigned i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static int base64_digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Bytes, at most `room`; -EINVAL: it is none, or has more. */
static int base64_parse(const char *text, size_t n, uint8_t *out, size_t room)
{
	size_t nr_pad = 0, len = 0;
	uint32_t acc = 0;

	while (nr_pad < n && nr_pad < 2 && text[n - 1 - nr_pad] == '=')
		nr_pad++;
	if (!n || n % 4 || n / 4 * 3 - nr_pad > room)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		int digit = i < n - nr_pad ? base64_digit(text[i]) : 0;

		if (digit < 0)
			return -EINVAL;
		acc = acc << 6 | (uint32_t)digit;
		if (i % 4 != 3)
			continue;
		for (int shift = 16; shift >= 0 && len < n / 4 * 3 - nr_pad; shift -= 8)
			out[len++] = (uint8_t)(acc >> shift);
	}
	return (int)len;
}

/* DHHC-1:0N: and a colon at the end. */
static int secret_check(const char *text, size_t n, struct tcp_secret *s)
{
	uint8_t b[NVMF_HASH_MAX + SECRET_CRC_BYTES];
	size_t at = strlen(SECRET_PREFIX);
	int len, err = -EINVAL;

	if (n < at + 4 || memcmp(text, SECRET_PREFIX, at) != 0 || text[at] != '0' ||
	    text[at + 1] < '0' || text[at + 1] > '3' || text[at + 2] != ':' || text[n - 1] != ':')
		return -EINVAL;
	s->hash = (uint8_t)(text[at + 1] - '0');
	len = base64_parse(text + at + 3, n - at - 4, b, sizeof(b)) - (int)SECRET_CRC_BYTES;
	if ((len == 32 || len == 48 || len == 64) &&
	    (s->hash == NVMF_HASH_NONE || nvmf_hash_bytes(s->hash) == (uint32_t)len) &&
	    secret_crc(b, (size_t)len) == le32_get(b + len)) {
		s->bytes = (uint8_t)len;
		memcpy(s->b, b, (size_t)len);
		err = 0;
	}
	tcp_crypt_wipe(b, sizeof(b));
	return err;
}

int tcp_secrets_word(const char *text, size_t n, struct tcp_secret *s)
{
	int err = secret_check(text, n, s);

	if (err)
		*s = (struct tcp_secret){0};
	return err;
}

static const char *line_parse(char *line, struct tcp_secret_host *h)
{
	char *at, *nqn = strtok_r(line, " \t\r", &at);
	char *host = strtok_r(NULL, " \t\r", &at), *ctrl = strtok_r(NULL, " \t\r", &at);

	if (strlen(nqn) > NVMF_NQN_MAX || strncmp(nqn, "nqn.", 4) != 0)
		return "expected a host NQN first";
	strcpy(h->nqn, nqn);
	if (!host || tcp_secrets_word(host, strlen(host), &h->host))
		return "expected DHHC-1:NN:...: behind the host NQN, as nvme gen-dhchap-key makes "
		       "it";
	if (ctrl && tcp_secrets_word(ctrl, strlen(ctrl), &h->ctrl))
		return "expected DHHC-1:NN:...: or nothing behind the host's secret";
	if (strtok_r(NULL, " \t\r", &at))
		return "expected nothing behind the second secret";
	return NULL;
}

static const char *line_add(char *line, struct tcp_secrets *s)
{
	const char *why;

	if (s->nr == SECRET_HOSTS_MAX)
		return "there are too many hosts";
	why = line_parse(line, &s->of[s->nr]);
	if (why)
		return why;
	for (size_t i = 0; i < s->nr; i++)
		if (strcmp(s->of[i].nqn, s->of[s->nr].nqn) == 0)
			return "expected each host once";
	s->nr++;
	return NULL;
}

int tcp_secrets_parse(char *text, struct tcp_secrets *s, unsigned *line, const char **why)
{
	char *next;

	*s = (struct tcp_secrets){.of = calloc(SECRET_HOSTS_MAX, sizeof(*s->of))};
	*line = 0;
	*why = "no memory";
	if (!s->of)
		return -ENOMEM;
	for (*why = NULL; text && !*why; text = next) {
		next = strchr(text, '\n');
		if (next)
			*next++ = 0;
		++*line;
		text += strspn(text, " \t\r");
		if (*text && *text != '#')
			*why = line_add(text, s);
	}
	if (!*why)
		return 0;
	tcp_secrets_fini(s);
	return -EINVAL;
}

void tcp_secrets_fini(struct tcp_secrets *s)
{
	if (s->of)
		tcp_crypt_wipe(s->of, SECRET_HOSTS_MAX * sizeof(*s->of));
	free(s->of);
	*s = (struct tcp_secrets){0};
}

const struct tcp_secret_host *tcp_secrets_find(const struct tcp_secrets *s, const char *nqn)
{
	for (size_t i = 0; i < s->nr; i++)
		if (strcmp(s->of[i].nqn, nqn) == 0)
			return &s->of[i];
	return NULL;
}

/* ---- the file ---- */

/* It has to be ours, or root's, and nobody else's. */
static const char *file_check(int fd, size_t *bytes)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return "expected a file";
	if (st.st_mode & 077)
		return "others may read or write it, expected mode 0600";
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return "it is another user's";
	if (st.st_size > (off_t)SECRETS_BYTES_MAX)
		return "it is too large";
	*bytes = (size_t)st.st_size;
	return NULL;
}

static int file_read(int fd, char *text, size_t bytes)
{
	size_t at = 0;
	ssize_t n = 1;

	while (at < bytes && n > 0) {
		n = read(fd, text + at, bytes - at);
		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	text[at] = 0;
	return 0;
}

static int file_parse(int fd, size_t bytes, struct tcp_secrets *s, char why[TCP_WHY_BYTES])
{
	char *text = malloc(bytes + 1);
	const char *what = NULL;
	unsigned line = 0;
	int err = text ? file_read(fd, text, bytes) : -ENOMEM;

	if (!err)
		err = tcp_secrets_parse(text, s, &line, &what);
	if (what)
		snprintf(why, TCP_WHY_BYTES, "line %u: %s", line, what);
	else
		snprintf(why, TCP_WHY_BYTES, "%s", strerror(-err));
	if (text)
		tcp_crypt_wipe(text, bytes + 1);
	free(text);
	return err;
}

int tcp_secrets_load(const char *path, struct tcp_secrets **out, char why[TCP_WHY_BYTES])
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_free struct tcp_secrets *s = calloc(1, sizeof(*s));
	const char *what = NULL;
	size_t bytes = 0;
	int err;

	if (!tcp_crypt_is_there())
		what = "this program was built without OpenSSL";
	else if (fd < 0 || !s)
		what = strerror(errno);
	else
		what = file_check(fd, &bytes);
	if (what) {
		snprintf(why, TCP_WHY_BYTES, "%s", what);
		return -EINVAL;
	}
	err = file_parse(fd, bytes, s, why);
	if (err)
		return err;
	*out = s;
	s = NULL;
	return 0;
}

void tcp_secrets_destroy(struct tcp_secrets *s)
{
	if (!s)
		return;
	tcp_secrets_fini(s);
	free(s);
}
