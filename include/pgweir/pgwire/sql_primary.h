/* SPDX-License-Identifier: ISC */
/*
 * Recognises texts that a read-only transaction may run on a primary, but that a standby refuses,
 * or where they mean something else: transaction ids, snapshots for others, the WAL, replication
 * slots, large objects, locks of tables, maintenance. What changes the session is in sql_touch.h,
 * and so are advisory locks.
 *
 * Source: PostgreSQL's manual, "Hot Standby", "System Administration Functions", "Large Objects".
 */
#ifndef PGWEIR_PGWIRE_SQL_PRIMARY_H
#define PGWEIR_PGWIRE_SQL_PRIMARY_H

#include "pgweir/base/bytes.h"

/*
 * Whether a whole text, without its terminating zero, is for the primary. It may say so too often:
 * of a function's name in a string, too. Its time is linear in the size of the text.
 */
bool sql_is_for_primary(struct bytes text);

#endif
