/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive, singly linked queue: first in, first out, one pointer per node. For one thread; the
 * ring between two threads is spsc.h. A node is in at most one fifo at a time and nothing here
 * checks that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/container.h"

struct fifo_node {
	struct fifo_node *next;
};

struct fifo {
	struct fifo_node *head;
	struct fifo_node **tail; /* where the next node's address goes */
};

static inline void fifo_init(struct fifo *f)
{
	f->head = NULL;
	f->tail = &f->head;
}

static inline bool fifo_is_empty(const struct fifo *f)
{
	return !f->head;
}

static inline void fifo_push(struct fifo *f, struct fifo_node *n)
{
	n->next = NULL;
	*f->tail = n;
	f->tail = &n->next;
}

/* Puts a node back in front, for work that could not be done now. */
static inline void fifo_push_front(struct fifo *f, struct fifo_node *n)
{
	n->next = f->head;
	if (!f->head)
		f->tail = &n->next;
	f->head = n;
}

/* The oldest node, or NULL. */
static inline struct fifo_node *fifo_pop(struct fifo *f)
{
	struct fifo_node *n = f->head;

	if (!n)
		return NULL;
	f->head = n->next;
	if (!f->head)
		f->tail = &f->head;
	return n;
}

static inline struct fifo_node *fifo_peek(const struct fifo *f)
{
	return f->head;
}

/* Moves all of `from` behind what `to` holds. */
static inline void fifo_splice(struct fifo *to, struct fifo *from)
{
	if (!from->head)
		return;
	*to->tail = from->head;
	to->tail = from->tail;
	fifo_init(from);
}

#define fifo_entry(node, type, member) container_of(node, type, member)
