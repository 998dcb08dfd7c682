/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fsck_print.h. Text is a line for each thing, damage begins with DAMAGE; JSON has the same
 * words as member names.
 * tidy: no-test: test/peer/fsck.py runs it
 */
#include "cli/fsck_print.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/container.h"
#include "base/parse.h"
#include "cli/cli.h"

typedef unsigned long long ull;

static const char *const print_states[SSD_FSCK_STATES] = {
	[SSD_FSCK_FREE] = "free",     [SSD_FSCK_OPEN] = "open", [SSD_FSCK_SEALED] = "sealed",
	[SSD_FSCK_CLOSED] = "closed", [SSD_FSCK_DEAD] = "dead", [SSD_FSCK_BAD] = "damaged",
};

static const char *const print_fates[SSD_FSCK_FATES] = {
	[SSD_FSCK_LIVE] = "live",      [SSD_FSCK_LOST] = "lost",
	[SSD_FSCK_OLD] = "old",	       [SSD_FSCK_DELETED] = "deleted",
	[SSD_FSCK_TOMB] = "tombstone", [SSD_FSCK_TOMB_SPENT] = "spent-tombstone",
};

static void print_json(struct fsck_print *p, json_t *o)
{
	if (!o)
		return; /* no memory: cli_json_end() tells */
	json_dumpf(o, p->out, JSON_COMPACT);
	fputc('\n', p->out);
	json_decref(o);
}

/* Names come from an image that may be anything: what isn't printable is a question mark. */
static const char *print_clean(const char *name, char buf[64])
{
	size_t n = strnlen(name, 63);

	for (size_t i = 0; i < n; i++)
		buf[i] = name[i] < ' ' || name[i] > '~' ? '?' : name[i];
	buf[n] = 0;
	return buf;
}

static void print_id(const uint8_t id[16], char buf[33])
{
	for (unsigned i = 0; i < 16; i++)
		sprintf(buf + 2 * i, "%02x", id[i]);
}

static void print_super(void *arg, const struct ssd_fsck_super *s)
{
	const char *state = !s->err			 ? "good"
			    : s->err == -EPROTONOSUPPORT ? "newer"
			    : s->is_zero		 ? "zeros"
							 : "damaged";
	char uuid[33], owner[33], name[64], size[16], seg[16];
	struct fsck_print *p = arg;

	if (s->err && p->is_json)
		print_json(p, json_pack("{s:s, s:s, s:s#, s:s}", "type", "superblock", "image",
					p->path, "which", &s->which, 1, "state", state));
	else if (s->err)
		fprintf(p->out, "  superblock %c  %s\n", s->which, state);
	if (s->err)
		return;
	print_id(s->uuid, uuid);
	print_id(s->owner, owner);
	print_clean(s->name, name);
	if (p->is_json) {
		print_json(p, json_pack("{s:s, s:s, s:s#, s:s, s:I, s:s, s:i, s:i, s:I, s:I, s:I, "
					"s:i, s:s, s:s, s:I, s:i, s:i, s:i}",
					"type", "superblock", "image", p->path, "which", &s->which,
					1, "state", state, "generation", (json_int_t)s->generation,
					"namespace", name, "shard", (int)s->shard, "shards",
					(int)s->nr_shards, "bytes", (json_int_t)s->file_bytes,
					"segment_bytes", (json_int_t)s->seg_bytes, "segments",
					(json_int_t)s->nr_segs, "dead", (int)s->nr_dead, "id", uuid,
					"owner", owner, "life", (json_int_t)s->life, "device",
					(int)s->device, "devices", (int)s->nr_devices,
					"devices_away", (int)s->nr_away));
		return;
	}
	format_size(s->file_bytes, size);
	format_size(s->seg_bytes, seg);
	fprintf(p->out,
		"  superblock %c  good: namespace %s, shard %u of %u, %s, %u segments of %s, "
		"%u dead, generation %llu",
		s->which, name, s->shard, s->nr_shards, size, s->nr_segs, seg, s->nr_dead,
		(ull)s->generation);
	if (s->life)
		fprintf(p->out, "; device %u of %u, %u away, life %llu", s->device + 1,
			s->nr_devices, s->nr_away, (ull)s->life);
	fputc('\n', p->out);
}

static void print_segment(void *arg, const struct ssd_fsck_seg *s)
{
	struct fsck_print *p = arg;
	char size[16];

	if (p->is_json) {
		print_json(p, json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
					"type", "segment", "image", p->path, "segment",
					(json_int_t)s->no, "state", print_states[s->state],
					"address", (json_int_t)s->addr, "epoch",
					(json_int_t)s->epoch, "values", (json_int_t)s->nr_values,
					"value_bytes", (json_int_t)s->value_bytes, "tombstones",
					(json_int_t)s->nr_tombs, "void", (json_int_t)s->nr_void,
					"bad", (json_int_t)s->nr_bad));
		return;
	}
	if (s->state == SSD_FSCK_FREE || s->state == SSD_FSCK_BAD)
		return;
	format_size(s->value_bytes, size);
	fprintf(p->out, "  segment %-5u %s", s->no, print_states[s->state]);
	if (s->state != SSD_FSCK_DEAD)
		fprintf(p->out, ", epoch %llu: %u values, %s; %u tombstones", (ull)s->epoch,
			s->nr_values, size, s->nr_tombs);
	if (s->nr_void)
		fprintf(p->out, ", %u void", s->nr_void);
	if (s->nr_bad)
		fprintf(p->out, ", %u bad", s->nr_bad);
	fputc('\n', p->out);
}

static void print_entry(void *arg, const struct ssd_fsck_entry *e)
{
	struct fsck_print *p = arg;
	struct peal_key k = {.len = e->key_len};
	char key[CLI_KEY_BYTES];

	if (!p->has_entries)
		return;
	memcpy(k.b, e->key, 16);
	cli_key_text(&k, key);
	if (p->is_json)
		print_json(p, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "type", "entry",
					"image", p->path, "key", key, "state", print_fates[e->fate],
					"version", (json_int_t)e->ver, "bytes",
					(json_int_t)e->value_bytes, "segment", (json_int_t)e->seg,
					"address", (json_int_t)e->addr));
	else
		fprintf(p->out, "  entry  %-9s %s, version %llu, %u bytes, segment %u, at %llu\n",
			print_fates[e->fate], key, (ull)e->ver, e->value_bytes, e->seg,
			(ull)e->addr);
}

static void print_problem(void *arg, const struct ssd_fsck_problem *q)
{
	struct fsck_print *p = arg;
	bool is_torn = q->gravity == SSD_FSCK_TORN;
	json_t *o;

	if (!p->is_json) {
		fprintf(p->out, "  %s ", is_torn ? "torn  " : "DAMAGE");
		if (q->seg != UINT32_MAX)
			fprintf(p->out, "segment %u, ", q->seg);
		fprintf(p->out, "at %llu: %s\n", (ull)q->addr, q->text);
		return;
	}
	o = json_pack("{s:s, s:s, s:I, s:s}", "type", is_torn ? "torn" : "damage", "image", p->path,
		      "address", (json_int_t)q->addr, "text", q->text);
	if (o && q->seg != UINT32_MAX)
		json_object_set_new(o, "segment", json_integer(q->seg));
	print_json(p, o);
}

const struct ssd_fsck_ops fsck_print_ops = {
	.super = print_super,
	.segment = print_segment,
	.entry = print_entry,
	.problem = print_problem,
};

void fsck_print_begin(struct fsck_print *p, const char *path)
{
	p->path = path;
	if (!p->is_json)
		fprintf(p->out, "%s\n", path);
}

static void print_total_json(struct fsck_print *p, const struct ssd_fsck_total *t)
{
	json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I}", "type", "image", "image", p->path,
			      "damages", (json_int_t)t->nr_damages, "torn", (json_int_t)t->nr_torn,
			      "void", (json_int_t)t->nr_void);

	for (unsigned i = 0; o && i < SSD_FSCK_FATES; i++)
		json_object_set_new(o, print_fates[i],
				    json_pack("{s:I, s:I}", "entries", (json_int_t)t->nr[i],
					      "bytes", (json_int_t)t->bytes[i]));
	for (unsigned i = 0; o && i < SSD_FSCK_STATES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "segments_%s", print_states[i]);
		json_object_set_new(o, name, json_integer((json_int_t)t->nr_segs[i]));
	}
	print_json(p, o);
}

static void print_total(struct fsck_print *p, const struct ssd_fsck_total *t)
{
	char live[16], old[16];

	format_size(t->bytes[SSD_FSCK_LIVE], live);
	format_size(t->bytes[SSD_FSCK_OLD] + t->bytes[SSD_FSCK_DELETED], old);
	fprintf(p->out, "  segments      ");
	for (unsigned i = 0; i < SSD_FSCK_STATES; i++)
		fprintf(p->out, "%s%llu %s", i ? ", " : "", (ull)t->nr_segs[i], print_states[i]);
	fprintf(p->out,
		"\n  entries       %llu live, %s; %llu old and %llu deleted, %s; %llu tombstones, "
		"%llu of them spent; %llu void\n",
		(ull)t->nr[SSD_FSCK_LIVE], live, (ull)t->nr[SSD_FSCK_OLD],
		(ull)t->nr[SSD_FSCK_DELETED], old,
		(ull)(t->nr[SSD_FSCK_TOMB] + t->nr[SSD_FSCK_TOMB_SPENT]),
		(ull)t->nr[SSD_FSCK_TOMB_SPENT], (ull)t->nr_void);
	if (t->nr_damages || t->nr_torn || t->nr[SSD_FSCK_LOST])
		fprintf(p->out,
			"  found         %llu damages, %llu torn by a crash; %llu values lost\n",
			(ull)t->nr_damages, (ull)t->nr_torn, (ull)t->nr[SSD_FSCK_LOST]);
	else
		fprintf(p->out, "  found         nothing wrong\n");
}

static int print_ns_add(struct fsck_print *p, const struct ssd_fsck_total *t)
{
	struct fsck_ns *ns = NULL, new = {.nr_shards = t->super.nr_shards};

	print_clean(t->super.name, new.name);
	vec_for_each(&p->nss, n) {
		if (strcmp(n->name, new.name) == 0)
			ns = n;
	}
	if (!ns) {
		if (!vec_push(&p->nss, new))
			return -ENOMEM;
		ns = &vec_last(&p->nss);
	}
	ns->nr_seen++;
	ns->nr_devices = max_t(uint32_t, ns->nr_devices, t->super.nr_devices);
	ns->file_bytes += t->super.file_bytes;
	ns->nr_live += t->nr[SSD_FSCK_LIVE];
	ns->live_bytes += t->bytes[SSD_FSCK_LIVE];
	ns->nr_lost += t->nr[SSD_FSCK_LOST];
	ns->nr_tombs += t->nr[SSD_FSCK_TOMB] + t->nr[SSD_FSCK_TOMB_SPENT];
	ns->nr_damages += t->nr_damages;
	return 0;
}

int fsck_print_end(struct fsck_print *p, int err, const struct ssd_fsck_total *t)
{
	p->nr_damages += t->nr_damages;
	p->nr_torn += t->nr_torn;
	if (err == -ENODATA && !p->is_json)
		fprintf(p->out, "  found         nothing: it was never used\n");
	if (err)
		return err;
	if (p->is_json)
		print_total_json(p, t);
	else
		print_total(p, t);
	return print_ns_add(p, t);
}

void fsck_print_last(struct fsck_print *p)
{
	char live[16], file[16];

	vec_for_each(&p->nss, n) {
		if (p->is_json) {
			print_json(p, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
						"s:I, s:I}",
						"type", "namespace", "namespace", n->name, "shards",
						(json_int_t)n->nr_shards, "devices",
						(json_int_t)n->nr_devices, "shards_seen",
						(json_int_t)n->nr_seen, "file_bytes",
						(json_int_t)n->file_bytes, "live",
						(json_int_t)n->nr_live, "live_bytes",
						(json_int_t)n->live_bytes, "lost",
						(json_int_t)n->nr_lost, "tombstones",
						(json_int_t)n->nr_tombs, "damages",
						(json_int_t)n->nr_damages));
			continue;
		}
		format_size(n->live_bytes, live);
		format_size(n->file_bytes, file);
		fprintf(p->out, "namespace %s: %u of %u ", n->name, n->nr_seen,
			n->nr_shards * n->nr_devices);
		if (n->nr_devices > 1)
			fprintf(p->out, "files of %u shards on %u devices", n->nr_shards,
				n->nr_devices);
		else
			fprintf(p->out, "shards");
		fprintf(p->out, ", %s; %llu values, %s; %llu lost; %llu tombstones; %llu damages\n",
			file, (ull)n->nr_live, live, (ull)n->nr_lost, (ull)n->nr_tombs,
			(ull)n->nr_damages);
	}
	vec_fini(&p->nss);
}
