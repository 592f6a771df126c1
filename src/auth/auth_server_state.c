/* SPDX-License-Identifier: ISC */
/*
 * The server side of an authentication exchange: its states, and functions that all methods
 * share.
 */
#include "auth_server_priv.h"

#include <assert.h>

#include "pgweir/base/text.h"

#include "pgweir/base/banned.h"

#define TO(state) (1u << (state))

/* TO() of each permitted next state. */
static const unsigned int next_states[STATES] = {
	[STATE_START] = TO(STATE_PASSWORD) | TO(STATE_MD5) | TO(STATE_SASL_FIRST) | TO(STATE_ENDED),
	[STATE_PASSWORD] = TO(STATE_WORK) | TO(STATE_OUTSIDE) | TO(STATE_ENDED),
	[STATE_MD5] = TO(STATE_ENDED),
	[STATE_SASL_FIRST] = TO(STATE_SASL_FINAL) | TO(STATE_ENDED),
	[STATE_SASL_FINAL] = TO(STATE_SASL_WORK) | TO(STATE_ENDED),
	[STATE_WORK] = TO(STATE_ENDED),
	[STATE_SASL_WORK] = TO(STATE_ENDED),
	[STATE_OUTSIDE] = TO(STATE_ENDED),
	[STATE_ENDED] = 0,
};

void auth_server_enter(struct auth_server *entry, enum auth_server_state next)
{
	assert(next_states[entry->state] & TO(next));
	entry->state = next;
}

enum auth_server_result auth_server_refuse(struct auth_server *entry, struct err *err,
                                           enum err_code code, const char *words,
                                           const char *reason)
{
	auth_server_enter(entry, STATE_ENDED);
	text_copy(entry->reason, sizeof(entry->reason), reason);
	err_set(err, code, "%s", words);
	return AUTH_SERVER_REFUSED;
}

enum auth_server_result auth_server_refuse_for(struct auth_server *entry, struct err *err,
                                               enum err_code code, enum close_reason refusal,
                                               const char *reason)
{
	auth_server_refuse(entry, err, code, close_reason_row(refusal)->words, reason);
	err_reason(err, refusal);
	return AUTH_SERVER_REFUSED;
}

enum auth_server_result auth_server_refuse_memory(struct auth_server *entry, struct err *err)
{
	return auth_server_refuse(entry, err, ERR_MEMORY, "out of memory", "out of memory");
}

enum auth_server_result auth_server_accept(struct auth_server *entry)
{
	auth_server_enter(entry, STATE_ENDED);
	return AUTH_SERVER_OK;
}

enum auth_server_result auth_server_derive(struct auth_server *entry, const char *password,
                                           struct bytes salt, unsigned int iterations,
                                           enum derived_keep keep, enum auth_server_state state,
                                           struct err *err)
{
	const char *owner = entry->doom ? NULL : entry->user;

	/*
	 * Nothing is cached for a doomed exchange: each attempt must cost as much as the first.
	 */
	if (entry->doom)
		keep = DERIVED_PRIVATE;
	entry->derived = verifiers_ask(entry->verifiers, owner, password, salt, iterations, keep);
	if (!entry->derived)
		return auth_server_refuse_memory(entry, err);
	if (derived_keys(entry->derived))
		return AUTH_SERVER_OK;
	if (!derived_job(entry->derived, password, &entry->job, entry->on_work, entry->arg))
		return auth_server_refuse_memory(entry, err);
	auth_server_enter(entry, state);
	return AUTH_SERVER_WORK;
}
