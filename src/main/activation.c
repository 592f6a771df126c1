/* SPDX-License-Identifier: ISC */
/*
 * Socket activation, the protocol of sd_listen_fds(3): the descriptors begin at 3.
 */
#include "activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/base/text.h"

#define FIRST 3

static bool take_sockets(struct activation *activation, const char *count_text, struct err *err)
{
	int64_t count;

	if (!text_to_i64(count_text, &count) || count < 0 || count > ACTIVATION_MAX)
		return err_set(err, ERR_CONFIG, "LISTEN_FDS=%s: a number from 0 to %d is expected",
		               count_text, ACTIVATION_MAX);
	for (int fd = FIRST; fd < FIRST + (int)count; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
			return err_set(err, ERR_CONFIG, "LISTEN_FDS=%s, but descriptor %d: %s",
			               count_text, fd, strerror(errno));
		activation->fds[activation->count++] = fd;
	}
	return true;
}

bool activation_take(struct activation *activation, struct err *err)
{
	const char *count = getenv("LISTEN_FDS"), *whose = getenv("LISTEN_PID");
	int64_t pid;
	bool is_ours = count && whose && text_to_i64(whose, &pid) && pid == getpid();
	bool ok;

	activation->count = 0;
	ok = !is_ours || take_sockets(activation, count, err);
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	return ok;
}
