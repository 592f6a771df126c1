/* SPDX-License-Identifier: ISC */
/*
 * Reads the PROXY header, which has the address of a proxy's client.
 *
 * Hard here: a host whose header is trusted can claim any client address. So a header is accepted
 * only from the addresses in proxy_protocol_from, once, and as the first bytes of a connection.
 * If a header has no client address, the proxy's own address counts. But over a Unix socket the
 * proxy's system user does not count, because it could give the client rights.
 */
#include "pgweir/pgwire/proxy.h"

#include "login_priv.h"

static enum wire_result refuse_header(struct client *client, enum err_code code, const char *words)
{
	client_refuse(client, code, "%s", words);
	return WIRE_BAD;
}

static void set_peer(struct client *client, const struct proxy *proxy)
{
	struct address *peer = &client->peer;
	char where[ADDRESS_TEXT_SIZE];

	log_debug(&client->log, "through the proxy at %s",
	          address_format(peer, where, sizeof(where)));
	switch (proxy->source) {
	case PROXY_ITSELF:
		return;
	case PROXY_UNKNOWN:
		/* The peer of a Unix socket is the proxy's system user, not the client's. */
		if (address_is_unix(peer)) {
			peer->un.pid = 0;
			peer->un.uid = (uid_t)-1;
		}
		return;
	case PROXY_IPV4:
		*peer = (struct address){ .in = { .sin_family = AF_INET } };
		memcpy(&peer->in.sin_addr, proxy->host, 4);
		break;
	case PROXY_IPV6:
		*peer = (struct address){ .in6 = { .sin6_family = AF_INET6 } };
		memcpy(&peer->in6.sin6_addr, proxy->host, 16);
		break;
	}
	address_set_port(peer, proxy->port);
}

/* Parses a header. The proxy is allowed to send one. */
static enum wire_result read_header(struct client *client, struct bytes *in)
{
	struct proxy proxy;
	struct err err;
	enum wire_result result = proxy_read(*in, &proxy, &err);

	if (result == WIRE_BAD) {
		client_fatal(client, &err);
		return WIRE_BAD;
	}
	if (result == WIRE_MORE)
		return WIRE_MORE;
	client->login->is_proxy_header_done = true;
	set_peer(client, &proxy);
	*in = bytes_skip(*in, proxy.length);
	return WIRE_OK;
}

enum wire_result proxy_header_read(struct client *client, struct bytes *in)
{
	const struct clients *clients = client->clients;
	enum proxy_protocol wanted = clients->config->proxy_protocol;
	bool is_trusted;

	if (client->login->is_proxy_header_done || in->count == 0)
		return WIRE_OK;
	if (wanted == PROXY_PROTOCOL_OFF) {
		client->login->is_proxy_header_done = true;
		return WIRE_OK;
	}
	is_trusted = ranges_have(clients->proxies, &client->peer);
	if (proxy_begins(*in))
		return is_trusted ? read_header(client, in)
		                  : refuse_header(client, ERR_NOT_ALLOWED,
		                                  "a PROXY header from an address that is not in "
		                                  "proxy_protocol_from");
	if (is_trusted && wanted == PROXY_PROTOCOL_REQUIRE)
		return refuse_header(client, ERR_NOT_ALLOWED,
		                     "no PROXY header, and proxy_protocol = require");
	client->login->is_proxy_header_done = true;
	return WIRE_OK;
}
