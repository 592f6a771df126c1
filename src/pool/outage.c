/* SPDX-License-Identifier: ISC */
/*
 * Outages: one WARNING when a host of an entry fails, one LOG when it answers again.
 *
 * Noted for each database, not for each pool, and for all loops: a hundred pools of different users
 * notice one after the other that the same host is down.
 */
#include "outage_priv.h"

#include <string.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"
#include "server/server_priv.h"

static const char connect_words[] = "connect failed: ";

static struct outages *outages_of(const struct server *server)
{
	return share_outages(&server->pool->database->share);
}

/* The target of a server: its host as in the entry, and the address if that is different. */
static const char *where_is(const struct server *server, char *out, size_t size)
{
	const struct hosts *hosts = server->pool->site.hosts;
	int port = server->pool->database->entry->port;
	const char *name = server->host < hosts->count ? hosts->list[server->host].name : "";
	char buffer[ADDRESS_TEXT_SIZE];
	const char *address = address_format_host(&server->peer, buffer, sizeof(buffer));
	struct strbuf text = strbuf_begin(out, size);

	if (*server->path) {
		strbuf_add(&text, server->path);
	} else if (server->peer.family != AF_INET && server->peer.family != AF_INET6) {
		strbuf_add(&text, *name ? name : "(no host)");
		strbuf_add(&text, ":");
		strbuf_add_number(&text, (uint64_t)port);
	} else if (strcmp(address, name) == 0) {
		address_add(&server->peer, &text);
	} else {
		strbuf_add(&text, name);
		strbuf_add(&text, " (");
		address_add(&server->peer, &text);
		strbuf_add(&text, ")");
	}
	return out;
}

static const char *reason_of(const struct err *err)
{
	size_t count = sizeof(connect_words) - 1;

	return strncmp(err->text, connect_words, count) == 0 ? err->text + count : err->text;
}

/* It has answered, even if only to refuse the login. */
static bool is_answer(const struct err *err)
{
	return err->code == ERR_NOT_ALLOWED ||
	       (err->code == ERR_FOREIGN && !pool_is_worth_waiting(err));
}

static void log_outage(const struct server *server, const struct outage *outage,
                       const struct err *err, usec_t now)
{
	static const struct log_facts facts = { .kept = "host down" };
	const struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->with.log, NULL };
	unsigned int waiting = share_waiting(&database->share);
	struct log_entry entry;

	if (!log_begin(&log, LOG_LEVEL_WARNING, &entry))
		return;
	strbuf_add(&entry.line, database->name);
	strbuf_add(&entry.line, ": PostgreSQL at ");
	strbuf_add(&entry.line, outage->where);
	strbuf_add(&entry.line, " cannot be reached: ");
	strbuf_add(&entry.line, reason_of(err));
	strbuf_add(&entry.line, "; ");
	strbuf_add_number(&entry.line, waiting);
	strbuf_add(&entry.line, waiting == 1 ? " client waits" : " clients wait");
	if (outage->was_said) {
		strbuf_add(&entry.line, "; ");
		strbuf_add_number(&entry.line, outage->failures);
		strbuf_add(&entry.line, " attempts failed in the last ");
		strbuf_add_number(&entry.line, (uint64_t)((now - outage->said_at) / USEC_PER_SEC));
		strbuf_add(&entry.line, " s");
	}
	entry.who.facts = &facts;
	log_end(&log, LOG_LEVEL_WARNING, &entry);
}

void outage_of_server(struct server *server, const struct err *err)
{
	usec_t now = loop_now(server->pool->pools->with.loop);
	char where[OUTAGE_WHERE_SIZE];
	struct outage outage;

	if (is_answer(err)) {
		outage_of_server_over(server);
		if (err->code != ERR_FOREIGN) /* an error of PostgreSQL is in the log already */
			log_warning(&server->log, "%s", err->text);
		return;
	}
	if (outages_failed(outages_of(server), where_is(server, where, sizeof(where)), now,
	                   &outage))
		log_outage(server, &outage, err, now);
}

void outage_of_server_over(struct server *server)
{
	const struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->with.log, NULL };
	char where[OUTAGE_WHERE_SIZE];
	usec_t lasted;

	if (!outages_has_any(outages_of(server)))
		return;
	if (outages_over(outages_of(server), where_is(server, where, sizeof(where)),
	                 loop_now(server->pool->pools->with.loop), &lasted))
		log_kept(&log, LOG_LEVEL_INFO, "host up",
		         "%s: PostgreSQL at %s answers again after %lld s", database->name, where,
		         (long long)(lasted / USEC_PER_SEC));
}
