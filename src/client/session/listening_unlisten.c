/* SPDX-License-Identifier: ISC */
/*
 * What UNLISTEN has done: see listening_state_priv.h.
 *
 * Hard here: only marks among the server's channels say what a text did that may have been undone.
 */
#include "listening_state_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/pgwire/sql_names.h"
#include "pgweir/pgwire/sql_touch.h"

#include "../batch_priv.h"

/* A client with more channels is not asked what DO and functions unlisten: that costs too much. */
#define HIDDEN_MAX 200
#define UNLISTENS_MAX 1000 /* texts with UNLISTEN in one transaction */

#define MARK_SIZE 64 /* the name of a mark: of the channel of marks, and a number */

/* What transactions of a text unlisten that begin behind the end of another one. */
struct behind {
	bool is_all;      /* UNLISTEN * */
	bool is_unsure;   /* there are savepoints, which may undo a part */
	struct buf named; /* channels: name\0 */
};

/* What a text that may have executed UNLISTEN left on the lent server. */
struct unlisten {
	TAILQ_ENTRY(unlisten) node;
	unsigned int number; /* of its marks */
	bool is_in_block;    /* two marks; else one, and it was committed */
	bool has_failed;     /* the marks were not set: nothing is known */
	bool has_no_marks;   /* they were not needed: only what is behind the first end counts */
	bool is_all;         /* the text has UNLISTEN * */
	bool is_unsure;      /* it may have others than those it names */
	bool undoes_part;    /* it may undo a part of itself */
	bool has_end;        /* it ends transactions: see `done` and `last` */
	bool may_roll_back;  /* it may undo the first mark, but not the second one */
	bool is_watched;     /* it may end its transaction itself: server_watch_end() */
	bool is_committed;   /* it has done so, before it undid anything */
	unsigned int errors; /* error_count of the server before it */
	bool is_done;        /* all of it was executed, */
	bool is_over;        /* and its last transaction was committed with it */
	struct behind done;  /* what it has committed behind its first end, if all was executed */
	struct behind last;  /* what its last transaction unlistens */
	struct buf named;    /* the channels that it names: name\0 */
	struct buf channels; /* those that the server was made to listen to */
};

/* ---- messages of our own to the lent server ---- */

/* Says that a query ahead of the client's text has failed. Owned by the ledger. */
struct ahead {
	struct ledger_change change;
	TAILQ_ENTRY(ahead) node;
	struct client_listening *listening; /* NULL: the client was closed */
};

static void settle_ahead_of_unlisten(struct ledger_change *change, bool is_done)
{
	struct ahead *ahead = container_of(change, struct ahead, change);
	struct unlisten *unlisten;

	if (ahead->listening) {
		TAILQ_REMOVE(&ahead->listening->aheads, ahead, node);
		TAILQ_FOREACH (unlisten, &ahead->listening->unlistens, node)
			unlisten->has_failed |= !is_done;
	}
	free(ahead);
}

static void forget_aheads(struct client_listening *listening)
{
	struct ahead *ahead;

	while ((ahead = TAILQ_FIRST(&listening->aheads))) {
		TAILQ_REMOVE(&listening->aheads, ahead, node);
		ahead->listening = NULL;
	}
}

/* NULL: no memory. */
static struct ledger_change *ahead_new(struct client_listening *listening)
{
	struct ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		return NULL;
	ahead->change.settle = settle_ahead_of_unlisten;
	ahead->listening = listening;
	TAILQ_INSERT_TAIL(&listening->aheads, ahead, node);
	return &ahead->change;
}

static bool inject(struct client_listening *listening, struct buf *out, struct bytes statements)
{
	struct server *server = listening->client->borrower.server;
	struct ledger_change *change;

	if (server->wire.ledger.is_open)
		return inject_text_extended(server, out, statements, NULL);
	change = ahead_new(listening);
	return change && inject_text_query(server, out, statements, change);
}

/* Adds LISTEN for each name of a list (name\0). false: no memory. */
static bool add_listens(struct client_listening *listening, struct buf *out, struct bytes names)
{
	struct buf statements = { 0 };
	const char *name;
	bool is_added;

	while (bytes_take_text(&names, &name)) {
		buf_add_text(&statements, "LISTEN ");
		listening_add_name(&statements, bytes_text(name));
		buf_add_byte(&statements, ';');
		buf_add_byte(&statements, 0);
	}
	is_added = buf_ok(&statements) && inject(listening, out, buf_bytes(&statements));
	buf_free(&statements);
	return is_added;
}

/* ---- a text ---- */

/* which: 'b' ahead of the text, 'a' after it. */
static const char *mark_name(const struct client_listening *listening, unsigned int number,
                             char which, char out[MARK_SIZE])
{
	snprintf(out, MARK_SIZE, "%s%c%u", listening_mark_channel(&listening->listener), which,
	         number);
	return out;
}

static void free_names(struct unlisten *unlisten)
{
	buf_free(&unlisten->named);
	buf_free(&unlisten->done.named);
	buf_free(&unlisten->last.named);
	buf_free(&unlisten->channels);
}

static void forget_unlistens(struct client_listening *listening)
{
	struct unlisten *unlisten;

	listening->is_ahead = false;
	while ((unlisten = TAILQ_FIRST(&listening->unlistens))) {
		TAILQ_REMOVE(&listening->unlistens, unlisten, node);
		listening->unlisten_count--;
		free_names(unlisten);
		free(unlisten);
	}
}

/* A transaction ends in the middle of the text. The first one began before it: marks show that. */
static void take_end(struct unlisten *unlisten, bool is_commit)
{
	struct behind *last = &unlisten->last, *done = &unlisten->done;

	if (is_commit && unlisten->has_end && !last->is_unsure) {
		done->is_all |= last->is_all;
		buf_add(&done->named, last->named.at, last->named.count);
	}
	buf_free(&last->named);
	*last = (struct behind){ 0 };
	unlisten->has_end = unlisten->undoes_part = true;
}

static void take_item(void *context, const struct sql_item *item)
{
	struct unlisten *unlisten = context;

	switch (item->kind) {
	case SQL_ITEM_UNLISTEN:
		buf_add(&unlisten->named, item->name.at, item->name.count);
		buf_add_byte(&unlisten->named, 0);
		buf_add(&unlisten->last.named, item->name.at, item->name.count);
		buf_add_byte(&unlisten->last.named, 0);
		break;
	case SQL_ITEM_UNLISTEN_ALL:
		unlisten->is_all = unlisten->last.is_all = true;
		break;
	case SQL_ITEM_SAVEPOINT:
		unlisten->undoes_part = unlisten->last.is_unsure = true;
		break;
	case SQL_ITEM_PREPARED:
		unlisten->has_no_marks |= !unlisten->has_end;
		take_end(unlisten, false);
		break;
	case SQL_ITEM_COMMIT:
	case SQL_ITEM_ROLLBACK:
		take_end(unlisten, item->kind == SQL_ITEM_COMMIT);
		break;
	case SQL_ITEM_UNSURE:
	case SQL_ITEM_LISTEN:
		unlisten->is_unsure = true;
		break;
	default:
		break;
	}
}

/*
 * Whether the transaction may have unlistened this channel before, or the server listens to it
 * already.
 */
static bool was_unlistened(const struct client_listening *listening, struct bytes name)
{
	const struct unlisten *unlisten;

	TAILQ_FOREACH (unlisten, &listening->unlistens, node) {
		if (unlisten->is_all || unlisten->is_unsure ||
		    listening_names_of_text(buf_bytes(&unlisten->named), name))
			return true;
	}
	return false;
}

/*
 * Which channels the server is made to listen to. Not those that the transaction may have
 * unlistened before: they would come back.
 */
static bool is_needed(const struct client_listening *listening, const struct unlisten *unlisten,
                      struct bytes name)
{
	if (unlisten->is_unsure)
		return listening->listener.count <= HIDDEN_MAX && !was_unlistened(listening, name);
	if (!listening_names_of_text(buf_bytes(&unlisten->named), name))
		return false;
	/* Within a block the mark says enough, unless the text undoes a part of itself. */
	return !unlisten->is_in_block ||
	       (unlisten->undoes_part && !was_unlistened(listening, name));
}

static void choose_channels(struct client_listening *listening, struct unlisten *unlisten)
{
	const struct subscription *at = NULL;
	const char *name;

	while ((name = listening_next(&listening->listener, &at))) {
		if (is_needed(listening, unlisten, bytes_text(name)))
			buf_add_cstr(&unlisten->channels, name);
	}
}

static struct unlisten *unlisten_new(struct client *client, bool is_in_block, struct bytes text)
{
	struct unlisten *unlisten = calloc(1, sizeof(*unlisten));

	if (!unlisten)
		return NULL;
	unlisten->number = ++client->listening->number;
	unlisten->is_in_block = is_in_block;
	sql_items(text, take_item, unlisten);
	/* DO, a function, or a text that is not known */
	unlisten->is_unsure |= !unlisten->is_all && !unlisten->named.count;
	choose_channels(client->listening, unlisten);
	client->listening->unlisten_count++;
	TAILQ_INSERT_TAIL(&client->listening->unlistens, unlisten, node);
	return unlisten;
}

/* In a block that has failed, only what is behind its end is executed. */
static bool ends_block(struct bytes text)
{
	struct unlisten unlisten = { 0 };

	sql_items(text, take_item, &unlisten);
	free_names(&unlisten);
	return unlisten.has_end;
}

static void set_after(struct client *client, char type)
{
	client->touched |= type == 'Q' ? LISTENING_AFTER : LISTENING_AFTER_EXECUTE;
}

/* Whether the server listens to all that is needed to find out what this text does. */
static bool needs_only_mark(const struct client *client, bool is_in_block, unsigned int touches)
{
	const struct unlisten *last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);

	return is_in_block && last && last->is_unsure && !(touches & SQL_TOUCH_UNLISTEN);
}

static bool add_unlisten(struct client *client, bool is_in_block, struct bytes text,
                         struct batch *batch)
{
	struct client_listening *listening = client->listening;
	struct unlisten *unlisten = unlisten_new(client, is_in_block, text);
	struct server *server = client->borrower.server;
	struct buf names = { 0 };
	char mark[MARK_SIZE];
	bool is_added;

	if (!unlisten || !buf_ok(&unlisten->named) || !buf_ok(&unlisten->channels) ||
	    !buf_ok(&unlisten->done.named) || !buf_ok(&unlisten->last.named))
		return false;
	if (server_is_in_failed_block(server))
		return true; /* marks cannot be set */
	/* PREPARE TRANSACTION fails after LISTEN and UNLISTEN, and so it would after a mark. */
	unlisten->has_no_marks &= is_in_block;
	if (unlisten->has_no_marks)
		return true;
	buf_add_cstr(&names, mark_name(listening, unlisten->number, 'b', mark));
	buf_add(&names, unlisten->channels.at, unlisten->channels.count);
	buf_clear(&listening->ahead);
	is_added = buf_ok(&names) && add_listens(listening, &listening->ahead, buf_bytes(&names));
	buf_free(&names);
	batch_run(batch, buf_bytes(&listening->ahead));
	return is_added;
}

static bool add_after(struct client *client, struct batch *batch)
{
	struct client_listening *listening = client->listening;
	struct buf out = { 0 };
	char mark[MARK_SIZE];
	bool is_added;

	if (!listening || !listening->listener.listening)
		return true;
	mark_name(listening, listening->number, 'a', mark);
	is_added = add_listens(listening, &out, bytes_of(mark, strlen(mark) + 1));
	if (is_added)
		batch_copy(batch, buf_bytes(&out));
	buf_free(&out);
	return is_added;
}

/* The text that may have unlistened is over. */
static void note_end(struct client *client)
{
	struct unlisten *last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);
	struct server *server = client->borrower.server;

	if (!last || !last->is_watched)
		return;
	last->is_watched = false;
	last->is_committed = server_end_seen(server) == SERVER_END_COMMIT;
	last->is_done = server->lease.error_count == last->errors;
	last->is_over = last->is_done && server->wire.status == 'I';
}

/* A text of several statements may end the transaction: then no second mark can follow it. */
static void watch_end(struct client *client)
{
	struct unlisten *last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);

	last->is_watched = true;
	last->errors = client->borrower.server->lease.error_count;
	server_watch_end(client->borrower.server);
}

/*
 * A text was bound, and its mark is due after its Execute. If that did not come before the Sync,
 * and the block has failed since, it cannot come any more. false: this is not known yet.
 */
static bool look_for_execute(struct client *client)
{
	const struct server *server = client->borrower.server;

	if (!(client->touched & LISTENING_AFTER_EXECUTE))
		return true;
	if (server_is_in_failed_block(server))
		client->touched &= ~LISTENING_AFTER_EXECUTE;
	return ledger_knows_status(&server->wire.ledger);
}

enum listening_go listening_unlisten_follow(struct client *client, char type, struct batch *batch)
{
	const struct server *server = client->borrower.server;
	bool is_due = client->touched & LISTENING_AFTER;

	if (client->listening && client->listening->is_ahead)
		return LISTENING_SEND; /* it is the text itself, which has waited */
	if (!look_for_execute(client))
		return listening_wait(batch, LEDGER_WAIT_READY);
	if (!is_due && type == 'E' && (client->touched & LISTENING_AFTER_EXECUTE))
		client->touched ^= LISTENING_AFTER_EXECUTE | LISTENING_AFTER;
	if (!is_due)
		return LISTENING_SEND;
	/* The text may have ended its transaction block: then the mark would say too much. */
	if (!server->wire.ledger.is_open && !ledger_knows_status(&server->wire.ledger))
		return listening_wait(batch, LEDGER_WAIT_READY);
	client->touched &= ~LISTENING_AFTER;
	note_end(client);
	if (!server->wire.ledger.is_open && server->wire.status != 'T')
		return LISTENING_SEND;
	return add_after(client, batch) ? LISTENING_SEND : LISTENING_END;
}

/*
 * A procedure may execute ROLLBACK and begin another transaction if no transaction block is open.
 * With Query the first mark is committed before. In the extended protocol it is not: then what is
 * missing may have been undone, and was not necessarily unlistened.
 */
static bool may_roll_back(const struct server *server, struct bytes text)
{
	return server->wire.ledger.is_open && server->wire.status == 'I' &&
	       (!text.count || bytes_contain(text, "call") || bytes_contain(text, "rollback"));
}

enum listening_go listening_unlisten_before(struct client *client, char type, unsigned int touches,
                                            struct bytes text, struct batch *batch)
{
	const struct ledger *ledger = &client->borrower.server->wire.ledger;
	bool is_in_block =
	    ledger->is_open || ledger->is_begun || client->borrower.server->wire.status != 'I';
	bool has_failed = server_is_in_failed_block(client->borrower.server);
	bool may_unlisten = touches & (SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN);
	struct unlisten *last;
	bool is_added;

	if (client->listening->is_ahead ||
	    (!may_unlisten && client->listening->listener.count > HIDDEN_MAX))
		return LISTENING_SEND;
	/* Until then it is not known whether a transaction block is open. */
	if (!ledger_knows_status(ledger))
		return listening_wait(batch, LEDGER_WAIT_READY);
	if (batch->count) /* what is added must stay where it is until it is sent */
		return listening_wait(batch, LEDGER_WAIT_SPACE);
	if (has_failed && !ends_block(text))
		return LISTENING_SEND; /* nothing is executed */
	/* The marks of a block that has failed are gone. */
	is_added = has_failed || !needs_only_mark(client, is_in_block, touches);
	if (is_added && (client->listening->unlisten_count == UNLISTENS_MAX ||
	                 !add_unlisten(client, is_in_block, text, batch)))
		return LISTENING_END;
	last = TAILQ_LAST(&client->listening->unlistens, unlisten_list);
	last->may_roll_back |= may_roll_back(client->borrower.server, text);
	if (is_in_block && may_unlisten && (last->is_all || last->is_unsure || last->has_end))
		set_after(client, type);
	if (is_added && is_in_block && type == 'Q' && (has_failed || !ledger->is_open))
		watch_end(client);
	client->listening->is_ahead = true;
	return LISTENING_SEND;
}

/* ---- the end of the transaction ---- */

/* Removes those channels of a list that the server does not listen to now. */
static void remove_missing(struct client_listening *listening, struct bytes channels,
                           const struct listening_names *names)
{
	const char *name;

	while (bytes_take_text(&channels, &name)) {
		if (!listening_names_have(names, name))
			listening_remove(&listening->listener, bytes_text(name));
	}
}

static void remove_others(struct client_listening *listening, const struct listening_names *names)
{
	struct listener *listener = &listening->listener;
	const struct subscription *at = NULL;
	const char *name = listening_next(listener, &at);

	while (name) {
		struct bytes removed = bytes_text(name);

		name = listening_next(listener, &at);
		if (!listening_names_have(names, removed.at))
			listening_remove(listener, removed);
	}
}

static void remove_behind(struct client_listening *listening, const struct behind *behind,
                          const struct listening_names *names)
{
	if (behind->is_all)
		remove_others(listening, names);
	else
		remove_missing(listening, buf_bytes(&behind->named), names);
}

/* What one text has done, according to the marks among the server's channels. */
static void judge_unlisten(struct client_listening *listening, const struct unlisten *unlisten,
                           const struct listening_names *names)
{
	char mark[MARK_SIZE];
	bool is_before =
	    listening_names_have(names, mark_name(listening, unlisten->number, 'b', mark));
	bool is_after =
	    listening_names_have(names, mark_name(listening, unlisten->number, 'a', mark));
	bool is_committed = unlisten->is_committed && (unlisten->is_all || unlisten->is_unsure);

	if (unlisten->has_failed)
		return; /* better one notification too many than one lost */
	if (unlisten->has_no_marks) {
		/* what is before the end was not committed here */
	} else if (is_before) {
		remove_missing(listening, buf_bytes(&unlisten->channels), names);
		if (unlisten->is_in_block)
			remove_missing(listening, buf_bytes(&unlisten->named), names);
	} else if (!unlisten->is_in_block || is_committed ||
	           (is_after && !unlisten->may_roll_back && !unlisten->has_end)) {
		remove_others(listening, names);
	}
	if (unlisten->is_done)
		remove_behind(listening, &unlisten->done, names);
	if ((unlisten->is_over || is_after) && unlisten->has_end && !unlisten->last.is_unsure)
		remove_behind(listening, &unlisten->last, names);
}

bool listening_unlisten_judge(struct client_listening *listening,
                              const struct listening_names *names)
{
	const struct unlisten *unlisten;
	unsigned int count = listening->listener.count;
	bool is_kept;

	if (listening->is_discarded)
		listening_remove_all(&listening->listener);
	listening->is_discarding = listening->is_discarded = false;
	note_end(listening->client);
	TAILQ_FOREACH (unlisten, &listening->unlistens, node)
		judge_unlisten(listening, unlisten, names);
	forget_unlistens(listening);
	is_kept = listening->listener.count == count || listening_deliver_drop(listening);
	listening->is_caught_up = false;
	listening->sure_count = 0;
	return is_kept;
}

void listening_unlisten_free(struct client_listening *listening)
{
	forget_aheads(listening);
	forget_unlistens(listening);
}
