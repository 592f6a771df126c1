/* SPDX-License-Identifier: ISC */
/*
 * The pid file: has the process id of the daemon, and prevents the start of a second one.
 */
#ifndef PGWEIR_MAIN_PIDFILE_H
#define PGWEIR_MAIN_PIDFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "pgweir/base/err.h"
#include "pgweir/base/log.h"

/*
 * Whether `path` can be used. false: its process is running, or the file has no process id;
 * *err has the reason. Removes the file of a dead process, and logs that. Call it before
 * daemonize(), so that the error goes to the terminal.
 */
bool pidfile_check(const char *path, const struct logger *log, struct err *err);

/* Creates the file, "pid\n" with mode 0644. false: it exists, or cannot be written. */
bool pidfile_write(const char *path, struct err *err);

/* Whether the file has this process id. */
bool pidfile_is_of(const char *path, pid_t pid);

/* Writes our process id in place of another process's. false: the file is unchanged. */
bool pidfile_replace(const char *path, struct err *err);

/* Removes the file if it has our process id. NULL or "": nothing. */
void pidfile_remove(const char *path);

#endif
