/* SPDX-License-Identifier: ISC */
/*
 * A NotificationResponse of PostgreSQL, shared by all clients that still have to get it.
 */
#ifndef PGWEIR_POOL_NOTIFICATION_H
#define PGWEIR_POOL_NOTIFICATION_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/bytes.h"

struct notification {
	unsigned int hold_count;
	uint32_t size;                 /* bytes of `frame` */
	uint32_t pid;                  /* of the sender */
	bool is_ascii;                 /* the same bytes in all encodings */
	const char *channel, *payload; /* in `frame` */
	char frame[];                  /* as PostgreSQL has sent it */
};

enum notification_result { NOTIFICATION_OK, NOTIFICATION_BROKEN, NOTIFICATION_NO_MEMORY };

/* Reads a whole frame. The notification has one owner. */
enum notification_result notification_read(struct bytes frame, struct notification **notification);

/* Adds or removes one owner. Release sets the pointer to NULL. */
struct notification *notification_hold(struct notification *notification);
void notification_release(struct notification **notification);

#endif
