/* SPDX-License-Identifier: ISC */
/*
 * The first packet of a connection, which has no type byte: a startup packet, or one of the
 * requests that may precede it.
 *
 * Source: PostgreSQL's manual, "Message Formats", StartupMessage and its neighbours.
 */
#ifndef PGWEIR_PGWIRE_STARTUP_H
#define PGWEIR_PGWIRE_STARTUP_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"
#include "pgweir/pgwire/frame.h"

#define STARTUP_HEADER_SIZE 8 /* bytes of length and code */
#define STARTUP_MAX 10004     /* bytes of the longest packet that is accepted, as in PostgreSQL */
/* bytes of process id and secret; protocol 3.2 allows more than 3.0 */
#define CANCEL_KEY_MAX 260

#define PROTOCOL_3_0 UINT32_C(0x30000)
#define PROTOCOL_3_2 UINT32_C(0x30002) /* cancel keys of any length; otherwise like 3.0 */

enum startup_kind {
	STARTUP_VERSION_3,   /* a startup packet; .minor is the minor version */
	STARTUP_VERSION_2,   /* the protocol of PostgreSQL before 7.4 */
	STARTUP_TLS_REQUEST, /* SSLRequest */
	STARTUP_GSS_REQUEST, /* GSSENCRequest */
	STARTUP_CANCEL,      /* CancelRequest; see startup_body() */
	STARTUP_TOO_LONG,    /* longer than STARTUP_MAX bytes (.length). Comes with WIRE_BAD */
	STARTUP_TLS_HELLO,   /* TLS without an SSLRequest: byte 0x16. No other field is filled */
	STARTUP_OTHER        /* a possible length and an unknown code */
};

struct startup {
	enum startup_kind kind;
	uint16_t minor;  /* valid for STARTUP_VERSION_3 */
	uint32_t length; /* bytes of the whole packet */
};

/*
 * Classifies the packet at the start of `in` as soon as its header has arrived; the rest may
 * follow later. Consumes nothing and keeps no pointer. WIRE_BAD as soon as the bytes cannot
 * begin any packet.
 */
enum wire_result startup_peek(struct bytes in, struct startup *startup);

/*
 * Returns the protocol version for a client that asked for 3.`minor`: the newest that client
 * and pgweir support. 3.1 is reserved and never used; a client that asks for it gets 3.0.
 */
uint32_t startup_agreed(unsigned int minor);

/*
 * What a whole packet has behind its code: the parameters of a startup packet, or the key of a
 * CancelRequest, process id and secret as in BackendKeyData. The length of a key is not checked:
 * one of a wrong length matches no client.
 */
struct bytes startup_body(struct bytes packet);

/*
 * Returns the next name and value of a startup packet. *list starts as startup_body(packet) and is
 * moved past them. The texts point into the packet. WALK_BAD: *err has PostgreSQL's error text.
 */
enum walk_result startup_next(struct bytes *list, const char **name, const char **value,
                              struct err *err);

enum replication {
	REPLICATION_NONE,
	REPLICATION_PHYSICAL, /* of the whole cluster; no database */
	REPLICATION_LOGICAL   /* of one database, where SQL is possible too */
};

/* Whether PostgreSQL reads the value of a parameter as a Boolean that is true. */
bool startup_is_true(const char *value);

/* REPLICATION_NONE: also for a value that PostgreSQL does not accept. */
enum replication startup_replication(const char *value);

/*
 * A walk through the startup parameter `options`: "-c name=value", "-cname=value",
 * "--name=value". Blanks separate options, a backslash escapes the next byte, and `-` in a name
 * means `_`, all as in PostgreSQL. Set `rest` and zero the other fields before the first call.
 * Always free it with startup_options_done().
 */
struct options_walk {
	const char *rest; /* what has not been parsed yet; owned by the caller */
	struct buf words; /* the current name and value, unescaped */
};

/* Name and value are valid until the next call. WALK_BAD: *err is filled. */
enum walk_result startup_options_next(struct options_walk *walk, const char **name,
                                      const char **value, struct err *err);
void startup_options_done(struct options_walk *walk);

#endif
