/* SPDX-License-Identifier: ISC */
/*
 * Gathering.
 */
#include "gather_priv.h"

#include <assert.h>

#include "pgweir/base/banned.h"

bool gather_send(struct gather *gather)
{
	int count = gather->count;

	gather->count = 0;
	gather->used = 0;
	if (count == 0 || !gather->server)
		return true;
	if (count == 1)
		return server_send(gather->server,
		                   bytes_of(gather->pieces[0].iov_base, gather->pieces[0].iov_len));
	return server_sendv(gather->server, gather->pieces, count);
}

void gather_run(struct gather *gather, struct bytes bytes)
{
	struct iovec *last = gather->count ? &gather->pieces[gather->count - 1] : NULL;

	if (bytes.count == 0)
		return;
	if (last && (char *)last->iov_base + last->iov_len == bytes.at) {
		last->iov_len += bytes.count;
		return;
	}
	if (gather->count == GATHER_PIECES)
		gather_send(gather);
	gather->pieces[gather->count++] = (struct iovec){ (void *)bytes.at, bytes.count };
}

void gather_copy(struct gather *gather, struct bytes bytes)
{
	assert(bytes.count <= GATHER_ROOM);
	if (gather->used + bytes.count > GATHER_ROOM || gather->count == GATHER_PIECES)
		gather_send(gather);
	memcpy(gather->room + gather->used, bytes.at, bytes.count);
	gather_run(gather, bytes_of(gather->room + gather->used, bytes.count));
	gather->used += bytes.count;
}
