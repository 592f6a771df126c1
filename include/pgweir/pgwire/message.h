/* SPDX-License-Identifier: ISC */
/*
 * Builds messages at the end of a buffer. No function here returns an error: the caller checks
 * buf_ok() once, when everything has been added.
 */
#ifndef PGWEIR_PGWIRE_MESSAGE_H
#define PGWEIR_PGWIRE_MESSAGE_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

/* The fields of an ErrorResponse or a NoticeResponse. The texts are borrowed. */
struct report {
	const char *severity; /* field S, in the server's language */
	const char *verbatim; /* field V, never translated; NULL = none */
	const char *sqlstate; /* field C */
	const char *text;     /* field M */
	const char *detail;   /* field D; NULL = none */
	const char *hint;     /* field H; NULL = none */
	const char *routine;  /* field R, in PostgreSQL's source; NULL = none */
	/* only read, not written */
	const char *context; /* field W; NULL = none */
};

/* Any message: message_end() behind its body gets what message_begin() returned. */
size_t message_begin(struct buf *buf, char type);
void message_end(struct buf *buf, size_t at);

/* One without a body: Sync, Terminate, ParseComplete, ... */
void message_bare(struct buf *buf, char type);

/*
 * A message that never changes: `size` bytes of a string literal are its body, and the compiler
 * computes the length. These structs have no padding, so they can be sent as they are in
 * memory.
 */
#define MESSAGE_FIXED(size)      \
	struct {                 \
		char type;       \
		char length[4];  \
		char body[size]; \
	}
#define MESSAGE_FIXED_INIT(letter, size, literal)                                        \
	{                                                                                \
		letter, { 0, 0, (char)((4 + (size)) >> 8), (char)(4 + (size)) }, literal \
	}

/*
 * MESSAGE_STATIC defines a message whose body is the whole literal, with its terminating zero.
 * MESSAGE_BYTES is a message, or a struct of several, as bytes.
 */
#define MESSAGE_STATIC(name, letter, literal)              \
	static const MESSAGE_FIXED(sizeof(literal)) name = \
	    MESSAGE_FIXED_INIT(letter, sizeof(literal), literal)
#define MESSAGE_BYTES(messages) bytes_of((const char *)&(messages), sizeof(messages))

/* ---- messages of a server ---- */

void message_error(struct buf *buf, const struct report *report);
void message_notice(struct buf *buf, const struct report *report);

/* An ErrorResponse of our own. severity: "FATAL" or "ERROR". */
void message_err(struct buf *buf, const char *severity, const struct err *err);

void message_ready(struct buf *buf, char state); /* 'I', 'T', 'E' */
void message_parameter(struct buf *buf, const char *name, const char *value);
void message_key(struct buf *buf, struct bytes key); /* process id and secret, 8 bytes or more */
void message_complete(struct buf *buf, const char *tag);

/* `names` are the protocol options that we do not know: name\0name\0. */
void message_negotiate(struct buf *buf, uint32_t version, struct bytes names);

enum auth_kind {
	AUTH_OK = 0,
	AUTH_CLEARTEXT = 3,
	AUTH_MD5 = 5,
	AUTH_GSS = 7,
	AUTH_GSS_CONTINUE = 8,
	AUTH_SSPI = 9,
	AUTH_SASL = 10,
	AUTH_SASL_CONTINUE = 11,
	AUTH_SASL_FINAL = 12
};

/* Any of these; data: what follows the kind. */
void message_auth(struct buf *buf, enum auth_kind kind, struct bytes data);
void message_auth_sasl(struct buf *buf, const char *const *mechanisms, size_t count);

void message_parameter_types(struct buf *buf, const uint32_t *types, size_t count);

struct message_column {
	const char *name;
	uint32_t type;  /* OID: 25 text, 23 int4, 20 int8, 17 bytea, 1700 numeric, ... */
	int16_t size;   /* bytes; -1 = variable */
	int16_t format; /* 0 text, 1 binary */
};

/* RowDescription: begin, add each column, then message_end(). */
size_t message_columns_begin(struct buf *buf, uint16_t count);
void message_column(struct buf *buf, const struct message_column *column);

/* DataRow: begin, add each value, then message_end(). */
size_t message_row_begin(struct buf *buf, uint16_t count);
void message_row_text(struct buf *buf, const char *text); /* NULL = SQL's NULL */
void message_row_bytes(struct buf *buf, struct bytes value);
void message_row_null(struct buf *buf);

/* ---- messages of a client ---- */

/* A startup packet; version: PROTOCOL_3_0 or another of startup.h. */
size_t message_startup_begin(struct buf *buf, uint32_t version);
void message_startup_pair(struct buf *buf, const char *name, const char *value);
void message_startup_end(struct buf *buf, size_t at);

void message_tls_request(struct buf *buf);
void message_cancel(struct buf *buf, struct bytes key);
void message_password(struct buf *buf, const char *password);
void message_sasl_initial(struct buf *buf, const char *mechanism, struct bytes data);
void message_sasl_response(struct buf *buf, struct bytes data);
void message_query(struct buf *buf, const char *text);

#endif
