/* SPDX-License-Identifier: ISC */
#ifndef PGWEIR_MAIN_DAEMONIZE_H
#define PGWEIR_MAIN_DAEMONIZE_H

#include <stdbool.h>

#include "pgweir/base/err.h"

/*
 * Goes to the background: a session of its own, stdin, stdout and stderr are /dev/null, the
 * working directory is kept. The calling process exits with status 0, and its grandchild
 * returns true. false: nothing has changed.
 *
 * Call it before any thread, loop or listener exists.
 */
bool daemonize(struct err *err);

#endif
