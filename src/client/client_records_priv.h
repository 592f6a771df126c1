/* SPDX-License-Identifier: ISC */
/*
 * The hand-over records of a client. As in pool/handover_priv.h, texts and bytes are borrowed, and
 * the optional fields at the end of a table are not in the plain format.
 */
#ifndef PGWEIR_CLIENT_CLIENT_RECORDS_PRIV_H
#define PGWEIR_CLIENT_CLIENT_RECORDS_PRIV_H

#include "pgweir/client/handover.h"
#include "pgweir/pgwire/sql.h"

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

/* The unnamed statement; no record if there is none. */
struct unnamed_record {
	bool has_text, is_here;
	uint64_t number; /* 0: no statement */
};

/*
 * Not written any more: older releases say by it that the unnamed statement is a PREPARE, EXECUTE
 * or DEALLOCATE, with another name on the server.
 */
struct sql_record {
	uint64_t kind; /* enum sql_kind */
	bool is_bound;
	char name[sizeof(((struct sql_statement *)0)->name)];
	uint64_t number;
};

#define SESSION_TEXT_MAX 200  /* bytes of a statement that are kept */
#define SESSION_HELD_MAX 1200 /* bytes of session->held: client/session/session_show.c */

/* A client's record ends with any number of these. */
struct name_record {
	struct bytes name;
	uint64_t number;
	/* as the client knows that statement */
	uint32_t columns;
	usec_t parsed_at;
};

extern const struct record_table client_record_table, unnamed_record_table, sql_record_table,
    name_record_table;

#endif
