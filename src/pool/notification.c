/* SPDX-License-Identifier: ISC */
/*
 * Notifications.
 */
#include "pgweir/pool/notification.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/pgwire/frame.h"

#define TEXT_AT (FRAME_HEADER_SIZE + 4) /* after the process id */

/* The start of the payload; NULL: the frame does not end with two texts. */
static const char *find_payload(struct bytes frame)
{
	struct bytes text;
	const char *end;

	if (frame.count <= TEXT_AT || frame.at[frame.count - 1] != 0)
		return NULL;
	text = bytes_skip(frame, TEXT_AT);
	end = memchr(text.at, 0, text.count);
	if (end + 1 == text.at + text.count)
		return NULL; /* one text */
	return memchr(end + 1, 0, (size_t)(text.at + text.count - end - 1)) ==
	               text.at + text.count - 1
	           ? end + 1
	           : NULL;
}

enum notification_result notification_read(struct bytes frame, struct notification **out)
{
	const char *payload = find_payload(frame);
	struct notification *notification;

	*out = NULL;
	if (!payload)
		return NOTIFICATION_BROKEN;
	notification = malloc(sizeof(*notification) + frame.count);
	if (!notification)
		return NOTIFICATION_NO_MEMORY;
	*notification = (struct notification){
		.hold_count = 1,
		.size = (uint32_t)frame.count,
		.pid = load_be32(frame.at + FRAME_HEADER_SIZE),
		.is_ascii = bytes_are_ascii(bytes_skip(frame, TEXT_AT)),
		.channel = notification->frame + TEXT_AT,
		.payload = notification->frame + (payload - frame.at),
	};
	memcpy(notification->frame, frame.at, frame.count);
	*out = notification;
	return NOTIFICATION_OK;
}

struct notification *notification_hold(struct notification *notification)
{
	notification->hold_count++;
	return notification;
}

void notification_release(struct notification **notificationp)
{
	struct notification *notification = *notificationp;

	*notificationp = NULL;
	if (notification && --notification->hold_count == 0)
		free(notification);
}
