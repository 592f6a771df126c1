/* SPDX-License-Identifier: ISC */
/*
 * The end of the daemon: at once, or when the last client or server has gone.
 */
#ifndef PGWEIR_MAIN_STOP_H
#define PGWEIR_MAIN_STOP_H

#include "pgweir/admin/console.h"

struct daemon;

/* Ends it in one way or the other, as the console's SHUTDOWN does. */
void stop_daemon(struct daemon *daemon, enum shutdown_kind kind);

/* It ends for another reason: the last client or server is waited for no more. */
void stop_watching(struct daemon *daemon);

#endif
