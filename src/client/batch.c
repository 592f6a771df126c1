/* SPDX-License-Identifier: ISC */
/*
 * Batches.
 */
#include "batch_priv.h"

#include "pgweir/pgwire/message.h"
#include "pgweir/pool/server/statements.h"

bool batch_send(struct batch *batch)
{
	int count = batch->count;

	batch->count = 0;
	batch->used = 0;
	if (count == 0 || !batch->server)
		return true;
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

/* ---- statements of our own ---- */

bool inject_note(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                 struct ledger_change *change)
{
	return server_note_change(server, kind, fate, change) != LEDGER_NO_MEMORY;
}

bool inject_text_query(struct server *server, struct buf *out, struct bytes statements,
                       struct ledger_change *change)
{
	size_t at = message_begin(out, 'Q');
	const char *statement;

	while (bytes_take_text(&statements, &statement))
		buf_add_text(out, statement);
	buf_add_byte(out, 0);
	message_end(out, at);
	return inject_note(server, LEDGER_QUERY, LEDGER_IGNORE, change) && buf_ok(out);
}

static void add_closes(struct buf *out)
{
	static const char targets[] = { 'P', 'S' };

	for (size_t i = 0; i < sizeof(targets); i++) {
		size_t at = message_begin(out, 'C');

		buf_add_byte(out, targets[i]);
		buf_add_cstr(out, SCRATCH_NAME);
		message_end(out, at);
	}
}

/*
 * After an error, or from a PREPARE of SQL, the name may be there still: it is closed first, too.
 */
static void add_statement(struct buf *out, const char *statement)
{
	size_t at;

	add_closes(out);
	at = message_begin(out, 'P');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_cstr(out, statement);
	buf_add_be16(out, 0);
	message_end(out, at);
	at = message_begin(out, 'B');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_be16(out, 0);
	buf_add_be16(out, 0);
	buf_add_be16(out, 0);
	message_end(out, at);
	at = message_begin(out, 'E');
	buf_add_cstr(out, SCRATCH_NAME);
	buf_add_be32(out, 0);
	message_end(out, at);
	add_closes(out);
}

bool inject_text_extended(struct server *server, struct buf *out, struct bytes statements,
                          struct ledger_change *change)
{
	static const enum ledger_kind kinds[] = { LEDGER_CLOSE, LEDGER_CLOSE,   LEDGER_PARSE,
		                                  LEDGER_BIND,  LEDGER_EXECUTE, LEDGER_CLOSE,
		                                  LEDGER_CLOSE };
	const char *statement;

	while (bytes_take_text(&statements, &statement)) {
		add_statement(out, statement);
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			bool has_change = kinds[i] == LEDGER_EXECUTE && change;

			if (!inject_note(server, kinds[i], LEDGER_INJECT,
			                 has_change ? change : NULL))
				return false;
			change = has_change ? NULL : change;
		}
	}
	return buf_ok(out);
}
