/* SPDX-License-Identifier: ISC */
/*
 * What the statements of a text say of libraries, channels and parameters.
 *
 * Names are those that PostgreSQL reads: without quotes, in lower case if they had none.
 */
#ifndef PGWEIR_PGWIRE_SQL_ITEMS_H
#define PGWEIR_PGWIRE_SQL_ITEMS_H

#include "pgweir/base/bytes.h"

enum sql_item_kind {
	SQL_ITEM_LIBRARY,      /* LOAD 'name' */
	SQL_ITEM_LISTEN,       /* LISTEN name */
	SQL_ITEM_UNLISTEN,     /* UNLISTEN name */
	SQL_ITEM_UNLISTEN_ALL, /* UNLISTEN * */
	SQL_ITEM_UNSURE,       /* one of these whose name cannot be determined */
	SQL_ITEM_SET,          /* SET, also SET LOCAL: a parameter gets a value */
	SQL_ITEM_RESET,        /* it gets its default; RESET ALL has no name */
	SQL_ITEM_DISCARD,      /* DISCARD ALL, alone: with other statements it fails */
	SQL_ITEM_ROLLBACK,     /* ROLLBACK, ABORT, also to a savepoint */
	SQL_ITEM_OTHER         /* a statement that may depend on parameters */
};

struct sql_item {
	enum sql_item_kind kind;
	const char *name; /* "": none. Valid only in the callback */
	bool is_local;    /* by SET LOCAL */
};

/*
 * Whether a text is the same with and without standard_conforming_strings, which is not known here.
 */
bool sql_is_alike(struct bytes text);

/*
 * Calls found() for each item of a whole text, which has no terminating zero, in its order. false:
 * the text is not alike, and was read in both ways.
 */
bool sql_items(struct bytes text, void (*found)(void *context, const struct sql_item *item),
               void *context);

#endif
