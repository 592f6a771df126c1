/* SPDX-License-Identifier: ISC */
/*
 * The web server, for its files. After the start everything belongs to its thread, except what is
 * marked.
 */
#ifndef PGWEIR_WEB_WEB_PRIV_H
#define PGWEIR_WEB_WEB_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "pgweir/auth/failures.h"
#include "pgweir/loop/crew.h"
#include "pgweir/net/listener.h"
#include "pgweir/web/web.h"

#include "connection_priv.h"
#include "health_priv.h"
#include "reader_priv.h"

/* A place of metrics_listen, with its socket. */
struct web_place {
	struct listener *listener; /* NULL: not open */
	char *address;             /* "" = a Unix socket */
	uint16_t port;
	char *path;
	unsigned int failed_count; /* since it was open */
};

/* Wrong secrets whose answer is delayed. */
struct wrong_secrets {
	struct loop *loop;
	struct failures failures;
	unsigned int count;
	TAILQ_HEAD(, wrong_secret) list;
};

struct web {
	struct web_with with;
	struct solo *solo;
	struct loop *loop; /* of `solo` */
	struct logger log;
	struct connections connections;
	struct readers readers;
	struct health health;
	struct wrong_secrets wrong_secrets;
	unsigned int scrape_count;
	struct buf page_fields; /* header lines of the page */
	struct web_place *places;
	size_t place_count;
	mode_t unix_mode;
	char *unix_group;
	struct timer retry; /* opens places that could not be opened */
	struct letter unlisten, relisten;
	atomic_bool is_unlistening, is_relistening; /* these letters are posted */
	pthread_mutex_t lock; /* guards `rights`, which the main thread replaces */
	struct web_rights *rights;
};

/* ---- wrong secrets: wrong_secrets.c ---- */

#define WRONG_SECRET_TEXT "a user and password, or a token, is needed"

/* Answers 401, after the delay. */
void wrong_secrets_answer(struct wrong_secrets *secrets, struct connection *connection,
                          usec_t delay);

void wrong_secrets_init(struct wrong_secrets *secrets, struct loop *loop);

/* ---- paths: routes.c ---- */

/* Called for each request that is allowed. */
void routes_answer(struct web *web, struct connection *connection, const struct http_head *head);

/* Whether the path is one for which a secret is needed, if there are secrets. */
bool routes_need_secret(const struct http_head *head);

/* ---- /api/v1/: api.c ---- */

void api_list(struct web *web, struct connection *connection, const struct http_head *head);
void api_show(struct web *web, struct connection *connection, const struct http_head *head);

/*
 * Adds " value" for each wanted=value of a query, as the console reads it. false: it is not well
 * encoded.
 */
bool api_read_arguments(struct bytes query, const char *wanted, struct buf *words);

#define API_BAD_ADDRESS "the address is not well encoded"

/* Answers that a table cannot be read. */
void api_refuse(struct connection *connection, const struct err *err);

/* ---- /healthz, /readyz: health.c ---- */

void health_answer(struct web *web, struct connection *connection, const struct http_head *head);
void health_answer_ready(struct web *web, struct connection *connection,
                         const struct http_head *head);

/* ---- /metrics: metrics.c ---- */

void metrics_answer(struct web *web, struct connection *connection, const struct http_head *head);
void metrics_answer_histograms(struct web *web, struct connection *connection,
                               const struct http_head *head);

/* ---- the page: page.c ---- */

/* Makes the header lines that the page is sent with. */
bool page_init(struct buf *fields, struct err *err);

void page_answer(struct web *web, struct connection *connection, const struct http_head *head);

#endif
