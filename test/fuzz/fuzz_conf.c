/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files from bytes: whatever stands in one, it is good, and then fits together within
 * its bounds, or it is refused with a line that names the file.
 */
#include <stdint.h>
#include <string.h>
#include "base/must.h"
#include "ctl/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_check(const struct conf *c)
{
	uint64_t sum = 0;

	must(c->nr_ns >= 1 && c->nr_ns <= CONF_NS_MAX);
	must(c->nr_reactors >= 1 && c->nr_reactors <= 31);
	must(memchr(c->rpc_socket, 0, sizeof(c->rpc_socket)));
	for (uint32_t i = 0; i < c->nr_ns; i++) {
		must(c->ns[i].name[0] && c->ns[i].nr_tiers >= 1 &&
		     c->ns[i].nr_tiers <= CONF_TIERS_MAX);
		must(c->ns[i].nr_classes <= CONF_CLASSES_MAX);
		sum += c->ns[i].bytes;
	}
	must(sum <= c->dram_bytes);
}

/* One line, and a terminal reads it: no byte of the file's may command it. */
static void fuzz_check_refusal(const char *err, const char *begin)
{
	must(err[0] && strncmp(err, begin, strlen(begin)) == 0);
	for (; *err; err++)
		must((unsigned char)*err >= ' ' && *err != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf *c = conf_create();
	char err[CONF_ERR_BYTES] = "";

	must(c);
	if (conf_yaml_parse(c, "f.yaml", data, size, err))
		fuzz_check_refusal(err, "f.yaml:");
	else if (conf_finish(c, err))
		fuzz_check_refusal(err, "");
	else
		fuzz_check(c);
	conf_destroy(c);
	return 0;
}
