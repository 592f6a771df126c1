/* SPDX-License-Identifier: ISC */
/*
 * Roles: the state of a user's name, and its secret in auth_file. What a client authenticated with
 * belongs to its pool: on another database the same name may be another user.
 */
#include "pgweir/pool/pools.h"

#include <stdlib.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"

static void forget_secret(struct role *role)
{
	if (role->secret)
		explicit_bzero(role->secret, strlen(role->secret));
	free(role->secret);
	role->secret = NULL;
}

void role_configure(struct pools *pools, struct role *role)
{
	const struct user *user = users_find(pools->users, role->name);

	role->entry = config_user_find(pools->config, role->name);
	role->server_limit = config_max_user_connections(pools->config, role->entry);
	if (user ? role->secret && strcmp(role->secret, user->secret.text) == 0 : !role->secret)
		return; /* what clients authenticated with is still valid */
	role->secret_version++;
	credentials_done(&role->credentials);
	forget_secret(role);
	role->secret = user ? strdup(user->secret.text) : NULL;
	if (user)
		credentials_from_secret(&role->credentials, &user->secret);
}

struct role *role_of_name(struct pools *pools, const char *name)
{
	struct role *role;

	TABLE_FIND_STR(hh, &pools->secret, pools->role_table, name, role);
	if (role)
		return role;
	role = slab_take(&pools->role_slab);
	if (!role)
		return NULL;
	text_copy(role->name, sizeof(role->name), name);
	role->share.on_woken = pool_role_woken;
	if (!share_open(&role->share, &pools->member, TALLY_ROLE, name, "")) {
		slab_put(&pools->role_slab, role);
		return NULL;
	}
	TAILQ_INIT(&role->blocked);
	TAILQ_INIT(&role->idle);
	role_configure(pools, role);
	TABLE_ADD_STR(hh, &pools->secret, pools->role_table, role->name, role);
	TAILQ_INSERT_TAIL(&pools->roles, role, node);
	return role;
}

void role_free(struct pools *pools, struct role *role)
{
	HASH_DEL(pools->role_table, role);
	share_close(&role->share);
	TAILQ_REMOVE(&pools->roles, role, node);
	credentials_done(&role->credentials);
	forget_secret(role);
	slab_put(&pools->role_slab, role);
}

void role_forget_unused(struct pools *pools, struct role *role)
{
	if (!role->client_count && !role->pool_count && !role->entry && !role->secret)
		role_free(pools, role);
}

void role_enter(struct role *role, bool is_exempt)
{
	role->client_count++;
	if (!is_exempt)
		share_add_client(&role->share);
}

void role_leave(struct pools *pools, struct role **rolep, bool was_exempt)
{
	struct role *role = *rolep;

	*rolep = NULL;
	role->client_count--;
	if (!was_exempt)
		share_remove_client(&role->share);
	role_forget_unused(pools, role);
}
