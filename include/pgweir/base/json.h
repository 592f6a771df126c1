/* SPDX-License-Identifier: ISC */
/*
 * Reads JSON that others have sent, without memory of its own: values are parts of the text. Each
 * step takes a time in proportion to the part that it takes, and brackets are at most 32 deep.
 *
 * Escapes are not decoded: who compares texts finds only those that need none.
 */
#ifndef PGWEIR_BASE_JSON_H
#define PGWEIR_BASE_JSON_H

#include "pgweir/base/bytes.h"

enum json_kind {
	JSON_TEXT,
	JSON_OBJECT,
	JSON_ARRAY,
	JSON_WORD /* a number, true, false, null: it is not checked which */
};

/* A value; `text` is without its quotes or brackets. */
struct json {
	enum json_kind kind;
	struct bytes text;
};

/* Takes a value, and the blanks around it. false: there is none, or it has no end. */
bool json_take(struct bytes *rest, struct json *value);

enum json_step { JSON_ONE, JSON_END, JSON_BAD };

/* Takes the next member of an object, or (name NULL) of an array, from what is between brackets. */
enum json_step json_next(struct bytes *group, struct json *name, struct json *value);

/* The first member of this name. false: there is none before the end or what is bad. */
bool json_find(const struct json *object, const char *name, struct json *value);

#endif
