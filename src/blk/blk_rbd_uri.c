/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as people write them: blk_rbd_uri.h has the form. A text is copied, then cut at its
 * separators. Any thread.
 */
#include "blk/blk_rbd_uri.h"

#include <errno.h>
#include <string.h>

#include "base/parse.h"

#define URI_SCHEME "rbd:"

bool blk_rbd_uri_is(const char *path)
{
	return strncmp(path, URI_SCHEME, strlen(URI_SCHEME)) == 0;
}

static int uri_copy(char *to, size_t bytes, const char *from, const char *refused)
{
	if (!*from || strlen(from) >= bytes || strpbrk(from, refused))
		return -EINVAL;
	strcpy(to, from);
	return 0;
}

static int uri_place(char *at, struct blk_rbd_uri *u)
{
	const char *refused = "/?&=,@";
	char *pool = strsep(&at, "/"), *space = strsep(&at, "/"), *image = strsep(&at, "/");

	if (!space || at)
		return -EINVAL;
	if (!image) {
		image = space;
		space = NULL;
	}
	if (uri_copy(u->pool, sizeof(u->pool), pool, refused) ||
	    (space && uri_copy(u->space, sizeof(u->space), space, refused)))
		return -EINVAL;
	return uri_copy(u->image, sizeof(u->image), image, refused);
}

/* Each once: u has none of them yet. */
static int uri_option(const char *text, struct blk_rbd_uri *u)
{
	char bounds[PARSE_EXPECTED_BYTES];
	uint64_t v;

	if (strncmp(text, "conf=", 5) == 0)
		return u->conf[0] ? -EINVAL : uri_copy(u->conf, sizeof(u->conf), text + 5, "?&=,");
	if (strncmp(text, "id=", 3) == 0)
		return u->id[0] ? -EINVAL : uri_copy(u->id, sizeof(u->id), text + 3, "/?&=,@");
	if (u->timeout_s || strncmp(text, "timeout=", 8) ||
	    parse_u64_within(text + 8, 1, 600, &v, bounds))
		return -EINVAL;
	u->timeout_s = (uint32_t)v;
	return 0;
}

int blk_rbd_uri_parse(const char *path, struct blk_rbd_uri *out)
{
	struct blk_rbd_uri u = {.timeout_s = 0};
	char buf[512], *at = buf, *place, *part;

	if (!blk_rbd_uri_is(path) || strlen(path) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, path + strlen(URI_SCHEME));
	place = strsep(&at, "?");
	if (uri_place(place, &u))
		return -EINVAL;
	while ((part = strsep(&at, "&")) != NULL)
		if (uri_option(part, &u))
			return -EINVAL;
	if (!u.id[0])
		strcpy(u.id, "admin");
	if (!u.timeout_s)
		u.timeout_s = 10;
	*out = u;
	return 0;
}
