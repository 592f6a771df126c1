/* SPDX-License-Identifier: ISC */
/*
 * A lookup: a borrower that belongs to no client. It stands in the line of a pool that
 * is only for lookups, sends auth_query with the user's name as a bound parameter, and
 * tells all who wait what came of it.
 *
 *   WAITING --on_lent--> ASKING --on_ready--> DONE --end of the turn--> on_answer()
 *      ^                   |
 *      +------- lost ------+   once: the server may have gone while it was idle
 *
 * Hard here: a lookup has many owners, and any may leave at any time. It lives as long as
 * somebody waits for it; the last one to leave ends it, and the server with it if it is in
 * the middle of the query.
 *
 * Nothing of a client but its user's name gets here, so there is nothing that could
 * change what the query means: the pool's servers are started without a client's
 * parameters, and no client is ever lent one of them.
 */
#include <stdlib.h>

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/message.h"

#include "answer_priv.h"
#include "replies_priv.h"

#include "pgweir/base/banned.h"

enum lookup_state {
	LOOKUP_WAITING, /* for a server */
	LOOKUP_ASKING,  /* the query is under way */
	LOOKUP_DONE     /* those who wait are told at the end of the turn */
};

TAILQ_HEAD(lookup_wait_list, lookup_wait);
TAILQ_HEAD(lookup_list, lookup);

struct lookup {
	UT_hash_handle hh;        /* by key, while others may join */
	TAILQ_ENTRY(lookup) node; /* among all */
	struct lookups *lookups;
	struct borrower borrower;
	struct timer timer; /* client_login_timeout, so that nobody joins a query that hangs; while
	                     * it waits for a server query_wait_timeout, if that is over first */
	usec_t begun_at;
	struct task task;
	struct lookup_wait_list waits;
	struct replies replies;
	struct answer *answer;
	struct err err; /* DONE without an answer */
	enum lookup_state state;
	bool may_be_joined;
	bool was_lost;
	struct key key;
};

struct lookups {
	struct pools *pools;
	const struct config *config; /* borrowed */
	struct lookup_list list;     /* all */
	struct lookup *under_way;    /* those that may be joined, by key */
	struct answers answers;
	struct users *likeness; /* one user; NULL only while there is no memory */
	bool has_likeness;      /* it is like an answer's */
};

#define LOOKUP_OF(member, field) \
	((struct lookup *)((char *)(member)-offsetof(struct lookup, field)))

static struct loop *loop_of(const struct lookups *lookups) { return lookups->pools->with.loop; }

/* ---- what unknown names imitate ---- */

/* As PostgreSQL makes secrets. */
#define USUAL_ITERATIONS 4096

/* One user with a made-up secret of the same kind. NULL: no memory. */
static struct users *make_likeness(const struct secret *secret)
{
	struct scram_verifier like = { .iterations = USUAL_ITERATIONS,
		                       .salt_count = SCRAM_SALT_SIZE };
	struct scram_verifier verifier;
	struct buf text = { 0 };
	struct users *users;

	buf_add_text(&text, "\"user\" \"");
	if (secret->kind == SECRET_PLAIN)
		buf_add_text(&text, "plain");
	else if (secret->kind == SECRET_MD5)
		buf_add_text(&text, "md500000000000000000000000000000000");
	if (secret->kind == SECRET_SCRAM && scram_verifier_parse(secret->text, &verifier)) {
		like.iterations = verifier.iterations;
		like.salt_count = verifier.salt_count;
	}
	if (secret->kind == SECRET_SCRAM)
		scram_verifier_text(&like, &text);
	buf_add_text(&text, "\"\n");
	users = buf_ok(&text) ? users_parse(buf_bytes(&text), "auth_query", NULL) : NULL;
	buf_free(&text);
	return users;
}

static const struct secret usual_secret = { .kind = SECRET_SCRAM, .text = "" };

static void set_likeness(struct lookups *lookups, const struct secret *secret)
{
	struct users *users = make_likeness(secret);

	if (!users)
		return;
	users_release(&lookups->likeness);
	lookups->likeness = users;
}

/* The first one stays, so that the same name looks the same each time. */
static void learn_likeness(struct lookups *lookups, const char *text)
{
	struct secret secret = secret_of(text);

	if (lookups->has_likeness || secret.kind == SECRET_NONE)
		return;
	set_likeness(lookups, &secret);
	lookups->has_likeness = true;
}

const struct users *lookups_likeness(const struct lookups *lookups) { return lookups->likeness; }

/* ---- the end ---- */

static void leave_table(struct lookup *lookup)
{
	if (lookup->may_be_joined)
		HASH_DEL(lookup->lookups->under_way, lookup);
	lookup->may_be_joined = false;
}

static void lookup_free(struct lookup *lookup)
{
	leave_table(lookup);
	TAILQ_REMOVE(&lookup->lookups->list, lookup, node);
	timer_clear(&lookup->timer);
	loop_undefer(loop_of(lookup->lookups), &lookup->task);
	pool_leave(&lookup->borrower);
	replies_done(&lookup->replies);
	answer_release(&lookup->answer);
	key_done(&lookup->key);
	free(lookup);
}

static void tell(struct task *task)
{
	struct lookup *lookup = LOOKUP_OF(task, task);
	struct lookup_wait *wait;

	while ((wait = TAILQ_FIRST(&lookup->waits))) {
		TAILQ_REMOVE(&lookup->waits, wait, node);
		wait->lookup = NULL;
		wait->on_answer(wait, lookup->answer, &lookup->err);
	}
	lookup_free(lookup);
}

/* Whatever came of it: the server goes back, those who wait are told. */
static void end(struct lookup *lookup)
{
	if (lookup->state == LOOKUP_DONE)
		return;
	lookup->state = LOOKUP_DONE;
	leave_table(lookup);
	timer_clear(&lookup->timer);
	pool_leave(&lookup->borrower);
	lookup->task.run = tell;
	loop_defer(loop_of(lookup->lookups), &lookup->task);
}

static void log_failure(const struct lookup *lookup, const char *reason)
{
	const struct logger log = { lookup->lookups->pools->with.log, NULL };
	const struct pool *pool = lookup->borrower.pool;

	log_error(&log, "auth_query failed, on %s by %s, for %s: %s", pool->database->name,
	          pool->account->name, lookup->key.user, reason);
}

/*
 * It failed for a reason that is not the client's business: that is in the log. code:
 * whether to try again makes sense.
 */
static void fail(struct lookup *lookup, enum err_code code, const char *reason)
{
	log_failure(lookup, reason);
	err_set(&lookup->err, code, "bouncer config error");
	end(lookup);
}

static void judge(struct lookup *lookup)
{
	struct lookups *lookups = lookup->lookups;
	struct replies *replies = &lookup->replies;
	enum replies_verdict verdict = replies_end(replies);
	const char *name = verdict == REPLIES_USER ? replies->name : NULL;

	if (verdict == REPLIES_BAD) {
		fail(lookup, ERR_CONFIG, replies->why.text);
		return;
	}
	if (name)
		learn_likeness(lookups, replies->secret);
	lookup->answer = answer_new(&lookup->key, name, replies->secret);
	if (!lookup->answer)
		err_set(&lookup->err, ERR_MEMORY, "out of memory");
	else if (lookup->may_be_joined && name) /* else a RELOAD has come since */
		answers_keep(&lookups->answers, lookup->answer, lookups->config->auth_query_cache);
	end(lookup);
}

/* ---- the query ---- */

static void add_query(struct buf *out, const struct key *key)
{
	size_t at = message_begin(out, 'P');

	buf_add_cstr(out, ""); /* the unnamed statement */
	buf_add_cstr(out, key->query);
	buf_add_be16(out, 0); /* PostgreSQL finds out the parameter's type */
	message_end(out, at);
	at = message_begin(out, 'B');
	buf_add_cstr(out, "");
	buf_add_cstr(out, "");
	buf_add_be16(out, 0); /* all as text */
	buf_add_be16(out, 1);
	buf_add_be32(out, (uint32_t)strlen(key->user));
	buf_add_text(out, key->user);
	buf_add_be16(out, 0);
	message_end(out, at);
	at = message_begin(out, 'E');
	buf_add_cstr(out, "");
	buf_add_be32(out, REPLIES_ROWS_MAX);
	message_end(out, at);
	message_sync(out);
}

static bool note(struct server *server)
{
	static const enum ledger_kind kinds[] = { LEDGER_PARSE, LEDGER_BIND, LEDGER_EXECUTE,
		                                  LEDGER_SYNC };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (server_note(server, kinds[i]) != LEDGER_SENT)
			return false;
	}
	return true;
}

/* ---- limits ---- */

static void on_due(struct timer *timer)
{
	fail(LOOKUP_OF(timer, timer), ERR_CANNOT_CONNECT, "no answer within client_login_timeout");
}

static void on_wait_due(struct timer *timer)
{
	struct lookup *lookup = LOOKUP_OF(timer, timer);
	struct buf reason = { 0 };

	buf_add_text(&reason, "query_wait_timeout: ");
	pool_wait_tell(&lookup->borrower, &reason);
	log_failure(lookup, buf_ok(&reason) ? buf_text(&reason) : "query_wait_timeout");
	buf_free(&reason);
	err_set(&lookup->err, ERR_LIMIT, "query_wait_timeout");
	end(lookup);
}

static void arm(struct lookup *lookup)
{
	const struct config *config = lookup->lookups->config;
	const struct pool *pool = lookup->borrower.pool;
	struct loop *loop = loop_of(lookup->lookups);
	usec_t login = config->client_login_timeout, since = lookup->borrower.waiting_since;
	usec_t wait =
	    config_query_wait_timeout(config, pool->database->entry, pool->account->entry);

	if (lookup->borrower.state == BORROWER_WAITING && wait &&
	    (!login || since + wait < lookup->begun_at + login))
		timer_set(&lookup->timer, loop_line(loop, wait, on_wait_due), since);
	else
		timer_set(&lookup->timer, loop_line(loop, login, on_due), lookup->begun_at);
}

/* ---- the query, once there is a server ---- */

static void ask(struct lookup *lookup)
{
	struct borrower *borrower = &lookup->borrower;
	struct lookups *lookups = lookup->lookups;
	usec_t now = loop_now(loop_of(lookups));
	struct buf out = { 0 };

	arm(lookup);
	/* No client was here, but an auth_query itself may have set something. */
	if (!pool_prepare(borrower, params_none(lookups->pools->with.params), true))
		return;
	lookup->state = LOOKUP_ASKING;
	add_query(&out, &lookup->key);
	server_begin_query(borrower->server, now, now);
	if (!buf_ok(&out) || !note(borrower->server))
		fail(lookup, ERR_MEMORY, "out of memory");
	else
		server_send(borrower->server, buf_bytes(&out)); /* on_lost() says if not */
	buf_free(&out);
}

/* ---- what the pool says ---- */

static void on_lent(struct borrower *borrower) { ask(LOOKUP_OF(borrower, borrower)); }

/* The words of whoever ended us go to the clients; PostgreSQL's about auth_user do not. */
static bool is_for_clients(const struct err *err)
{
	return err->code == ERR_ADMIN_SHUTDOWN || err->code == ERR_UNREACHABLE;
}

static void on_refused(struct borrower *borrower, const struct err *err)
{
	struct lookup *lookup = LOOKUP_OF(borrower, borrower);

	if (!is_for_clients(err)) {
		fail(lookup, ERR_CONFIG, err->text);
		return;
	}
	lookup->err = *err;
	end(lookup);
}

static void on_welcome(struct borrower *borrower) { (void)borrower; /* nobody asks for it */ }

static bool on_bytes(struct borrower *borrower, struct bytes bytes)
{
	struct lookup *lookup = LOOKUP_OF(borrower, borrower);

	if (lookup->state == LOOKUP_ASKING)
		replies_take(&lookup->replies, bytes);
	return true;
}

static void on_ready(struct borrower *borrower, char status, bool is_settled)
{
	struct lookup *lookup = LOOKUP_OF(borrower, borrower);

	(void)status; /* not 'I': the server is closed when we leave it */
	if (is_settled && lookup->state == LOOKUP_ASKING)
		judge(lookup);
}

static void on_nothing(struct borrower *borrower) { (void)borrower; }

static void on_lost(struct borrower *borrower, const struct err *err, bool is_told)
{
	struct lookup *lookup = LOOKUP_OF(borrower, borrower);
	struct err why;

	(void)is_told;
	if (lookup->was_lost || lookup->state == LOOKUP_DONE) {
		fail(lookup, ERR_CANNOT_CONNECT, err->text);
		return;
	}
	lookup->was_lost = true;
	lookup->state = LOOKUP_WAITING;
	replies_done(&lookup->replies);
	if (pool_ask(borrower, &why))
		arm(lookup);
	else
		fail(lookup, ERR_CANNOT_CONNECT, why.text);
}

static void tell_who(const struct borrower *borrower, struct buf *out)
{
	(void)borrower;
	buf_add_text(out, "auth_query");
}

static const struct borrower_ops lookup_borrower_ops = {
	.on_lent = on_lent,
	.on_refused = on_refused,
	.on_welcome = on_welcome,
	.on_bytes = on_bytes,
	.on_ready = on_ready,
	.on_deallocated = on_nothing,
	.on_room = on_nothing,
	.on_lost = on_lost,
	.on_expelled = on_refused,
	.tell_who = tell_who,
};

/* ---- asking ---- */

/* Takes over the key. NULL: no memory, and the key is gone. */
static struct lookup *lookup_new(struct lookups *lookups, struct key *key)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup) {
		key_done(key);
		return NULL;
	}
	lookup->lookups = lookups;
	lookup->key = *key;
	lookup->borrower.ops = &lookup_borrower_ops;
	lookup->borrower.is_patient = true;
	TAILQ_INIT(&lookup->waits);
	TAILQ_INSERT_TAIL(&lookups->list, lookup, node);
	TABLE_ADD(hh, &lookups->pools->secret, lookups->under_way, lookup->key.text.at,
	          lookup->key.text.count, lookup);
	lookup->may_be_joined = true;
	return lookup;
}

/* false: *err is what the client may be told. */
static bool begin(struct lookup *lookup, const struct question *question, struct err *err)
{
	struct lookups *lookups = lookup->lookups;
	struct pool *pool = pools_lookup_pool(question->database, question->auth_user);
	struct err why;

	if (!pool)
		return err_set(err, ERR_MEMORY, "no memory for pool");
	pool_join(pool, &lookup->borrower);
	lookup->begun_at = loop_now(loop_of(lookups));
	pool_hurry(&lookup->borrower,
	           config_fail_fast(lookups->config, pool->database->entry, pool->account->entry));
	if (pool_take(&lookup->borrower)) {
		ask(lookup);
		return true;
	}
	if (pool_ask(&lookup->borrower, &why)) {
		arm(lookup);
		return true;
	}
	log_failure(lookup, why.text);
	if (is_for_clients(&why))
		*err = why;
	else
		err_set(err, ERR_CONFIG, "bouncer config error");
	return false;
}

enum lookup_result lookups_ask(struct lookups *lookups, const struct question *question,
                               struct lookup_wait *wait, struct answer **answer, struct err *err)
{
	struct lookup *lookup;
	struct key key;

	if (!key_make(&key, question)) {
		err_set(err, ERR_MEMORY, "out of memory");
		return LOOKUP_FAILED;
	}
	*answer = answers_find(&lookups->answers, &key);
	TABLE_FIND(hh, &lookups->pools->secret, lookups->under_way, key.text.at, key.text.count,
	           lookup);
	if (*answer || lookup) {
		key_done(&key);
	} else {
		lookup = lookup_new(lookups, &key);
		if (!lookup) {
			err_set(err, ERR_MEMORY, "out of memory");
			return LOOKUP_FAILED;
		}
		if (!begin(lookup, question, err)) {
			lookup_free(lookup);
			return LOOKUP_FAILED;
		}
	}
	if (*answer)
		return LOOKUP_KEPT;
	wait->lookup = lookup;
	TAILQ_INSERT_TAIL(&lookup->waits, wait, node);
	return LOOKUP_WAITS;
}

void lookups_give_up(struct lookup_wait *wait)
{
	struct lookup *lookup = wait->lookup;

	if (!lookup)
		return;
	TAILQ_REMOVE(&lookup->waits, wait, node);
	wait->lookup = NULL;
	/* One that is done is freed when all have been told. */
	if (TAILQ_EMPTY(&lookup->waits) && lookup->state != LOOKUP_DONE)
		lookup_free(lookup);
}

void lookups_disown(struct lookups *lookups, const struct answer *answer)
{
	answers_forget(&lookups->answers, answer);
}

unsigned int lookups_kept_count(const struct lookups *lookups) { return lookups->answers.count; }

/* ---- all of them ---- */

struct lookups *lookups_new(struct pools *pools, const struct config *config)
{
	struct lookups *lookups = calloc(1, sizeof(*lookups));

	if (!lookups)
		return NULL;
	lookups->pools = pools;
	lookups->config = config;
	TAILQ_INIT(&lookups->list);
	answers_init(&lookups->answers, pools->with.loop);
	set_likeness(lookups, &usual_secret);
	return lookups;
}

void lookups_configure(struct lookups *lookups, const struct config *config)
{
	struct lookup *lookup, *next;

	lookups->config = config;
	lookups->has_likeness = false; /* auth_query may ask in another place now */
	answers_forget_all(&lookups->answers);
	HASH_ITER (hh, lookups->under_way, lookup, next)
		leave_table(lookup);
}

void lookups_free(struct lookups **lookups)
{
	if (!*lookups)
		return;
	while (
	    !TAILQ_EMPTY(&(*lookups)->list)) /* those that are done with, and wait for their task */
		lookup_free(TAILQ_FIRST(&(*lookups)->list));
	answers_forget_all(&(*lookups)->answers);
	users_release(&(*lookups)->likeness);
	free(*lookups);
	*lookups = NULL;
}
