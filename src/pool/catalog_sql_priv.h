/* SPDX-License-Identifier: ISC */
/*
 * The texts of the question about a database's catalog: begin; changes; and, for a reading, names.
 *
 * changes: one row. names: rows of four columns: kind, name, letters of what it may touch, "". Of
 * kind "parameter": a name that a body may set. "sequences": how they are used, or would be. "any
 * text": texts need not show a name; its name is
 * "*" or the reason. "event trigger": definitions.
 */
#ifndef PGWEIR_POOL_CATALOG_SQL_PRIV_H
#define PGWEIR_POOL_CATALOG_SQL_PRIV_H

extern const char catalog_sql_begin[], catalog_sql_changes[], catalog_sql_names[];

#endif
