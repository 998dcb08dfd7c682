/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces in memory, and their importer and writer. The importer trusts nothing: every line is
 * bounded before it is parsed, every field is checked for type and range where it enters, and what
 * it says on failure names the file, the line, the field, what was expected and what was there.
 */
#include "sim/sim_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/must.h"

#define NS_PER_MS UINT64_C(1000000)
#define TRACE_LINE_BYTES 4096u /* to begin with; a power of two, as SIM_TRACE_LINE_MAX is */

/* Where the importer is. */
struct trace_reader {
	struct sim_trace *trace;
	struct sim_trace_err *err;
	const char *name;
	uint64_t line_no;
	/* the line under way */
	char *line;
	size_t cap_line;
	uint64_t *ids;
	size_t cap_ids;
};

/* Say what is wrong with this line and return code. */
static __attribute__((format(printf, 3, 4))) int trace_fail(const struct trace_reader *r, int code,
							    const char *fmt, ...)
{
	size_t room = sizeof(r->err->text);
	va_list ap;
	int n;

	if (!r->err)
		return code;
	n = snprintf(r->err->text, room, "%s:%" PRIu64 ": ", r->name, r->line_no);
	if (n < 0 || (size_t)n >= room)
		return code;
	va_start(ap, fmt);
	vsnprintf(r->err->text + n, room - (size_t)n, fmt, ap);
	va_end(ap);
	return code;
}

static const char *trace_type_name(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",  [JSON_INTEGER] = "an integer",
		[JSON_REAL] = "a fraction",  [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",	     [JSON_NULL] = "null",
	};

	return v ? names[json_typeof(v)] : "nothing";
}

/* An integer of least .. most, or a failure that names the field. */
static int trace_check_int(const struct trace_reader *r, const json_t *v, const char *field,
			   const uint64_t range[2], uint64_t *out)
{
	json_int_t n;

	if (!json_is_integer(v))
		return trace_fail(r, -EINVAL, "%s: expected an integer, got %s", field,
				  trace_type_name(v));
	n = json_integer_value(v);
	if (n < 0 || (uint64_t)n < range[0] || (uint64_t)n > range[1])
		return trace_fail(r, -EINVAL,
				  "%s: expected %" PRIu64 "..%" PRIu64
				  ", got %" JSON_INTEGER_FORMAT,
				  field, range[0], range[1], n);
	*out = (uint64_t)n;
	return 0;
}

static int trace_check_field(const struct trace_reader *r, const json_t *obj, const char *field,
			     const uint64_t range[2], uint64_t *out)
{
	return trace_check_int(r, json_object_get(obj, field), field, range, out);
}

static int trace_reserve_ids(struct trace_reader *r, size_t nr)
{
	uint64_t *ids;

	if (nr <= r->cap_ids)
		return 0;
	ids = realloc(r->ids, nr * sizeof(*ids));
	if (!ids)
		return trace_fail(r, -ENOMEM, "no memory for %zu ids", nr);
	r->ids = ids;
	r->cap_ids = nr;
	return 0;
}

static int trace_check_ids(struct trace_reader *r, const json_t *obj, struct sim_req *req)
{
	static const uint64_t range[2] = {0, INT64_MAX};
	const json_t *arr = json_object_get(obj, "hash_ids");
	int err;

	if (!json_is_array(arr))
		return trace_fail(r, -EINVAL, "hash_ids: expected an array, got %s",
				  trace_type_name(arr));
	if (json_array_size(arr) != req->nr_blocks)
		return trace_fail(
			r, -EINVAL,
			"hash_ids: expected %u ids for %u tokens in blocks of %u, got %zu",
			req->nr_blocks, req->input_tokens, SIM_BLOCK_TOKENS, json_array_size(arr));
	err = trace_reserve_ids(r, req->nr_blocks);
	for (uint32_t i = 0; !err && i < req->nr_blocks; i++) {
		char field[32];

		snprintf(field, sizeof(field), "hash_ids[%u]", i);
		err = trace_check_int(r, json_array_get(arr, i), field, range, &r->ids[i]);
	}
	req->ids = r->ids;
	return err;
}

static int trace_take_object(struct trace_reader *r, const json_t *obj)
{
	const struct sim_trace *t = r->trace;
	uint64_t last_ms = t->nr_reqs ? t->reqs[t->nr_reqs - 1].time_ns / NS_PER_MS : 0;
	uint64_t time_ms = 0, in = 0, out = 0;
	struct sim_req req;
	int err;

	if (!json_is_object(obj))
		return trace_fail(r, -EINVAL, "expected an object, got %s", trace_type_name(obj));
	err = trace_check_field(r, obj, "timestamp", (uint64_t[]){last_ms, SIM_TRACE_TIME_MS_MAX},
				&time_ms);
	if (!err)
		err = trace_check_field(r, obj, "input_length",
					(uint64_t[]){1, SIM_TRACE_TOKENS_MAX}, &in);
	if (!err)
		err = trace_check_field(r, obj, "output_length",
					(uint64_t[]){0, SIM_TRACE_TOKENS_MAX}, &out);
	if (err)
		return err;
	req = (struct sim_req){
		.time_ns = time_ms * NS_PER_MS,
		.input_tokens = (uint32_t)in,
		.output_tokens = (uint32_t)out,
		.nr_blocks = sim_trace_blocks((uint32_t)in),
	};
	err = trace_check_ids(r, obj, &req);
	if (err)
		return err;
	err = sim_trace_append(r->trace, &req);
	if (err == -E2BIG)
		return trace_fail(r, err, "expected at most %u requests and %u block references",
				  SIM_TRACE_REQS_MAX, SIM_TRACE_REFS_MAX);
	return err ? trace_fail(r, err, "no memory") : 0;
}

static int trace_take_line(struct trace_reader *r, const char *line, size_t len)
{
	json_error_t why;
	json_t *obj;
	int err;

	if (strspn(line, " \t\r\n") == len)
		return 0;
	obj = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
	if (!obj)
		return trace_fail(r, -EINVAL, "column %d: expected a JSON object: %s", why.column,
				  why.text);
	err = trace_take_object(r, obj);
	json_decref(obj);
	return err;
}

/* One more byte of the line and a NUL behind it; room grows to SIM_TRACE_LINE_MAX, no further. */
static int trace_line_room(struct trace_reader *r, size_t len)
{
	size_t cap = r->cap_line ? 2 * r->cap_line : TRACE_LINE_BYTES;
	char *line;

	if (len + 1 < r->cap_line)
		return 0;
	if (len + 1 >= SIM_TRACE_LINE_MAX)
		return trace_fail(r, -E2BIG, "expected a line of less than %u bytes",
				  SIM_TRACE_LINE_MAX);
	line = realloc(r->line, cap);
	if (!line)
		return trace_fail(r, -ENOMEM, "no memory for a line");
	r->line = line;
	r->cap_line = cap;
	return 0;
}

/* One line into r->line: its length, 0 at the end, or a failure. */
static ssize_t trace_next_line(struct trace_reader *r, FILE *in)
{
	size_t len = 0;
	const char *nul;
	int c = 0, err;

	r->line_no++;
	errno = 0;
	while (c != '\n' && (c = getc_unlocked(in)) != EOF) {
		err = trace_line_room(r, len);
		if (err)
			return err;
		r->line[len++] = (char)c;
	}
	if (ferror(in))
		return trace_fail(r, errno ? -errno : -EIO, "can't read: %s", strerror(errno));
	if (!len)
		return 0;
	r->line[len] = 0;
	nul = memchr(r->line, 0, len);
	if (nul)
		return trace_fail(r, -EINVAL, "expected text, got a NUL byte at %zu",
				  (size_t)(nul - r->line));
	return (ssize_t)len;
}

static int trace_read_lines(struct trace_reader *r, FILE *in)
{
	ssize_t len;
	int err;

	while ((len = trace_next_line(r, in)) > 0) {
		err = trace_take_line(r, r->line, (size_t)len);
		if (err)
			return err;
	}
	return (int)len;
}

/* Make room for nr more; the requests' pointers follow the pool when it moves. */
static int trace_reserve(struct sim_trace *t, size_t nr_ids)
{
	size_t refs = t->cap_refs;
	size_t at = 0;

	if (t->nr_reqs == t->cap_reqs) {
		size_t cap = t->cap_reqs ? 2 * t->cap_reqs : 256;
		struct sim_req *reqs = realloc(t->reqs, cap * sizeof(*reqs));

		if (!reqs)
			return -ENOMEM;
		t->reqs = reqs;
		t->cap_reqs = cap;
	}
	while (refs - t->nr_refs < nr_ids)
		refs = refs ? 2 * refs : 4096;
	if (refs > t->cap_refs) {
		uint64_t *ids = realloc(t->ids, refs * sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		t->ids = ids;
		t->cap_refs = refs;
		for (size_t i = 0; i < t->nr_reqs; at += t->reqs[i++].nr_blocks)
			t->reqs[i].ids = ids + at;
	}
	return 0;
}

int sim_trace_append(struct sim_trace *trace, const struct sim_req *req)
{
	int err;

	must(req->nr_blocks == sim_trace_blocks(req->input_tokens));
	if (trace->nr_reqs >= SIM_TRACE_REQS_MAX ||
	    req->nr_blocks > SIM_TRACE_REFS_MAX - trace->nr_refs)
		return -E2BIG;
	err = trace_reserve(trace, req->nr_blocks);
	if (err)
		return err;
	if (req->nr_blocks > 0)
		memcpy(trace->ids + trace->nr_refs, req->ids, req->nr_blocks * sizeof(*req->ids));
	trace->reqs[trace->nr_reqs] = *req;
	trace->reqs[trace->nr_reqs++].ids = trace->ids + trace->nr_refs;
	trace->nr_refs += req->nr_blocks;
	return 0;
}

void sim_trace_fini(struct sim_trace *trace)
{
	free(trace->reqs);
	free(trace->ids);
	*trace = (struct sim_trace){0};
}

int sim_trace_read(struct sim_trace *trace, FILE *in, const char *name, struct sim_trace_err *err)
{
	struct trace_reader r = {.trace = trace, .err = err, .name = name};
	int rc;

	must(trace->nr_reqs == 0);
	rc = trace_read_lines(&r, in);
	if (rc)
		sim_trace_fini(trace);
	free(r.ids);
	free(r.line);
	return rc;
}

int sim_trace_load(struct sim_trace *trace, const char *path, struct sim_trace_err *err)
{
	FILE *in = fopen(path, "re");
	int rc = in ? 0 : -errno;

	if (!in) {
		if (err)
			snprintf(err->text, sizeof(err->text), "%s: can't open: %s", path,
				 strerror(-rc));
		return rc;
	}
	rc = sim_trace_read(trace, in, path, err);
	fclose(in);
	return rc;
}

int sim_trace_write(const struct sim_trace *trace, FILE *out)
{
	for (size_t i = 0; i < trace->nr_reqs; i++) {
		const struct sim_req *req = &trace->reqs[i];

		fprintf(out,
			"{\"timestamp\": %" PRIu64
			", \"input_length\": %u, \"output_length\": %u, \"hash_ids\": [",
			req->time_ns / NS_PER_MS, req->input_tokens, req->output_tokens);
		for (uint32_t b = 0; b < req->nr_blocks; b++)
			fprintf(out, "%s%" PRIu64, b ? ", " : "", req->ids[b]);
		fputs("]}\n", out);
	}
	errno = 0;
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}

int sim_trace_save(const struct sim_trace *trace, const char *path)
{
	FILE *out = fopen(path, "we");
	int rc;

	if (!out)
		return -errno;
	rc = sim_trace_write(trace, out);
	if (fclose(out) && !rc)
		rc = -errno;
	return rc;
}
