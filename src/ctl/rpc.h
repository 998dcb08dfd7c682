/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON-RPC 2.0 (jsonrpc.org/specification), apart from what carries it: a message comes as text,
 * its requests find their methods in a table, parameters are checked against the method's rows,
 * and the reply leaves as text. The same rows make doc/rpc.md and what `rpc.methods` says.
 *
 *   rpc_msg_start -> rpc_method.run ... rpc_req_done | rpc_req_fail -> next of the batch -> done()
 *
 * A method may finish at once or later; requests of a batch run one after the other. Parameters may
 * be given by name or by position. Notifications are run and not answered. Bounds: a batch has at
 * most RPC_BATCH_MAX requests; nesting and length are bounded by rpc_frame.c before this sees them.
 *
 * Everything runs on the control thread. errno becomes JSON here and nowhere else.
 */
#ifndef CTL_RPC_H
#define CTL_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_BATCH_MAX 64
#define RPC_PARAMS_MAX 8

enum rpc_kind {
	RPC_NS,	  /* a namespace: its number or its name */
	RPC_SIZE, /* bytes, or a text such as "8G" */
	RPC_NUMBER,
	RPC_BOOL,
	RPC_TEXT,   /* min to max characters, nothing below a space */
	RPC_KEY,    /* 1 to 16 characters, or 0x and hex digits */
	RPC_CHOICE, /* one of names */
};

struct rpc_param {
	const char *name;
	const char *help;
	enum rpc_kind kind;
	bool is_needed;
	uint64_t min, max;
	const char *const *names; /* ended by NULL */
};

struct rpc_arg {
	bool is_given;
	uint64_t u;	  /* number, size, bool, place in names; NS: the number, or 0 and text */
	const char *text; /* lives as long as the request */
	uint8_t key[16];
	uint8_t key_len;
};

struct rpc_req;

struct rpc_method {
	const char *name;
	const char *help;   /* a sentence without its full stop */
	const char *result; /* what comes back */
	const struct rpc_param *params;
	unsigned nr_params;
	/* Ends, now or later, with exactly one of rpc_req_done() and rpc_req_fail(). */
	void (*run)(struct rpc_req *req);
};

/* The methods that a socket offers, and what they work on. */
struct rpc {
	const struct rpc_method *const *methods; /* ended by NULL */
	void *arg;
};

struct rpc_msg;

/* jansson's memory is base/json_mem.h's from now on. Before there are threads. */
void rpc_mem_init(void);

struct rpc_req {
	struct rpc_msg *msg;
	const struct rpc_method *method;
	struct rpc_arg args[RPC_PARAMS_MAX];
	json_t *id;	    /* NULL: a notification */
	json_t *raw;	    /* the request, which args point into */
	void *priv;	    /* the method's own */
	uint64_t nr_failed; /* json_mem_failed() when it began */
};

/* What method works on: struct rpc's arg. */
void *rpc_arg_of(const struct rpc_req *req);
const struct rpc *rpc_of(const struct rpc_req *req);
/*
 * Takes the result over; NULL: no memory. So is whatever was built while jansson had none for a
 * part of it.
 */
void rpc_req_done(struct rpc_req *req, json_t *result);
/* err: -errno. The text says what was wrong and what was expected. */
__attribute__((format(printf, 3, 4))) void rpc_req_fail(struct rpc_req *req, int err,
							const char *fmt, ...);

/*
 * A message of n bytes. done(arg, reply) exactly once, now or later; reply is malloc()ed text
 * without a line break that the callee frees, or NULL when there is nothing to say. is_lost: the
 * text was no JSON, so where the next message begins is a guess. NULL: no memory, done() won't run.
 */
struct rpc_msg *rpc_msg_start(const struct rpc *rpc, const char *text, size_t n,
			      void (*done)(void *arg, char *reply, bool is_lost), void *arg);
/* Nobody wants the reply any more: done() runs with is_lost and NULL, when the request is over. */
void rpc_msg_forget(struct rpc_msg *msg);
/* A reply to something that was never read: its code and text. malloc()ed; NULL = no memory. */
char *rpc_msg_error(int code, const char *text);

#define RPC_PARSE_ERROR (-32700)
#define RPC_INVALID_REQUEST (-32600)
#define RPC_METHOD_NOT_FOUND (-32601)
#define RPC_INVALID_PARAMS (-32602)
#define RPC_INTERNAL (-32603)
/* Ours, of -32000 to -32099. */
#define RPC_FAILED (-32000)
#define RPC_NOT_FOUND (-32001)
#define RPC_EXISTS (-32002)
#define RPC_NO_SPACE (-32003)
#define RPC_BUSY (-32004)
#define RPC_STOPPING (-32005)
#define RPC_NOT_PERMITTED (-32006)

/* rpc_param.c: params (NULL: none) into req->args. 0, or -EINVAL and a text. */
#define RPC_TEXT_BYTES 512
int rpc_param_read(struct rpc_req *req, const json_t *params, char text[RPC_TEXT_BYTES]);
/* "a size from 1.0 MiB to 64.0 TiB, as in 8G": for errors and documents. */
void rpc_param_expected(const struct rpc_param *p, char text[RPC_TEXT_BYTES]);
json_t *rpc_param_describe(const struct rpc_method *m); /* NULL: no memory */

/*
 * rpc_frame.c: where a message ends in a stream that is fed in pieces. Objects and arrays end with
 * their bracket, whether a line break follows or not; anything else is no message and ends with its
 * line.
 */
#define RPC_DEPTH_MAX 64
#define RPC_MESSAGE_BYTES (1u << 20)
struct rpc_frame {
	size_t at; /* bytes looked at */
	unsigned depth;
	bool is_begun, is_text, is_escaped, is_other;
};
/* Bytes of the first message in buf[0..n), which begins with what was fed before; 0: not all of it
 * is there. -E2BIG: longer, or nested deeper, than is taken. */
long rpc_frame_next(struct rpc_frame *f, const char *buf, size_t n);

#endif
