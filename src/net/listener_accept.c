/* SPDX-License-Identifier: ISC */
/*
 * Accepting connections.
 *
 *   listening socket --> accept4() --> on_accept()
 *        \-- out of descriptors --> no socket is watched --> timer, or listener_retry()
 *
 * Hard here: a listening socket that cannot be served stays readable and would make the loop
 * spin. So while the listener rests, its sockets are not watched. It rests as often as
 * necessary, but the log has one line only.
 */
#include "listener_priv.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"

#include "pgweir/base/banned.h"

#define ACCEPT_PER_TURN 64
#define LAST_CALL_MAX 65536 /* accepted before closing: more than any backlog */
#define REST_LIMIT (250 * USEC_PER_MS)

bool listener_wants_clients(const struct listener *listener)
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
	timer_set(&listener->rest, loop_timer_queue(listener->loop, REST_LIMIT, on_rest_over),
	          loop_now(listener->loop));
	if (listener->options.on_shortage)
		listener->options.on_shortage(listener->arg);
}

/* Whether on_accept() has left this socket open. */
static bool has_socket(const struct listener *listener, const struct listen_socket *listen_socket)
{
	const struct listen_socket *open;

	TAILQ_FOREACH (open, &listener->sockets, node) {
		if (open == listen_socket)
			return true;
	}
	return false;
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

static void accept_client(struct listener *listener, int fd, const struct address *peer)
{
	listener->accepted_count++;
	listener->on_accept(listener->arg, fd, peer);
}

/*
 * Whether this error of accept() concerns one connection only, so that the next one can
 * succeed.
 */
static bool is_passing(int failure)
{
	return failure == EINTR || failure == ECONNABORTED || failure == EPROTO ||
	       failure == EPERM || failure == ENETDOWN || failure == EHOSTDOWN ||
	       failure == EHOSTUNREACH || failure == ENETUNREACH || failure == ENOPROTOOPT;
}

/*
 * Nobody is waiting in the backlog any more. Only now is a shortage over: a single free
 * descriptor does not end it.
 */
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
	accept_client(listener, fd, &peer);
	return listener_wants_clients(listener) && has_socket(listener, listen_socket);
}

void listener_on_ready(struct watch *watch, unsigned int what)
{
	struct listen_socket *listen_socket = (struct listen_socket *)watch;
	struct listener *listener = listen_socket->listener;
	unsigned long turn = loop_turn_count(listener->loop);
	bool is_rush = turn - listener->accepted_at <= 1;
	int count = 0;

	(void)what;
	listener->accepted_at = turn;
	/*
	 * Accepts as many as have come together lately: one accept() too many is a wasted
	 * system call.
	 */
	while (count < listener->burst) {
		if (!accept_one(listen_socket)) {
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

void listener_accept_all(struct listener *listener)
{
	struct listen_socket *listen_socket = TAILQ_FIRST(&listener->sockets), *next;
	int count = 0;

	if (listener->options.given_count)
		return;
	for (; listen_socket; listen_socket = next) {
		next = TAILQ_NEXT(listen_socket, node);
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
