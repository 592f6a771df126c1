/* SPDX-License-Identifier: ISC */
/*
 * Parses single values: numbers, booleans, durations, sizes, lists. Each function fills *err
 * with the reason only ("..." is not a whole number); the caller adds the source position.
 */
#ifndef PGWEIR_CONFIG_VALUE_PRIV_H
#define PGWEIR_CONFIG_VALUE_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/config/config.h"

/* The longest duration: now + VALUE_TIME_MAX does not overflow. */
#define VALUE_TIME_MAX (INT64_MAX / 4)

/* base 0 accepts 0x10 and 010 as in C; base 10 does not. */
bool value_int(const char *text, int base, int64_t *value, struct err *err);

bool value_bool(const char *text, bool *value, struct err *err);

/*
 * `5`, `0.25`, `500ms`, `2 min`: a number without a unit counts `unit`. May be negative. base
 * 0: a whole number without a unit may be written as for value_int().
 */
bool value_time(const char *text, usec_t unit, int base, usec_t *value, struct err *err);

/* `4096`, `64kB`, `1 MB`. May be negative. */
bool value_bytes(const char *text, int64_t *value, struct err *err);

/* Returns the index of `text` in `words` (which ends with NULL), ignoring case; -1: not found. */
int value_word(const char *text, const char *const *words);

/*
 * Returns the word that was probably meant: the nearest, or the only one that begins with
 * `text`. NULL: none.
 */
const char *value_near_word(const char *text, const char *const *words);

/* Refuses `text`: the error has the words, and the one that was probably meant. Returns false. */
bool value_refuse_word(const char *text, const char *const *words, struct err *err);

/* The words of enum pool_mode; NULL at POOL_MODE_INHERIT. */
extern const char *const value_pool_modes[];

/* The words of enum session_state_mode; NULL at SESSION_STATE_INHERIT. */
extern const char *const value_session_states[];

/* The words of enum session_isolation; NULL at SESSION_ISOLATION_INHERIT. */
extern const char *const value_session_isolations[];

/* The words of enum causal_reads; NULL at CAUSAL_READS_INHERIT. */
extern const char *const value_causal_reads[];

/* The words of enum route_reads; NULL at ROUTE_READS_INHERIT. */
extern const char *const value_route_reads[];

/* The words of enum load_balance_hosts. */
extern const char *const value_load_balances[];

/* The words of enum target_session_attrs. */
extern const char *const value_targets[];

/* Splits a list at commas, and at blanks if requested. The caller frees it; {0} on failure. */
bool value_list(const char *text, bool splits_at_blanks, struct config_list *list, struct err *err);
void value_list_free(struct config_list *list);

/* Whether each name of the list can be that of a function. */
bool value_functions(const struct config_list *list, struct err *err);

/*
 * Removes the quotes of a quoted value, and a comment after it, in place: for types whose
 * values never contain quotes. A value that does not begin with a quote is not changed.
 */
bool value_unquote(char **text, struct err *err);

/* Formats a duration exactly, in the largest unit without a fraction: `90s`, `1500ms`. */
void value_time_text(usec_t value, char *out, size_t size);

#endif
