/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See peald_watch.h. Main thread; tell() on the watch thread.
 * tidy: no-test: test/peer/ctl_ssd.py asks a daemon
 */
#include "peald/peald_watch.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/log.h"

static void watch_tell(void *arg, bool is_bad, const char *text)
{
	if (is_bad)
		log_warn("%s", text);
	else
		log_info("%s", text);
}

int peald_watch_create(const struct conf *c, struct ssd_watch **w)
{
	struct ssd_watch_opts o = {
		.smart = c->ssd.smart,
		.min_free_bytes = c->ssd.min_free_bytes,
		.wear =
			{
				.warn_used = (uint8_t)c->ssd.warn_used,
				.stop_used = (uint8_t)c->ssd.stop_used,
				.endurance_bytes = c->ssd.endurance_bytes,
			},
		.tell = watch_tell,
	};

	return ssd_watch_create(&o, w);
}

int peald_watch_add(struct ssd_watch *w, const char *folder, struct ssd_watch_dev **dev)
{
	/* Where it can't be, opening its files says why, or it is missing and others go on. */
	mkdir(folder, 0700);
	return ssd_watch_add(w, folder, dev);
}
