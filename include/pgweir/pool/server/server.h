/* SPDX-License-Identifier: ISC */
/*
 * A server: one connection to PostgreSQL, from the connection attempt to its end. A pool owns the
 * server.
 *
 *   CONNECTING -> LOGIN -> IDLE <-> LENT -> RESETTING -> IDLE
 *                           | ^
 *                           v |
 *                  USED -> CHECKING
 *
 * While the server is lent, its borrower sends bytes by server_send(), and notes each request by
 * server_note() before that. The ledger classifies each reply, and the borrower gets the replies
 * that are for its client.
 *
 * A server that is closed while it runs a statement, for a reason of ours, has no borrower any
 * more, and its state is ENDING until the statement is cancelled: LENT -> ENDING -> CLOSING, or
 * -> RESETTING if it was cleaned.
 *
 * A dedicated server (replication) is launched for one borrower, lent to it after the login, and
 * closed when the borrower returns it: LOGIN -> LENT -> CLOSING.
 */
#ifndef PGWEIR_POOL_SERVER_SERVER_H
#define PGWEIR_POOL_SERVER_SERVER_H

#include <stdatomic.h>

#include "pgweir/auth/auth_client.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/net/dial.h"
#include "pgweir/pool/server/borrower.h"
#include "pgweir/pool/server/held.h"
#include "pgweir/pool/server/ledger.h"
#include "pgweir/pool/server/orders.h"
#include "pgweir/pool/server/question.h"
#include "pgweir/pool/server/replay.h"
#include "pgweir/pool/server/site.h"

struct config_times;

#define SERVER_KEY_MAX 260 /* bytes of a cancel key: process id and secret */

/* Values of sequences that currval() and lastval() may give there. */
enum server_values {
	SEQUENCES_FOREIGN, /* maybe of several borrowers, or of one at another time */
	SEQUENCES_NONE,    /* nobody has had the server since its login */
	SEQUENCES_OWN      /* only of its owner; without one, of the borrower of its pairing */
};

/* DISCARD SEQUENCES ahead of a borrower's message. */
enum server_discard {
	DISCARD_NONE,    /* none was sent, or it is answered */
	DISCARD_SENT,    /* it was or will be sent, and `state` is its result */
	DISCARD_NEEDED,  /* the same, and a statement behind it asks for values of sequences */
	DISCARD_IN_BATCH /* the same as SENT; if it is skipped, so is all up to the next Sync */
};

/* What is known of the scope in which statements are prepared. */
enum server_scope_state {
	SCOPE_KNOWN,
	SCOPE_REPORTED, /* the borrower may change it; known if all that was sent is answered */
	SCOPE_OPEN,     /* the borrower may have changed it since it was known */
	SCOPE_OPEN_USED /* the same; what is parsed behind the mark may be read in another way */
};

/* Who has said that nothing more comes. */
enum server_farewell {
	FAREWELL_NONE,
	FAREWELL_FATAL, /* the server, by a FATAL error */
	FAREWELL_OURS   /* we, in ENDING */
};

struct server_key {
	uint16_t size;
	unsigned char bytes[SERVER_KEY_MAX];
};

/* What a borrower wants to be asked about. */
enum server_watch {
	SERVER_WATCHES_NOTIFICATIONS = 1 << 0, /* takes_notification() */
	SERVER_WATCHES_READY = 1 << 1,         /* holds_ready(), on_tag() */
	SERVER_WATCHES_PARAMETERS = 1 << 2,    /* takes_parameter() */
	SERVER_WATCHES_CALLS = 1 << 3          /* on_call() */
};

TAILQ_HEAD(server_list, server);

struct server_question;
struct catalog_reading;

/* State that exists only until the server has logged in. */
struct server_login {
	struct dial dial;
	struct resolver_ask ask;
	struct server *server;
	/* until the host's first message, if there is another host to try */
	struct timer patience;
	bool is_test;             /* its address had failed: hosts_pick() */
	bool is_probe;            /* the host had failed: no borrower relies on this login */
	struct auth_client *auth; /* until AuthenticationOk */
	bool is_working;          /* a worker thread is deriving a key */
	bool has_spoken;          /* the first message has arrived */
	bool is_again;         /* it rejected a newer protocol version: second attempt, with 3.0 */
	uint32_t asked;        /* the protocol version that was requested */
	struct buf parameters; /* ParameterStatus so far: name\0value\0 */
	struct host_report report; /* the answer to the role question */
	bool is_role_short;        /* the short one is asked */
};

/* How far the cleaning is; back to NOT after any other reply. */
enum ending_cleaned {
	CLEANED_NOT,
	CLEANED_DISCARDED, /* DISCARD ALL is done */
	CLEANED_DONE,      /* and its ReadyForQuery has come, outside of a transaction */
	CLEANED_MARKED     /* the mark has come behind that */
};

#define ENDING_MARK_SIZE 32 /* digits */

struct server_ending {
	enum ending_how how;
	enum ending_cleaned cleaned;
	char mark[ENDING_MARK_SIZE + 1]; /* server_draw_mark() */
};

#define SQLSTATE_SIZE 6

/* The calls that are owed: server_frames.c. */
struct server_calls {
	usec_t ended_at;              /* when the last one was answered */
	uint64_t received;            /* bytes read from the server */
	uint64_t mark;                /* position of the first byte that counts */
	uint64_t rows;                /* of the first one so far */
	char sqlstate[SQLSTATE_SIZE]; /* its error; "": none */
};

/* What goes over the connection: what is owed, and what is half sent or half read. */
struct server_wire {
	struct stream stream;
	struct ledger ledger;
	char status;         /* of the last ReadyForQuery: 'I', 'T', 'E' */
	bool is_ready;       /* nothing was sent since the last ReadyForQuery */
	bool is_mid_request; /* only a part of the borrower's last frame was sent */
	/* reported so many parameters in this turn that reading waits for the next */
	bool has_flooded;
	/* the borrower has got the start of a frame, but not its end: the rest is forwarded */
	bool is_mid_response;
	uint32_t frame_left; /* bytes of the current frame that are still to come */
	enum server_farewell farewell;
	struct buf replacement; /* sent to the borrower instead of the current frame */
	struct server_calls calls;
	struct server_ending ending;
};

/* Parameters that the server has reported: server_params.c. */
struct server_reports {
	struct buf list;                /* during the borrower's work; not yet in its maps */
	unsigned int count;             /* of those that no borrower's work explains */
	const struct params *forgotten; /* its map after the last RESET; held, or NULL */
};

/* What is set and prepared in the session, and what borrowers may have left there. */
struct server_session {
	/* the parameters set there, without those at their default */
	const struct params *params;
	const struct params *before;     /* `params` before ORDER_REPLAY, while that runs */
	const struct params *baseline;   /* what it reported at its login: its defaults */
	const struct params *unreported; /* defaults by connect_query, not reported */
	bool has_defaults;               /* it was asked for them */
	struct server_reports reports;
	struct server_statements statements; /* the prepared statements it has */
	enum server_scope_state scope;
	unsigned int held;       /* enum held_kind; written by server_hold(), server_held_after() */
	unsigned int load_count; /* LOAD that succeeded and that the borrower has not settled */
};

/* Whose values of sequences are there: pool/pool_sequences.c. */
struct server_sequences {
	enum server_values state;
	enum server_discard discard;
	struct ledger_change change; /* of DISCARD SEQUENCES ahead of another message */
	uint64_t pairing;            /* with the borrower that got it last; 0: nobody has */
	struct borrower *owner;      /* whose `owned` it is; or NULL */
	usec_t used_at; /* when that one may have called nextval() last; 0: it is not known */
};

/* Who has it, for what, and since when. */
struct server_lease {
	struct borrower *borrower;
	struct borrower *expected_by; /* the only borrower it is being launched for; else NULL */
	struct replay replay;         /* what the borrower sent and may send again */
	struct ledger_change begin;   /* server_note_begin() */
	uint8_t watches;              /* enum server_watch, by its borrower */
	struct server_sequences sequences;
	unsigned int error_count;  /* of errors that borrowers have got */
	unsigned int cancel_count; /* cancels for it in progress */
	struct vacancy *vacancy;   /* its borrower's DROP DATABASE: pool/vacancy.c; mostly NULL */
	usec_t lent_at;            /* valid in LENT */
	usec_t request_at;         /* start of the current query; 0 = none */
	/* start of the current transaction; valid in LENT while a transaction runs */
	usec_t xact_at;
	const struct server_times *times; /* of the borrower, in LENT; NULL: as the site's */
	usec_t statement_limit;           /* of the current query; 0: as for others */
	struct server_run *runs;          /* where that counts, until it is answered */
	struct definition definition;
};

/* A standby, as its borrowers have found out. */
struct server_standby {
	uint64_t replayed; /* of the WAL; 0: not known */
	uint64_t started;  /* when PostgreSQL was started; 0: not known */
	usec_t at;         /* when that was found out */
};

/* Where it is: at a host, in lists, and among the loops. */
struct server_place {
	TAILQ_ENTRY(server) node;             /* in the pool's list of this state */
	TAILQ_ENTRY(server) idle_nodes[CAPS]; /* in IDLE and USED: in the lists of its caps */
	unsigned int idle_count;              /* in so many of them, from the first */
	struct permit permit;
	struct cap_host *cap_host;           /* where it counts; NULL: nowhere yet */
	TAILQ_ENTRY(server) all_node;        /* in pools->servers, in order of ids */
	unsigned int host;                   /* number of its host in the pool's list */
	struct hosts_place counted;          /* where it is counted */
	struct resolver_watch address_watch; /* watches its address, if a name was looked up */
	struct address peer;                 /* the address it is connected to */
	char path[108];                      /* and its path, for a Unix socket */
	uint64_t *read_count; /* of its host: database_count_read(). NULL: not looked up yet */
	struct server_standby standby;
	usec_t arrived_at;     /* when it came from another loop; 0: it was opened in this one */
	bool is_written;       /* to the hand-over: pool/handover.h */
	bool is_login_counted; /* in tally->login_count */
};

struct server {
	struct server_wire wire;
	struct server_orders orders;
	struct server_session session;
	struct server_lease lease; /* by the pool */
	struct server_place place; /* by the pool */
	struct logger log;
	struct server_site *site;
	struct pool *pool; /* the owner, which implements site->ops */
	uint64_t id;
	enum server_state state;
	enum replication replication;    /* NONE: not dedicated */
	bool is_listening;               /* a listening connection: pool/listening.h */
	struct catalog_reading *catalog; /* during ORDER_CATALOG */
	/* why it is to be closed when it is returned, or in ENDING; NONE: it is not */
	enum close_reason close_reason;
	struct server_login *login; /* until it has logged in, then NULL */
	struct timer timer;         /* the limit of its state */
	struct timer life;          /* server_lifetime */
	struct timer xact;          /* transaction_timeout; in ENDING: the next cancel */
	struct task free_task;
	usec_t connected_at; /* when the connection attempt started */
	usec_t used_at;      /* last ready in full, returned, or logged in */
	bool is_tls_direct;  /* TLS started without SSLRequest; valid while encrypted */
	struct server_key key;
};

/* Notes a borrower's request that is about to be sent. To be called in the order of sending. */
bool server_note(struct server *server, enum ledger_kind kind);

/* The same for a request that we add or replace: see ledger_add_change(). */
bool server_note_change(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                        struct ledger_change *change);

/* How the execution of a request, which its borrower measures, has ended. */
struct server_call_end {
	usec_t now;
	usec_t running;       /* since it was sent, or since the call before it was answered */
	uint64_t rows;        /* from the tags */
	uint64_t bytes;       /* of the replies that the borrower got */
	const char *sqlstate; /* NULL: it has succeeded */
};

/*
 * Makes a call of the last request noted, of this kind: on_call() comes with the last reply to it,
 * unless the server skips it. Returns where to describe it, before anything else is done with the
 * server. NULL: the request was not noted, or no memory.
 */
struct ledger_call *server_note_call(struct server *server, enum ledger_kind kind);

/* The change of a LEDGER_REFUSED_PARSE or _QUERY: the client gets this error. NULL: no memory. */
struct ledger_change *server_refusal(const struct err *err);

/*
 * Our name of a statement in place of the client's: where. Errors count characters from 1, and get
 * positions in the client's text, or none if they may be positions in the text of the prepared
 * statement.
 */
struct server_renaming {
	bool is_known;   /* false: the characters cannot be counted, so errors get no position */
	uint32_t before; /* characters before the name */
	uint32_t ours;   /* characters of our name, with its quotes */
	uint32_t theirs; /* characters of the name in the client's text */
};

/* The change of a LEDGER_TYPES: gets what a statement is told to be. settle() frees it. */
struct description {
	struct ledger_change base;
	/* Called with the types in the format of Parse: a count and that many. false: no memory. */
	bool (*on_types)(struct description *description, struct bytes types);
	/* Called with the digest of the result columns, see fields_columns(). NULL: not needed. */
	void (*on_columns)(struct description *description, uint32_t columns);
};

/* Where statements are prepared now, valid until parameters change. false: no memory. */
bool server_scope(struct server *server, struct bytes *scope);

/* About to change the scope: what is parsed until server_close_scope() is for this borrower. */
static inline void server_open_scope(struct server *server)
{
	if (server->session.scope < SCOPE_OPEN)
		server->session.scope = SCOPE_OPEN;
}

/* The same, but the server reports each change, and until then only what is sent is repeated. */
static inline void server_watch_scope(struct server *server)
{
	if (server->session.scope == SCOPE_KNOWN)
		server->session.scope = SCOPE_REPORTED;
}

void server_settle_scope(struct server *server);

static inline void server_close_scope(struct server *server)
{
	if (server->session.scope != SCOPE_KNOWN)
		server_settle_scope(server);
}

/* false: broken, on_lost() comes. If bytes stay unsent (server_can_take()): on_writable(). */
bool server_send(struct server *server, struct bytes bytes);

/* The same for several pieces, sent in order. Without pieces: what is to go ahead of them. */
bool server_sendv(struct server *server, const struct iovec *pieces, int count);

/* Sends the generated replies (LEDGER_CLOSE_HERE) that are due. false: no more are accepted. */
bool server_answer(struct server *server);

/* How far it is from rest, in which it can be lent again: each value includes all lower ones. */
enum server_rest {
	REST_WORKING,        /* a request or an internal query is not answered in full */
	REST_IN_TRANSACTION, /* all requests are answered; a transaction is open */
	REST_UNSENT,         /* between two transactions; some bytes are still unsent */
	/* the borrower has got only a part of a frame that answers no request */
	REST_MID_RESPONSE,
	REST_FULL /* between two transactions; nothing is half sent or half read */
};

static inline bool server_got_fatal(const struct server *server)
{
	return server->wire.farewell == FAREWELL_FATAL;
}

static inline enum server_rest server_rest(const struct server *server)
{
	if (!server->wire.is_ready || server->orders.running != ORDER_NONE)
		return REST_WORKING;
	if (server->wire.status != 'I')
		return REST_IN_TRANSACTION;
	if (stream_unsent(&server->wire.stream))
		return REST_UNSENT;
	return server->wire.is_mid_response ? REST_MID_RESPONSE : REST_FULL;
}

/* Whether what is sent next is executed, and begins a transaction. */
static inline bool server_is_between(const struct server *server)
{
	return server->wire.status == 'I' && ledger_is_at_rest(&server->wire.ledger);
}

/* PostgreSQL refuses all but the end of the block, and nothing sent since may have been that. */
static inline bool server_is_in_failed_block(const struct server *server)
{
	return server->wire.status == 'E' && ledger_knows_status(&server->wire.ledger) &&
	       !server->wire.ledger.has_executed;
}

/* Whether the server serves one borrower only, and is closed when that leaves. */
static inline bool server_is_dedicated(const struct server *server)
{
	return server->replication != REPLICATION_NONE || server->is_listening;
}

/* Whether all that the borrower's transaction has run is its opening, which is kept (replay.h). */
static inline bool server_has_only_begun(const struct server *server)
{
	const struct replay *replay = &server->lease.replay;

	return replay->opening_count && !replay->count && server->wire.status == 'T' &&
	       server_rest(server) == REST_IN_TRANSACTION && !server->wire.is_mid_request &&
	       !server->wire.is_mid_response && !stream_unsent(&server->wire.stream);
}

/* Whether the server is between two transactions, from PostgreSQL's point of view. */
static inline bool server_is_between_transactions(const struct server *server)
{
	return server_rest(server) > REST_IN_TRANSACTION;
}

/* Nothing but socket and known state: another process could go on, in a transaction too. */
bool server_has_nothing_pending(const struct server *server);

/*
 * Notes the Execute of a borrower's BEGIN that was answered before it was sent. When it is done,
 * the server is in a transaction, which no ReadyForQuery reports. false: no memory.
 */
bool server_note_begin(struct server *server);

/* Its session may hold these (enum held_kind). With HELD_LASTING it is closed when returned. */
void server_hold(struct server *server, unsigned int kinds);

static inline bool server_holds(const struct server *server, unsigned int kinds)
{
	return server->session.held & kinds;
}

static inline void server_held_after(struct server *server, enum held_event event)
{
	if (server->session.held)
		server->session.held = held_after(server->session.held, event);
}

/* It may hold what nobody knows of. is_of_others: even its last borrower gets it cleaned. */
void server_distrust(struct server *server, bool is_of_others);

/* Adds SET or SET LOCAL for this value. It takes no snapshot, unless that is an empty list. */
void server_set_text(const char *name, const char *value, bool is_local, struct buf *text);

/* The session has this value, without doubt. false: no memory, or too many. */
bool server_take_set(struct server *server, const char *name, const char *value);

/* The value of a parameter in a map, or else the server's default. NULL: neither is known. */
const char *server_value(const struct server *server, const struct params *params,
                         const char *name);

/* To be closed when it is returned; the first reason counts. CLOSE_NONE: no more. */
void server_need_close(struct server *server, enum close_reason reason);

/*
 * The answer to a question about parameters: the server's map becomes exact. What the borrower's
 * client has given at its startup and has set back is marked as unknown, and is_startup_unset is
 * set, since the client must get its startup's value again. `back` lists those of which a text says
 * that it has set them back: a custom parameter is "" then, not unset. `before`: the
 * borrower's map before the transaction; what it had as the server has it by default was not set on
 * this server, and is not taken for set back. NULL: all was set on this server.
 *
 * false: what is set does not fit into a map. The map is without that: the server must stay with
 * its borrower, and be closed when that leaves.
 */
bool server_take_facts(struct server *server, const struct facts *facts,
                       const struct params *startup, const struct params *before,
                       const struct params *back);

/* A LOAD has succeeded: it becomes part of the map. false: it does not fit. */
bool server_add_library(struct server *server, const char *name);

static inline void server_watch(struct server *server, enum server_watch watch)
{
	server->lease.watches |= (uint8_t)watch;
}

static inline void server_unwatch(struct server *server, enum server_watch watch)
{
	server->lease.watches &= (uint8_t)~watch;
}

/* Bytes of texts that are kept until it is certain that what they define matters to nobody. */
#define DEFINITIONS_MAX ((size_t)16 * 1024)

/*
 * A text is about to be sent that may define something, or commit anything that was defined.
 * is_shown: it shows what it defines. defines: others see that as soon as it is committed.
 */
void server_note_definition(struct server *server, struct bytes text, bool is_shown, bool defines);

/* The state becomes at least this one. */
static inline void server_defines(struct server *server, enum definition_state state)
{
	if (server->lease.definition.state < state)
		server->lease.definition.state = state;
}

static inline bool server_defines_anything(const struct server *server)
{
	return server->lease.definition.state == DEFINITION_ANYTHING;
}

/* Whether a text that is sent now may find definitions that nobody has judged. */
static inline bool server_may_have_defined(const struct server *server)
{
	return server_defines_anything(server) ||
	       (server->lease.definition.state == DEFINITION_RELATION &&
	        !ledger_is_empty(&server->wire.ledger));
}

/* What is sent now asks for values of sequences: a DISCARD SEQUENCES before it must succeed. */
static inline void server_rely_on_discard(struct server *server)
{
	if (server->lease.sequences.discard == DISCARD_SENT)
		server->lease.sequences.discard = DISCARD_NEEDED;
}

/* The borrower has handled all LOADs. */
static inline void server_settle_loads(struct server *server)
{
	server->session.load_count = 0;
	server_held_after(server, HELD_LOADED);
}

/* Whether the borrower must look for parameters of its startup. */
static inline bool server_has_reset(const struct server *server)
{
	return server_holds(server, HELD_REST | HELD_STARTUP);
}

/* Whether what former borrowers may have left is being removed. */
static inline bool server_is_cleaning(const struct server *server)
{
	return server->orders.running == ORDER_REPLAY && server_holds(server, HELD_FOREIGN);
}

/* Whether it was closed: it has no borrower and gets none, and nothing that it sends matters. */
static inline bool server_is_over(const struct server *server)
{
	return server->state >= SERVER_ENDING;
}

static inline bool server_can_take(const struct server *server)
{
	return stream_unsent(&server->wire.stream) == 0 && !ledger_is_full(&server->wire.ledger);
}

/* The borrower can accept bytes again, after on_bytes() returned false. */
void server_read_on(struct server *server);

/* Where a statement counts while it is executed. */
struct server_run {
	struct server_run *next;
	atomic_uint *running; /* of all loops */
};

/* Counts in *running until answered or ended. false: there are `most`, or no memory. */
bool server_begin_run(struct server *server, atomic_uint *running, unsigned int most);
void server_end_runs(struct server *server);

/* Time limits have changed: running timers get the new ones, from their old start. */
void server_rearm(struct server *server);

struct server_times server_times_of(struct loop *loop, const struct config_times *times);

/* Of the current query, since the server works for it. 0: that of others. */
void server_limit_statement(struct server *server, usec_t limit);

/* A borrower's batch begins: starts the timers of query_timeout and transaction_timeout. */
void server_begin_query(struct server *server, usec_t query_since, usec_t xact_since);

/*
 * Closes a server, with Terminate if it is logged in. Logs the error, and passes it to on_lost() of
 * the borrower, if there is one, from the loop. A statement that runs there is cancelled first
 * (on_ending()), if the reason is one of ours and not of the server or its host.
 */
void server_close(struct server *server, const struct err *err);

/* The same for a close reason of the table: with the reason's code, or with another one. */
void server_close_for(struct server *server, enum close_reason reason);
void server_close_as(struct server *server, enum err_code code, enum close_reason reason);

/* The same for a text that has no row of its own: it counts under its code. */
void server_close_with(struct server *server, enum err_code code, const char *text);

/* Reading has stopped between two messages, nothing unsent. Encrypted ones count, too. */
bool server_is_quiescent(const struct server *server);

/* The id of the PostgreSQL process behind it. 0: not known, or NULL. */
int64_t server_backend_pid(const struct server *server);

/* For the log and SHOW. */
const char *server_state_name(const struct server *server); /* as SHOW SERVERS has it */

#endif
