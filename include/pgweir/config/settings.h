/* SPDX-License-Identifier: ISC */
/*
 * The table of settings, sorted by name. It is used to read the file, for SET and SHOW CONFIG,
 * for the list in the manual, and to check etc/pgbouncer.ini.
 */
#ifndef PGWEIR_CONFIG_SETTINGS_H
#define PGWEIR_CONFIG_SETTINGS_H

#include "pgweir/config/config.h"

enum setting_type {
	SETTING_BOOL,  /* bool */
	SETTING_INT,   /* int */
	SETTING_BYTES, /* size_t */
	SETTING_TIME,  /* usec_t */
	SETTING_TEXT,  /* char * */
	SETTING_LIST,  /* struct config_list */
	SETTING_WORD   /* an enum */
};

struct setting;
union field;

struct setting_type_row {
	const char *kind;    /* for people; TIME: followed by the unit */
	const char *vartype; /* name in pg_settings; types with units are strings there */
	bool is_number;      /* it has a range */
	size_t size; /* of the field in bytes; 0: it owns memory, and a value may contain quotes */
	/* For field_put(). note NULL: a number out of range is refused. */
	bool (*put)(union field field, const struct setting *setting, const char *text,
	            struct err *note, struct err *err);
};

extern const struct setting_type_row setting_types[];

enum setting_reload {
	RELOAD_LIVE, /* RELOAD and SET change it */
	RELOAD_BOOT  /* read at start only */
};

enum setting_group {
	GROUP_GENERIC,
	GROUP_AUTH,
	GROUP_LOG,
	GROUP_CONSOLE,
	GROUP_CHECKS,
	GROUP_TIMEOUTS,
	GROUP_TLS,
	GROUP_NETWORK,
	SETTING_GROUPS
};

/* What small numbers mean for an entry of a file. */
enum entry_low {
	LOW_IS_NOTHING,     /* nothing special */
	LOW_MINUS_INHERITS, /* negative = as if the key were not set */
	LOW_ZERO_INHERITS,  /* 0 or negative = as if the key were not set */
	LOW_MINUS_IS_ZERO
};

/* A setting; or a key of the entries of another section. */
struct setting {
	const char *name;
	enum setting_type type;
	size_t at;           /* offset in struct config; in the struct of an entry */
	const char *initial; /* the default, as in a file; NULL = unset */
	int64_t min, max;    /* in the unit of the field (INT, BYTES, TIME) */
	/* TIME: unit of a number without one; 0 = seconds, with fractions */
	usec_t unit;
	usec_t step;             /* TIME: the value must be a multiple of it; 0 = any */
	const char *word;        /* INT: the word for a number outside of the range; NULL = none */
	int word_is;             /* that number */
	const char *auto_is_for; /* INT without a word: the setting that is meant by auto */
	int on;                  /* INT: the value of "on", with "off" for 0; 0 = no such words */
	/* INT: a value out of range is refused, not replaced by the nearest */
	bool is_exact;
	bool splits_at_blanks; /* LIST: blanks separate names too */
	bool may_negate;       /* LIST: names may have ! in front */
	/* TEXT: whether it may be the value; LIST: a name. Else *err says why. NULL = any */
	bool (*judge)(const char *text, struct err *err);
	/* WORD: its values, ends with NULL; an entry without the key has their number. LIST: the
	 * names it may contain */
	const char *const *words;
	/* WORD: for each value the library that pgweir was built without; NULL: available */
	const char *const *missing;
	/* TEXT: if the value contains this, it contains a password and is not shown */
	const char *hidden_with;
	/* ---- only for keys of entries ---- */
	bool is_of_entry;
	size_t length_max;   /* TEXT: bytes; 0 = no limit */
	const char *doubted; /* TEXT: a value that gets a warning; NULL = none */
	const char *doubt;   /* text of the warning */
	enum entry_low low;  /* INT, TIME, BYTES */
	/* ---- only for settings ---- */
	enum setting_reload reload;
	enum setting_group group;
	const char *since; /* first release that has it; NULL = the first release */
	const char *help;
};

extern const struct setting settings[];

/* Returns the row of this name; NULL: none. */
const struct setting *setting_find(const char *name);

/* Describes all settings by group: help, type, unit, default, range, when a change takes effect. */
void dump_settings(struct buf *out);

/* Describes one setting. false: *err says that there is none, and which was probably meant. */
bool dump_setting(const char *name, struct buf *out, struct err *err);

#define SETTING_VALUE_SIZE 32

/*
 * A value as SHOW CONFIG shows it, without passwords; NULL = unset. It is in `buffer` if it has to
 * be built, else it lives as long as the snapshot.
 */
const char *setting_value(const struct config *config, const struct setting *setting,
                          char buffer[SETTING_VALUE_SIZE]);

/* ---- documentation from the tables ---- */

/* A mark is a whole line, without its end. */
struct manual_mark {
	const char *line;
	void (*add)(struct buf *out);
};

/*
 * Copies a text, and replaces each line that is a mark by what its add() adds. Marks of config:
 * @settings@, @database_keys@ and the like are lists for the manual page; @example@, for an ini
 * file, is all settings with their defaults, commented out.
 */
void manual_fill(const struct manual_mark *more, size_t more_count, struct bytes text,
                 struct buf *made);

#endif
