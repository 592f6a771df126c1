/* SPDX-License-Identifier: ISC */
/*
 * A server alone: no pool, no client. Its connection is one end of a socket pair, its borrower
 * and its pool write down what they hear.
 *
 * What the borrower and the pool have heard is a line of signs, in order:
 *
 *   T D C Z E ...    the borrower has got this frame, whole
 *   +I  -I           on_ready(): nothing more is owed, or something is; the status
 *   ^                on_deallocated()
 *   >                on_retry()
 *   *                on_writable()
 *   l                on_lent(): its parameters are set
 *   home  refused  needed   the pool: it came home; it refused parameters; it is to be closed
 *   lost(WORDS)  left(WORDS)   on_lost(), the second after a FATAL error that was passed on
 */
#ifndef PGWEIR_TEST_LONE_SERVER_H
#define PGWEIR_TEST_LONE_SERVER_H

#include "../../src/pool/server/server_priv.h"

struct lone_server {
	struct loop *loop;
	struct task stop;
	int turns_left;
	struct stream_pool streams;
	struct params_table *params;
	struct statements statements;
	struct close_counts closes;
	struct socket_options sockets;
	struct buf order_message;
	const struct config *config;
	struct server_shared shared;
	struct server_site site;
	struct reach reach;
	struct hosts hosts;
	uint64_t client_bytes, server_bytes, all_client_bytes, all_server_bytes;
	struct borrower borrower;
	struct server server;
	int peer;        /* the end of PostgreSQL; -1: closed */
	struct buf got;  /* bytes that the borrower has, and that are no whole frame yet */
	struct buf last; /* the last frame that it got */
	struct buf heard;
	bool is_freed;
};

/* A server that has logged in and serves the borrower. settings: of the configuration, or "". */
void lone_server_open(struct lone_server *lone, const char *settings);
void lone_server_close(struct lone_server *lone);

/* PostgreSQL says this; the server hears it, in one piece or byte by byte. */
void lone_server_say(struct lone_server *lone, struct bytes bytes, bool by_bytes);

/* Lets the loop turn until nothing is left to do. */
void lone_server_turn(struct lone_server *lone);

#endif
