/* SPDX-License-Identifier: ISC */
/*
 * A gate: what a listener says of the clients that come by it: its entry of [listeners], or for the
 * main listener the settings.
 *
 * A gate stays when its listener is gone, as its clients do, and serves a later one of that name.
 * Main makes and changes gates while all lanes are held, so each of them may read them at any time.
 * Clients are many, and know their gate by its number.
 */
#ifndef PGWEIR_CLIENT_GATE_H
#define PGWEIR_CLIENT_GATE_H

#include <stdatomic.h>

#include "pgweir/auth/hba.h"
#include "pgweir/base/log.h"
#include "pgweir/config/entries.h"
#include "pgweir/net/tls.h"

/* What a RELOAD changes. */
struct gate_rules {
	const struct config_listener *entry; /* in `config`; NULL: the main listener */
	/* the settings with the values of the entry; main: NULL, each lane has its own */
	const struct config *config;
	struct hba *hba;         /* NULL unless its auth_type is hba */
	struct tls_context *tls; /* NULL: no TLS */
};

struct gate {
	uint8_t number; /* 0: main */
	struct gate_rules rules;
	char name[CONFIG_DATABASE_NAME_MAX + 1];
	atomic_uint client_count;       /* those that count for max_client_conn */
	_Atomic uint64_t refused_count; /* by max_client_conn */
	struct limit_met full_met;
};

#define GATES_MAX 255

/* All zeros: there is none. */
struct gate_table {
	unsigned int count;
	struct gate *at[GATES_MAX + 1]; /* by its number, from 1: those of entries */
	struct gate main;
};

/* That of a listener of this name, which is made if there is none. NULL: *err has the reason. */
struct gate *gate_get(struct gate_table *table, const char *name, struct err *err);
/* NULL: there is none. */
struct gate *gate_find(const struct gate_table *table, const char *name);

void gates_done(struct gate_table *table);

void gate_rules_done(struct gate_rules *rules);

/* Counts a client. false: there are as many as the max_client_conn of its entry. */
bool gate_admit(struct gate *gate);

#endif
