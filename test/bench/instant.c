/* SPDX-License-Identifier: ISC */
/*
 * A stand-in for PostgreSQL that answers any query at once, for the benchmark: a pooler with
 * several event loops is measured, and not PostgreSQL.
 *
 *   main thread: accept --> [epoll of a worker] --> read, answer, write     in turns, so that each
 *                       \-> [epoll of a worker] --> read, answer, write     has as many connections
 *
 * Prints a line with what it did so far on SIGUSR1, and at its end on SIGTERM, SIGINT and SIGQUIT.
 * Hard here: a worker may get the first event of a connection before accept_one() returns, so the
 * main thread does not touch a connection after it has added it to an epoll. Only its list is
 * shared, under the lock.
 */
#include "instant_protocol.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define INPUT_SIZE ((size_t)4096) /* at first; a longer message gets what it needs */
#define THREADS_MAX 64
#define RESERVED_FILES 32 /* not for connections */

struct connection {
	struct worker *worker;
	int fd;
	SSL *ssl; /* NULL: plain */
	uint32_t watched;
	struct session session;
	enum session_next next;
	char *input;
	size_t input_length, input_size;
	struct reply reply;
	size_t sent; /* of the reply */
	LIST_ENTRY(connection) node;
};

LIST_HEAD(connections, connection);

/* What two workers write is not in one cache line. */
struct worker {
	_Alignas(128) pthread_t thread;
	int epoll;
	SSL_CTX *tls;
	pthread_mutex_t lock; /* guards `connections` */
	struct connections connections;
	atomic_uint open_count;
	atomic_ullong query_count; /* written by the worker only */
};

struct instant {
	int listener, signals, end;
	SSL_CTX *tls;
	unsigned int thread_count, open_max, accepted;
	struct worker workers[THREADS_MAX];
};

struct options {
	in_port_t port;
	unsigned int thread_count;
	const char *key, *certificate;
};

/* -- connections -- */

static struct connection *connection_new(struct worker *worker, int fd, uint32_t number)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection || !(connection->input = malloc(INPUT_SIZE))) {
		free(connection);
		return NULL;
	}
	connection->worker = worker;
	connection->fd = fd;
	connection->watched = EPOLLIN;
	connection->input_size = INPUT_SIZE;
	session_init(&connection->session, number, worker->tls != NULL);
	pthread_mutex_lock(&worker->lock);
	LIST_INSERT_HEAD(&worker->connections, connection, node);
	pthread_mutex_unlock(&worker->lock);
	atomic_fetch_add_explicit(&worker->open_count, 1, memory_order_relaxed);
	return connection;
}

static void connection_free(struct connection *connection)
{
	struct worker *worker = connection->worker;

	pthread_mutex_lock(&worker->lock);
	LIST_REMOVE(connection, node);
	pthread_mutex_unlock(&worker->lock);
	atomic_fetch_sub_explicit(&worker->open_count, 1, memory_order_relaxed);
	SSL_free(connection->ssl);
	close(connection->fd);
	session_done(&connection->session);
	free(connection->input);
	free(connection->reply.data);
	free(connection);
}

static bool watch(struct connection *connection, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = connection };

	if (connection->watched == events)
		return true;
	connection->watched = events;
	return epoll_ctl(connection->worker->epoll, EPOLL_CTL_MOD, connection->fd, &event) == 0;
}

/* -- bytes: each returns their number, 0 if the socket is not ready, -1 at the end -- */

static ssize_t tls_result(struct connection *connection, int result, uint32_t *wanted)
{
	int error = SSL_get_error(connection->ssl, result);

	ERR_clear_error();
	if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
		return -1;
	*wanted = error == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT;
	return 0;
}

static ssize_t plain_result(ssize_t result)
{
	if (result > 0)
		return result;
	return result < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static ssize_t receive(struct connection *connection, uint32_t *wanted)
{
	char *at = connection->input + connection->input_length;
	size_t space = connection->input_size - connection->input_length;
	int result;

	*wanted = EPOLLIN;
	if (!connection->ssl)
		return plain_result(recv(connection->fd, at, space, 0));
	result = SSL_read(connection->ssl, at, (int)space);
	return result > 0 ? result : tls_result(connection, result, wanted);
}

static ssize_t send_some(struct connection *connection, uint32_t *wanted)
{
	const char *at = connection->reply.data + connection->sent;
	size_t length = connection->reply.length - connection->sent;
	int result;

	*wanted = EPOLLOUT;
	if (!connection->ssl)
		return plain_result(send(connection->fd, at, length, MSG_NOSIGNAL));
	result = SSL_write(connection->ssl, at, (int)length);
	return result > 0 ? result : tls_result(connection, result, wanted);
}

/* -- one event -- */

enum outcome {
	OUTCOME_ON,   /* go on */
	OUTCOME_WAIT, /* for the socket: *wanted */
	OUTCOME_END
};

static enum outcome send_reply(struct connection *connection, uint32_t *wanted)
{
	struct reply *reply = &connection->reply;

	while (connection->sent < reply->length) {
		ssize_t sent = send_some(connection, wanted);

		if (sent <= 0)
			return sent < 0 ? OUTCOME_END : OUTCOME_WAIT;
		connection->sent += (size_t)sent;
	}
	connection->sent = reply->length = 0;
	if (reply->size > REPLY_PAUSE) { /* a rare long one */
		free(reply->data);
		*reply = (struct reply){ 0 };
	}
	return connection->next == SESSION_CLOSE ? OUTCOME_END : OUTCOME_ON;
}

static bool begin_tls(struct connection *connection)
{
	connection->next = SESSION_READ;
	connection->ssl = SSL_new(connection->worker->tls);
	if (!connection->ssl || SSL_set_fd(connection->ssl, connection->fd) != 1)
		return false;
	SSL_set_accept_state(connection->ssl);
	return connection->input_length == 0; /* plain bytes behind the request: an attack */
}

/* Answers what has come. Whether there is something to send then. */
static bool answer(struct connection *connection)
{
	struct session *session = &connection->session;
	uint64_t before = session->query_count;
	size_t taken = session_take(session, connection->input, connection->input_length,
	                            &connection->reply, &connection->next);

	connection->input_length -= taken;
	if (taken > 0 && connection->input_length > 0)
		memmove(connection->input, connection->input + taken, connection->input_length);
	if (session->query_count != before)
		atomic_store_explicit(
		    &connection->worker->query_count,
		    atomic_load_explicit(&connection->worker->query_count, memory_order_relaxed) +
			session->query_count - before,
		    memory_order_relaxed);
	return connection->reply.length > 0;
}

/* Room for a whole message, and no more than that. */
static bool make_room(struct connection *connection)
{
	char *input;

	if (connection->input_length < connection->input_size)
		return true;
	input = realloc(connection->input, connection->input_size * 2);
	if (!input)
		return false;
	connection->input = input;
	connection->input_size *= 2;
	return connection->input_size <= 4 * MESSAGE_MAX;
}

static enum outcome read_more(struct connection *connection, uint32_t *wanted)
{
	ssize_t length;

	if (!make_room(connection))
		return OUTCOME_END;
	length = receive(connection, wanted);
	if (length <= 0)
		return length < 0 ? OUTCOME_END : OUTCOME_WAIT;
	connection->input_length += (size_t)length;
	return OUTCOME_ON;
}

/* Answers what has come, in parts if it is much. */
static enum outcome answer_all(struct connection *connection, uint32_t *wanted)
{
	do {
		enum outcome outcome = send_reply(connection, wanted);

		if (outcome != OUTCOME_ON)
			return outcome;
		if (connection->next == SESSION_TLS && !begin_tls(connection))
			return OUTCOME_END;
	} while (answer(connection));
	return connection->next == SESSION_CLOSE ? OUTCOME_END : OUTCOME_ON;
}

/*
 * A plain connection is read once for each event: if there is more, epoll says so again. OpenSSL
 * may have more that epoll does not know of.
 */
static void serve(struct connection *connection)
{
	uint32_t wanted = EPOLLIN;
	enum outcome outcome = answer_all(connection, &wanted); /* what was left when it was full */

	do {
		if (outcome == OUTCOME_ON)
			outcome = read_more(connection, &wanted);
		if (outcome == OUTCOME_ON)
			outcome = answer_all(connection, &wanted);
	} while (outcome == OUTCOME_ON && connection->ssl);
	if (outcome == OUTCOME_END || !watch(connection, outcome == OUTCOME_ON ? EPOLLIN : wanted))
		connection_free(connection);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct epoll_event events[EVENTS_MAX];

	for (;;) {
		int count = epoll_wait(worker->epoll, events, EVENTS_MAX, -1);

		for (int i = 0; i < count; i++) {
			if (!events[i].data.ptr)
				return NULL; /* the end */
			serve(events[i].data.ptr);
		}
	}
}

/* -- the main thread -- */

static unsigned int open_count(struct instant *instant)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < instant->thread_count; i++)
		count += atomic_load(&instant->workers[i].open_count);
	return count;
}

static void report(struct instant *instant)
{
	unsigned long long queries = 0;

	for (unsigned int i = 0; i < instant->thread_count; i++)
		queries += atomic_load(&instant->workers[i].query_count);
	printf("connections=%u open=%u queries=%llu\n", instant->accepted, open_count(instant),
	       queries);
	fflush(stdout);
}

static void accept_one(struct instant *instant)
{
	struct worker *worker = &instant->workers[instant->accepted % instant->thread_count];
	int fd = accept4(instant->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN };
	struct connection *connection;

	if (fd < 0)
		return;
	connection = open_count(instant) < instant->open_max
	                 ? connection_new(worker, fd, instant->accepted + 1)
	                 : NULL;
	if (!connection) {
		close(fd);
		return;
	}
	instant->accepted++;
	event.data.ptr = connection;
	if (epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		connection_free(connection);
}

/* Returns false at the end. */
static bool take_signal(struct instant *instant)
{
	struct signalfd_siginfo info;

	if (read(instant->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return true;
	if (info.ssi_signo != SIGUSR1)
		return false;
	report(instant);
	return true;
}

static void run(struct instant *instant)
{
	struct pollfd polled[] = { { .fd = instant->signals, .events = POLLIN },
		                   { .fd = instant->listener, .events = POLLIN } };

	for (;;) {
		if (poll(polled, 2, -1) < 0 && errno != EINTR)
			return;
		if (polled[0].revents && !take_signal(instant))
			return;
		if (polled[1].revents)
			accept_one(instant);
	}
}

static bool listen_on(struct instant *instant, in_port_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons(port),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int on = 1;

	instant->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* Accepted sockets inherit TCP_NODELAY. */
	return instant->listener >= 0 &&
	       setsockopt(instant->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	       setsockopt(instant->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
	       bind(instant->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	       listen(instant->listener, 1024) == 0;
}

static bool take_signals(struct instant *instant)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
	instant->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return instant->signals >= 0;
}

static void limit_connections(struct instant *instant)
{
	struct rlimit limit = { 0 };

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	instant->open_max = limit.rlim_cur > RESERVED_FILES + 100000u
	                        ? 100000u
	                        : (unsigned int)limit.rlim_cur - RESERVED_FILES;
}

static bool load_tls(struct instant *instant, const struct options *options)
{
	instant->tls = SSL_CTX_new(TLS_server_method());
	if (!instant->tls)
		return false;
	SSL_CTX_set_mode(instant->tls,
	                 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return SSL_CTX_use_certificate_chain_file(instant->tls, options->certificate) == 1 &&
	       SSL_CTX_use_PrivateKey_file(instant->tls, options->key, SSL_FILETYPE_PEM) == 1;
}

/* The workers have to be counted only when they run: end() joins those. */
static bool start_worker(struct instant *instant)
{
	struct worker *worker = &instant->workers[instant->thread_count];
	struct epoll_event end = { .events = EPOLLIN };

	worker->epoll = epoll_create1(EPOLL_CLOEXEC);
	worker->tls = instant->tls;
	LIST_INIT(&worker->connections);
	pthread_mutex_init(&worker->lock, NULL);
	if (worker->epoll < 0 || epoll_ctl(worker->epoll, EPOLL_CTL_ADD, instant->end, &end) != 0 ||
	    pthread_create(&worker->thread, NULL, work, worker) != 0)
		return false;
	instant->thread_count++;
	return true;
}

static bool start(struct instant *instant, const struct options *options)
{
	limit_connections(instant);
	instant->end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (instant->end < 0 || !take_signals(instant) || !listen_on(instant, options->port)) {
		perror("instant");
		return false;
	}
	if (options->key && !load_tls(instant, options)) {
		ERR_print_errors_fp(stderr);
		return false;
	}
	while (instant->thread_count < options->thread_count)
		if (!start_worker(instant)) {
			perror("instant: cannot start a thread");
			return false;
		}
	return true;
}

static void end(struct instant *instant)
{
	eventfd_write(instant->end, 1);
	for (unsigned int i = 0; i < instant->thread_count; i++)
		pthread_join(instant->workers[i].thread, NULL);
	for (unsigned int i = 0; i < instant->thread_count; i++) {
		struct worker *worker = &instant->workers[i];

		while (!LIST_EMPTY(&worker->connections))
			connection_free(LIST_FIRST(&worker->connections));
		close(worker->epoll);
		pthread_mutex_destroy(&worker->lock);
	}
	SSL_CTX_free(instant->tls);
	free(instant);
}

static unsigned int number_of(const char *word, unsigned int most)
{
	char *rest;
	unsigned long number = strtoul(word, &rest, 10);

	return *rest || number > most ? 0 : (unsigned int)number;
}

static bool read_options(struct options *options, int argc, char **argv)
{
	int option;

	*options = (struct options){ .thread_count = 1 };
	while ((option = getopt(argc, argv, "t:k:c:")) != -1)
		switch (option) {
		case 't':
			options->thread_count = number_of(optarg, THREADS_MAX);
			break;
		case 'k':
			options->key = optarg;
			break;
		case 'c':
			options->certificate = optarg;
			break;
		default:
			return false;
		}
	if (optind == argc - 1)
		options->port = (in_port_t)number_of(argv[optind], UINT16_MAX);
	return options->port && options->thread_count && !options->key == !options->certificate;
}

int main(int argc, char **argv)
{
	struct options options;
	struct instant *instant;
	bool is_up;

	if (!read_options(&options, argc, argv)) {
		fprintf(stderr, "usage: instant [-t THREADS] [-k KEY -c CERTIFICATE] PORT\n"
		                "Answers any query at once, on 127.0.0.1.\n");
		return 2;
	}
	instant = aligned_alloc(_Alignof(struct instant), sizeof(*instant));
	if (!instant)
		return 1;
	memset(instant, 0, sizeof(*instant));
	is_up = start(instant, &options);
	if (is_up) {
		run(instant);
		report(instant);
	}
	end(instant);
	return is_up ? 0 : 1;
}
