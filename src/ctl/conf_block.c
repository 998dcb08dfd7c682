/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block namespaces as people write them: "FILE[,size=SIZE][,lba=512|4096]", and an
 * RBD image where the file stands. A path has no comma. Main thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "blk/blk_rbd_uri.h"
#include "ctl/conf.h"

static int block_part(struct conf_block *b, const char *part, char *expected)
{
	char bounds[PARSE_EXPECTED_BYTES];

	if (strcmp(part, "lba=512") == 0 || strcmp(part, "lba=4096") == 0) {
		b->lba_bytes = part[4] == '5' ? 512 : 4096;
		return 0;
	}
	if (strncmp(part, "size=", 5))
		return -EINVAL;
	if (!parse_size_within(part + 5, CONF_NS_BYTES_MIN, CONF_BYTES_MAX, &b->size_bytes, bounds))
		return 0;
	snprintf(expected, OPT_EXPECTED_BYTES, "'%s' to be %s", part + 5, bounds);
	return -EINVAL;
}

int conf_block_parse(struct conf *c, const char *text, char expected[OPT_EXPECTED_BYTES])
{
	struct conf_block b = {.lba_bytes = 512};
	char buf[OPT_VALUE_BYTES], *at = buf, *part;
	struct blk_rbd_uri uri;

	if (c->nr_blocks == CONF_BLOCKS_MAX) {
		snprintf(expected, OPT_EXPECTED_BYTES, "at most %d of them", CONF_BLOCKS_MAX);
		return -EINVAL;
	}
	if (strlen(text) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, text);
	part = strsep(&at, ",");
	if (!*part || strlen(part) >= sizeof(b.path))
		return -EINVAL;
	if (blk_rbd_uri_is(part) && blk_rbd_uri_parse(part, &uri)) {
		snprintf(expected, OPT_EXPECTED_BYTES, "%s", BLK_RBD_EXPECTED);
		return -EINVAL;
	}
	strcpy(b.path, part);
	while ((part = strsep(&at, ",")) != NULL)
		if (block_part(&b, part, expected))
			return -EINVAL;
	c->blocks[c->nr_blocks++] = b;
	return 0;
}
