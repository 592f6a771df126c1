/* SPDX-License-Identifier: ISC */
/*
 * Readers: SHOW tables for the thread of the web server. A piece is made by the main thread and
 * comes back in a letter; the next one is made when it is wanted.
 *
 *   reader_next() --letter--> main thread: table_next() --letter--> on_piece()
 */
#ifndef PGWEIR_WEB_READER_PRIV_H
#define PGWEIR_WEB_READER_PRIV_H

#include "pgweir/admin/tables.h"
#include "pgweir/loop/loop.h"

#include "budget_priv.h"

/* Where pieces are made, and where they are wanted. */
struct readers {
	struct console *console;
	struct loop *main_loop, *web_loop;
	TAILQ_HEAD(, reader) list;
	/* of the main thread: */
	struct timer_queue *pauses; /* NULL: no memory, and no pauses */
	struct budget budget;
};

enum reader_result {
	READER_MORE,
	READER_END,
	READER_FAILED /* reader->err says why */
};

/*
 * Called in the web server's loop with a piece (see tables.h), which is valid until the next
 * reader_next() or reader_end().
 */
struct reader;
typedef void reader_on_piece(void *arg, enum reader_result result, struct bytes piece);

/* Fields are for reader.c only, but for `err`, and `skips_unused` before reader_next(). */
struct reader {
	struct letter letter;
	struct readers *readers;
	TAILQ_ENTRY(reader) node;
	reader_on_piece *on_piece;
	void *arg;
	bool is_away;      /* with the main thread, or on the way */
	bool is_left;      /* nobody wants it any more */
	bool skips_unused; /* see table_begin() */
	/* what the main thread uses while the reader is away */
	struct timer pause;
	bool is_ending, is_begun;
	struct table *table;
	struct buf piece;
	enum reader_result result;
	struct err err;
	char words[];
};

void readers_init(struct readers *readers, struct console *console, struct loop *main_loop,
                  struct loop *web_loop);

/* Frees all readers. Neither loop may run but the caller's, the main loop. */
void readers_done(struct readers *readers);

/* `words` is what would follow SHOW. Nothing is read yet. NULL: no memory. */
struct reader *reader_new(struct readers *readers, const char *words, reader_on_piece *on_piece,
                          void *arg);

/* Asks for a piece. Not while another one is on the way. */
void reader_next(struct reader *reader);

/* on_piece() will not be called any more. Accepts NULL. */
void reader_end(struct reader **reader);

/* ---- what is in a piece ---- */

/* One message of a piece. Values are texts; .at NULL: SQL's NULL. */
struct reader_column {
	const char *name;
	const char *type; /* PostgreSQL's name: "text", "int4", ... */
	bool is_number;
};

#define READER_COLUMNS_MAX 32

struct reader_message {
	bool is_row; /* otherwise the columns */
	size_t count;
	struct reader_column columns[READER_COLUMNS_MAX];
	struct bytes values[READER_COLUMNS_MAX];
};

/* Takes the next message off the piece. false: none is left. */
bool reader_take(struct bytes *piece, struct reader_message *message);

#endif
