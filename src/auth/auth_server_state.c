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

void auth_server_enter(struct auth_server *auth, enum auth_server_state next)
{
	assert(next_states[auth->state] & TO(next));
	auth->state = next;
}

enum auth_server_result auth_server_refuse(struct auth_server *auth, struct err *err,
                                           enum err_code code, const char *words,
                                           const char *reason)
{
	auth_server_enter(auth, STATE_ENDED);
	text_copy(auth->reason, sizeof(auth->reason), reason);
	err_set(err, code, "%s", words);
	return AUTH_SERVER_REFUSED;
}

enum auth_server_result auth_server_refuse_for(struct auth_server *auth, struct err *err,
                                               enum err_code code, enum close_reason refusal,
                                               const char *reason)
{
	auth_server_refuse(auth, err, code, close_reason_row(refusal)->words, reason);
	err_reason(err, refusal);
	return AUTH_SERVER_REFUSED;
}

enum auth_server_result auth_server_refuse_memory(struct auth_server *auth, struct err *err)
{
	return auth_server_refuse(auth, err, ERR_MEMORY, "out of memory", "out of memory");
}

enum auth_server_result auth_server_accept(struct auth_server *auth)
{
	auth_server_enter(auth, STATE_ENDED);
	return AUTH_SERVER_OK;
}

enum auth_server_result auth_server_derive(struct auth_server *auth, const char *password,
                                           struct bytes salt, unsigned int iterations,
                                           enum derived_keep keep, enum auth_server_state state,
                                           struct err *err)
{
	const char *owner = auth->late_failure ? NULL : auth->user;

	/*
	 * Nothing is cached for an exchange that fails late: each attempt must cost as much as the
	 * first.
	 */
	if (auth->late_failure)
		keep = DERIVED_PRIVATE;
	auth->derived = verifiers_ask(auth->verifiers, owner, password, salt, iterations, keep);
	if (!auth->derived)
		return auth_server_refuse_memory(auth, err);
	if (derived_keys(auth->derived))
		return AUTH_SERVER_OK;
	if (!derived_job(auth->derived, password, &auth->job, auth->on_work, auth->arg))
		return auth_server_refuse_memory(auth, err);
	auth_server_enter(auth, state);
	return AUTH_SERVER_WORK;
}
