/* SPDX-License-Identifier: ISC */
/*
 * pool/listening.c, with pools and a scripted server: what the listening connection sends, who gets
 * a notification, and how it ends.
 */
#include "../../lib/engine.h"

#include <stdio.h>

#include "pgweir/base/container_of.h"
#include "pgweir/pgwire/message.h"
#include "pgweir/pool/listening.h"

#include "../unit.h"

/* A listener that records its calls. */
struct ear {
	struct listener listener;
	struct engine *engine;
	bool leaves; /* at its next notification */
	char heard[1024];
};

static struct ear *ear_of(struct listener *listener)
{
	return container_of(listener, struct ear, listener);
}

static void write_down(struct ear *ear, const char *words)
{
	size_t used = strlen(ear->heard);

	snprintf(ear->heard + used, sizeof(ear->heard) - used, "%s ", words);
}

static void on_answer(struct listener *listener) { write_down(ear_of(listener), "answer"); }

static void on_notification(struct listener *listener, const struct notification *notification)
{
	struct ear *ear = ear_of(listener);
	char words[256];

	snprintf(words, sizeof(words), "%s=%s/%u%s", notification->channel,
	         notification->channel + strlen(notification->channel) + 1, notification->pid,
	         notification->is_ascii ? "" : "!");
	write_down(ear, words);
	if (ear->leaves)
		listening_leave(listener);
}

static void on_lost(struct listener *listener, const struct err *err)
{
	write_down(ear_of(listener), err->sqlstate);
	write_down(ear_of(listener), err->text);
}

static const struct listener_ops ops = { on_answer, on_notification, on_lost };

/* ---- the server ---- */

struct talk {
	struct engine engine;
	struct pool *pool;
	struct peer server;
	char query[4096]; /* the last query */
	struct ear ears[3];
};

static void see(struct peer *peer, char type, struct bytes message)
{
	struct talk *talk = peer->arg;

	if (type == 'Q')
		snprintf(talk->query, sizeof(talk->query), "%s", message.at + 5);
}

static void talk_open(struct talk *talk, const char *settings)
{
	*talk = (struct talk){ .server.fd = -1 };
	engine_open(&talk->engine, settings, "");
	talk->pool = pools_pool(pools_find_database(talk->engine.pools, "d0"), "u0");
	for (size_t i = 0; i < COUNT_OF(talk->ears); i++)
		talk->ears[i] = (struct ear){ .listener.ops = &ops, .engine = &talk->engine };
}

static void talk_accept(struct talk *talk)
{
	engine_turn(&talk->engine);
	talk->server = engine_server(&talk->engine);
	ck_assert_int_ge(talk->server.fd, 0);
	talk->server.see = see;
	talk->server.arg = talk;
	ck_assert_str_eq(peer_hear(&talk->engine, &talk->server), "^");
	peer_say(&talk->server, "RKZ");
	engine_turn(&talk->engine);
}

/* The server's next messages; the text of its query is in talk->query. */
static const char *hears(struct talk *talk)
{
	*talk->query = 0;
	return peer_hear(&talk->engine, &talk->server);
}

static void add_notification(struct buf *out, uint32_t pid, const char *channel,
                             const char *payload)
{
	size_t at = message_begin(out, 'A');

	buf_add_be32(out, pid);
	buf_add_cstr(out, channel);
	buf_add_cstr(out, payload);
	message_end(out, at);
}

static void notify(struct talk *talk, const char *channel, const char *payload)
{
	struct buf out = { 0 };

	add_notification(&out, 7, channel, payload);
	peer_say_bytes(&talk->server, buf_bytes(&out));
	buf_free(&out);
	engine_turn(&talk->engine);
}

/* Listens to this channel. */
static void begin(struct talk *talk, struct ear *ear, const char *channel)
{
	ck_assert(listening_join(&ear->listener, talk->pool, ""));
	ck_assert(listening_add(&ear->listener, bytes_text(channel), SUBSCRIPTION_NEW));
	listening_ask(&ear->listener);
	if (talk->server.fd < 0)
		talk_accept(talk);
	ck_assert_str_eq(hears(talk), "Q");
	peer_say(&talk->server, "CZ");
	engine_turn(&talk->engine);
	ck_assert_str_eq(ear->heard, "answer ");
	*ear->heard = 0;
}

static void talk_close(struct talk *talk)
{
	for (size_t i = 0; i < COUNT_OF(talk->ears); i++)
		listening_leave(&talk->ears[i].listener);
	engine_turn(&talk->engine);
	peer_close(&talk->server);
	engine_close(&talk->engine);
}

START_TEST(one_connection_for_all)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];
	static const char rest[] = ";LISTEN \"x\";LISTEN \"y\"\"z\";";
	const char *at;

	talk_open(&talk, "default_pool_size=1");
	ck_assert(listening_join(&a->listener, talk.pool, ""));
	ck_assert(listening_join(&b->listener, talk.pool, ""));
	ck_assert(listening_add(&a->listener, bytes_text("x"), SUBSCRIPTION_NEW));
	ck_assert(listening_add(&b->listener, bytes_text("y\"z"), SUBSCRIPTION_NEW));
	listening_ask(&a->listener);
	listening_ask(&b->listener);
	talk_accept(&talk);
	ck_assert_str_eq(hears(&talk), "Q");
	ck_assert_int_eq(strncmp(talk.query, "LISTEN \"pgweir_", 15), 0);
	at = strchr(talk.query, ';');
	ck_assert_str_eq(at, rest);
	ck_assert_uint_eq(talk.pool->server_count, 0);
	ck_assert_uint_eq(talk.pool->listening_count, 1);
	ck_assert_uint_eq(talk.pool->database->server_count, 1);
	ck_assert_uint_eq(share_servers(&talk.pool->role->cap.share), 1);
	ck_assert_uint_eq(talk.engine.pools->busy_count, 0);
	ck_assert_str_eq(a->heard, "");
	peer_say(&talk.server, "CCCZ");
	engine_turn(&talk.engine);
	ck_assert_str_eq(a->heard, "answer ");
	ck_assert_str_eq(b->heard, "answer ");
	talk_close(&talk);
}
END_TEST

START_TEST(each_channel_has_its_listeners)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];

	talk_open(&talk, "");
	begin(&talk, a, "x");
	notify(&talk, "x", "one");
	notify(&talk, "unknown", "nobody's");
	notify(&talk, "x", "tw\xc3\xb6");
	ck_assert_str_eq(a->heard, "x=one/7 x=tw\xc3\xb6/7! ");
	*a->heard = 0;

	/* the second listener of a channel needs no LISTEN */
	ck_assert(listening_join(&b->listener, talk.pool, ""));
	ck_assert(listening_add(&b->listener, bytes_text("x"), SUBSCRIPTION_NEW));
	ck_assert(listening_add(&b->listener, bytes_text("y"), SUBSCRIPTION_NEW));
	listening_ask(&b->listener);
	ck_assert_str_eq(hears(&talk), "Q");
	ck_assert_str_eq(talk.query, "LISTEN \"y\";");
	notify(&talk, "x", "two");
	peer_say(&talk.server, "CZ");
	notify(&talk, "y", "three");
	ck_assert_str_eq(a->heard, "x=two/7 ");
	ck_assert_str_eq(b->heard, "x=two/7 answer y=three/7 ");
	talk_close(&talk);
}
END_TEST

START_TEST(what_nobody_has_is_unlistened)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];

	talk_open(&talk, "");
	begin(&talk, a, "x");
	begin(&talk, b, "x");
	listening_set(&a->listener, bytes_text("x"), SUBSCRIPTION_ON);
	listening_set(&a->listener, bytes_text("x"), SUBSCRIPTION_LEAVING);
	listening_remove(&a->listener, SUBSCRIPTION_LEAVING);
	ck_assert_int_eq(listening_state(&a->listener, bytes_text("x")), SUBSCRIPTION_NONE);
	ck_assert_str_eq(hears(&talk), "");
	notify(&talk, "x", "for b");
	ck_assert_str_eq(a->heard, "");
	ck_assert_str_eq(b->heard, "x=for b/7 ");
	listening_remove(&b->listener, SUBSCRIPTION_NEW);
	ck_assert_str_eq(hears(&talk), "Q");
	ck_assert_str_eq(talk.query, "UNLISTEN \"x\";");

	/* asked for again before the answer: nothing is lost */
	ck_assert(listening_add(&a->listener, bytes_text("x"), SUBSCRIPTION_NEW));
	listening_ask(&a->listener);
	ck_assert_str_eq(hears(&talk), "");
	peer_say(&talk.server, "CZ");
	ck_assert_str_eq(hears(&talk), "Q");
	ck_assert_str_eq(talk.query, "LISTEN \"x\";");
	ck_assert_str_eq(a->heard, "");
	peer_say(&talk.server, "CZ");
	engine_turn(&talk.engine);
	ck_assert_str_eq(a->heard, "answer ");

	/* removed and added in one turn: no query at all */
	listening_remove(&a->listener, SUBSCRIPTION_NEW);
	ck_assert(listening_add(&a->listener, bytes_text("x"), SUBSCRIPTION_NEW));
	ck_assert_str_eq(hears(&talk), "");
	talk_close(&talk);
}
END_TEST

/* An answer says that everything was done that was asked before its query was sent. */
START_TEST(an_answer_is_for_what_was_asked_before)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];

	talk_open(&talk, "");
	begin(&talk, a, "x");
	begin(&talk, b, "x");
	listening_ask(&a->listener);
	ck_assert_str_eq(hears(&talk), "Q");
	ck_assert_str_eq(talk.query, "");
	listening_ask(&b->listener);
	ck_assert_str_eq(hears(&talk), "");
	notify(&talk, "x", "1");
	peer_say(&talk.server, "IZ");
	ck_assert_str_eq(hears(&talk), "Q");
	ck_assert_str_eq(a->heard, "x=1/7 answer ");
	ck_assert_str_eq(b->heard, "x=1/7 ");
	peer_say(&talk.server, "IZ");
	engine_turn(&talk.engine);
	ck_assert_str_eq(b->heard, "x=1/7 answer ");
	talk_close(&talk);
}
END_TEST

START_TEST(one_that_leaves_disturbs_no_other)
{
	struct talk talk;

	talk_open(&talk, "");
	for (size_t i = 0; i < COUNT_OF(talk.ears); i++)
		begin(&talk, &talk.ears[i], "x");
	talk.ears[0].leaves = talk.ears[1].leaves = true;
	notify(&talk, "x", "1");
	notify(&talk, "x", "2");
	ck_assert_str_eq(talk.ears[0].heard, "x=1/7 ");
	ck_assert_str_eq(talk.ears[1].heard, "x=1/7 ");
	ck_assert_str_eq(talk.ears[2].heard, "x=1/7 x=2/7 ");
	listening_leave(&talk.ears[2].listener);
	ck_assert_str_eq(hears(&talk), "X.");
	ck_assert_uint_eq(talk.pool->listening_count, 0);
	ck_assert(TAILQ_EMPTY(&talk.pool->listenings));

	/* and the next one gets a new connection */
	peer_close(&talk.server);
	*talk.ears[0].heard = 0;
	talk.ears[0].leaves = false;
	begin(&talk, &talk.ears[0], "x");
	notify(&talk, "x", "3");
	ck_assert_str_eq(talk.ears[0].heard, "x=3/7 ");
	talk_close(&talk);
}
END_TEST

/* Cut anywhere, the messages are the same. */
START_TEST(notifications_come_in_pieces)
{
	struct talk talk;
	struct ear *a = &talk.ears[0];
	struct buf out = { 0 };

	talk_open(&talk, "");
	begin(&talk, a, "x");
	for (int i = 0; i < 3; i++)
		add_notification(&out, 7, "x", "payload");
	for (size_t i = 0; i < out.count; i++) {
		peer_say_bytes(&talk.server, bytes_of(out.at + i, 1));
		engine_turn(&talk.engine);
	}
	ck_assert_str_eq(a->heard, "x=payload/7 x=payload/7 x=payload/7 ");
	buf_free(&out);
	talk_close(&talk);
}
END_TEST

#define LOST "08006 the listening connection was lost: "

static const struct {
	const char *says;
	const char *messages; /* of the server, in answer to a query; NULL: none */
	bool is_closed;
	const char *heard; /* after the words for all losses */
} ends[] = {
	{ "it closes the connection", NULL, true, "server conn crashed? " },
	{ "it refuses LISTEN", "EZ", false, "server said: ERROR no " },
	{ "it ends with a FATAL error", "!", true, "server said: FATAL bye " },
	{ "it is out of step", "CZZ", false, "unexpected message from server: out of step " },
};

START_TEST(a_loss_ends_all_listeners)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];

	talk_open(&talk, "");
	begin(&talk, a, "x");
	begin(&talk, b, "y");
	*a->heard = *b->heard = 0;
	listening_ask(&a->listener);
	ck_assert_str_eq(hears(&talk), "Q");
	if (ends[_i].messages)
		peer_say(&talk.server, ends[_i].messages);
	if (ends[_i].is_closed)
		peer_close(&talk.server);
	engine_turn(&talk.engine);
	ck_assert_msg(strncmp(b->heard, LOST, sizeof(LOST) - 1) == 0 &&
	                  strcmp(b->heard + sizeof(LOST) - 1, ends[_i].heard) == 0,
	              "%s: %s", ends[_i].says, b->heard);
	ck_assert_msg(strstr(a->heard, LOST) != NULL, "%s: %s", ends[_i].says, a->heard);
	ck_assert_ptr_null(a->listener.listening);
	ck_assert(TAILQ_EMPTY(&talk.pool->listenings));
	talk_close(&talk);
}
END_TEST

static const struct {
	const char *says;
	const char *channel, *payload;
	size_t cut; /* bytes that are missing at the end */
} broken[] = {
	{ "no texts", "", "", 2 },
	{ "no payload", "x", "", 1 },
	{ "no end of the payload", "x", "one", 1 },
	{ "no process id", "", "", 4 },
};

START_TEST(a_broken_notification_ends_the_connection)
{
	struct talk talk;
	struct ear *a = &talk.ears[0];
	struct buf out = { 0 };

	talk_open(&talk, "");
	begin(&talk, a, "x");
	add_notification(&out, 7, broken[_i].channel, broken[_i].payload);
	out.count -= broken[_i].cut;
	store_be32(out.at + 1, (uint32_t)out.count - 1);
	peer_say_bytes(&talk.server, buf_bytes(&out));
	buf_free(&out);
	engine_turn(&talk.engine);
	ck_assert_msg(strncmp(a->heard, LOST, sizeof(LOST) - 1) == 0, "%s: %s", broken[_i].says,
	              a->heard);
	talk_close(&talk);
}
END_TEST

START_TEST(a_refused_login_ends_the_listeners)
{
	struct talk talk;
	struct ear *a = &talk.ears[0];

	talk_open(&talk, "");
	ck_assert(listening_join(&a->listener, talk.pool, ""));
	listening_ask(&a->listener);
	engine_turn(&talk.engine);
	talk.server = engine_server(&talk.engine);
	peer_hear(&talk.engine, &talk.server);
	peer_say(&talk.server, "?");
	engine_turn(&talk.engine);
	ck_assert_msg(strncmp(a->heard, LOST, sizeof(LOST) - 1) == 0, "%s", a->heard);
	talk_close(&talk);
}
END_TEST

START_TEST(one_that_leaves_during_the_login)
{
	struct talk talk;
	struct ear *a = &talk.ears[0];

	talk_open(&talk, "");
	ck_assert(listening_join(&a->listener, talk.pool, ""));
	listening_ask(&a->listener);
	engine_turn(&talk.engine);
	talk.server = engine_server(&talk.engine);
	ck_assert_str_eq(peer_hear(&talk.engine, &talk.server), "^");
	ck_assert_uint_eq(talk.pool->listening_login_count, 1);
	listening_leave(&a->listener);
	ck_assert_str_eq(peer_hear(&talk.engine, &talk.server), ".");
	ck_assert_uint_eq(talk.pool->listening_count, 0);
	ck_assert_uint_eq(talk.pool->listening_login_count, 0);
	ck_assert_str_eq(a->heard, "");
	talk_close(&talk);
}
END_TEST

static const char *channel_name(unsigned int number)
{
	static char name[16];

	snprintf(name, sizeof(name), "c%u", number);
	return name;
}

#define MANY 20000U

/*
 * A channel with many listeners, one of which has many channels. The work is linear: each of these
 * would take minutes if it were a walk over one of both.
 */
START_TEST(many_listeners_and_many_channels)
{
	struct ear *crowd = calloc(MANY, sizeof(*crowd));
	struct talk talk;
	struct ear *a = &talk.ears[0];
	size_t found = 0;

	talk_open(&talk, "");
	for (unsigned int i = 0; i < MANY; i++) {
		crowd[i].listener.ops = &ops;
		unit_expect(listening_join(&crowd[i].listener, talk.pool, ""));
		unit_expect(listening_add(&crowd[i].listener, bytes_text(channel_name(0)),
		                          SUBSCRIPTION_ON));
	}
	ck_assert(listening_join(&a->listener, talk.pool, ""));
	for (unsigned int i = 1; i < MANY; i++)
		unit_expect(
		    listening_add(&a->listener, bytes_text(channel_name(i)), SUBSCRIPTION_ON));
	ck_assert(listening_add(&a->listener, bytes_text(channel_name(0)), SUBSCRIPTION_ON));
	for (unsigned int i = 0; i < 25 * MANY; i++)
		found +=
		    listening_state(&a->listener, bytes_text(channel_name(0))) == SUBSCRIPTION_ON;
	ck_assert_uint_eq(found, (size_t)25 * MANY);
	for (unsigned int i = 0; i < 10 * MANY; i++) {
		const char *name = channel_name(i % MANY);

		listening_set(&a->listener, bytes_text(name), SUBSCRIPTION_LEAVING);
		listening_remove(&a->listener, SUBSCRIPTION_LEAVING);
		unit_expect(listening_add(&a->listener, bytes_text(name), SUBSCRIPTION_ON));
	}
	ck_assert_uint_eq(a->listener.count, MANY);
	listening_leave(&a->listener);
	for (unsigned int i = 0; i < MANY; i++)
		listening_leave(&crowd[i].listener);
	free(crowd);
	talk_close(&talk);
}
END_TEST

/* Each client_encoding has a connection of its own. */
START_TEST(encodings_are_kept_apart)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];

	talk_open(&talk, "");
	begin(&talk, a, "x");
	ck_assert(listening_join(&b->listener, talk.pool, "LATIN1"));
	ck_assert_str_eq(listening_encoding(&b->listener), "LATIN1");
	engine_turn(&talk.engine);
	ck_assert_uint_eq(talk.pool->listening_count, 2);
	listening_leave(&b->listener);
	engine_turn(&talk.engine);
	ck_assert_uint_eq(talk.pool->listening_count, 1);
	talk_close(&talk);
}
END_TEST

/* The only permit is that of another listening connection: the listener would wait for its end. */
START_TEST(what_no_permit_is_left_for_is_refused)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];

	talk_open(&talk, "max_db_connections=1");
	begin(&talk, a, "x");
	ck_assert(listening_join(&b->listener, talk.pool, "LATIN1"));
	engine_turn(&talk.engine);
	ck_assert_uint_eq(talk.pool->listening_count, 1);
	ck_assert_ptr_nonnull(strstr(b->heard, "08006 LISTEN needs one more server connection"));
	ck_assert_ptr_null(b->listener.listening);
	listening_leave(&a->listener);
	ck_assert_str_eq(hears(&talk), "X.");
	ck_assert(listening_join(&b->listener, talk.pool, "LATIN1"));
	engine_turn(&talk.engine);
	ck_assert_uint_eq(talk.pool->listening_count, 1);
	ck_assert_uint_eq(talk.pool->stuck_count, 1);
	talk_close(&talk);
	ck_assert_uint_eq(a->heard[0], 0);
}
END_TEST

/* ---- replaced by a successor ---- */

/* RECONNECT: the successor has logged in, and its first query is in talk->query. */
static struct peer succeed(struct talk *talk)
{
	struct peer next;

	pools_reconnect(talk->engine.pools, NULL);
	engine_turn(&talk->engine);
	next = engine_server(&talk->engine);
	ck_assert_int_ge(next.fd, 0);
	next.see = see;
	next.arg = talk;
	ck_assert_str_eq(peer_hear(&talk->engine, &next), "^");
	peer_say(&next, "RKZ");
	engine_turn(&talk->engine);
	*talk->query = 0;
	ck_assert_str_eq(peer_hear(&talk->engine, &next), "Q");
	return next;
}

#define NAME_SIZE 64

struct mark {
	char channel[NAME_SIZE], payload[NAME_SIZE];
};

/* The mark that the successor sends. */
static struct mark mark_of(const struct talk *talk)
{
	const char *at = strstr(talk->query, "NOTIFY pgweir_");
	struct mark mark;

	ck_assert_msg(at != NULL, "%s", talk->query);
	ck_assert_int_eq(sscanf(at, "NOTIFY %63[^,],'%63[^']'", mark.channel, mark.payload), 2);
	return mark;
}

static void notify_on(struct talk *talk, struct peer *peer, const char *channel,
                      const char *payload)
{
	struct buf out = { 0 };

	add_notification(&out, 7, channel, payload);
	peer_say_bytes(peer, buf_bytes(&out));
	buf_free(&out);
	engine_turn(&talk->engine);
}

/*
 * Words of two letters: the old connection or the successor (o, n) gets a notification with this
 * payload; M: its mark; Z: it answers its query; !: it ends.
 */
static void play(struct talk *talk, struct peer *next, const struct mark *mark, const char *events)
{
	for (const char *at = events; *at; at += at[2] ? 3 : 2) {
		struct peer *peer = *at == 'n' ? next : &talk->server;
		const char payload[] = { at[1], 0 };

		if (at[1] == 'M')
			notify_on(talk, peer, mark->channel, mark->payload);
		else if (at[1] == 'Z')
			peer_say(peer, "CZ");
		else if (at[1] == '!')
			peer_close(peer);
		else
			notify_on(talk, peer, "x", payload);
		engine_turn(&talk->engine);
	}
}

static const struct {
	const char *says;
	const char *events; /* after the successor was asked for the mark */
	const char *heard;
} replacements[] = {
	{ "both at the same time", "o1 n1 o2 n2 oM nM n3 nZ n4", "x=1/7 x=2/7 x=3/7 x=4/7 " },
	{ "the successor is late", "o1 o2 oM o3 o4 n1 n2 nM nZ n3 n4 n5",
	  "x=1/7 x=2/7 x=3/7 x=4/7 x=5/7 " },
	{ "the old one is late", "n1 n2 nM n3 nZ n4 o1 o2 oM n5",
	  "x=1/7 x=2/7 x=3/7 x=4/7 x=5/7 " },
	{ "nothing but the mark on the old one", "nM n1 n2 oM nZ", "x=1/7 x=2/7 " },
	{ "nothing but the mark on both", "nM nZ oM", "" },
	{ "the successor ends before the mark", "o1 n1 n! o2 o3", "x=1/7 x=2/7 x=3/7 " },
	{ "it ends before the mark has come on the old one", "nM n2 n! o1 oM o2 o3",
	  "x=1/7 x=2/7 x=3/7 " },
	{ "it ends when the old one's notifications do not count any more", "o1 oM o2 n!",
	  "x=1/7 08006 the listening connection was lost: server conn crashed? " },
	{ "the old one ends", "o1 nM n2 o!",
	  "x=1/7 08006 the listening connection was lost: server conn crashed? " },
	{ "the old one is at another server", "o1 nM nZ oZ",
	  "x=1/7 08006 the listening connection was lost: its successor is connected to another "
	  "server or database " },
};

START_TEST(a_successor_begins_at_the_mark)
{
	struct talk talk;
	struct ear *a = &talk.ears[0];
	struct peer next;
	struct mark mark;

	talk_open(&talk, "");
	begin(&talk, a, "x");
	next = succeed(&talk);
	ck_assert_uint_eq(talk.pool->listening_count, 2);
	mark = mark_of(&talk);
	play(&talk, &next, &mark, replacements[_i].events);
	ck_assert_msg(strcmp(a->heard, replacements[_i].heard) == 0, "%s: %s",
	              replacements[_i].says, a->heard);
	ck_assert_uint_le(talk.pool->listening_count, 1);
	talk_close(&talk);
	peer_close(&next);
}
END_TEST

/* What changes while the successor executes LISTEN, waits for the mark. */
START_TEST(a_successor_gets_new_channels)
{
	struct talk talk;
	struct ear *a = &talk.ears[0], *b = &talk.ears[1];
	char query[256];
	struct peer next;
	struct mark mark;

	talk_open(&talk, "");
	begin(&talk, a, "x");
	begin(&talk, b, "old");
	next = succeed(&talk);
	mark = mark_of(&talk);
	snprintf(query, sizeof(query), "LISTEN \"%s\";LISTEN \"x\";LISTEN \"old\";NOTIFY %s,'%s'",
	         mark.channel, mark.channel, mark.payload);
	ck_assert_str_eq(talk.query, query);
	listening_leave(&b->listener);
	ck_assert(listening_add(&a->listener, bytes_text("new"), SUBSCRIPTION_NEW));
	listening_ask(&a->listener);
	ck_assert_str_eq(hears(&talk), "");
	play(&talk, &next, &mark, "oM nM nZ");
	ck_assert_str_eq(a->heard, "");
	*talk.query = 0;
	ck_assert_str_eq(peer_hear(&talk.engine, &next), "Q");
	ck_assert_str_eq(talk.query, "UNLISTEN \"old\";LISTEN \"new\";");
	ck_assert_str_eq(hears(&talk), "X.");
	peer_say(&next, "CZ");
	engine_turn(&talk.engine);
	ck_assert_str_eq(a->heard, "answer ");
	talk_close(&talk);
	peer_close(&next);
}
END_TEST

/* The old connection's answer behind the mark says nothing about what the successor delivers. */
START_TEST(a_query_in_progress_is_asked_again)
{
	struct talk talk;
	struct ear *a = &talk.ears[0];
	struct peer next;
	struct mark mark;

	talk_open(&talk, "");
	begin(&talk, a, "x");
	listening_ask(&a->listener);
	ck_assert_str_eq(hears(&talk), "Q");
	next = succeed(&talk);
	mark = mark_of(&talk);
	play(&talk, &next, &mark, "oM o1 oZ n1");
	ck_assert_str_eq(a->heard, "");
	play(&talk, &next, &mark, "nM n2 nZ");
	ck_assert_str_eq(a->heard, "x=2/7 ");
	ck_assert_str_eq(peer_hear(&talk.engine, &next), "Q");
	play(&talk, &next, &mark, "n3 nZ");
	ck_assert_str_eq(a->heard, "x=2/7 x=3/7 answer ");
	talk_close(&talk);
	peer_close(&next);
}
END_TEST

/* What the successor gets while the old connection is late has a limit; the old one stays. */
START_TEST(a_flood_ends_the_successor)
{
	static char payload[60000];
	struct talk talk;
	struct ear *a = &talk.ears[0];
	struct peer next;
	struct mark mark;

	memset(payload, 'x', sizeof(payload) - 1);
	talk_open(&talk, "");
	begin(&talk, a, "x");
	next = succeed(&talk);
	mark = mark_of(&talk);
	play(&talk, &next, &mark, "nM");
	for (int i = 0; i < 150 && talk.pool->listening_count == 2; i++)
		notify_on(&talk, &next, "x", payload);
	ck_assert_uint_eq(talk.pool->listening_count, 1);
	play(&talk, &next, &mark, "o1 oM o2");
	ck_assert_str_eq(a->heard, "x=1/7 x=2/7 ");
	talk_close(&talk);
	peer_close(&next);
}
END_TEST

START_TEST(a_limit_delays_the_successor)
{
	struct talk talk;
	struct ear *a = &talk.ears[0];
	struct peer next;

	talk_open(&talk, "max_db_connections=1");
	begin(&talk, a, "x");
	pools_reconnect(talk.engine.pools, NULL);
	engine_turn(&talk.engine);
	next = engine_server(&talk.engine);
	ck_assert_int_eq(next.fd, -1);
	notify(&talk, "x", "1");
	ck_assert_str_eq(a->heard, "x=1/7 ");
	engine_reload(&talk.engine, "max_db_connections=2", "");
	engine_turn(&talk.engine);
	next = engine_server(&talk.engine);
	ck_assert_int_ge(next.fd, 0);
	ck_assert_uint_eq(talk.pool->listening_count, 2);
	talk_close(&talk);
	peer_close(&next);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/listening");
	TCase *tcase = tcase_create("listening");

	tcase_set_timeout(tcase, 20);
	tcase_add_test(tcase, one_connection_for_all);
	tcase_add_test(tcase, each_channel_has_its_listeners);
	tcase_add_test(tcase, what_nobody_has_is_unlistened);
	tcase_add_test(tcase, an_answer_is_for_what_was_asked_before);
	tcase_add_test(tcase, one_that_leaves_disturbs_no_other);
	tcase_add_test(tcase, notifications_come_in_pieces);
	tcase_add_loop_test(tcase, a_loss_ends_all_listeners, 0, COUNT_OF(ends));
	tcase_add_loop_test(tcase, a_broken_notification_ends_the_connection, 0, COUNT_OF(broken));
	tcase_add_test(tcase, a_refused_login_ends_the_listeners);
	tcase_add_test(tcase, one_that_leaves_during_the_login);
	tcase_add_test(tcase, many_listeners_and_many_channels);
	tcase_add_test(tcase, encodings_are_kept_apart);
	tcase_add_test(tcase, what_no_permit_is_left_for_is_refused);
	tcase_add_loop_test(tcase, a_successor_begins_at_the_mark, 0, COUNT_OF(replacements));
	tcase_add_test(tcase, a_successor_gets_new_channels);
	tcase_add_test(tcase, a_query_in_progress_is_asked_again);
	tcase_add_test(tcase, a_flood_ends_the_successor);
	tcase_add_test(tcase, a_limit_delays_the_successor);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
