/* SPDX-License-Identifier: ISC */
/*
 * Gates: what listeners say of their clients.
 */
#include "pgweir/client/gate.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

struct gate *gate_get(struct gate_table *table, const char *name, struct err *err)
{
	struct gate *gate = gate_find(table, name);

	if (gate)
		return gate;
	if (table->count == GATES_MAX) {
		err_set(err, ERR_LIMIT, "more than %d listeners since the start", GATES_MAX);
		return NULL;
	}
	gate = err_calloc(sizeof(*gate), "out of memory", err);
	if (!gate)
		return NULL;
	table->at[++table->count] = gate;
	gate->number = (uint8_t)table->count;
	text_copy(gate->name, sizeof(gate->name), name);
	return gate;
}

struct gate *gate_find(const struct gate_table *table, const char *name)
{
	for (unsigned int number = 1; number <= table->count; number++) {
		if (strcmp(table->at[number]->name, name) == 0)
			return table->at[number];
	}
	return NULL;
}

void gate_rules_done(struct gate_rules *rules)
{
	config_unref(&rules->config);
	hba_release(&rules->hba);
	tls_context_unref(&rules->tls);
	rules->entry = NULL;
}

void gates_done(struct gate_table *table)
{
	for (; table->count; table->count--) {
		gate_rules_done(&table->at[table->count]->rules);
		free(table->at[table->count]);
	}
	gate_rules_done(&table->main.rules);
}

bool gate_admit(struct gate *gate)
{
	const struct config_listener *entry = gate->rules.entry;
	unsigned int most = entry ? (unsigned int)entry->max_client_conn : 0;

	if (atomic_fetch_add(&gate->client_count, 1) < most || most == 0)
		return true;
	atomic_fetch_sub(&gate->client_count, 1);
	atomic_fetch_add(&gate->refused_count, 1);
	return false;
}
