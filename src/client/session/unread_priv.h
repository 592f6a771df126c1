/* SPDX-License-Identifier: ISC */
/*
 * Notifications that a client has not got yet, in order. A zeroed queue is empty and owns nothing.
 */
#ifndef PGWEIR_CLIENT_SESSION_UNREAD_PRIV_H
#define PGWEIR_CLIENT_SESSION_UNREAD_PRIV_H

#include <stdbool.h>
#include <stddef.h>

struct notification;

/* is_own: the client itself has sent it, so it has the process id of the client's cancel key. */
struct unread {
	struct notification **ring; /* the lowest bit of a pointer: is_own */
	size_t at, count, capacity;
	size_t bytes; /* with the pointers */
};

/* The memory that a notification needs there. */
size_t unread_share(const struct notification *notification);

/* Adds one at the end, and holds it. false: no memory. */
bool unread_add(struct unread *unread, struct notification *notification, bool is_own);

/* Looks at an entry: 0 is the oldest. It is borrowed. */
struct notification *unread_look(const struct unread *unread, size_t index);
struct notification *unread_look_at(const struct unread *unread, size_t index, bool *is_own);

/* Removes the oldest one; the caller owns it. NULL: it is empty. */
struct notification *unread_take(struct unread *unread, bool *is_own);

/* Moves the oldest `count` entries of `from` to the end of `to`. false: no memory for some. */
bool unread_move(struct unread *from, struct unread *to, size_t count);

/* Removes the oldest `count` entries. */
void unread_drop(struct unread *unread, size_t count);

void unread_done(struct unread *unread);

#endif
