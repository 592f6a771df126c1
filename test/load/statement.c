/* SPDX-License-Identifier: ISC */
/* Statements and their expected results. */
#include "statement.h"

#include <stdarg.h>
#include <stdio.h>

#include "client.h"

#define TEXT_SIZE 1024
#define SUM_MODULUS 1000003
#define RAISE_SQLSTATE "LD001"

unsigned int statement_sum(unsigned int seed, unsigned int number)
{
	return (seed + number) % SUM_MODULUS;
}

char statement_letter(unsigned int number) { return (char)('a' + number % 26); }

static unsigned int seed_of(const struct client *client)
{
	return (client->id * 31 + client->sequence * 7919) % SUM_MODULUS;
}

static void send_text(struct client *client, const char *text)
{
	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendQuery(client->conn, text);
}

/* Every parameter is sent as text, of the type that the statement gives it. */
static void send_extended(struct client *client, const char *text, int count,
                          const char *const *values)
{
	tally_add(&client->load->tally, TALLY_STATEMENTS, 1);
	PQsendQueryParams(client->conn, text, count, NULL, values, NULL, NULL, 0);
}

__attribute__((format(printf, 2, 0))) static void send_format(struct client *client,
                                                              const char *format, va_list args)
{
	char text[TEXT_SIZE];

	vsnprintf(text, sizeof(text), format, args);
	send_text(client, text);
}

void statement_send(struct client *client, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	send_format(client, format, args);
	va_end(args);
}

static void expect_words(struct client *client, enum due_kind kind, const char *words)
{
	answers_expect_words(&client->answers, kind, words);
	answers_expect(&client->answers, DUE_END);
}

void statement_command(struct client *client, const char *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	send_format(client, format, args);
	va_end(args);
	expect_words(client, DUE_COMMAND, words);
}

void statement_value(struct client *client, const char *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	send_format(client, format, args);
	va_end(args);
	expect_words(client, DUE_VALUE, words);
}

void statement_rows_text(const struct due *due, char *text, size_t size)
{
	snprintf(text, size,
	         "SELECT '%s', g, (%u + g) %% %d, repeat(chr(97 + g %% 26), %u)"
	         " FROM generate_series(1, %u) g",
	         due->tag, due->seed, SUM_MODULUS, due->width, due->rows);
}

struct due *statement_expect_rows(struct client *client, unsigned int rows, unsigned int width)
{
	struct due *due = answers_expect(&client->answers, DUE_ROWS);

	client_tag(client, due->tag);
	due->seed = seed_of(client);
	due->rows = rows;
	due->width = width;
	return due;
}

void statement_rows(struct client *client, unsigned int rows, unsigned int width)
{
	char text[TEXT_SIZE];

	statement_rows_text(statement_expect_rows(client, rows, width), text, sizeof(text));
	send_text(client, text);
	answers_expect(&client->answers, DUE_END);
}

void statement_rows_extended(struct client *client, unsigned int rows, unsigned int width)
{
	struct due *due = statement_expect_rows(client, rows, width);
	char numbers[3][16];
	const char *values[] = { due->tag, numbers[0], numbers[1], numbers[2] };

	snprintf(numbers[0], sizeof(numbers[0]), "%u", due->seed);
	snprintf(numbers[1], sizeof(numbers[1]), "%u", width);
	snprintf(numbers[2], sizeof(numbers[2]), "%u", rows);
	send_extended(client,
	              "SELECT $1::text, g, ($2::int + g) % 1000003, repeat(chr(97 + g % 26), $3)"
	              " FROM generate_series(1, $4::int) g",
	              4, values);
	answers_expect(&client->answers, DUE_END);
}

static struct due *expect_error(struct client *client, const char *sqlstate)
{
	struct due *due = answers_expect_words(&client->answers, DUE_ERROR, sqlstate);

	answers_expect(&client->answers, DUE_END);
	return due;
}

void statement_error(struct client *client)
{
	struct due *due = expect_error(client, RAISE_SQLSTATE);

	client_tag(client, due->tag);
	statement_send(client, "DO $$ BEGIN RAISE EXCEPTION '%s' USING ERRCODE = '%s'; END $$",
	               due->tag, RAISE_SQLSTATE);
}

/* The message contains the invalid text, so it is tagged as well. */
void statement_error_extended(struct client *client)
{
	struct due *due = expect_error(client, "22P02");
	char tag[TAG_SIZE];
	const char *values[] = { tag };

	client_tag(client, tag);
	snprintf(due->tag, sizeof(due->tag), "invalid input syntax for type integer: \"%s\"", tag);
	send_extended(client, "SELECT $1::int", 1, values);
}

void handover_write_statement(struct client *client, size_t number)
{
	statement_command(client, "INSERT 0 1",
	                  "INSERT INTO load_write VALUES (%u, %zu, 'c%u.w%zu', '')", client->id,
	                  number, client->id, number);
}

void statement_write_extended(struct client *client, size_t number)
{
	char id[16], key[24], payload[WORDS_SIZE];
	const char *values[] = { id, key, payload };

	snprintf(id, sizeof(id), "%u", client->id);
	snprintf(key, sizeof(key), "%zu", number);
	snprintf(payload, sizeof(payload), "c%u.w%zu", client->id, number);
	send_extended(client,
	              "INSERT INTO load_write VALUES ($1::int, $2::int, $3, '') RETURNING payload",
	              3, values);
	expect_words(client, DUE_VALUE, payload);
}
