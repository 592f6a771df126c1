/* SPDX-License-Identifier: ISC */
/*
 * Parameters of a client's startup packet that its statements set back.
 *
 * PostgreSQL sets a parameter back to the server's own value, as it does not know the client's. So
 * within a transaction block the client's value is set behind that statement, before the client's
 * next one. After a transaction the server is asked, and gets the client's values again. And the
 * client gets no ParameterStatus with the server's value, which it does not have.
 */
#ifndef PGWEIR_CLIENT_SESSION_RESETS_PRIV_H
#define PGWEIR_CLIENT_SESSION_RESETS_PRIV_H

#include "listening_priv.h"
#include "session_priv.h"

static inline bool resets_are_followed(const struct client *client)
{
	return client->touched & RESETS_FOLLOWED;
}

/*
 * A text that may set parameters back (SQL_TOUCH_DEFAULT) is about to be sent; client->session
 * exists. may_refuse: false is returned, with *err, if statements in the same text would run with
 * the server's values.
 */
bool resets_use(struct client *client, struct bytes text, bool may_refuse, struct err *err);

/* An Execute is sent. */
static inline void resets_execute(struct client *client)
{
	if (client->touched & RESETS_WAIT)
		client->touched ^= RESETS_WAIT | RESETS_DUE;
}

/* Adds what must run between such a text and the next frame, which has this type. */
enum judgement resets_follow(struct client *client, char type, struct batch *batch);

/* A ParameterStatus. false: it is forwarded. true: what was added to `instead` is. */
bool resets_take_report(struct borrower *borrower, const char *name, const char *value,
                        struct buf *instead);

/*
 * A ReadyForQuery comes: adds a ParameterStatus for each parameter that the text has set back, if
 * the client knows another value. PostgreSQL has reported none if the client's value was that of
 * the server.
 */
void resets_tell(struct borrower *borrower, struct buf *ahead);

/*
 * Which parameters of the startup packet the texts of the transaction have set back. A custom
 * parameter is "" then, as if the client had set that.
 */
const struct params *resets_back(const struct client *client);

/* The client's map before the transaction; NULL: a text was not read, and may have set any back. */
const struct params *resets_before(const struct client *client);

/*
 * The transaction has ended, and the server was asked: the client gets a ParameterStatus for each
 * parameter of the startup packet that was set back in a way that no text shows. before: the
 * server's map before the answer.
 */
void resets_tell_hidden(struct client *client, const struct params *before);

/* The server's parameters are known: corrects what the client was told. */
void resets_settle(struct client *client);

void resets_free(struct client *client);

#endif
