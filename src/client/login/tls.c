/* SPDX-License-Identifier: ISC */
/*
 * TLS for client connections: the client asks with SSLRequest, or begins with a
 * ClientHello.
 *
 * Hard here: bytes that follow an SSLRequest in the same packet are not encrypted, and an
 * attacker may have inserted them. They must never be handled as if they had come
 * encrypted.
 */
#include <stdlib.h>
#include <string.h>

#include "login_priv.h"

static bool may_encrypt(const struct client *client)
{
	return client->clients->tls && !address_is_unix(&client->peer);
}

/* Begins the handshake. Always false: there is nothing more to parse now. */
static bool secure(struct client *client, struct bytes early)
{
	struct err err;

	if (stream_secure(&client->stream, client->clients->tls, NULL, early, &err))
		return false;
	err_reason(&err, CLOSE_CLIENT_TLS);
	client_close_err(client, &err);
	return false;
}

bool tls_asked(struct client *client, bool has_more)
{
	struct client_login *login = client->login;

	if (has_more) {
		client_refuse_with(client, CLOSE_EARLY_DATA,
		                   "received unencrypted data after SSL request");
		return false;
	}
	if (login->was_tls_answered || stream_is_encrypted(&client->stream)) {
		client_close(client, CLOSE_ENCRYPTION_TWICE);
		return false;
	}
	login->was_tls_answered = true;
	if (!may_encrypt(client))
		return client_send(client, bytes_of("N", 1));
	if (!stream_keep(&client->stream, (struct bytes){ 0 }) ||
	    !client_send(client, bytes_of("S", 1)))
		return false;
	return secure(client, (struct bytes){ 0 });
}

bool tls_hello(struct client *client, struct bytes hello)
{
	if (!may_encrypt(client) || client->login->was_tls_answered ||
	    stream_is_encrypted(&client->stream))
		return true;
	client->login->was_tls_answered = true;
	return secure(client, hello);
}

bool tls_is_missing(const struct client *client)
{
	const struct config *config = client->clients->config;

	return config->client_tls_sslmode >= TLS_MODE_REQUIRE &&
	       !stream_is_encrypted(&client->stream) && !address_is_unix(&client->peer);
}

/* Stores whether the client has a certificate, and its CN if there is exactly one. */
static void note_certificate(struct client *client)
{
	const char *kind, *name, *found = NULL;
	struct buf names = { 0 };
	struct bytes list;
	unsigned int count = 0;

	client->login->has_certificate = tls_peer_names(&client->stream, &names);
	if (client->login->has_certificate) {
		list = buf_bytes(&names);
		while (bytes_take_text(&list, &kind) && bytes_take_text(&list, &name)) {
			if (strcmp(kind, "CN") != 0)
				continue;
			found = name;
			count++;
		}
	}
	if (count == 1)
		client->login->certificate_name = strdup(found);
	buf_free(&names);
}

void tls_secured(struct client *client, const struct err *err)
{
	if (err) {
		struct err failure = *err;

		err_reason(&failure, CLOSE_CLIENT_TLS);
		client_close_err(client, &failure);
		return;
	}
	note_certificate(client);
	if (!stream_want(&client->stream, WANT_INPUT))
		client_close(client, CLOSE_NOT_WATCHED);
	else
		client_judge_kept(client);
}
