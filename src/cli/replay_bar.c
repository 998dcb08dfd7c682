/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line fits 80 columns: "[##########..........]  43 %  TEXT  12 s left". What is left is
 * estimated from the requests done so far. One thread.
 */
#include "cli/replay_bar.h"

#include "base/mono.h"

#define BAR_CELLS 20u
#define BAR_EVERY_NS (100 * MONO_NS_PER_MS)

static unsigned bar_of(uint64_t done, uint64_t total, unsigned parts)
{
	return total ? (unsigned)(done * parts / total) : parts;
}

void replay_bar_init(struct replay_bar *b, FILE *out, bool is_terminal, uint64_t now_ns)
{
	*b = (struct replay_bar){
		.out = out,
		.is_terminal = is_terminal,
		.start_ns = now_ns,
		.drawn_ns = now_ns,
	};
}

bool replay_bar_is_due(const struct replay_bar *b, uint64_t done, uint64_t total, uint64_t now_ns)
{
	if (b->is_terminal)
		return now_ns - b->drawn_ns >= BAR_EVERY_NS;
	return bar_of(done, total, 10) > b->tenth;
}

static void bar_line(const struct replay_bar *b, const struct replay_bar_at *at)
{
	unsigned cells = bar_of(at->done, at->total, BAR_CELLS);
	double spent_s = (double)(at->now_ns - b->start_ns) / 1e9;
	double left_s = at->done ? spent_s * (double)(at->total - at->done) / (double)at->done : 0;

	fputs("\r[", b->out);
	for (unsigned i = 0; i < BAR_CELLS; i++)
		putc(i < cells ? '#' : '.', b->out);
	fprintf(b->out, "] %3u %%  %s, %.0f s left\033[K", bar_of(at->done, at->total, 100),
		at->text, left_s);
}

void replay_bar_draw(struct replay_bar *b, const struct replay_bar_at *at)
{
	b->drawn_ns = at->now_ns;
	b->tenth = bar_of(at->done, at->total, 10);
	if (b->is_terminal)
		bar_line(b, at);
	else
		fprintf(b->out, "%3u %%  %s, %.0f s so far\n", bar_of(at->done, at->total, 100),
			at->text, (double)(at->now_ns - b->start_ns) / 1e9);
	fflush(b->out);
}

void replay_bar_end(struct replay_bar *b)
{
	if (b->is_terminal) {
		fputs("\r\033[K", b->out);
		fflush(b->out);
	}
}
