/* SPDX-License-Identifier: ISC */
/*
 * The doors: the main listener, and one for each entry of [listeners].
 *
 *   accept --> door --> lane: the client gets the door's gate (client/gate.h)
 *
 * Hard here: a RELOAD applies all changes or none. What is new is opened first, beside what is
 * open; a socket that is open already is used again, as if another process had handed it over.
 */
#include "doors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/text.h"

#include "daemon_priv.h"

/* ---- callbacks ---- */

static void on_accept(void *arg, int fd, const struct address *peer)
{
	struct door *door = arg;

	door->accepted_count++;
	door->daemon->deal(door->daemon, fd, peer, door->gate);
}

/* No descriptor is left: a client that has not logged in makes room for one that waits. */
static void on_shortage(void *arg)
{
	struct daemon *daemon = ((struct door *)arg)->daemon;
	struct lane *lane, *oldest = daemon->lanes.at;
	usec_t at, first = 0;

	lanes_hold(&daemon->lanes);
	atomic_store(&daemon->is_short, true);
	LANES_EACH(lane, &daemon->lanes)
	{
		at = clients_oldest_login(lane->clients);
		if (at && (!first || at < first)) {
			first = at;
			oldest = lane;
		}
	}
	clients_evict_oldest(oldest->clients);
	lanes_release(&daemon->lanes);
}

/* ---- one door ---- */

/* name NULL: the main listener. */
static struct door *door_new(struct daemon *daemon, const char *name, struct err *err)
{
	struct door *door = calloc(1, sizeof(*door));

	if (!door) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	door->daemon = daemon;
	door->gate = name ? gate_new(&daemon->gates, name, err) : NULL;
	if (!name || door->gate)
		return door;
	free(door);
	return NULL;
}

/* Another listener may have the same Unix socket now. */
static void close_listener(struct daemon *daemon, struct listener **listener)
{
	const char *path = *listener ? listener_unix_path(*listener) : NULL;
	const struct door *other;

	TAILQ_FOREACH (other, &daemon->doors, node) {
		if (path && other->listener && other->listener != *listener &&
		    text_same(listener_unix_path(other->listener), path))
			listener_own_file(*listener, false);
	}
	listener_free(listener);
}

static void door_free(struct door **door)
{
	if (!*door)
		return;
	close_listener((*door)->daemon, &(*door)->listener);
	gate_close(&(*door)->daemon->gates, &(*door)->gate);
	free(*door);
	*door = NULL;
}

/* Sockets that were handed to this process. */
struct handed {
	const int *given; /* by the service manager, for this door */
	unsigned int given_count;
	int *inherited;
	unsigned int inherited_count;
};

/* entry NULL: the main listener. */
static struct listener *make_listener(struct door *door, const struct config_listener *entry,
                                      const struct handed *handed, struct err *err)
{
	const struct daemon *daemon = door->daemon;
	const struct config *config = daemon->config;
	struct listener *listener =
	    listener_new(daemon->loop,
	                 &(struct listener_options){
			     .name = entry ? entry->name : NULL,
			     .addresses = entry ? entry->addr : config->listen_addr.text,
			     .port = (uint16_t)(entry ? entry->port : config->listen_port),
			     .unix_dir = entry ? entry->unix_socket_dir : config->unix_socket_dir,
			     .unix_mode = (mode_t)config->unix_socket_mode,
			     .unix_group = config->unix_socket_group,
			     .backlog = config->listen_backlog,
			     .reuse_port = config->so_reuseport,
			     .is_strict = entry != NULL,
			     .given = handed->given,
			     .given_count = handed->given_count,
			     .inherited = handed->inherited,
			     .inherited_count = handed->inherited_count,
			     .on_shortage = on_shortage,
			     .log = daemon->logger,
			 },
	                 on_accept, door);

	if (listener)
		listener_set_options(listener, &daemon->lanes.at[0].pools->server_sockets,
		                     config->tcp_defer_accept);
	else
		err_set(err, ERR_MEMORY, "out of memory");
	return listener;
}

static void say_whose(const struct config_listener *entry, struct err *err)
{
	if (entry)
		err_prefix(err, "listener \"%s\": ", entry->name);
}

/* ---- at the start ---- */

/* Those with the door's name; for the main listener, with the name of no listener. */
static unsigned int take_given(const struct daemon *daemon, const struct config_listener *entry,
                               struct handed_sockets *sockets, int *taken)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < sockets->count; i++) {
		const char *name = sockets->names[i];
		bool is_named = config_listener_find(daemon->config, name) != NULL;

		if (sockets->fds[i] < 0 || (entry ? !text_same(name, entry->name) : is_named))
			continue;
		taken[count++] = sockets->fds[i];
		sockets->fds[i] = -1;
	}
	return count;
}

static bool open_first(struct daemon *daemon, struct gate_rules *rules,
                       struct handed_sockets *given, struct takeover *takeover, struct err *err)
{
	const struct config_listener *entry = rules ? rules->entry : NULL;
	bool is_given = takeover->is_given && given->count == 0;
	int taken[HANDED_SOCKETS_MAX];
	struct handed handed = { .given = taken };
	struct door *door = door_new(daemon, entry ? entry->name : NULL, err);

	if (!door)
		return false;
	TAILQ_INSERT_TAIL(&daemon->doors, door, node);
	handed.given_count =
	    take_given(daemon, entry, is_given ? &takeover->sockets : given, taken);
	if (!handed.given_count) {
		handed.inherited = takeover->sockets.fds;
		handed.inherited_count = takeover->sockets.count;
	}
	if (rules)
		gate_set(door->gate, rules);
	door->listener = make_listener(door, entry, &handed, err);
	if (!door->listener)
		return false;
	if (takeover->fd >= 0) {
		listener_pause(door->listener); /* until the hand-over is complete */
		listener_own_file(door->listener, false);
	}
	if (listener_open(door->listener, err))
		return true;
	say_whose(entry, err);
	return false;
}

bool doors_open(struct daemon *daemon, struct gates *gates, struct handed_sockets *given,
                struct takeover *takeover, struct err *err)
{
	if (!open_first(daemon, NULL, given, takeover, err))
		return false;
	for (size_t i = 0; i < gates->count; i++) {
		struct gate_rules *rules = &gates->at[i];

		if (!load_gate_tls(rules, daemon->tls.client, NULL, err) ||
		    !open_first(daemon, rules, given, takeover, err))
			return false;
	}
	return true;
}

void doors_free(struct daemon *daemon)
{
	struct door *door;

	while ((door = TAILQ_FIRST(&daemon->doors))) {
		TAILQ_REMOVE(&daemon->doors, door, node);
		door_free(&door);
	}
}

/* ---- RELOAD ---- */

static struct door *find(const struct daemon *daemon, const char *name)
{
	struct door *door;

	TAILQ_FOREACH (door, &daemon->doors, node) {
		if (door->gate && strcmp(door->gate->name, name) == 0)
			return door;
	}
	return NULL;
}

static bool is_same_place(const struct config_listener *a, const struct config_listener *b)
{
	return a->port == b->port && text_same(a->addr, b->addr) &&
	       text_same(a->unix_socket_dir, b->unix_socket_dir);
}

/* Copies of all sockets of entries: another listener may have one of their addresses now. */
static unsigned int copy_sockets(const struct daemon *daemon, int *copies)
{
	unsigned int count = 0;
	struct address address;
	const struct door *door;
	int fd;

	TAILQ_FOREACH (door, &daemon->doors, node) {
		if (!door->gate)
			continue;
		for (size_t i = 0; count < HANDED_SOCKETS_MAX &&
		                   (fd = listener_fd(door->listener, i, &address)) >= 0;
		     i++)
			copies[count++] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return count;
}

/* Another state than that of the main listener would be a surprise. */
static void follow_main(const struct daemon *daemon, struct listener *listener)
{
	if (listener_is_paused(TAILQ_FIRST(&daemon->doors)->listener))
		listener_pause(listener);
	if (daemon->lanes.at[0].clients->drain.is_on)
		listener_unlisten(listener);
}

static bool open_again(struct doors_change *change, struct door_plan *plan, struct err *err)
{
	struct daemon *daemon = change->daemon;
	int copies[HANDED_SOCKETS_MAX];
	struct handed handed = { .inherited = copies };
	bool is_open;

	handed.inherited_count = copy_sockets(daemon, copies);
	plan->opened = make_listener(plan->door, plan->rules.entry, &handed, err);
	is_open = plan->opened && listener_open(plan->opened, err);
	for (unsigned int i = 0; i < handed.inherited_count; i++) {
		if (copies[i] >= 0)
			close(copies[i]);
	}
	if (is_open)
		follow_main(daemon, plan->opened);
	return is_open;
}

static bool prepare_one(struct doors_change *change, struct gate_rules *rules, struct err *err)
{
	struct daemon *daemon = change->daemon;
	struct door_plan *plan = &change->plans[change->count++];
	struct door *old = find(daemon, rules->entry->name);

	plan->rules = *rules;
	*rules = (struct gate_rules){ 0 };
	plan->door = old ? old : door_new(daemon, plan->rules.entry->name, err);
	plan->is_new = !old;
	if (!plan->door)
		return false;
	if (!load_gate_tls(&plan->rules, change->tls, old ? old->gate->rules.tls : NULL, err))
		return false;
	if (old && (is_same_place(old->gate->rules.entry, plan->rules.entry) ||
	            listener_is_given(old->listener)))
		return true;
	if (daemon->handover || daemon->takeover || daemon->lanes.at[0].clients->is_shutting_down)
		return err_set(err, ERR_STATE,
		               "no listener is opened during a take-over or a shutdown");
	if (open_again(change, plan, err))
		return true;
	say_whose(plan->rules.entry, err);
	return false;
}

bool doors_prepare(struct daemon *daemon, struct gates *gates, struct tls_context *tls,
                   struct doors_change *change, struct err *err)
{
	*change = (struct doors_change){ .daemon = daemon, .tls = tls };
	for (size_t i = 0; i < gates->count; i++) {
		if (prepare_one(change, &gates->at[i], err))
			continue;
		doors_abandon(change);
		return false;
	}
	return true;
}

void doors_abandon(struct doors_change *change)
{
	for (unsigned int i = 0; i < change->count; i++) {
		struct door_plan *plan = &change->plans[i];

		close_listener(change->daemon, &plan->opened);
		gate_rules_done(&plan->rules);
		if (plan->is_new)
			door_free(&plan->door);
	}
	change->count = 0;
}

/* Those who wait in the backlog are accepted first. */
static void shut(struct door *door)
{
	if (!door->listener)
		return;
	log_info(&door->daemon->logger, "closing listener %s", door->gate->name);
	listener_close_tcp(door->listener);
}

static bool is_planned(const struct doors_change *change, const struct door *door)
{
	for (unsigned int i = 0; i < change->count; i++) {
		if (change->plans[i].door == door)
			return true;
	}
	return false;
}

void doors_commit(struct doors_change *change)
{
	struct daemon *daemon = change->daemon;
	struct door *door, *next;

	lanes_hold(&daemon->lanes);
	for (unsigned int i = 0; i < change->count; i++) {
		struct door_plan *plan = &change->plans[i];
		struct listener *former = plan->door->listener;

		gate_set(plan->door->gate, &plan->rules);
		if (plan->is_new)
			TAILQ_INSERT_TAIL(&daemon->doors, plan->door, node);
		if (!plan->opened)
			continue;
		if (former)
			shut(plan->door);
		plan->door->listener = plan->opened;
		close_listener(daemon, &former);
	}
	TAILQ_FOREACH_SAFE (door, &daemon->doors, node, next) {
		if (!door->gate || is_planned(change, door))
			continue;
		shut(door);
		TAILQ_REMOVE(&daemon->doors, door, node);
		door_free(&door);
	}
	lanes_release(&daemon->lanes);
	change->count = 0;
}

/* ---- all of them ---- */

void doors_set_options(struct daemon *daemon)
{
	struct door *door;

	TAILQ_FOREACH (door, &daemon->doors, node)
		listener_set_options(door->listener, &daemon->lanes.at[0].pools->server_sockets,
		                     daemon->config->tcp_defer_accept);
}

bool doors_show(struct daemon *daemon, size_t index, struct listener_shown *shown)
{
	const struct door *door;

	TAILQ_FOREACH (door, &daemon->doors, node) {
		if (index-- > 0)
			continue;
		*shown = (struct listener_shown){
			.listener = door->listener,
			.gate = door->gate,
			.accepted_count = door->accepted_count,
		};
		return true;
	}
	return false;
}
