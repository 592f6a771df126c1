/* SPDX-License-Identifier: ISC */
/*
 * The kinds of session state.
 */
#ifndef PGWEIR_CLIENT_SESSION_FEATURES_PRIV_H
#define PGWEIR_CLIENT_SESSION_FEATURES_PRIV_H

#include "session_priv.h"

/* A kind of session state: which pin it is, how it is asked for, how to do without it. */
struct feature {
	unsigned int touch; /* enum sql_touch */
	unsigned int pin;   /* enum session_pin; 0: carried */
	unsigned int parts; /* enum question_part */
	const char *name;
	const char *way_out;
};

/* The first one that is touched and has a name. NULL: there is none. */
const struct feature *features_first(unsigned int touches);

/* Which parts of the question concern what was touched, or one of these pins. */
unsigned int features_parts(unsigned int touches, unsigned int pins);

/* The pins about which an answer with these parts says nothing. */
unsigned int features_unasked(unsigned int parts);

/* Refuse it with *err, in the same words as in the log. They return false. */
bool features_refuse(const struct client *client, const struct feature *feature, struct err *err);
bool features_refuse_pin(const struct client *client, const struct feature *feature,
                         struct err *err);

#endif
