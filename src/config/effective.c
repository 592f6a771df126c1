/* SPDX-License-Identifier: ISC */
/*
 * Effective values for one user on one database: the user's value, else the database's, else
 * that of the setting. CONFIG_INHERIT means that an entry has no value. Numbers that mean the
 * same (enum entry_low) were replaced by CONFIG_INHERIT when the line was parsed.
 */
#include "pgweir/config/entries.h"

#include <limits.h>

static int64_t first_said(int64_t user, int64_t database, int64_t setting)
{
	if (user != CONFIG_INHERIT)
		return user;
	return database != CONFIG_INHERIT ? database : setting;
}

/* clang-format off */
#define SAID(entry, field) ((entry) ? (int64_t)(entry)->field : CONFIG_INHERIT)
/* In a function with config, database and user. */
#define SAID_WORD(field, inherit) \
	(user && user->field != (inherit)           ? user->field \
	 : database && database->field != (inherit) ? database->field \
	                                            : config->field)
/* clang-format on */

#define OF_BOTH(type, name)                                                                     \
	type config_##name(const struct config *config, const struct config_database *database, \
	                   const struct config_user *user)                                      \
	{                                                                                       \
		return (type)first_said(SAID(user, name), SAID(database, name), config->name);  \
	}
#define OF_DATABASE(type, name)                                                                 \
	type config_##name(const struct config *config, const struct config_database *database) \
	{                                                                                       \
		return (type)first_said(CONFIG_INHERIT, SAID(database, name), config->name);    \
	}
#define OF_USER(type, name)                                                              \
	type config_##name(const struct config *config, const struct config_user *user)  \
	{                                                                                \
		return (type)first_said(SAID(user, name), CONFIG_INHERIT, config->name); \
	}

CONFIG_OF_BOTH(OF_BOTH)
CONFIG_OF_DATABASE(OF_DATABASE)
CONFIG_OF_USER(OF_USER)

enum pool_mode config_pool_mode(const struct config *config, const struct config_database *database,
                                const struct config_user *user)
{
	return SAID_WORD(pool_mode, POOL_MODE_INHERIT);
}

enum session_state_mode config_session_state(const struct config *config,
                                             const struct config_database *database,
                                             const struct config_user *user)
{
	enum session_state_mode said = SAID_WORD(session_state, SESSION_STATE_INHERIT);

	switch (config_pool_mode(config, database, user)) {
	case POOL_MODE_SESSION:
		return SESSION_STATE_OFF;
	case POOL_MODE_STATEMENT: /* no server may stay with a client */
		return said == SESSION_STATE_FOLLOW ? SESSION_STATE_REFUSE : said;
	default:
		return said;
	}
}

enum route_reads config_route_reads(const struct config *config,
                                    const struct config_database *database,
                                    const struct config_user *user)
{
	enum route_reads said = SAID_WORD(route_reads, ROUTE_READS_INHERIT);

	/* A session gets its server once. */
	if (config_pool_mode(config, database, user) == POOL_MODE_SESSION)
		return said == ROUTE_READS_SESSIONS ? said : ROUTE_READS_OFF;
	return said;
}

enum session_isolation config_session_isolation(const struct config *config,
                                                const struct config_database *database,
                                                const struct config_user *user)
{
	enum session_isolation said = SAID_WORD(session_isolation, SESSION_ISOLATION_INHERIT);

	if (said == SESSION_ISOLATION_KNOWN &&
	    config_session_state(config, database, user) == SESSION_STATE_OFF)
		return SESSION_ISOLATION_OFF;
	return said;
}

bool config_causal_reads(const struct config *config, const struct config_database *database,
                         const struct config_user *user)
{
	return SAID_WORD(causal_reads, CAUSAL_READS_INHERIT) == CAUSAL_READS_SESSION;
}

int config_max_pinned_servers(const struct config *config, const struct config_database *database,
                              const struct config_user *user)
{
	int said = (int)first_said(CONFIG_INHERIT, SAID(database, max_pinned_servers),
	                           config->max_pinned_servers);
	int size = config_pool_size(config, database, user);

	if (said != CONFIG_PINS_BY_SIZE)
		return said;
	if (size == 0)
		return INT_MAX;
	return size > 1 ? size - 1 : 1;
}

const struct config_list *config_pin_functions(const struct config *config,
                                               const struct config_database *database)
{
	return database && database->pin_functions.text ? &database->pin_functions
	                                                : &config->pin_functions;
}

int config_pool_size(const struct config *config, const struct config_database *database,
                     const struct config_user *user)
{
	return (int)first_said(SAID(user, pool_size), SAID(database, pool_size),
	                       config->default_pool_size);
}

int config_standby_pool_size(const struct config *config, const struct config_database *database,
                             const struct config_user *user)
{
	int said = (int)first_said(CONFIG_INHERIT, SAID(database, standby_pool_size),
	                           config->standby_pool_size);

	return said == CONFIG_POOL_SIZE ? config_pool_size(config, database, user) : said;
}

const char *config_host_check_user(const struct config *config,
                                   const struct config_database *database)
{
	const char *auth_user = config_auth_user(config, database);

	if (*config->host_check_user)
		return config->host_check_user;
	if (database->user)
		return database->user;
	return auth_user ? auth_user : "";
}

bool config_needs_roles(const struct config *config, const struct config_database *database)
{
	return database->target_session_attrs != TARGET_ANY ||
	       config_route_reads(config, database, NULL) != ROUTE_READS_OFF;
}

static const char *text_said(const char *database, const char *setting)
{
	const char *text = database ? database : setting;

	return text && *text ? text : NULL;
}

const char *config_auth_user(const struct config *config, const struct config_database *database)
{
	return text_said(database ? database->auth_user : NULL, config->auth_user);
}

const char *config_auth_query(const struct config *config, const struct config_database *database)
{
	return text_said(database ? database->auth_query : NULL, config->auth_query);
}

const char *config_auth_dbname(const struct config *config, const struct config_database *database)
{
	return text_said(database ? database->auth_dbname : NULL, config->auth_dbname);
}
