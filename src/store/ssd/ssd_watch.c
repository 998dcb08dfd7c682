/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_watch.h. The lock is between the watch thread and whoever asks it, never a reactor; it is
 * not held while a device is asked.
 */
#include "store/ssd/ssd_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/container.h"
#include "base/mono.h"
#include "base/must.h"
#include "core/thread.h"
#include "store/ssd/ssd_smart.h"

#define WATCH_FOLDERS 64u
#define WATCH_ROOM_S 2 /* between two looks at the room */
#define WATCH_SMART_NS (60 * MONO_NS_PER_S)
#define TIGHT_SHIFT 3 /* an eighth more than min_free must be there again */

struct watch_folder {
	struct ssd_watch_dev dev;
	char folder[512];
	struct ssd_smart *smart;
	bool is_looked; /* once */
	bool is_told;	/* that it can't be asked */
	struct wear wear;
	uint64_t smart_at_ns;
	int smart_err;
	bool is_room_told;
	uint64_t free_bytes, total_bytes;
};

struct ssd_watch {
	struct ssd_watch_opts o;
	char source[512];
	unsigned nr;
	struct watch_folder *folder[WATCH_FOLDERS];
	pthread_mutex_t lock; /* what info() reads */
	pthread_cond_t wake;
	pthread_t thread;
	bool is_started, is_stopping;
};

__attribute__((format(printf, 3, 4))) static void watch_tell(struct ssd_watch *w, bool is_bad,
							     const char *fmt, ...)
{
	char text[768];
	va_list ap;

	if (!w->o.tell)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	w->o.tell(w->o.arg, is_bad, text);
}

/* ---- wear ------------------------------------------------------------------------------------ */

static void watch_tell_state(struct ssd_watch *w, const struct watch_folder *f)
{
	const struct wear_smart *s = &f->wear.smart;

	switch (f->wear.state) {
	case WEAR_OK:
		watch_tell(w, false, "SSD under %s: its health is good again", f->folder);
		return;
	case WEAR_WARN:
		watch_tell(
			w, true,
			"SSD under %s: %u %% of its life is used, %u %% spare of at least %u %%: "
			"plan for another one",
			f->folder, s->used, s->spare, s->spare_threshold);
		return;
	case WEAR_NO_WRITE:
		watch_tell(
			w, true,
			"SSD under %s: %u %% of its life is used, %u %% spare of at least %u %%, "
			"critical warning %02xh: nothing more is written to it, reads go on; "
			"replace it, or see ssd.wear",
			f->folder, s->used, s->spare, s->spare_threshold, s->critical);
		return;
	}
}

static void watch_smart_failed(struct ssd_watch *w, struct watch_folder *f)
{
	wear_blind(&f->wear);
	if (f->is_told)
		return;
	f->is_told = true;
	watch_tell(w, f->smart != NULL, "SSD under %s: its health can't be read: %s%s", f->folder,
		   strerror(-f->smart_err),
		   f->smart_err == -ENODEV ? " (no NVMe device below it)"
		   : f->smart_err == -EACCES || f->smart_err == -EPERM
			   ? " (that takes CAP_SYS_ADMIN)"
			   : "");
}

static void watch_smart(struct ssd_watch *w, struct watch_folder *f, uint64_t now_ns)
{
	struct wear_smart s;
	bool is_new = false;
	int err = -ENODEV;

	if (f->smart_at_ns && now_ns - f->smart_at_ns < WATCH_SMART_NS)
		return;
	f->smart_at_ns = now_ns ? now_ns : 1;
	if (f->smart)
		err = f->smart->ops->read(f->smart, &s);
	else if (f->smart_err)
		err = f->smart_err;
	else
		return; /* "none" */
	pthread_mutex_lock(&w->lock);
	f->smart_err = err;
	if (!err)
		is_new = wear_look(&f->wear, &s);
	pthread_mutex_unlock(&w->lock);
	if (err) {
		watch_smart_failed(w, f);
		return;
	}
	f->is_told = false;
	if (is_new)
		watch_tell_state(w, f);
}

static void watch_wear(struct ssd_watch *w, struct watch_folder *f, uint64_t now_ns)
{
	if (!f->is_looked)
		f->wear.born_ns = f->wear.at_ns = now_ns;
	f->is_looked = true;
	watch_smart(w, f, now_ns);
	pthread_mutex_lock(&w->lock);
	wear_wrote(&f->wear, now_ns, atomic_load(&f->dev.written_bytes));
	atomic_store(&f->dev.may_write, wear_may_write(&f->wear));
	pthread_mutex_unlock(&w->lock);
}

/* ---- room ------------------------------------------------------------------------------------ */

static int watch_statvfs(const char *folder, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct statvfs v;

	if (statvfs(folder, &v))
		return -errno;
	*free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	*total_bytes = (uint64_t)v.f_blocks * v.f_frsize;
	return 0;
}

static void watch_room(struct ssd_watch *w, struct watch_folder *f)
{
	uint64_t free_bytes, total_bytes, least = w->o.min_free_bytes;
	bool was = atomic_load(&f->dev.is_tight), is;
	int err = w->o.room(f->folder, &free_bytes, &total_bytes);

	if (err) {
		if (!f->is_room_told)
			watch_tell(w, true, "SSD folder %s: how full it is can't be read: %s",
				   f->folder, strerror(-err));
		f->is_room_told = true;
		return;
	}
	f->is_room_told = false;
	is = free_bytes < least + (was ? least >> TIGHT_SHIFT : 0);
	pthread_mutex_lock(&w->lock);
	f->free_bytes = free_bytes;
	f->total_bytes = total_bytes;
	atomic_store(&f->dev.is_tight, is);
	atomic_store(&f->dev.spare_bytes, is ? 0 : free_bytes - least);
	pthread_mutex_unlock(&w->lock);
	if (is && !was)
		watch_tell(w, true,
			   "SSD folder %s: %llu bytes are free, less than min_free, %llu: the tier "
			   "gives room back",
			   f->folder, (unsigned long long)free_bytes, (unsigned long long)least);
	if (!is && was)
		watch_tell(w, false, "SSD folder %s: enough is free again", f->folder);
}

void ssd_watch_look(struct ssd_watch *w, uint64_t now_ns)
{
	for (unsigned i = 0; i < w->nr; i++) {
		watch_room(w, w->folder[i]);
		watch_wear(w, w->folder[i], now_ns);
	}
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void watch_sleep(struct ssd_watch *w)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += WATCH_ROOM_S;
	pthread_mutex_lock(&w->lock);
	if (!w->is_stopping)
		pthread_cond_timedwait(&w->wake, &w->lock, &ts);
	pthread_mutex_unlock(&w->lock);
}

static bool watch_is_stopping(struct ssd_watch *w)
{
	bool is;

	pthread_mutex_lock(&w->lock);
	is = w->is_stopping;
	pthread_mutex_unlock(&w->lock);
	return is;
}

static void *watch_main(void *arg)
{
	struct ssd_watch *w = arg;

	while (!watch_is_stopping(w)) {
		ssd_watch_look(w, mono_ns());
		watch_sleep(w);
	}
	return NULL;
}

/* The first look is before anything is served: a worn device isn't written to meanwhile. */
int ssd_watch_start(struct ssd_watch *w)
{
	int err;

	if (!w || !w->nr)
		return 0;
	ssd_watch_look(w, mono_ns());
	err = thread_start(&w->thread, "peal-watch", -1, watch_main, w);
	w->is_started = !err;
	return err;
}

void ssd_watch_stop(struct ssd_watch *w)
{
	if (!w || !w->is_started)
		return;
	pthread_mutex_lock(&w->lock);
	w->is_stopping = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	w->is_started = false;
}

/* ---- life ------------------------------------------------------------------------------------ */

int ssd_watch_create(const struct ssd_watch_opts *o, struct ssd_watch **out)
{
	struct ssd_watch *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	if (!w)
		return -ENOMEM;
	w->o = *o;
	if (!w->o.room)
		w->o.room = watch_statvfs;
	if (snprintf(w->source, sizeof(w->source), "%s", o->smart) >= (int)sizeof(w->source)) {
		free(w);
		return -ENAMETOOLONG;
	}
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	*out = w;
	return 0;
}

int ssd_watch_add(struct ssd_watch *w, const char *folder, struct ssd_watch_dev **dev)
{
	struct watch_folder *f;

	must(!w->is_started);
	for (unsigned i = 0; i < w->nr; i++) {
		if (strcmp(w->folder[i]->folder, folder) == 0) {
			*dev = &w->folder[i]->dev;
			return 0;
		}
	}
	if (w->nr == WATCH_FOLDERS || strlen(folder) >= sizeof(f->folder))
		return w->nr == WATCH_FOLDERS ? -ENOSPC : -ENAMETOOLONG;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	strcpy(f->folder, folder);
	atomic_init(&f->dev.may_write, true);
	wear_init(&f->wear, &w->o.wear, 0);
	if (strcmp(w->source, "none") != 0)
		f->smart_err = ssd_smart_open(w->source, folder, &f->smart);
	w->folder[w->nr++] = f;
	*dev = &f->dev;
	return 0;
}

void ssd_watch_destroy(struct ssd_watch *w)
{
	if (!w)
		return;
	must(!w->is_started);
	for (unsigned i = 0; i < w->nr; i++) {
		if (w->folder[i]->smart)
			w->folder[i]->smart->ops->close(w->folder[i]->smart);
		free(w->folder[i]);
	}
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* ---- for others ------------------------------------------------------------------------------ */

unsigned ssd_watch_nr(const struct ssd_watch *w)
{
	return w ? w->nr : 0;
}

void ssd_watch_info(struct ssd_watch *w, unsigned i, struct ssd_watch_info *info)
{
	const struct watch_folder *f = w->folder[i];

	must(i < w->nr);
	*info = (struct ssd_watch_info){.min_free_bytes = w->o.min_free_bytes};
	strcpy(info->folder, f->folder);
	pthread_mutex_lock(&w->lock);
	if (f->smart)
		strcpy(info->device, f->smart->what);
	info->smart_err = f->smart_err;
	info->has_smart = f->wear.has_smart;
	info->smart = f->wear.smart;
	info->state = f->wear.state;
	info->override = f->wear.override;
	info->may_write = atomic_load(&f->dev.may_write);
	info->is_tight = atomic_load(&f->dev.is_tight);
	info->written_bytes = atomic_load(&f->dev.written_bytes);
	info->day_bytes = wear_day_bytes(&f->wear);
	info->days_left = wear_days_left(&f->wear);
	info->free_bytes = f->free_bytes;
	info->total_bytes = f->total_bytes;
	pthread_mutex_unlock(&w->lock);
}

void ssd_watch_override(struct ssd_watch *w, unsigned i, enum wear_override how)
{
	struct watch_folder *f = w->folder[i];

	must(i < w->nr);
	pthread_mutex_lock(&w->lock);
	f->wear.override = how;
	atomic_store(&f->dev.may_write, wear_may_write(&f->wear));
	pthread_mutex_unlock(&w->lock);
}
