/* SPDX-License-Identifier: ISC */
/*
 * The table of settings: one row each, in the order of their names. Reading the
 * file, SET, SHOW CONFIG, the manual's list and the check of etc/pgbouncer.ini
 * all go by it.
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

/* What a type is called, and whether it has a range. What else depends on it is in field.c. */
struct setting_type_row {
	const char *manual;  /* in pgweir.ini(5) */
	const char *dump;    /* by --dump-settings; TIME: behind it the unit */
	const char *vartype; /* as pg_settings has it; those with units are strings */
	bool is_number;
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

struct setting {
	const char *name;
	enum setting_type type;
	size_t at;                /* offset in struct config */
	const char *initial;      /* the default, as in a file; NULL = unset */
	int64_t min, max;         /* both in the unit of the field (INT, BYTES, TIME) */
	usec_t unit;              /* TIME: what a bare number counts; 0 = seconds, with fractions */
	usec_t step;              /* TIME: the value must be a multiple of it; 0 = any */
	bool is_exact;            /* INT: no other value is near, such as a port's */
	bool splits_at_blanks;    /* LIST: blanks separate names too, not only commas */
	const char *refused;      /* TEXT: the one value that it may not have; NULL = none */
	const char *const *words; /* WORD: the values in their order, up to NULL; LIST: the names
	                             that it may have, each with or without ! in front */
	const char *const *missing; /* WORD: for each of them what pgweir was built without; NULL:
	                               it can be used */
	const char *hidden_with;    /* TEXT: not shown when this is in it: a password is too */
	enum setting_reload reload;
	enum setting_group group;
	const char *since; /* the release that first had it; NULL = the first one */
	const char *help;
};

extern const struct setting settings[];
extern const size_t settings_count;

/* The row of this name; NULL: none. */
const struct setting *setting_find(const char *name);

/* The heading of a group, for the manual. */
const char *setting_group_name(enum setting_group group);

/* All rows in words, group by group: help, kind, unit, default, range, when a change counts. */
void dump_settings(struct buf *out);

/* The same of one. false: *err says that there is no such setting, and what was probably meant. */
bool dump_setting(const char *name, struct buf *out, struct err *err);

/* One row of SHOW CONFIG. The texts are good as long as the row and the snapshot are. */
struct setting_shown {
	const char *name;
	const char *value;   /* NULL = unset */
	const char *initial; /* NULL = unset */
	bool is_changeable;
	char buffer[32];
};

/* Row `index` of SHOW CONFIG, in the order of the names; false behind the last one. */
bool setting_show(const struct config *config, size_t index, struct setting_shown *shown);

#endif
