/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /healthz says of a daemon that answers: "ok", or "degraded" and a line for each thing that
 * an operator should look at. Degraded is still alive: the status is 200 either way. Pure.
 */
#ifndef CTL_CTL_HEALTH_H
#define CTL_CTL_HEALTH_H

#include "ctl/ctl_stat.h"

/* malloc()ed; NULL = no memory. */
char *ctl_health_text(const struct ctl *c, const struct ctl_stat *st, size_t *bytes);

#endif
