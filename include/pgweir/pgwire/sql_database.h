/* SPDX-License-Identifier: ISC */
/*
 * Recognises a text that is one statement for which a database must have no sessions: DROP
 * DATABASE, ALTER DATABASE ... RENAME or SET TABLESPACE, CREATE DATABASE.
 *
 * Source: PostgreSQL's manual, "SQL Commands".
 */
#ifndef PGWEIR_PGWIRE_SQL_DATABASE_H
#define PGWEIR_PGWIRE_SQL_DATABASE_H

#include <stdbool.h>

#include "pgweir/base/bytes.h"

#define SQL_DATABASE_SIZE 64 /* of a name in PostgreSQL, with its zero */

/*
 * Reads a whole text, without its terminating zero. *name: the database; of CREATE DATABASE, its
 * template. false: it is another statement, or several.
 */
bool sql_database(struct bytes text, char name[SQL_DATABASE_SIZE]);

#endif
