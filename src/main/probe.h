/* SPDX-License-Identifier: ISC */
/*
 * What probes and scripts ask a running daemon over its Unix socket. `socket`, `as`, `user`
 * and `seconds` are from the command line.
 */
#ifndef PGWEIR_MAIN_PROBE_H
#define PGWEIR_MAIN_PROBE_H

#include <stdbool.h>

#include "options.h"

/*
 * --ready: whether the daemon accepts work. false: it does not, or does not answer; the
 * reason is on stderr.
 */
bool probe_ready(const struct options *options);

/*
 * --drain: runs DRAIN until it has ended, with the progress on stderr. false: it was not
 * completed; the reason is on stderr.
 */
bool probe_drain(const struct options *options);

#endif
