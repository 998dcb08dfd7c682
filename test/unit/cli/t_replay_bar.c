/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_bar: ten plain lines where there is no terminal, one line of less than 80 columns that is
 * written over where there is. The clock is the test's. One thread.
 */
#include "unit.h"

#include <string.h>

#include "base/mono.h"
#include "cli/replay_bar.h"

static char *run(bool is_terminal, unsigned total, uint64_t step_ns)
{
	struct replay_bar bar;
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	replay_bar_init(&bar, f, is_terminal, 1000);
	for (unsigned i = 1; i <= total; i++) {
		struct replay_bar_at at = {i, total, 1000 + i * step_ns, "hits 12.3 %"};

		if (replay_bar_is_due(&bar, i, total, at.now_ns))
			replay_bar_draw(&bar, &at);
	}
	replay_bar_end(&bar);
	fclose(f);
	return text;
}

static unsigned count(const char *text, char c)
{
	unsigned nr = 0;

	for (; *text; text++)
		nr += *text == c;
	return nr;
}

static void t_plain(void **state)
{
	char *text = run(false, 995, MONO_NS_PER_MS);

	assert_int_equal(count(text, '\n'), 10);
	assert_int_equal(count(text, '\r'), 0);
	assert_non_null(strstr(text, "100 %  hits 12.3 %"));
	free(text);
}

static void t_few(void **state)
{
	char *text = run(false, 3, MONO_NS_PER_MS);

	assert_int_equal(count(text, '\n'), 3);
	free(text);
}

static void t_terminal(void **state)
{
	char *text = run(true, 1000, 10 * MONO_NS_PER_MS);
	char *line, *rest = NULL;

	assert_int_equal(count(text, '\n'), 0);
	/* 10 s of requests, one line every 100 ms, and the one that clears. */
	assert_int_equal(count(text, '\r'), 101);
	assert_non_null(strstr(text, "[##########..........]  50 %  hits 12.3 %, 5 s left"));
	for (line = strtok_r(text, "\r", &rest); line; line = strtok_r(NULL, "\r", &rest))
		assert_true(strlen(line) < 80);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_plain),
		cmocka_unit_test(t_few),
		cmocka_unit_test(t_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
