/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal trace [--seconds N]: what each command of the daemon's I/O queues did when, as CSV; the
 * records are the daemon's (PEAL_OPC_ADMIN_TRACE, peal/vendor.h). Ends after its seconds, or by
 * SIGINT or SIGTERM; the daemon's tracing ends with it in any case, since it goes with our
 * connection.
 */
/* tidy: no-test: test/peer/trace.py runs it */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mono.h"
#include "cli/cli.h"
#include "client/ns.h"
#include "nvme/nvme_str.h"
#include "peal/vendor.h"

#define TRACE_BYTES 4096u
#define TRACE_NAP_MS 1
/* What may be read after STOP: more than all workers keep, so that it ends whatever they say. */
#define TRACE_REST_MAX (1u << 20)
#define TRACE_CSI_NVM 0
#define TRACE_CSI_KV 1
#define TRACE_SECONDS_MAX 86400u

struct trace_opts {
	uint32_t seconds;
	uint32_t ctrl;
	const char *path;
	const char *uri;
};

static volatile sig_atomic_t trace_is_over;

static void trace_signal(int sig)
{
	(void)sig;
	trace_is_over = 1;
}

/* 0 or -errno; in *status, if that isn't NULL, the daemon's. */
static int trace_ask(struct peal *p, unsigned verb, uint32_t ctrl, void *buf, uint16_t *status)
{
	int err;

	struct conn_admin_cmd cmd = {
		.sqe = {.opc = PEAL_OPC_ADMIN_TRACE, .cdw11 = ctrl, .cdw12 = verb},
	};

	if (buf) {
		cmd.sqe.cdw10 = TRACE_BYTES;
		cmd.in = buf;
		cmd.bytes = TRACE_BYTES;
	}
	err = ns_admin(p, "trace", &cmd);
	if (status)
		*status = cmd.status & 0x7ff;
	return err;
}

/* A hop, from the first one on; nothing when it didn't happen. */
static void trace_hop(FILE *f, uint64_t from, uint64_t at)
{
	if (at)
		fprintf(f, ",%lld", (long long)(at - from));
	else
		fputc(',', f);
}

/* The key, or the first block of a block namespace's command. */
static void trace_key(const struct peal_wire_trace *r, char text[CLI_KEY_BYTES])
{
	struct peal_key key = {.len = r->key_len <= PEAL_KEY_MAX ? r->key_len : 0};
	uint64_t slba;

	*text = 0;
	memcpy(key.b, r->key, sizeof(key.b));
	memcpy(&slba, r->key, sizeof(slba));
	if (r->csi == TRACE_CSI_NVM && key.len == sizeof(slba))
		snprintf(text, CLI_KEY_BYTES, "%llu", (unsigned long long)slba);
	else if (r->csi != TRACE_CSI_NVM && key.len)
		cli_key_text(&key, text);
	/* A comma in a key that is text would be a column. */
	if (strchr(text, ','))
		snprintf(text, CLI_KEY_BYTES, "%s", "(text)");
}

static const char *trace_name(const struct peal_wire_trace *r)
{
	if (r->csi == TRACE_CSI_NVM)
		return nvme_str_nvm_opcode(r->opc);
	return r->csi == TRACE_CSI_KV ? nvme_str_kv_opcode(r->opc) : "unknown";
}

static void trace_line(FILE *f, const struct peal_wire_trace *r)
{
	char text[CLI_KEY_BYTES];

	trace_key(r, text);
	fprintf(f, "%llu,%u,%u,%u,%u,%02x,%s,%u,%s,%u,%03x", (unsigned long long)r->bell_ns,
		r->worker, r->ctrl, r->qid, r->cid, r->opc, trace_name(r), r->nsid, text, r->bytes,
		r->status);
	trace_hop(f, r->bell_ns, r->fetch_ns);
	trace_hop(f, r->bell_ns, r->store_ns);
	trace_hop(f, r->bell_ns, r->copy_ns);
	trace_hop(f, r->bell_ns, r->done_ns);
	trace_hop(f, r->bell_ns, r->cqe_ns);
	fputc('\n', f);
}

/* One READ: records, or -errno. */
static int trace_read(struct peal *p, FILE *f, uint64_t *nr_dropped)
{
	uint8_t buf[TRACE_BYTES] __attribute__((aligned(8)));
	struct peal_wire_trace_head h;
	struct peal_wire_trace r;
	int err = trace_ask(p, PEAL_TRACE_READ, 0, buf, NULL);

	if (err)
		return err;
	memcpy(&h, buf, sizeof(h));
	if (h.record_bytes != sizeof(r) || h.nr > (TRACE_BYTES - sizeof(h)) / sizeof(r)) {
		fprintf(stderr, "peal: trace: records of %u bytes, expected %zu\n", h.record_bytes,
			sizeof(r));
		return -EPROTO;
	}
	for (uint32_t i = 0; i < h.nr; i++) {
		memcpy(&r, buf + sizeof(h) + i * sizeof(r), sizeof(r));
		trace_line(f, &r);
	}
	*nr_dropped = h.nr_dropped;
	return (int)h.nr;
}

/*
 * Until the time is over or somebody interrupts, which is looked at however much there is to read;
 * then what is left.
 */
static int trace_all(struct peal *p, FILE *f, uint64_t end_ns, uint64_t *nr, uint64_t *nr_dropped)
{
	int n = 0;

	while (!trace_is_over && mono_ns() < end_ns && !ferror(f)) {
		n = trace_read(p, f, nr_dropped);
		if (n < 0)
			return n;
		*nr += (unsigned)n;
		if (n)
			continue;
		fflush(f);
		poll(NULL, 0, TRACE_NAP_MS);
	}
	n = trace_ask(p, PEAL_TRACE_STOP, 0, NULL, NULL);
	if (n)
		return n;
	for (unsigned rest = 0; rest < TRACE_REST_MAX; rest += (unsigned)n) {
		n = trace_read(p, f, nr_dropped);
		if (n <= 0)
			return n;
		*nr += (unsigned)n;
	}
	return 0;
}

/* START was refused: what that means here, instead of the status. */
static int trace_refused(const struct trace_opts *o, int err, uint16_t status)
{
	if (status == NVME_ST_SEQUENCE)
		fprintf(stderr, "peal trace: another trace is on, expected none\n");
	else if (status == NVME_ST_INVALID_FIELD && o->ctrl != PEAL_TRACE_ALL)
		fprintf(stderr, "peal trace: no controller %u, expected one of the daemon's log\n",
			o->ctrl);
	else
		return cli_result(err);
	return status == NVME_ST_SEQUENCE ? CLI_ERROR : CLI_MISS;
}

static int trace_to(struct cli *c, const struct trace_opts *o, FILE *f)
{
	uint64_t nr = 0, nr_dropped = 0;
	uint16_t status = 0;
	int err = trace_ask(c->p, PEAL_TRACE_START, o->ctrl, NULL, &status);

	if (err)
		return trace_refused(o, err, status);
	fputs("time_ns,worker,controller,queue,cid,opcode,command,namespace,key,bytes,"
	      "status,fetched_ns,store_ns,copied_ns,done_ns,cqe_ns\n",
	      f);
	err = trace_all(c->p, f, mono_ns() + o->seconds * MONO_NS_PER_S, &nr, &nr_dropped);
	if (err)
		return cli_result(err);
	fprintf(stderr, "%llu commands, %llu dropped\n", (unsigned long long)nr,
		(unsigned long long)nr_dropped);
	return CLI_OK;
}

static error_t trace_parse_opt(int key, char *arg, struct argp_state *state)
{
	struct trace_opts *o = state->input;

	switch (key) {
	case 's':
		o->seconds = (uint32_t)cli_number("--seconds", arg, 1, TRACE_SECONDS_MAX);
		return 0;
	case 'c':
		o->ctrl = (uint32_t)cli_number("--controller", arg, 1, 0xffef);
		return 0;
	case 'o':
		o->path = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "'%s' is too much, expected one URI", arg);
		o->uri = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int trace_run(struct cli *c, int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"seconds", 's', "N", 0, "How long, 1 to 86400 (default 1)", 0},
		{"controller", 'c', "ID", 0, "This one's commands only; the daemon's log has it",
		 0},
		{"output", 'o', "FILE", 0, "Where to (default: standard output)", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = trace_parse_opt,
		.args_doc = "[URI]",
		.doc = "Writes a line of CSV for each command of the daemon's I/O queues: when its "
		       "doorbell was seen, and after how many nanoseconds it was fetched, the "
		       "store had answered, its data were copied, it was over, and its CQE was "
		       "written. For operators.",
	};
	struct trace_opts o = {.seconds = 1, .ctrl = PEAL_TRACE_ALL};
	struct sigaction sa = {.sa_handler = trace_signal, .sa_flags = SA_RESTART};
	FILE *f = stdout;
	int rc;

	cli_parse(&argp, c, argc, argv, &o);
	c->is_operator = true;
	if (o.uri)
		c->uri = o.uri;
	rc = cli_open(c);
	if (rc)
		return rc;
	if (o.path)
		f = fopen(o.path, "we");
	if (!f) {
		fprintf(stderr, "peal: %s: %s\n", o.path, strerror(errno));
		return CLI_ERROR;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	rc = trace_to(c, &o, f);
	if (o.path && fclose(f)) {
		fprintf(stderr, "peal: %s: %s\n", o.path, strerror(errno));
		return CLI_ERROR;
	}
	return rc;
}

const struct cli_cmd cmd_trace = {"trace", "[URI]", "each command's hops, as CSV", trace_run};
