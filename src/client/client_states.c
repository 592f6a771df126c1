/* SPDX-License-Identifier: ISC */
/*
 * The functions of each client state: the only table that connects the core with login, relay and
 * statements.
 */
#include "client_states_priv.h"

#include "login/login_priv.h"
#include "relay/causal_priv.h"
#include "relay/late_begin_priv.h"
#include "relay/relay_priv.h"
#include "relay/track_priv.h"
#include "session/listening_priv.h"
#include "session/place_priv.h"
#include "session/session_priv.h"
#include "statements/statements_priv.h"

static void free_work(struct client *client)
{
	statements_free(client);
	session_free(client);
	audit_leave(client);
	listening_free(client);
	late_begin_forget(client);
	slow_forget(client);
	track_free(client);
	causal_free(client);
}

const struct client_ops client_states = {
	.borrower = &client_borrower_ops,
	.on_secured = tls_secured,
	.free_login = login_free,
	.free_work = free_work,
	.on_settled = relay_settled,
	.spare_unnamed = statements_spare_unnamed,
	.on_closed = drain_gone,
	.states = {
		[CLIENT_STARTUP] = { .on_input = startup_input, .rearm = client_login_begin },
		[CLIENT_AUTHENTICATION] = { .on_input = authentication_input,
		                            .rearm = client_login_begin },
		[CLIENT_LOOKING] = { .rearm = client_login_begin },
		[CLIENT_DERIVING] = { .rearm = client_login_begin },
		[CLIENT_NEWCOMER] = { .rearm = client_newcomer_rearm },
		[CLIENT_IDLE] = { .on_input = relay_input,
		                  .on_flushed = relay_idle_flushed,
		                  .rearm = client_idle_rearm },
		[CLIENT_LATE] = { .on_input = relay_input,
		                  .on_flushed = client_read_on,
		                  .rearm = late_begin_arm },
		[CLIENT_WAITING] = { .on_cancel = relay_cancel_waiting, .rearm = client_wait_rearm },
		[CLIENT_CATCHING_UP] = { .on_flushed = relay_preparing_flushed },
		[CLIENT_PREPARING] = { .on_flushed = relay_preparing_flushed },
		[CLIENT_ACTIVE] = { .on_input = relay_input,
		                    .on_cancel = place_cancel,
		                    .on_flushed = relay_flushed,
		                    .rearm = place_rearm },
		[CLIENT_SETTLING] = { .on_flushed = relay_preparing_flushed },
		[CLIENT_CANCELING] = { .on_end = cancel_request_end },
		[CLIENT_ROUTING] = { .on_end = cancel_request_end_forward },
		[CLIENT_CONSOLE] = { .on_input = console_input,
		                     .on_flushed = console_flushed,
		                     .on_cancel = console_cancel,
		                     .on_end = console_end },
		[CLIENT_LINGERING] = { .on_input = client_drop_input, .on_flushed = client_finish },
	},
};
