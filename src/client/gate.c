/* SPDX-License-Identifier: ISC */
/*
 * Gates: what listeners say of their clients.
 */
#include "pgweir/client/gate.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

struct gate *gate_new(struct gate_table *table, const char *name, struct err *err)
{
	struct gate *gate;
	unsigned int number = 1;

	gates_sweep(table);
	while (number <= GATES_MAX && table->at[number])
		number++;
	if (number > GATES_MAX) {
		err_set(err, ERR_LIMIT, "too many listeners that were removed still have clients");
		return NULL;
	}
	gate = calloc(1, sizeof(*gate));
	if (!gate) {
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	gate->number = (uint8_t)number;
	text_copy(gate->name, sizeof(gate->name), name);
	table->at[number] = gate;
	return gate;
}

void gate_rules_done(struct gate_rules *rules)
{
	config_unref(&rules->config);
	hba_release(&rules->hba);
	tls_context_unref(&rules->tls);
	rules->entry = NULL;
}

struct gate *gate_find(const struct gate_table *table, const char *name)
{
	for (unsigned int number = 1; number <= GATES_MAX; number++) {
		struct gate *gate = table->at[number];

		if (gate && !gate->is_closed && strcmp(gate->name, name) == 0)
			return gate;
	}
	return NULL;
}

void gate_close(struct gate_table *table, struct gate **gate)
{
	if (*gate)
		(*gate)->is_closed = true;
	*gate = NULL;
	gates_sweep(table);
}

void gates_sweep(struct gate_table *table)
{
	for (unsigned int number = 1; number <= GATES_MAX; number++) {
		struct gate *gate = table->at[number];

		if (!gate || !gate->is_closed || atomic_load(&gate->member_count))
			continue;
		table->at[number] = NULL;
		gate_rules_done(&gate->rules);
		free(gate);
	}
}

struct gate *gate_join(struct gate *gate)
{
	if (gate)
		atomic_fetch_add(&gate->member_count, 1);
	return gate;
}

void gate_part(struct gate *gate)
{
	if (gate)
		atomic_fetch_sub(&gate->member_count, 1);
}

void gate_set(struct gate *gate, struct gate_rules *rules)
{
	gate_rules_done(&gate->rules);
	gate->rules = *rules;
	*rules = (struct gate_rules){ 0 };
}

bool gate_admit(struct gate *gate)
{
	unsigned int most = (unsigned int)gate->rules.entry->max_client_conn;

	if (atomic_fetch_add(&gate->client_count, 1) < most || most == 0)
		return true;
	atomic_fetch_sub(&gate->client_count, 1);
	atomic_fetch_add(&gate->refused_count, 1);
	return false;
}

void gate_leave(struct gate *gate) { atomic_fetch_sub(&gate->client_count, 1); }
