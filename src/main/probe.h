/* SPDX-License-Identifier: ISC */
/*
 * What probes and scripts ask of a running daemon, over its Unix socket: `socket`,
 * `as`, `user` and `seconds` of the command line.
 */
#ifndef PGWEIR_MAIN_PROBE_H
#define PGWEIR_MAIN_PROBE_H

#include <stdbool.h>

#include "options.h"

/* --ready: whether it takes work now. false: not, or nobody answers; stderr says why. */
bool probe_ready(const struct options *options);

/*
 * --drain: DRAIN, to its end, with its progress on stderr. false: it did not come to its end;
 * stderr has the reason.
 */
bool probe_drain(const struct options *options);

#endif
