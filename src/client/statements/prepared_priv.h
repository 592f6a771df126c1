/* SPDX-License-Identifier: ISC */
/*
 * Named prepared statements in transaction and statement mode: each client has
 * names of its own for statements that live under names of ours on the servers.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_PREPARED_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_PREPARED_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

enum prepared_result {
	PREPARED_PASS, /* none of ours: it goes on as it is, and has not been noted */
	PREPARED_HEAD, /* noted; the first *head bytes are replaced in `gather`, the rest goes on */
	PREPARED_DROP, /* noted; nothing of the frame itself goes on */
	PREPARED_MORE, /* more of the frame is needed */
	PREPARED_WAIT, /* the server has to answer a Sync before */
	PREPARED_WAIT_EMPTY, /* the server has to answer all before */
	PREPARED_END         /* no memory */
};

/* Whether this client's statements are followed. */
bool prepared_follows(const struct client *client);

/*
 * Judges a Query, Parse, Bind, Describe, Execute or Close of a client that has a server: `in` is
 * what has come of the frame and behind it.
 */
enum prepared_result prepared_judge(struct client *client, const struct frame *frame,
                                    struct bytes in, struct batch *batch, size_t *head);

/* ---- for sql.c and unnamed.c ---- */

/* Whether a name is one that statements have on servers, and no client may use. */
bool prepared_is_ours(const char *name);

/* Notes what is sent to the client's server. false: no memory. */
bool prepared_note(struct server *server, enum ledger_kind kind, enum ledger_fate fate,
                   struct ledger_change *change);

/* Close of a statement under its name on servers: a zero is behind it. Not noted. */
void prepared_batch_close(struct batch *batch, struct bytes name);

/*
 * The server learns the statement in front of what needs it, if it does not know it. name: how
 * it is called there; NULL: it must be by its own name.
 */
bool prepared_inject(struct client *client, struct batch *batch, struct statement *statement,
                     struct bytes *name);

/* The change of a request that is made to fail: the client hears `err`. NULL: no memory. */
struct refusal *prepared_refusal(const struct err *err);

/*
 * A message that must be kept whole and is longer than may be kept: the client hears so.
 * PREPARED_DROP or END.
 */
enum prepared_result prepared_refuse_long(struct client *client, const struct frame *frame,
                                          struct batch *batch);

/* A message that fails in any case, for which the client hears `err`. PREPARED_DROP or END. */
enum prepared_result prepared_refuse(struct client *client, const struct err *err,
                                     struct batch *batch);

/* ---- the unnamed statement: unnamed.c ---- */

/* Longer Parse messages of it pass in pieces and are not kept. */
#define UNNAMED_KEPT_MAX ((uint32_t)64 * 1024)

/* A Parse of it. What is kept of the text until unnamed_keep() lies in `in`. */
enum prepared_result unnamed_parse(struct client *client, const struct frame *frame,
                                   struct bytes in, struct batch *batch);

/* A Bind or Describe of it. PREPARED_PASS: what it needs stands in front; HEAD: and it is noted. */
enum prepared_result unnamed_use(struct client *client, char type, struct batch *batch);

/* A Close of it, or a Query: there is none any more. */
void unnamed_drop(struct client *client, struct batch *batch);

/* What was read has been judged and sent: a text that was not bound yet is kept. */
void unnamed_keep(struct client *client, const struct batch *batch);

/* The server is given back: it may get another's. */
void unnamed_away(struct client *client);

/* Frees it; the ledger has settled what was under way. */
void unnamed_free(struct client *client);

/* For another process of ours: fields of the client's record, and back. false: it cannot be sent.
 */
struct channel;
struct pools_arrival;
struct record;
bool unnamed_write(const struct client *client, struct buf *record, struct channel *channel);
void unnamed_read(struct client *client, struct record *record,
                  const struct pools_arrival *arrival);

/* The SQL text of a statement that the client has prepared by this name; NULL: none. */
const char *prepared_text(const struct client *client, const char *name);

#endif
