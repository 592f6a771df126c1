/* SPDX-License-Identifier: ISC */
/*
 * The pid file: says which process runs, and keeps a second one from starting.
 */
#ifndef PGWEIR_MAIN_PIDFILE_H
#define PGWEIR_MAIN_PIDFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "pgweir/base/err.h"
#include "pgweir/base/log.h"

/*
 * Whether `path` may be ours. false: its process lives, or it is empty or not a
 * number. The file of a dead process is removed, with a line in the log. Before
 * daemonize(), so that a refusal is seen.
 */
bool pidfile_check(const char *path, const struct logger *log, struct err *err);

/* Makes it, "pid\n", mode 0644. false: it is there already, or cannot be written. */
bool pidfile_write(const char *path, struct err *err);

/* Whether it names that process. */
bool pidfile_is_of(const char *path, pid_t pid);

/* Puts ours in the place of what another process has written. false: it is as it was. */
bool pidfile_replace(const char *path, struct err *err);

/* Removes it if it is still this process's. NULL or "": nothing. */
void pidfile_remove(const char *path);

#endif
