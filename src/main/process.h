/* SPDX-License-Identifier: ISC */
/*
 * What this process is to the system: its limits, its user, its terminal, its pid file, its
 * service manager.
 */
#ifndef PGWEIR_MAIN_PROCESS_H
#define PGWEIR_MAIN_PROCESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/base/log.h"

/* ---- limits ---- */

struct limits {
	unsigned long files;      /* the soft limit; ULONG_MAX: no limit */
	unsigned long files_hard; /* the hard limit, which only root may raise */
};

/* To the hard one, if the kernel allows it. false: the limits cannot be read. */
bool limits_raise(struct limits *limits, struct err *err);

/*
 * Descriptors below this number are for clients. The others are kept for servers, consoles
 * and files: an eighth of all, at most LIMITS_KEPT_MAX. INT_MAX: there is no limit.
 */
#define LIMITS_KEPT_MAX 256
int limits_for_clients(void);

/* Logs the limits and the number of files that may be needed. Warns if the limit is lower. */
void limits_report(const struct limits *limits, unsigned long expected, const struct logger *log);

/* ---- privileges ---- */

/*
 * Becomes `user` with its groups, permanently (NULL or "": no change). false: the user does
 * not exist, the process may not become that user, or would run as root; the daemon must
 * not start then.
 */
bool privileges_drop(const char *user, struct err *err);

/*
 * Becomes `user` for a while, to check the rights of that user. Only root changes the user;
 * any other process keeps its own and gets no error for it. false: the user does not exist,
 * or is root. After privileges_return() root has its rights again, but for further groups.
 */
bool privileges_borrow(const char *user, struct err *err);
bool privileges_are_borrowed(void);
void privileges_return(void);

/* ---- daemonize ---- */

/*
 * Goes to the background: a session of its own, stdin, stdout and stderr are /dev/null, the
 * working directory is kept. The calling process exits with status 0, and its grandchild
 * returns true. false: nothing has changed.
 *
 * Call it before any thread, loop or listener exists.
 */
bool daemonize(struct err *err);

/* ---- the pid file, which prevents the start of a second daemon ---- */

/*
 * Whether `path` can be used. false: its process is running, or the file has no process id;
 * *err has the reason. Removes the file of a dead process, and logs that. Call it before
 * daemonize(), so that the error goes to the terminal.
 */
bool pidfile_check(const char *path, const struct logger *log, struct err *err);

/* Creates the file, "pid\n" with mode 0644. false: it exists, or cannot be written. */
bool pidfile_write(const char *path, struct err *err);

/* 0: there is no such file. -1: it cannot be read, or has no number; *err has the reason. */
pid_t pidfile_read(const char *path, struct err *err);

/* Writes our process id in place of another process's. false: the file is unchanged. */
bool pidfile_replace(const char *path, struct err *err);

/* Removes the file if it has our process id. NULL or "": nothing. */
void pidfile_remove(const char *path);

/*
 * ---- messages to the service manager, by the protocol of sd_notify(3) ----
 *
 * A datagram with one or more lines. Without a service manager that wants them, nothing is sent.
 */

struct notify {
	int fd; /* -1: there is no service manager that wants messages */
	struct sockaddr_un name;
	socklen_t name_size;
	usec_t watchdog; /* maximum interval between two messages; 0: no watchdog */
};

/*
 * Reads NOTIFY_SOCKET (a path, or @abstract), WATCHDOG_USEC and WATCHDOG_PID, and removes
 * them from the environment. false: their values cannot be used, and nothing will be sent;
 * *err has the reason.
 */
bool notify_open(struct notify *notify, struct err *err);

/* Sends lines of "NAME=value". Blocks for a tenth of a second at most. */
void notify_send(const struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void notify_close(struct notify *notify);

/* ---- sockets that the service manager has opened: sd_listen_fds(3) ---- */

#define ACTIVATION_MAX 64

#define HANDED_SOCKETS_MAX 256

/* Listening sockets from outside: of the service manager, or of the process before. */
struct handed_sockets {
	unsigned int count;
	int fds[HANDED_SOCKETS_MAX];        /* who takes them over closes them; -1: is taken */
	char names[HANDED_SOCKETS_MAX][64]; /* of their listeners; "" = the main one */
};

/*
 * Reads LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES, and removes them from the environment. Call it
 * before any fork and before a descriptor is opened. Sockets for another process are not used.
 * false: the values are invalid; *err has the reason.
 */
bool activation_take(struct handed_sockets *sockets, struct err *err);

#endif
