/* SPDX-License-Identifier: ISC */
/*
 * Lanes: a lane is a loop with everything that belongs to it. Each thread that runs a loop has one.
 *
 * The first lane belongs to the main thread, which also has the listener, the console and the
 * signals. Main makes the lanes and owns them. A function that gets all lanes may use the others
 * only while they are held: see lanes_hold().
 */
#ifndef PGWEIR_CLIENT_LANES_H
#define PGWEIR_CLIENT_LANES_H

#include <stdatomic.h>

#include "pgweir/client/clients.h"
#include "pgweir/loop/crew.h"
#include "pgweir/net/resolver.h"
#include "pgweir/net/stream.h"
#include "pgweir/pool/pools.h"

#define LANES_MAX 64 /* greatest value of `loops` */

struct lane {
	unsigned int number; /* from 0 */
	struct loop *loop;
	struct stream_pool streams;
	struct params_table *params;
	struct resolver *resolver;
	struct pools *pools;
	struct clients *clients;
	atomic_uint arriving_count; /* clients in letters to this lane */
};

struct lanes {
	unsigned int count;
	struct lane *at;
	struct crew *crew;
};

#define LANES_EACH(each, lanes) \
	for (struct lane *each = (lanes)->at; each < (lanes)->at + (lanes)->count; each++)

/*
 * Between these two, the other lanes stand still, and the main thread may use them. Calls nest.
 */
static inline void lanes_hold(const struct lanes *lanes) { crew_hold(lanes->crew); }
static inline void lanes_release(const struct lanes *lanes) { crew_release(lanes->crew); }

/* LANES_EACH() while they stand still. Not to be left by break or return. */
#define LANES_HELD(each, lanes)                                    \
	for (struct lane *each = (lanes_hold(lanes), (lanes)->at); \
	     each < (lanes)->at + (lanes)->count || (lanes_release(lanes), false); each++)

/* The progress of DRAIN. Holds the lanes. */
struct drain_progress lanes_drain(const struct lanes *lanes);

/* The same as a text for people. */
void drain_describe(const struct lanes *lanes, char *text, size_t size);

/*
 * ---- clients that move to another lane ----
 *
 * A client parcel: a client between two loops, before its login. It goes to the loop that has the
 * console, that has the client whose cancel key it sent, or in which its pool is at home. It has
 * its connection, maybe encrypted, its packet, and its address as a PROXY header gave it. The
 * client notices nothing. One that was only accepted has its descriptor.
 */

struct client_parcel {
	struct letter letter; /* of who sends it, */
	struct lane *to;      /* as this one */
	struct stream_parcel stream;
	struct client_shown shown;
	struct address peer;
	struct gate *gate;
	uint64_t id;
	usec_t connected_at; /* 0: it was only accepted */
};

/*
 * Takes the client out of its clients; only within send_elsewhere(). It is freed at the end of the
 * turn. NULL: there is no memory or descriptor, and the client was closed.
 */
struct client_parcel *client_pack(struct client *client);

/*
 * Continues the login here, and frees the parcel. To be called in the thread of the clients. The
 * client keeps its id and the time of its connection, and is not sent elsewhere again.
 */
void client_unpack(struct clients *clients, struct client_parcel **parcel);

/* Closes a client that no loop takes: the one that it was for has ended. */
void client_parcel_end(struct client_parcel **parcel);

#endif
