/* SPDX-License-Identifier: ISC */
/*
 * A gate: what an entry of [listeners] says of the clients that come by that listener. A client of
 * the main listener has none.
 *
 * The gate lives as long as the listener, and as the last of its clients. Main makes, changes and
 * frees gates while all lanes are held, so each of them may read them at any time. Clients are
 * many, and know their gate by its number.
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
	const struct config_listener *entry; /* in `config` */
	const struct config *config;         /* the settings with the values of the entry */
	struct hba *hba;                     /* NULL unless its auth_type is hba */
	struct tls_context *tls;             /* NULL: no TLS */
};

struct gate {
	uint8_t number;
	bool is_closed;           /* its listener is: it is freed with its last client */
	atomic_uint member_count; /* all clients, and those on their way to a lane */
	struct gate_rules rules;
	char name[CONFIG_DATABASE_NAME_MAX + 1];
	atomic_uint client_count;       /* those that count for max_client_conn */
	_Atomic uint64_t refused_count; /* by max_client_conn */
	struct limit_met full_met;
};

#define GATES_MAX 255

/* All zeros: there is none. */
struct gate_table {
	struct gate *at[GATES_MAX + 1]; /* by its number, from 1 */
};

/* NULL: *err has the reason. It has no rules yet. */
struct gate *gate_new(struct gate_table *table, const char *name, struct err *err);

/* That of the open listener of this name. NULL: there is none. */
struct gate *gate_find(const struct gate_table *table, const char *name);

/* The listener is closed. */
void gate_close(struct gate_table *table, struct gate **gate);

/* Frees those that are closed and have no clients any more. */
void gates_sweep(struct gate_table *table);

/* A client of the gate comes, or goes. NULL: it came by the main listener. */
struct gate *gate_join(struct gate *gate);
void gate_part(struct gate *gate);

/* Takes over the rules, and leaves *rules empty. All lanes must be held. */
void gate_set(struct gate *gate, struct gate_rules *rules);
void gate_rules_done(struct gate_rules *rules);

/* Counts a client. false: there are as many as max_client_conn. */
bool gate_admit(struct gate *gate);
void gate_leave(struct gate *gate);

#endif
