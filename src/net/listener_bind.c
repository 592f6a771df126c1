/* SPDX-License-Identifier: ISC */
/*
 * Opens listening sockets.
 *
 * Hard here: the file of a Unix socket remains if a daemon was killed. It may be removed only
 * if no process accepts connections on it, and no lock file says that PostgreSQL owns it. Mode
 * and group are set before any client can connect: between bind() and listen().
 */
#include "listener_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "pgweir/base/text.h"

static bool set_flag(int fd, int level, int option, struct err *err)
{
	if (setsockopt(fd, level, option, &(int){ 1 }, sizeof(int)) == 0)
		return true;
	return err_set(err, ERR_SYSTEM, "setsockopt: %s", strerror(errno));
}

static bool set_up_tcp(int fd, const struct address *address,
                       const struct listener_options *options, struct err *err)
{
	if (!set_flag(fd, SOL_SOCKET, SO_REUSEADDR, err))
		return false;
	if (options->reuse_port && !set_flag(fd, SOL_SOCKET, SO_REUSEPORT, err))
		return false;
	if (address->family == AF_INET6 && !set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, err))
		return false;
	socket_options_apply(fd, &options->socket);
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &options->tcp_defer_accept, sizeof(int));
	if (bind(fd, address_sockaddr(address), address_sockaddr_size(address)) == 0 &&
	    listen(fd, options->backlog) == 0)
		return true;
	return err_set(err, ERR_SYSTEM, "%s", strerror(errno));
}

int listener_bind_tcp(const struct address *address, const struct listener_options *options,
                      struct err *err)
{
	char text[ADDRESS_TEXT_SIZE];
	int fd = socket_open(address->family);
	bool ok;

	if (fd < 0)
		ok = err_set(err, ERR_SYSTEM, "%s", strerror(errno));
	else
		ok = set_up_tcp(fd, address, options, err);
	if (ok)
		return fd;
	err_prefix(err, "cannot listen on %s: ", address_format(address, text, sizeof(text)));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- Unix sockets ---- */

static bool has_lock_file(const char *path)
{
	char lock[sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(".lock")];
	struct stat found;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	return lstat(lock, &found) == 0;
}

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
	struct stat found;
	int failure;

	if (has_lock_file(path))
		return err_set(err, ERR_CONFIG, "unix socket %s is in use: %s.lock exists", path,
		               path);
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

static bool find_group(const char *name, gid_t *group, struct err *err)
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
		if (!find_group(options->unix_group, &group, err))
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

static bool set_up_unix(int fd, const char *path, const struct sockaddr_un *name, socklen_t size,
                        const struct listener_options *options, struct err *err)
{
	bool has_file = path[0] != '@';

	if (bind(fd, (const struct sockaddr *)name, size) != 0)
		return err_set(err, ERR_SYSTEM, "cannot listen on unix:%s: %s", path,
		               strerror(errno));
	if (!has_file || set_rights(path, options, err)) {
		if (listen(fd, options->backlog) == 0)
			return true;
		err_set(err, ERR_SYSTEM, "cannot listen on unix:%s: %s", path, strerror(errno));
	}
	if (has_file)
		unlink(path);
	return false;
}

int listener_bind_unix(const char *path, const struct listener_options *options, struct err *err)
{
	struct sockaddr_un name;
	socklen_t size;
	int fd;

	if (!address_unix_name(&name, &size, path, err))
		return -1;
	if (path[0] != '@' && !clear_path(path, &name, size, err))
		return -1;
	fd = socket_open(AF_UNIX);
	if (fd < 0) {
		err_set(err, ERR_SYSTEM, "cannot listen on unix:%s: %s", path, strerror(errno));
		return -1;
	}
	if (set_up_unix(fd, path, &name, size, options, err))
		return fd;
	close(fd);
	return -1;
}

/* ---- sockets that were opened by another process, such as a service manager ---- */

static int option_of(int fd, int option)
{
	int value = 0;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/* Writes the path, or @name, of a Unix socket; "" if it has none. */
static void unix_path(const struct sockaddr_un *name, socklen_t size, char *out, size_t out_size)
{
	size_t count = size > offsetof(struct sockaddr_un, sun_path)
	                   ? size - offsetof(struct sockaddr_un, sun_path)
	                   : 0;

	snprintf(out, out_size, "%.*s", (int)count, name->sun_path);
	if (count && !name->sun_path[0])
		snprintf(out, out_size, "@%.*s", (int)count - 1, name->sun_path + 1);
}

bool listener_judge_given(int fd, struct given *given, struct err *err)
{
	struct sockaddr_storage name = { 0 };
	socklen_t size = sizeof(name);
	int flags = fcntl(fd, F_GETFL);

	*given = (struct given){ .fd = fd };
	if (option_of(fd, SO_TYPE) != SOCK_STREAM || option_of(fd, SO_ACCEPTCONN) != 1 ||
	    getsockname(fd, (struct sockaddr *)&name, &size) != 0)
		return err_set(err, ERR_CONFIG,
		               "descriptor %d of the service manager is not a stream socket that "
		               "listens",
		               fd);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return err_set(err, ERR_SYSTEM, "descriptor %d: %s", fd, strerror(errno));
	if (name.ss_family == AF_UNIX) {
		unix_path((const struct sockaddr_un *)&name, size, given->path,
		          sizeof(given->path));
		return true;
	}
	return address_from_sockaddr(&given->address, (const struct sockaddr *)&name, size) ||
	       err_set(err, ERR_CONFIG,
	               "descriptor %d of the service manager is neither TCP nor a Unix socket", fd);
}

/* ---- sockets of another pgweir process ---- */

int listener_find_inherited(const struct listener_options *options, const struct address *address,
                            const char *path)
{
	struct err err;

	for (unsigned int i = 0; i < options->inherited_count; i++) {
		int fd = options->inherited[i];
		struct given given;

		if (fd < 0 || !listener_judge_given(fd, &given, &err))
			continue;
		if (path ? given.address.family != AF_UNSPEC || strcmp(given.path, path) != 0
		         : !address_equal(&given.address, address))
			continue;
		options->inherited[i] = -1;
		return fd;
	}
	return -1;
}
