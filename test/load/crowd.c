/* SPDX-License-Identifier: ISC */
/*
 * A crowd: thousands of clients in one process, which log in without a password and then idle.
 *
 *   crowd PORT USER DATABASE CLIENTS DATABASES IN_FLIGHT
 *
 * It logs in all of them, at most IN_FLIGHT at the same time, then reads commands: "ask" makes each
 * of them send one query and read its response; the end of the input ends it. After the login and
 * each command it prints "DONE FAILED SECONDS". With several DATABASES the clients are distributed
 * evenly; their names are DATABASE0, DATABASE1 and so on.
 *
 * Hard here: one address has too few ports, so each ten thousand clients use another address of the
 * loopback network.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_PER_ADDRESS 10000
#define EVENTS_MAX 256
#define LIMIT_MS 60000
#define PROTOCOL_3_0 (3u << 16)
#define HEADER_SIZE 5

struct crowd_client {
	int fd; /* -1: not connected */
	bool is_waiting;
	uint32_t body_left;
	unsigned char header[HEADER_SIZE];
	size_t header_length;
};

struct crowd {
	in_port_t port;
	const char *user, *database;
	size_t count, databases, in_flight;
	struct crowd_client *clients;
	int epoll;
	size_t waiting, done, failed;
};

static void complain(const struct crowd *crowd, const char *what)
{
	if (crowd->failed == 0)
		fprintf(stderr, "crowd: %s\n", what);
}

static void client_fail(struct crowd *crowd, struct crowd_client *client, const char *what)
{
	complain(crowd, what);
	crowd->failed++;
	if (client->is_waiting)
		crowd->waiting--;
	client->is_waiting = false;
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
}

static void client_done(struct crowd *crowd, struct crowd_client *client)
{
	if (!client->is_waiting)
		return;
	client->is_waiting = false;
	crowd->waiting--;
	crowd->done++;
}

/* A complete header has arrived. */
static void client_frame(struct crowd *crowd, struct crowd_client *client)
{
	uint32_t length;

	memcpy(&length, client->header + 1, sizeof(length));
	client->body_left = ntohl(length) - (uint32_t)sizeof(length);
	client->header_length = 0;
	if (client->header[0] == 'E')
		client_fail(crowd, client, "a client was refused");
	else if (client->header[0] == 'Z')
		client_done(crowd, client);
}

static void client_take(struct crowd *crowd, struct crowd_client *client, const char *data,
                        size_t length)
{
	for (size_t at = 0; at < length && client->fd >= 0;) {
		if (client->body_left > 0) {
			size_t rest = length - at;
			size_t part = client->body_left < rest ? client->body_left : rest;

			client->body_left -= (uint32_t)part;
			at += part;
			continue;
		}
		client->header[client->header_length++] = (unsigned char)data[at++];
		if (client->header_length == HEADER_SIZE)
			client_frame(crowd, client);
	}
}

static void client_read(struct crowd *crowd, struct crowd_client *client)
{
	char data[4096];
	ssize_t length = recv(client->fd, data, sizeof(data), MSG_DONTWAIT);

	if (length > 0)
		client_take(crowd, client, data, (size_t)length);
	else if (length == 0)
		client_fail(crowd, client, "a client was disconnected");
	else if (errno != EAGAIN && errno != EINTR)
		client_fail(crowd, client, strerror(errno));
}

static size_t put_text(unsigned char *at, const char *text)
{
	size_t size = strlen(text) + 1;

	memcpy(at, text, size);
	return size;
}

static bool send_startup(const struct crowd *crowd, size_t number, int fd)
{
	unsigned char packet[1024];
	char database[256];
	size_t length = 2 * sizeof(uint32_t);
	uint32_t word;

	snprintf(database, sizeof(database), "%s", crowd->database);
	if (crowd->databases > 1)
		snprintf(database, sizeof(database), "%.200s%zu", crowd->database,
		         number * crowd->databases / crowd->count);
	length += put_text(packet + length, "user");
	length += put_text(packet + length, crowd->user);
	length += put_text(packet + length, "database");
	length += put_text(packet + length, database);
	packet[length++] = '\0';
	word = htonl((uint32_t)length);
	memcpy(packet, &word, sizeof(word));
	word = htonl(PROTOCOL_3_0);
	memcpy(packet + sizeof(word), &word, sizeof(word));
	return send(fd, packet, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static int dial(const struct crowd *crowd, size_t number)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct sockaddr_in to = { .sin_family = AF_INET,
		                  .sin_port = htons(crowd->port),
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(number / CLIENTS_PER_ADDRESS));
	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) == 0 &&
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
	    bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Connects. It does not wait: the kernel accepts for the daemon while its backlog is not full. */
static void begin_login(struct crowd *crowd, size_t number)
{
	struct crowd_client *client = &crowd->clients[number];
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };

	client->fd = dial(crowd, number);
	if (client->fd < 0 || !send_startup(crowd, number, client->fd) ||
	    epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, client->fd, &event) != 0) {
		client_fail(crowd, client, strerror(errno));
		return;
	}
	client->is_waiting = true;
	crowd->waiting++;
}

static void begin_ask(struct crowd *crowd, size_t number)
{
	static const char query[] = "Q\0\0\0\rSELECT 1"; /* and its last zero */
	struct crowd_client *client = &crowd->clients[number];

	if (client->fd < 0) {
		crowd->failed++;
		return;
	}
	client->is_waiting = true;
	crowd->waiting++;
	if (send(client->fd, query, sizeof(query), MSG_NOSIGNAL) != (ssize_t)sizeof(query))
		client_fail(crowd, client, "a query could not be sent");
}

/* False if nothing arrived for too long. */
static bool wait_some(struct crowd *crowd)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(crowd->epoll, events, EVENTS_MAX, LIMIT_MS);

	for (int i = 0; i < count; i++) {
		struct crowd_client *client = events[i].data.ptr;

		if (client->fd >= 0)
			client_read(crowd, client);
	}
	return count > 0 || (count < 0 && errno == EINTR);
}

/* All clients, at most `in_flight` at a time. */
static bool go_round(struct crowd *crowd, void (*begin)(struct crowd *crowd, size_t number))
{
	struct timespec from, to;
	size_t next = 0;

	crowd->done = crowd->failed = 0;
	clock_gettime(CLOCK_MONOTONIC, &from);
	while (next < crowd->count || crowd->waiting > 0) {
		while (next < crowd->count && crowd->waiting < crowd->in_flight)
			begin(crowd, next++);
		if (crowd->waiting > 0 && !wait_some(crowd)) {
			fprintf(stderr, "crowd: %zu clients wait in vain\n", crowd->waiting);
			return false;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%zu %zu %.6f\n", crowd->done, crowd->failed,
	       (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
	fflush(stdout);
	return true;
}

static size_t number_of(const char *word)
{
	char *end;
	unsigned long number = strtoul(word, &end, 10);

	return *end ? 0 : (size_t)number;
}

static bool crowd_init(struct crowd *crowd, char **words)
{
	*crowd = (struct crowd){ .port = (in_port_t)number_of(words[0]),
		                 .user = words[1],
		                 .database = words[2],
		                 .count = number_of(words[3]),
		                 .databases = number_of(words[4]),
		                 .in_flight = number_of(words[5]) };
	if (!crowd->port || !crowd->count || !crowd->in_flight || strlen(crowd->user) > 255)
		return false;
	crowd->clients = calloc(crowd->count, sizeof(*crowd->clients));
	crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
	return crowd->clients && crowd->epoll >= 0;
}

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	struct crowd crowd;
	char line[64];
	bool is_ok;

	if (argc != 7 || !crowd_init(&crowd, argv + 1)) {
		fprintf(stderr, "usage: crowd PORT USER DATABASE CLIENTS DATABASES IN_FLIGHT\n");
		return 2;
	}
	raise_file_limit();
	is_ok = go_round(&crowd, begin_login);
	while (is_ok && fgets(line, sizeof(line), stdin))
		is_ok = strcmp(line, "ask\n") == 0 && go_round(&crowd, begin_ask);
	free(crowd.clients);
	return is_ok ? 0 : 1;
}
