/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a JSON message ends in a stream of bytes: brackets are counted, texts are skipped. Not a
 * parser: what is between the brackets is jansson's to judge. Each byte is looked at once, however
 * small the pieces are that it comes in. Pure; any thread.
 */
#include <errno.h>
#include <string.h>

#include "ctl/rpc.h"

static void frame_in_text(struct rpc_frame *f, char c)
{
	if (f->is_escaped)
		f->is_escaped = false;
	else if (c == '\\')
		f->is_escaped = true;
	else if (c == '"')
		f->is_text = false;
}

/* True: c is the last byte of the message. */
static bool frame_in_json(struct rpc_frame *f, char c)
{
	if (c == '"')
		f->is_text = true;
	else if (c == '{' || c == '[')
		f->depth++;
	else if (c == '}' || c == ']')
		return --f->depth == 0;
	return false;
}

static bool frame_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* True: the message is over. */
static bool frame_byte(struct rpc_frame *f, char c)
{
	if (!f->is_begun) {
		if (frame_is_space(c))
			return false;
		f->is_begun = true;
		f->is_other = c != '{' && c != '[';
	}
	if (f->is_other)
		return c == '\n';
	if (f->is_text) {
		frame_in_text(f, c);
		return false;
	}
	return frame_in_json(f, c);
}

long rpc_frame_next(struct rpc_frame *f, const char *buf, size_t n)
{
	while (f->at < n) {
		bool is_over = frame_byte(f, buf[f->at++]);

		if (is_over) {
			long len = (long)f->at;

			memset(f, 0, sizeof(*f));
			return len;
		}
		if (f->depth > RPC_DEPTH_MAX)
			return -E2BIG;
	}
	return n >= RPC_MESSAGE_BYTES ? -E2BIG : 0;
}
