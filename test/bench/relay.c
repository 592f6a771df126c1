/* SPDX-License-Identifier: ISC */
/*
 * A bare relay, for the benchmark: the minimum between a client and PostgreSQL.
 *
 *   client --> [one shared buffer] --> server      read, write, and a shared wait: nothing else
 *   client <-- [one shared buffer] <-- server
 *
 * It does not parse the data and has one server connection per client, so its cost is the cost of
 * the system calls. Hard here: data that one side cannot accept is buffered, and the other side is
 * not read until it has been sent; and an event may belong to a pair that an earlier event of the
 * same wait has closed.
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
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_SIZE 65536
#define EVENTS_MAX 256

/* One side of a pair. Both live in their pair. */
struct end {
	int fd;
	struct end *other;
	struct pair *pair;
	char *kept; /* data that `fd` has not accepted yet; NULL if none */
	size_t kept_length, kept_sent;
};

struct pair {
	struct end client, server;
	bool is_ending; /* one side has ended: close after the buffered data is sent */
	bool is_closed; /* freed after the events of this wait */
	TAILQ_ENTRY(pair) node;
};

TAILQ_HEAD(pair_list, pair);

struct relay {
	int epoll, listener;
	struct sockaddr_in server;
	struct pair_list closed;
	char buffer[BUFFER_SIZE];
};

static void pair_close(struct relay *relay, struct pair *pair)
{
	if (pair->is_closed)
		return;
	pair->is_closed = true;
	close(pair->client.fd);
	close(pair->server.fd);
	TAILQ_INSERT_TAIL(&relay->closed, pair, node);
}

static void free_closed(struct relay *relay)
{
	struct pair *pair;

	while ((pair = TAILQ_FIRST(&relay->closed)) != NULL) {
		TAILQ_REMOVE(&relay->closed, pair, node);
		free(pair->client.kept);
		free(pair->server.kept);
		free(pair);
	}
}

static bool watch(struct relay *relay, int call, struct end *end, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = end };

	return epoll_ctl(relay->epoll, call, end->fd, &event) == 0;
}

/* Watches for reading while the other side accepts data, for writing while data is buffered. */
static bool watch_again(struct relay *relay, struct end *end)
{
	return watch(relay, EPOLL_CTL_MOD, end,
	             (end->other->kept || end->pair->is_ending ? 0u : (uint32_t)EPOLLIN) |
	                 (end->kept ? (uint32_t)EPOLLOUT : 0u));
}

/* Bytes written, 0 if the socket is full, -1 if the connection is lost. */
static ssize_t send_some(int fd, const char *data, size_t length)
{
	ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);

	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return sent;
}

static bool keep(struct relay *relay, struct end *end, const char *data, size_t length)
{
	end->kept = malloc(length);
	if (!end->kept)
		return false;

	memcpy(end->kept, data, length);
	end->kept_length = length;
	end->kept_sent = 0;
	return watch_again(relay, end) && watch_again(relay, end->other);
}

static bool send_kept(struct relay *relay, struct end *end)
{
	ssize_t sent =
	    send_some(end->fd, end->kept + end->kept_sent, end->kept_length - end->kept_sent);

	if (sent < 0)
		return false;
	end->kept_sent += (size_t)sent;
	if (end->kept_sent < end->kept_length)
		return true;

	free(end->kept);
	end->kept = NULL;
	return !end->pair->is_ending && watch_again(relay, end) && watch_again(relay, end->other);
}

/* `from` ended: closes the pair at once, or after its buffered data is sent. */
static bool end_after_kept(struct relay *relay, struct end *from)
{
	if (!from->other->kept)
		return false;
	from->pair->is_ending = true;
	return watch_again(relay, from) && watch_again(relay, from->other);
}

static bool pass(struct relay *relay, struct end *from)
{
	ssize_t length = recv(from->fd, relay->buffer, sizeof(relay->buffer), 0);
	ssize_t sent;

	if (length < 0)
		return errno == EAGAIN || errno == EINTR;
	if (length == 0)
		return end_after_kept(relay, from);

	sent = send_some(from->other->fd, relay->buffer, (size_t)length);
	if (sent < 0)
		return false;
	return sent == length ||
	       keep(relay, from->other, relay->buffer + sent, (size_t)(length - sent));
}

static bool serve(struct relay *relay, struct end *end, uint32_t events)
{
	if ((events & EPOLLOUT) && end->kept && !send_kept(relay, end))
		return false;
	if ((events & EPOLLIN) && !end->other->kept && !end->pair->is_ending)
		return pass(relay, end);
	/* An error without data to read: the peer is gone. */
	return !(events & (EPOLLERR | EPOLLHUP)) || (events & EPOLLIN);
}

/*
 * A socket that is connecting to the server. Data for it is buffered until it is connected.
 */
static int dial(const struct relay *relay)
{
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (const struct sockaddr *)&relay->server, sizeof(relay->server)) == 0 ||
	    errno == EINPROGRESS)
		return fd;
	close(fd);
	return -1;
}

static struct pair *pair_new(int client, int server)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return NULL;
	pair->client = (struct end){ .fd = client, .other = &pair->server, .pair = pair };
	pair->server = (struct end){ .fd = server, .other = &pair->client, .pair = pair };
	return pair;
}

/* One at a time; the listener's TCP_NODELAY is inherited. */
static void accept_one(struct relay *relay)
{
	int client = accept4(relay->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	int server = client < 0 ? -1 : dial(relay);
	struct pair *pair = server < 0 ? NULL : pair_new(client, server);

	if (!pair) {
		if (client >= 0)
			close(client);
		if (server >= 0)
			close(server);
		return;
	}
	if (!watch(relay, EPOLL_CTL_ADD, &pair->client, EPOLLIN) ||
	    !watch(relay, EPOLL_CTL_ADD, &pair->server, EPOLLIN))
		pair_close(relay, pair);
}

static void turn(struct relay *relay)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(relay->epoll, events, EVENTS_MAX, -1);

	for (int i = 0; i < count; i++) {
		struct end *end = events[i].data.ptr;

		if (!end)
			accept_one(relay);
		else if (!end->pair->is_closed && !serve(relay, end, events[i].events))
			pair_close(relay, end->pair);
	}
	free_closed(relay);
}

static bool listen_on(struct relay *relay, in_port_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons(port),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct epoll_event event = { .events = EPOLLIN };
	const int on = 1;

	relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	relay->epoll = epoll_create1(EPOLL_CLOEXEC);
	return relay->listener >= 0 && relay->epoll >= 0 &&
	       setsockopt(relay->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	       setsockopt(relay->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
	       bind(relay->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	       listen(relay->listener, 1024) == 0 &&
	       epoll_ctl(relay->epoll, EPOLL_CTL_ADD, relay->listener, &event) == 0;
}

static in_port_t port_of(const char *word)
{
	char *end;
	unsigned long port = strtoul(word, &end, 10);

	return *end || port > UINT16_MAX ? 0 : (in_port_t)port;
}

int main(int argc, char **argv)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	in_port_t port = argc == 3 ? port_of(argv[1]) : 0;
	in_port_t server = argc == 3 ? port_of(argv[2]) : 0;

	if (!relay || !port || !server) {
		fprintf(stderr, "usage: relay PORT SERVER_PORT (both of 127.0.0.1)\n");
		free(relay);
		return 2;
	}
	TAILQ_INIT(&relay->closed);
	relay->server = (struct sockaddr_in){ .sin_family = AF_INET,
		                              .sin_port = htons(server),
		                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (!listen_on(relay, port)) {
		perror("relay");
		free(relay);
		return 1;
	}
	for (;;)
		turn(relay);
}
