/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's parts as one thing: reactors and workers, the subsystem with its namespaces, the
 * transports. Made and ended on the main thread; between start and stop everything belongs to the
 * reactors.
 */
#ifndef PEALD_PEALD_NODE_H
#define PEALD_PEALD_NODE_H

#include "ctl/conf.h"

struct peald_node;

/* All but threads and door. Both: 0, or -errno and one line that says what failed. */
int peald_node_create(const struct conf *c, struct peald_node **n);
int peald_node_start(struct peald_node *n);
/* Hosts are reset, namespaces ended, threads joined. */
void peald_node_stop(struct peald_node *n);
void peald_node_destroy(struct peald_node *n); /* stopped or never started; NULL is fine */

#endif
