/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See ssd_roster.h, and doc/format.md for why the rule is as strict as it is.
 */
#include "store/ssd/ssd_roster.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/must.h"

uint64_t ssd_roster_folder(const char *name)
{
	size_t n = strlen(name);

	while (n > 1 && name[n - 1] == '/')
		n--;
	return hash_xxh3(name, n, 0);
}

uint64_t ssd_roster_id(const uint8_t uuid[16])
{
	return le64_get(uuid);
}

static int roster_find(const struct ssd_roster *r, uint64_t id)
{
	for (int i = 0; i < r->nr; i++)
		if (r->member[i].id == id)
			return i;
	return -1;
}

bool ssd_roster_has(const struct ssd_roster *r, uint64_t id)
{
	int i = roster_find(r, id);

	return i >= 0 && r->present >> i & 1;
}

void ssd_roster_leave(struct ssd_roster *r, uint64_t id)
{
	int i = roster_find(r, id);

	must(i >= 0);
	r->present &= (uint8_t) ~(1u << i);
	r->life++;
}

static bool roster_is_here(const struct ssd_roster_dev *d)
{
	return !d->err && !d->is_blank;
}

/* A file that never had company is the roster of its own. */
static void roster_alone(struct ssd_roster_dev *d)
{
	if (d->was.nr)
		return;
	d->was = (struct ssd_roster){.nr = 1, .present = 1};
	d->was.member[0].id = d->id;
	d->was.member[0].folder = d->folder;
}

/* One that was drained says itself that it takes no part any more. */
static bool roster_has_left(const struct ssd_roster_dev *d)
{
	return !ssd_roster_has(&d->was, d->id);
}

/*
 * The file that has seen the latest life, one that took part in it if there is any; -1: there is
 * none.
 */
static int roster_last(const struct ssd_roster_dev *dev, unsigned nr)
{
	int last = -1;

	for (unsigned i = 0; i < nr; i++) {
		const struct ssd_roster_dev *d = &dev[i];

		if (!roster_is_here(d))
			continue;
		if (last < 0 || roster_has_left(&dev[last]) > roster_has_left(d) ||
		    (roster_has_left(&dev[last]) == roster_has_left(d) &&
		     d->was.life > dev[last].was.life))
			last = (int)i;
	}
	return last;
}

static bool roster_knows(const struct ssd_roster *r, uint64_t folder)
{
	for (unsigned i = 0; i < r->nr; i++)
		if (r->member[i].folder == folder)
			return true;
	return false;
}

/* Is it a device that may come back, not somebody's mistake? */
static bool roster_is_lost(int err)
{
	switch (err) {
	case -EBUSY:
	case -EPROTONOSUPPORT:
	case -EXDEV:
	case -EDQUOT:
	case -ENOSPC:
	case -ENOMEM:
	case -ENAMETOOLONG:
		return false;
	default:
		return true;
	}
}

/*
 * All who took part are here, nobody here knows of a life without them, and nobody is missing who
 * might: one that was left out may have gone on alone, while these were away.
 */
static bool roster_is_sure(const struct ssd_roster_dev *dev, unsigned nr, unsigned last)
{
	const struct ssd_roster *r = &dev[last].was;
	bool is_here;

	for (unsigned i = 0; i < nr; i++)
		if (dev[i].err && roster_knows(r, dev[i].folder))
			return false;
	for (unsigned m = 0; m < r->nr; m++) {
		is_here = false;
		for (unsigned i = 0; i < nr; i++)
			is_here |= roster_is_here(&dev[i]) && dev[i].id == r->member[m].id;
		if (r->present >> m & 1 && !is_here)
			return false;
	}
	for (unsigned i = 0; i < nr; i++)
		if (roster_is_here(&dev[i]) && !ssd_roster_has(r, dev[i].id) &&
		    !ssd_roster_has(&dev[i].was, dev[last].id))
			return false;
	return true;
}

static int roster_absent(struct ssd_roster_dev *d, const struct ssd_roster *r)
{
	bool is_ours = r && roster_knows(r, d->folder);

	if (d->err && !roster_is_lost(d->err))
		return d->err;
	if (d->err && is_ours)
		d->fate = SSD_ROSTER_MISSING;
	else if (!d->err || d->err == -ENOENT)
		d->fate = SSD_ROSTER_MAKE;
	else
		return d->err;
	return 0;
}

/* A lone file that never had company stays as it is: older daemons know what it says. */
static void roster_next(const struct ssd_roster_dev *dev, unsigned nr, const struct ssd_roster *was,
			struct ssd_roster *now)
{
	uint64_t life = was ? was->life : 0;

	/* One that has left may know of a later life than those who took part. */
	for (unsigned i = 0; i < nr; i++)
		if (roster_is_here(&dev[i]) && dev[i].was.life > life)
			life = dev[i].was.life;
	*now = (struct ssd_roster){0};
	if (nr == 1 && !life)
		return;
	now->life = life + 1;
	now->nr = (uint8_t)nr;
	for (unsigned i = 0; i < nr; i++) {
		bool is_old = dev[i].fate == SSD_ROSTER_KEEP;

		now->member[i].folder = dev[i].folder;
		now->member[i].id = is_old ? dev[i].id : dev[i].new_id;
		if (dev[i].fate != SSD_ROSTER_MISSING)
			now->present |= (uint8_t)(1u << i);
		for (unsigned m = 0; was && dev[i].fate == SSD_ROSTER_MISSING && m < was->nr; m++)
			if (was->member[m].folder == dev[i].folder)
				now->member[i].id = was->member[m].id;
	}
}

int ssd_roster_decide(struct ssd_roster_dev *dev, unsigned nr, bool is_immutable,
		      struct ssd_roster *now)
{
	const struct ssd_roster *r;
	bool is_sure;
	int last, err = 0;

	must(nr >= 1 && nr <= SSD_ROSTER_MAX);
	for (unsigned i = 0; i < nr; i++)
		if (roster_is_here(&dev[i]))
			roster_alone(&dev[i]);
	last = roster_last(dev, nr);
	r = last < 0 ? NULL : &dev[last].was;
	is_sure = r && roster_is_sure(dev, nr, (unsigned)last);
	for (unsigned i = 0; i < nr && !err; i++) {
		if (!roster_is_here(&dev[i]))
			err = roster_absent(&dev[i], r);
		else if (roster_has_left(&dev[i]))
			dev[i].fate = SSD_ROSTER_DROP;
		else if (is_immutable || (is_sure && ssd_roster_has(r, dev[i].id)))
			dev[i].fate = SSD_ROSTER_KEEP;
		else
			dev[i].fate = SSD_ROSTER_DROP;
	}
	if (!err)
		roster_next(dev, nr, r, now);
	return err;
}
