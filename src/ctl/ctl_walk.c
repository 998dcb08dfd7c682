/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ctl_walk.h.
 *
 *   page: LIST 64 keys -> each: [GET, release: which class?] -> [DEL] -> next -> ... -> page
 *
 * One verb is under way at a time. Verbs that are answered at once make a loop and no recursion. A
 * page is a turn's work, the next begins in another turn. A value that is replaced between the look
 * at its class and the delete is deleted with it: a miss, no wrong byte. The home reactor.
 */
#include "ctl/ctl_walk.h"

#include <errno.h>
#include <string.h>

#include "base/container.h"

/* False, for steps: the control thread may have freed it already. */
static bool walk_end(struct ctl_walk *w, int res)
{
	w->res = res;
	if (w->ns)
		ctl_ns_put(w->ns);
	ctl_call_end(&w->call);
	return false;
}

static void walk_loop(struct ctl_walk *w)
{
	do {
		w->is_back = false;
		w->is_inside = true;
		if (!w->step(w, w->step_res))
			return;
		w->is_inside = false;
	} while (w->is_back);
}

/* Something is back; when that was inside a step, the loop there goes on with it. */
static void walk_back(struct ctl_walk *w, int res)
{
	w->step_res = res;
	w->is_back = true;
	if (!w->is_inside)
		walk_loop(w);
}

static void walk_io_end(struct store_io *io, int res)
{
	walk_back(container_of(io, struct ctl_walk, io), res);
}

static void walk_released(struct store_view *v)
{
	walk_back(container_of(v, struct ctl_walk, io.view), 0);
}

/* The last thing that a step does. */
static bool walk_submit(struct ctl_walk *w, enum store_op op, bool (*step)(struct ctl_walk *, int))
{
	w->step = step;
	w->io.op = (uint8_t)op;
	w->io.flags = STORE_NO_TOUCH;
	w->io.off = 0;
	w->io.len = op == STORE_GET;
	w->io.ver = 0;
	w->io.meta = NULL;
	w->io.end = walk_io_end;
	store_submit(kv_ns_store(w->ns), ctl_home(w->call.c), &w->io);
	return true;
}

static bool walk_next(struct ctl_walk *w, int res);

static bool walk_deleted(struct ctl_walk *w, int res)
{
	w->nr_deleted += res == 0;
	return walk_next(w, 0);
}

static void walk_count(struct ctl_walk *w, uint16_t cls, uint64_t bytes)
{
	struct ctl_walk_class *c = w->classes;

	while (c < w->classes + w->nr_classes && c->cls != cls)
		c++;
	if (c == w->classes + w->nr_classes && w->nr_classes < CTL_WALK_CLASSES) {
		w->nr_classes++;
		c->cls = cls;
	}
	c->nr_keys++;
	c->bytes += bytes;
}

static bool walk_sorted(struct ctl_walk *w, int res)
{
	if (!w->is_purge)
		walk_count(w, w->look_cls, w->look_bytes);
	else if (w->look_cls == w->cls)
		return walk_submit(w, STORE_DEL, walk_deleted);
	return walk_next(w, 0);
}

static bool walk_looked(struct ctl_walk *w, int res)
{
	struct store_view *v = &w->io.view;

	if (res || !v->st) /* gone meanwhile */
		return walk_next(w, 0);
	w->look_cls = store_meta(v)->cls;
	w->look_bytes = v->value_len;
	w->step = walk_sorted;
	store_release(v, ctl_home(w->call.c), walk_released);
	return true;
}

static void walk_again(struct mbox_msg *m);

static bool walk_page_end(struct ctl_walk *w)
{
	struct reactor *home = ctl_home(w->call.c);

	if (!w->list.more || w->nr == 0)
		return walk_end(w, 0);
	w->again.fn = walk_again;
	reactor_send(home, home, &w->again);
	return true;
}

static bool walk_next(struct ctl_walk *w, int res)
{
	if (w->at == w->nr)
		return walk_page_end(w);
	w->io.key = w->keys[w->at++];
	w->nr_seen++;
	if (w->is_purge && !w->has_class)
		return walk_submit(w, STORE_DEL, walk_deleted);
	return walk_submit(w, STORE_GET, walk_looked);
}

static bool walk_listed(struct ctl_walk *w, int res)
{
	if (res)
		return walk_end(w, res);
	/* match and list share their place in the io: what is needed later is kept here. */
	w->list = w->io.list;
	w->nr = w->list.nr;
	w->at = 0;
	return walk_next(w, 0);
}

static bool walk_page(struct ctl_walk *w, int res)
{
	struct store_list *l = &w->io.list;

	if (atomic_load(&w->call.c->is_stopping))
		return walk_end(w, -ECANCELED);
	memset(l, 0, sizeof(*l));
	if (w->nr) {
		l->after = w->keys[w->nr - 1];
		l->has_after = true;
	}
	l->keys = w->keys;
	l->max = CTL_WALK_PAGE;
	memset(&w->io.key, 0, sizeof(w->io.key));
	return walk_submit(w, STORE_LIST, walk_listed);
}

static void walk_again(struct mbox_msg *m)
{
	struct ctl_walk *w = container_of(m, struct ctl_walk, again);

	w->step = walk_page;
	walk_loop(w);
}

static void walk_run(struct ctl_call *call)
{
	struct ctl_walk *w = container_of(call, struct ctl_walk, call);

	w->ns = ctl_ns_get(call->c, &w->ref);
	if (!w->ns || !kv_ns_is(w->ns)) {
		walk_end(w, w->ns ? -EINVAL : -ENOENT);
		return;
	}
	if (ctl_ns_classes(w->ns, &w->known)) {
		walk_end(w, -ENOMEM);
		return;
	}
	walk_again(&w->again);
}

void ctl_walk_start(struct ctl *c, struct ctl_walk *w)
{
	w->call.run = walk_run;
	ctl_call_start(c, &w->call);
}
