/* SPDX-License-Identifier: ISC */
/*
 * Clients that go to another loop before their login.
 *
 *   packet read --> send_elsewhere() --> client_pack() --> [stream | packet | what the login knows]
 *                                    --> client_unpack() --> packet read
 *
 * Hard here: the packet is in the loop's scratch buffer while it is judged. It is kept in the
 * stream first, and the other loop reads it as input that it has just received.
 */
#include "pgweir/client/lanes.h"

#include <assert.h>
#include <stdlib.h>

#include "pgweir/net/stream_parcel.h"

#include "login/login_priv.h"

struct client_parcel {
	struct stream_parcel stream;
	struct address peer;
	uint64_t id;
	usec_t connected_at;
	bool was_tls_answered, has_certificate, is_proxy_header_done, was_gss_refused;
	char *certificate_name;
};

static void parcel_free(struct client_parcel **parcel)
{
	free((*parcel)->certificate_name);
	free(*parcel);
	*parcel = NULL;
}

void client_parcel_end(struct client_parcel **parcel)
{
	stream_parcel_end(&(*parcel)->stream, (struct bytes){ 0 });
	parcel_free(parcel);
}

static void fill(struct client_parcel *parcel, struct client *client)
{
	struct client_login *login = client->login;

	parcel->peer = client->peer;
	parcel->id = client->id;
	parcel->connected_at = client->connected_at;
	parcel->was_tls_answered = login->was_tls_answered;
	parcel->has_certificate = login->has_certificate;
	parcel->is_proxy_header_done = login->is_proxy_header_done;
	parcel->was_gss_refused = login->was_gss_refused;
	parcel->certificate_name = login->certificate_name;
	login->certificate_name = NULL;
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
	fill(parcel, client);
	client_forget(client);
	return parcel;
}

static void restore(struct client *client, struct client_parcel *parcel)
{
	struct client_login *login = client->login;

	login->was_tls_answered = parcel->was_tls_answered;
	login->has_certificate = parcel->has_certificate;
	login->is_proxy_header_done = parcel->is_proxy_header_done;
	login->was_gss_refused = parcel->was_gss_refused;
	login->certificate_name = parcel->certificate_name;
	login->has_moved = true;
	parcel->certificate_name = NULL;
}

void client_unpack(struct clients *clients, struct client_parcel **parcelp)
{
	struct client_parcel *parcel = *parcelp;
	const struct clients_with *with = &clients->with;
	struct client *client =
	    clients_welcome(clients, &parcel->peer, parcel->id, parcel->connected_at);

	if (!client) {
		client_parcel_end(parcelp);
		return;
	}
	restore(client, parcel);
	if (!stream_attach(&client->stream, with->loop, with->streams, &parcel->stream,
	                   &client_stream_ops)) {
		client_close(client, CLOSE_MEMORY);
		client_parcel_end(parcelp);
		return;
	}
	parcel_free(parcelp);
	clients_begin_login(client);
	if (client->state == CLIENT_STARTUP)
		client_judge_kept(client);
}
