/* SPDX-License-Identifier: ISC */
/*
 * Rows: tables of columns, and values as the protocol sends them.
 *
 * One row of a SHOW is a struct. A column has the offset of its value in the struct.
 * RowDescription, the rows and the manual are all generated from the columns.
 */
#ifndef PGWEIR_ADMIN_SHOW_ROWS_PRIV_H
#define PGWEIR_ADMIN_SHOW_ROWS_PRIV_H

#include "pgweir/base/buf.h"

enum value_type {
	VALUE_TEXT, /* const char *; NULL = SQL's NULL */
	VALUE_VOID, /* const char *, too; sent as PostgreSQL's type void */
	/* int64_t, as all numbers; cut to the type's range; ROWS_NULL = SQL's NULL */
	VALUE_INT4,
	VALUE_INT8,
	VALUE_NUMERIC,
	VALUE_BYTEA, /* struct bytes; .at NULL = SQL's NULL */
	VALUE_TYPES
};

#define ROWS_NULL INT64_MIN

struct column {
	const char *name;
	enum value_type type;
	size_t at; /* offset of the value in the row's struct */
	const char *help;
};

/* A column that has the name of its field in the row's struct. */
#define COLUMN(row, type, field, help)                   \
	{                                                \
#field, type, offsetof(row, field), help \
	}

/* Maximum number of columns of a SHOW: their formats are bits of a uint32_t. */
#define COLUMNS_MAX 32

struct columns {
	const struct column *at;
	size_t count;
};

#define COLUMNS(table) ((struct columns){ (table), sizeof(table) / sizeof((table)[0]) })

/* PostgreSQL's name of the type: "text", "int4", ... */
const char *rows_type_name(enum value_type type);

/* Adds a RowDescription. Bit n of `binary`: column n is sent in binary. */
void rows_describe(struct buf *out, struct columns columns, uint32_t binary);

/* Adds a DataRow. `row` is the struct that the columns describe. */
void rows_add(struct buf *out, struct columns columns, uint32_t binary, const void *row);

#endif
