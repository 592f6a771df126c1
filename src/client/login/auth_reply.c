/* SPDX-License-Identifier: ISC */
/*
 * Parses what a server replies to auth_query.
 *
 * Hard here: nothing but a correct answer must become one. So AUTH_REPLY_USER needs all of
 * these: a row of two columns with a name, no row that differs from it, and a query that
 * completed without an error. If the secret is NULL, the user has no secret.
 */
#include "auth_reply_priv.h"

#include <stdlib.h>

#include "pgweir/auth/digest.h"
#include "pgweir/auth/secret.h"
#include "pgweir/auth/users.h"
#include "pgweir/pgwire/fields.h"

#define FRAME_MAX ((uint32_t)USER_SECRET_MAX + 8 * 1024) /* of a row or an error */

static void fail_reply(struct auth_reply *replies, const char *reason)
{
	replies->verdict = AUTH_REPLY_BAD;
	err_set(&replies->why, ERR_CONFIG, "%s", reason);
}

static bool copy(struct bytes value, size_t max, char **text)
{
	if (value.count > max || memchr(value.at, 0, value.count))
		return false;
	*text = strndup(value.at, value.count);
	return *text != NULL;
}

static bool same(struct bytes value, const char *text)
{
	return value.at && text ? bytes_equal(value, bytes_text(text)) : !value.at && !text;
}

static void first_row(struct auth_reply *replies, struct bytes name, struct bytes secret)
{
	replies->has_row = true;
	if (!name.at)
		replies->verdict = AUTH_REPLY_NOBODY;
	else if (name.count == 0)
		fail_reply(replies, "the name in its row is empty");
	else if (!copy(name, USER_NAME_MAX, &replies->name))
		fail_reply(replies, "the name in its row is too long");
	else if (secret.at && !copy(secret, USER_SECRET_MAX, &replies->secret))
		fail_reply(replies, "the secret in its row is too long");
	else
		replies->verdict = AUTH_REPLY_USER;
}

static void take_row(struct auth_reply *replies, struct bytes body)
{
	struct bytes name = { 0 }, secret = { 0 };
	struct row_walk walk;

	if (fields_row(body, &walk) != WIRE_OK)
		fail_reply(replies, "a broken row");
	else if (walk.left != 2)
		fail_reply(replies, "it must have two columns: name and secret");
	else if (fields_value(&walk, &name) != WALK_ITEM ||
	         fields_value(&walk, &secret) != WALK_ITEM)
		fail_reply(replies, "a broken row");
	else if (!replies->has_row)
		first_row(replies, name, secret);
	else if (!same(name, replies->name) || (name.at && !same(secret, replies->secret)))
		fail_reply(replies, "it has several rows for one user");
}

/*
 * PostgreSQL could not convert the name (class 22: wrong encoding, not a number): then
 * there is no such user. Any other error is a fault of the query, or of its rights.
 */
static void take_error(struct auth_reply *replies, struct bytes body)
{
	struct report report = { .sqlstate = "", .text = "" };

	replies->is_done = true;
	fields_report(body, &report);
	if (strncmp(report.sqlstate, "22", 2) == 0) {
		replies->verdict = AUTH_REPLY_NOBODY;
		return;
	}
	replies->verdict = AUTH_REPLY_BAD;
	err_set_foreign(&replies->why, report.sqlstate, report.text);
}

static void take_frame(struct auth_reply *replies, char type, struct bytes body)
{
	if (replies->verdict == AUTH_REPLY_BAD)
		return; /* the first reason is kept */
	switch (type) {
	case 'D':
		take_row(replies, body);
		return;
	case 'E':
		take_error(replies, body);
		return;
	case 'C':
		replies->is_done = true;
		return;
	case 'I':
		fail_reply(replies, "it is empty");
		return;
	case 's':
		fail_reply(replies, "it has too many rows for one user");
		return;
	default:
		return; /* ParseComplete, notices and similar messages */
	}
}

void auth_reply_take(struct auth_reply *replies, struct bytes bytes)
{
	struct bytes in;

	buf_add(&replies->kept, bytes.at, bytes.count);
	in = buf_bytes(&replies->kept);
	while (in.count && buf_ok(&replies->kept)) {
		struct frame frame;
		enum wire_result result = frame_peek(in, FRAME_MAX, &frame);

		if (result == WIRE_BAD) {
			/* The end of this message is unknown, so the rest is dropped. */
			fail_reply(replies, "a message of its answer is too long");
			in = bytes_skip(in, in.count);
			break;
		}
		if (result == WIRE_MORE || in.count < frame.length)
			break;
		take_frame(replies, frame.type, frame_body(in, &frame));
		in = bytes_skip(in, frame.length);
	}
	if (!buf_ok(&replies->kept))
		fail_reply(replies, "out of memory");
	/* Wipe the buffer: it contained secrets. */
	if (replies->kept.at && in.count == 0)
		buf_wipe(&replies->kept);
	else
		buf_drop(&replies->kept, replies->kept.count - in.count);
}

enum auth_reply_verdict auth_reply_end(struct auth_reply *replies)
{
	if (replies->verdict != AUTH_REPLY_BAD && !replies->is_done)
		fail_reply(replies, "it did not come to its end");
	else if (replies->verdict == AUTH_REPLY_NONE)
		replies->verdict = AUTH_REPLY_NOBODY; /* the query returned no row */
	return replies->verdict;
}

void auth_reply_done(struct auth_reply *replies)
{
	buf_wipe(&replies->kept);
	secret_free(&replies->name);
	secret_free(&replies->secret);
	*replies = (struct auth_reply){ 0 };
}
