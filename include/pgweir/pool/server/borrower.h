/* SPDX-License-Identifier: ISC */
/*
 * A borrower: it waits in a pool's wait queue, and is lent one of the pool's servers. It lives
 * inside a client, or inside a lookup of auth_query; the pool knows nothing else of them.
 */
#ifndef PGWEIR_POOL_SERVER_BORROWER_H
#define PGWEIR_POOL_SERVER_BORROWER_H

#include <stdbool.h>
#include <sys/queue.h>

#include "pgweir/base/bytes.h"
#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/pgwire/startup.h"

struct borrower;
struct buf;
struct params;
struct pool;
struct server;

/*
 * What a borrower is called for. All come from the loop, none from within a call of
 * the borrower's own, and each may leave the pool or return the server.
 */
struct borrower_ops {
	/*
	 * Waited for a server, and has it: borrower->server. It takes bytes at once.
	 * One of its own has just logged in; its baseline is what it reported.
	 */
	void (*on_lent)(struct borrower *borrower);
	/* Waited for a server or for the welcome, and will not get it. It has left the wait queue.
	 */
	void (*on_refused)(struct borrower *borrower, const struct err *err);
	/* Waited for the welcome: the pool's first server has logged in. It has left the wait
	 * queue. */
	void (*on_welcome)(struct borrower *borrower);
	/*
	 * Bytes of the lent server for the client: whole frames and pieces, in order.
	 * false: it cannot take more; it calls server_read_on() when it can.
	 */
	bool (*on_bytes)(struct borrower *borrower, struct bytes bytes);
	/*
	 * A ReadyForQuery has been passed on. is_settled: nothing more is owed, the
	 * server may be returned if borrower->server's status is 'I'.
	 */
	void (*on_ready)(struct borrower *borrower, char status, bool is_settled);
	/* All statements that were prepared by name are gone: DISCARD ALL, DEALLOCATE ALL. */
	void (*on_deallocated)(struct borrower *borrower);
	/*
	 * What the borrower had said in that batch (segment.h) has come to nothing, and the
	 * server is ready for it once more. Good during the call.
	 */
	void (*on_retry)(struct borrower *borrower, struct bytes batch);
	/*
	 * The lent server takes bytes again, after server_send() had to keep some; or
	 * what the borrower waits for (waits_for) has come; or the rest of a frame that nobody
	 * asked for has come, and with that it may be returned.
	 */
	void (*on_writable)(struct borrower *borrower);
	/* The lent server is gone; borrower->server is NULL. got_fatal: it said so itself,
	 * by a FATAL message that has been passed on. */
	void (*on_lost)(struct borrower *borrower, const struct err *err, bool got_fatal);
	/* An administrator, or a limit of the server's, ends it. It may hold a server. */
	void (*on_expelled)(struct borrower *borrower, const struct err *err);
	/* Adds who it is, in printable ASCII: other clients and the log read it. */
	void (*tell_who)(const struct borrower *borrower, struct buf *out);
};

enum borrower_state {
	BORROWER_RESTING,           /* wants nothing */
	BORROWER_NEWCOMER,          /* waits for the pool's welcome */
	BORROWER_WAITING,           /* stands in the line for a server */
	BORROWER_WAIT_DEDICATED,    /* stands in the line of those who need a server of their own */
	BORROWER_CONNECT_DEDICATED, /* that server is being launched */
	BORROWER_SERVED             /* has a server */
};

/*
 * What a borrower wants of a server of its own, which logs in for it. All borrowed. Lives as
 * long as it waits for that.
 */
struct server_wish {
	enum replication replication; /* not NONE */
	const struct params *params;  /* of the session */
	const char *options;          /* as the client gave them; NULL: none */
	struct server *expected;      /* the pool's: good in EXPECTING */
};

/* Thousands of them rest: what each message touches comes first, what a waiting one needs last. */
struct borrower {
	const struct borrower_ops *ops;
	struct pool *pool; /* NULL: in no pool */
	struct server *server;
	enum borrower_state state;
	bool is_patient;     /* waits for a server also while none can be reached */
	bool is_hasty;       /* and this one never does: pool_hurry() */
	bool is_mid_message; /* leaves with half a message sent: its server can serve nobody else */
	bool is_mid_answer;  /* lost its server with half a message received */
	uint8_t waits_for;   /* enum ledger_wait: of its server's, before it says more */
	TAILQ_ENTRY(borrower) wait_node; /* in the list of the pool's for what it waits for */
	usec_t waiting_since;            /* good while it waits for whatever it may be */
	usec_t waited;                   /* in lines, since its owner set this to 0 */
	union {
		uint64_t wait_number;     /* good in NEWCOMER and WAITING: grows along a line */
		struct server_wish *wish; /* good in APART and EXPECTING */
	};
	TAILQ_ENTRY(borrower) node; /* in the pool's members */
};

TAILQ_HEAD(borrower_list, borrower);

#endif
