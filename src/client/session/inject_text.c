/* SPDX-License-Identifier: ISC */
/*
 * Statements of our own: see inject_text_priv.h.
 */
#include "inject_text_priv.h"

#include "pgweir/pgwire/message.h"
#include "pgweir/pool/server/statements.h"

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
