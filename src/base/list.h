/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive, doubly linked, circular list. The head is a node itself; an empty list points at
 * itself, and so does a node that is in no list, once list_init() has run on it. A node can
 * therefore always be asked whether it is linked, and list_del() on one that isn't does nothing.
 * Whoever owns the head owns the nodes; nothing here is safe for two threads.
 */
#pragma once

#include <stdbool.h>

#include "base/container.h"

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(name) \
	{ \
		&(name), &(name) \
	}

static inline void list_init(struct list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline bool list_is_linked(const struct list *node)
{
	return node->next != node;
}

static inline void list_insert(struct list *node, struct list *prev, struct list *next)
{
	node->prev = prev;
	node->next = next;
	prev->next = node;
	next->prev = node;
}

static inline void list_add_head(struct list *head, struct list *node)
{
	list_insert(node, head, head->next);
}

static inline void list_add_tail(struct list *head, struct list *node)
{
	list_insert(node, head->prev, head);
}

static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Moves all of `from` to the end of `to`; `from` is empty afterwards. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(node, type, member) container_of(node, type, member)
#define list_first_entry(head, type, member) container_of((head)->next, type, member)
#define list_last_entry(head, type, member) container_of((head)->prev, type, member)

/*
 * The cursor is a node and becomes an entry only when it isn't the head: an entry made of the head
 * would be misaligned for types that ask for more alignment than a pointer.
 */
#define list_for_each_entry(pos, head, member) \
	for (struct list *list_at_ = (head)->next; \
	     list_at_ != (head) && \
	     ((pos) = container_of(list_at_, __typeof__(*(pos)), member), true); \
	     list_at_ = list_at_->next)

/* The loop body may delete or free `pos`, but not the entry behind it, which `tmp` is if any. */
#define list_for_each_entry_safe(pos, tmp, head, member) \
	for (struct list *list_at_ = (head)->next, *list_next_; \
	     list_at_ != (head) && \
	     (list_next_ = list_at_->next, \
	     (pos) = container_of(list_at_, __typeof__(*(pos)), member), \
	     (tmp) = list_next_ == (head) ? NULL \
					  : container_of(list_next_, __typeof__(*(pos)), member), \
	     (void)(tmp), true); \
	     list_at_ = list_next_)
