/* SPDX-License-Identifier: ISC */
/*
 * Reads the names in a text that touches session state (sql_touch.h): libraries, channels,
 * parameters. Names are returned as PostgreSQL reads them: without quotes, in lower case if they
 * had none.
 */
#ifndef PGWEIR_PGWIRE_SQL_ITEMS_H
#define PGWEIR_PGWIRE_SQL_ITEMS_H

#include "pgweir/base/bytes.h"

enum sql_item_kind {
	SQL_ITEM_LIBRARY,      /* LOAD 'name' */
	SQL_ITEM_LISTEN,       /* LISTEN name */
	SQL_ITEM_UNLISTEN,     /* UNLISTEN name */
	SQL_ITEM_UNLISTEN_ALL, /* UNLISTEN *, DISCARD ALL; no name */
	SQL_ITEM_COMMIT,       /* COMMIT, END; no name */
	SQL_ITEM_ROLLBACK,     /* ROLLBACK, ABORT, ROLLBACK TO, PREPARE TRANSACTION; no name */
	SQL_ITEM_PARAMETER,    /* may be a parameter: a name with a dot, in SET or in a string */
	SQL_ITEM_UNSURE        /* there may be others, which cannot be determined; no name */
};

struct sql_item {
	enum sql_item_kind kind;
	struct bytes name; /* valid only in the callback */
};

/*
 * Calls found() for each item of a whole text, in the order of the text. `text` has no
 * terminating zero.
 */
void sql_items(struct bytes text, void (*found)(void *context, const struct sql_item *item),
               void *context);

#define SQL_SET_NAME_MAX 127
#define SQL_SET_VALUE_MAX 255

struct sql_set {
	char name[SQL_SET_NAME_MAX + 1]; /* in lower case: PostgreSQL's names have none */
	char value[SQL_SET_VALUE_MAX + 1];
};

/*
 * Whether a text is one SET of the session and nothing else, whose effect is certain if it
 * succeeds: the parameter then has this value, or the same in other words (0 and off). false for
 * parameters whose value depends on more than that (role, DateStyle, lists), for DEFAULT, and for
 * values that are not plain ASCII.
 */
bool sql_set_read(struct bytes text, struct sql_set *set);

/*
 * The parameter that a text sets which is one SET of the session and nothing else, also in the form
 * SET TIME ZONE, SET NAMES or SET SESSION AUTHORIZATION. false: the text is something else.
 */
bool sql_set_name(struct bytes text, char name[static SQL_SET_NAME_MAX + 1]);

#endif
