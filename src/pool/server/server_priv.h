/* SPDX-License-Identifier: ISC */
/*
 * Servers, internal to the module. The files form layers; a file calls only layers below its own:
 *
 *   server_login  server_frames              from the connection to the end: reading
 *   server_errors  server_ending             the meaning of messages
 *   server_host  orders  server_params
 *   server                                   states, limits, sending, closing
 *   ledger  hosts  params  statements ...    the parts of a server
 */
#ifndef PGWEIR_POOL_SERVER_SERVER_PRIV_H
#define PGWEIR_POOL_SERVER_SERVER_PRIV_H

#include <strings.h>

#include "pgweir/net/stream.h"
#include "pgweir/net/tls.h"
#include "pgweir/pgwire/frame.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pool/server/server.h"
#include "pgweir/pool/server/params.h"

/* A question that a server has been asked: ORDER_ASK. */
struct server_question {
	struct facts facts; /* the answer so far */
	struct buf names;   /* as question_text() wants them */
	struct question_wait wait;
	unsigned int try_count;
	bool was_canceled; /* the last try, by a cancel or by statement_timeout */
	bool lacks_rights; /* the same, of 42501 */
	bool is_apart;     /* as in struct order */
};

/* What to do with a frame. */
enum frame_fate {
	FRAME_PASS,    /* forward it to the borrower */
	FRAME_READY,   /* the same, then call on_ready() */
	FRAME_DROP,    /* drop it: the reply was for us */
	FRAME_SETTLED, /* the same for a ReadyForQuery; the server may owe nothing else now */
	FRAME_REPLACE, /* drop it, and send the borrower our own error */
	FRAME_STAY,    /* cannot be handled now: it stays in the input buffer, and reading stops */
	FRAME_STOP     /* the server is closing: drop all input */
};

/* The only function that changes server->state. */
void server_enter(struct server *server, enum server_state next);

void server_init(struct server *server, struct server_site *site, struct pool *pool, uint64_t id);

/* Starts to connect. false: the server was closed, and on_login_failed() was called. */
bool server_launch(struct server *server);

/* After a take-over, to what the other process had noted. false: no such host. */
bool server_find_again(struct server *server, const char *host);

/* Closes the socket, sends nothing; freed at the end of the turn. It has no borrower. server.c */
void server_forget(struct server *server);

/* What its transaction has defined was committed or rolled back, or nobody will know. */
void server_end_definition(struct server *server);

/* Sends Terminate, if nothing is in the way. server.c */
void server_say_goodbye(struct server *server);

/* Frees what belongs to the work of borrowers, and to the login. server.c */
void server_release_work(struct server *server);

/* The session is as after the login. server.c */
void server_renew_session(struct server *server);

/* ---- what runs for nobody: server_ending.c ---- */

/* Draws a text that nobody can foresee. A row with it shows that all before that was answered. */
bool server_draw_mark(struct server *server);
bool server_is_mark(const struct server *server, struct bytes row);

/* How a server that is being closed for this reason ends: how_it_ends(). */
enum ending_how server_ending(const struct server *server, enum close_reason reason);

/* on_ending(). true: cancel the statement. false: server_canceled() or _give_up() comes next. */
bool server_begin_ending(struct server *server, enum ending_how how);

/* In ENDING: a reply. */
enum frame_fate server_ending_frame(struct server *server, char type, struct bytes body);

/* In ENDING: the cancel was delivered; or there is nothing to cancel. */
void server_canceled(struct server *server);

/* In ENDING: the server must be closed in the end; and it is closed now. server.c */
void server_keep_not(struct server *server);
void server_give_up(struct server *server);

/*
 * Whether the borrower's last batch is kept and may be sent to another server, if it has not run.
 * server_has_not_run(): and that is certain before the server replies: enough of it was not
 * delivered, or it has nothing that could have had an effect (server_has_no_effect()).
 */
bool server_may_resend(const struct server *server);
bool server_has_no_effect(const struct server *server);
bool server_has_not_run(const struct server *server);

/* An opening sets nothing that is reported: if this changes now, the host has changed. */
void server_see_read_only(struct server *server, const char *name);

/* Closes the server; on_unrun() of the borrower comes in place of on_lost(). */
void server_close_unrun(struct server *server, const struct err *err);

/* Whether its borrower could go on with another one: it has sent nothing, or only a BEGIN. */
bool server_can_go_unnoticed(const struct server *server);

/* It has closed the connection in the login. true: it lacks the protocol; 3.0 is tried. */
bool server_asks_again(struct server *server);

/* For the health of the hosts. true: it can be reached again, other pools may try it. */
bool server_host_done(struct server *server, enum host_outcome outcome, const struct err *err);

/* Handles a frame of a server that has not logged in. `in` contains the whole frame. */
enum frame_fate server_login_frame(struct server *server, const struct frame *frame,
                                   struct bytes in);

/* ---- roles: server_host.c ---- */

struct roster_at server_roster_at(const struct server *server);
bool server_roster_row(const struct server *server, struct roster_row *row);

/* Before connect_query: looks at the role, or asks; closes the server, or goes on. */
void server_check_role(struct server *server);

void server_ask_role(struct server *server, bool is_short);

/* The server has refused to write: its role is asked again before its host is used again. */
void server_role_doubted(struct server *server);

void server_role_reported(struct server *server, const char *name, const char *value);

/* Handles the input that was buffered while a key was being derived. */
void server_judge_kept(struct server *server);

/* A broken message, or one that does not belong there. */
static inline enum frame_fate server_bad_frame(struct server *server, const char *words)
{
	server_close_with(server, ERR_PROTOCOL, words);
	return FRAME_STOP;
}

/* ---- errors: server_errors.c ---- */

/* An ErrorResponse is examined with at least so much of it; a `body` may be cut after that. */
#define ERROR_PREFIX 1024

struct server_error {
	struct bytes body;    /* as far as it has been received */
	struct report report; /* if it is not whole: severity, SQLSTATE, text, which come first */
	bool is_whole;
	bool is_fatal; /* the server is about to close the connection */
	char start[ERROR_PREFIX];
};

void server_read_error(struct server_error *error, struct bytes body);

/* Handles an ErrorResponse after the login. */
enum frame_fate server_error_frame(struct server *server, struct bytes body);

/* Closes the server: a reply does not match what it owes, or that is not known. */
void server_out_of_step(struct server *server, enum ledger_verdict verdict);

/*
 * The host accepts no writes any more: WIRE_OK if `in` begins with the replies to the borrower's
 * batch that say so, and the batch has not run: server_refuse_write(). WIRE_MORE: that cannot be
 * said yet, so nothing of `in` may be forwarded.
 */
enum wire_result server_sees_refusal(const struct server *server, struct bytes in);

/* Closes the server; the batch is sent again on_unrun(). */
void server_refuse_write(struct server *server);

void server_login_free(struct server *server);

/* The server is unusable: it is closed at the end of the turn, after its input has been read. */
void server_break(struct server *server);

void server_question_free(struct server_question **question);

/* ---- orders: orders.c ---- */

/* The order behind the borrower's message has no answer, or nobody waits for it any more. */
void server_drop_behind(struct server *server);

/* Only its answer is owed: from now on the order is as one at rest. */
void server_begin_behind(struct server *server);

/* How many bytes of a buffer are kept for the next order. All servers share two such buffers. */
#define ORDER_KEEP_MAX ((size_t)4096)

/* The replies to the order that runs are complete. */
void server_order_done(struct server *server);

/* The reply to the query of ours of which it is part has arrived. */
void server_discard_end(struct server *server, bool is_done);

/* ---- parameters: server_params.c ---- */

/* Adds the SQL that sets `want`; empty: nothing to do. true: its failure would do no harm. */
bool server_replay_text(const struct server *server, const struct params *want, struct buf *text);

/*
 * Adds a call of setseed() with a random value. Nothing takes setseed() back, DISCARD ALL neither,
 * so a client that has called it must not know what follows.
 */
void server_add_seed(struct buf *text);

/* Adds the SQL that removes all state, known or not, and sets `want`. It may be broken then. */
void server_clean_text(const struct server *server, const struct params *want, struct buf *text);

/* After the login. *is_news: the borrower does not know it. false: too many, to be closed. */
bool server_report(struct server *server, const char *name, const char *value, bool *is_news);

/* The parameters `want` are about to be set. What was there until now is kept until it is known. */
void server_replace_params(struct server *server, const struct params *want);

void server_confirm_params(struct server *server);

/* They are not set: those from before are there. *err: why, if PostgreSQL has said that. */
void server_refuse_params(struct server *server, struct err *err);

/* After server_replace_params(): only changes are reported, in PostgreSQL's own spelling. */
void server_expect_reports(struct server *server);

/* Merges the reports into the parameter maps. To be called before the maps are read. */
void server_settle_reports(struct server *server);

/* Parameters were reset. is_all: to defaults; else those not reported may have any value. */
void server_forget_rest(struct server *server, bool is_all);

/* Whether all libraries of a map are in another one, too. */
bool server_libraries_are_in(const struct params *params, const struct params *others);

/* Notes whether the server's map has libraries, after it was replaced. */
void server_find_libraries(struct server *server);

/* ---- facts ---- */

/* What connect_query has set, which a client must get, too. */
void server_take_defaults(struct server *server, const struct facts *facts);

/* ---- server.c ---- */

/* The rest of a frame that answers no request may still come: it is dropped. */
void server_drop_rest(struct server *server);

void server_set_state_timer(struct server *server);

/* ---- time limits ---- */

/* A transaction has ended. !is_settled: the next one follows at once. */
void server_end_transaction(struct server *server, bool is_settled);

/* All is answered: starts idle_transaction_timeout, if a transaction is open. */
void server_idle_transaction_begin(struct server *server);

/* What the timers of each kind do when they expire. */
void server_connect_due(struct timer *timer);
void server_check_due(struct timer *timer);

extern const struct stream_ops server_stream_ops;

/*
 * ---- securing ----
 *
 * A new connection to PostgreSQL is encrypted, or stays plain, before the startup packet is sent:
 * on_secured() comes in each case, maybe within these functions. It fails if plain is not allowed.
 *
 *   securing_begin --> on_input --> securing_answer --> on_secured
 */

struct securing_how {
	struct tls_context *tls; /* NULL: plain, unless `like` is set */
	const char *host;        /* for SNI and the certificate check */
	/* or the parameters of this encrypted connection to the same server; NULL: none */
	const struct stream *like;
	bool is_required; /* a plain connection is not allowed */
	bool is_direct;   /* TLS without SSLRequest */
};

void securing_begin(struct stream *stream, const struct securing_how *how);

/* Called by on_input() before on_secured(): the server has replied to the SSLRequest. */
void securing_answer(struct stream *stream, const struct securing_how *how);

#endif
