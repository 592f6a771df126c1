/* SPDX-License-Identifier: ISC */
/*
 * The life of a listener: which sockets are open, and when they are closed.
 *
 * Hard here: if some of several addresses fail, that is only a warning. The Unix socket's file
 * is removed at the end, unless another process has replaced it.
 */
#include "listener_priv.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/text.h"

/*
 * ---- accepting ----
 *
 * Accepting connections.
 *
 *   listening socket --> accept4() --> on_accept()
 *        \-- out of descriptors --> no socket is watched --> timer, or listener_retry()
 *
 * Hard here: a listening socket that cannot be served stays readable and would make the loop
 * spin. So while the listener rests, its sockets are not watched. It rests as often as
 * necessary, but the log has one line only.
 */

#define ACCEPT_PER_TURN 64
#define LAST_CALL_MAX 65536 /* accepted before closing: more than any backlog */
#define REST_LIMIT (250 * USEC_PER_MS)

/* Whether sockets should be watched: the listener neither pauses nor rests. */
static bool listener_wants_clients(const struct listener *listener)
{
	return !listener->is_paused && !listener->is_resting;
}

static void update_sockets(struct listener *listener)
{
	struct listen_socket *listen_socket;

	TAILQ_FOREACH (listen_socket, &listener->sockets, node)
		watch_set(&listen_socket->watch, listener_wants_clients(listener) ? WATCH_READ : 0);
}

static void on_rest_over(struct timer *timer)
{
	listener_retry(container_of(timer, struct listener, rest));
}

static void begin_rest(struct listener *listener, int failure)
{
	if (!listener->has_warned)
		log_warning(&listener->options.log, "cannot accept connections: %s; retrying later",
		            strerror(failure));
	listener->has_warned = true;
	listener->is_resting = true;
	update_sockets(listener);
	timer_begin(&listener->rest, listener->loop, REST_LIMIT, on_rest_over);
	if (listener->options.on_shortage)
		listener->options.on_shortage(listener->arg);
}

/* Gets the address of the client. false: it has disconnected already. */
static bool get_peer_address(const struct listen_socket *listen_socket, int fd,
                             const struct sockaddr_storage *name, socklen_t size,
                             struct address *peer)
{
	if (listen_socket->address.family == AF_UNSPEC)
		return address_of_peer(peer, fd, listen_socket->listener->options.port);
	return address_from_sockaddr(peer, (const struct sockaddr *)name, size);
}

static bool is_passing(int failure)
{
	return failure == EINTR || failure == ECONNABORTED || failure == EPROTO ||
	       failure == EPERM || failure == ENETDOWN || failure == EHOSTDOWN ||
	       failure == EHOSTUNREACH || failure == ENETUNREACH || failure == ENOPROTOOPT;
}

/* Only now is a shortage over: a single free descriptor does not end it. */
static void on_backlog_empty(struct listener *listener)
{
	if (listener->has_warned)
		log_info(&listener->options.log, "accepting connections again");
	listener->has_warned = false;
}

/* Accepts one connection. false: enough for this turn; the socket may be closed. */
static bool accept_one(struct listen_socket *listen_socket)
{
	struct listener *listener = listen_socket->listener;
	unsigned int before = listener->socket_count;
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	struct address peer;
	int fd = accept4(listen_socket->watch.fd, (struct sockaddr *)&name, &size,
	                 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && is_passing(errno))
		return true;
	if (fd < 0) {
		if (errno == EAGAIN)
			on_backlog_empty(listener);
		else
			begin_rest(listener, errno);
		return false;
	}
	if (!get_peer_address(listen_socket, fd, &name, size, &peer)) {
		close(fd);
		return true;
	}
	listener->on_accept(listener->arg, fd, &peer);
	return listener_wants_clients(listener) && listener->socket_count == before;
}

/* Called for the watch of a listen_socket, which is its first member. */
static void listener_on_ready(struct watch *watch, unsigned int what)
{
	int count = 0;

	(void)what;
	while (count < ACCEPT_PER_TURN && accept_one((struct listen_socket *)watch))
		count++;
}

/* All in the backlog: closing the socket would reset it. Inherited sockets stay open elsewhere. */
static void listener_accept_all(struct listener *listener)
{
	struct listen_socket *listen_socket, *next;
	int count = 0;

	if (listener->options.given_count)
		return;
	TAILQ_FOREACH_SAFE (listen_socket, &listener->sockets, node, next) {
		while (listen_socket->address.family != AF_UNSPEC && accept_one(listen_socket)) {
			if (++count == LAST_CALL_MAX)
				return;
		}
	}
}

void listener_pause(struct listener *listener)
{
	listener->is_paused = true;
	update_sockets(listener);
}

void listener_resume(struct listener *listener)
{
	listener->is_paused = false;
	update_sockets(listener);
}

void listener_retry(struct listener *listener)
{
	if (!listener->is_resting)
		return;
	timer_clear(&listener->rest);
	listener->is_resting = false;
	update_sockets(listener);
}

/* ---- sockets ---- */

/* Owns `fd` from now on, also if it fails. `address` NULL: the Unix socket. */
static bool add_socket(struct listener *listener, int fd, const struct address *address,
                       struct err *err)
{
	struct listen_socket *listen_socket = calloc(1, sizeof(*listen_socket));

	_Static_assert(offsetof(struct listen_socket, watch) == 0,
	               "listener_on_knock() counts on it");
	if (!listen_socket) {
		close(fd);
		return err_set(err, ERR_MEMORY, "no memory for a listening socket");
	}
	listen_socket->listener = listener;
	if (address)
		listen_socket->address = *address;
	watch_init(&listen_socket->watch, listener->loop, fd, listener_on_ready);
	TAILQ_INSERT_TAIL(&listener->sockets, listen_socket, node);
	listener->socket_count++;
	if (listener_wants_clients(listener) && !watch_set(&listen_socket->watch, WATCH_READ))
		return err_set(err, ERR_SYSTEM, "cannot watch a listening socket");
	return true;
}

/* Closes the socket but keeps the struct with its address. */
static void close_socket(struct listener *listener, struct listen_socket *listen_socket)
{
	watch_done(&listen_socket->watch);
	close(listen_socket->watch.fd);
	TAILQ_REMOVE(&listener->sockets, listen_socket, node);
	TAILQ_INSERT_TAIL(&listener->unlistened, listen_socket, node);
	listener->socket_count--;
}

static void free_unlistened(struct listener *listener)
{
	struct listen_socket *listen_socket;

	while ((listen_socket = TAILQ_FIRST(&listener->unlistened))) {
		TAILQ_REMOVE(&listener->unlistened, listen_socket, node);
		free(listen_socket);
	}
}

static void close_sockets(struct listener *listener, bool with_unix)
{
	struct listen_socket *listen_socket, *next;

	TAILQ_FOREACH_SAFE (listen_socket, &listener->sockets, node, next) {
		if (with_unix || listen_socket->address.family != AF_UNSPEC)
			close_socket(listener, listen_socket);
	}
}

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

static void close_all(struct listener *listener)
{
	close_sockets(listener, true);
	free_unlistened(listener);
	remove_unix_file(listener);
}

/* listener_accept_all() may call on_accept(), which may call listener_close_tcp() again. */
static bool close_tcp(struct listener *listener)
{
	if (listener->is_closing)
		return false;
	listener->is_closing = true;
	listener_accept_all(listener);
	close_sockets(listener, false);
	listener->is_closing = false;
	return true;
}

void listener_close_tcp(struct listener *listener)
{
	if (close_tcp(listener))
		free_unlistened(listener);
}

void listener_unlisten(struct listener *listener)
{
	if (listener->options.reuse_port && !listener->options.given_count)
		close_tcp(listener);
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
	const struct listen_socket *listen_socket;

	TAILQ_FOREACH (listen_socket, &listener->sockets, node) {
		if (address_equal(&listen_socket->address, address) && address_port(address) != 0)
			return true;
	}
	return false;
}

static void warn(const struct listener *listener, const struct err *err)
{
	if (!listener->options.is_retried)
		log_warning(&listener->options.log, "%s", err->text);
}

static void say_listening(const struct listener *listener, const char *kind, const char *where)
{
	const char *name = listener->options.name;

	log_info(&listener->options.log, "listening on %s%s%s%s%s", kind, where,
	         name ? " for listener " : "", name ? name : "",
	         listener->options.given_count ? " (opened by the service manager)" : "");
}

/* A failure is only a warning: other addresses may work. */
static void open_address(struct listener *listener, const struct address *address, struct err *err)
{
	char text[ADDRESS_TEXT_SIZE];
	struct address bound;
	int fd;

	if (is_open_already(listener, address))
		return;
	fd = listener_find_inherited(&listener->options, address, NULL);
	if (fd < 0)
		fd = listener_bind_tcp(address, &listener->options, err);
	if (fd < 0) {
		warn(listener, err);
		return;
	}
	if (!address_of_self(&bound, fd, 0))
		bound = *address;
	if (add_socket(listener, fd, &bound, err))
		say_listening(listener, "", address_format(&bound, text, sizeof(text)));
	else
		warn(listener, err);
}

static void open_name(struct listener *listener, const char *name, struct err *err)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
		                  .ai_socktype = SOCK_STREAM,
		                  .ai_flags = AI_PASSIVE };
	struct addrinfo *found = NULL;
	struct address address;
	int failure = getaddrinfo(name, NULL, &hints, &found);

	if (failure) {
		err_set(err, ERR_CONFIG, "cannot listen on %s: %s", name,
		        failure == EAI_SYSTEM ? strerror(errno) : gai_strerror(failure));
		warn(listener, err);
		return;
	}
	for (const struct addrinfo *at = found; at; at = at->ai_next) {
		if (!address_from_sockaddr(&address, at->ai_addr, at->ai_addrlen))
			continue;
		address_set_port(&address, listener->options.port);
		open_address(listener, &address, err);
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

static void open_word(struct listener *listener, const char *word, struct err *err)
{
	uint16_t port = listener->options.port;
	struct address address;

	if (strcmp(word, "*") == 0) {
		address_parse(&address, "0.0.0.0", port);
		open_address(listener, &address, err);
		if (has_ipv6() && address_parse(&address, "::", port))
			open_address(listener, &address, err);
	} else if (address_parse(&address, word, port)) {
		open_address(listener, &address, err);
	} else if (listener->options.is_strict) {
		err_set(err, ERR_CONFIG, "cannot listen on %s: it is no IP address", word);
	} else {
		open_name(listener, word, err);
	}
}

static bool open_tcp(struct listener *listener, struct err *err)
{
	char *list = strdup(listener->options.addresses), *rest_of_list = list, *word;
	bool was_asked = false;

	if (!list)
		return err_set(err, ERR_MEMORY, "no memory for listen_addr");
	err->code = ERR_NONE;
	while ((word = strsep(&rest_of_list, ","))) {
		word = text_trim(word);
		if (!*word)
			continue;
		was_asked = true;
		open_word(listener, word, err);
	}
	free(list);
	if (listener->options.is_strict)
		return err->code == ERR_NONE;
	if (was_asked && listener->socket_count == 0 && listener->options.is_retried)
		return false;
	if (was_asked && listener->socket_count == 0)
		return err_set(err, ERR_CONFIG, "cannot listen on any address of listen_addr = %s",
		               listener->options.addresses);
	return true;
}

void listener_relisten(struct listener *listener)
{
	struct listen_socket *listen_socket;
	struct err err;

	TAILQ_FOREACH (listen_socket, &listener->unlistened, node)
		open_address(listener, &listen_socket->address, &err);
	free_unlistened(listener);
}

/* ---- the Unix socket ---- */

/* *path is NULL if there is none. */
static bool unix_path(const struct listener *listener, char **path, struct err *err)
{
	const char *whole = listener->options.unix_path;

	*path = NULL;
	if (whole && *whole)
		*path = strdup(whole);
	else if (!*listener->options.unix_dir)
		return true;
	else if (asprintf(path, "%s/.s.PGSQL.%u", listener->options.unix_dir,
	                  listener->options.port) < 0)
		*path = NULL;
	return *path || err_set(err, ERR_MEMORY, "no memory for the name of a Unix socket");
}

static bool open_unix(struct listener *listener, struct err *err)
{
	char *path;
	int fd;

	if (!unix_path(listener, &path, err))
		return false;
	if (!path)
		return true;
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
	if (!add_socket(listener, fd, NULL, err))
		return false;
	say_listening(listener, "unix:", path);
	return true;
}

/* ---- sockets that were given ---- */

static bool open_given(struct listener *listener, struct err *err)
{
	char text[ADDRESS_TEXT_SIZE];
	struct given given;
	bool is_unix;

	if (!listener->options.name)
		log_warning(
		    &listener->options.log,
		    "listen_addr and unix_socket_dir are ignored for listening: the service "
		    "manager has opened the sockets");
	for (unsigned int i = 0; i < listener->options.given_count; i++) {
		if (!listener_judge_given(listener->options.given[i], &given, err))
			return false;
		is_unix = given.address.family == AF_UNSPEC;
		if (!add_socket(listener, given.fd, is_unix ? NULL : &given.address, err))
			return false;
		say_listening(listener, is_unix ? "unix:" : "",
		              is_unix ? given.path
		                      : address_format(&given.address, text, sizeof(text)));
	}
	return true;
}

/* ---- creation and end ---- */

static char *copy_text(const char *text) { return strdup(text ? text : ""); }

struct listener *listener_new(struct loop *loop, const struct listener_options *options,
                              listener_on_accept *on_accept, void *arg)
{
	struct listener *listener = calloc(1, sizeof(*listener));

	if (!listener)
		return NULL;
	TAILQ_INIT(&listener->sockets);
	TAILQ_INIT(&listener->unlistened);
	listener->loop = loop;
	listener->is_file_ours = true;
	listener->on_accept = on_accept;
	listener->arg = arg;
	listener->options = *options;
	/*
	 * With tcp_defer_accept the kernel holds back silent connections. They would be lost when
	 * the port is closed, although another process that shares it could serve them.
	 */
	if (options->reuse_port)
		listener->options.tcp_defer_accept = 0;
	listener->options.name = options->name ? strdup(options->name) : NULL;
	listener->options.addresses = copy_text(options->addresses);
	listener->options.unix_dir = copy_text(options->unix_dir);
	listener->options.unix_group = copy_text(options->unix_group);
	if (!listener->options.addresses || !listener->options.unix_dir ||
	    !listener->options.unix_group)
		listener_free(&listener);
	return listener;
}

bool listener_open(struct listener *listener, struct err *err)
{
	struct err own;

	if (!err)
		err = &own;
	if (listener->options.given_count) {
		if (open_given(listener, err))
			return true;
	} else if (open_tcp(listener, err) && open_unix(listener, err)) {
		return true;
	}
	close_all(listener);
	return false;
}

void listener_free(struct listener **listener)
{
	if (!*listener)
		return;
	timer_clear(&(*listener)->rest);
	close_all(*listener);
	free((char *)(*listener)->options.name);
	free((char *)(*listener)->options.addresses);
	free((char *)(*listener)->options.unix_dir);
	free((char *)(*listener)->options.unix_group);
	free(*listener);
	*listener = NULL;
}

void listener_set_options(struct listener *listener, const struct socket_options *socket,
                          int tcp_defer_accept)
{
	struct listen_socket *listen_socket;

	listener->options.socket = *socket;
	if (listener->options.reuse_port)
		tcp_defer_accept = 0; /* see listener_new() */
	listener->options.tcp_defer_accept = tcp_defer_accept;
	TAILQ_FOREACH (listen_socket, &listener->sockets, node) {
		if (listen_socket->address.family == AF_UNSPEC)
			continue;
		socket_options_apply(listen_socket->watch.fd, socket);
		setsockopt(listen_socket->watch.fd, IPPROTO_TCP, TCP_DEFER_ACCEPT,
		           &tcp_defer_accept, sizeof(tcp_defer_accept));
	}
}

unsigned int listener_count(const struct listener *listener) { return listener->socket_count; }

int listener_fd(const struct listener *listener, size_t index, struct address *address)
{
	const struct listen_socket *listen_socket;

	TAILQ_FOREACH (listen_socket, &listener->sockets, node) {
		if (index-- == 0) {
			*address = listen_socket->address;
			return listen_socket->watch.fd;
		}
	}
	return -1;
}

bool listener_is_paused(const struct listener *listener) { return listener->is_paused; }

const char *listener_unix_path(const struct listener *listener) { return listener->unix_path; }

bool listener_is_resting(const struct listener *listener) { return listener->is_resting; }
