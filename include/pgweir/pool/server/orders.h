/* SPDX-License-Identifier: ISC */
/*
 * Orders: what we ask a server ourselves. The replies are ours, errors too (LEDGER_OURS).
 *
 * There is at most one of each `where`, and their replies come in this order: ahead, behind, at
 * rest. An order that is awaited ends with a ReadyForQuery, and then with on_answer() of the
 * borrower for which it was, or with a callback of the pool.
 */
#ifndef PGWEIR_POOL_SERVER_ORDERS_H
#define PGWEIR_POOL_SERVER_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/pool/server/ledger.h"
#include "pgweir/pool/server/question.h"

struct err;
struct server;
struct server_question;

enum order_kind {
	ORDER_NONE,
	ORDER_CONNECT,  /* connect_query */
	ORDER_CHECK,    /* server_check_query */
	ORDER_RESET,    /* server_reset_query */
	ORDER_REPLAY,   /* sets the borrower's parameters, and cleans */
	ORDER_CHANNELS, /* changes what it listens to */
	ORDER_CLOSES,   /* closes the statements of `names` */
	/* their answers have rows */
	ORDER_PROOF,   /* shows that its replies are in step: enum server_hearing */
	ORDER_ASK,     /* asks which session state there is: question.h */
	ORDER_CATALOG, /* asks what the functions of the database may do: pool/catalog.h */
	ORDER_ROLE,    /* asks for the role of the host: question.h */
	ORDER_SLOTS    /* asks how many sessions PostgreSQL grants */
};

enum order_where {
	/* at once: the server is at rest, and nobody else's until it has answered */
	SENT_AT_REST,
	/*
	 * in the write of the borrower's next message, before that; nobody waits for it. Its
	 * failure must do no harm. Then the server cannot be lent to another borrower.
	 */
	SENT_AHEAD,
	/*
	 * in the write of what the borrower sends now, with which its transaction ends or fails:
	 * the messages are added to `out`. The borrower sends nothing more. Its on_ready() comes
	 * when its own message is answered, and then the order is running, unless the
	 * transaction has failed and not ended: then the order has no answer.
	 */
	SENT_BEHIND,
	/* at once; the borrower gets the ReadyForQuery, as on_ready() */
	SENT_NOW
};

struct order {
	enum order_kind kind;
	enum order_where where;
	/* leaves the unnamed statement alone; no semicolons within a statement */
	bool is_apart;
	const char *text; /* SQL, if the kind does not say what it is */
	/* name\0: of ORDER_CLOSES; of ORDER_ASK the placeholders, as question_text() wants them */
	struct bytes names;
	unsigned int parts; /* of ORDER_ASK: enum question_part */
	struct question_wait wait;
	struct buf *out; /* of SENT_BEHIND */
	/* a row of the answer; NULL: there are none, or ORDER_ASK */
	void (*on_row)(struct server *server, struct bytes row);
	/*
	 * It is done, or orders.has_failed. In LOGIN, and of ORDER_REPLAY, nothing else comes; of
	 * others on_home() or on_answer(). NULL: not needed.
	 */
	void (*on_done)(struct server *server);
};

/* The orders of a server. */
struct server_orders {
	enum order_kind running; /* the server is busy with it; ORDER_NONE: with no order */
	bool has_failed;         /* `running`, or the last one */
	bool has_cleaned;        /* the same: what follows in it are the borrower's parameters */
	/* of `running` */
	void (*on_row)(struct server *server, struct bytes row);
	void (*on_done)(struct server *server);
	bool cannot_wait;     /* WAIT FOR was refused */
	uint32_t behind_size; /* bytes of the one that is SENT_BEHIND; 0: there is none */
	struct server_question *question; /* of ORDER_ASK, while that runs or is behind; or NULL */
	struct err *refusal; /* of ORDER_REPLAY: why the server refused the parameters; or NULL */
	struct buf ahead;    /* not sent yet */
	struct ledger_change ahead_change;
	/* an order has failed, and what was sent behind it must not be answered. Or NONE */
	enum close_reason failure;
};

/* false: no memory, or broken; then the server is closed, but for SENT_BEHIND: send nothing. */
bool server_order(struct server *server, const struct order *order);

/*
 * Adds the messages that execute one statement and leave the unnamed statement and portal of the
 * session alone, and notes them; the change is that of the Execute. After an error, or from a
 * PREPARE of SQL, the scratch name may be there still, so it is closed first, too. false: no
 * memory.
 */
bool server_add_apart(struct server *server, struct bytes statement, enum ledger_fate fate,
                      struct ledger_change *change, struct buf *out);

#endif
