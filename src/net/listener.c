/* SPDX-License-Identifier: ISC */
/*
 * Listeners.
 *
 *   door (one socket) --> accept4() --> on_accept()
 *        \-- no descriptor left --> all doors rest --> timer, or listener_retry()
 *
 * Hard here: a listening socket that cannot be served stays readable, and would
 * make the loop spin; so while the listener rests nobody watches it. A listener
 * rests for as long as needed, but only one line in the log says so.
 */
#include "pgweir/net/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listener_priv.h"
#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

#define ACCEPT_PER_TURN 64
#define LAST_CALL_MAX 65536 /* let in at the end: more than any backlog holds */
#define REST_LIMIT (250 * USEC_PER_MS)

#define LISTENER_OF(part, member) \
	((struct listener *)((char *)(part)-offsetof(struct listener, member)))

/* One listening socket. */
struct door {
	struct watch watch;
	struct listener *listener;
	struct address address; /* nowhere: the Unix socket */
	TAILQ_ENTRY(door) node;
};

struct listener {
	struct loop *loop;
	unsigned long knocked_at;        /* the turn in which somebody came in last */
	int burst;                       /* how many to let in at one knock */
	struct listener_options options; /* its texts are ours */
	char *addresses;
	char *unix_dir;
	char *unix_group;
	char *unix_path;       /* bound, to be removed at the end; NULL = none */
	struct stat unix_file; /* what we made there */
	listener_on_accept *on_accept;
	void *arg;
	TAILQ_HEAD(, door) doors;
	TAILQ_HEAD(, door) aside; /* closed for now: their addresses */
	unsigned int door_count;
	unsigned long accepted_count;
	struct timer rest;
	bool is_file_ours;
	bool is_paused;
	bool is_resting;
	bool is_closing; /* the last ones are being let in */
	bool has_warned; /* of a shortage that is not over */
};

/* ---- coming in ---- */

static bool wants_clients(const struct listener *listener)
{
	return !listener->is_paused && !listener->is_resting;
}

static void update_doors(struct listener *listener)
{
	struct door *door;

	TAILQ_FOREACH (door, &listener->doors, node)
		watch_set(&door->watch, wants_clients(listener) ? WATCH_READ : 0);
}

static void on_rest_over(struct timer *timer) { listener_retry(LISTENER_OF(timer, rest)); }

static void rest(struct listener *listener, int failure)
{
	if (!listener->has_warned)
		log_warning(&listener->options.log,
		            "cannot accept connections: %s; will go on when there is room",
		            strerror(failure));
	listener->has_warned = true;
	listener->is_resting = true;
	update_doors(listener);
	timer_set(&listener->rest, loop_line(listener->loop, REST_LIMIT, on_rest_over),
	          loop_now(listener->loop));
}

/* Whether a callee has left this door open. */
static bool has_door(const struct listener *listener, const struct door *door)
{
	const struct door *open;

	TAILQ_FOREACH (open, &listener->doors, node) {
		if (open == door)
			return true;
	}
	return false;
}

/* Who came in. false: gone already. */
static bool identify(const struct door *door, int fd, const struct sockaddr_storage *name,
                     socklen_t size, struct address *peer)
{
	if (door->address.family == AF_UNSPEC)
		return address_of_peer(peer, fd, door->listener->options.port);
	return address_from_sockaddr(peer, (const struct sockaddr *)name, size);
}

static void admit(struct listener *listener, int fd, const struct address *peer)
{
	listener->accepted_count++;
	listener->on_accept(listener->arg, fd, peer);
}

/* What accept() may fail with although the next one can succeed. */
static bool is_passing(int failure)
{
	return failure == EINTR || failure == ECONNABORTED || failure == EPROTO ||
	       failure == EPERM || failure == ENETDOWN || failure == EHOSTDOWN ||
	       failure == EHOSTUNREACH || failure == ENETUNREACH || failure == ENOPROTOOPT;
}

/* Nobody is left outside. Only now is a shortage over: one descriptor that came free is not its
 * end. */
static void all_are_in(struct listener *listener)
{
	if (listener->has_warned)
		log_info(&listener->options.log, "accepting connections again");
	listener->has_warned = false;
}

/* Lets one in. false: enough for this turn, and the door may be gone. */
static bool accept_one(struct door *door)
{
	struct listener *listener = door->listener;
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	struct address peer;
	int fd =
	    accept4(door->watch.fd, (struct sockaddr *)&name, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && is_passing(errno))
		return true;
	if (fd < 0) {
		if (errno == EAGAIN)
			all_are_in(listener);
		else
			rest(listener, errno);
		return false;
	}
	if (!identify(door, fd, &name, size, &peer)) {
		close(fd);
		return true;
	}
	admit(listener, fd, &peer);
	return wants_clients(listener) && has_door(listener, door);
}

static void on_knock(struct watch *watch, unsigned int what)
{
	struct door *door = (struct door *)watch;

	struct listener *listener = door->listener;
	unsigned long turn = loop_turn_count(listener->loop);
	bool is_rush = turn - listener->knocked_at <= 1;
	int count = 0;

	(void)what;
	listener->knocked_at = turn;
	/* As many as came together lately: an accept() too many is a system call for nothing. */
	while (count < listener->burst) {
		if (!accept_one(door)) {
			listener->burst = listener->has_warned ? ACCEPT_PER_TURN
			                  : count              ? count
			                                       : 1;
			return;
		}
		count++;
	}
	if (is_rush && listener->burst < ACCEPT_PER_TURN)
		listener->burst *= 2;
}

int listener_fd(const struct listener *listener, size_t index, struct address *address)
{
	const struct door *door;

	TAILQ_FOREACH (door, &listener->doors, node) {
		if (index-- == 0) {
			*address = door->address;
			return door->watch.fd;
		}
	}
	return -1;
}

void listener_pause(struct listener *listener)
{
	listener->is_paused = true;
	update_doors(listener);
}

void listener_resume(struct listener *listener)
{
	listener->is_paused = false;
	update_doors(listener);
}

void listener_retry(struct listener *listener)
{
	if (!listener->is_resting)
		return;
	timer_clear(&listener->rest);
	listener->is_resting = false;
	update_doors(listener);
}

/* ---- doors ---- */

/* Takes over `fd`, also when it fails. `address` NULL: the Unix socket. */
static bool add_door(struct listener *listener, int fd, const struct address *address,
                     struct err *err)
{
	struct door *door = calloc(1, sizeof(*door));

	_Static_assert(offsetof(struct door, watch) == 0, "on_knock() counts on it");
	if (!door) {
		close(fd);
		return err_set(err, ERR_MEMORY, "no memory for a listening socket");
	}
	door->listener = listener;
	if (address)
		door->address = *address;
	watch_init(&door->watch, listener->loop, fd, on_knock);
	TAILQ_INSERT_TAIL(&listener->doors, door, node);
	listener->door_count++;
	if (wants_clients(listener) && !watch_set(&door->watch, WATCH_READ))
		return err_set(err, ERR_SYSTEM, "cannot watch a listening socket");
	return true;
}

/* What stays of it is its address. */
static void shut_door(struct listener *listener, struct door *door)
{
	watch_done(&door->watch);
	close(door->watch.fd);
	TAILQ_REMOVE(&listener->doors, door, node);
	listener->door_count--;
}

static void remove_door(struct listener *listener, struct door *door)
{
	shut_door(listener, door);
	free(door);
}

static void forget_aside(struct listener *listener)
{
	struct door *door;

	while ((door = TAILQ_FIRST(&listener->aside))) {
		TAILQ_REMOVE(&listener->aside, door, node);
		free(door);
	}
}

static void close_doors(struct listener *listener, bool with_unix)
{
	struct door *door = TAILQ_FIRST(&listener->doors), *next;

	for (; door; door = next) {
		next = TAILQ_NEXT(door, node);
		if (with_unix || door->address.family != AF_UNSPEC)
			remove_door(listener, door);
	}
}

/*
 * Whoever is connected by now, and waits to be accepted: the kernel would reset them with the
 * socket. What the service manager gave us it keeps open, and they wait for who comes next.
 */
static void let_all_in(struct listener *listener)
{
	struct door *door = TAILQ_FIRST(&listener->doors), *next;
	int count = 0;

	if (listener->options.given_count)
		return;
	for (; door; door = next) {
		next = TAILQ_NEXT(door, node);
		while (door->address.family != AF_UNSPEC && accept_one(door)) {
			if (++count == LAST_CALL_MAX)
				return;
		}
	}
}

/* From within let_all_in() it has begun already. */
void listener_close_tcp(struct listener *listener)
{
	if (listener->is_closing)
		return;
	listener->is_closing = true;
	let_all_in(listener);
	close_doors(listener, false);
	forget_aside(listener);
	listener->is_closing = false;
}

void listener_own_file(struct listener *listener, bool is_ours)
{
	listener->is_file_ours = is_ours;
}

bool listener_is_given(const struct listener *listener)
{
	return listener->options.given_count > 0;
}

/* ---- TCP ---- */

static bool is_open_already(const struct listener *listener, const struct address *address)
{
	const struct door *door;

	TAILQ_FOREACH (door, &listener->doors, node) {
		if (address_equal(&door->address, address) && address_port(address) != 0)
			return true;
	}
	return false;
}

/* A failure is a warning: another address may do. */
static void open_address(struct listener *listener, const struct address *address)
{
	char text[ADDRESS_TEXT_SIZE];
	struct address bound;
	struct err err;
	int fd;

	if (is_open_already(listener, address))
		return;
	fd = listener_find_inherited(&listener->options, address, NULL);
	if (fd < 0)
		fd = listener_bind_tcp(address, &listener->options, &err);
	if (fd < 0) {
		log_warning(&listener->options.log, "%s", err.text);
		return;
	}
	if (!address_of_self(&bound, fd, 0))
		bound = *address;
	if (add_door(listener, fd, &bound, &err))
		log_info(&listener->options.log, "listening on %s",
		         address_format(&bound, text, sizeof(text)));
	else
		log_warning(&listener->options.log, "%s", err.text);
}

static void open_name(struct listener *listener, const char *name)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
		                  .ai_socktype = SOCK_STREAM,
		                  .ai_flags = AI_PASSIVE };
	struct addrinfo *found = NULL;
	struct address address;
	int failure = getaddrinfo(name, NULL, &hints, &found);

	if (failure) {
		log_warning(&listener->options.log, "cannot listen on %s: %s", name,
		            failure == EAI_SYSTEM ? strerror(errno) : gai_strerror(failure));
		return;
	}
	for (const struct addrinfo *at = found; at; at = at->ai_next) {
		if (!address_from_sockaddr(&address, at->ai_addr, at->ai_addrlen))
			continue;
		address_set_port(&address, listener->options.port);
		open_address(listener, &address);
	}
	freeaddrinfo(found);
}

static bool has_ipv6(void)
{
	int fd = socket_open(AF_INET6);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != EAFNOSUPPORT;
}

static void open_word(struct listener *listener, const char *word)
{
	uint16_t port = listener->options.port;
	struct address address;

	if (strcmp(word, "*") == 0) {
		address_parse(&address, "0.0.0.0", port);
		open_address(listener, &address);
		if (has_ipv6() && address_parse(&address, "::", port))
			open_address(listener, &address);
	} else if (address_parse(&address, word, port)) {
		open_address(listener, &address);
	} else {
		open_name(listener, word);
	}
}

static bool open_tcp(struct listener *listener, struct err *err)
{
	char *list = strdup(listener->addresses), *rest_of_list = list, *word;
	bool was_asked = false;

	if (!list)
		return err_set(err, ERR_MEMORY, "no memory for listen_addr");
	while ((word = strsep(&rest_of_list, ","))) {
		word = text_trim(word);
		if (!*word)
			continue;
		was_asked = true;
		open_word(listener, word);
	}
	free(list);
	if (was_asked && listener->door_count == 0)
		return err_set(err, ERR_CONFIG, "cannot listen on any address of listen_addr = %s",
		               listener->addresses);
	return true;
}

void listener_step_aside(struct listener *listener)
{
	struct door *door, *next;

	if (!listener->options.reuse_port || listener->options.given_count || listener->is_closing)
		return;
	listener->is_closing = true;
	let_all_in(listener);
	listener->is_closing = false;
	for (door = TAILQ_FIRST(&listener->doors); door; door = next) {
		next = TAILQ_NEXT(door, node);
		if (door->address.family == AF_UNSPEC)
			continue;
		shut_door(listener, door);
		TAILQ_INSERT_TAIL(&listener->aside, door, node);
	}
}

void listener_step_back(struct listener *listener)
{
	struct door *door;

	TAILQ_FOREACH (door, &listener->aside, node)
		open_address(listener, &door->address);
	forget_aside(listener);
}

/* ---- the Unix socket ---- */

static bool open_unix(struct listener *listener, struct err *err)
{
	char *path;
	int fd;

	if (!*listener->unix_dir)
		return true;
	if (asprintf(&path, "%s/.s.PGSQL.%u", listener->unix_dir, listener->options.port) < 0)
		return err_set(err, ERR_MEMORY, "no memory for unix_socket_dir");
	fd = listener_find_inherited(&listener->options, NULL, path);
	if (fd < 0)
		fd = listener_bind_unix(path, &listener->options, err);
	if (fd < 0) {
		free(path);
		return false;
	}
	listener->unix_path = path;
	if (path[0] != '@')
		lstat(path, &listener->unix_file);
	if (!add_door(listener, fd, NULL, err))
		return false;
	log_info(&listener->options.log, "listening on unix:%s", path);
	return true;
}

/* The file, unless another has put its own there since. */
static void remove_unix_file(struct listener *listener)
{
	const char *path = listener->unix_path;
	struct stat found;

	if (path && path[0] != '@' && listener->is_file_ours && lstat(path, &found) == 0 &&
	    found.st_dev == listener->unix_file.st_dev &&
	    found.st_ino == listener->unix_file.st_ino)
		unlink(path);
	free(listener->unix_path);
	listener->unix_path = NULL;
}

/* ---- sockets that were given ---- */

static bool open_given(struct listener *listener, struct err *err)
{
	unsigned int count = listener->options.given_count;
	struct given given[LISTENER_GIVEN_MAX];
	char text[ADDRESS_TEXT_SIZE];

	if (count > LISTENER_GIVEN_MAX)
		return err_set(err, ERR_CONFIG, "more than %d sockets", LISTENER_GIVEN_MAX);
	for (unsigned int i = 0; i < count; i++) {
		bool is_unix;

		if (!listener_judge_given(listener->options.given[i], &given[i], err))
			return false;
		is_unix = given[i].address.family == AF_UNSPEC;
		if (!add_door(listener, given[i].fd, is_unix ? NULL : &given[i].address, err))
			return false;
		log_info(&listener->options.log,
		         "listening on %s%s (opened by the service manager)",
		         is_unix ? "unix:" : "",
		         is_unix ? given[i].path
		                 : address_format(&given[i].address, text, sizeof(text)));
	}
	listener_check_given(given, count, &listener->options);
	return true;
}

/* ---- its life ---- */

static char *copy_text(const char *text) { return strdup(text ? text : ""); }

struct listener *listener_new(struct loop *loop, const struct listener_options *options,
                              listener_on_accept *on_accept, void *arg)
{
	struct listener *listener = calloc(1, sizeof(*listener));

	if (!listener)
		return NULL;
	TAILQ_INIT(&listener->doors);
	TAILQ_INIT(&listener->aside);
	listener->loop = loop;
	listener->burst = 1;
	listener->is_file_ours = true;
	listener->on_accept = on_accept;
	listener->arg = arg;
	listener->options = *options;
	/*
	 * A connection that has not spoken yet would not be handed over when the port is left,
	 * and lost: where others share the port, its client would have been served by them.
	 */
	if (options->reuse_port)
		listener->options.tcp_defer_accept = 0;
	listener->addresses = copy_text(options->addresses);
	listener->unix_dir = copy_text(options->unix_dir);
	listener->unix_group = copy_text(options->unix_group);
	listener->options.addresses = listener->addresses;
	listener->options.unix_dir = listener->unix_dir;
	listener->options.unix_group = listener->unix_group;
	if (!listener->addresses || !listener->unix_dir || !listener->unix_group)
		listener_free(&listener);
	return listener;
}

bool listener_open(struct listener *listener, struct err *err)
{
	if (listener->options.given_count) {
		if (open_given(listener, err))
			return true;
	} else if (open_tcp(listener, err) && open_unix(listener, err)) {
		return true;
	}
	close_doors(listener, true);
	remove_unix_file(listener);
	return false;
}

void listener_free(struct listener **listener)
{
	if (!*listener)
		return;
	timer_clear(&(*listener)->rest);
	close_doors(*listener, true);
	forget_aside(*listener);
	remove_unix_file(*listener);
	free((*listener)->addresses);
	free((*listener)->unix_dir);
	free((*listener)->unix_group);
	free(*listener);
	*listener = NULL;
}

void listener_set_options(struct listener *listener, const struct socket_options *socket,
                          int tcp_defer_accept)
{
	struct door *door;

	listener->options.socket = *socket;
	if (listener->options.reuse_port)
		tcp_defer_accept = 0; /* see listener_new() */
	listener->options.tcp_defer_accept = tcp_defer_accept;
	TAILQ_FOREACH (door, &listener->doors, node) {
		if (door->address.family == AF_UNSPEC)
			continue;
		socket_options_apply(door->watch.fd, socket);
		setsockopt(door->watch.fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &tcp_defer_accept,
		           sizeof(tcp_defer_accept));
	}
}

unsigned int listener_count(const struct listener *listener) { return listener->door_count; }

uint16_t listener_port(const struct listener *listener)
{
	const struct door *door;

	TAILQ_FOREACH (door, &listener->doors, node) {
		if (door->address.family != AF_UNSPEC)
			return address_port(&door->address);
	}
	return 0;
}

unsigned long listener_accepted_count(const struct listener *listener)
{
	return listener->accepted_count;
}

bool listener_is_resting(const struct listener *listener) { return listener->is_resting; }
