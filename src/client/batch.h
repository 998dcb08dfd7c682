/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of peal_queue_open(), as the rest of the library sees them: something that must be
 * woken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct peal;

/* Writes the eventfds of queues that have a request whose deadline is not after now_ns (UINT64_MAX:
 * of all). True when there is a queue whose eventfd somebody polls. Any thread. */
bool batch_kick_all(struct peal *p, uint64_t now_ns);
/*
 * Takes the answers that nobody waits for from queues whose threads are elsewhere, so that their
 * buffers' quarantine ends. Any thread, with no lock of a connection.
 */
void batch_reap_idle(struct peal *p);
/* peal_queue_close() of all that are open. */
void batch_close_all(struct peal *p);
