/* SPDX-License-Identifier: ISC */
/*
 * The engine in a box, for tests and fuzzing: a loop, pools and clients as the
 * daemon has them, with both far ends in the test's own hands. Clients come over
 * socket pairs, servers are accepted from an abstract Unix socket that the pools
 * dial. Nothing here waits: what is ready is handled in a few turns of the loop.
 *
 * All stops the program when it fails.
 */
#ifndef PGWEIR_TEST_ENGINE_H
#define PGWEIR_TEST_ENGINE_H

#include "pgweir/auth/derived.h"
#include "pgweir/client/clients.h"
#include "pgweir/config/config.h"

struct engine {
	struct loop *loop;
	struct stream_pool streams;
	struct params_table *params;
	struct verifiers *verifiers;
	struct pools *pools;
	struct clients *clients;
	const struct config *config;
	struct users *users;
	struct console_door door; /* nobody is behind it */
	int listening;
	struct task stop;
	unsigned int turns_left;
	char host[64];
};

/* A far end: what it says and hears is the test's. */
struct peer {
	int fd; /* -1: none */
	bool is_server;
	bool has_started; /* a server: the startup packet has come */
	struct buf in;    /* not a whole message yet */
	char heard[4096]; /* by peer_hear() */
	char error[256];  /* the last ErrorResponse that was heard: SQLSTATE and words */
	/* Sees each message that peer_hear() hears, if set; not a startup packet. */
	void (*see)(struct peer *peer, char type, struct bytes message);
	void *arg;
};

/*
 * settings: lines of [pgbouncer]. Users u0, u1 and u2 are let in by trust, to the
 * databases d0, d1 and d2. entry: more words for the lines of these.
 */
void engine_open(struct engine *engine, const char *settings, const char *entry);
void engine_close(struct engine *engine);

/* Lets the loop handle what is ready. */
void engine_turn(struct engine *engine);

/* A new client, nothing said yet. */
struct peer engine_client(struct engine *engine);

/* The oldest server connection that was not accepted yet; fd -1: there is none. */
struct peer engine_server(struct engine *engine);

/* Says messages by their types; see room.c for the bodies. false: the far end is gone. */
bool peer_say(struct peer *peer, const char *types);
bool peer_say_bytes(struct peer *peer, struct bytes bytes);

/* The client's startup packet. */
void peer_start(struct peer *peer, const char *user, const char *database);
void peer_start_replication(struct peer *peer, const char *user, const char *database,
                            const char *replication);

/* Adds the bytes of a message to `out`. */
void peer_message(const struct peer *peer, struct buf *out, char type);

/*
 * Turns, and reads all that has come: the types of the messages, '^' a startup
 * packet, '.' the end. ParameterStatus of names of ours (pgbouncer.*) is left out. Good until the
 * next call.
 */
const char *peer_hear(struct engine *engine, struct peer *peer);

void peer_close(struct peer *peer);

#endif
