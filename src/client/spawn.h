/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn:DIR - a daemon that belongs to a folder. Under a lock on DIR/lock: attach to the daemon
 * that is there, or else start one, detached from us (its own session, output in DIR/peald.log),
 * and attach when its socket answers. It outlives us; it goes `linger` seconds after its last
 * client.
 */
#pragma once

#include "client/conn.h"
#include "client/uri.h"

/* -errno with a message. */
int spawn_attach(const struct uri *u, const struct conn_opts *o, struct conn **c);
