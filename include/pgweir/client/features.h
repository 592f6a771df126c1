/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state: one table, of which SHOW AUDIT, SHOW CATALOG, SHOW PINNED, errors and
 * the manual page are made.
 */
#ifndef PGWEIR_CLIENT_FEATURES_H
#define PGWEIR_CLIENT_FEATURES_H

/*
 * What touches a kind of session state, how it is asked for, what becomes of it with session_state
 * = follow, and what ends it. A pin that cannot be asked for lasts.
 */
struct feature {
	unsigned int touch; /* enum sql_touch */
	unsigned int pin;   /* enum session_pin: if it is there and cannot be carried; 0: never */
	unsigned int parts; /* enum question_part */
	char letter;        /* of its names among the facts; 0: they have none */
	const char *why;    /* SHOW PINNED; NULL: no pin */
	const char *held;   /* ahead of its names in SHOW PINNED; NULL: why */
	const char *state;  /* what of it there may be, in the plural: SHOW CATALOG; or NULL */
	const char *used;   /* how statements use it: SHOW AUDIT; NULL: it is not counted */
	const char *fate;   /* what transaction mode does with it */
	const char *end;    /* statements that end it; NULL: none */
	const char *error;  /* its name in an error; NULL: it is never refused */
	const char *way_out;
};

#define FEATURES 15

extern const struct feature session_features[FEATURES];

#endif
