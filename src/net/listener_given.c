/* SPDX-License-Identifier: ISC */
/*
 * Listening sockets that were opened by another process, such as a service manager.
 */
#include "listener_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

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

/* Whether one of the sockets serves this word of listen_addr. Names are not looked up: true. */
static bool has_word(const struct given *given, unsigned int count, const char *word, uint16_t port)
{
	struct address address, any;
	bool is_any = strcmp(word, "*") == 0;

	if (!is_any && !address_parse(&address, word, port))
		return true;
	for (unsigned int i = 0; i < count; i++) {
		const struct address *at = &given[i].address;

		if (at->family == AF_UNSPEC || address_port(at) != port)
			continue;
		if (is_any || address_equal(at, &address))
			return true;
		if (address_parse(&any, at->family == AF_INET6 ? "::" : "0.0.0.0", port) &&
		    address_equal(at, &any))
			return true;
	}
	return false;
}

static void check_addresses(const struct given *given, unsigned int count,
                            const struct listener_options *options)
{
	char *list = strdup(options->addresses), *rest = list, *word;

	while (list && (word = strsep(&rest, ","))) {
		word = text_trim(word);
		if (*word && !has_word(given, count, word, options->port))
			log_warning(&options->log,
			            "listen_addr = %s, port %u is ignored: the service manager has "
			            "opened no such socket",
			            word, options->port);
	}
	free(list);
}

void listener_check_given(const struct given *given, unsigned int count,
                          const struct listener_options *options)
{
	char path[sizeof(given->path)];

	check_addresses(given, count, options);
	if (!*options->unix_dir)
		return;
	snprintf(path, sizeof(path), "%s/.s.PGSQL.%u", options->unix_dir, options->port);
	for (unsigned int i = 0; i < count; i++) {
		if (strcmp(given[i].path, path) == 0)
			return;
	}
	log_warning(&options->log,
	            "unix_socket_dir = %s is ignored for listening: the service manager has not "
	            "opened %s",
	            options->unix_dir, path);
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
