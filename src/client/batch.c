/* SPDX-License-Identifier: ISC */
/*
 * Batches.
 */
#include "client_priv.h"

#include "pgweir/pgwire/message.h"
#include "pgweir/pool/server/statements.h"

bool batch_send(struct batch *batch)
{
	int count = batch->count;

	batch->count = 0;
	batch->used = 0;
	if (count == 0 || !batch->server)
		return true;
	batch->write_count++;
	if (count == 1)
		return server_send(batch->server,
		                   bytes_of(batch->pieces[0].iov_base, batch->pieces[0].iov_len));
	return server_sendv(batch->server, batch->pieces, count);
}

void batch_run(struct batch *batch, struct bytes bytes)
{
	struct iovec *last = batch->count ? &batch->pieces[batch->count - 1] : NULL;

	if (bytes.count == 0)
		return;
	if (last && (char *)last->iov_base + last->iov_len == bytes.at) {
		last->iov_len += bytes.count;
		return;
	}
	if (batch->count == BATCH_PIECES)
		batch_send(batch);
	batch->pieces[batch->count++] = (struct iovec){ (void *)bytes.at, bytes.count };
}

void batch_copy(struct batch *batch, struct bytes bytes)
{
	while (bytes.count) {
		size_t count = bytes.count < BATCH_SIZE ? bytes.count : BATCH_SIZE;

		if (batch->used + count > BATCH_SIZE || batch->count == BATCH_PIECES)
			batch_send(batch);
		memcpy(batch->buffer + batch->used, bytes.at, count);
		batch_run(batch, bytes_of(batch->buffer + batch->used, count));
		batch->used += count;
		bytes = bytes_skip(bytes, count);
	}
}

void batch_header(struct batch *batch, char type, size_t size)
{
	char header[FRAME_HEADER_SIZE] = { type };

	store_be32(header + 1, (uint32_t)(4 + size));
	batch_copy(batch, bytes_of(header, sizeof(header)));
}

/* ---- messages of our own ---- */

bool batch_sync(struct batch *batch, struct server *server, enum ledger_fate fate)
{
	batch_header(batch, 'S', 0);
	return server_note_change(server, LEDGER_SYNC, fate, NULL);
}

bool batch_add_statements(struct batch *batch, struct server *server, bool is_query,
                          struct bytes statements, struct ledger_change *change)
{
	struct buf out = { 0 };
	size_t at = is_query ? message_begin(&out, 'Q') : 0;
	const char *statement;
	bool is_added = true;

	while (is_added && bytes_take_text(&statements, &statement)) {
		if (is_query) {
			buf_add_text(&out, statement);
			continue;
		}
		is_added =
		    server_add_apart(server, bytes_text(statement), LEDGER_DROPPED, change, &out);
		change = NULL;
	}
	if (is_query) {
		buf_add_byte(&out, 0);
		message_end(&out, at);
		is_added = server_note_change(server, LEDGER_QUERY, LEDGER_OURS, change);
	}
	if (is_added && buf_ok(&out))
		batch_copy(batch, buf_bytes(&out));
	is_added &= buf_ok(&out);
	buf_free(&out);
	return is_added;
}
