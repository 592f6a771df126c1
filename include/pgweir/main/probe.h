/* SPDX-License-Identifier: ISC */
/*
 * What probes and scripts ask of a running daemon, over its Unix socket. `user`: who asks;
 * NULL: see ask_open().
 */
#ifndef PGWEIR_MAIN_PROBE_H
#define PGWEIR_MAIN_PROBE_H

#include <stdbool.h>

/* --ready: whether it takes work now. false: not, or nobody answers; stderr says why. */
bool probe_ready(const char *socket, const char *user);

/*
 * --drain: DRAIN, to its end; how it goes is said on stderr. `seconds`: its deadline; NULL:
 * none. false: it did not come to that end; stderr says why.
 */
bool probe_drain(const char *socket, const char *user, const char *seconds);

#endif
