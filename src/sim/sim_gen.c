/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversation model, as a simulation of events in order of time.
 *
 *	START --> request --+--> TURN     history + answer + message     turn + 1
 *	  |                 +--> RESEND   the same prompt again          turn + 1
 *	  +--> next START   +--> REWRITE  only the head of the prompt    turn 0
 *	                    +--> (gone)
 *
 * What comes after a request is drawn when the request is made, and waits in a heap until its
 * time. The simulation begins WARM_NS before the trace does, so that conversations are under way
 * at time 0 as they were when the real trace was cut; their earlier requests are dropped at the
 * end and the ids are numbered again in order of first use.
 *
 * All numbers of the model are in one table below, each a parameter of a distribution; they were
 * found by maximum likelihood on the real trace and by matching the published curves. Runs on the
 * caller's thread.
 */
#include "sim/sim_gen.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/rng.h"

#define NS_PER_S 1e9
#define WARM_NS (150 * 1000000000ull)
#define NR_TURN_CLASSES 7 /* turn 0 .. 5, then "6 and more" */
#define NR_SIZE_CLASSES 4 /* up to 15, 40, 80 blocks, and more */
#define NR_GAP_CLASSES 4  /* turn 0 .. 2, then "3 and more" */
#define MESSAGE_TOKENS_MIN 2
#define SYSTEM_TOKENS 889 /* the system prompt: all of block 0 and a part of block 1 */

/* exp(N(ln median, sigma)) */
struct lognormal {
	double weight; /* of this part in a mixture */
	double median;
	double sigma;
};

/* A first message: a word or two, a question, a pasted page, a document. */
static const struct lognormal first_message[] = {
	{0.165, 12.0, 1.0},
	{0.13, 400.0, 1.3},
	{0.07, 4006.0, 0.22},
	{0.635, 9500.0, 1.03},
};

/* A later message: typed, or with something attached. The weight is how often. */
static const struct lognormal typed = {1.0, 14.5, 0.7};
static const struct lognormal attached[NR_GAP_CLASSES] = {
	{0.40, 2200.0, 1.25},
	{0.33, 1000.0, 1.60},
	{0.36, 350.0, 1.75},
	{0.36, 350.0, 1.75},
};

/*
 * Seconds from a request to the turn that follows it: at once, soon, later; by the turn it
 * follows.
 */
static const struct lognormal think[NR_GAP_CLASSES][3] = {
	{{0.012, 11.0, 0.3}, {0.608, 80.5, 0.59}, {0.38, 420.0, 0.78}},
	{{0.014, 11.0, 0.3}, {0.586, 88.5, 0.69}, {0.40, 262.0, 0.83}},
	{{0.007, 11.0, 0.3}, {0.643, 77.0, 0.60}, {0.35, 295.0, 0.66}},
	{{0.017, 11.0, 0.3}, {0.623, 68.0, 0.68}, {0.36, 219.0, 0.65}},
};

static const struct lognormal rewrite_think = {1.0, 125.0, 0.9};

/*
 * P(a further turn | this one's number). The first two are for long prompts: shorter ones are
 * likelier to go on, by so much for each halving below SHORT_BLOCKS, at most two.
 */
static const double p_turn[NR_TURN_CLASSES] = {0.26, 0.365, 0.56, 0.62, 0.68, 0.73, 0.86};
static const double p_turn_short[2] = {0.12, 0.07};
#define SHORT_BLOCKS 20
#define P_TURN_REWRITTEN 0.155

/* From the third on, a context that fills up makes people leave. */
#define LONG_BLOCKS 100
#define P_TURN_LONG 0.8

/* Reading takes time: a conversation of so many blocks would be twice as slow as an empty one. */
#define READING_BLOCKS 225.0

/* Given that there is a further turn: P(it is the same prompt again). */
#define P_RESEND 0.03

/* P(rewrite): rare, but for prompts of document size, and after a rewrite. */
#define P_REWRITE 0.05
#define P_REWRITE_DOCUMENT 0.29
#define P_REWRITE_AGAIN 0.46
#define DOCUMENT_BLOCKS_MIN 20
#define DOCUMENT_BLOCKS_MAX 80

/* Conversation starts a second, at scale 1. */
#define START_RATE 1.80

enum gen_kind {
	GEN_START,
	GEN_TURN,
	GEN_RESEND,
	GEN_REWRITE,
};

/* A request to come. */
struct gen_event {
	uint64_t time_ns;
	uint64_t seq;  /* ties are broken by it: no order depends on the heap */
	size_t parent; /* index of the request that it follows */
	uint32_t turn; /* of the parent */
	enum gen_kind kind;
};

struct gen {
	struct rng rng;
	const struct sim_gen_opt *opt;
	double owed[NR_TURN_CLASSES]; /* see gen_draw_balanced() */
	double owed_size[NR_TURN_CLASSES][NR_SIZE_CLASSES];
	struct gen_event *heap;
	size_t nr_heap;
	size_t cap_heap;
	uint64_t next_seq;
	uint64_t next_id;
	struct sim_trace all; /* the warm-up included */
	size_t nr_warm;
	uint64_t *ids; /* of the request being made */
};

static uint32_t turn_class(uint32_t turn)
{
	return turn < NR_TURN_CLASSES ? turn : NR_TURN_CLASSES - 1;
}

static uint32_t size_class(const struct sim_req *req)
{
	return (req->nr_blocks > 15) + (req->nr_blocks > 40) + (req->nr_blocks > 80);
}

static double gen_uniform(struct gen *g)
{
	return rng_f64(&g->rng);
}

/* Box-Muller; the second value is thrown away, so that a draw leaves no state behind. */
static double gen_normal(struct gen *g)
{
	double u = 1.0 - gen_uniform(g);
	double v = gen_uniform(g);

	return sqrt(-2.0 * log(u)) * cos(2.0 * M_PI * v);
}

static double gen_lognormal(struct gen *g, const struct lognormal *d)
{
	return d->median * exp(d->sigma * gen_normal(g));
}

/* Draw from a mixture; the last part takes what the weights leave over. */
static double gen_mixture(struct gen *g, const struct lognormal *parts, size_t nr_parts)
{
	double u = gen_uniform(g);
	size_t i = 0;

	while (i + 1 < nr_parts && u >= parts[i].weight)
		u -= parts[i++].weight;
	return gen_lognormal(g, &parts[i]);
}

/*
 * A coin of probability p whose count of heads stays close to the sum of the p's: what earlier
 * draws for such a turn, and for such a turn with a prompt of this size, are short of is added to
 * this one. A trace has a few hundred late turns and a few hundred huge prompts, and they carry
 * much of its traffic: with independent coins the hit rate would wander by two points from seed to
 * seed; so it does by one.
 */
static bool gen_draw_balanced(struct gen *g, const struct sim_req *req, uint32_t turn, double p)
{
	double *of_turn = &g->owed[turn_class(turn)];
	double *of_size = &g->owed_size[turn_class(turn)][size_class(req)];
	bool is_head = gen_uniform(g) < p + 0.2 * *of_turn + 0.2 * *of_size;

	*of_turn += p - is_head;
	*of_size += p - is_head;
	return is_head;
}

static bool event_before(const struct gen_event *a, const struct gen_event *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->seq < b->seq;
}

static void heap_swap(struct gen_event *a, struct gen_event *b)
{
	struct gen_event t = *a;

	*a = *b;
	*b = t;
}

static int gen_push(struct gen *g, struct gen_event ev)
{
	size_t i = g->nr_heap;

	if (i == g->cap_heap) {
		size_t cap = g->cap_heap ? 2 * g->cap_heap : 1024;
		struct gen_event *heap = realloc(g->heap, cap * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		g->heap = heap;
		g->cap_heap = cap;
	}
	ev.seq = g->next_seq++;
	g->heap[g->nr_heap++] = ev;
	while (i > 0 && event_before(&g->heap[i], &g->heap[(i - 1) / 2])) {
		heap_swap(&g->heap[i], &g->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	return 0;
}

static struct gen_event gen_pop(struct gen *g)
{
	struct gen_event top = g->heap[0];
	size_t i = 0;

	must(g->nr_heap > 0);
	g->heap[0] = g->heap[--g->nr_heap];
	for (;;) {
		size_t least = i;

		for (size_t c = 2 * i + 1; c <= 2 * i + 2 && c < g->nr_heap; c++)
			if (event_before(&g->heap[c], &g->heap[least]))
				least = c;
		if (least == i)
			return top;
		heap_swap(&g->heap[i], &g->heap[least]);
		i = least;
	}
}

static size_t gap_class(uint32_t turn)
{
	return turn < NR_GAP_CLASSES ? turn : NR_GAP_CLASSES - 1;
}

/* Answers: a few words, or a page or so, and now and then until the limit. */
static uint32_t gen_answer_tokens(struct gen *g)
{
	double u = gen_uniform(g);
	double tokens;

	if (u < 0.012)
		return 2000;
	if (u < 0.17)
		return (uint32_t)exp(1.0 + 4.0 * gen_uniform(g));
	tokens = 410.0 + 170.0 * gen_normal(g);
	return tokens < 20.0 ? 20 : (uint32_t)tokens;
}

static uint32_t gen_message_tokens(struct gen *g, uint32_t turn)
{
	const struct lognormal *more = &attached[gap_class(turn)];
	bool is_attached = gen_uniform(g) < more->weight;
	double tokens = gen_lognormal(g, is_attached ? more : &typed);

	return MESSAGE_TOKENS_MIN + (uint32_t)fmin(tokens, SIM_TRACE_TOKENS_MAX / 2);
}

/* Prompt length of what ev announces; what doesn't fit into the model's context is left out. */
static uint32_t gen_input_tokens(struct gen *g, const struct gen_event *ev)
{
	const struct sim_req *parent = &g->all.reqs[ev->parent];
	double tokens = 0.0;

	switch (ev->kind) {
	case GEN_START:
		tokens = MESSAGE_TOKENS_MIN +
			 gen_mixture(g, first_message,
				     sizeof(first_message) / sizeof(*first_message));
		tokens += SYSTEM_TOKENS;
		break;
	case GEN_TURN:
		tokens = (double)parent->input_tokens + parent->output_tokens +
			 gen_message_tokens(g, ev->turn);
		break;
	case GEN_RESEND:
		tokens = parent->input_tokens;
		break;
	case GEN_REWRITE:
		tokens = SYSTEM_TOKENS +
			 (parent->input_tokens - SYSTEM_TOKENS) * exp(0.28 * gen_normal(g));
		break;
	}
	return (uint32_t)fmin(tokens, g->opt->max_input_tokens);
}

/* How many leading blocks of its parent the request that ev announces has in common with it. */
static uint32_t gen_nr_kept(struct gen *g, const struct gen_event *ev, uint32_t input_tokens)
{
	const struct sim_req *parent = &g->all.reqs[ev->parent];
	uint32_t nr_kept;
	double u;

	switch (ev->kind) {
	case GEN_START:
		return g->next_id > 0;
	case GEN_TURN:
		return parent->input_tokens / SIM_BLOCK_TOKENS;
	case GEN_RESEND:
		return parent->nr_blocks;
	case GEN_REWRITE:
		u = gen_uniform(g);
		nr_kept = 1 +
			  (uint32_t)(pow(u, 2.3) * (parent->input_tokens / SIM_BLOCK_TOKENS - 1));
		/* A partial tail is never the same block as a full one. */
		return nr_kept < input_tokens / SIM_BLOCK_TOKENS ? nr_kept
								 : input_tokens / SIM_BLOCK_TOKENS;
	}
	return 0;
}

/* Append the request that ev announces. 0 or -errno. */
static int gen_make(struct gen *g, const struct gen_event *ev, struct sim_req *req)
{
	uint32_t input_tokens = gen_input_tokens(g, ev);
	uint32_t nr_kept = gen_nr_kept(g, ev, input_tokens);

	*req = (struct sim_req){
		.time_ns = ev->time_ns,
		.input_tokens = input_tokens,
		.output_tokens = gen_answer_tokens(g),
		.nr_blocks = sim_trace_blocks(input_tokens),
		.ids = g->ids,
	};
	if (nr_kept > 0)
		memcpy(g->ids, g->all.reqs[ev->parent].ids, nr_kept * sizeof(*g->ids));
	for (uint32_t i = nr_kept; i < req->nr_blocks; i++)
		g->ids[i] = g->next_id++;
	return sim_trace_append(&g->all, req);
}

/*
 * The number of the turn, as one sees it who knows only block ids: a prompt that has no more than
 * the system prompt's block in common with the one before it looks like a new conversation.
 */
static uint32_t gen_turn(const struct gen *g, const struct gen_event *ev)
{
	if (ev->kind == GEN_START || ev->kind == GEN_REWRITE)
		return 0;
	if (g->all.reqs[ev->parent].input_tokens / SIM_BLOCK_TOKENS < 2)
		return 0;
	return ev->turn + 1;
}

/* Short conversations are likelier to go on than those that open with a document. */
static double gen_p_turn(const struct gen *g, const struct sim_req *req, uint32_t turn,
			 bool is_rewrite)
{
	double doublings = log2((double)SHORT_BLOCKS / req->nr_blocks);

	if (req->input_tokens + req->output_tokens + MESSAGE_TOKENS_MIN > g->opt->max_input_tokens)
		return 0.0;
	if (is_rewrite)
		return P_TURN_REWRITTEN;
	if (turn < 2)
		return p_turn[turn] + p_turn_short[turn] * fmin(fmax(doublings, 0.0), 2.0);
	return p_turn[turn_class(turn)] * (req->nr_blocks > LONG_BLOCKS ? P_TURN_LONG : 1.0);
}

static double gen_p_rewrite(const struct sim_req *req, uint32_t turn, bool is_rewrite)
{
	if (is_rewrite)
		return P_REWRITE_AGAIN;
	if (turn == 0 && req->nr_blocks >= DOCUMENT_BLOCKS_MIN &&
	    req->nr_blocks < DOCUMENT_BLOCKS_MAX)
		return P_REWRITE_DOCUMENT;
	return P_REWRITE;
}

static uint64_t gen_after(uint64_t time_ns, double seconds)
{
	return time_ns + (uint64_t)(fmin(fmax(seconds, 3.0), 1e6) * NS_PER_S);
}

/* Draw what comes after the request just made from ev, and when. */
static int gen_follow(struct gen *g, const struct gen_event *ev, const struct sim_req *req)
{
	bool is_rewrite = ev->kind == GEN_REWRITE;
	uint32_t turn = gen_turn(g, ev);
	struct gen_event next = {.parent = g->all.nr_reqs - 1, .turn = turn};
	double seconds;

	if (gen_draw_balanced(g, req, turn, gen_p_turn(g, req, turn, is_rewrite))) {
		next.kind = gen_uniform(g) < P_RESEND ? GEN_RESEND : GEN_TURN;
		seconds = gen_mixture(g, think[gap_class(turn)], 3);
		seconds *= 1.0 + fmin(req->nr_blocks, LONG_BLOCKS) / READING_BLOCKS;
	} else if (gen_uniform(g) < gen_p_rewrite(req, turn, is_rewrite)) {
		next.kind = GEN_REWRITE;
		seconds = gen_lognormal(g, &rewrite_think);
	} else {
		return 0;
	}
	next.time_ns = gen_after(req->time_ns, seconds);
	return gen_push(g, next);
}

static int gen_next_start(struct gen *g, uint64_t time_ns)
{
	double seconds = -log(1.0 - gen_uniform(g)) / (START_RATE * g->opt->scale);
	struct gen_event ev = {.kind = GEN_START,
			       .time_ns = time_ns + (uint64_t)(seconds * NS_PER_S)};

	return gen_push(g, ev);
}

static int gen_step(struct gen *g)
{
	struct gen_event ev = gen_pop(g);
	struct sim_req req;
	int err;

	if (ev.kind == GEN_START) {
		err = gen_next_start(g, ev.time_ns);
		if (err)
			return err;
	}
	err = gen_make(g, &ev, &req);
	if (err)
		return err;
	if (ev.time_ns < WARM_NS)
		g->nr_warm++;
	return gen_follow(g, &ev, &req);
}

/* Copy the trace without its warm-up, times from 0, ids in order of first use. */
static int gen_emit(struct gen *g, struct sim_trace *out)
{
	uint64_t *renumber = calloc(g->next_id + 1,
				    sizeof(*renumber)); /* new id + 1; 0 = not used yet */
	uint64_t nr_ids = 0;
	int err = renumber ? 0 : -ENOMEM;

	for (size_t i = g->nr_warm; !err && i < g->all.nr_reqs; i++) {
		struct sim_req req = g->all.reqs[i];

		for (uint32_t b = 0; b < req.nr_blocks; b++) {
			uint64_t *new_id = &renumber[req.ids[b]];

			if (*new_id == 0)
				*new_id = ++nr_ids;
			g->ids[b] = *new_id - 1;
		}
		req.time_ns -= WARM_NS;
		req.ids = g->ids;
		err = sim_trace_append(out, &req);
	}
	free(renumber);
	return err;
}

static int gen_run(struct gen *g, struct sim_trace *out)
{
	int err = gen_next_start(g, 0);

	g->ids = calloc(sim_trace_blocks(g->opt->max_input_tokens), sizeof(*g->ids));
	if (!g->ids)
		return -ENOMEM;
	while (!err && g->all.nr_reqs - g->nr_warm < g->opt->nr_reqs)
		err = gen_step(g);
	return err ? err : gen_emit(g, out);
}

int sim_gen(struct sim_trace *trace, const struct sim_gen_opt *opt)
{
	struct sim_gen_opt o = *opt;
	struct gen g = {.opt = &o};
	int err;

	must(trace->nr_reqs == 0);
	if (o.scale == 0.0)
		o.scale = 1.0;
	if (!(o.scale >= 0.001 && o.scale <= 100.0))
		return -EINVAL;
	if (o.nr_reqs == 0)
		o.nr_reqs = (uint32_t)fmax(1.0, SIM_GEN_REQS * o.scale);
	if (o.max_input_tokens == 0)
		o.max_input_tokens = 126000;
	if (o.max_input_tokens < 2 * SIM_BLOCK_TOKENS || o.max_input_tokens > SIM_TRACE_TOKENS_MAX)
		return -EINVAL;
	rng_init(&g.rng, o.seed);
	err = gen_run(&g, trace);
	if (err)
		sim_trace_fini(trace);
	free(g.heap);
	free(g.ids);
	sim_trace_fini(&g.all);
	return err;
}
