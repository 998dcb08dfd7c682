/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: files, or those of a folder, or a number of random inputs
 * from a seed, each a few mutations away from the one before. So that every target is built and
 * run by every build; finding things is libFuzzer's job (bench/fuzz).
 *
 *	fuzz_sqe 1000 | fuzz_sqe FILE|FOLDER...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/rng.h"

#define INPUT_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t input[INPUT_MAX];

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		perror(path);
		return 1;
	}
	n = fread(input, 1, sizeof(input), f);
	fclose(f);
	LLVMFuzzerTestOneInput(input, n);
	return 0;
}

static int run_path(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	char name[4096];
	int err = 0;

	if (!dir)
		return run_file(path);
	while ((d = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", path, d->d_name);
		if (d->d_name[0] != '.')
			err |= run_file(name);
	}
	closedir(dir);
	return err;
}

static int run_random(unsigned long nr)
{
	const char *s = getenv("PEAL_SEED");
	uint64_t seed = s ? strtoull(s, NULL, 0) : 1;
	struct rng rng;
	size_t size = 0, at;

	printf("seed %llu\n", (unsigned long long)seed);
	rng_init(&rng, seed);
	for (unsigned long i = 0; i < nr; i++) {
		if (i % 64 == 0) {
			size = 1 + rng_below(&rng, INPUT_MAX);
			rng_fill(&rng, input, size);
		}
		for (unsigned n = 0; n < 8; n++) {
			at = rng_below(&rng, size);
			input[at] = rng_chance(&rng, 1, 2) ? (uint8_t)rng_below(&rng, 8)
							   : (uint8_t)rng_u64(&rng);
		}
		LLVMFuzzerTestOneInput(input, size);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char *end;
	unsigned long nr = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
	int err = 0;

	if (argc == 2 && *end == 0)
		return run_random(nr);
	for (int i = 1; i < argc; i++)
		err |= run_path(argv[i]);
	return err;
}
