/* SPDX-License-Identifier: ISC */
/*
 * The web server: shows by HTTP what the console's SHOW tables have. Nothing can be changed by it.
 *
 * It has a thread and a loop of its own, which serve no clients. Rows come from the main thread,
 * in pieces.
 */
#ifndef PGWEIR_WEB_WEB_H
#define PGWEIR_WEB_WEB_H

#include "pgweir/admin/console.h"
#include "pgweir/config/config.h"
#include "pgweir/config/problems.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/tls.h"

struct web;

#define WEB_CONNECTIONS_MAX 72 /* for more, the oldest without a request is closed */

/* ---- rights ---- */

/* Immutable, and counts its references: any thread may use one to which it holds a reference. */
struct web_rights;

/* Made of the settings metrics_... The caller owns one reference. NULL: *err has the reason. */
struct web_rights *web_rights_new(const struct config *config, struct err *err);

struct web_rights *web_rights_hold(struct web_rights *rights);

/* Releases a reference and sets NULL; accepts NULL. */
void web_rights_release(struct web_rights **rights);

/* The certificates that are shown; NULL: none. Accepts NULL. */
const struct tls_context *web_rights_tls(const struct web_rights *rights);

/* Warns of places of metrics_listen that every user of this machine may read. */
void web_warn(const struct config *config, struct problems *problems);

/* ---- the server ---- */

/* All pointers are borrowed and must outlive the server. */
struct web_with {
	struct log *log;
	struct loop *main_loop;
	struct console *console;
	struct workers *handshakes;
	const struct config *config; /* a reference is held: the settings that need a restart */
	struct web_rights *rights;   /* a reference is held; NULL if metrics_listen is empty */
};

/*
 * Listens where metrics_listen says, and starts the thread. A place that is in use is a warning: it
 * is tried again until it is free. *web is NULL if metrics_listen is empty. false: *err says why.
 */
bool web_new(struct web **web, const struct web_with *with, struct err *err);

/* Rights of requests from now on; takes over the reference. Accepts a web that is NULL. */
void web_allow(struct web *web, struct web_rights *rights);

/* For another process that takes over: closes its sockets, or opens them. Accepts NULL. */
void web_listen(struct web *web, bool may_listen);

/*
 * Ends the thread and closes all connections. To be called by the main thread while no other loop
 * runs, before the console is freed; accepts NULL.
 */
void web_stop(struct web *web);

/* After the handshake threads have ended, which may have letters for it; accepts NULL. */
void web_free(struct web **web);

#endif
