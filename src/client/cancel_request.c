/* SPDX-License-Identifier: ISC */
/*
 * A client that sent a CancelRequest for another client. It gets no reply; its connection stays
 * open until the cancel was delivered, so that it can wait for that.
 *
 *   a key of ours --> the client's server      a peer's --> that peer (TTL - 1); by the first loop,
 *                                              so that pool_size of the peer holds for all
 *   a key that peers_dns has sealed --> all instances, or the one whose address it has; they
 *                             do not send it on
 *   a key of another loop --> that loop gets the connection, and begins here again; if it does
 *                             not know the key either, maybe the next loop (cancel_keys.h), and
 *                             in the end the first, which asks the old process of a take-over
 */
#include "client_priv.h"

static void on_end(void *arg)
{
	struct client *client = arg;

	client->cancel = NULL;
	client_close(client, CLOSE_CANCEL_DELIVERED);
}

void cancel_request_end(struct client *client)
{
	if (client->cancel)
		cancel_drop(client->cancel);
	client->cancel = NULL;
}

/*
 * A request that peers have forwarded has a lower TTL than the key of the client. In a key from
 * before this instance had a peer_id the TTL bits are random. So the unchanged key is tried first.
 */
static struct client *find_target(struct clients *clients, struct bytes key)
{
	unsigned char own[CANCEL_KEY_LONG_SIZE];
	struct client *target;

	if (key.count < CANCEL_KEY_SIZE || key.count > sizeof(own))
		return NULL;
	target = cancel_keys_find(&clients->keys, key);
	if (target || !clients->config->peer_id)
		return target;
	memcpy(own, key.at, key.count);
	cancel_key_set_ttl(own, CANCEL_KEY_TTL_MAX);
	return cancel_keys_find(&clients->keys, bytes_of(own, key.count));
}

static bool is_for_peer(const struct clients *clients, struct bytes key)
{
	int own = clients->config->peer_id;

	return own && key.count >= CANCEL_KEY_SIGNED_SIZE && key.count <= FORWARD_KEY_MAX &&
	       cancel_key_peer(key) != own;
}

/*
 * Whether the client goes to another loop, which may know the key, or has the peers. Loops come
 * first: a key from before this instance had a peer_id may seem to be a peer's.
 */
static bool goes_to_loop(struct client *client, struct bytes key)
{
	struct clients *clients = client->clients;
	const struct clients_shared *shared = clients->shared;
	unsigned int own = clients->keys.loop_number, loop;

	if (!shared->send_elsewhere || client->login->shown.is_for_others)
		return false;
	loop = cancel_keys_next_loop(&clients->keys, key, client->login->shown.has_moved);
	if (loop != own)
		return shared->send_elsewhere(client, CLIENT_GOES_TO_CANCEL, loop);
	client->login->shown.is_for_others = true;
	return shared->send_elsewhere(
	    client, is_for_peer(clients, key) ? CLIENT_GOES_TO_PEER : CLIENT_GOES_TO_OLD_PROCESS,
	    0);
}

/* Wipes the key. */
static void send_to_peer(struct client *client, int peer, unsigned char *key, size_t count)
{
	struct err err;

	client_enter(client, CLIENT_CANCELING);
	client->cancel = peer_pool_forward(client->clients->pools, peer, bytes_of(key, count),
	                                   on_end, client, &err);
	explicit_bzero(key, count);
	if (!client->cancel)
		client_close_err(client, &err);
}

/*
 * Asks the instances of peers_dns, this one among them: its own answer is that of the process that
 * it takes over from.
 */
static void ask_peers(struct client *client, struct bytes key)
{
	unsigned char sent[FORWARD_KEY_MAX];

	if (peer_pool_wrap_key(client->clients->pools->with.peers, key, sent))
		send_to_peer(client, PEER_BY_DNS, sent, key.count + PEER_PROOF_SIZE);
	else
		client_close(client, CLOSE_MEMORY);
}

static void forward(struct client *client, struct bytes key)
{
	unsigned char sent[FORWARD_KEY_MAX];
	struct err err;

	if (cancel_key_ttl(key) == 0) {
		err_set(&err, ERR_STATE, "failed cancel request: passed on too often");
		err_reason(&err, CLOSE_CANCEL_FAILED);
		client_close_err(client, &err);
		return;
	}
	memcpy(sent, key.at, key.count);
	cancel_key_set_ttl(sent, cancel_key_ttl(key) - 1);
	send_to_peer(client, cancel_key_peer(key), sent, key.count);
}

/*
 * Describes where a request came from. `client`: sent the request; NULL: another process of ours.
 */
static const char *say_asker(const struct client *client, const struct client *target, char *out,
                             size_t size)
{
	struct strbuf text = strbuf_begin(out, size);

	if (client)
		address_add(&client->peer, &text);
	else
		strbuf_add(&text, "the process that took over");
	strbuf_add(&text, " for client ");
	address_add(&target->peer, &text);
	strbuf_add(&text, " (id ");
	strbuf_add_number(&text, target->id);
	strbuf_add(&text, ")");
	return out;
}

/*
 * Cancels what the target does, without its server if that is possible. NULL: that is done
 * (ERR_NONE), or *err has the reason.
 */
static struct cancel *begin(const struct client *client, struct client *target,
                            void (*on_sent)(void *arg), void *arg, struct err *err)
{
	const struct client_state_ops *ops = &target->clients->ops->states[target->state];
	char buffer[CANCEL_ASKER_SIZE];
	const char *asker = say_asker(client, target, buffer, sizeof(buffer));

	if (target->state == CLIENT_WAITING || target->borrower.awaits_place)
		log_info(&target->log, "cancel request while waiting for a server, asked by %s",
		         asker);
	if (ops->on_cancel && ops->on_cancel(target)) {
		err->code = ERR_NONE;
		return NULL;
	}
	return cancel_start(&target->borrower, asker, on_sent, arg, err);
}

static void cancel(struct client *client, struct client *target)
{
	struct err err;

	client_enter(client, CLIENT_CANCELING);
	client->cancel = begin(client, target, on_end, client, &err);
	if (client->cancel)
		return;
	if (err.code == ERR_NONE)
		client_close(client, CLOSE_CANCEL_DELIVERED);
	else
		client_close_err(client, &err);
}

/*
 * The process that this one takes over from may know the key. Then that one ends the connection,
 * when it has delivered the request.
 */
static void pass_on(struct client *client, struct bytes key)
{
	struct clients *clients = client->clients;
	struct farewell farewell = { .fd = -1 };
	unsigned char sent[FORWARD_KEY_MAX]; /* the key may be in the stream's buffer */
	bool is_passed = false;

	if (clients->shared->on_unknown_cancel_key && key.count <= sizeof(sent)) {
		memcpy(sent, key.at, key.count);
		is_passed = farewell_begin(&client->stream, &farewell) &&
		            clients->shared->on_unknown_cancel_key(
				clients, bytes_of(sent, key.count), &farewell);
		explicit_bzero(sent, sizeof(sent));
	}
	farewell_end(&farewell);
	client_close(client, is_passed ? CLOSE_CANCEL_DELIVERED : CLOSE_CANCEL_FAILED);
}

void cancel_request_begin(struct client *client, struct bytes key)
{
	struct clients *clients = client->clients;
	const struct peers *peers = clients->pools->with.peers;
	bool is_from_peer = peers && peer_pool_unwrap_key(peers, &key);
	struct client *target = find_target(clients, key);

	if (!target && goes_to_loop(client, key))
		return;
	timer_clear(&client->timer);
	stream_want(&client->stream, WANT_NOTHING);
	if (target)
		cancel(client, target);
	else if (is_for_peer(clients, key))
		forward(client, key);
	else if (peers && !is_from_peer && peer_pool_knows_seal(peers, key))
		ask_peers(client, key);
	else
		pass_on(client, key);
}

bool clients_know_key(struct clients *clients, struct bytes key)
{
	return find_target(clients, key);
}

void clients_cancel(struct clients *clients, struct bytes key, struct farewell *farewell)
{
	struct client *target = find_target(clients, key);
	struct logger log = { clients->pools->shared.log, NULL };
	struct cancel *cancel;
	struct err err;

	if (!target) {
		if (!clients->shared->on_unknown_cancel_key ||
		    !clients->shared->on_unknown_cancel_key(clients, key, farewell))
			log_info(&log, "failed cancel request");
	} else if ((cancel = begin(NULL, target, NULL, NULL, &err))) {
		cancel_keep_asker(cancel, farewell);
	} else if (err.code != ERR_NONE) {
		log_info(&target->log, "%s", err.text);
	}
	farewell_end(farewell);
}
