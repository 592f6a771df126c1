/* SPDX-License-Identifier: ISC */
/*
 * The functions of each client state: the only table that connects the core with login, relay and
 * statements.
 */
#include "pgweir/base/container_of.h"

#include "client_priv.h"
#include "login/login_priv.h"
#include "relay/causal_priv.h"
#include "relay/late_begin_priv.h"
#include "relay/relay_priv.h"
#include "relay/track_priv.h"
#include "session/listening_change_priv.h"
#include "session/session_priv.h"
#include "session/features_priv.h"
#include "statements/statements_priv.h"

/* ---- the client as its pool sees it ---- */

/* After its login, a client's first message may be there already. */
static void go_on(struct client *client)
{
	if (client->state == CLIENT_IDLE ||
	    (client->state == CLIENT_ACTIVE && client->stream.want == WANT_INPUT))
		client_judge_kept(client);
}

static void on_lent(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	if (client->state != CLIENT_NEWCOMER) {
		relay_lent(borrower);
		return;
	}
	if (client->replication)
		welcome_send_dedicated(client);
	else
		welcome_tried(client);
	go_on(client);
}

static void on_refused(struct borrower *borrower, const struct err *err)
{
	client_turn_away(client_of(borrower), err);
}

static void on_welcome(struct borrower *borrower)
{
	struct client *client = client_of(borrower);

	welcome_try(client);
	go_on(client);
}

/* The server that should have tried the client's parameters is gone, or has refused them. */
static void lose_trial(struct client *client, const struct err *err)
{
	welcome_lost(client, err);
	go_on(client);
}

static void on_lost(struct borrower *borrower, const struct err *err, bool got_fatal)
{
	struct client *client = client_of(borrower);

	if (client->state == CLIENT_NEWCOMER && !client->replication)
		lose_trial(client, err);
	else if (client->state == CLIENT_CATCHING_UP)
		causal_lost(client);
	else if (causal_ends_without(client) || session_ends_without(client))
		relay_go_on_without(client);
	else if (got_fatal)
		client_leave(client, err);
	else
		client_fatal(client, err);
}

static void on_unrun(struct borrower *borrower, const struct err *err, const struct replay *unrun)
{
	struct client *client = client_of(borrower);

	if (client->state == CLIENT_NEWCOMER)
		lose_trial(client, err);
	else
		resend_unrun(borrower, err, unrun);
}

static void tell_who(const struct borrower *borrower, struct buf *out)
{
	const struct client *client = client_of_borrower(borrower);
	const char *name = params_find(client->params, "application_name");
	char buffer[ADDRESS_TEXT_SIZE], plain[CLIENT_PLAIN_SIZE];

	buf_printf(out, "%s@", client_plain(client_user(client), plain));
	buf_add_text(out, address_format_host(&client->peer, buffer, sizeof(buffer)));
	if (name && *name)
		buf_printf(out, " \"%s\"", client_plain(name, plain));
	buf_printf(out, " (id %llu)", (unsigned long long)client->id);
}

static const struct params *wanted_params(const struct borrower *borrower)
{
	return client_of_borrower(borrower)->params;
}

static uint64_t client_id_of(const struct borrower *borrower)
{
	return client_of_borrower(borrower)->id;
}

static const struct borrower_ops client_borrower_ops = {
	.on_lent = on_lent,
	.on_refused = on_refused,
	.on_welcome = on_welcome,
	.on_place = place_given,
	.on_bytes = relay_bytes,
	.on_ready = relay_ready,
	.on_deallocated = relay_deallocated,
	.on_retry = relay_retry,
	.on_call = track_call,
	.on_answer = relay_answer,
	.takes_notification = relay_takes_notification,
	.takes_parameter = relay_takes_parameter,
	.before_ready = relay_before_ready,
	.holds_ready = relay_holds_ready,
	.on_writable = relay_writable,
	.on_lost = on_lost,
	.on_unrun = on_unrun,
	.wants_writer = resend_wants_writer,
	.explains_refusal = standby_explains,
	.on_expelled = on_refused,
	.params = wanted_params,
	.suits = causal_suits,
	.tell_who = tell_who,
	.client_id = client_id_of,
};

const struct client *client_of_borrower(const struct borrower *borrower)
{
	return borrower->ops == &client_borrower_ops
	           ? container_of(borrower, struct client, borrower)
	           : NULL;
}

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
	.on_secured = startup_secured,
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
