/* SPDX-License-Identifier: ISC */
/*
 * The first packet of a connection, which has no type byte: a startup packet,
 * or one of the requests that may stand before it.
 *
 * Source: PostgreSQL's manual, "Message Formats", StartupMessage and around.
 */
#ifndef PGWEIR_PGWIRE_STARTUP_H
#define PGWEIR_PGWIRE_STARTUP_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"
#include "pgweir/pgwire/frame.h"

#define STARTUP_HEADER_SIZE 8 /* length and code */
#define STARTUP_MAX 10004     /* bytes of the longest one that is taken, as in PostgreSQL */
#define CANCEL_KEY_MAX 260    /* bytes of process id and secret, protocol 3.2 included */

#define PROTOCOL_3_0 UINT32_C(0x30000)
#define PROTOCOL_3_2 UINT32_C(0x30002) /* cancel keys of any length; else as 3.0 */

enum startup_kind {
	STARTUP_VERSION_3,   /* a startup packet; .minor says which */
	STARTUP_VERSION_2,   /* the protocol of PostgreSQL before 7.4 */
	STARTUP_TLS_REQUEST, /* SSLRequest */
	STARTUP_GSS_REQUEST, /* GSSENCRequest */
	STARTUP_CANCEL,      /* CancelRequest; see startup_cancel_key() */
	STARTUP_TOO_LONG,    /* longer than STARTUP_MAX bytes; .length is its length. WIRE_BAD */
	STARTUP_TLS_HELLO,   /* TLS without asking first: byte 0x16. Nothing else is filled */
	STARTUP_OTHER        /* a possible length and an unknown code */
};

struct startup {
	enum startup_kind kind;
	uint16_t minor;  /* of STARTUP_VERSION_3 */
	uint32_t length; /* bytes of the whole packet */
};

/*
 * Judges the packet that begins at `in` as soon as its header is there; the
 * rest may still be on its way. Takes nothing, keeps no pointer.
 * WIRE_BAD as soon as the bytes cannot begin any packet.
 */
enum wire_result startup_peek(struct bytes in, struct startup *startup);

/*
 * The version in which we talk to a client that asked for 3.`minor`: the newest that both
 * know. 3.1 is nobody's: the number is reserved.
 */
uint32_t startup_agreed(unsigned int minor);

/*
 * The key of a whole CancelRequest: process id and secret, as BackendKeyData
 * gave them. Of any length, so that a wrong one simply matches nobody.
 */
struct bytes startup_cancel_key(struct bytes packet);

/*
 * The next name and value of a startup packet. *list begins as
 * startup_pairs(packet) and goes forward; the texts lie in the packet.
 * WALK_BAD fills *err with the contract's words.
 */
struct bytes startup_pairs(struct bytes packet);
enum walk_result startup_next(struct bytes *list, const char **name, const char **value,
                              struct err *err);

enum replication {
	REPLICATION_NONE,
	REPLICATION_PHYSICAL, /* of the whole cluster: no database */
	REPLICATION_LOGICAL   /* of one database, where SQL runs too */
};

/* What the startup parameter `replication` asks for; what it cannot mean is none. */
enum replication startup_replication(const char *value);

/*
 * A walk through the startup parameter `options`: "-c name=value",
 * "-cname=value", "--name=value"; blanks separate, a backslash takes the next
 * byte as it is, and `-` in a name means `_`, all as in PostgreSQL.
 * Zeroed but for `rest` at first. Free with options_done(), in any case.
 */
struct options_walk {
	const char *rest; /* what has not been read yet; the caller's */
	struct buf words; /* the present pair, unescaped */
};

/* Name and value are good until the next call. WALK_BAD fills *err. */
enum walk_result options_next(struct options_walk *walk, const char **name, const char **value,
                              struct err *err);
void options_done(struct options_walk *walk);

#endif
