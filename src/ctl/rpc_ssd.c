/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods about the devices below SSD tiers, and an operator's word to such tiers: worn or not,
 * read-only or off, how many bytes a day, which keys are not to be written again. A word to a tier
 * starts on the home and goes round its owners (store_health.c); the devices are the watch
 * thread's, and asked at once. JSON on the control thread.
 * tidy: no-test: test/peer/ctl_ssd.py asks a daemon
 */
#include <errno.h>

#include "base/container.h"
#include "base/log.h"
#include "base/parse.h"
#include "ctl/ctl_ns.h"
#include "ctl/ctl_rpc.h"
#include "store/ssd/ssd_watch.h"
#include "store/store_health.h"

#define SSD_KEYS 4096u /* of all shards, told at a time */

static void put(json_t *to, const char *key, uint64_t v)
{
	json_object_set_new(to, key, json_integer((json_int_t)v));
}

static json_t *counts(const char *const *names, const uint64_t *v)
{
	json_t *to = json_object();

	for (unsigned i = 0; names[i]; i++)
		put(to, names[i], v[i]);
	return to;
}

/* Of the segments that have something in them; how many those are is known at once, or soon. */
static uint64_t recovered(const struct store_health *h)
{
	return h->recover_segments ? h->recovered_segments * 100 / h->recover_segments : 0;
}

json_t *rpc_ssd_tier(const struct store_health *h)
{
	json_t *to = json_pack("{s:s}", "state", trip_name(h->state));

	json_object_set_new(to, "written_bytes", counts(store_health_wrote, h->wrote));
	json_object_set_new(to, "refused", counts(store_health_refused, h->refused));
	json_object_set_new(to, "errors", counts(store_health_errors, h->errors));
	put(to, "segments", h->nr_segments);
	put(to, "dead_segments", h->nr_dead);
	put(to, "bad_keys", h->nr_bad);
	put(to, "budget_day_bytes", h->budget_day_bytes);
	put(to, "given_back_bytes", h->given_back_bytes);
	json_object_set_new(to, "recovering", json_boolean(h->nr_recovering > 0));
	put(to, "recovered_percent", h->nr_recovering ? recovered(h) : 100);
	put(to, "recover_bytes", h->recover_bytes);
	put(to, "recover_ms", h->recover_ms);
	return to;
}

json_t *rpc_ssd_part(const struct store_part *p)
{
	json_t *to = json_pack("{s:s, s:s}", "folder", p->folder, "state",
			       store_health_part_name(p->state));

	put(to, "capacity_bytes", p->st.capacity_bytes);
	put(to, "used_bytes", p->st.used_bytes);
	put(to, "value_bytes", p->st.value_bytes);
	put(to, "keys", p->st.nr_keys);
	put(to, "hits", p->st.hits);
	put(to, "puts", p->st.puts);
	put(to, "evictions", p->st.evictions);
	put(to, "moved", p->moved);
	put(to, "moved_bytes", p->moved_bytes);
	json_object_set_new(to, "health", rpc_ssd_tier(&p->health));
	return to;
}

static json_t *device(const struct ssd_watch_info *w)
{
	json_t *to = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "folder", w->folder, "device",
			       w->device, "wear", wear_state_name(w->state), "override",
			       wear_override_name(w->override), "may_write", w->may_write, "tight",
			       w->is_tight);

	put(to, "free_bytes", w->free_bytes);
	put(to, "total_bytes", w->total_bytes);
	put(to, "min_free_bytes", w->min_free_bytes);
	put(to, "written_bytes", w->written_bytes);
	put(to, "day_bytes", w->day_bytes);
	if (w->days_left != WEAR_DAYS_UNKNOWN)
		put(to, "days_left", w->days_left);
	if (w->smart_err)
		json_object_set_new(to, "smart_error", json_string(strerrorname_np(-w->smart_err)));
	if (!w->has_smart)
		return to;
	put(to, "used_percent", w->smart.used);
	put(to, "spare_percent", w->smart.spare);
	put(to, "spare_threshold_percent", w->smart.spare_threshold);
	put(to, "critical_warning", w->smart.critical);
	put(to, "device_written_bytes", w->smart.written_bytes);
	put(to, "media_errors", w->smart.media_errors);
	return to;
}

json_t *rpc_ssd_devices(const struct ctl *c)
{
	json_t *list = json_array();
	struct ssd_watch_info info;

	for (unsigned i = 0; i < ssd_watch_nr(c->watch); i++) {
		ssd_watch_info(c->watch, i, &info);
		json_array_append_new(list, device(&info));
	}
	return list;
}

/* ---- ssd.devices, ssd.wear ---- */

static void devices_run(struct rpc_req *req)
{
	rpc_req_done(req, rpc_ssd_devices(ctl_of(req)));
}

const struct rpc_method rpc_ssd_list = {
	.name = "ssd.devices",
	.help = "The folders of SSD tiers: how worn their devices are, how full their file "
		"systems, "
		"what is written a day",
	.result = "an array of {folder, device, wear, override, may_write, tight, free_bytes, "
		  "total_bytes, min_free_bytes, written_bytes, day_bytes, days_left, used_percent, "
		  "spare_percent, spare_threshold_percent, critical_warning, device_written_bytes, "
		  "media_errors}; what isn't known is missing",
	.run = devices_run,
};

static const char *const wear_names[] = {"auto", "write", "stop", NULL};
static const struct rpc_param wear_params[] = {
	{.name = "folder",
	 .kind = RPC_TEXT,
	 .is_needed = true,
	 .min = 1,
	 .max = 511,
	 .help = "Of ssd.devices"},
	{.name = "how",
	 .kind = RPC_CHOICE,
	 .is_needed = true,
	 .names = wear_names,
	 .help = "auto: as its health says; write: whatever its health says; stop: nothing more is "
		 "written"},
};

static void wear_run(struct rpc_req *req)
{
	const struct rpc_arg *a = req->args;
	struct ctl *c = ctl_of(req);
	struct ssd_watch_info info;

	for (unsigned i = 0; i < ssd_watch_nr(c->watch); i++) {
		ssd_watch_info(c->watch, i, &info);
		if (strcmp(info.folder, a[0].text) != 0)
			continue;
		ssd_watch_override(c->watch, i, (enum wear_override)a[1].u);
		log_info("SSD under %s: an operator says %s", info.folder, a[1].text);
		ssd_watch_info(c->watch, i, &info);
		rpc_req_done(req, device(&info));
		return;
	}
	rpc_req_fail(req, -ENOENT, "folder '%s' isn't there, expected one of ssd.devices",
		     a[0].text);
}

const struct rpc_method rpc_ssd_wear = {
	.name = "ssd.wear",
	.help = "Says whether a device may be written to, over what its health says; until the "
		"daemon ends",
	.params = wear_params,
	.nr_params = ARRAY_SIZE(wear_params),
	.result = "as one of ssd.devices",
	.run = wear_run,
};

/* ---- a word to a tier ---- */

struct ssd_call {
	struct ctl_call call;
	struct rpc_req *req;
	struct ctl_ns_ref ref;
	struct tgt_ns *ns;
	struct store_control word;
	const char *why; /* what other errors mean here; NULL: their name says it */
	int err;
	json_t *(*result)(const struct ssd_call *n);
	struct store_key keys[];
};

static void ssd_done(struct ctl_call *call)
{
	struct ssd_call *n = container_of(call, struct ssd_call, call);

	switch (n->err) {
	case 0:
		rpc_req_done(n->req, n->result(n));
		break;
	case -ENXIO:
		ctl_ns_missing(n->req, &n->ref);
		break;
	case -EOPNOTSUPP:
		rpc_req_fail(n->req, -EINVAL, "ns: it has no SSD tier, expected one that has");
		break;
	case -ENOENT:
		rpc_req_fail(n->req, n->err,
			     "folder '%s' is none of its SSD tier's devices, expected one that "
			     "`stats` shows",
			     n->word.folder ? n->word.folder : "");
		break;
	case -ENODEV:
		rpc_req_fail(n->req, n->err, "folder '%s': its device is out, until the next start",
			     n->word.folder ? n->word.folder : "");
		break;
	default:
		rpc_req_fail(n->req, n->err, "%s", n->why ? n->why : strerror(-n->err));
	}
	free(n);
}

/* The home reactor, as what follows. */
static void ssd_told(struct store_control *word)
{
	struct ssd_call *n = container_of(word, struct ssd_call, word);

	n->err = word->res ? word->res : word->err;
	ctl_ns_put(n->ns);
	ctl_call_end(&n->call);
}

static void ssd_on_reactor(struct ctl_call *call)
{
	struct ssd_call *n = container_of(call, struct ssd_call, call);

	n->ns = ctl_ns_get(call->c, &n->ref);
	if (!n->ns || !kv_ns_is(n->ns)) {
		n->err = n->ns ? -EOPNOTSUPP : -ENXIO;
		if (n->ns)
			ctl_ns_put(n->ns);
		ctl_call_end(call);
		return;
	}
	n->word.set = kv_ns_store(n->ns);
	n->word.home = ctl_home(call->c);
	n->word.done = ssd_told;
	n->word.keys = n->keys;
	store_health_control(&n->word);
}

/* Which device: of all, when nobody says. */
static const char *folder_of(const struct rpc_arg *a)
{
	return a->is_given ? a->text : NULL;
}

static void ssd_start(struct rpc_req *req, const struct store_control *word,
		      json_t *(*result)(const struct ssd_call *n))
{
	struct ssd_call *n = calloc(1, sizeof(*n) + word->max * sizeof(n->keys[0]));

	if (!n) {
		rpc_req_fail(req, -ENOMEM, "no memory");
		return;
	}
	n->req = req;
	n->ref = ctl_ns_ref(&req->args[0]);
	n->word = *word;
	n->result = result;
	n->call.run = ssd_on_reactor;
	n->call.done = ssd_done;
	ctl_call_start(ctl_of(req), &n->call);
}

static json_t *nothing(const struct ssd_call *n)
{
	return json_object();
}

#define FOLDER_PARAM(what) \
	{ \
		.name = "folder", .kind = RPC_TEXT, .min = 1, .max = 511, .help = what \
	}

static const char *const state_names[] = {"rw", "read_only", "off", NULL};
static const struct rpc_param state_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Which"},
	{.name = "state",
	 .kind = RPC_CHOICE,
	 .is_needed = true,
	 .names = state_names,
	 .help = "rw: as ever; read_only: no values are written; off: memory serves alone"},
	FOLDER_PARAM("Of a tier on several devices, the one that is meant; else all are"),
};

static void state_run(struct rpc_req *req)
{
	log_info("SSD tier of a namespace: an operator says %s", req->args[1].text);
	ssd_start(req,
		  &(struct store_control){.verb = STORE_CONTROL_STATE,
					  .arg = req->args[1].u,
					  .folder = folder_of(&req->args[2])},
		  nothing);
}

const struct rpc_method rpc_ssd_state = {
	.name = "ssd.state",
	.help = "Sets the state of a namespace's SSD tier, as after a device that failed was "
		"looked "
		"at; its errors are forgotten",
	.params = state_params,
	.nr_params = ARRAY_SIZE(state_params),
	.result = "{}",
	.run = state_run,
};

static const struct rpc_param budget_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Which"},
	{.name = "size",
	 .kind = RPC_SIZE,
	 .is_needed = true,
	 .min = 0,
	 .max = CONF_DAY_BYTES_MAX,
	 .help = "Bytes a day; 0: no limit"},
};

static void budget_run(struct rpc_req *req)
{
	ssd_start(req, &(struct store_control){.verb = STORE_CONTROL_BUDGET, .arg = req->args[1].u},
		  nothing);
}

const struct rpc_method rpc_ssd_budget = {
	.name = "ssd.budget",
	.help = "Sets how many bytes a day are written to a namespace's SSD tier, until the daemon "
		"ends",
	.params = budget_params,
	.nr_params = ARRAY_SIZE(budget_params),
	.result = "{}",
	.run = budget_run,
};

/* ---- a device that is to go ---- */

static const char *const drain_names[] = {"start", "cancel", NULL};
static const struct rpc_param drain_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Which"},
	{.name = "folder",
	 .kind = RPC_TEXT,
	 .is_needed = true,
	 .min = 1,
	 .max = 511,
	 .help = "Of its SSD tier"},
	{.name = "how",
	 .kind = RPC_CHOICE,
	 .names = drain_names,
	 .help = "start, the default; cancel: it takes new values again, what was moved stays "
		 "where it is"},
	{.name = "rate",
	 .kind = RPC_SIZE,
	 .min = 0,
	 .max = CONF_DAY_BYTES_MAX,
	 .help = "Bytes a second that are moved; 0, the default: as fast as goes behind everything "
		 "else, and as `write_rate` lets them be written; not with cancel"},
};

static void drain_run(struct rpc_req *req)
{
	bool is_cancel = req->args[2].is_given && req->args[2].u;

	if (is_cancel && req->args[3].is_given) {
		rpc_req_fail(req, -EINVAL, "rate: of what is moved, expected none with how=cancel");
		return;
	}
	log_info("SSD under %s: an operator says %s", req->args[1].text,
		 is_cancel ? "that it stays" : "that it is to be drained");
	ssd_start(req,
		  &(struct store_control){.verb = STORE_CONTROL_DRAIN,
					  .arg = !is_cancel,
					  .rate_bytes = req->args[3].is_given ? req->args[3].u : 0,
					  .folder = req->args[1].text},
		  nothing);
}

const struct rpc_method rpc_ssd_drain = {
	.name = "ssd.drain",
	.help = "Moves what lies on one device of a namespace's SSD tier to the others, and puts "
		"nothing new there. `stats` says how far it is; once its state is drained it may "
		"be taken out of the configuration. Once more sets the rate and nothing more",
	.params = drain_params,
	.nr_params = ARRAY_SIZE(drain_params),
	.result = "{}",
	.run = drain_run,
};

/* ---- keys that are not written again ---- */

static const struct rpc_param one_params[] = {
	{.name = "ns", .kind = RPC_NS, .is_needed = true, .help = "Which"},
};

static json_t *bad_keys(const struct ssd_call *n)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n->word.nr; i++) {
		char text[64];

		format_key(n->keys[i].b, n->keys[i].len, text);
		json_array_append_new(list, json_string(text));
	}
	return list;
}

static void bad_run(struct rpc_req *req)
{
	ssd_start(req, &(struct store_control){.verb = STORE_CONTROL_BAD_LIST, .max = SSD_KEYS},
		  bad_keys);
}

const struct rpc_method rpc_ssd_bad = {
	.name = "ssd.bad",
	.help = "The keys whose values could not be read back from a namespace's SSD, and that are "
		"not "
		"written to it again: the first 4096",
	.params = one_params,
	.nr_params = ARRAY_SIZE(one_params),
	.result = "an array of keys",
	.run = bad_run,
};

static json_t *bad_cleared(const struct ssd_call *n)
{
	return json_pack("{s:I}", "keys", (json_int_t)n->word.nr);
}

static void clear_run(struct rpc_req *req)
{
	ssd_start(req, &(struct store_control){.verb = STORE_CONTROL_BAD_CLEAR}, bad_cleared);
}

const struct rpc_method rpc_ssd_bad_clear = {
	.name = "ssd.bad_clear",
	.help = "Forgets the keys of ssd.bad: they may be written again",
	.params = one_params,
	.nr_params = ARRAY_SIZE(one_params),
	.result = "{keys}: how many there were",
	.run = clear_run,
};
