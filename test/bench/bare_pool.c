/* SPDX-License-Identifier: ISC */
/*
 * A bare pool, for the benchmark: the minimum that can log in a client without PostgreSQL.
 *
 *   startup --> the recorded login messages of PostgreSQL     no authentication
 *   query   --> an idle server --> its response               until ReadyForQuery
 *
 * It logs in to PostgreSQL a few times at start. It examines one byte of a packet, so it supports
 * only short queries and responses, one at a time; a short write ends the connection. Its cost is
 * the cost of the system calls of a login and a query.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVERS 16
#define BUFFER_SIZE 65536
#define EVENTS_MAX 64
#define READY_SIZE 6 /* of ReadyForQuery, the last message of a response */
#define PROTOCOL_3_0 196608

struct end {
	int fd;
	bool is_server;
	struct end *other; /* the client of a server, or the server of a client */
};

struct pool {
	int epoll, listener;
	in_port_t server_port;
	const char *user, *database;
	struct end *resting[SERVERS];
	unsigned int resting_count;
	char welcome[BUFFER_SIZE];
	size_t welcome_length;
	char buffer[BUFFER_SIZE];
};

static struct sockaddr_in loopback(in_port_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
		                     .sin_port = htons(port),
		                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static struct end *end_new(const struct pool *pool, int fd, bool is_server)
{
	struct end *end = calloc(1, sizeof(*end));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = end };

	if (end && epoll_ctl(pool->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
		*end = (struct end){ .fd = fd, .is_server = is_server };
		return end;
	}
	free(end);
	return NULL;
}

static bool is_answered(const char *at, size_t length)
{
	return length >= READY_SIZE && at[length - READY_SIZE] == 'Z';
}

static bool send_all(const struct end *end, const char *at, size_t length)
{
	return send(end->fd, at, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* ---- servers ---- */

/* Clients get the recorded login messages of the last server. */
static bool log_in(struct pool *pool, int fd)
{
	char room[512];
	int length = 8;
	uint32_t word = htonl(PROTOCOL_3_0);

	memcpy(room + 4, &word, sizeof(word));
	length += snprintf(room + length, sizeof(room) - (size_t)length, "user%c%s%cdatabase%c%s%c",
	                   0, pool->user, 0, 0, pool->database, 0);
	room[length++] = 0;
	word = htonl((uint32_t)length);
	memcpy(room, &word, sizeof(word));
	if (send(fd, room, (size_t)length, MSG_NOSIGNAL) != length)
		return false;
	pool->welcome_length = 0;
	while (!is_answered(pool->welcome, pool->welcome_length)) {
		ssize_t done = recv(fd, pool->welcome + pool->welcome_length,
		                    sizeof(pool->welcome) - pool->welcome_length, 0);

		if (done <= 0)
			return false;
		pool->welcome_length += (size_t)done;
	}
	return true;
}

static bool add_server(struct pool *pool)
{
	const struct sockaddr_in address = loopback(pool->server_port);
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct end *server;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		return false;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	server = log_in(pool, fd) ? end_new(pool, fd, true) : NULL;
	if (server)
		pool->resting[pool->resting_count++] = server;
	return server != NULL;
}

/* ---- clients ---- */

static void leave(struct end *client)
{
	if (client->other)
		client->other->other = NULL;
	close(client->fd);
	free(client);
}

/* TCP_DEFER_ACCEPT: its startup packet has already arrived. */
static void let_in(struct pool *pool)
{
	int fd = accept4(pool->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct end *client;

	if (fd < 0)
		return;
	client =
	    recv(fd, pool->buffer, sizeof(pool->buffer), 0) > 0 ? end_new(pool, fd, false) : NULL;
	if (!client)
		close(fd);
	else if (!send_all(client, pool->welcome, pool->welcome_length))
		leave(client);
}

static void ask(struct pool *pool, struct end *client, size_t length)
{
	if (!client->other && pool->resting_count) {
		client->other = pool->resting[--pool->resting_count];
		client->other->other = client;
	}
	if (!client->other || !send_all(client->other, pool->buffer, length))
		leave(client);
}

/* Its client may already be gone. */
static void answer(struct pool *pool, struct end *server, size_t length)
{
	struct end *client = server->other;

	if (is_answered(pool->buffer, length)) {
		pool->resting[pool->resting_count++] = server;
		server->other = NULL;
		if (client)
			client->other = NULL;
	}
	/* Its own event, possibly pending in this wait, closes it. */
	if (client && !send_all(client, pool->buffer, length))
		shutdown(client->fd, SHUT_RDWR);
}

/* false: PostgreSQL has closed the connection. */
static bool serve(struct pool *pool, struct end *end)
{
	ssize_t length = recv(end->fd, pool->buffer, sizeof(pool->buffer), 0);

	if (end->is_server && length > 0)
		answer(pool, end, (size_t)length);
	else if (!end->is_server && length > 0 && pool->buffer[0] != 'X')
		ask(pool, end, (size_t)length);
	else if (!end->is_server)
		leave(end);
	else
		return false;
	return true;
}

static bool turn(struct pool *pool)
{
	struct epoll_event event[EVENTS_MAX];
	int count = epoll_wait(pool->epoll, event, EVENTS_MAX, -1);

	for (int i = 0; i < count; i++) {
		if (!event[i].data.ptr)
			let_in(pool);
		else if (!serve(pool, event[i].data.ptr))
			return false;
	}
	return true;
}

/* ---- start ---- */

static bool listen_on(struct pool *pool, in_port_t port)
{
	const struct sockaddr_in address = loopback(port);
	struct epoll_event event = { .events = EPOLLIN };
	const int on = 1;

	pool->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return pool->listener >= 0 &&
	       setsockopt(pool->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	       setsockopt(pool->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
	       setsockopt(pool->listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on)) == 0 &&
	       bind(pool->listener, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	       listen(pool->listener, 1024) == 0 &&
	       epoll_ctl(pool->epoll, EPOLL_CTL_ADD, pool->listener, &event) == 0;
}

static in_port_t port_of(const char *word)
{
	char *end;
	unsigned long port = strtoul(word, &end, 10);

	return *end || port > UINT16_MAX ? 0 : (in_port_t)port;
}

int main(int argc, char **argv)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	in_port_t port = argc == 5 ? port_of(argv[1]) : 0;

	if (!pool || !port) {
		fprintf(stderr, "usage: bare_pool PORT SERVER_PORT USER DATABASE (of 127.0.0.1)\n");
		free(pool);
		return 2;
	}
	pool->server_port = port_of(argv[2]);
	pool->user = argv[3];
	pool->database = argv[4];
	pool->epoll = epoll_create1(EPOLL_CLOEXEC);
	while (pool->resting_count < SERVERS && add_server(pool))
		continue;
	if (pool->resting_count < SERVERS || !listen_on(pool, port)) {
		perror("bare_pool");
		return 1;
	}
	while (turn(pool))
		continue;
	return 1;
}
