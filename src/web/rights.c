/* SPDX-License-Identifier: ISC */
/*
 * Which clients the web server answers: addresses, and names of hosts.
 *
 * Hard here: a browser at an allowed address can show a page of a stranger. The browser lets that
 * page read our answers if it takes us for the page's own server, and it does if the name of that
 * server has our address ("DNS rebinding"). So the name that the browser asks for (Host) must be
 * one that no stranger can own: an address, localhost, or one of metrics_hosts.
 */
#include "rights_priv.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "pgweir/auth/auth_methods.h"
#include "pgweir/net/address.h"

#include "secrets_priv.h"
#include "web_priv.h"

struct web_rights {
	atomic_uint ref_count;
	struct ranges *allow;
	size_t host_count;
	char **hosts;
	struct secrets secrets;
	struct tls_context *tls; /* NULL: no TLS */
	usec_t failure_delay;
	int failure_limit;
};

/* ---- made and freed ---- */

static bool copy_hosts(struct web_rights *rights, const struct config_list *list)
{
	rights->hosts = calloc(list->count + 1, sizeof(*rights->hosts));
	if (!rights->hosts)
		return false;
	for (; rights->host_count < list->count; rights->host_count++) {
		rights->hosts[rights->host_count] = strdup(list->names[rights->host_count]);
		if (!rights->hosts[rights->host_count])
			return false;
	}
	return true;
}

static bool read_secrets(struct web_rights *rights, const struct config *config, struct err *err)
{
	return !*config->metrics_secret_file ||
	       secrets_read(&rights->secrets, config->metrics_secret_file, err) ||
	       err_prefix(err, "metrics_secret_file: ");
}

static bool make_tls(struct web_rights *rights, const struct config *config, struct err *err)
{
	struct tls_options options;

	if (!config->metrics_tls)
		return true;
	options = client_tls_options(config, "http/1.1");
	rights->tls = tls_context_new(&options, err);
	return rights->tls || err_prefix(err, "metrics_tls: ");
}

struct web_rights *web_rights_new(const struct config *config, struct err *err)
{
	const struct config_list *allow = &config->metrics_allow;
	struct web_rights *rights = calloc(1, sizeof(*rights));

	if (!rights || !copy_hosts(rights, &config->metrics_hosts)) {
		web_rights_release(&rights);
		err_set(err, ERR_MEMORY, "out of memory");
		return NULL;
	}
	atomic_init(&rights->ref_count, 1);
	rights->failure_delay = config->auth_failure_delay;
	rights->failure_limit = config->auth_failure_limit;
	rights->allow = ranges_new(allow->names, allow->count, err);
	if (!rights->allow)
		err_prefix(err, "metrics_allow: ");
	if (!rights->allow || !read_secrets(rights, config, err) || !make_tls(rights, config, err))
		web_rights_release(&rights);
	return rights;
}

struct web_rights *web_rights_hold(struct web_rights *rights)
{
	atomic_fetch_add_explicit(&rights->ref_count, 1, memory_order_relaxed);
	return rights;
}

static void free_rights(struct web_rights *rights)
{
	for (size_t i = 0; i < rights->host_count; i++)
		free(rights->hosts[i]);
	free(rights->hosts);
	secrets_free(&rights->secrets);
	tls_context_unref(&rights->tls);
	ranges_release(&rights->allow);
	free(rights);
}

void web_rights_release(struct web_rights **rights)
{
	struct web_rights *released = *rights;

	*rights = NULL;
	if (released &&
	    atomic_fetch_sub_explicit(&released->ref_count, 1, memory_order_acq_rel) <= 1)
		free_rights(released);
}

/* ---- asked ---- */

bool rights_allow(const struct web_rights *rights, const struct address *peer)
{
	return ranges_have(rights->allow, peer);
}

struct tls_context *rights_tls(const struct web_rights *rights) { return rights->tls; }

usec_t rights_failure_delay(const struct web_rights *rights) { return rights->failure_delay; }

int rights_failure_limit(const struct web_rights *rights) { return rights->failure_limit; }

static bool is_address(struct bytes host)
{
	struct address address;
	char text[ADDRESS_TEXT_SIZE];

	if (host.count >= sizeof(text))
		return false;
	memcpy(text, host.at, host.count);
	text[host.count] = 0;
	return address_parse(&address, text, 0);
}

static bool is_trusted_host(const struct web_rights *rights, struct bytes host)
{
	if (!host.count || http_is(host, "localhost") || is_address(host))
		return true;
	for (size_t i = 0; i < rights->host_count; i++) {
		if (strcmp(rights->hosts[i], "*") == 0 || http_is(host, rights->hosts[i]))
			return true;
	}
	return false;
}

int rights_judge(const struct web_rights *rights, const struct connection *connection,
                 const struct http_head *head, bool needs_secret, const char **why)
{
	/* where none is needed, the answer must not tell whether it is right */
	bool is_known = needs_secret && secrets_have(&rights->secrets, head->authorization);

	if (!rights_allow(rights, &connection->peer)) {
		*why = "this address is not in metrics_allow";
		return 403;
	}
	/* A page of a stranger has no secret. */
	if (is_known)
		return 0;
	if (needs_secret && rights->secrets.count) {
		*why = WRONG_SECRET_TEXT;
		return 401;
	}
	if (!address_is_unix(&connection->peer) && !is_trusted_host(rights, head->host)) {
		*why = "the name of the host is not in metrics_hosts";
		return 403;
	}
	return 0;
}
