/* SPDX-License-Identifier: ISC */
/*
 * The bits of client->touched beside those of enum sql_touch.
 */
#ifndef PGWEIR_CLIENT_SESSION_TOUCHED_PRIV_H
#define PGWEIR_CLIENT_SESSION_TOUCHED_PRIV_H

#include <stdint.h>

#include "pgweir/pgwire/sql_touch.h"
#include "pgweir/pool/pool_catalog.h"

/* The text has a name of the protocol itself, so what it prepares is not followed: prepared.c. */
#define SESSION_TOUCH_BY_NAME ((uint32_t)1 << 21)
/* The ReadyForQuery that ends the transaction is withheld: listening.c. */
#define LISTENING_HOLDS ((uint32_t)1 << 22)
/*
 * A statement that sets parameters back was noted; its Execute has not come; it was sent, and the
 * next message comes behind it: resets.c.
 */
#define RESETS_NOTED ((uint32_t)1 << 23)
#define RESETS_WAIT ((uint32_t)1 << 24)
#define RESETS_DUE ((uint32_t)1 << 25)
/* It is not the text that shows what a statement touches, but the catalog, or a sample. */
#define SESSION_TOUCH_NAMED ((uint32_t)1 << 26)
/* The server has the client's statements under its names: exposed.c. */
#define SESSION_TOUCH_EXPOSED ((uint32_t)1 << 27)
/* The catalog was not read yet: the server is asked for everything, to be on the safe side. */
#define SESSION_TOUCH_EARLY ((uint32_t)POOL_TOUCH_EARLY)
/* The running transaction is a sample: session_begin_sample(). */
#define SESSION_TOUCH_SAMPLE ((uint32_t)1 << 29)

/* Something must run between the last text and the next frame. */
#define RESETS_FOLLOWED (RESETS_NOTED | RESETS_WAIT | RESETS_DUE)

/* 22 to 29, each once, and none of them of enum sql_touch. */
_Static_assert((uint64_t)LISTENING_HOLDS + RESETS_NOTED + RESETS_WAIT + RESETS_DUE +
                       SESSION_TOUCH_NAMED + SESSION_TOUCH_EXPOSED + SESSION_TOUCH_EARLY +
                       SESSION_TOUCH_SAMPLE ==
                   UINT64_C(0x3fc00000),
               "a bit has two meanings");
_Static_assert(SQL_TOUCH_DATABASE < SESSION_TOUCH_BY_NAME, "a bit has two meanings");

#endif
