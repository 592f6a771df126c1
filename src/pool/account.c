/* SPDX-License-Identifier: ISC */
/*
 * Accounts: what is known of a user's name, and what auth_file says of it. What clients
 * have shown belongs to their pool: the same name may be another user elsewhere.
 */
#include "pgweir/pool/pools.h"

#include <stdlib.h>

#include "pgweir/base/text.h"

#include "pool_priv.h"

#include "pgweir/base/banned.h"

static void forget_secret(struct account *account)
{
	if (account->secret)
		explicit_bzero(account->secret, strlen(account->secret));
	free(account->secret);
	account->secret = NULL;
}

void account_configure(struct pools *pools, struct account *account)
{
	const struct user *user = users_find(pools->users, account->name);

	account->entry = config_user_find(pools->config, account->name);
	account->server_limit = config_max_user_connections(pools->config, account->entry);
	if (user ? account->secret && strcmp(account->secret, user->secret.text) == 0
	         : !account->secret)
		return; /* what clients have shown is as good as it was */
	account->secret_version++;
	credentials_done(&account->credentials);
	forget_secret(account);
	account->secret = user ? strdup(user->secret.text) : NULL;
	if (user)
		credentials_from_secret(&account->credentials, &user->secret);
}

struct account *pools_account(struct pools *pools, const char *name)
{
	struct account *account;

	TABLE_FIND_STR(hh, &pools->secret, pools->account_table, name, account);
	if (account)
		return account;
	account = slab_take(&pools->account_slab);
	if (!account)
		return NULL;
	text_copy(account->name, sizeof(account->name), name);
	TAILQ_INIT(&account->blocked);
	TAILQ_INIT(&account->idle);
	account_configure(pools, account);
	TABLE_ADD_STR(hh, &pools->secret, pools->account_table, account->name, account);
	TAILQ_INSERT_TAIL(&pools->accounts, account, node);
	return account;
}

void account_free(struct pools *pools, struct account *account)
{
	HASH_DEL(pools->account_table, account);
	TAILQ_REMOVE(&pools->accounts, account, node);
	credentials_done(&account->credentials);
	forget_secret(account);
	slab_put(&pools->account_slab, account);
}

void account_forget_unused(struct pools *pools, struct account *account)
{
	if (!account->client_count && !account->pool_count && !account->entry && !account->secret)
		account_free(pools, account);
}

void pools_enter_account(struct account *account) { account->client_count++; }

void pools_leave_account(struct pools *pools, struct account **accountp)
{
	struct account *account = *accountp;

	*accountp = NULL;
	account->client_count--;
	account_forget_unused(pools, account);
}
