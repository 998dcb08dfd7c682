/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings from bytes: the parser reads anything without harm, and what it accepts is consistent.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/must.h"
#include "transport/replay/replay_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct replay_file_head head = {.magic = REPLAY_FILE_MAGIC,
					.version = REPLAY_FILE_VERSION,
					.head_bytes = sizeof(head)};
	uint8_t *buf = malloc(sizeof(head) + size);
	uint64_t sum = 0, seq;
	struct replay_file f;

	must(buf);
	/* The head is given: its magic isn't worth finding. */
	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), data, size);
	if (replay_file_parse(buf, sizeof(head) + size, &f) == 0) {
		for (uint32_t i = 0; i < f.nr_events; i++) {
			seq = f.events[i] >> 1;
			must(seq < f.nr_cmds);
			must(f.events[i] & 1 ? f.cmds[seq].cqe != NULL : f.cmds[seq].sqe != NULL);
			sum += f.cmds[seq].sqe->cid;
			for (uint32_t at = 0; f.cmds[seq].data && at < f.cmds[seq].len; at++)
				sum += f.cmds[seq].data[at];
		}
		replay_file_close(&f);
	}
	free(buf);
	return sum == 1; /* never: libFuzzer wants 0, the compiler wants the sum used */
}
