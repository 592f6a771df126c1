/* SPDX-License-Identifier: ISC */
/*
 * A pool's turn: all events that may allow a borrower to be served wake the pool, and at the end of
 * the turn of the loop the pool serves its wait queues. Also the table of functions that servers
 * call.
 */
#include "pool_priv.h"
#include "pgweir/base/container_of.h"

#include "server/server_priv.h"

/* The next one to be checked. */
static struct server *used_server(const struct pool *pool)
{
	const struct borrower *head = TAILQ_FIRST(&pool->waiting);

	return head && pool_waits_for_own(head) && head->owned->state == SERVER_USED
	           ? head->owned
	           : TAILQ_LAST(&pool->servers[SERVER_USED], server_list);
}

static void check_used(struct pool *pool)
{
	const char *query = config_check_query(pool->pools->config);
	struct server *server;

	while (pool->server_counts[SERVER_CHECKING] < pool->waiting_count &&
	       (server = used_server(pool))) {
		server_enter(server, SERVER_CHECKING);
		if (server->is_close_needed)
			pool_close_server(server, server->close_reason);
		else if (query)
			server_errand(server, ERRAND_CHECK, query);
		else
			pool_home(server); /* the check query was removed from the settings */
	}
}

static void welcome_newcomers(struct pool *pool)
{
	struct borrower *borrower;

	if (!pool->has_welcome)
		pool_find_welcome(pool);
	while (pool->has_welcome && (borrower = TAILQ_FIRST(&pool->newcomers))) {
		pool_give_up(borrower);
		borrower->ops->on_welcome(borrower);
	}
}

static struct borrower *next_to_serve(struct pool *pool)
{
	struct borrower *head = TAILQ_FIRST(&pool->waiting);

	return head && pool_is_choosy(pool) ? pool_standby_next(pool) : head;
}

void pool_serve(struct task *task)
{
	struct pool *pool = container_of(task, struct pool, serve_task);
	struct borrower *borrower;
	struct server *server;

	if (pool->pools->is_closing)
		return;
	if (!pool_is_current(pool))
		pool_move_members(pool);
	pool_hear_news(pool);
	pool_hear_roster(pool);
	if (pool->purpose == POOL_FOR_READS)
		pool_reads_serve(pool);
	welcome_newcomers(pool);
	pool_give_places(pool);
	if (pool->hasty_count)
		pool_turn_hasty_away(pool);
	listening_grow(pool);
	if (!pool_is_held(pool))
		pool_dedicated_grow(pool);
	if (!pool_is_held(pool))
		pool_trade_first(pool);
	while (!pool_is_held(pool) && (borrower = next_to_serve(pool)) &&
	       (server = pool_idle_server(borrower))) {
		pool_give_up(borrower);
		pool_lend(server, borrower);
		borrower->ops->on_lent(borrower);
	}
	cancel_serve(pool);
	if (!pool_is_held(pool)) {
		check_used(pool);
		pool_grow(pool);
	}
	pool_trade(pool);
	pool_evict_elsewhere(pool);
	/*
	 * The borrowers that an idle server was for have left, or got another one: another pool may
	 * use its slot.
	 */
	if (!pool->waiting_count && (pool->has_come_home || pool->server_counts[SERVER_IDLE])) {
		pool_unblock(pool);
		pool_evict_for_others(pool);
	}
	pool->has_come_home = false;
	pool_pass_on(pool);
}

/* The role question is asked during the login. */
static void come_home(struct server *server)
{
	if (server->login)
		server_role_done(server);
	else
		pool_home(server);
}

const struct server_ops pool_server_ops = {
	.on_state = pool_file_server,
	.on_released = pool_release_server,
	.on_close_needed = pool_count_close_needed,
	.on_report = pool_note_report,
	.on_login_done = pool_login_done,
	.on_login_failed = pool_login_failed,
	.on_home = come_home,
	.on_params_refused = pool_refuse_params,
	.on_ending = pool_begin_ending,
	.on_borrower_lost = pool_lost_server,
	.on_address_removed = pool_address_removed,
	.on_catalog_row = pool_catalog_row,
	.on_catalog_end = pool_catalog_end,
	.on_definition = pool_definition_seen,
	.on_library = pool_count_library,
	.on_probe = pool_count_probe,
	.may_probe = pool_may_probe,
	.credentials = pool_server_credentials,
	.tell_secret = pool_tell_secret,
	.on_free = pool_remove_server,
};
