/* SPDX-License-Identifier: ISC */
/*
 * The resolver: a cache of names, above dns.c.
 *
 *   ask --> name is known   -----------------------------> task --> on_answer()
 *      \--> name is not known --> query --> name is known --/
 *
 * Hard here: the result of a query may arrive while dns_query() is still running, and in places
 * where nothing else may be called. So a result only changes the name, and a task at the end of
 * the turn calls those that wait.
 *
 * A name is removed from the table when its time is over and neither a resolver_watch nor a
 * follower uses it. It is freed when nothing refers to it: no query, no ask, no task that is
 * running.
 *
 * With several loops, one resolver makes all queries:
 *
 *   ask --> follower's name --> NOTE_ASK --> leader's name --> query
 *                           <-- NOTE_FOUND --'
 *
 * Notes name their host and do not point to names, so either side's name may end at any time. What
 * is lost without memory is found later: a follower that gets a note about a name it does not have
 * says so.
 */
#include "pgweir/net/resolver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "resolver_priv.h"

#include "pgweir/base/container_of.h"

#define NAMES_MAX 16384

/* ---- names ---- */

static void release(struct resolver_name *name)
{
	if (name->is_filed || name->is_asking || name->is_answering || !TAILQ_EMPTY(&name->asks))
		return;
	loop_undefer(name->resolver->loop, &name->task);
	loop_undefer(name->resolver->loop, &name->removed_task);
	free(name->addresses);
	free(name);
}

/* Without memory the leader does not get the note. */
static bool tell_leader(struct resolver *follower, const char *host, enum note_kind kind,
                        unsigned int room)
{
	struct resolver_note *note = resolver_note_new(follower, kind, host, room);

	if (note)
		resolver_note_post(note);
	return note != NULL;
}

/* Removes the name from the table: the next ask for it creates a new one. */
static void unfile(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;

	if (!name->is_filed)
		return;
	if (resolver->last_row == name)
		resolver->last_row = NULL;
	timer_clear(&name->expiry);
	resolver_zone_leave(name);
	HASH_DEL(resolver->names, name);
	name->is_filed = false;
	if (resolver->leader && !resolver->is_ending)
		tell_leader(resolver, name->host, NOTE_LEAVE, 0);
}

/* It stays in the table while its result is valid, or a watch or a follower uses it. */
static void tidy(struct resolver_name *name)
{
	if (!name->is_known && !name->is_asking && TAILQ_EMPTY(&name->watches) && !name->followers)
		unfile(name);
	release(name);
}

static void on_expired(struct timer *timer)
{
	struct resolver_name *name = container_of(timer, struct resolver_name, expiry);

	name->is_known = false;
	tidy(name);
}

static void answer(struct resolver_name *name, struct resolver_ask *ask)
{
	struct address address;
	struct err err;

	TAILQ_REMOVE(&name->asks, ask, node);
	ask->name = NULL;
	if (name->address_count == 0) {
		err_set(&err, ERR_SERVER_CONNECT, "server DNS lookup failed: %s: %s", name->host,
		        name->failure);
		ask->on_answer(ask, NULL, &err);
		return;
	}
	address = name->addresses[name->next++ % name->address_count];
	address_set_port(&address, ask->port);
	ask->addresses = name->addresses;
	ask->address_count = name->address_count;
	ask->on_answer(ask, &address, NULL);
}

/* Those that were waiting at the start: one that asks again waits for the next turn. */
static void run_answers(struct task *task)
{
	struct resolver_name *name = container_of(task, struct resolver_name, task);
	struct resolver_ask *ask;
	size_t count = 0;

	TAILQ_FOREACH (ask, &name->asks, node)
		count++;
	name->is_answering = true;
	while (count-- > 0 && (ask = TAILQ_FIRST(&name->asks)))
		answer(name, ask);
	name->is_answering = false;
	if (!TAILQ_EMPTY(&name->asks) && !name->is_asking)
		loop_defer(name->resolver->loop, &name->task);
	release(name);
}

/* ---- watches of addresses ---- */

static void mark_removed(struct resolver_name *name)
{
	struct resolver_watch *watch;

	TAILQ_FOREACH (watch, &name->watches, node) {
		watch->is_removed =
		    !address_is_among(&watch->address, name->addresses, name->address_count);
		if (watch->is_removed)
			loop_defer(name->resolver->loop, &name->removed_task);
	}
}

static struct resolver_watch *first_removed(const struct resolver_name *name)
{
	struct resolver_watch *watch;

	TAILQ_FOREACH (watch, &name->watches, node) {
		if (watch->is_removed)
			return watch;
	}
	return NULL;
}

/* Each callback may end other watches, or begin new ones, so the list is searched again. */
static void report_removed(struct task *task)
{
	struct resolver_name *name = container_of(task, struct resolver_name, removed_task);
	struct resolver_watch *watch;

	name->is_answering = true;
	while ((watch = first_removed(name))) {
		TAILQ_REMOVE(&name->watches, watch, node);
		watch->name = NULL;
		watch->on_removed(watch);
	}
	name->is_answering = false;
	if (!name->is_stale) {
		tidy(name);
		return;
	}
	/* The zone changed while the query was running, so its result may be old. */
	name->is_stale = false;
	resolver_refresh_name(name);
}

void resolver_watch_end(struct resolver_watch *watch)
{
	struct resolver_name *name = watch->name;

	if (!name)
		return;
	TAILQ_REMOVE(&name->watches, watch, node);
	watch->name = NULL;
	tidy(name);
}

/* ---- answers ---- */

static struct resolver_name *name_new(struct resolver *resolver, const char *host)
{
	size_t size = strlen(host) + 1;
	struct resolver_name *name = calloc(1, sizeof(*name) + size);

	if (!name)
		return NULL;
	memcpy(name->host, host, size);
	name->resolver = resolver;
	name->serial = ++resolver->serial;
	name->task.run = run_answers;
	name->removed_task.run = report_removed;
	TAILQ_INIT(&name->asks);
	TAILQ_INIT(&name->watches);
	TAILQ_INIT(&name->notes);
	return name;
}

/* Keeps the stored result for its ttl since it was found, or only for those that wait. */
static void keep(struct resolver_name *name)
{
	struct resolver *resolver = name->resolver;

	timer_clear(&name->expiry);
	if (name->ttl > 0 && !resolver->is_ending)
		timer_set(&name->expiry, loop_timer_queue(resolver->loop, name->ttl, on_expired),
		          name->found_at);
	name->is_known = timer_is_set(&name->expiry);
	if (!TAILQ_EMPTY(&name->asks))
		loop_defer(resolver->loop, &name->task);
	tidy(name);
}

static void store(struct resolver_name *name, const struct address *addresses, unsigned int count,
                  const char *failure)
{
	name->is_asking = false;
	name->failure = failure;
	/* Names with the same addresses should not all begin with the same one. */
	name->next = name->resolver->rotation++;
	free(name->addresses);
	name->addresses = count > 0 ? malloc(count * sizeof(*addresses)) : NULL;
	name->address_count = name->addresses ? count : 0;
	if (name->addresses) {
		memcpy(name->addresses, addresses, count * sizeof(*addresses));
		mark_removed(name);
	} else if (count > 0) {
		name->failure = "out of memory";
	}
}

/* ---- several loops: the leader's side ---- */

static uint64_t bit_of(const struct resolver *follower) { return UINT64_C(1) << follower->number; }

/* The note has room for the addresses. */
static void post_result(struct resolver_note *note, const struct resolver_name *name)
{
	note->kind = NOTE_FOUND;
	note->found_at = name->found_at;
	note->ttl = name->ttl;
	note->failure = name->failure;
	note->count = name->address_count;
	if (name->address_count > 0)
		memcpy(note->addresses, name->addresses,
		       name->address_count * sizeof(*note->addresses));
	resolver_note_post(note);
}

/* To those that wait, and to those that only have the name. */
static void tell_followers(struct resolver_name *name)
{
	uint64_t left = name->followers;
	struct resolver_note *note;

	while ((note = TAILQ_FIRST(&name->notes))) {
		TAILQ_REMOVE(&name->notes, note, node);
		left &= ~bit_of(note->follower);
		post_result(note, name);
	}
	for (unsigned int i = 0; left; i++, left >>= 1) {
		if (!(left & 1))
			continue;
		note = resolver_note_new(name->resolver->followers[i], NOTE_FOUND, name->host,
		                         name->address_count);
		if (note)
			post_result(note, name);
	}
}

static void on_found(void *arg, const struct dns_answer *found)
{
	struct resolver_name *name = arg;
	struct resolver *resolver = name->resolver;

	store(name, found->addresses, found->count, found->failure);
	if (name->is_stale)
		loop_defer(resolver->loop, &name->removed_task);
	name->found_at = loop_now(resolver->loop);
	name->ttl = name->address_count ? resolver->good_ttl : resolver->bad_ttl;
	tell_followers(name);
	keep(name);
}

/* ---- queries ---- */

/* A numeric address needs no query: makes a name for this one ask, outside the table. */
static struct resolver_name *numeric_name(struct resolver *resolver, const char *host,
                                          const struct address *address, struct err *err)
{
	struct resolver_name *name = name_new(resolver, host);

	if (name && (name->addresses = malloc(sizeof(*address)))) {
		name->addresses[0] = *address;
		name->address_count = 1;
		name->is_known = true;
		return name;
	}
	free(name);
	err_set(err, ERR_MEMORY, "no memory for the address %s", host);
	return NULL;
}

static struct resolver_name *filed_name(struct resolver *resolver, const char *host,
                                        struct err *err)
{
	struct resolver_name *name;

	if (HASH_COUNT(resolver->names) >= NAMES_MAX) {
		err_set(err, ERR_LIMIT, "too many DNS names (%d) at once", NAMES_MAX);
		return NULL;
	}
	name = name_new(resolver, host);
	if (name)
		HASH_ADD_KEYPTR(hh, resolver->names, name->host, strlen(name->host), name);
	if (name && !name->is_lost) {
		name->is_filed = true;
		resolver_zone_enter(name);
		return name;
	}
	free(name);
	err_set(err, ERR_MEMORY, "no memory for the DNS name %s", host);
	return NULL;
}

static bool ask_leader(struct resolver_name *name, struct err *err)
{
	if (tell_leader(name->resolver, name->host, NOTE_ASK, DNS_ADDRESSES_MAX))
		return true;
	return err_set(err, ERR_MEMORY, "no memory for the DNS name %s", name->host);
}

/* on_found() may be called before this returns. */
static bool start_query(struct resolver_name *name, struct err *err)
{
	struct resolver *resolver = name->resolver;

	name->is_asking = true;
	name->is_known = false;
	timer_clear(&name->expiry);
	if (resolver->leader ? ask_leader(name, err)
	                     : dns_query(resolver->dns, name->host, on_found, name, err))
		return true;
	name->is_asking = false;
	return false;
}

void resolver_refresh_name(struct resolver_name *name)
{
	struct err err;

	if (name->is_asking)
		name->is_stale = true;
	else if (!start_query(name, &err))
		tidy(name);
}

/* ---- several loops: what a note does ---- */

static void refuse_follower(struct resolver_note *note)
{
	note->kind = NOTE_FOUND;
	note->failure = "too many DNS names, or no memory";
	resolver_note_post(note);
}

static void answer_follower(struct resolver_name *name, struct resolver_note *note)
{
	struct err err;

	if (name->is_known) {
		post_result(note, name);
		return;
	}
	TAILQ_INSERT_TAIL(&name->notes, note, node);
	if (name->is_asking || start_query(name, &err))
		return;
	TAILQ_REMOVE(&name->notes, note, node);
	refuse_follower(note);
}

static void forget_follower(struct resolver_name *name, const struct resolver *follower)
{
	name->followers &= ~bit_of(follower);
	tidy(name);
}

static void hear_follower(struct resolver *leader, struct resolver_note *note)
{
	struct resolver_name *name;
	struct err err;

	HASH_FIND(hh, leader->names, note->host, strlen(note->host), name);
	if (note->kind == NOTE_LEAVE && name)
		forget_follower(name, note->follower);
	if (note->kind == NOTE_LEAVE) {
		resolver_note_free(&note);
		return;
	}
	if (!name)
		name = filed_name(leader, note->host, &err);
	if (name)
		name->followers |= bit_of(note->follower);
	if (note->kind == NOTE_JOIN)
		resolver_note_free(&note);
	else if (name)
		answer_follower(name, note);
	else
		refuse_follower(note);
}

/* A result that nobody has asked for is as good as one that is awaited. */
static void hear_leader(struct resolver *follower, struct resolver_note *note)
{
	struct resolver_name *name;

	HASH_FIND(hh, follower->names, note->host, strlen(note->host), name);
	if (name) {
		store(name, note->addresses, note->count, note->failure);
		name->found_at = note->found_at;
		name->ttl = note->ttl;
		keep(name);
	} else {
		tell_leader(follower, note->host, NOTE_LEAVE, 0);
	}
	resolver_note_free(&note);
}

static void follow(struct resolver *follower, struct resolver *leader)
{
	assert(leader->follower_count < RESOLVER_FOLLOWERS_MAX);
	follower->leader = leader;
	follower->leader_loop = leader->loop;
	follower->number = leader->follower_count++;
	leader->followers[follower->number] = follower;
}

/* ---- creation and end ---- */

struct resolver *resolver_new(struct loop *loop, const struct resolver_options *options,
                              struct err *err)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver) {
		err_set(err, ERR_MEMORY, "no memory for the DNS resolver");
		return NULL;
	}
	resolver->loop = loop;
	resolver_set_ttl(resolver, options->good_ttl, options->bad_ttl);
	resolver->zone_period = options->zone_period;
	TAILQ_INIT(&resolver->lookups);
	resolver->on_note = options->leader ? hear_leader : hear_follower;
	resolver->dns = dns_new(loop, options, err);
	if (!resolver->dns)
		resolver_free(&resolver);
	else if (options->leader)
		follow(resolver, options->leader);
	return resolver;
}

void resolver_free(struct resolver **resolver)
{
	if (!*resolver)
		return;
	(*resolver)->is_ending = true;
	dns_free(&(*resolver)->dns);
	lookups_end_all(*resolver);
	resolver_forget(*resolver);
	assert(!(*resolver)->names && !(*resolver)->zones);
	free(*resolver);
	*resolver = NULL;
}

void resolver_set_ttl(struct resolver *resolver, usec_t good_ttl, usec_t bad_ttl)
{
	resolver->good_ttl = good_ttl;
	resolver->bad_ttl = bad_ttl;
}

void resolver_forget(struct resolver *resolver)
{
	struct resolver_name *name, *next;

	HASH_ITER (hh, resolver->names, name, next) {
		if (resolver->is_ending) {
			name->is_asking = false; /* of a follower: no answer will come */
			name->followers = 0;
		}
		if (name->is_asking)
			continue;
		name->is_known = false;
		timer_clear(&name->expiry);
		tidy(name);
	}
}

/* ---- asking ---- */

bool resolver_start(struct resolver *resolver, struct resolver_ask *ask, const char *host,
                    uint16_t port,
                    void (*on_answer)(struct resolver_ask *ask, const struct address *address,
                                      const struct err *err),
                    struct err *err)
{
	struct resolver_name *name;
	struct address address;

	HASH_FIND(hh, resolver->names, host, strlen(host), name);
	if (!name && address_parse(&address, host, 0))
		name = numeric_name(resolver, host, &address, err);
	else if (!name)
		name = filed_name(resolver, host, err);
	if (!name)
		return false;
	*ask = (struct resolver_ask){ .on_answer = on_answer, .name = name, .port = port };
	TAILQ_INSERT_TAIL(&name->asks, ask, node);
	if (name->is_asking)
		return true;
	if (name->is_known) {
		loop_defer(resolver->loop, &name->task);
		return true;
	}
	if (start_query(name, err))
		return true;
	resolver_cancel(ask);
	return false;
}

void resolver_cancel(struct resolver_ask *ask)
{
	struct resolver_name *name = ask->name;

	if (!name)
		return;
	TAILQ_REMOVE(&name->asks, ask, node);
	ask->name = NULL;
	tidy(name);
}

void resolver_watch_begin(struct resolver *resolver, struct resolver_watch *watch, const char *host,
                          const struct address *address,
                          void (*on_removed)(struct resolver_watch *watch))
{
	struct resolver_name *name;
	struct address numeric;
	struct err err;

	HASH_FIND(hh, resolver->names, host, strlen(host), name);
	if (!name && !address_parse(&numeric, host, 0)) {
		name = filed_name(resolver, host, &err);
		if (name && resolver->leader)
			tell_leader(resolver, host, NOTE_JOIN, 0);
	}
	if (!name)
		return;
	*watch =
	    (struct resolver_watch){ .on_removed = on_removed, .name = name, .address = *address };
	TAILQ_INSERT_TAIL(&name->watches, watch, node);
}

/* ---- for SHOW ---- */

unsigned int resolver_name_count(const struct resolver *resolver)
{
	return HASH_COUNT(resolver->names);
}

/*
 * Names stay in the table in the order in which they were added, which is that of their serial.
 */
static struct resolver_name *name_after(const struct resolver *resolver, unsigned long cursor)
{
	struct resolver_name *name = resolver->names;

	if (resolver->last_row && resolver->last_row->serial == cursor)
		return resolver->last_row->hh.next;
	while (name && name->serial <= cursor)
		name = name->hh.next;
	return name;
}

/* A name may be kept only because a connection still uses one of its old addresses. */
static bool is_row(const struct resolver_name *name) { return name->failure || name->is_asking; }

bool resolver_next_row(struct resolver *resolver, unsigned long *cursor, struct resolver_row *row)
{
	struct resolver_name *name = name_after(resolver, *cursor);
	usec_t now = loop_now(resolver->loop);

	while (name && !is_row(name))
		name = name->hh.next;
	if (!name)
		return false;
	*row = (struct resolver_row){ .host = name->host,
		                      .addresses = name->addresses,
		                      .address_count = name->address_count };
	if (timer_is_set(&name->expiry) && name->expiry.due > now)
		row->ttl_left = name->expiry.due - now;
	*cursor = name->serial;
	resolver->last_row = name;
	return true;
}
