/* SPDX-License-Identifier: ISC */
/*
 * A listener: its sockets, which accept connections, and how they are opened and closed.
 *
 *   listening socket --> accept4() --> on_accept()
 *        \-- out of descriptors --> no socket is watched --> timer
 *
 * Hard here: a listening socket that cannot be served stays readable and would make the loop
 * spin. So while the listener rests, its sockets are not watched. It rests as often as
 * necessary, but the log has one line only.
 *
 * The file of a Unix socket remains if a daemon was killed. It may be removed only if no process
 * accepts connections on it, and no lock file says that PostgreSQL owns it. Mode and group are set
 * before any client can connect: between bind() and listen(). At the end the file is removed,
 * unless another process has replaced it.
 */
#include "pgweir/net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/text.h"

#define UNIX_PATH_SIZE (sizeof(((struct sockaddr_un *)0)->sun_path) + 1)

struct listen_socket {
	TAILQ_ENTRY(listen_socket) node;
	struct listener *listener;
	struct watch watch;     /* with fd -1: it is closed until listener_relisten() */
	struct address address; /* AF_UNSPEC: the Unix socket */
};

struct listener {
	struct loop *loop;
	struct listener_options options; /* of the texts only the name, a copy */
	TAILQ_HEAD(, listen_socket) sockets;
	unsigned int open_count;
	char unix_path[UNIX_PATH_SIZE]; /* "": none, or the service manager has opened it */
	struct stat unix_file;          /* the file that is removed at the end */
	bool is_file_ours;
	bool is_paused;
	bool is_closing;   /* the backlog is being accepted before closing */
	bool has_warned;   /* the current shortage has been logged */
	struct timer rest; /* set: no descriptor is free */
};

/* ---- accepting ---- */

#define ACCEPT_PER_TURN 64
#define LAST_CALL_MAX 65536 /* accepted before closing: more than any backlog */
#define REST_LIMIT (10 * USEC_PER_MS)

static bool wants_clients(const struct listener *listener)
{
	return !listener->is_paused && !listener_is_resting(listener);
}

static void update_sockets(struct listener *listener)
{
	unsigned int wanted = wants_clients(listener) ? WATCH_READ : 0;

	TAILQ_EACH (listen_socket, &listener->sockets, node) {
		if (listen_socket->watch.fd >= 0)
			watch_set(&listen_socket->watch, wanted);
	}
}

static void on_rest_over(struct timer *timer)
{
	update_sockets(container_of(timer, struct listener, rest));
}

static void begin_rest(struct listener *listener, int failure)
{
	if (!listener->has_warned)
		log_warning(&listener->options.log, "cannot accept connections: %s; retrying later",
		            strerror(failure));
	listener->has_warned = true;
	timer_begin(&listener->rest, listener->loop, REST_LIMIT, on_rest_over);
	update_sockets(listener);
	if (listener->options.on_shortage)
		listener->options.on_shortage(listener->options.arg);
}

static bool is_passing(int failure)
{
	return failure == EINTR || failure == ECONNABORTED || failure == EPROTO ||
	       failure == EPERM || failure == ENETDOWN || failure == EHOSTDOWN ||
	       failure == EHOSTUNREACH || failure == ENETUNREACH || failure == ENOPROTOOPT;
}

/* Accepts one connection. false: enough for this turn; the socket may be closed. */
static bool accept_one(struct listen_socket *listen_socket)
{
	struct listener *listener = listen_socket->listener;
	unsigned int before = listener->open_count;
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	struct address peer;
	bool is_connected;
	int fd = accept4(listen_socket->watch.fd, (struct sockaddr *)&name, &size,
	                 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 && is_passing(errno))
		return true;
	if (fd < 0 && errno != EAGAIN) {
		begin_rest(listener, errno);
		return false;
	}
	if (fd < 0) {
		/* Only now is a shortage over: a single free descriptor does not end it. */
		if (listener->has_warned)
			log_info(&listener->options.log, "accepting connections again");
		listener->has_warned = false;
		return false;
	}
	if (listen_socket->address.family == AF_UNSPEC)
		is_connected = address_of_peer(&peer, fd, listener->options.port);
	else
		is_connected = address_from_sockaddr(&peer, (struct sockaddr *)&name, size);
	if (!is_connected) {
		close(fd);
		return true;
	}
	listener->options.on_accept(listener->options.arg, fd, &peer);
	return wants_clients(listener) && listener->open_count == before;
}

static void on_ready(struct watch *watch, unsigned int what)
{
	struct listen_socket *listen_socket = container_of(watch, struct listen_socket, watch);
	int count = 0;

	(void)what;
	while (count < ACCEPT_PER_TURN && accept_one(listen_socket))
		count++;
}

void listener_accept(struct listener *listener, bool accepts)
{
	listener->is_paused = !accepts;
	update_sockets(listener);
}

/* ---- closing ---- */

static bool is_tcp(const struct listen_socket *listen_socket)
{
	return listen_socket->address.family != AF_UNSPEC;
}

static void close_socket(struct listen_socket *listen_socket)
{
	if (listen_socket->watch.fd < 0)
		return;
	watch_done(&listen_socket->watch);
	close(listen_socket->watch.fd);
	listen_socket->watch.fd = -1;
	listen_socket->listener->open_count--;
}

static void free_socket(struct listen_socket *listen_socket)
{
	close_socket(listen_socket);
	TAILQ_REMOVE(&listen_socket->listener->sockets, listen_socket, node);
	free(listen_socket);
}

/* All in the backlog: closing the socket would reset it. Sockets of others stay open there. */
static void accept_all(struct listener *listener)
{
	int count = 0;

	TAILQ_EACH (listen_socket, &listener->sockets, node) {
		while (is_tcp(listen_socket) && listen_socket->watch.fd >= 0 &&
		       count++ < LAST_CALL_MAX && accept_one(listen_socket))
			continue;
	}
}

/* on_accept() may call listener_close_tcp() again. false: it did. */
static bool close_tcp(struct listener *listener)
{
	if (listener->is_closing)
		return false;
	listener->is_closing = true;
	if (!listener->options.given_count && !listener->is_paused)
		accept_all(listener);
	TAILQ_EACH (listen_socket, &listener->sockets, node) {
		if (is_tcp(listen_socket))
			close_socket(listen_socket);
	}
	listener->is_closing = false;
	return true;
}

void listener_close_tcp(struct listener *listener)
{
	struct listen_socket *listen_socket, *next;

	if (!close_tcp(listener))
		return;
	TAILQ_FOREACH_SAFE (listen_socket, &listener->sockets, node, next) {
		if (listen_socket->watch.fd < 0)
			free_socket(listen_socket);
	}
}

void listener_unlisten(struct listener *listener)
{
	if (listener->options.reuse_port && !listener->options.given_count)
		close_tcp(listener);
}

void listener_free(struct listener **listenerp)
{
	struct listener *listener = *listenerp;
	struct listen_socket *listen_socket;
	const char *path;
	struct stat found;

	if (!listener)
		return;
	*listenerp = NULL;
	timer_clear(&listener->rest);
	while ((listen_socket = TAILQ_FIRST(&listener->sockets)))
		free_socket(listen_socket);
	path = listener->unix_path;
	if (path[0] && path[0] != '@' && listener->is_file_ours && lstat(path, &found) == 0 &&
	    found.st_dev == listener->unix_file.st_dev &&
	    found.st_ino == listener->unix_file.st_ino)
		unlink(path);
	free((char *)listener->options.name);
	free(listener);
}

/* ---- sockets of other processes ---- */

static int option_of(int fd, int option)
{
	int value = 0;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/* Writes the path, or @name, of a Unix socket; "" if it has none. */
static void read_unix_path(const struct sockaddr_un *name, socklen_t size, char *out)
{
	size_t count = size > offsetof(struct sockaddr_un, sun_path)
	                   ? size - offsetof(struct sockaddr_un, sun_path)
	                   : 0;

	snprintf(out, UNIX_PATH_SIZE, "%.*s", (int)count, name->sun_path);
	if (count && !name->sun_path[0])
		snprintf(out, UNIX_PATH_SIZE, "@%.*s", (int)count - 1, name->sun_path + 1);
}

/* Checks the socket and makes it non-blocking. *address: AF_UNSPEC if it is a Unix socket. */
static bool judge_socket(int fd, struct address *address, char *path, struct err *err)
{
	struct sockaddr_storage name = { 0 };
	socklen_t size = sizeof(name);
	int flags = fcntl(fd, F_GETFL);

	*address = (struct address){ 0 };
	if (option_of(fd, SO_TYPE) != SOCK_STREAM || option_of(fd, SO_ACCEPTCONN) != 1 ||
	    getsockname(fd, (struct sockaddr *)&name, &size) != 0)
		return err_set(err, ERR_CONFIG,
		               "descriptor %d of the service manager is not a stream socket that "
		               "listens",
		               fd);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return err_set(err, ERR_SYSTEM, "descriptor %d: %s", fd, strerror(errno));
	if (name.ss_family == AF_UNIX) {
		read_unix_path((const struct sockaddr_un *)&name, size, path);
		return true;
	}
	return address_from_sockaddr(address, (const struct sockaddr *)&name, size) ||
	       err_set(err, ERR_CONFIG,
	               "descriptor %d of the service manager is neither TCP nor a Unix socket", fd);
}

/* The inherited socket with this address or path, which the caller owns. -1: there is none. */
static int find_inherited(const struct listener_options *options, const struct address *address,
                          const char *path)
{
	for (unsigned int i = 0; i < options->inherited_count; i++) {
		char its_path[UNIX_PATH_SIZE];
		int fd = options->inherited[i];
		struct address its_address;
		struct err err;

		if (fd < 0 || !judge_socket(fd, &its_address, its_path, &err))
			continue;
		if (path ? its_address.family != AF_UNSPEC || strcmp(its_path, path) != 0
		         : !address_equal(&its_address, address))
			continue;
		options->inherited[i] = -1;
		return fd;
	}
	return -1;
}

/* ---- opening ---- */

/* Owns `fd` from now on, also if it fails. `address` AF_UNSPEC: a Unix socket. */
static bool add_socket(struct listener *listener, int fd, const struct address *address,
                       const char *path, struct err *err)
{
	struct listen_socket *listen_socket = calloc(1, sizeof(*listen_socket));
	const char *name = listener->options.name;
	bool is_unix = address->family == AF_UNSPEC;
	char text[ADDRESS_TEXT_SIZE];

	if (!listen_socket) {
		close(fd);
		return err_set(err, ERR_MEMORY, "no memory for a listening socket");
	}
	listen_socket->listener = listener;
	listen_socket->address = *address;
	watch_init(&listen_socket->watch, listener->loop, fd, on_ready);
	TAILQ_INSERT_TAIL(&listener->sockets, listen_socket, node);
	listener->open_count++;
	if (wants_clients(listener) && !watch_set(&listen_socket->watch, WATCH_READ))
		return err_set(err, ERR_SYSTEM, "cannot watch a listening socket");
	log_info(&listener->options.log, "listening on %s%s%s%s%s", is_unix ? "unix:" : "",
	         is_unix ? path : address_format(address, text, sizeof(text)),
	         name ? " for listener " : "", name ? name : "",
	         listener->options.given_count ? " (opened by the service manager)" : "");
	return true;
}

static bool open_given(struct listener *listener, struct err *err)
{
	char path[UNIX_PATH_SIZE];
	struct address address;

	if (!listener->options.name)
		log_warning(
		    &listener->options.log,
		    "listen_addr and unix_socket_dir are ignored for listening: the service "
		    "manager has opened the sockets");
	for (unsigned int i = 0; i < listener->options.given_count; i++) {
		int fd = listener->options.given[i];

		if (!judge_socket(fd, &address, path, err) ||
		    !add_socket(listener, fd, &address, path, err))
			return false;
	}
	return true;
}

/* ---- TCP ---- */

static bool set_flag(int fd, int level, int option)
{
	return setsockopt(fd, level, option, &(int){ 1 }, sizeof(int)) == 0;
}

/* -1: *err has the reason. */
static int bind_tcp(const struct address *address, const struct listener_options *options,
                    struct err *err)
{
	char text[ADDRESS_TEXT_SIZE];
	int fd = socket_open(address->family);

	if (fd >= 0 && set_flag(fd, SOL_SOCKET, SO_REUSEADDR) &&
	    (!options->reuse_port || set_flag(fd, SOL_SOCKET, SO_REUSEPORT)) &&
	    (address->family != AF_INET6 || set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY))) {
		socket_options_apply(fd, &options->socket);
		setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &options->tcp_defer_accept,
		           sizeof(int));
		if (bind(fd, address_sockaddr(address), address_sockaddr_size(address)) == 0 &&
		    listen(fd, options->backlog) == 0)
			return fd;
	}
	err_set(err, ERR_SYSTEM, "cannot listen on %s: %s",
	        address_format(address, text, sizeof(text)), strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* A failure is only a warning: other addresses may work. */
static void warn(const struct listener *listener, const struct err *err)
{
	if (!listener->options.is_retried)
		log_warning(&listener->options.log, "%s", err->text);
}

static void open_address(struct listener *listener, const struct address *address, struct err *err)
{
	struct address bound;
	int fd;

	TAILQ_EACH (listen_socket, &listener->sockets, node) {
		if (address_equal(&listen_socket->address, address) && address_port(address) != 0)
			return;
	}
	fd = find_inherited(&listener->options, address, NULL);
	if (fd < 0)
		fd = bind_tcp(address, &listener->options, err);
	if (fd >= 0 && !address_of_self(&bound, fd, 0))
		bound = *address;
	if (fd < 0 || !add_socket(listener, fd, &bound, NULL, err))
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

static bool open_tcp(struct listener *listener, const char *addresses, struct err *err)
{
	char *list = strdup(addresses ? addresses : ""), *rest = list, *word;
	bool was_asked = false;

	if (!list)
		return err_set(err, ERR_MEMORY, "no memory for listen_addr");
	err->code = ERR_NONE;
	while ((word = strsep(&rest, ","))) {
		word = text_trim(word);
		if (!*word)
			continue;
		was_asked = true;
		open_word(listener, word, err);
	}
	free(list);
	if (listener->options.is_strict)
		return err->code == ERR_NONE;
	if (!was_asked || listener->open_count || listener->options.is_retried)
		return !was_asked || listener->open_count;
	return err_set(err, ERR_CONFIG, "cannot listen on any address of listen_addr = %s",
	               addresses);
}

void listener_relisten(struct listener *listener)
{
	struct listen_socket *listen_socket, *next;
	struct address address;
	struct err err;

	TAILQ_FOREACH_SAFE (listen_socket, &listener->sockets, node, next) {
		if (listen_socket->watch.fd >= 0)
			continue;
		address = listen_socket->address;
		free_socket(listen_socket);
		open_address(listener, &address, &err);
	}
}

/* ---- the Unix socket ---- */

/* Returns 0 if a process accepts connections there, else the errno of connect(). */
static int try_to_connect(const struct sockaddr_un *name, socklen_t size)
{
	int fd = socket_open(AF_UNIX);
	int failure = 0;

	if (fd < 0 || connect(fd, (const struct sockaddr *)name, size) != 0)
		failure = errno;
	if (fd >= 0)
		close(fd);
	/* EAGAIN is a full backlog, so a process is listening. */
	return failure == EAGAIN ? 0 : failure;
}

/* Removes a stale socket file. false: the path is in use. */
static bool clear_path(const char *path, const struct sockaddr_un *name, socklen_t size,
                       struct err *err)
{
	char lock[UNIX_PATH_SIZE + sizeof(".lock")];
	struct stat found;
	int failure;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	if (lstat(lock, &found) == 0)
		return err_set(err, ERR_CONFIG, "unix socket %s is in use: %s exists", path, lock);
	if (lstat(path, &found) != 0)
		return true;
	if (!S_ISSOCK(found.st_mode))
		return err_set(err, ERR_CONFIG, "%s exists and is not a socket", path);
	failure = try_to_connect(name, size);
	if (failure == 0)
		return err_set(
		    err, ERR_CONFIG,
		    "unix socket %s is in use: another process accepts connections on it", path);
	if (failure != ECONNREFUSED && failure != ENOENT)
		return err_set(err, ERR_SYSTEM, "cannot tell whether unix socket %s is in use: %s",
		               path, strerror(failure));
	if (unlink(path) != 0 && errno != ENOENT)
		return err_set(err, ERR_SYSTEM, "cannot remove the stale unix socket %s: %s", path,
		               strerror(errno));
	return true;
}

bool listener_find_group(const char *name, gid_t *group, struct err *err)
{
	const struct group *found = getgrnam(name);
	int64_t number;

	if (found)
		*group = found->gr_gid;
	else if (text_to_i64(name, &number) && number >= 0 && number < UINT32_MAX)
		*group = (gid_t)number;
	else
		return err_set(err, ERR_CONFIG, "unix_socket_group: no such group: %s", name);
	return true;
}

static bool set_rights(const char *path, const struct listener_options *options, struct err *err)
{
	gid_t group = (gid_t)-1;

	if (options->unix_group && *options->unix_group) {
		if (!listener_find_group(options->unix_group, &group, err))
			return false;
		if (lchown(path, (uid_t)-1, group) != 0)
			return err_set(err, ERR_SYSTEM, "cannot give %s to group %s: %s", path,
			               options->unix_group, strerror(errno));
	}
	if (chmod(path, options->unix_mode) != 0)
		return err_set(err, ERR_SYSTEM, "cannot set the mode of %s: %s", path,
		               strerror(errno));
	return true;
}

static bool cannot_listen(const char *path, struct err *err)
{
	return err_set(err, ERR_SYSTEM, "cannot listen on unix:%s: %s", path, strerror(errno));
}

/* -1: *err has the reason, and there is no file of ours. */
static int bind_unix(const char *path, const struct listener_options *options, struct err *err)
{
	bool has_file = path[0] != '@', ok;
	struct sockaddr_un name;
	socklen_t size;
	int fd;

	if (!address_unix_name(&name, &size, path, err) ||
	    (has_file && !clear_path(path, &name, size, err)))
		return -1;
	fd = socket_open(AF_UNIX);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&name, size) != 0) {
		cannot_listen(path, err);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	ok = (!has_file || set_rights(path, options, err)) &&
	     (listen(fd, options->backlog) == 0 || cannot_listen(path, err));
	if (ok)
		return fd;
	if (has_file)
		unlink(path);
	close(fd);
	return -1;
}

static bool open_unix(struct listener *listener, const char *path, struct err *err)
{
	int fd;

	if (!path || !*path)
		return true;
	fd = find_inherited(&listener->options, NULL, path);
	listener->is_file_ours = fd < 0;
	if (fd < 0)
		fd = bind_unix(path, &listener->options, err);
	if (fd < 0)
		return false;
	text_copy(listener->unix_path, sizeof(listener->unix_path), path);
	if (path[0] != '@')
		lstat(path, &listener->unix_file);
	return add_socket(listener, fd, &(struct address){ 0 }, path, err);
}

struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct err *err)
{
	struct listener *listener = err_calloc(sizeof(*listener), "out of memory", err);
	bool is_open;

	if (!listener)
		return NULL;
	TAILQ_INIT(&listener->sockets);
	listener->loop = loop;
	listener->options = *options;
	listener->options.name = options->name ? strdup(options->name) : NULL;
	/*
	 * With tcp_defer_accept the kernel holds back silent connections. They would be lost when
	 * the port is closed, although another process that shares it could serve them.
	 */
	if (options->reuse_port)
		listener->options.tcp_defer_accept = 0;
	if (options->given_count)
		is_open = open_given(listener, err);
	else
		is_open = open_tcp(listener, options->addresses, err) &&
		          open_unix(listener, options->unix_path, err);
	listener->options.inherited_count = 0; /* they are not for listener_relisten() */
	if (!is_open)
		listener_free(&listener);
	return listener;
}

/* ---- what it is now ---- */

void listener_set_options(struct listener *listener, const struct socket_options *socket,
                          int tcp_defer_accept)
{
	struct listener_options *options = &listener->options;

	options->socket = *socket;
	options->tcp_defer_accept = options->reuse_port ? 0 : tcp_defer_accept;
	TAILQ_EACH (listen_socket, &listener->sockets, node) {
		if (!is_tcp(listen_socket) || listen_socket->watch.fd < 0)
			continue;
		socket_options_apply(listen_socket->watch.fd, socket);
		setsockopt(listen_socket->watch.fd, IPPROTO_TCP, TCP_DEFER_ACCEPT,
		           &options->tcp_defer_accept, sizeof(int));
	}
}

void listener_own_file(struct listener *listener, bool is_ours)
{
	listener->is_file_ours = is_ours;
}

bool listener_is_given(const struct listener *listener)
{
	return listener->options.given_count > 0;
}

unsigned int listener_count(const struct listener *listener) { return listener->open_count; }

int listener_fd(const struct listener *listener, size_t index, struct address *address)
{
	TAILQ_EACH (listen_socket, &listener->sockets, node) {
		if (listen_socket->watch.fd >= 0 && index-- == 0) {
			*address = listen_socket->address;
			return listen_socket->watch.fd;
		}
	}
	return -1;
}

bool listener_is_paused(const struct listener *listener) { return listener->is_paused; }

bool listener_is_resting(const struct listener *listener) { return timer_is_set(&listener->rest); }

const char *listener_unix_path(const struct listener *listener)
{
	return *listener->unix_path ? listener->unix_path : NULL;
}
