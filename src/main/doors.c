/* SPDX-License-Identifier: ISC */
/*
 * The doors: the main listener, and one for each entry of [listeners].
 *
 *   accept --> door --> lane: the client gets the door's gate (client/clients.h)
 *
 * Hard here: a RELOAD applies all changes or none. What is new is opened first, beside what is
 * open; a socket that is open already is used again, as if another process had handed it over.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/base/text.h"

#include "daemon_priv.h"

/* ---- callbacks ---- */

static void on_accept(void *arg, int fd, const struct address *peer)
{
	struct door *door = arg;

	door->accepted_count++;
	lane_deal(door->daemon, fd, peer, door->gate);
}

/* No descriptor is left: a client that has not logged in makes room for one that waits. */
static void on_shortage(void *arg)
{
	struct daemon *daemon = ((struct door *)arg)->daemon;
	struct lane *oldest = daemon->lanes.at;
	usec_t at, first = 0;

	lanes_hold(&daemon->lanes);
	LANES_EACH (lane, &daemon->lanes) {
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

/* entry NULL: the main listener. */
static struct door *door_new(struct daemon *daemon, const struct config_listener *entry,
                             struct err *err)
{
	struct door *door = err_calloc(sizeof(*door), "out of memory", err);

	if (!door)
		return NULL;
	door->daemon = daemon;
	door->gate = entry ? gate_get(&daemon->shared.gates, entry->name, err) : NULL;
	if (!entry || door->gate)
		return door;
	free(door);
	return NULL;
}

/* Another listener may have the same Unix socket now. */
static void close_listener(struct daemon *daemon, struct listener **listener)
{
	const char *path = *listener ? listener_unix_path(*listener) : NULL;

	TAILQ_EACH (other, &daemon->doors, node) {
		if (path && other->listener && other->listener != *listener &&
		    text_same(listener_unix_path(other->listener), path))
			listener_own_file(*listener, false);
	}
	listener_free(listener);
}

void doors_free(struct door_list *doors)
{
	struct door *door;

	while ((door = TAILQ_FIRST(doors))) {
		TAILQ_REMOVE(doors, door, node);
		listener_free(&door->opened);
		close_listener(door->daemon, &door->listener);
		free(door);
	}
}

static struct door *find(const struct daemon *daemon, const char *name)
{
	TAILQ_EACH (door, &daemon->doors, node) {
		if (door->gate && strcmp(door->gate->name, name) == 0)
			return door;
	}
	return NULL;
}

/* ---- the sockets of a new listener ---- */

/* Those with the door's name; for the main listener, with the name of no listener. */
static unsigned int take_given(const struct daemon *daemon, const struct config_listener *entry,
                               struct handed_sockets *sockets, int *taken)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < sockets->count; i++) {
		const char *name = sockets->names[i];
		bool is_named = config_entry(daemon->now.config, ENTRY_LISTENER, name) != NULL;

		if (sockets->fds[i] < 0 || (entry ? !text_same(name, entry->name) : is_named))
			continue;
		taken[count++] = sockets->fds[i];
		sockets->fds[i] = -1;
	}
	return count;
}

/* Copies of all sockets of entries: another listener may have one of their addresses now. */
static unsigned int copy_sockets(const struct daemon *daemon, int *copies)
{
	unsigned int count = 0;
	struct address address;
	int fd;

	TAILQ_EACH (door, &daemon->doors, node) {
		if (!door->gate)
			continue;
		for (size_t i = 0; count < HANDED_SOCKETS_MAX &&
		                   (fd = listener_fd(door->listener, i, &address)) >= 0;
		     i++)
			copies[count++] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return count;
}

/* Clients wait if a SUSPEND is complete, or if another process serves them. */
static void set_accepting(const struct daemon *daemon, struct listener *listener)
{
	const struct lane *lane = daemon->lanes.at;

	listener_accept(listener,
	                !daemon->is_served_elsewhere && lane->pools->suspend != SUSPEND_DONE);
	if (lane->clients->drain.is_on)
		listener_unlisten(listener);
	else if (!daemon->is_served_elsewhere)
		listener_relisten(listener);
}

/* entry NULL: the main listener. */
static bool open_listener(const struct doors_change *change, struct door *door,
                          const struct config_listener *entry, struct err *err)
{
	const struct daemon *daemon = change->daemon;
	const struct config *config = daemon->now.config;
	struct takeover *takeover = change->takeover;
	int fds[HANDED_SOCKETS_MAX];
	char path[ADDRESS_UNIX_PATH_SIZE];
	struct listener_options options = {
		.name = entry ? entry->name : NULL,
		.addresses = entry ? entry->addr : config->listen_addr.text,
		.port = (uint16_t)(entry ? entry->port : config->listen_port),
		.unix_path = path,
		.unix_mode = (mode_t)config->unix_socket_mode,
		.unix_group = config->unix_socket_group,
		.backlog = config->listen_backlog,
		.reuse_port = config->so_reuseport,
		.is_strict = entry != NULL,
		.tcp_defer_accept = config->tcp_defer_accept,
		.socket = daemon->lanes.at[0].pools->server_sockets,
		.on_accept = on_accept,
		.on_shortage = on_shortage,
		.arg = door,
		.log = daemon->logger,
	};

	address_unix_path(path, entry ? entry->unix_socket_dir : config->unix_socket_dir,
	                  options.port);
	if (!takeover) {
		options.inherited = fds;
		options.inherited_count = copy_sockets(daemon, fds);
	} else {
		options.given = fds;
		options.given_count = take_given(daemon, entry, change->given, fds);
		options.inherited = takeover->sockets.fds;
		options.inherited_count = takeover->sockets.count;
	}
	door->opened = listener_open(daemon->loop, &options, err);
	for (unsigned int i = 0; !takeover && i < options.inherited_count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	if (door->opened)
		set_accepting(daemon, door->opened);
	else if (entry)
		err_prefix(err, "listener \"%s\": ", entry->name);
	return door->opened != NULL;
}

/* ---- a change: at the start, and by a RELOAD ---- */

static bool is_same_place(const struct config_listener *a, const struct config_listener *b)
{
	return a->port == b->port && text_same(a->addr, b->addr) &&
	       text_same(a->unix_socket_dir, b->unix_socket_dir);
}

/* rules NULL: the main listener. */
static bool prepare_one(struct doors_change *change, struct gate_rules *rules, struct err *err)
{
	struct daemon *daemon = change->daemon;
	const struct config_listener *entry = rules ? rules->entry : NULL;
	struct door *door = rules ? find(daemon, entry->name) : NULL;

	if (door) {
		load_keep_same(&rules->tls, door->gate->rules.tls);
		if (is_same_place(door->gate->rules.entry, entry) ||
		    listener_is_given(door->listener))
			return true;
	} else {
		door = door_new(daemon, entry, err);
		if (!door)
			return false;
		TAILQ_INSERT_TAIL(&change->fresh, door, node);
	}
	if (daemon->handover || daemon->takeover || daemon->lanes.at[0].clients->is_shutting_down)
		return err_set(err, ERR_STATE,
		               "no listener is opened during a take-over or a shutdown");
	return open_listener(change, door, entry, err);
}

bool doors_prepare(struct doors_change *change, struct gates *gates, struct err *err)
{
	bool is_good;

	TAILQ_INIT(&change->fresh);
	is_good = !change->takeover || prepare_one(change, NULL, err);
	for (size_t i = 0; is_good && i < gates->count; i++)
		is_good = prepare_one(change, &gates->at[i], err);
	if (!is_good)
		doors_abandon(change);
	return is_good;
}

void doors_abandon(struct doors_change *change)
{
	TAILQ_EACH (door, &change->daemon->doors, node)
		listener_free(&door->opened);
	doors_free(&change->fresh);
}

/* Those who wait in the backlog are accepted first. */
static void shut(struct door *door)
{
	if (!door->listener)
		return;
	log_info(&door->daemon->logger, "closing listener %s", door->gate->name);
	listener_close_tcp(door->listener);
}

/* Its former listener, if there is another one, is in `opened` then. */
static void switch_listener(const struct doors_change *change, struct door *door)
{
	struct listener *former = door->listener;

	if (!door->opened)
		return;
	shut(door);
	door->listener = door->opened;
	door->opened = former;
	if (!change->takeover)
		listener_own_file(door->listener, true);
}

static bool has_entry(const struct gates *gates, const char *name)
{
	for (size_t i = 0; i < gates->count; i++) {
		if (strcmp(gates->at[i].entry->name, name) == 0)
			return true;
	}
	return false;
}

void doors_commit(struct doors_change *change, struct gates *gates)
{
	struct daemon *daemon = change->daemon;
	struct door_list gone = TAILQ_HEAD_INITIALIZER(gone);
	struct door *door, *next;

	lanes_hold(&daemon->lanes);
	TAILQ_FOREACH_SAFE (door, &daemon->doors, node, next) {
		if (!door->gate || has_entry(gates, door->gate->name))
			continue;
		TAILQ_REMOVE(&daemon->doors, door, node);
		TAILQ_INSERT_TAIL(&gone, door, node);
	}
	TAILQ_CONCAT(&daemon->doors, &change->fresh, node);
	for (size_t i = 0; i < gates->count; i++) {
		struct gate *gate = find(daemon, gates->at[i].entry->name)->gate;

		gate_rules_done(&gate->rules);
		gate->rules = gates->at[i];
	}
	gates->count = 0;
	TAILQ_FOREACH (door, &daemon->doors, node)
		switch_listener(change, door);
	/* Only now: each may have the Unix socket that another one had. */
	TAILQ_FOREACH (door, &daemon->doors, node)
		close_listener(daemon, &door->opened);
	TAILQ_FOREACH (door, &gone, node)
		shut(door);
	doors_free(&gone);
	lanes_release(&daemon->lanes);
	doors_set_options(daemon);
}

/* ---- all of them ---- */

void doors_accept(struct daemon *daemon)
{
	TAILQ_EACH (door, &daemon->doors, node)
		set_accepting(daemon, door->listener);
}

void doors_serve(struct daemon *daemon, bool are_ours)
{
	const char *pidfile = daemon->now.config->pidfile;
	struct err err;

	daemon->is_served_elsewhere = !are_ours;
	doors_accept(daemon);
	TAILQ_EACH (door, &daemon->doors, node)
		listener_own_file(door->listener, are_ours);
	if (are_ours && *pidfile && !pidfile_replace(pidfile, &err))
		log_error(&daemon->logger, "%s", err.text);
}

void doors_set_options(struct daemon *daemon)
{
	TAILQ_EACH (door, &daemon->doors, node)
		listener_set_options(door->listener, &daemon->lanes.at[0].pools->server_sockets,
		                     daemon->now.config->tcp_defer_accept);
}

bool doors_show(struct daemon *daemon, size_t index, struct listener_shown *shown)
{
	TAILQ_EACH (door, &daemon->doors, node) {
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
