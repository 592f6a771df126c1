/* SPDX-License-Identifier: ISC */
/*
 * What both processes exchange before a hand-over: the version, and the first record of the
 * old process.
 *
 * The version is a hash of the tables of all records, so it changes with them by itself. If
 * a release had the same hash, the version has the short name that this release uses for
 * it.
 *
 * Releases before 0.3.0 know no session state. Their records are ours without the tables of session
 * state: the plain format. We read it, and write it to them: then clients that have session state
 * stay in the old process.
 */
#ifndef PGWEIR_MAIN_HANDOVER_VERSION_H
#define PGWEIR_MAIN_HANDOVER_VERSION_H

#include "pgweir/base/record.h"

#define HANDOVER_VERSION_SIZE 24

/*
 * The version of this program, as in the TAKEOVER command: "3", or "r" and the hash in hex
 * digits.
 */
void handover_version(char *out, size_t size);

/* Whether `word`, the argument of TAKEOVER, is our version, by either name. */
bool handover_version_is(const char *word);

/* The version of the plain format: "3". */
const char *handover_version_plain(void);

/* HELLO: describes the old process. */
struct hello_record {
	uint64_t pid;
	char version[128]; /* VERSION_OWN */
	bool is_given;     /* a service manager opened its listening sockets */
};

extern const struct record_table hello_record_table;

/*
 * CANCEL: a cancel request that the new process got. The descriptor of the message is its
 * connection, which the old process ends when it has dealt with it. In the plain format there is
 * only the key, without a record and a descriptor.
 */
struct cancel_record {
	struct bytes key;
	struct bytes last; /* sent before the connection ends: struct farewell */
};

#define CANCEL_LAST_MAX 512

extern const struct record_table cancel_record_table;

#endif
