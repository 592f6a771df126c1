/* SPDX-License-Identifier: ISC */
/*
 * Single values as people write them: numbers, switches, durations, sizes,
 * lists. Each function fills *err with the reason only ("..." is not a whole
 * number); its caller says where.
 */
#ifndef PGWEIR_CONFIG_VALUE_PRIV_H
#define PGWEIR_CONFIG_VALUE_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/config/config.h"

/* The longest duration: now and it together still fit. */
#define VALUE_TIME_MAX (INT64_MAX / 4)

/* base 0 knows 0x10 and 010 as C does; 10 does not. */
bool value_int(const char *text, int base, int64_t *value, struct err *err);

bool value_bool(const char *text, bool *value, struct err *err);

/*
 * `5`, `0.25`, `500ms`, `2 min`: a bare number counts `unit`. May be negative.
 * base 0: a bare whole number may be written as for value_int().
 */
bool value_time(const char *text, usec_t unit, int base, usec_t *value, struct err *err);

/* `4096`, `64kB`, `1 MB`. May be negative. */
bool value_bytes(const char *text, int64_t *value, struct err *err);

/* The place of `text` in `words` (up to NULL), in any case; -1: not one of them. */
int value_word(const char *text, const char *const *words);

/* The word that was probably meant, nearest or the only one that begins so; NULL: none. */
const char *value_near_word(const char *text, const char *const *words);

/* The words of enum pool_mode; NULL at POOL_MODE_INHERIT. */
extern const char *const value_pool_modes[];

/* The words of enum load_balance_hosts. */
extern const char *const value_load_balances[];

/* Splits at commas, and at blanks if so asked. The caller frees; {0} on failure. */
bool value_list(const char *text, bool splits_at_blanks, struct config_list *list, struct err *err);
void value_list_free(struct config_list *list);

/*
 * A value in quotes, with a comment behind it or not, for kinds whose values
 * never contain quotes: takes the quotes and the comment off, in place. What
 * does not begin with a quote is left alone.
 */
bool value_unquote(char **text, struct err *err);

/* `90s`, `1500ms`: exact, in the largest unit that is a whole number. */
void value_time_text(usec_t value, char *out, size_t size);

#endif
