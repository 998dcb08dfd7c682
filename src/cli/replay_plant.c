/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings are read in windows that overlap by less than what is looked for, so a value across two
 * windows is found, and once. One thread.
 */
#include "cli/replay_plant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define PLANT_WINDOW_BYTES (4u << 20)
/* Somewhere in the middle of what was found: byte and bit. */
#define PLANT_AT 37u
#define PLANT_BIT 0x08u

/* Start and end of a writable shared mapping of a memfd; 0 when the line is none. */
static int plant_parse(const char *line, uint64_t *start, uint64_t *end)
{
	char perms[8];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", start, end, perms) != 3)
		return 0;
	return strncmp(perms, "rw-s", 4) == 0 && strstr(line, "/memfd:") != NULL;
}

static int plant_flip(int mem, uint64_t addr)
{
	uint8_t b;

	if (pread(mem, &b, 1, (off_t)addr) != 1)
		return -errno;
	b ^= PLANT_BIT;
	return pwrite(mem, &b, 1, (off_t)addr) == 1 ? 0 : -errno;
}

/* Finds and flips in n bytes that were read from addr. */
static int plant_window(int mem, uint64_t addr, const uint8_t *buf, size_t n, const uint8_t *head)
{
	const uint8_t *p = buf;
	int nr = 0;

	while ((p = memmem(p, n - (size_t)(p - buf), head, REPLAY_PLANT_BYTES))) {
		int err = plant_flip(mem, addr + (uint64_t)(p - buf) + PLANT_AT);

		if (err)
			return err;
		p += REPLAY_PLANT_BYTES;
		nr++;
	}
	return nr;
}

static int plant_mapping(int mem, uint64_t start, uint64_t end, const uint8_t *head)
{
	auto_free uint8_t *buf = malloc(PLANT_WINDOW_BYTES);
	int nr = 0;

	if (!buf)
		return -ENOMEM;
	while (start + REPLAY_PLANT_BYTES <= end) {
		size_t want = end - start < PLANT_WINDOW_BYTES ? (size_t)(end - start)
							       : PLANT_WINDOW_BYTES;
		ssize_t n = pread(mem, buf, want, (off_t)start);
		int found;

		/* Behind the end of a file that is shorter than its mapping. */
		if (n < (ssize_t)REPLAY_PLANT_BYTES)
			return nr;
		found = plant_window(mem, start, buf, (size_t)n, head);
		if (found < 0)
			return found;
		nr += found;
		start += (uint64_t)n - (REPLAY_PLANT_BYTES - 1);
	}
	return nr;
}

int replay_plant(pid_t pid, const uint8_t head[REPLAY_PLANT_BYTES])
{
	auto_fclose FILE *maps = NULL;
	auto_close int mem = -1;
	char path[64], line[512];
	uint64_t start, end;
	int nr = 0;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	if (mem < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	while (fgets(line, sizeof(line), maps)) {
		int found = 0;

		if (plant_parse(line, &start, &end))
			found = plant_mapping(mem, start, end, head);
		if (found < 0)
			return found;
		nr += found;
	}
	return nr ? nr : -ENOENT;
}
