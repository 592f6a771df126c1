/* SPDX-License-Identifier: ISC */
/*
 * Hands clients over from one process to another, with the servers that are lent to them.
 * net/channel.h has the order of the steps, pool/handover.h the servers.
 *
 * Clients that are encrypted by OpenSSL, replicate, log in or use the console stay in the old
 * process.
 */
#ifndef PGWEIR_CLIENT_HANDOVER_H
#define PGWEIR_CLIENT_HANDOVER_H

#include "pgweir/client/clients.h"
#include "pgweir/client/lanes.h"
#include "pgweir/pool/handover.h"

/* ---- the record of a client ---- */

#define SESSION_TEXT_MAX 200  /* bytes of a statement that are kept */
#define SESSION_HELD_MAX 1200 /* bytes of session->held: client/session/session_show.c */

/*
 * Texts and bytes are borrowed, as in pool/handover_priv.h, and the optional fields at the end of a
 * table are not in the plain format. Those of its statements follow: client/statements/.
 */
struct client_record {
	char database[CONFIG_DATABASE_NAME_MAX + 1];
	char role[CONFIG_USER_NAME_MAX + 1];
	char pool[CONFIG_USER_NAME_MAX + 1]; /* role of its pool on that database */
	uint64_t id, wait_number;
	struct address peer;
	struct bytes params, startup, key, kept, unsent;
	usec_t connected_at, request_at, xact_at, idle_since, waiting_since;
	bool is_lent, was_notified, is_skipping;
	char gate[CONFIG_DATABASE_NAME_MAX + 1]; /* its listener, if that has an entry */
	uint32_t rules, patience;                /* of its borrower */
	/* session state, if has_session: client/session/session_state.c */
	uint32_t touched, pins, pinning;
	bool has_session, has_slot, was_discarded, was_told, asks_sequences;
	usec_t pinned_at;
	struct bytes text, names, held;
	/* what it listens to, and what it has not got yet; 0: it does not listen */
	uint64_t listening;    /* number of the listening connection */
	struct bytes channels; /* name\0 */
	struct bytes unread;   /* NotificationResponses */
};

extern const struct record_table client_record_table;

/* ---- the process that hands over ---- */

/*
 * Writes all clients that can be handed over, each after its server, and marks them and no others.
 * false: the channel has failed.
 */
bool clients_write(struct clients *clients, struct channel *channel);

/* Releases the marked clients without sending them anything. Returns their number. */
unsigned int clients_let_go(struct clients *clients);

/*
 * Whether a client can be handed over now. Also stops reading from busy clients whose current batch
 * can end without more input, so that they can be handed over after it; a SUSPEND has stopped all.
 * To be called repeatedly; clients_go_on() ends it.
 */
bool clients_look(struct clients *clients);

/* Sends all clients this error and closes them. */
void clients_dismiss(struct clients *clients, const struct err *err);

/* ---- the process that takes over ---- */

/* Whether a record is complete and consistent. false: *err has the reason. */
bool client_judge(const struct clients *clients, struct bytes body, struct err *err);

/*
 * The lane for the client of a checked record: the one to which its cancel key leads; or all that
 * share a listening connection go to the same, by its number.
 */
struct lane *client_lane(const struct lanes *lanes, struct bytes body);

/*
 * Creates the client of a checked record. It does nothing until clients_start(). *fd becomes -1 if
 * the client owns it now.
 */
void client_take(struct clients *clients, struct pools_arrival *arrival, struct bytes body,
                 int *fd);

/* Starts the clients that were taken over. */
void clients_start(struct clients *clients);

#endif
