/* SPDX-License-Identifier: ISC */
/*
 * Stops the daemon: at once, or when the last client or server is gone.
 */
#ifndef PGWEIR_MAIN_STOP_H
#define PGWEIR_MAIN_STOP_H

#include "pgweir/admin/console.h"

struct daemon;

/* Stops it in the way of the console's SHUTDOWN commands. */
void stop_daemon(struct daemon *daemon, enum shutdown_kind kind);

/* Stops waiting for the last client or server, because the daemon ends for another reason. */
void stop_watching(struct daemon *daemon);

#endif
