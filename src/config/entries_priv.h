/* SPDX-License-Identifier: ISC */
/*
 * The entries of one load: filled line by line, then shared by snapshots.
 */
#ifndef PGWEIR_CONFIG_ENTRIES_PRIV_H
#define PGWEIR_CONFIG_ENTRIES_PRIV_H

#include <stdatomic.h>

#include "pgweir/config/entries.h"
#include "pgweir/config/peers.h"

struct config_entries {
	atomic_size_t ref_count; /* number of snapshots */
	struct config_database *databases;
	struct config_database *automatic; /* the entry `*`; NULL = none */
	struct config_user *users;
	struct config_peer *peers;    /* sorted by id: peers.c */
	struct file_name *file_names; /* origin.c */
};

/* Returns entries with one reference; NULL: no memory. */
struct config_entries *entries_new(void);
struct config_entries *entries_ref(struct config_entries *entries);
void entries_unref(struct config_entries **entries); /* accepts NULL, sets NULL */

/*
 * Parses a line of [databases], [users] or [peers] and replaces an entry of the same name.
 * `text` is modified. false: *err is the reason, with the entry's name. *notes (may be NULL)
 * gets warnings, without the name.
 */
bool entries_add_database(struct config_entries *entries, const char *name, char *text,
                          struct buf *notes, struct err *err);
bool entries_add_user(struct config_entries *entries, const char *name, char *text,
                      struct buf *notes, struct err *err);
bool peers_add(struct config_entries *entries, const char *name, char *text, struct buf *notes,
               struct err *err);

/*
 * Returns the source position of the entry of this name, for reading and writing. NULL: no such
 * entry. The file's name must be one of origins_file_name().
 */
struct source_pos *entries_source_pos_of_database(struct config_entries *entries, const char *name);
struct source_pos *entries_source_pos_of_user(struct config_entries *entries, const char *name);
struct source_pos *peers_source_pos(struct config_entries *entries, const char *name);

/* Returns a copy of the name that lives as long as the entries; NULL: no memory. */
const char *origins_file_name(struct config_entries *entries, const char *file);
void origins_free_file_names(struct config_entries *entries);

/* Sorts the peers by id. Call it when all have been added. */
void peers_sort(struct config_entries *entries);

/* Frees all peers. */
void peers_free(struct config_entries *entries);

/* How a key of an entry treats small numbers. */
enum entry_low {
	LOW_REFUSED,        /* a number below .min is an error */
	LOW_MINUS_INHERITS, /* negative = as if the key were not set */
	LOW_ZERO_INHERITS,  /* 0 or negative = as if the key were not set */
	LOW_MINUS_IS_ZERO
};

enum entry_type { ENTRY_TEXT, ENTRY_INT, ENTRY_TIME, ENTRY_BYTES, ENTRY_WORD, ENTRY_FUNCTIONS };

/* A key of [databases], [users] or [peers]. The tables are sorted by name. */
struct entry_key {
	const char *name;
	enum entry_type type;
	size_t at;                /* offset in struct config_database, config_user or config_peer */
	int64_t min, max;         /* INT; max 0 = no limit */
	size_t length_max;        /* TEXT: bytes; 0 = no limit */
	bool is_hosts;            /* TEXT: a list of host names */
	const char *doubted;      /* TEXT: a value that gets a warning; NULL = none */
	const char *doubt;        /* text of the warning */
	enum entry_low low;       /* INT, TIME */
	const char *const *words; /* WORD: its values, ends with NULL */
	unsigned int unset;       /* WORD: the value of an entry without the key */
	const char *initial;      /* default in the manual; NULL = that of the setting, or none */
	const char *help;
};

extern const struct entry_key database_keys[];
extern const size_t database_keys_count;
extern const struct entry_key user_keys[];
extern const size_t user_keys_count;
extern const struct entry_key peer_keys[];
extern const size_t peer_keys_count;

/* Sets all keys of an entry to their defaults; the entry must be zeroed. */
void entry_reset(void *entry, const struct entry_key *keys, size_t count);

/* Parses the pairs of a line into the entry. notes: as for entries_add_database(). */
bool entry_read(void *entry, const struct entry_key *keys, size_t count, char *text,
                struct buf *notes, struct err *err);

/* Wipes and frees the texts of an entry. */
void config_entry_free(void *entry, const struct entry_key *keys, size_t count);

#endif
