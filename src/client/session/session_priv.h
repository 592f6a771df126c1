/* SPDX-License-Identifier: ISC */
/*
 * Session state of a client in transaction mode: what outlives its transactions.
 *
 *   a text may touch session state       --> session_use(): noted in client->touched, or refused
 *   the transaction has ended            --> session_ask(): the server is asked what there is now
 *   the answer                           --> session_facts(): carried, or the server stays
 *
 * Parameters, libraries and channels follow the client to its next server. With held cursors,
 * temporary objects and session locks the server stays with the client: the client is pinned. A
 * text says only what it may touch; PostgreSQL says what is there.
 *
 * A text touches session state if one of its statements may change it. A placeholder is a parameter
 * with a dot in its name that no extension defines. A mark is a notification of ours that separates
 * those of two connections. A statement is exposed while a server has it under the client's own
 * name.
 */
#ifndef PGWEIR_CLIENT_SESSION_SESSION_PRIV_H
#define PGWEIR_CLIENT_SESSION_SESSION_PRIV_H

#include <string.h>
#include <strings.h>

#include "../client_priv.h"

#include "pgweir/client/handover.h"
#include "pgweir/client/session.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/sql_block.h"
#include "pgweir/pgwire/sql_names.h"
#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/pool_catalog.h"
#include "pgweir/pool/server/question.h"
#include "pgweir/pool/server/server.h"


/*
 * ---- client->touched ----
 *
 * Its bits beside those of enum sql_touch.
 */

/* The ReadyForQuery that ends the transaction is withheld: listening.c. */
#define LISTENING_HOLDS ((uint32_t)1 << 22)
/*
 * The Execute of a statement that sets parameters back has not come; it was sent, and the next
 * message comes behind it: resets.c.
 */
#define RESETS_WAIT ((uint32_t)1 << 24)
#define RESETS_DUE ((uint32_t)1 << 25)
/* It is not the text that shows what a statement touches, but the catalog, or a sample. */
#define SESSION_TOUCH_NAMED ((uint32_t)1 << 26)
/* The server has the client's statements under its names: names.c. */
#define SESSION_TOUCH_EXPOSED ((uint32_t)1 << 27)
/* The catalog was not read yet: the server is asked for everything, to be on the safe side. */
#define SESSION_TOUCH_EARLY ((uint32_t)POOL_TOUCH_EARLY)
/* The running transaction is a sample: session_begin_sample(). */
#define SESSION_TOUCH_SAMPLE ((uint32_t)1 << 29)

/* Something must run between the last text and the next frame. */
#define RESETS_FOLLOWED (RESETS_WAIT | RESETS_DUE)

/* 22 to 29, but 23, each once, and none of them of enum sql_touch. */
_Static_assert((uint64_t)LISTENING_HOLDS + RESETS_WAIT + RESETS_DUE + SESSION_TOUCH_NAMED +
                       SESSION_TOUCH_EXPOSED + SESSION_TOUCH_EARLY + SESSION_TOUCH_SAMPLE ==
                   UINT64_C(0x3f400000),
               "a bit has two meanings");
_Static_assert(SQL_TOUCH_SCOPE < LISTENING_HOLDS && SQL_TOUCH_REPORTED == 1 << 23,
               "a bit has two meanings");

/* Why a server stays with its client. */
enum session_pin {
	SESSION_PIN_CURSOR = 1 << 0,    /* a cursor WITH HOLD is open */
	SESSION_PIN_TEMP = 1 << 1,      /* temporary tables or other objects exist */
	SESSION_PIN_LOCK = 1 << 2,      /* session advisory locks are held */
	SESSION_PIN_EXTENSION = 1 << 3, /* a function of an extension keeps something there */
	SESSION_PIN_PARAMS = 1 << 4,    /* parameters that are too many or too long to carry */
	SESSION_PIN_LIBRARY = 1 << 5,   /* libraries of which not all names are known */
	SESSION_PIN_STATEMENT = 1 << 6, /* SQL's PREPARE made statements that are not followed */
	/* it may ask for a value of a sequence next: for a moment only, not counted */
	SESSION_PIN_SEQUENCE = 1 << 7,
	SESSION_PIN_LISTEN = 1 << 8 /* it listens to a channel that no text of the client names */
};

/* How the wait for a place of max_pinned_servers has ended: session_use.c. */
enum session_place {
	PLACE_OPEN, /* it has not, or there is one */
	PLACE_TIMED_OUT,
	PLACE_CANCELED
};

/* A SET that no other statement of its transaction has followed which touches session state. */
struct session_set {
	struct sql_set set;
	unsigned int errors; /* error_count of the server before it */
};

/* What few clients have. */
struct session {
	unsigned int pins;        /* SESSION_PIN_ bits; 0: the server is returned */
	unsigned int pinning;     /* pins that the running transaction makes for certain */
	bool was_discarded;       /* DISCARD ALL has run in this transaction */
	enum session_place place; /* of the statement that has waited and is judged again */
	usec_t pinned_at;
	struct client *client;
	struct timer told;       /* log_pin_duration */
	bool was_told;           /* the log has a line about this stay */
	char *text;              /* beginning of the statement that made the server stay; or NULL */
	struct buf held;         /* what keeps the server, with names: session_show.c */
	struct session_set *set; /* a lone SET of this transaction; or NULL */
	struct sql_names names;  /* placeholders that may be set; parameters: of the next Bind */
	struct buf libraries;    /* that may have been loaded: name\0name\0 */
	unsigned int library_count;
	struct session_resets *resets; /* parameters set back: resets.c; or NULL */
};

/* Whether clients of this pool are followed, or refused what cannot be. */
static inline bool session_is_watched(const struct client *client)
{
	return client_rules(client)->session_state != SESSION_STATE_OFF && !client->replication;
}

static inline bool session_is_followed(const struct client *client)
{
	return client_rules(client)->session_state == SESSION_STATE_FOLLOW && !client->replication;
}

/* Whether texts of a client in session mode are scanned: session_use.c. */
static inline bool session_is_in_session_mode(const struct client *client)
{
	return client_rules(client)->mode == POOL_MODE_SESSION && !client->replication;
}

/*
 * Whether the client keeps its server until it disconnects. After a change of pool_mode, a
 * transaction that listens or notifies is settled first, as it was begun.
 */
static inline bool session_keeps_server(const struct client *client)
{
	return client->replication || (client_rules(client)->mode == POOL_MODE_SESSION &&
	                               !(client->touched & LISTENING_HOLDS));
}

/* ---- before a text runs: session_use.c ---- */

/* Whether it has to wait, before its client gets a server, for a place. */
bool session_awaits_place(const struct client *client, unsigned int touches, struct bytes text);

/* The error of one that has waited for too long. */
void session_refuse_place(const struct client *client, unsigned int touches, struct bytes text,
                          struct err *err);

/* Whether something must be looked for that texts do not show, as in a DO block. */
static inline bool session_looks_for_names(const struct client *client)
{
	return (client->touched & SESSION_TOUCH_SAMPLE) ||
	       pool_has_names(client->borrower.pool, client->borrower.server);
}

/* Adds what names in the text touch: those of the catalog, and of the settings. */
unsigned int session_add_names(const struct client *client, unsigned int touches,
                               struct bytes text);

/* The same for a FunctionCall. `in`: its received bytes. */
unsigned int session_call_touches(const struct frame *frame, struct bytes in);

/*
 * What a Query, Parse or FunctionCall may touch. `in`: its received bytes; *text: its text, as far
 * as it has been received.
 */
static inline unsigned int session_touches(const struct client *client, const struct frame *frame,
                                           struct bytes in, struct bytes *text)
{
	unsigned int touches;
	const char *name;

	*text = bytes_of("", 0);
	if (frame->type == 'F')
		return session_call_touches(frame, in);
	if (in.count < frame->length)
		return SQL_TOUCH_HIDDEN | SQL_TOUCH_RELEASE; /* nobody knows what follows */
	if (!fields_sql(frame, in, &name, text))
		return 0;
	touches = sql_touch(*text);
	return session_looks_for_names(client) ? session_add_names(client, touches, *text)
	                                       : touches;
}

/* Whether a transaction is a sample, one of so many. 0: none is. */
static inline bool session_is_sample(struct client *client, unsigned int every)
{
	struct pool *pool = client->borrower.pool;

	if (every == 0 || ++pool->sample_count < every)
		return false;
	pool->sample_count = 0;
	return true;
}

/* The client has its server for a new transaction: decides whether that is a sample. */
static inline void session_begin_sample(struct client *client)
{
	if (session_is_sample(client, client_rules(client)->session_sample))
		client->touched |= SESSION_TOUCH_SAMPLE;
}

/* The same as session_touches() for a prepared statement that is about to be executed. */
static inline unsigned int session_statement_touches(const struct client *client,
                                                     const struct statement *statement)
{
	bool looks = session_looks_for_names(client);

	/* Most touch nothing. Then not even the size of the text is wanted. */
	if (!(statement->touches || looks) || !session_is_watched(client))
		return 0;
	return looks ? session_add_names(client, statement->touches, statement_query(statement))
	             : statement->touches;
}

/*
 * What matters of it when the statement runs. That a statement writes does so only if its triggers
 * may notify a client that listens, and where there are sequences.
 */
static inline unsigned int session_relevant(const struct client *client, unsigned int touches)
{
	return touches == SQL_TOUCH_WRITE && !client->listening && !client->asks_sequences &&
	               pool_sequences(&client->borrower) == CATALOG_SEQUENCES_NONE
	           ? 0
	           : touches;
}

/*
 * A statement of this text is about to be sent, which may touch these. is_run: it is executed, not
 * only parsed. What must run before it is added to the batch. false: it must be refused with *err.
 */
bool session_use(struct client *client, unsigned int touches, struct bytes text, bool is_run,
                 struct batch *batch, struct err *err);

/* What touches these is going to run: it may change how statements are read. */
void session_change_scope(struct server *server, unsigned int touches);

/* A Bind: notes values that may be names. `in`: its received bytes. */
void session_bind(struct client *client, const struct frame *frame, struct bytes in);

/* Notes a name, if it is one that can be asked for. */
void session_add_placeholder(struct session *session, struct bytes name);

/* A statement is executed whose text is not known. */
void session_run_unknown(struct client *client);

/*
 * The same by an EXECUTE with this text, whose arguments may be names. statement: what it executes,
 * after session_use(); NULL: it is not known.
 */
void session_use_execute(struct client *client, struct statement *statement, struct bytes text);

/* The client's encoding; NULL: not known. */
static inline const char *session_encoding(const struct client *client)
{
	const char *encoding = params_find(client->params, "client_encoding");

	return encoding ? encoding
	                : params_find(client->borrower.server->session.baseline, "client_encoding");
}

/* Whether a text may have several statements: the first may end a block that has failed. */
static inline bool session_may_be_several(struct bytes text)
{
	return text.count && memchr(text.at, ';', text.count - 1);
}

/* Whether it has characters with a byte that looks like a quote or a backslash. */
bool session_encoding_is_unclear(const struct client *client);

/*
 * The text of a Query that is the first statement of a transaction, after session_use(): its effect
 * may be known from the text alone.
 */
void session_note_alone(struct client *client, struct bytes text);

/* All named statements were deallocated: by DEALLOCATE ALL, or by DISCARD ALL. */
void session_deallocated(struct client *client);

/* ---- when the transaction has ended: session_state.c ---- */

/*
 * The client's transaction, which touched session state, has ended, and its server is at rest.
 * Asks the server what there is now: on_answer() of the borrower comes. false: no need to ask;
 * session_stays() has the answer.
 */
bool session_ask(struct client *client);

/*
 * Whether the server is or would be asked only because nothing is known of the catalog. If it is
 * lost then, the client has lost nothing, and goes on.
 */
bool session_needs_no_server(const struct client *client);

/* session_ask() has read the catalog first: asks now. */
void session_go_on(struct client *client);

/* The server's answer. server_has_reset(): the client must get startup values again. */
void session_facts(struct client *client, const struct facts *facts);

/* Whether the server stays with the client: it is pinned, or may ask for values of sequences. */
static inline bool session_stays(const struct client *client)
{
	return client->session && client->session->pins;
}

static inline bool session_is_pinned(const struct client *client)
{
	return client->session && client->session->pins & ~(unsigned int)SESSION_PIN_SEQUENCE;
}

/* Whether its own server listens for it. */
static inline bool session_listens(const struct client *client)
{
	return client->session && (client->session->pins & SESSION_PIN_LISTEN);
}

/*
 * The client is idle between two transactions with a server that stays: starts pin_idle_timeout.
 * session_idle_end(): it sends a message.
 */
void session_idle_begin(struct client *client);
void session_idle_end(struct client *client, const struct frame *frame, struct bytes in);

/* The limits have changed: of the time it may be idle, and of the time until the log has a line. */
void session_rearm(struct client *client);

/* Allocates client->session unless it exists. NULL: no memory. */
struct session *session_get(struct client *client);

/* ---- what keeps the server: session_show.c ---- */

/* Notes what the server has answered of it. */
void held_take(struct session *session, const struct facts *facts);

/* ---- hand-over ---- */

/* Whether the client has session state that a process must know which takes it over. */
bool session_has_record(const struct client *client);

/* Fills its part of the client's record. */
void session_write(const struct client *client, struct client_record *values);

/* Makes the session from the record; the client has its server. false: no memory. */
bool session_read(struct client *client, const struct client_record *values);

/* The client is closed or has returned its server. */
void session_free(struct client *client);

/*
 * In session mode, a Query, Parse or FunctionCall: notes in client->touched whether it resets
 * parameters, and closes the server at the client's end if need be. `in`: its received bytes.
 * false: no memory.
 */
bool session_mode_note(struct client *client, const struct frame *frame, struct bytes in);

/* ---- session_show.c: the kinds of session state (client/session.h) ---- */

/* Which parts of the question concern what was touched, or one of these pins. */
unsigned int features_parts(unsigned int touches, unsigned int pins);

/* The pins that the server's answer shows; and those before of which it says nothing. */
unsigned int features_pins(unsigned int before, const struct facts *facts);

/*
 * With route_reads: words for what PostgreSQL refuses to a client whose transaction runs on a
 * standby. explains_refusal() of the borrower.
 */
const char *standby_explains(struct borrower *borrower, struct buf *detail);

/* ---- session_state.c: values of sequences ---- */

#define SEQUENCES_CONCERN \
	(SQL_TOUCH_SEQUENCE | SQL_TOUCH_WRITE | SQL_TOUCH_HIDDEN | SQL_TOUCH_FORGET)

/*
 * A statement that touches one of these is about to be executed. What must run before it is added
 * to the batch. false: no memory.
 */
bool sequences_use(struct client *client, unsigned int touches, struct bytes text,
                   struct batch *batch);

/* Such a statement has to wait for the replies that are owed (LEDGER_WAIT_READY). */
bool sequences_must_wait(const struct client *client, unsigned int touches);

/*
 * ---- resets.c ----
 *
 * Parameters of a client's startup packet that its statements set back.
 *
 * PostgreSQL sets a parameter back to the server's own value, as it does not know the client's. So
 * within a transaction block the client's value is set behind that statement, before the client's
 * next one. After a transaction the server is asked, and gets the client's values again. And the
 * client gets no ParameterStatus with the server's value, which it does not have.
 */

/*
 * A text that may set parameters back (SQL_TOUCH_DEFAULT) is about to be sent, by a Query or by
 * other messages. false: there is no memory; or, with may_refuse, statements in the same text would
 * run with the server's values.
 */
bool resets_use(struct client *client, struct bytes text, bool is_query, bool may_refuse,
                struct err *err);

/* An Execute is sent. */
static inline void resets_execute(struct client *client)
{
	if (client->touched & RESETS_WAIT)
		client->touched ^= RESETS_WAIT | RESETS_DUE;
}

/* Adds what must run between such a text and the next frame, which has this type. */
enum judgement resets_follow(struct client *client, char type, struct batch *batch);

/* A ParameterStatus. false: it is forwarded. */
bool resets_take_report(struct borrower *borrower, const char *name);

/* A ReadyForQuery comes: adds a ParameterStatus for each one of which the client knows less. */
void resets_tell(struct borrower *borrower, struct buf *ahead);

/*
 * Which parameters of the startup packet the texts of the transaction have set back. A custom
 * parameter is "" then, as if the client had set that.
 */
const struct params *resets_back(const struct client *client);

/* The client's map before the transaction; NULL: a text was not read, and may have set any back. */
const struct params *resets_before(const struct client *client);

/*
 * The server's parameters are known: corrects what the client was told. before: the server's map
 * before they were asked for, with the reports that were forwarded.
 */
void resets_settle(struct client *client, const struct params *before);

void resets_free(struct client *client);

/* ---- listening.c: LISTEN, UNLISTEN and NOTIFY ---- */

/* How many channels a client may have there. With more, its server stays. */
#define LISTENING_CHANNELS_MAX 10000

/* How many bytes of notifications may wait for a client, with their share of memory. */
#define LISTENING_UNREAD_MAX ((size_t)8 * 1024 * 1024)

/*
 * A message is about to be sent whose statement is executed and may touch these (enum sql_touch).
 * text: "" if it is not known. To be called again after JUDGE_WAIT.
 */
enum judgement listening_before(struct client *client, unsigned int touches, struct bytes text,
                                struct batch *batch);

/* Another message, while listening_is_followed(): waits for ReadyForQuery if it may be withheld. */
enum judgement listening_follow(struct client *client, struct batch *batch);

/* The message was sent, or is not to be sent. */
void listening_sent(struct client *client);

/* Whether the client has channels, or is getting some. */
bool listening_has_any(const struct client *client);

/*
 * A notification of the lent server. false: forward it. true: it is not forwarded; what was added
 * to `instead` is.
 */
bool listening_takes(struct borrower *borrower, struct bytes frame, struct buf *instead);

/* A statement of the lent server is done. */
void listening_see_tag(struct borrower *borrower, struct bytes tag);

/* Whether the ReadyForQuery of the lent server is not forwarded: listening_release() sends it. */
bool listening_holds(struct borrower *borrower);

/*
 * The transaction is settled but for notifications, and its server is at rest. true: the client
 * waits for the listening connection in CLIENT_SETTLING.
 */
bool listening_waits(struct client *client);

/* Sends the notifications that wait, and a ReadyForQuery that was withheld. false: closed. */
bool listening_release(struct client *client);

/* Whether the lent server listens to a channel that no text of the client has named. */
bool listening_is_hidden(const struct client *client, const struct facts *facts);

/*
 * The lent server has answered the question about channels. true: done. false: the client stays in
 * CLIENT_SETTLING; on_settled() comes.
 */
bool listening_settle(struct client *client, const struct facts *facts);

/* The order of listening_settle() is over. */
void listening_order_done(struct client *client);

/* Sends the notifications that wait, if the client is between two transactions. */
void listening_deliver(struct client *client);

/* The connection that it listens with. NULL: none. */
const struct listener *listening_listener(const struct client *client);

/* Whether channels and notifications that wait are all that there is to be handed over. */
bool listening_is_at_rest(const struct client *client);

/* Fills that part of the client's record, if it listens; it borrows the channels from a buffer. */
void listening_write_channels(const struct client *client, struct client_record *values,
                              struct buf *channels);

/* Makes it from the record. CLOSE_NONE: done. */
enum close_reason listening_read(struct client *client, const struct client_record *values);

void listening_free(struct client *client);

static inline bool listening_is_followed(const struct client *client)
{
	return client->touched & LISTENING_HOLDS;
}

/* ---- session_use.c: waiting for a place of max_pinned_servers, with a server ---- */

/*
 * As listening_before(), for a statement that is about to run: first, it may have to wait before it
 * asks for values of sequences, or for a place. Then batch->waits_for is LEDGER_WAIT_PLACE.
 */
enum judgement place_before(struct client *client, unsigned int touches, struct bytes text,
                            struct batch *batch);

/* The client waits for it: its statement is judged again, with a place or without. */
void place_await(struct client *client);

/* on_place() of the borrower. */
void place_given(struct borrower *borrower);

/* A cancel request ends the wait. false: the client does not wait. */
bool place_cancel(struct client *client);

/* As session_rearm(), and for the limit of the wait. */
void place_rearm(struct client *client);

#endif
