/* SPDX-License-Identifier: ISC */
/*
 * Dialling: connects to a server without waiting for it.
 */
#ifndef PGWEIR_NET_DIAL_H
#define PGWEIR_NET_DIAL_H

#include "pgweir/base/err.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"
#include "pgweir/net/socket_options.h"

/* One attempt. Lives inside its owner; at rest it is zeroed. It has no limit of time: the owner
 * has. */
struct dial {
	/*
	 * Comes once, always from the loop, never from within dial_start*(), even
	 * when a Unix socket is connected at once. The dial is at rest again. fd >= 0:
	 * connected, and yours. -1: *err (ERR_SERVER_CONNECT, ERR_FILES) says why not.
	 */
	void (*on_done)(struct dial *dial, int fd, const struct err *err);
	struct loop *loop;
	struct watch watch;
	struct task task; /* tells what was known at once */
	int fd;           /* -1 when it failed at once */
	int failure;      /* errno of that */
	bool is_active;
};

/* `options` are applied to the new socket and not kept. */
void dial_start(struct dial *dial, struct loop *loop, const struct address *address,
                const struct socket_options *options,
                void (*on_done)(struct dial *dial, int fd, const struct err *err));

/* A Unix socket by its path, or with a leading '@' by its abstract name. */
void dial_start_unix(struct dial *dial, struct loop *loop, const char *path,
                     void (*on_done)(struct dial *dial, int fd, const struct err *err));

/* on_done() will not come. Safe at rest. */
void dial_cancel(struct dial *dial);

#endif
