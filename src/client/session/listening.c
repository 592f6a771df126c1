/* SPDX-License-Identifier: ISC */
/*
 * What is done before a message of a client is sent, and with the ReadyForQuery behind it, because
 * of LISTEN, UNLISTEN and NOTIFY: see listening_priv.h.
 */
#include "listening_priv.h"

#include <stdlib.h>

#include "pgweir/pgwire/sql_touch.h"

#include "listening_change_priv.h"
#include "listening_unlisten_priv.h"

#define MAY_NOTIFY (SQL_TOUCH_NOTIFY | SQL_TOUCH_HIDDEN | SQL_TOUCH_WRITE) /* by triggers */

/*
 * Waits for all notifications that were committed before. For NOTIFY: those of the server's former
 * borrower must have come before those of this one. For UNLISTEN: PostgreSQL would have sent them
 * before it reads the text.
 */
static enum listening_go catch_up(struct client *client, struct batch *batch)
{
	struct client_listening *listening = client->listening;

	if (listening->step == STEP_NONE) {
		listening->step = STEP_BEFORE;
		listening_ask(&listening->listener);
	}
	return listening_wait(batch, LEDGER_WAIT_NOT);
}

/*
 * DISCARD ALL runs outside of transaction blocks only, so nothing can be sent with it, and it has
 * an effect if it succeeds.
 */
static bool is_discard(unsigned int touches)
{
	return (touches & SQL_TOUCH_UNLISTEN) && (touches & SQL_TOUCH_FORGET);
}

void listening_discarded(struct client *client)
{
	if (client->listening && client->listening->is_discarding)
		client->listening->is_discarded = true;
}

/* Begins to withhold the ReadyForQuery. */
static enum listening_go hold_ready(struct client *client, struct batch *batch)
{
	struct server *server = client->borrower.server;

	if (client->touched & LISTENING_HOLDS)
		return LISTENING_SEND;
	/* Not one of an earlier transaction: it would be withheld while this one is answered. */
	if (!ledger_knows_status(&server->ledger))
		return listening_wait(batch, LEDGER_WAIT_READY);
	if (!listening_change_get(client))
		return LISTENING_END;
	client->touched |= LISTENING_HOLDS;
	server->watches |= SERVER_WATCHES_READY;
	return LISTENING_SEND;
}

/* The ReadyForQuery is withheld, and the client has notifications of its own before it. */
static enum listening_go before_any(struct client *client, unsigned int touches,
                                    struct batch *batch)
{
	bool has_any = listening_has_any(client), may_notify = has_any && (touches & MAY_NOTIFY);
	bool unlistens = has_any && (touches & SQL_TOUCH_UNLISTEN);
	enum listening_go go = LISTENING_SEND;

	if ((touches & SQL_TOUCH_LISTEN) || may_notify || unlistens)
		go = hold_ready(client, batch);
	if (go != LISTENING_SEND || !has_any)
		return go;
	client->listening->may_notify |= may_notify;
	if ((unlistens && !client->listening->is_caught_up) ||
	    (may_notify && !client->listening->is_clear))
		return catch_up(client, batch);
	return LISTENING_SEND;
}

enum listening_go listening_follow(struct client *client, char type, struct batch *batch)
{
	/* This message would be answered before the ReadyForQuery that is withheld. */
	if ((client->touched & LISTENING_HOLDS) &&
	    !ledger_ends_wait(&client->borrower.server->ledger, LEDGER_WAIT_READY))
		return listening_wait(batch, LEDGER_WAIT_READY);
	return listening_unlisten_follow(client, type, batch);
}

enum listening_go listening_before(struct client *client, char type, unsigned int touches,
                                   struct bytes text, struct batch *batch)
{
	struct server *server = client->borrower.server;
	enum listening_go go = before_any(client, touches, batch);

	if (go != LISTENING_SEND)
		return go;
	if (touches & (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN))
		server->watches |= SERVER_WATCHES_NOTIFICATIONS;
	if (!listening_has_any(client))
		return LISTENING_SEND;
	if (is_discard(touches)) {
		client->listening->is_discarding = true;
		return LISTENING_SEND;
	}
	if (touches & (SQL_TOUCH_LISTEN | SQL_TOUCH_UNLISTEN | SQL_TOUCH_HIDDEN))
		go = listening_unlisten_before(client, type, touches, text, batch);
	return go;
}

void listening_sent(struct client *client)
{
	if (client->listening)
		client->listening->is_ahead = false;
}

bool listening_holds(struct client *client)
{
	if (!client->listening || !(client->touched & LISTENING_HOLDS))
		return false;
	client->listening->is_withheld = true;
	return true;
}

bool listening_waits(struct client *client)
{
	struct client_listening *listening = client->listening;
	bool may_notify = listening && listening->may_notify;

	if (!listening)
		return false;
	client->borrower.server->watches &= (uint8_t)~SERVER_WATCHES_READY;
	listening->may_notify = false;
	unread_done(&listening->lent);
	if (!may_notify || !listening->is_withheld || !listening_has_any(client))
		return false;
	listening->step = STEP_AFTER;
	listening_ask(&listening->listener);
	return true;
}

void listening_free(struct client *client)
{
	struct client_listening *listening = client->listening;

	if (!listening)
		return;
	client->listening = NULL;
	timer_clear(&listening->timer);
	listening_leave(&listening->listener);
	listening_unlisten_free(listening);
	unread_done(&listening->unread);
	unread_done(&listening->lent);
	buf_free(&listening->ahead);
	free(listening);
}
