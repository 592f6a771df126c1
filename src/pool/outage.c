/* SPDX-License-Identifier: ISC */
/*
 * Outages: one WARNING when a host of an entry fails, one LOG when it answers again.
 *
 *   fails --> WARNING --> still fails --> a WARNING each REPEAT --> answers --> LOG
 *
 * Noted for each database, not for each pool: a hundred pools of different users notice one after
 * the other that the same host is down.
 *
 * Hard here: neither too many nor too few lines. Attempts may fail every 50 ms, and a host may go
 * down and up as fast. So two WARNINGs about one target are at least SPACING apart. An outage that
 * ends before its WARNING is due is not logged, but its failures are included in the next line.
 * There is no timer: a line is written when an attempt fails, so there are no lines about a host
 * that no pool connects to.
 */
#include "outage_priv.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/strbuf.h"
#include "pgweir/base/text.h"

#include "pool_priv.h"
#include "server/server_priv.h"

#include "pgweir/base/banned.h"

#define SPACING (60 * USEC_PER_SEC)
#define REPEAT (300 * USEC_PER_SEC)
#define OUTAGES_MAX 64 /* targets noted for one database; the one that changed first is dropped */

static const char connect_words[] = "connect failed: ";

/* ---- whether a line is due ---- */

static struct outage *find_outage(const struct outages *outages, const char *where)
{
	struct outage *outage;

	TAILQ_FOREACH (outage, &outages->list, node) {
		if (strcmp(outage->where, where) == 0)
			return outage;
	}
	return NULL;
}

static void forget_outage(struct outages *outages, struct outage *outage)
{
	TAILQ_REMOVE(&outages->list, outage, node);
	outages->count--;
	free(outage);
}

static struct outage *add_outage(struct outages *outages, const char *where)
{
	struct outage *outage = calloc(1, sizeof(*outage));

	if (!outage)
		return NULL;
	if (!outages->list.tqh_last)
		TAILQ_INIT(&outages->list);
	if (outages->count == OUTAGES_MAX)
		forget_outage(outages, TAILQ_FIRST(&outages->list));
	text_copy(outage->where, sizeof(outage->where), where);
	TAILQ_INSERT_TAIL(&outages->list, outage, node);
	outages->count++;
	return outage;
}

struct outage *outages_failed(struct outages *outages, const char *where, usec_t now)
{
	struct outage *outage = find_outage(outages, where);

	if (!outage)
		outage = add_outage(outages, where);
	if (!outage)
		return NULL;
	outage->failures++;
	if (!outage->is_bad) {
		outage->is_bad = true;
		outage->is_said = false;
		outage->since = now;
	}
	if (!outage->was_said || now - outage->said_at >= (outage->is_said ? REPEAT : SPACING))
		return outage;
	return NULL;
}

void outage_said(struct outage *outage, usec_t now)
{
	outage->is_said = outage->was_said = true;
	outage->said_at = now;
	outage->failures = 0;
}

bool outages_over(struct outages *outages, const char *where, usec_t now, usec_t *lasted)
{
	struct outage *outage = outages->count ? find_outage(outages, where) : NULL;

	if (!outage || !outage->is_bad)
		return false;
	outage->is_bad = false;
	*lasted = now - outage->since;
	return outage->is_said;
}

void outages_done(struct outages *outages)
{
	while (outages->count)
		forget_outage(outages, TAILQ_FIRST(&outages->list));
}

/* ---- the lines ---- */

/* The target of a server: its host as in the entry, and the address if that is different. */
static const char *where_is(const struct server *server, char *out, size_t size)
{
	const struct hosts *hosts = &server->pool->site.hosts;
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
	const struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->with.log, NULL };
	unsigned int waiting = database->waiting_count;
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
	log_end(&log, LOG_LEVEL_WARNING, &entry);
}

void outage_of_server(struct server *server, const struct err *err)
{
	usec_t now = loop_now(server->pool->pools->with.loop);
	char where[OUTAGE_WHERE_SIZE];
	struct outage *outage;

	if (is_answer(err)) {
		outage_of_server_over(server);
		if (err->code != ERR_FOREIGN) /* an error of PostgreSQL is in the log already */
			log_warning(&server->log, "%s", err->text);
		return;
	}
	outage = outages_failed(&server->pool->database->outages,
	                        where_is(server, where, sizeof(where)), now);
	if (!outage)
		return;
	log_outage(server, outage, err, now);
	outage_said(outage, now);
}

void outage_of_server_over(struct server *server)
{
	struct database *database = server->pool->database;
	struct logger log = { server->pool->pools->with.log, NULL };
	char where[OUTAGE_WHERE_SIZE];
	usec_t lasted;

	if (database->outages.count == 0)
		return;
	if (outages_over(&database->outages, where_is(server, where, sizeof(where)),
	                 loop_now(server->pool->pools->with.loop), &lasted))
		log_info(&log, "%s: PostgreSQL at %s answers again after %lld s", database->name,
		         where, (long long)(lasted / USEC_PER_SEC));
}
