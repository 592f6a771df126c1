/* SPDX-License-Identifier: ISC */
/*
 * All clients.
 */
#include "pgweir/client/clients.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "pgweir/base/container_of.h"
#include "pgweir/client/lanes.h"
#include "pgweir/config/entries.h"
#include "pgweir/net/stream.h"
#include "pgweir/pgwire/message.h"

#include "client_priv.h"
#include "login/login_priv.h"
#include "relay/relay_priv.h"
#include "session/session_priv.h"
#include "statements/statements_priv.h"

/*
 * ---- states ----
 *
 * The functions of each client state: the only table that connects the core with login, relay and
 * statements. First, the client as its pool sees it.
 */

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

static bool needs_no_server(const struct borrower *borrower)
{
	const struct client *client = client_of_borrower(borrower);

	return causal_needs_no_server(client) || session_needs_no_server(client);
}

static void on_lost(struct borrower *borrower, const struct err *err, bool got_fatal)
{
	struct client *client = client_of(borrower);

	if (client->state == CLIENT_NEWCOMER && !client->replication)
		lose_trial(client, err);
	else if (client->state == CLIENT_CATCHING_UP)
		causal_lost(client);
	else if (got_fatal)
		client_leave(client, err);
	else if (needs_no_server(borrower))
		relay_go_on_without(client);
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

static void tell_group(const struct borrower *borrower, struct fair_who *who, struct buf *name)
{
	const struct client *client = client_of_borrower(borrower);
	const char *application = params_find(client->params, "application_name");
	const struct config_user *user = client->role->entry;
	char buffer[ADDRESS_TEXT_SIZE];

	if (user)
		who->priority = user->priority;
	switch (borrower->pool->fair_by) {
	case FAIR_BY_NONE:
		return;
	case FAIR_BY_USER:
		buf_add_text(name, client_user(client));
		if (user)
			who->weight = (unsigned int)user->weight;
		return;
	case FAIR_BY_APPLICATION:
		buf_add_text(name, application ? application : "");
		return;
	case FAIR_BY_ADDRESS:
		buf_add_text(name, address_format_host(&client->peer, buffer, sizeof(buffer)));
		return;
	}
}

static const struct params *wanted_params(const struct borrower *borrower)
{
	return client_of_borrower(borrower)->params;
}

static uint64_t client_id_of(const struct borrower *borrower)
{
	return client_of_borrower(borrower)->id;
}

static void on_deallocated(struct borrower *borrower)
{
	names_forget(client_of(borrower));
	session_deallocated(client_of(borrower));
}

static void rearm_active(struct client *client)
{
	place_rearm(client);
	track_rearm(client);
}

static void on_preparing_flushed(struct client *client) { server_read_on(client->borrower.server); }

/* In CLIENT_LINGERING. */
static bool drop_input(struct client *client, struct bytes in)
{
	return stream_keep(&client->stream, bytes_skip(in, in.count));
}

static void finish(struct client *client) { stream_finish(&client->stream); }

static const struct borrower_ops client_borrower_ops = {
	.on_lent = on_lent,
	.on_refused = relay_refused,
	.on_welcome = on_welcome,
	.on_place = place_given,
	.on_bytes = relay_bytes,
	.on_ready = relay_ready,
	.on_deallocated = on_deallocated,
	.on_retry = relay_retry,
	.on_call = track_call,
	.on_answer = relay_answer,
	.takes_notification = listening_takes,
	.takes_parameter = resets_take_report,
	.before_ready = resets_tell,
	.holds_ready = listening_holds,
	.on_tag = listening_see_tag,
	.on_writable = relay_writable,
	.needs_no_server = needs_no_server,
	.on_lost = on_lost,
	.on_unrun = on_unrun,
	.wants_writer = resend_wants_writer,
	.explains_refusal = standby_explains,
	.on_expelled = relay_refused,
	.params = wanted_params,
	.suits = causal_suits,
	.tell_who = tell_who,
	.tell_group = tell_group,
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
	names_free(client); /* the ledger has reverted what was open */
	unnamed_free(client);
	session_free(client);
	audit_leave(client);
	listening_free(client);
	late_begin_forget(client);
	slow_forget(client);
	track_free(client);
	causal_free(client);
}

static const struct client_ops client_states = {
	.on_secured = startup_secured,
	.free_login = login_free,
	.free_work = free_work,
	.on_settled = relay_settled,
	.refuse_place = relay_refuse_place,
	.spare_unnamed = statements_spare_unnamed,
	.states = {
		[CLIENT_STARTUP] = { .on_input = startup_input, .rearm = client_login_begin },
		[CLIENT_AUTHENTICATION] = { .on_input = authentication_input,
		                            .rearm = client_login_begin },
		[CLIENT_LOOKING] = { .rearm = client_login_begin },
		[CLIENT_NEWCOMER] = { .rearm = client_wait_rearm },
		[CLIENT_IDLE] = { .on_input = relay_input,
		                  .on_flushed = relay_idle_flushed,
		                  .rearm = client_idle_rearm },
		[CLIENT_LATE] = { .on_input = relay_input,
		                  .on_flushed = client_read_on,
		                  .rearm = late_begin_arm },
		[CLIENT_WAITING] = { .on_cancel = relay_cancel_waiting, .rearm = client_wait_rearm },
		[CLIENT_CATCHING_UP] = { .on_flushed = on_preparing_flushed },
		[CLIENT_PREPARING] = { .on_flushed = on_preparing_flushed },
		[CLIENT_ACTIVE] = { .on_input = relay_input,
		                    .on_cancel = place_cancel,
		                    .on_flushed = relay_flushed,
		                    .rearm = rearm_active },
		[CLIENT_SETTLING] = { .on_flushed = on_preparing_flushed },
		[CLIENT_CANCELING] = { .on_end = cancel_request_end },
		[CLIENT_CONSOLE] = { .on_input = console_input,
		                     .on_flushed = console_flushed,
		                     .on_cancel = console_cancel,
		                     .on_end = console_end },
		[CLIENT_LINGERING] = { .on_input = drop_input, .on_flushed = finish },
	},
};

/* ---- all clients ---- */

/* Thousands of clients are idle. What few of them have belongs behind a pointer. */
_Static_assert(sizeof(struct client) <= 584, "a client has grown");

static void tell_client(const struct logger *logger, struct log_who *who)
{
	const struct client *client = container_of(logger, struct client, log);

	who->kind = "client";
	who->pointer = client;
	who->id = client->id;
	who->database = client_database(client);
	who->user = client_user(client);
	address_add(&client->peer, &who->address);
	if (who->is_json)
		who->application_name = params_find(client->params, "application_name");
}

static void free_closed(struct task *task)
{
	struct clients *clients = container_of(task, struct clients, free_task);
	struct client *client;

	while ((client = TAILQ_FIRST(&clients->closed))) {
		TAILQ_REMOVE(&clients->closed, client, node);
		clients->state_counts[CLIENT_CLOSED]--;
		params_release(clients->pools->shared.params, &client->params);
		params_release(clients->pools->shared.params, &client->startup);
		slab_put(&clients->slab, client);
	}
}

struct clients *clients_new(struct clients_shared *shared, unsigned int loop_number,
                            struct pools *pools, const struct config *config, struct users *users,
                            struct err *err)
{
	struct clients *clients = err_calloc(sizeof(*clients), "out of memory", err);
	bool has_keys;

	if (!clients)
		return NULL;
	clients->shared = shared;
	clients->pools = pools;
	clients->loop = pools->shared.loop;
	clients->ops = &client_states;
	clients->free_task.run = free_closed;
	slab_init(&clients->slab, "client_cache", sizeof(struct client));
	slab_init(&clients->late_slab, "late_begin_cache", sizeof(struct late_begin));
	has_keys = cancel_keys_init(&clients->keys);
	clients->keys.loop_number = loop_number;
	clients->keys.shared = shared->keys.loop_count > 1 ? &shared->keys : NULL;
	audit_init(&clients->audit);
	applications_init(&clients->applications, &shared->digest_key);
	TAILQ_INIT(&clients->list);
	TAILQ_INIT(&clients->closed);
	TAILQ_INIT(&clients->delayed.list);
	TAILQ_INIT(&clients->unauthenticated);
	TAILQ_INIT(&clients->walks);
	TAILQ_INIT(&clients->lookups.list);
	clients_configure(clients, config, users);
	if (!has_keys) {
		err_set(err, ERR_MEMORY, "out of memory");
		clients_free(&clients);
	}
	return clients;
}

void clients_free(struct clients **clientsp)
{
	struct clients *clients = *clientsp;
	struct client *client;
	struct buf words = { 0 };
	struct err err;

	if (!clients)
		return;
	*clientsp = NULL;
	clients_visit_stop(clients);
	err_close(&err, CLOSE_POOLER_SHUTDOWN);
	message_err(&words, "FATAL", &err);
	while ((client = TAILQ_FIRST(&clients->list)))
		client_dismiss(client, buf_bytes(&words), CLOSE_POOLER_SHUTDOWN);
	buf_free(&words);
	auth_lookups_free(clients);
	loop_undefer(clients->loop, &clients->free_task);
	free_closed(&clients->free_task);
	audit_done(&clients->audit);
	slab_done(&clients->slab);
	calls_done(&clients->calls);
	applications_done(&clients->applications);
	slab_done(&clients->late_slab);
	cancel_keys_done(&clients->keys);
	sparse_sum_free(&clients->closes.of_none);
	config_unref(&clients->config);
	users_release(&clients->users);
	free(clients);
}

static unsigned int features_of(const struct config *config)
{
	bool is_tracked = config->track_statements ||
	                  config_entry_next(config, ENTRY_STATEMENT, NULL) ||
	                  config_entry_count(config, ENTRY_APPLICATION);
	const struct config_database *entry = NULL;
	bool has_hosts = false;

	/* then a batch may be sent again */
	while ((entry = config_database_each(config, entry)))
		has_hosts |= config_load_balance_hosts(entry) != NULL;
	return (config->disable_pqexec ? CLIENT_REFUSES_QUERY : 0) |
	       (config->log_min_duration ? CLIENT_NOTES_SLOW : 0) |
	       (config->max_prepared_statements > 0 ? CLIENT_FOLLOWS_STATEMENTS : 0) |
	       (config->session_audit ? CLIENT_IS_AUDITED : 0) |
	       (is_tracked ? CLIENT_IS_TRACKED : 0) | (has_hosts ? CLIENT_HAS_HOSTS : 0);
}

void clients_configure(struct clients *clients, const struct config *config, struct users *users)
{
	const struct config *old = clients->config;
	struct users *old_users = clients->users;
	struct logger log = { clients->pools->shared.log, NULL };

	if (config->session_audit && !(clients->features & CLIENT_IS_AUDITED))
		audit_restart(&clients->audit);
	clients->config = config_ref(config);
	/* servers may have openings: later statements must still be noticed */
	clients->features = features_of(config) | (clients->features & CLIENT_HAS_HOSTS);
	if (!calls_resize(&clients->calls, (uint32_t)config->track_statements))
		log_warning(&log, "out of memory: track_statements keeps its value");
	clients->users = users_hold(users);
	clients->generation++;
	auth_lookups_configure(clients);
	clients_visit(clients);
	config_unref(&old);
	users_release(&old_users);
}

/*
 * Inserts the client in the order of ids, and counts it. Mostly it is the last one. A take-over
 * brings those of one loop after those of another: then the next is behind the one before it.
 */
static void file_by_id(struct clients *clients, struct client *client)
{
	struct client *before = TAILQ_LAST(&clients->list, client_list), *next;

	clients->count++;
	clients->state_counts[CLIENT_STARTUP]++;
	if (before && before->id > client->id && clients->filed)
		before = clients->filed;
	while (before && before->id > client->id)
		before = TAILQ_PREV(before, client_list, node);
	while (before && (next = TAILQ_NEXT(before, node)) && next->id < client->id)
		before = next;
	clients->filed = client;
	if (before)
		TAILQ_INSERT_AFTER(&clients->list, before, client, node);
	else
		TAILQ_INSERT_HEAD(&clients->list, client, node);
}

/* An incomplete client. */
static struct client *make(struct clients *clients, const struct address *peer,
                           const struct gate *gate, uint64_t id)
{
	struct client *client = slab_take(&clients->slab);

	if (!client)
		return NULL;
	client->login = calloc(1, sizeof(*client->login));
	if (!client->login) {
		slab_put(&clients->slab, client);
		return NULL;
	}
	client->clients = clients;
	client->log = (struct logger){ clients->pools->shared.log, tell_client };
	client->borrower.ops = &client_borrower_ops;
	client->borrower.gate = gate ? gate->number : 0;
	client->params = client->startup = params_none(clients->pools->shared.params);
	client->peer = *peer;
	client->connected_at = loop_now(clients->loop);
	client->id = id;
	file_by_id(clients, client);
	return client;
}

static void open_stream(struct client *client, int fd)
{
	struct clients *clients = client->clients;

	stream_open(&client->stream, clients->loop, clients->pools->shared.streams, fd,
	            &client_stream_ops);
}

/* The stream of a new client is open: its login begins. */
static void clients_begin_login(struct client *client)
{
	client_login_begin(client);
	unauthenticated_add(client);
	client->stream.is_secret = true; /* until the login is over: a password may arrive */
	if (!stream_want(&client->stream, WANT_INPUT))
		client_close(client, CLOSE_NOT_WATCHED);
}

void clients_accept(struct clients *clients, int fd, const struct address *peer, struct gate *gate,
                    uint64_t id)
{
	struct client *client = make(clients, peer, gate, id);

	if (!client) {
		close(fd);
		return;
	}
	open_stream(client, fd);
	clients_begin_login(client);
	if (client->state == CLIENT_STARTUP && clients->config->tcp_defer_accept > 0 &&
	    !address_is_unix(peer))
		client_stream_ops.on_input(&client->stream); /* its first packet has arrived */
}

struct client *clients_revive(struct clients *clients, int fd, const struct address *peer,
                              const struct gate *gate, uint64_t id)
{
	struct client *client = make(clients, peer, gate, id ? id : pools_next_id(clients->pools));

	if (!client)
		return NULL;
	open_stream(client, fd);
	client->is_admitted = true;
	clients->pools->with.broker->admitted_count++;
	atomic_fetch_add(&client_gate(client)->client_count, 1);
	client_enter(client, CLIENT_AUTHENTICATION);
	client_login_free(client);
	client_enter(client, CLIENT_IDLE);
	return client;
}

struct client *clients_find(struct clients *clients, uint64_t id)
{
	/* Called for an administrator's command, rarely: not worth a table. */
	TAILQ_EACH (client, &clients->list, node) {
		if (client->id == id)
			return client_state_name(client) ? client : NULL;
	}
	return NULL;
}

void clients_kill(struct client *client)
{
	/* A client that sent a CancelRequest never gets a message. */
	if (client->state == CLIENT_CANCELING)
		client_close(client, CLOSE_KILLED);
	else
		client_refuse_for(client, CLOSE_KILLED);
}

/*
 * ---- clients that go to another loop ----
 *
 * Clients that go to another loop before their login.
 *
 *   packet read --> send_elsewhere() --> client_pack() --> [stream | packet | what the login knows]
 *                                    --> client_unpack() --> packet read
 *
 * Hard here: the packet is in the loop's scratch buffer while it is judged. It is kept in the
 * stream first, and the other loop reads it as input that it has just received.
 */

static void parcel_free(struct client_parcel **parcel)
{
	free((*parcel)->shown.certificate_name);
	free(*parcel);
	*parcel = NULL;
}

void client_parcel_end(struct client_parcel **parcel)
{
	stream_parcel_end(&(*parcel)->stream, (struct bytes){ 0 });
	parcel_free(parcel);
}

struct client_parcel *client_pack(struct client *client)
{
	struct client_parcel *parcel = calloc(1, sizeof(*parcel));

	assert(client->state == CLIENT_STARTUP && client->login->unread.count);
	if (!parcel || !stream_keep(&client->stream, client->login->unread)) {
		free(parcel);
		client_close(client, CLOSE_MEMORY);
		return NULL;
	}
	if (!stream_detach(&client->stream, &parcel->stream)) {
		free(parcel);
		client_close(client, CLOSE_FILES_EVICTED);
		return NULL;
	}
	parcel->shown = client->login->shown;
	client->login->shown.certificate_name = NULL;
	parcel->peer = client->peer;
	parcel->gate = client_gate(client);
	parcel->id = client->id;
	parcel->connected_at = client->connected_at;
	client_forget(client);
	return parcel;
}

void client_unpack(struct clients *clients, struct client_parcel **parcelp)
{
	struct client_parcel *parcel = *parcelp;
	struct client *client;

	if (!parcel->connected_at) {
		clients_accept(clients, parcel->stream.fd, &parcel->peer, parcel->gate, parcel->id);
		parcel_free(parcelp);
		return;
	}
	client = make(clients, &parcel->peer, parcel->gate, parcel->id);
	if (!client) {
		client_parcel_end(parcelp);
		return;
	}
	client->connected_at = parcel->connected_at;
	client->login->shown = parcel->shown;
	client->login->shown.has_moved = true;
	parcel->shown.certificate_name = NULL;
	if (!stream_attach(&client->stream, clients->loop, clients->pools->shared.streams,
	                   &parcel->stream, &client_stream_ops)) {
		client_close(client, CLOSE_MEMORY);
		client_parcel_end(parcelp);
		return;
	}
	parcel_free(parcelp);
	clients_begin_login(client);
	if (client->state == CLIENT_STARTUP)
		client_judge_kept(client);
}
