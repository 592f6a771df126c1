/* SPDX-License-Identifier: ISC */
/*
 * Finders: each asks one source (hosts_from) for the hosts of its entries, again and again. They
 * belong to the pools of the main thread.
 *
 *   waiting --> asking --> a list that is another one --> on_found(): a new snapshot
 *      ^           |
 *      +-----------+   every hosts_from_period
 *
 * A source that fails, or has no hosts, changes nothing: the last list stays.
 *
 * Hard here: a new snapshot configures the finders too. So what was found is told in a task, as the
 * last thing that the task does.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/auth/digest.h"
#include "pgweir/config/entries.h"
#include "pgweir/net/fetch.h"
#include "pgweir/net/tls.h"
#include "pgweir/pool/clusters.h"

#include "patroni_priv.h"
#include "pool_priv.h"

#define PATRONI_PORT 8008
/* Before a planned switchover no new transaction begins on the leader. */
#define LEAVE_EARLY (2 * USEC_PER_SEC)
/* A switchover that has not ended then has failed, whatever Patroni says. */
#define LEAVE_MAX (60 * USEC_PER_SEC)

struct finder {
	TAILQ_ENTRY(finder) node;
	struct finders *finders;
	char *text;                 /* of hosts_from */
	struct hosts_source source; /* borrows from it */
	struct timer timer;         /* when to ask next */
	struct task task;           /* tells `found` */
	struct dns_query *query;    /* for SRV records */
	struct fetch fetch;
	unsigned int rest;             /* number of the REST interface that is asked */
	unsigned int failed_count;     /* of those that were tried one after the other */
	char *found;                   /* not told yet; or NULL */
	usec_t answered_at, failed_at; /* the last answer and failure; 0: none */
	char error[160];
	char leaving[PATRONI_PLACE_SIZE]; /* is drained; "" = none */
	usec_t leave_end;                 /* when it is enabled again in any case */
	bool is_wanted;                   /* by the configuration that is being applied */
};

struct finders {
	struct pools *pools;
	struct tls_context *tls; /* made for the first https */
	usec_t period;
	TAILQ_HEAD(, finder) list;
};

static struct loop *loop_of(const struct finder *finder)
{
	return finder->finders->pools->shared.loop;
}

static void log_source(const struct finder *finder, enum log_level level, const char *text,
                       const char *more)
{
	const struct logger log = { finder->finders->pools->shared.log, NULL };
	char shown[FINDERS_TEXT_SIZE];
	struct strbuf out = strbuf_begin(shown, sizeof(shown));

	hosts_source_show(&finder->source, &out);
	log_at(&log, level, "%s: %s%s", shown, text, more);
}

/* ---- when to ask ---- */

static void on_due(struct timer *timer);

static void ask_in(struct finder *finder, usec_t period)
{
	timer_begin(&finder->timer, loop_of(finder), period, on_due);
}

static void ask_later(struct finder *finder)
{
	ask_in(finder, finder->finders->pools->config->hosts_from_period);
}

/* ---- a planned switchover ---- */

static void end_leave(struct finder *finder)
{
	struct broker *broker = finder->finders->pools->with.broker;

	if (*finder->leaving && clusters_set_admin(broker, finder->leaving, HOST_ENABLED, true,
	                                           loop_now(loop_of(finder))))
		log_source(finder, LOG_LEVEL_INFO,
		           "no switchover is planned any more, ENABLE HOST ", finder->leaving);
	*finder->leaving = 0;
}

static void begin_leave(struct finder *finder, const char *host)
{
	struct broker *broker = finder->finders->pools->with.broker;
	usec_t now = loop_now(loop_of(finder));

	if (*finder->leaving || !clusters_set_admin(broker, host, HOST_DRAINING, true, now))
		return;
	log_source(finder, LOG_LEVEL_INFO, "a switchover is about to begin, DRAIN HOST ", host);
	memcpy(finder->leaving, host, strlen(host) + 1);
	finder->leave_end = now + LEAVE_EARLY + LEAVE_MAX;
}

/* *period: until the next look. */
static void look_at_plan(struct finder *finder, const struct patroni *patroni, usec_t *period)
{
	usec_t left = patroni->leaves_at * USEC_PER_SEC - wall_now() - LEAVE_EARLY;
	bool is_due = patroni->leaves_at && left <= 0 && left > -LEAVE_MAX;

	/* The plan may have another time now, or another member. */
	if (!is_due || strcmp(patroni->leaving, finder->leaving) != 0)
		end_leave(finder);
	if (is_due)
		begin_leave(finder, patroni->leaving);
	else if (patroni->leaves_at && left > 0 && left < *period)
		*period = left;
}

/* ---- answers ---- */

static void note_failure(struct finder *finder, const char *text)
{
	usec_t now = loop_now(loop_of(finder));
	bool is_new = !finder->failed_at || strcmp(finder->error, text) != 0;

	text_copy(finder->error, sizeof(finder->error), text);
	finder->failed_at = finder->failed_at ? finder->failed_at : now;
	if (is_new)
		log_source(finder, LOG_LEVEL_WARNING,
		           config_found_hosts(finder->finders->pools->config, finder->text)
		               ? "cannot be asked, the last list of hosts stays: "
		               : "cannot be asked, it has not named any hosts yet: ",
		           text);
	if (*finder->leaving && now > finder->leave_end)
		end_leave(finder);
}

static void note_hosts(struct finder *finder, const char *list)
{
	const char *former = config_found_hosts(finder->finders->pools->config, finder->text);

	if (finder->failed_at)
		log_source(finder, LOG_LEVEL_INFO, "answers again", "");
	finder->answered_at = loop_now(loop_of(finder));
	finder->failed_at = 0;
	*finder->error = 0;
	if (former && strcmp(former, list) == 0)
		return;
	log_source(finder, LOG_LEVEL_INFO, "hosts are now ", list);
	finder->found = strdup(list);
	if (finder->found)
		loop_defer(loop_of(finder), &finder->task);
}

static void tell_found(struct task *task)
{
	struct finder *finder = container_of(task, struct finder, task);
	const struct pools_with *with = &finder->finders->pools->with;
	char *list = finder->found;

	finder->found = NULL;
	with->on_hosts_found(with->owner, finder->text, list);
	free(list);
}

/* ---- SRV records ---- */

static void on_services(struct dns_query **query, struct dns_answer *answer)
{
	struct finder *finder = container_of(query, struct finder, query);
	struct buf hosts = { 0 };

	for (unsigned int i = 0; i < answer->count; i++) {
		const struct service_host *host = &answer->services[i];

		if (hosts_source_names_host(bytes_text(host->name)))
			buf_printf(&hosts, "%s%s:%u", hosts.count ? "," : "", host->name,
			           host->port);
	}
	if (hosts.count && buf_ok(&hosts))
		note_hosts(finder, buf_text(&hosts));
	else if (!buf_ok(&hosts))
		note_failure(finder, "out of memory");
	else
		note_failure(finder, answer->count ? "its records name no hosts" : answer->failure);
	buf_free(&hosts);
	ask_later(finder);
}

/* ---- Patroni ---- */

static bool begin_fetch(struct finder *finder, struct err *err);

/* The next one is asked at once, but each only once. */
static void try_next(struct finder *finder, const char *text)
{
	struct err err; /* that of the answer before is noted */

	finder->rest++;
	if (++finder->failed_count < hosts_source_count(&finder->source) &&
	    begin_fetch(finder, &err))
		return;
	finder->failed_count = 0;
	note_failure(finder, text);
	ask_later(finder);
}

static void on_cluster(struct fetch *fetch, struct bytes body, const struct err *err)
{
	struct finder *finder = container_of(fetch, struct finder, fetch);
	usec_t period = finder->finders->pools->config->hosts_from_period;
	struct patroni patroni = { 0 };
	struct err bad;

	if (err || !patroni_read(body, &patroni, &bad)) {
		buf_free(&patroni.hosts);
		try_next(finder, err ? err->text : bad.text);
		return;
	}
	finder->failed_count = 0;
	look_at_plan(finder, &patroni, &period);
	note_hosts(finder, buf_text(&patroni.hosts));
	buf_free(&patroni.hosts);
	ask_in(finder, period);
}

static struct bytes rest_host(const struct finder *finder, int *port)
{
	unsigned int count = hosts_source_count(&finder->source);
	struct bytes host = hosts_source_host(&finder->source, finder->rest % count);

	*port = config_host_port(&host, PATRONI_PORT);
	return host;
}

static struct tls_context *tls_of(struct finder *finder, struct err *err)
{
	struct finders *finders = finder->finders;

	if (!finders->tls)
		finders->tls = tls_context_new(
		    &(struct tls_options){
			.role = TLS_CONNECTS,
			.check = TLS_CHECK_NAME,
			.prefix = "hosts_from",
			.ca_file = finders->pools->config->hosts_from_ca_file,
			.protocols = "secure",
			.protocol = "http/1.1",
		    },
		    err);
	return finders->tls;
}

static bool begin_fetch(struct finder *finder, struct err *err)
{
	const struct pools *pools = finder->finders->pools;
	const struct hosts_source *source = &finder->source;
	struct fetch_with with = {
		.loop = pools->shared.loop,
		.resolver = pools->shared.resolver,
		.streams = pools->shared.streams,
		.sockets = &pools->server_sockets,
		.limit = pools->config->host_check_timeout,
	};
	char login[BASE64_SIZE(HOSTS_SOURCE_MAX)] = "";
	struct bytes host;
	bool is_begun;
	int port;

	if (source->is_tls && !(with.tls = tls_of(finder, err)))
		return false;
	if (source->login.count)
		base64_encode(source->login, login);
	host = rest_host(finder, &port);
	is_begun = fetch_start(&finder->fetch, &with, host, (uint16_t)port,
	                       source->path.count ? source->path : bytes_text("/cluster"), login,
	                       on_cluster, err);
	explicit_bzero(login, sizeof(login));
	return is_begun;
}

static void on_due(struct timer *timer)
{
	struct finder *finder = container_of(timer, struct finder, timer);
	struct err err;

	if (finder->source.kind == HOSTS_FROM_PATRONI
	        ? begin_fetch(finder, &err)
	        : resolver_find_services(finder->finders->pools->shared.resolver,
	                                 finder->source.path.at, &finder->query, on_services, &err))
		return;
	note_failure(finder, err.text);
	ask_later(finder);
}

/* ---- all finders ---- */

static struct finder *find_finder(const struct finders *finders, const char *text)
{
	TAILQ_EACH (finder, &finders->list, node) {
		if (strcmp(finder->text, text) == 0)
			return finder;
	}
	return NULL;
}

static struct finder *add_finder(struct finders *finders, const char *text)
{
	struct finder *finder = calloc(1, sizeof(*finder));
	struct err err;

	if (!finder || !(finder->text = strdup(text))) {
		free(finder);
		return NULL;
	}
	hosts_source_read(finder->text, &finder->source, &err);
	finder->finders = finders;
	finder->task.run = tell_found;
	TAILQ_INSERT_TAIL(&finders->list, finder, node);
	ask_in(finder, 1);
	return finder;
}

static void free_finder(struct finder *finder)
{
	TAILQ_REMOVE(&finder->finders->list, finder, node);
	end_leave(finder);
	timer_clear(&finder->timer);
	loop_undefer(loop_of(finder), &finder->task);
	dns_forget(&finder->query);
	fetch_cancel(&finder->fetch);
	free(finder->found);
	explicit_bzero(finder->text, strlen(finder->text));
	free(finder->text);
	free(finder);
}

static void want(struct finders *finders, const char *text)
{
	struct finder *finder = find_finder(finders, text);

	if (!finder)
		finder = add_finder(finders, text);
	if (finder)
		finder->is_wanted = true;
}

void finders_configure(struct pools *pools)
{
	struct finders *finders = pools->finders ? pools->finders : calloc(1, sizeof(*finders));
	const struct config_database *entry = NULL;
	struct finder *finder, *next;

	if (!finders)
		return;
	if (!pools->finders)
		TAILQ_INIT(&finders->list);
	pools->finders = finders;
	finders->pools = pools;
	TAILQ_FOREACH (finder, &finders->list, node)
		finder->is_wanted = false;
	while ((entry = config_database_each(pools->config, entry))) {
		if (entry->hosts_from)
			want(finders, entry->hosts_from);
	}
	TAILQ_FOREACH_SAFE (finder, &finders->list, node, next) {
		if (!finder->is_wanted)
			free_finder(finder);
		else if (finders->period != pools->config->hosts_from_period &&
		         timer_is_set(&finder->timer))
			ask_in(finder, 1);
	}
	finders->period = pools->config->hosts_from_period;
	tls_context_unref(&finders->tls); /* its file may be another one */
}

void finders_free(struct finders **findersp)
{
	struct finders *finders = *findersp;
	struct finder *finder;

	*findersp = NULL;
	if (!finders)
		return;
	while ((finder = TAILQ_FIRST(&finders->list)))
		free_finder(finder);
	tls_context_unref(&finders->tls);
	free(finders);
}

bool finders_tell(const struct pools *pools, const char *text, char out[FINDERS_TEXT_SIZE])
{
	const struct finder *finder =
	    pools->finders && text ? find_finder(pools->finders, text) : NULL;
	struct strbuf line = strbuf_begin(out, FINDERS_TEXT_SIZE);
	usec_t now = loop_now(pools->shared.loop);

	if (!finder)
		return false;
	hosts_source_show(&finder->source, &line);
	if (finder->failed_at) {
		strbuf_add(&line, ": fails for ");
		strbuf_add_number(&line, (uint64_t)((now - finder->failed_at) / USEC_PER_SEC));
		strbuf_add(&line, " s: ");
		strbuf_add(&line, finder->error);
	} else if (!finder->answered_at) {
		strbuf_add(&line, ": has not answered yet");
	}
	return true;
}
