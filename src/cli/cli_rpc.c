/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See cli_rpc.h. Replies are lines, so the end of one is found without parsing.
 * tidy: no-test: test/peer/ctl_rpc.py runs peal rpc
 */
#include "cli/cli_rpc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json_mem.h"
#include "base/mono.h"
#include "base/usock.h"

#define RPC_REPLY_BYTES (16u << 20)
#define RPC_NOT_FOUND (-32001)
#define RPC_MISTAKES_FIRST (-32602) /* invalid parameters, unknown method */
#define RPC_MISTAKES_LAST (-32601)

static int rpc_path(const struct cli *c, char path[CLI_RPC_PATH_BYTES])
{
	const char *env = getenv("PEAL_RPC"), *dir = strchr(c->uri, ':'), *end, *slash;
	int n;

	if (env && *env) {
		n = snprintf(path, CLI_RPC_PATH_BYTES, "%s", env);
	} else {
		dir = dir ? dir + 1 : c->uri;
		end = strchrnul(dir, '?');
		slash = memrchr(dir, '/', (size_t)(end - dir));
		if (slash && end - slash == 6 && strncmp(slash, "/cntrl", 6) == 0)
			end = slash;
		n = snprintf(path, CLI_RPC_PATH_BYTES, "%.*s/rpc", (int)(end - dir), dir);
	}
	if (n < CLI_RPC_PATH_BYTES)
		return 0;
	errno = ENAMETOOLONG;
	return -ENAMETOOLONG;
}

int cli_rpc_open(const struct cli *c, struct cli_rpc *r)
{
	int err;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	err = rpc_path(c, r->path);
	if (err)
		return err;
	r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	err = r->fd < 0 ? -errno : usock_connect(r->fd, r->path);
	errno = -err;
	return err;
}

void cli_rpc_close(struct cli_rpc *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	free(r->in);
	r->in = NULL;
}

static int rpc_wait(int fd, short events, uint64_t until_ns)
{
	struct pollfd p = {.fd = fd, .events = events};
	uint64_t now = mono_ns();
	int n;

	if (now >= until_ns)
		return -ETIMEDOUT;
	n = poll(&p, 1, (int)((until_ns - now) / MONO_NS_PER_MS + 1));
	if (n < 0 && errno != EINTR)
		return -errno;
	return 0;
}

static int rpc_send(struct cli_rpc *r, const char *text, uint64_t until_ns)
{
	size_t n = strlen(text);

	while (n) {
		ssize_t len = send(r->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		int err;

		if (len >= 0) {
			text += len;
			n -= (size_t)len;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		err = rpc_wait(r->fd, POLLOUT, until_ns);
		if (err)
			return err;
	}
	return 0;
}

/* One line into r->in, ended by NUL. */
static int rpc_receive(struct cli_rpc *r, uint64_t until_ns)
{
	char *end = NULL;

	r->nr_in = 0;
	while (!end) {
		ssize_t len;
		int err = rpc_wait(r->fd, POLLIN, until_ns);

		if (err)
			return err;
		if (!r->in)
			r->in = malloc(RPC_REPLY_BYTES);
		if (!r->in || r->nr_in == RPC_REPLY_BYTES)
			return r->in ? -EMSGSIZE : -ENOMEM;
		len = recv(r->fd, r->in + r->nr_in, RPC_REPLY_BYTES - r->nr_in, MSG_DONTWAIT);
		if (len == 0)
			return -ECONNRESET;
		if (len < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (len < 0)
			continue;
		end = memchr(r->in + r->nr_in, '\n', (size_t)len);
		r->nr_in += (size_t)len;
	}
	*end = 0;
	return 0;
}

json_t *cli_rpc_call(struct cli_rpc *r, const char *method, json_t *params, unsigned timeout_ms,
		     bool *is_error)
{
	uint64_t until_ns = mono_ns() + timeout_ms * MONO_NS_PER_MS;
	json_t *ask = json_pack("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", 1, "method", method);
	json_t *reply = NULL, *result = NULL;
	char *text;
	int err;

	if (params)
		json_object_set_new(ask, "params", params);
	text = ask ? json_dumps(ask, JSON_COMPACT) : NULL;
	json_decref(ask);
	/* What lacks a parameter asks for something else: of a purge, for all. */
	err = text && !json_mem_failed() ? rpc_send(r, text, until_ns) : -ENOMEM;
	json_mem_free(text);
	if (!err)
		err = rpc_receive(r, until_ns);
	if (!err) {
		reply = json_loads(r->in, 0, NULL);
		result = json_object_get(reply, "result");
		*is_error = !result;
		if (!result)
			result = json_object_get(reply, "error");
		json_incref(result);
		json_decref(reply);
		err = json_mem_failed() ? -ENOMEM : result ? 0 : -EPROTO;
	}
	if (err) {
		json_decref(result);
		result = NULL;
		*is_error = true;
	}
	errno = -err;
	return result;
}

static const char *rpc_hint(int err)
{
	switch (err) {
	case ENOENT:
		return ": is peald running? --uri or $PEAL_URI say where";
	case ECONNREFUSED:
		return ": a daemon has been here and is gone";
	case EACCES:
	case EPERM:
		return ": root and the user that peald runs as may ask";
	case ETIMEDOUT:
		return ": it listens and doesn't answer; see its log";
	default:
		return "";
	}
}

int cli_rpc_failed(const char *cmd, const struct cli_rpc *r, const json_t *error)
{
	int code = (int)json_integer_value(json_object_get(error, "code"));
	const char *text = json_string_value(json_object_get(error, "message"));

	if (!error && errno == ENAMETOOLONG) {
		fprintf(stderr,
			"peal %s: %s...: too long, expected a socket's path of at most %d "
			"bytes\n",
			cmd, r->path, CLI_RPC_PATH_BYTES - 1);
		return CLI_ERROR;
	}
	if (!error) {
		fprintf(stderr, "peal %s: %s: %s%s\n", cmd, r->path, strerror(errno),
			rpc_hint(errno));
		return CLI_ERROR;
	}
	fprintf(stderr, "peal %s: %s (%d)\n", cmd, text ? text : "no message", code);
	if (code >= RPC_MISTAKES_FIRST && code <= RPC_MISTAKES_LAST)
		return CLI_USAGE;
	return code == RPC_NOT_FOUND ? CLI_MISS : CLI_ERROR;
}

static bool rpc_is_absent(int err)
{
	return err == ENOENT || err == ECONNREFUSED || err == EACCES || err == EPERM ||
	       err == ENAMETOOLONG;
}

int cli_rpc_maybe(const char *cmd, const struct cli *c, const char *method, unsigned timeout_ms,
		  json_t **result)
{
	json_t *said = NULL;
	bool is_error = true;
	struct cli_rpc r;
	int rc = CLI_OK;

	if (cli_rpc_open(c, &r) == 0)
		said = cli_rpc_call(&r, method, NULL, timeout_ms, &is_error);
	if (is_error && (said || !rpc_is_absent(errno)))
		rc = cli_rpc_failed(cmd, &r, said);
	cli_rpc_close(&r);
	if (is_error)
		json_decref(said);
	*result = is_error ? NULL : said;
	return rc;
}
