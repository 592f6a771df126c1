/* SPDX-License-Identifier: ISC */
/*
 * The welcome of a pool, known in all loops once one of them has it: a client that logs in needs no
 * server then.
 */
#include "pool_priv.h"
#include "server/server_priv.h"

void pool_set_welcome(struct pool *pool, struct bytes welcome, struct bytes baseline)
{
	struct params_table *table = pool->pools->with.params;

	pool_forget_greeting(pool);
	buf_free(&pool->welcome);
	buf_add(&pool->welcome, welcome.at, welcome.count);
	params_release(table, &pool->baseline);
	pool->baseline = params_none(table);
	params_add_text(table, &pool->baseline, baseline);
	pool->has_welcome = buf_ok(&pool->welcome);
	if (pool->has_welcome)
		share_put_welcome(&pool->share, welcome, baseline);
}

void pool_learn_welcome(struct server *server)
{
	struct pool *pool = server->pool;

	pool_forget_greeting(pool);
	buf_free(&pool->welcome);
	pool->welcome = server->login->parameters;
	server->login->parameters = (struct buf){ 0 };
	params_release(pool->pools->with.params, &pool->baseline);
	pool->baseline = params_hold(server->baseline);
	pool->has_welcome = true;
	share_put_welcome(&pool->share, buf_bytes(&pool->welcome), params_text(pool->baseline));
}

void pool_find_welcome(struct pool *pool)
{
	struct buf welcome = { 0 }, baseline = { 0 };

	if (share_get_welcome(&pool->share, &welcome, &baseline))
		pool_set_welcome(pool, buf_bytes(&welcome), buf_bytes(&baseline));
	buf_free(&welcome);
	buf_free(&baseline);
}

void pool_forget_welcome(struct pool *pool)
{
	pool->has_welcome = false;
	buf_free(&pool->welcome);
	share_forget_welcome(&pool->share);
}
