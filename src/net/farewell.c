/* SPDX-License-Identifier: ISC */
#include "pgweir/net/farewell.h"

#include <unistd.h>

#include "pgweir/net/stream_parcel.h"

#include "socket_calls_priv.h"

bool farewell_begin(struct stream *stream, struct farewell *farewell)
{
	struct stream_parcel parcel;

	*farewell = (struct farewell){ .fd = -1 };
	if (!stream_detach(stream, &parcel))
		return false;
	farewell->fd = stream_parcel_unpack(&parcel, bytes_of("", 0), &farewell->last);
	return true;
}

void farewell_end(struct farewell *farewell)
{
	struct bytes last = buf_bytes(&farewell->last);

	if (farewell->fd >= 0 && last.count)
		socket_send(farewell->fd, last.at, last.count);
	farewell_leave(farewell);
}

void farewell_leave(struct farewell *farewell)
{
	if (farewell->fd >= 0)
		close(farewell->fd);
	buf_free(&farewell->last);
	*farewell = (struct farewell){ .fd = -1 };
}
