/* SPDX-License-Identifier: ISC */
/*
 * Rows: columns as tables, values as they go over the wire.
 *
 * What a SHOW knows of one row is a struct; a column says where in it its value
 * lies. The header, the rows and the manual are all made from the columns.
 */
#ifndef PGWEIR_ADMIN_SHOW_ROWS_PRIV_H
#define PGWEIR_ADMIN_SHOW_ROWS_PRIV_H

#include "pgweir/base/buf.h"

enum value_type {
	VALUE_TEXT, /* const char *; NULL = SQL's NULL */
	VALUE_VOID, /* the same: PostgreSQL's void */
	VALUE_INT4, /* int64_t, as all numbers; what does not fit is cut */
	VALUE_INT8,
	VALUE_NUMERIC,
	VALUE_BYTEA, /* struct bytes; .at NULL = SQL's NULL */
	VALUE_TYPES
};

struct column {
	const char *name;
	enum value_type type;
	size_t at; /* where its value lies in the row */
	const char *help;
};

/* Columns of a row's struct whose fields are called as the columns are. */
#define COLUMN(row, type, field, help)                   \
	{                                                \
#field, type, offsetof(row, field), help \
	}

/* Most columns of a SHOW: their formats are bits of one number. */
#define COLUMNS_MAX 32

struct columns {
	const struct column *at;
	size_t count;
};

#define COLUMNS(table) ((struct columns){ (table), sizeof(table) / sizeof((table)[0]) })

/* "text", "int4", ... */
const char *rows_type_name(enum value_type type);

/* RowDescription. Bit n of `binary`: column n is sent in binary. */
void rows_describe(struct buf *out, struct columns columns, uint32_t binary);

/* DataRow. */
void rows_add(struct buf *out, struct columns columns, uint32_t binary, const void *row);

#endif
