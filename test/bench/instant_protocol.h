/* SPDX-License-Identifier: ISC */
/*
 * The server's side of the protocol, without a server: what instant.c answers. Bytes in, bytes out;
 * no socket, no clock.
 */
#ifndef TEST_BENCH_INSTANT_PROTOCOL_H
#define TEST_BENCH_INSTANT_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAX ((size_t)1 << 20) /* of a client; a longer one ends the connection */
#define REPLY_PAUSE ((size_t)1 << 16) /* no further message is read with so much unsent */

/* Bytes in memory that grows. After `is_lost` (out of memory) nothing is added any more. */
struct reply {
	char *data;
	size_t length, size;
	bool is_lost;
};

#define NAME_BUCKETS 64

/* Prepared statements, or portals, by the hash of their name. */
struct names {
	struct named *buckets[NAME_BUCKETS];
	size_t count;
};

struct session {
	struct names statements, portals;
	uint64_t query_count; /* statements answered */
	unsigned int changed; /* a bit for each reported parameter that is not at its default */
	uint32_t number;      /* the process ID that the client gets */
	char transaction;     /* 'I', 'T', 'E', as in ReadyForQuery */
	bool has_started;     /* after the startup packet */
	bool skips_to_sync;   /* after an error in the extended protocol */
	bool has_tls;         /* whether an SSLRequest is granted */
};

enum session_next {
	SESSION_READ,  /* more bytes are needed, or the replies must be sent first */
	SESSION_TLS,   /* 'S' was answered: what follows is a TLS handshake */
	SESSION_CLOSE, /* send the replies, then close */
};

void session_init(struct session *session, uint32_t number, bool has_tls);
void session_done(struct session *session);

/*
 * Answers the complete messages at the beginning of `in`. Returns how many bytes they have. Stops
 * before a message that is incomplete, and when REPLY_PAUSE bytes wait in `reply`. A message adds
 * less than 2 MiB to them.
 */
size_t session_take(struct session *session, const char *in, size_t length, struct reply *reply,
                    enum session_next *next);

#endif
