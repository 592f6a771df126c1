/* SPDX-License-Identifier: ISC */
/*
 * Statements: builds them, sends them for a client in the simple or the extended protocol, and
 * records the expected results. A tagged statement returns rows of four fields that both sides can
 * compute: tag, number from 1, a sum of both, and a text of one repeated letter.
 *
 * All of them return false if libpq refused (the connection is broken); the next result then
 * reports it to the client, so callers may ignore it.
 */
#ifndef TEST_LOAD_STATEMENT_H
#define TEST_LOAD_STATEMENT_H

#include <stddef.h>

struct client;
struct due;

#define ROW_FIELDS 4

/* The third field of row `number`, and the letter that its text is made of. */
unsigned int statement_sum(unsigned int seed, unsigned int number);
char statement_letter(unsigned int number);

/*
 * Simple protocol: one Query message with this text. The caller adds the expected results, DUE_END
 * last.
 */
__attribute__((format(printf, 2, 3))) void statement_send(struct client *client, const char *format,
                                                          ...);

/* The same, and the command tag `words` is what must come back. */
__attribute__((format(printf, 3, 4))) void
statement_command(struct client *client, const char *words, const char *format, ...);

/* The text of a tagged query for `due`, into `text`. */
void statement_rows_text(const struct due *due, char *text, size_t size);

/* Adds tagged rows as due: a new tag, `rows` rows with texts of `width`. Sends nothing. */
struct due *statement_expect_rows(struct client *client, unsigned int rows, unsigned int width);

/* Sends a tagged query, simple or extended (pipelines too), with all that must come back. */
void statement_rows(struct client *client, unsigned int rows, unsigned int width);
void statement_rows_extended(struct client *client, unsigned int rows, unsigned int width);

/* Sends a statement that fails with its tag as message; recovery is the caller's. */
void statement_error(struct client *client);
void statement_error_extended(struct client *client);

/*
 * Writes one row (number from the ledger). Extended returns its number's text, simple the
 * command tag only.
 */
void handover_write_statement(struct client *client, size_t number);
void statement_write_extended(struct client *client, size_t number);

/* Queries one value, which must be `words`. */
__attribute__((format(printf, 3, 4))) void statement_value(struct client *client, const char *words,
                                                           const char *format, ...);

#endif
