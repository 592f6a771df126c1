/* SPDX-License-Identifier: ISC */
/*
 * Notifications that a client has not got yet: a ring of shared notifications.
 */
#include "unread_priv.h"

#include <stdint.h>
#include <stdlib.h>

#include "pgweir/pool/listening.h"

#define FIRST_CAPACITY 16

static struct notification *tag(struct notification *notification, bool is_own)
{
	return (struct notification *)((uintptr_t)notification | is_own);
}

static struct notification *untag(struct notification *tagged, bool *is_own)
{
	*is_own = (uintptr_t)tagged & 1;
	return (struct notification *)((uintptr_t)tagged & ~(uintptr_t)1);
}

size_t unread_share(const struct notification *notification)
{
	return notification->size + sizeof(struct notification *);
}

static struct notification **slot_of(const struct unread *unread, size_t index)
{
	return &unread->ring[(unread->at + index) % unread->capacity];
}

static bool grow(struct unread *unread)
{
	size_t capacity = unread->capacity ? 2 * unread->capacity : FIRST_CAPACITY;
	struct notification **ring = calloc(capacity, sizeof(*ring));

	if (!ring)
		return false;
	for (size_t i = 0; i < unread->count; i++)
		ring[i] = *slot_of(unread, i);
	free(unread->ring);
	unread->ring = ring;
	unread->at = 0;
	unread->capacity = capacity;
	return true;
}

bool unread_add(struct unread *unread, struct notification *notification, bool is_own)
{
	if (unread->count == unread->capacity && !grow(unread))
		return false;
	*slot_of(unread, unread->count++) = tag(notification_hold(notification), is_own);
	unread->bytes += unread_share(notification);
	return true;
}

struct notification *unread_look_at(const struct unread *unread, size_t index, bool *is_own)
{
	return untag(*slot_of(unread, index), is_own);
}

struct notification *unread_look(const struct unread *unread, size_t index)
{
	bool is_own;

	return unread_look_at(unread, index, &is_own);
}

struct notification *unread_take(struct unread *unread, bool *is_own)
{
	struct notification *notification;

	if (!unread->count)
		return NULL;
	notification = untag(*slot_of(unread, 0), is_own);
	unread->at = (unread->at + 1) % unread->capacity;
	unread->count--;
	unread->bytes -= unread_share(notification);
	if (!unread->count) {
		free(unread->ring);
		*unread = (struct unread){ 0 };
	}
	return notification;
}

bool unread_move(struct unread *from, struct unread *to, size_t count)
{
	bool is_moved = true;

	while (count-- && from->count) {
		bool is_own;
		struct notification *notification = unread_take(from, &is_own);

		is_moved &= unread_add(to, notification, is_own);
		notification_release(&notification);
	}
	return is_moved;
}

void unread_drop(struct unread *unread, size_t count)
{
	while (count-- && unread->count) {
		bool is_own;
		struct notification *notification = unread_take(unread, &is_own);

		notification_release(&notification);
	}
}

void unread_done(struct unread *unread) { unread_drop(unread, unread->count); }
