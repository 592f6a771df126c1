/* SPDX-License-Identifier: ISC */
/*
 * Readers: the letters between the web server and the main thread.
 *
 * Pieces may take a part of the main thread's time, so that clients do not notice those who watch:
 * a large table is made slowly, a small one at once.
 *
 * Hard here: a reader may be given up while it is away. Then it comes back once more, is sent away
 * to end its table, which only the main thread may do, and is freed when it is back again.
 */
#include "web_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/fields.h"

#define PIECE_MAX ((size_t)1024 * 1024) /* a row more than a piece of the console has */

static void on_pause_over(struct timer *timer);

void readers_init(struct readers *readers, struct console *console, struct loop *main_loop,
                  struct loop *web_loop)
{
	readers->console = console;
	readers->main_loop = main_loop;
	readers->web_loop = web_loop;
	readers->pauses = loop_timer_queue(main_loop, BUDGET_AT_ONCE, on_pause_over);
	TAILQ_INIT(&readers->list);
}

static void free_reader(struct reader *reader)
{
	TAILQ_REMOVE(&reader->readers->list, reader, node);
	reader->readers->count--;
	buf_free(&reader->piece);
	free(reader);
}

void readers_done(struct readers *readers)
{
	struct reader *reader;

	while ((reader = TAILQ_FIRST(&readers->list))) {
		loop_take_back(readers->main_loop, &reader->letter);
		loop_take_back(readers->web_loop, &reader->letter);
		timer_clear(&reader->pause);
		table_end(&reader->table);
		free_reader(reader);
	}
}

/* ---- on the main thread ---- */

static void post(struct reader *reader, struct loop *to, void (*open)(struct letter *letter))
{
	reader->letter.open = open;
	loop_post(to, &reader->letter);
}

static void on_back(struct letter *letter);

static void make_piece(struct reader *reader)
{
	buf_clear(&reader->piece);
	if (!reader->table)
		reader->table = table_begin(reader->readers->console, reader->words,
		                            reader->skips_unused, &reader->err);
	reader->result = TABLE_BROKEN;
	if (!reader->table)
		return;
	reader->result = table_next(reader->table, &reader->piece);
	if (reader->result == TABLE_BROKEN)
		err_set(&reader->err, ERR_MEMORY, "out of memory");
	if (reader->result != TABLE_MORE)
		table_end(&reader->table);
}

usec_t budget_next_at(const struct budget *budget) { return budget->paid_at - BUDGET_AT_ONCE; }

void budget_spend(struct budget *budget, usec_t now, usec_t took)
{
	if (budget->paid_at < now)
		budget->paid_at = now;
	budget->paid_at += BUDGET_SHARE * took;
}

/* Makes a piece, unless those before it have taken too much of the time. */
static void make_in_time(struct reader *reader)
{
	struct readers *readers = reader->readers;
	struct budget *budget = reader->budget;
	usec_t now = loop_now(readers->main_loop), begin;

	if (readers->pauses && budget_next_at(budget) > now) {
		/* the queue's limit is added to that */
		timer_set(&reader->pause, readers->pauses, budget_next_at(budget) - BUDGET_AT_ONCE);
		return;
	}
	begin = loop_cpu(readers->main_loop);
	make_piece(reader);
	budget_spend(budget, now, loop_cpu(readers->main_loop) - begin);
	post(reader, readers->web_loop, on_back);
}

static void on_pause_over(struct timer *timer)
{
	make_in_time(container_of(timer, struct reader, pause));
}

/* If a letter is late, readers_done() has what is left. */
static void on_wanted(struct letter *letter)
{
	if (!letter->is_late)
		make_in_time(container_of(letter, struct reader, letter));
}

static void on_given_up(struct letter *letter)
{
	struct reader *reader = container_of(letter, struct reader, letter);

	if (letter->is_late)
		return;
	table_end(&reader->table);
	post(reader, reader->readers->web_loop, on_back);
}

/* ---- on the web server's thread ---- */

void reader_next(struct reader *reader)
{
	if (reader->state == READER_AWAY)
		return;
	reader->state = READER_AWAY;
	post(reader, reader->readers->main_loop, on_wanted);
}

static void on_back(struct letter *letter)
{
	struct reader *reader = container_of(letter, struct reader, letter);

	reader->state = READER_BACK;
	if (letter->is_late)
		return;
	if (reader->on_piece)
		reader->on_piece(reader->arg);
	else
		reader_end(&reader);
}

struct reader *reader_new(struct readers *readers, const char *words, reader_on_piece *on_piece,
                          void *arg)
{
	size_t size = strlen(words) + 1;
	struct reader *reader =
	    readers->count < READERS_MAX ? calloc(1, sizeof(*reader) + size) : NULL;

	if (!reader)
		return NULL;
	reader->readers = readers;
	reader->budget = &readers->tables;
	reader->on_piece = on_piece;
	reader->arg = arg;
	reader->piece.limit = PIECE_MAX;
	memcpy(reader->words, words, size);
	TAILQ_INSERT_TAIL(&readers->list, reader, node);
	readers->count++;
	return reader;
}

void reader_end(struct reader **readerp)
{
	struct reader *reader = *readerp;

	*readerp = NULL;
	if (!reader)
		return;
	reader->on_piece = NULL;
	if (reader->state == READER_AWAY)
		return;
	if (!reader->table) {
		free_reader(reader);
		return;
	}
	reader->state = READER_AWAY;
	post(reader, reader->readers->main_loop, on_given_up);
}

/* ---- pieces ---- */

bool reader_take(struct bytes *piece, struct bytes values[COLUMNS_MAX])
{
	struct frame frame;
	struct row_walk walk;

	if (frame_peek(*piece, UINT32_MAX, &frame) != WIRE_OK)
		return false;
	fields_row(frame_body(*piece, &frame), &walk);
	while (fields_value(&walk, values) == WALK_ITEM)
		values++;
	*piece = bytes_skip(*piece, frame.length);
	return true;
}
