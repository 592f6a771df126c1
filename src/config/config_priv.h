/* SPDX-License-Identifier: ISC */
/*
 * What the files of this room share. A function that fails fills *err with the reason only ("..."
 * is not a whole number); the caller adds the source position.
 */
#ifndef PGWEIR_CONFIG_CONFIG_PRIV_H
#define PGWEIR_CONFIG_CONFIG_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/err.h"
#include "pgweir/base/refs.h"
#include "pgweir/config/config.h"
#include "pgweir/config/entries.h"
#include "pgweir/config/problems.h"
#include "pgweir/config/settings.h"

/* The longest duration: now + VALUE_TIME_MAX does not overflow. */
#define VALUE_TIME_MAX (INT64_MAX / 4)

/* clang-format off */
#define SETTING_TYPE(owner, field) _Generic(((struct owner *)0)->field, \
	bool: SETTING_BOOL, int: SETTING_INT, usec_t: SETTING_TIME, size_t: SETTING_BYTES, \
	char *: SETTING_TEXT, struct config_list: SETTING_LIST, default: SETTING_WORD)
/* clang-format on */
#define AUTO_SIZE .word = "auto", .word_is = CONFIG_AUTO

/* base 0 accepts 0x10 and 010 as in C; base 10 does not. */
bool value_int(const char *text, int base, int64_t *value, struct err *err);

/* In rows that are sorted by name. NULL: none. */
const struct setting *setting_find_in(const struct setting *rows, size_t count, const char *name);

/* The error for a name that is not there, with the nearest one. what: "unknown key". Returns false.
 */
bool setting_refuse_in(const struct setting *rows, size_t count, const char *what, const char *name,
                       struct err *err);

/* Sets the error for an unknown setting, with the nearest name. Always returns false. */
bool setting_refuse(const char *name, struct err *err);

/*
 * ---- field ----
 *
 * One field of a snapshot or of an entry, selected by its row in a table. owner: the struct that
 * the row has an offset of.
 */

/*
 * Sets the value from text; that of a setting may be in quotes. false: *err is the reason, the
 * field has not changed. With a note, a number out of range is replaced by the nearest valid one,
 * and *note says so, otherwise it is ERR_NONE. A few settings refuse such a number: a port, an id,
 * permissions.
 */
bool field_put(void *owner, const struct setting *setting, const char *text, struct err *note,
               struct err *err);

/* For rows: whether a text, or each name of a list, is one. */
bool field_judges_database(const char *text, struct err *err); /* other than the console */
bool field_judges_function(const char *text, struct err *err);

/* To its default; without one, to what says that it is not set. */
bool field_reset(void *owner, const struct setting *setting, struct err *err);

/* Copies a field. false: no memory, `to` has not changed. */
bool field_copy(struct config *to, const struct config *from, const struct setting *setting);

bool field_equal(const void *a, const void *b, const struct setting *setting);

/* Formats a number as it is usually written for this setting. */
void field_number_text(const struct setting *setting, int64_t value, char *buffer, size_t size);

void field_free(void *owner, const struct setting *setting);

/* A snapshot with all settings at their defaults and no entries. NULL: no memory. */
struct config *config_new(void);

/* ---- entries of one load: filled line by line, then shared by snapshots ---- */

union config_entry {
	struct {
		CONFIG_ENTRY;
	};
	struct config_database database;
	struct config_user user;
	struct config_peer peer;
	struct config_listener listener;
	struct config_application application;
	struct config_statement statement;
};

struct config_entries {
	struct refs refs;                        /* of snapshots */
	union config_entry *tables[ENTRY_KINDS]; /* by name; the peers are sorted by id */
	union config_entry *automatic;           /* the database `*`; NULL = none */
	struct source_files files;               /* that were read */
};

/* Returns entries with one reference; NULL: no memory. */
struct config_entries *entries_new(void);
struct config_entries *entries_ref(struct config_entries *entries);
void entries_unref(struct config_entries **entries); /* accepts NULL, sets NULL */

/*
 * Parses a line of a section but [pgbouncer], whose name and text these are, and replaces an entry
 * of the same name, with a warning unless it may. `text` is modified. The file's name must live as
 * long as the entries.
 */
void entries_add(struct config_entries *entries, enum entry_kind_id kind, struct source_pos pos,
                 const char *name, char *text, bool may_replace, struct problems *problems);

/* NULL: no such entry; the database `*` is none. */
union config_entry *entries_find(const struct config_entries *entries, enum entry_kind_id kind,
                                 const char *name);

/*
 * Whether the values of entries and settings fit together: guarantees and limits, bounds of pool
 * sizes. false: *err says which do not, and *pos is where.
 */
bool entries_judge(const struct config *config, struct source_pos *pos, struct err *err);

/* Sorts the peers by id. Call it when all have been added. */
void peers_sort(struct config_entries *entries);

struct entry_kind {
	const char *what;           /* "database" */
	const char *section;        /* "databases" */
	const struct setting *keys; /* sorted by name */
	size_t key_count;
	int name_max; /* bytes */
};

extern const struct entry_kind entry_kinds[ENTRY_KINDS];

/* Sets all keys of an entry to their defaults; the entry must be zeroed. */
void entry_reset(void *entry, enum entry_kind_id kind);

/* Parses the pairs of a line into the entry. *notes (may be NULL) gets warnings. */
bool entry_read(void *entry, enum entry_kind_id kind, char *text, struct buf *notes,
                struct err *err);

void entry_clear(void *entry, enum entry_kind_id kind);

#endif
