/* SPDX-License-Identifier: ISC */
/*
 * Late BEGIN.
 *
 *   BEGIN     -->  "BEGIN", in a transaction      answered here, without a server
 *   UPDATE    -->  [Parse, Bind, Execute BEGIN] UPDATE            in one write
 *                  and SET LOCAL, ..., if a lost server had them already (see resend below)
 *   COMMIT    -->  COMMIT                         or answered here, if nothing came between
 *
 * Hard here: if the BEGIN fails at the server after all (a statement_timeout or a cancel at just
 * that moment), the statements after it must not be executed outside of a transaction. So BEGIN is
 * sent in the extended protocol without a Sync: after an error the server skips everything, and is
 * closed before it reads a Sync. For the same reason no BEGIN is answered here that a standby would
 * refuse: see sql_block.is_for_primary.
 *
 * The session must then have what a simple query leaves, and no more: no unnamed statement and no
 * unnamed portal. A Query itself drops the unnamed statement.
 */
#include "relay_priv.h"

#include <ctype.h>

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pgwire/sql_token.h"

#include "../statements/statements_priv.h"

/* CommandComplete and ReadyForQuery. */
#define ANSWER_TYPE(tag)                             \
	const struct {                               \
		MESSAGE_FIXED(sizeof(tag)) complete; \
		MESSAGE_FIXED(1) ready;              \
	}
#define ANSWER(tag, status)                                                                   \
	{                                                                                     \
		(const char *)&(ANSWER_TYPE(tag)){ MESSAGE_FIXED_INIT('C', sizeof(tag), tag), \
			                           MESSAGE_FIXED_INIT('Z', 1, { status }) },  \
		    sizeof(ANSWER_TYPE(tag))                                                  \
	}

static const struct bytes answers[] = {
	[SQL_BLOCK_BEGIN] = ANSWER("BEGIN", 'T'),
	[SQL_BLOCK_START] = ANSWER("START TRANSACTION", 'T'),
	[SQL_BLOCK_COMMIT] = ANSWER("COMMIT", 'I'),
	[SQL_BLOCK_ROLLBACK] = ANSWER("ROLLBACK", 'I'),
};

/* ---- time limits ---- */

static void on_idle_due(struct timer *timer)
{
	client_refuse_for(container_of(timer, struct client, timer), CLOSE_IDLE_TRANSACTION);
}

static void on_transaction_due(struct timer *timer)
{
	client_refuse_for(container_of(timer, struct client, timer), CLOSE_TRANSACTION_TIMEOUT);
}

void late_begin_arm(struct client *client)
{
	usec_t since = client->late->answered_at, idle, whole;
	struct config_times times;

	client_times(client, client->borrower.pool->role->entry, &times);
	idle = times.idle_transaction;
	whole = times.transaction;
	if (whole && (!idle || client->xact_at + whole < since + idle))
		client_arm(client, whole, on_transaction_due, client->xact_at);
	else if (idle)
		client_arm(client, idle, on_idle_due, since);
	else
		timer_clear(&client->timer);
}

/* ---- from the client ---- */

bool late_begin_again(struct client *client, struct bytes texts)
{
	struct clients *clients = client->clients;
	struct late_begin *late = client->late = slab_take(&clients->late_slab);

	if (!late)
		return false;
	late->answered_at = client_now(client);
	memcpy(late->texts, texts.at, texts.count);
	late->size = (uint16_t)texts.count;
	return true;
}

/* Whether no server of the pool is a standby, according to their reports (since PostgreSQL 14). */
static bool has_primary(const struct pool *pool)
{
	const char *in_hot_standby =
	    pool->baseline ? params_find(pool->baseline, "in_hot_standby") : NULL;

	return in_hot_standby && strcmp(in_hot_standby, "off") == 0;
}

static enum judgement begin_late(struct client *client, const struct sql_block *block,
                                 struct bytes text)
{
	const struct pool *pool = client->borrower.pool;

	if (!client_rules(client)->late_begin || client->replication || pool->pools->is_ending ||
	    (block->is_for_primary && !has_primary(pool)) || !late_begin_again(client, text))
		return JUDGE_SEND;
	if (!client_send(client, answers[block->kind]))
		return JUDGE_END;
	client_enter(client, CLIENT_LATE);
	return JUDGE_DROP;
}

struct sql_block late_begin_read(struct bytes texts)
{
	struct sql_block all = { 0 }, block;

	for (const char *text; bytes_take_text(&texts, &text);) {
		block = sql_block_read(bytes_text(text));
		all.is_for_primary |= block.is_for_primary;
		all.has_isolation |= block.has_isolation;
		if (block.access != SQL_ACCESS_UNSAID)
			all.access = block.access;
	}
	return all;
}

/* Nothing runs in it, so its modes do not matter. */
bool late_begin_in_vain(struct client *client, struct bytes text)
{
	static const char begin[] = "BEGIN";
	struct scanner scanner = { .rest = text };

	return client_rules(client)->mode != POOL_MODE_STATEMENT &&
	       (sql_takes(&scanner, "begin") || sql_takes(&scanner, "start")) &&
	       late_begin_again(client, bytes_of(begin, sizeof(begin)));
}

enum judgement late_begin_judge(struct client *client, const struct frame *frame, struct bytes in)
{
	struct sql_block block;
	struct bytes body;
	const char *text;

	if (frame->length <= FRAME_HEADER_SIZE ||
	    frame->length > FRAME_HEADER_SIZE + REPLAY_OPENING_MAX)
		return JUDGE_SEND;
	if (in.count < frame->length)
		return JUDGE_MORE;
	body = frame_body(in, frame);
	/*
	 * A client that does not read gets no reply here: its BEGIN is sent, which has
	 * back-pressure.
	 */
	if (fields_text(body, &text) != WIRE_OK || stream_unsent(&client->stream))
		return JUDGE_SEND;
	block = sql_block_read(bytes_of(body.at, body.count - 1));
	if (block.kind == SQL_BLOCK_COMMIT || block.kind == SQL_BLOCK_ROLLBACK) {
		if (!client->late)
			return JUDGE_SEND;
		if (client->late->has_failed)
			block.kind = SQL_BLOCK_ROLLBACK;
		if (!client_send(client, answers[block.kind]))
			return JUDGE_END;
		late_begin_forget(client);
		client_enter(client, CLIENT_IDLE);
		return JUDGE_DROP;
	}
	/*
	 * If the next statement is already here, a late BEGIN saves nothing, unless that statement
	 * is to say where the transaction runs.
	 */
	if (block.kind == SQL_BLOCK_OTHER || block.kind == SQL_BLOCK_SET || client->late ||
	    (in.count > frame->length && !client_rules(client)->route_reads))
		return JUDGE_SEND;
	return begin_late(client, &block, body);
}

/* ---- to the server ---- */

static bool note(struct server *server, enum ledger_kind kind)
{
	return server_note_change(server, kind, LEDGER_OURS, NULL);
}

/* Adds Parse, Bind and Execute of a text. */
static bool send_text(struct batch *batch, const char *text, bool is_last)
{
	/* no portal, no statement, no formats, no values */
	MESSAGE_STATIC(bind, 'B', "\0\0\0\0\0\0\0");
	MESSAGE_STATIC(execute, 'E', "\0\0\0\0"); /* no portal, all rows */
	struct server *server = batch->server;
	struct bytes whole = bytes_of(text, strlen(text) + 1);

	batch_header(batch, 'P', 1 + whole.count + 2);
	batch_copy(batch, bytes_of("", 1)); /* no name */
	batch_copy(batch, whole);
	batch_copy(batch, bytes_of("\0", 2)); /* no types */
	batch_copy(batch, MESSAGE_BYTES(bind));
	batch_copy(batch, MESSAGE_BYTES(execute));
	return note(server, LEDGER_PARSE) && note(server, LEDGER_BIND) &&
	       (is_last ? server_note_begin(server) : note(server, LEDGER_EXECUTE));
}

/* The texts go ahead of the client's messages. false: no memory. */
static bool keep_opening(const struct client *client, struct bytes texts)
{
	struct server *server = client->borrower.server;
	struct replay *replay = &server->lease.replay;

	if (!(client_features(client) & CLIENT_HAS_HOSTS))
		return true;
	if (!replay_has_memory(replay))
		return false;
	memcpy(replay->at + REPLAY_MAX, texts.at, texts.count);
	replay->opening_count = (uint16_t)texts.count;
	return true;
}

bool late_begin_send(struct client *client, char type, struct batch *batch)
{
	struct server *server = client->borrower.server;
	struct late_begin *late = client->late;
	struct bytes texts = bytes_of(late->texts, late->size), rest = texts;
	bool has_failed = late->has_failed, is_query = type == 'Q';
	/* A transaction that has failed here would not have failed at another server. */
	bool is_good = has_failed || keep_opening(client, texts);
	MESSAGE_STATIC(close_portal, 'C', "P");
	MESSAGE_STATIC(close_statement, 'C', "S");
	/* Makes the transaction fail at the server, as it has failed here. */
	MESSAGE_STATIC(failing, 'Q', "ROLLBACK TO SAVEPOINT \"" STATEMENT_NAMES "LATE\"");

	batch->server = server;
	for (const char *text; is_good && bytes_take_text(&rest, &text);) {
		if (text != texts.at)
			session_change_scope(server, sql_touch(bytes_text(text)));
		is_good = send_text(batch, text, rest.count == 0);
	}
	late_begin_forget(client);
	if (!is_good)
		return false;
	batch_copy(batch, MESSAGE_BYTES(close_portal));
	if (!is_query)
		batch_copy(batch, MESSAGE_BYTES(close_statement));
	if (has_failed)
		batch_run(batch, MESSAGE_BYTES(failing));
	return note(server, LEDGER_CLOSE) && (is_query || note(server, LEDGER_CLOSE)) &&
	       (!has_failed || note(server, LEDGER_QUERY));
}

/* ---- the end ---- */

void late_begin_fail(struct client *client)
{
	client->late->has_failed = true;
	client->late->answered_at = client_now(client);
	if (client->state != CLIENT_LATE)
		client_enter(client, CLIENT_LATE);
	late_begin_arm(client);
}

void late_begin_forget(struct client *client)
{
	if (client->late)
		slab_give(&client->clients->late_slab, &client->late);
}

/*
 * ---- resend ----
 *
 * Resend: what a server was sent and has certainly not run is sent to another one. The client waits
 * for that server as if it had none before. It may be on the same host, which is shutting down, and
 * be lost too; so there are several attempts, but not without end.
 *
 * Hard here: what is certain? A connection that breaks says nothing about the statement: it may run
 * still, or its COMMIT may have been the last thing that the server did. An error that ends the
 * session (57P01) may interrupt a statement whose effects outside of its transaction stay: values
 * of sequences, other connections, a COMMIT within CALL. So a batch is sent again only if
 *
 *   - nothing was sent yet, because the server's parameters were being set;
 *   - its last executable message has not left this machine in full, or never arrived: the server's
 *     end of the connection was closed before (stream_undelivered());
 *   - or the server has ended an idle session (57P05);
 *   - or it has refused a text as a whole because its host accepts no writes any more (25006);
 *   - or it has ended the session (57P01) before it has answered a BEGIN that comes first;
 *   - or it has nothing to execute that could have an effect beyond its transaction: BEGIN, SET
 *     TRANSACTION, SET LOCAL, an empty query, Parse and Describe.
 *
 * A BEGIN that was answered, with nothing behind it but SET TRANSACTION and SET LOCAL, becomes a
 * late BEGIN, and these with it: the opening of the transaction. It is sent again together with the
 * first batch behind it, too, if that is sent again.
 *
 * Drivers send an opening together with what is behind it, in one batch or in several, in one write
 * or in several. So all of it is kept until the server has answered; what it has answered in full
 * is the client's, and is dropped.
 *
 * Only the opening and the first batch behind it, and only if nothing of the client is on the
 * server: no session state, no listening connection. What was sent is kept only for entries with
 * several hosts, as that costs a copy.
 */

#define RESENT_MAX 10 /* times; a refusal (25006) is not repeated */

/* ---- what can be kept ---- */

/* Whether nothing of this client, or of its transaction, would be lost with its server. */
static bool is_plain(const struct client *client)
{
	return !session_keeps_server(client) && !(client_features(client) & CLIENT_HAS_SQL_NAMES) &&
	       !(client->touched & ~(unsigned int)SQL_TOUCH_CREATE) && !client->listening &&
	       !unnamed_is_sql(client) && !session_stays(client);
}

/*
 * A query of ours may be ahead, which sets application_name. What a Flush has had answered is in a
 * transaction that its Sync ends, and no ReadyForQuery says so.
 */
static bool is_between_transactions(const struct server *server)
{
	return server->wire.status == 'I' && !ledger_owes_borrower(&server->wire.ledger) &&
	       !ledger_may_skip(&server->wire.ledger);
}

/*
 * Whether what comes now belongs to what is kept: its last batch has no end yet, or all of it is an
 * opening; or only an opening was sent.
 */
static bool is_continued(const struct server *server)
{
	const struct replay *replay = &server->lease.replay;

	if (replay->count)
		return replay_may_resend(replay) && (!replay->is_whole || replay->is_opening);
	return replay->opening_count &&
	       (server_has_only_begun(server) || is_between_transactions(server));
}

bool resend_begin(struct client *client)
{
	struct server *server = client->borrower.server;
	const struct pool *pool = client->borrower.pool;
	bool is_more = server && is_continued(server);
	/* A transaction that has failed here would not have failed at the next server. */
	bool may_keep = (is_more || !server || is_between_transactions(server)) && pool &&
	                pool->site.hosts->count > 1 && !client->frame_left &&
	                !(client->late && client->late->has_failed);

	if (server && !(may_keep && is_more))
		replay_end_resend(&server->lease.replay);
	return may_keep;
}

/* ---- what is in a batch ---- */

/* What some batches execute. */
struct reading {
	const struct client *client;
	struct bytes opening; /* texts, in a place of REPLAY_OPENING_MAX bytes */
	bool is_opening;      /* nothing else is executed, and all of it is there */
	bool has_effect;      /* something is executed that may have an effect */
	bool is_whole;        /* the last message ends its batch; so it is before the first */
	struct replay_batches batches; /* the last one may have no end */
	size_t effect_size;            /* up to and with the message that may have the effect */
	size_t sync_size;              /* up to and with a Sync directly behind that */
	struct bytes effect;           /* its text; `at` is NULL if not known */
	/* the unnamed statement and the statement of the last Bind; `at` is NULL if not known */
	struct bytes unnamed, bound;
	const char *portal; /* of a Bind that was not executed; NULL: none */
};

/* Most texts begin otherwise, and need not be read: BEGIN, START, SET. */
static bool may_open(const char *text)
{
	char first = (char)(text[0] | 0x20), second = (char)(text[1] | 0x20);

	return (first == 'b' && second == 'e') || (first == 's' && second == 't') ||
	       (first == 's' && second == 'e' && (text[2] | 0x20) == 't');
}

/* A text is executed, which has a zero behind it. It has no effect, if it is part of an opening. */
static void read_executed(struct reading *reading, struct bytes text)
{
	enum target_session_attrs target = reading->client->borrower.server->site->target;
	struct sql_block block = { 0 };
	size_t count = reading->opening.count;
	bool is_begin, fits_any_host, is_part = false;

	if (text.at && may_open(text.at)) {
		block = sql_block_read(text);
		is_part = block.kind == SQL_BLOCK_SET || sql_is_set_local(text);
	}
	is_begin = block.kind == SQL_BLOCK_BEGIN || block.kind == SQL_BLOCK_START;
	if (!is_begin && !is_part) {
		reading->has_effect = true;
		reading->effect = text;
	}
	fits_any_host =
	    !block.is_for_primary || target == TARGET_PRIMARY || target == TARGET_READ_WRITE;
	if ((!is_begin && (!is_part || !count)) || !fits_any_host ||
	    text.count + 1 > REPLAY_OPENING_MAX - count) {
		reading->is_opening = false;
		return;
	}
	memcpy((char *)reading->opening.at + count, text.at, text.count + 1);
	reading->opening.count += text.count + 1;
}

/* A Bind may call functions, so it must be executed. false: the batch cannot be sent again. */
static bool read_bind(struct reading *reading, const struct said *said)
{
	if (reading->portal || !said->name)
		return false;
	if (!*said->name && !reading->unnamed.at && reading->batches.count > 1)
		return false; /* without the batch before it, it would have no statement */
	reading->portal = said->portal;
	reading->bound = *said->name ? said->text : reading->unnamed;
	return true;
}

static bool read_execute(struct reading *reading, const struct said *said)
{
	if (!reading->portal || !said->portal || strcmp(said->portal, reading->portal) != 0)
		return false;
	reading->portal = NULL;
	read_executed(reading, reading->bound);
	return true;
}

static bool read_query(struct reading *reading, struct bytes text)
{
	if (!text.at || reading->has_effect || reading->portal)
		return false;
	if (text.count) /* an empty text has no effect */
		read_executed(reading, text);
	return true;
}

/* Behind what may have an effect, all is skipped if that is refused. */
static bool read_step(struct reading *reading, const struct frame *frame, struct bytes in)
{
	struct said said = said_read(reading->client, frame, in);

	switch (said.type) {
	case 'Q':
		return read_query(reading, said.text);
	case 'P':
		if (!reading->has_effect && said.name && !*said.name)
			reading->unnamed = said.text;
		return true;
	case 'B':
		return reading->has_effect || read_bind(reading, &said);
	case 'E':
		return reading->has_effect || read_execute(reading, &said);
	case 'C':
	case 'D':
	case 'S':
		return true;
	default:
		return false;
	}
}

/*
 * Reads batches. If they execute what may have an effect, that is in the last one. false: they
 * cannot be sent again.
 */
static bool read_batches(struct reading *reading, struct bytes in)
{
	size_t size = 0;
	struct frame frame;

	while (frame_peek(bytes_skip(in, size), UINT32_MAX, &frame) == WIRE_OK &&
	       in.count - size >= frame.length) {
		struct bytes rest = bytes_skip(in, size);
		bool is_sync = frame.type == 'S';

		/* A batch begins: nothing may follow one that executes more than an opening. */
		if (reading->is_whole && (reading->has_effect || !reading->is_opening ||
		                          reading->batches.count++ == REPLAY_BATCHES_MAX))
			return false;
		reading->is_whole = false;
		if (!read_step(reading, &frame, rest) || (is_sync && reading->portal))
			return false;
		size += frame.length;
		reading->batches.at[reading->batches.count - 1].end = (uint16_t)size;
		reading->batches.at[reading->batches.count - 1].opening =
		    (uint16_t)reading->opening.count;
		if (reading->has_effect && !reading->effect_size)
			reading->effect_size = reading->sync_size = size;
		else if (is_sync && reading->effect_size == size - frame.length)
			reading->sync_size = size;
		if (is_sync || frame.type == 'Q') {
			reading->is_whole = true;
			reading->unnamed = bytes_of(NULL, 0);
		}
	}
	return size == in.count && !reading->portal;
}

/* Reads what is kept. false: it cannot be sent again. */
static bool read_kept(const struct client *client, const struct replay *kept,
                      struct reading *reading)
{
	*reading = (struct reading){
		.client = client,
		.opening = replay_opening(kept),
		.is_opening = true,
		.is_whole = true,
	};
	return read_batches(reading, bytes_of(kept->at, kept->count));
}

/*
 * See struct replay. A question behind it is not the client's. With TLS a write is a record, with
 * more bytes than are in it: another one behind that would seem to begin before its end.
 */
static uint32_t measure_unsent(const struct reading *reading, const struct server *server,
                               size_t count, bool is_one_write)
{
	if (!reading->has_effect)
		return 0;
	/* what is sent behind it may have more bytes than what the client has sent */
	if (reading->sync_size < count ||
	    (!is_one_write && stream_is_encrypted(&server->wire.stream)))
		return REPLAY_UNKNOWN;
	return (uint32_t)(count - reading->effect_size) + 1 + server->orders.behind_size;
}

void resend_keep(struct client *client, struct bytes input, bool may_keep, bool is_one_write)
{
	struct server *server = client->borrower.server;
	struct replay *replay = &server->lease.replay;
	struct reading reading;

	if (!input.count)
		return;
	/* What may be replanned is the same input. */
	if (!may_keep || client->resent >= RESENT_MAX || client->frame_left || !is_plain(client) ||
	    (!replay->may_replan && !replay_add(replay, input)) ||
	    !read_kept(client, replay, &reading)) {
		replay_end_resend(replay);
		return;
	}
	replay->may_resend = true;
	replay->unsent_least = measure_unsent(&reading, server, replay->count,
	                                      is_one_write && replay->count == input.count);
	replay->is_whole = reading.is_whole;
	replay->is_opening = reading.is_opening;
	replay->batches = reading.batches;
}

/* ---- sending it again ---- */

/* What was kept becomes input of the client again, and waits for a server. */
static void ask_again(struct client *client, struct bytes batch)
{
	struct err err;

	client->resent++;
	client->seen = 0;
	statements_leave_server(client);
	if (batch.count && !stream_put_back(&client->stream, batch)) {
		client_close(client, CLOSE_MEMORY);
		return;
	}
	client_hurry(client);
	if (!pool_ask_first(&client->borrower, client->request_at, &err)) {
		client_turn_away(client, &err);
		return;
	}
	client_enter(client, CLIENT_WAITING);
	client->was_notified = false;
	client_wait_begin(client);
}

static bool may_ask_again(const struct client *client)
{
	if (client->resent >= RESENT_MAX || session_keeps_server(client))
		return false;
	if (client->state == CLIENT_PREPARING) /* its messages were not judged yet */
		return !session_stays(client);
	return client->state == CLIENT_ACTIVE && !client->frame_left;
}

/* Whether the words have this one, between others. */
static bool has_word(const char *words, const char *word)
{
	size_t size = strlen(word);
	const char *at = words;

	while ((at = strstr(at, word))) {
		bool is_begin = at == words || !isalnum((unsigned char)at[-1]);

		if (is_begin && !isalnum((unsigned char)at[size]) && at[size] != '(')
			return true;
		at += size;
	}
	return false;
}

/*
 * Whether the words name the command with which the text begins: "cannot execute INSERT in a
 * read-only transaction", in any language. Then it was refused as a whole; a function that was
 * refused while the text ran ("nextval()") is another word.
 */
static bool is_about(const char *words, struct bytes text)
{
	static const char *const with[] = { "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE" };
	struct token token = sql_peek((struct scanner){ .rest = text });
	struct bytes first = token.text;
	char name[32];

	if (token.kind != TOKEN_WORD || first.count >= sizeof(name))
		return false;
	for (size_t i = 0; i < first.count; i++)
		name[i] = (char)toupper((unsigned char)first.at[i]);
	name[first.count] = 0;
	if (strcmp(name, "WITH") != 0)
		return has_word(words, name);
	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		if (has_word(words, with[i]))
			return true;
	}
	return false;
}

bool resend_wants_writer(struct borrower *borrower, const struct replay *kept, const char *words)
{
	struct client *client = client_of(borrower);
	struct bytes texts = bytes_of(kept->at + REPLAY_MAX, replay_whole_opening(kept));
	struct reading reading;

	/* If it was begun READ ONLY, any host would refuse a write. */
	return !client->resent && may_ask_again(client) &&
	       late_begin_read(texts).access != SQL_ACCESS_READ_ONLY &&
	       read_kept(client, kept, &reading) && reading.effect.at &&
	       is_about(words, reading.effect);
}

void resend_unrun(struct borrower *borrower, const struct err *err, const struct replay *unrun)
{
	struct client *client = client_of(borrower);
	bool has_begun = unrun->opening_count;
	/* the client has read the reply to BEGIN, and its next message is still to come */
	bool may_begin_again = client->state == CLIENT_ACTIVE && !session_keeps_server(client) &&
	                       !client->frame_left && client->stream.want == WANT_INPUT;

	if (has_begun && !unrun->count ? !may_begin_again : !may_ask_again(client)) {
		client_fatal(client, err);
		return;
	}
	if (has_begun && !late_begin_again(client, replay_opening(unrun))) {
		client_close(client, CLOSE_MEMORY);
		return;
	}
	/* Nothing but an opening has run: it becomes late, and the client does not notice. */
	if (has_begun && !unrun->count) {
		log_info(&client->log,
		         "the server was lost after BEGIN, which is sent to another one");
		statements_leave_server(client);
		client_enter(client, CLIENT_LATE);
		late_begin_arm(client);
		return;
	}
	log_info(&client->log, "the server was lost before it ran the statement, which is sent to "
	                       "another one");
	ask_again(client, bytes_of(unrun->at, unrun->count));
}
