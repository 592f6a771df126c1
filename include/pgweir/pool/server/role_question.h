/* SPDX-License-Identifier: ISC */
/*
 * The role question: one query that asks a host whether it is primary or a standby, and how far it
 * is. It works for any user, on a primary and on a standby.
 *
 * No socket and no clock.
 */
#ifndef PGWEIR_POOL_SERVER_ROLE_QUESTION_H
#define PGWEIR_POOL_SERVER_ROLE_QUESTION_H

#include "pgweir/base/bytes.h"
#include "pgweir/pool/server/roster.h"

/* All that PostgreSQL 10 and later can say; and what older ones, and strict ones, say too. */
#define ROLE_QUESTION_COLUMNS 7
#define ROLE_QUESTION_SHORT_COLUMNS 2

const char *role_question_text(bool is_short);

/* Reads the body of the DataRow. false: it is not an answer. report->is_full: not a short one. */
bool role_question_answer(struct bytes body, struct host_report *report);

/* A time in seconds as PostgreSQL writes a double, in microseconds. Negative ones are 0. */
bool role_question_seconds(struct bytes text, uint64_t *value);

#endif
