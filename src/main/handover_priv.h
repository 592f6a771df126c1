/* SPDX-License-Identifier: ISC */
/*
 * What two processes say to each other before they hand over: by which version, and the first
 * record of the old one.
 *
 * The version is a hash of the tables of all records, so nobody has to count it up. One that a
 * release had also has the short name by which that release asks for it, and is asked for it.
 */
#ifndef PGWEIR_MAIN_HANDOVER_PRIV_H
#define PGWEIR_MAIN_HANDOVER_PRIV_H

#include "pgweir/base/record.h"

#define HANDOVER_VERSION_SIZE 24

/* The version of this program, as TAKEOVER says it: "3", or "r" and the hash in hex digits. */
void handover_version(char *out, size_t size);

/* Whether TAKEOVER has asked for our version, by either name. */
bool handover_version_is(const char *word);

/* HELLO: who the old process is. */
struct hello_record {
	uint64_t pid;
	char version[128]; /* VERSION_OWN */
	bool is_given;     /* its sockets had been opened by a service manager */
};

extern const struct record_table hello_record_table;

#endif
