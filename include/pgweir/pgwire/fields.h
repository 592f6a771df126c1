/* SPDX-License-Identifier: ISC */
/*
 * Parsing of message bodies: the counterpart of message.h.
 *
 * Unless the comment says otherwise, a function parses a whole body (frame_body()) and returns
 * WIRE_OK or WIRE_BAD. Texts and bytes in the result point into the body.
 */
#ifndef PGWEIR_PGWIRE_FIELDS_H
#define PGWEIR_PGWIRE_FIELDS_H

#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"

/* ---- from a server ---- */

/* ErrorResponse, NoticeResponse. If they are missing, severity, sqlstate and text are "". */
enum wire_result fields_report(struct bytes body, struct report *report);

/* ParameterStatus. An empty name is WIRE_BAD. */
enum wire_result fields_parameter(struct bytes body, const char **name, const char **value);

/* BackendKeyData: process id and secret together, 8 to CANCEL_KEY_MAX bytes. */
enum wire_result fields_key(struct bytes body, struct bytes *key);

/* NegotiateProtocolVersion. */
struct negotiation {
	uint32_t version;   /* the newest minor version that the server supports */
	uint32_t count;     /* number of protocol options that the server does not know */
	struct bytes names; /* names of these options: name\0name\0 */
};

enum wire_result fields_negotiation(struct bytes body, struct negotiation *negotiation);

/* ReadyForQuery. *state is 'I', 'T' or 'E'. */
static inline enum wire_result fields_ready(struct bytes body, char *state)
{
	char said = body.count == 1 ? body.at[0] : '\0';

	if (said != 'I' && said != 'T' && said != 'E')
		return WIRE_BAD;
	*state = said;
	return WIRE_OK;
}

/* Whether this is the body of a ParameterDescription. Parse contains types in the same form. */
enum wire_result fields_types(struct bytes body);

/*
 * A digest of the names, types and type modifiers in a RowDescription: what must stay the same for
 * PostgreSQL to run a prepared statement. It is above FIELDS_NO_COLUMNS, also if the message is
 * broken or `body` is not known. FIELDS_NO_COLUMNS itself stands for a NoData.
 */
#define FIELDS_NO_COLUMNS 1
uint32_t fields_columns(struct bytes body);

/* A body that is one text: CommandComplete, Query, PasswordMessage. */
enum wire_result fields_text(struct bytes body, const char **text);

bool fields_parse_sql(const struct frame *frame, struct bytes in, const char **name,
                      struct bytes *text);

/*
 * The text of a Query or Parse at the start of `in`, without its zero, as far as it has been
 * received, and the name that a Parse gives it, else "". false: there is none, or another message.
 */
static inline bool fields_sql(const struct frame *frame, struct bytes in, const char **name,
                              struct bytes *text)
{
	struct bytes body = frame_received(in, frame);
	/* PostgreSQL refuses a Query with another zero, so none is searched for. */
	bool has_end = body.count && !body.at[body.count - 1];

	if (frame->type != 'Q')
		return fields_parse_sql(frame, in, name, text);
	*name = "";
	*text = bytes_of(body.at, body.count - has_end);
	return has_end || in.count < frame->length;
}

struct auth_request {
	uint32_t kind;      /* enum auth_kind, or a value that is not in it */
	struct bytes salt;  /* AUTH_MD5: 4 bytes */
	struct bytes names; /* AUTH_SASL: for fields_mechanism() */
	struct bytes data;  /* AUTH_SASL_CONTINUE, AUTH_SASL_FINAL */
};

/* An Authentication message of any kind. */
enum wire_result fields_auth(struct bytes body, struct auth_request *request);

/* Returns the next name in a list of mechanisms and moves *names past it. */
enum walk_result fields_mechanism(struct bytes *names, const char **name);

/* A walk through the values of a DataRow or a Bind. */
struct row_walk {
	struct bytes rest;
	uint16_t left; /* number of values that follow */
};

/* DataRow: begins a walk. Its values are checked by fields_value(). */
enum wire_result fields_row(struct bytes body, struct row_walk *walk);
/* SQL's NULL: value->at is NULL */
enum walk_result fields_value(struct row_walk *walk, struct bytes *value);

/* ---- from a client ---- */

/* The names at the front of Parse, Bind, Describe, Close and Execute. */
struct object_names {
	char target;           /* Describe, Close: 'S' or 'P'; else 0 */
	const char *statement; /* NULL: this type of message has no such name */
	const char *portal;
	size_t count; /* bytes of the body up to the end of the names */
};

/*
 * Parses the names as soon as they have arrived. `have` is the part of the body that has
 * arrived, `length` is the size of the whole body. WIRE_MORE: the names are incomplete.
 * WIRE_BAD also for any other type of message.
 */
enum wire_result fields_names(char type, struct bytes have, size_t length,
                              struct object_names *names);

struct parse_fields {
	const char *statement;
	const char *query;
	uint16_t type_count;
	struct bytes types; /* 4 bytes each: load_be32() */
};

enum wire_result fields_parse(struct bytes body, struct parse_fields *parse);

struct bind_fields {
	const char *portal;
	const char *statement;
	uint16_t parameter_format_count;
	struct bytes parameter_formats; /* 2 bytes each: load_be16() */
	struct row_walk parameters;     /* walk through them with fields_value() */
	uint16_t result_format_count;
	struct bytes result_formats; /* 2 bytes each */
};

enum wire_result fields_bind(struct bytes body, struct bind_fields *bind);

/* Whether result column `column` (0 is the first) is requested in binary format. */
bool fields_is_binary(const struct bind_fields *bind, size_t column);

/* *row_limit is 0 if all rows are requested. */
enum wire_result fields_execute(struct bytes body, const char **portal, uint32_t *row_limit);

/*
 * SASLInitialResponse; data->at is NULL if it contains no data. (The body of a SASLResponse is
 * all data.)
 */
enum wire_result fields_sasl_initial(struct bytes body, const char **mechanism, struct bytes *data);

#endif
