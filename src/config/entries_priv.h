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
	atomic_size_t ref_count; /* snapshots */
	struct config_database *databases;
	struct config_database *automatic; /* `*`; NULL = none */
	struct config_user *users;
	struct config_peer *peers;    /* by id: peers.c */
	struct file_name *file_names; /* origin.c */
};

/* One reference, or NULL: no memory. */
struct config_entries *entries_new(void);
struct config_entries *entries_ref(struct config_entries *entries);
void entries_unref(struct config_entries **entries); /* accepts NULL, leaves NULL behind */

/*
 * Takes a line of [databases], [users] or [peers]; an entry of the same name makes way.
 * `text` is written into. false: *err is the reason, with the entry's name. *notes (which may be
 * NULL) gets what deserves a look, without that name.
 */
bool entries_add_database(struct config_entries *entries, const char *name, char *text,
                          struct buf *notes, struct err *err);
bool entries_add_user(struct config_entries *entries, const char *name, char *text,
                      struct buf *notes, struct err *err);
bool peers_add(struct config_entries *entries, const char *name, char *text, struct buf *notes,
               struct err *err);

/*
 * Where the entry of this name stands, to be read and written; NULL: there is none. A file's
 * name is as origins_file_name() has it.
 */
struct source_pos *entries_source_pos_of_database(struct config_entries *entries, const char *name);
struct source_pos *entries_source_pos_of_user(struct config_entries *entries, const char *name);
struct source_pos *peers_source_pos(struct config_entries *entries, const char *name);

/* A copy of the name that lasts as long as the entries; NULL: no memory. */
const char *origins_file_name(struct config_entries *entries, const char *file);
void origins_free_file_names(struct config_entries *entries);

/* Brings the peers into the order of their ids: when all have been added. */
void peers_sort(struct config_entries *entries);

void peers_free(struct config_entries *entries);

/* How a key of an entry understands small numbers. */
enum entry_low {
	LOW_REFUSED,        /* below .min is an error */
	LOW_MINUS_INHERITS, /* negative = as if the key were not there */
	LOW_ZERO_INHERITS,  /* so is 0 */
	LOW_MINUS_IS_ZERO
};

enum entry_type { ENTRY_TEXT, ENTRY_INT, ENTRY_TIME, ENTRY_POOL_MODE, ENTRY_LOAD_BALANCE };

/* A key of [databases], [users] or [peers]: one row each, by name. */
struct entry_key {
	const char *name;
	enum entry_type type;
	size_t at;           /* offset in struct config_database, config_user or config_peer */
	int64_t min, max;    /* INT; max 0 = any */
	size_t length_max;   /* TEXT: bytes; 0 = any */
	bool is_hosts;       /* TEXT: a list of hosts */
	const char *doubted; /* TEXT: the one value of which a note is made; NULL = none */
	const char *doubt;   /* its words */
	enum entry_low low;  /* INT, TIME */
	const char *initial; /* for the manual; NULL = that of the setting or none */
	const char *help;
};

extern const struct entry_key database_keys[];
extern const size_t database_keys_count;
extern const struct entry_key user_keys[];
extern const size_t user_keys_count;
extern const struct entry_key peer_keys[];
extern const size_t peer_keys_count;

/* Gives all keys of an entry their defaults; the entry is all zero. */
void entry_reset(void *entry, const struct entry_key *keys, size_t count);

/* Reads the pairs of a line into the entry. notes: see above. */
bool entry_read(void *entry, const struct entry_key *keys, size_t count, char *text,
                struct buf *notes, struct err *err);

/* Frees the texts of an entry, and wipes them. */
void config_entry_free(void *entry, const struct entry_key *keys, size_t count);

#endif
