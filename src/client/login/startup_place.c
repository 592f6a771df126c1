/* SPDX-License-Identifier: ISC */
/*
 * The loop for a client: its startup packet says who it is, and which pool it will use.
 *
 *   the console's database    the loop that has the console
 *   a pool with few servers   one of the pool's homes (pool/homes.h)
 *   all others                the loop to which the connection was dealt
 *
 * The client is not authenticated yet, so this looks at settings only, and costs no memory.
 */
#include "login_priv.h"

#include "pgweir/config/entries.h"
#include "pgweir/pgwire/startup.h"
#include "pgweir/pool/homes.h"

struct names {
	const char *user, *database; /* in the packet */
};

/* The same names as take_pairs() finds. false: there are none. */
static bool read_who(struct bytes packet, struct names *names)
{
	struct bytes list = startup_pairs(packet);
	const char *name, *value;
	enum walk_result result;
	struct err err;

	*names = (struct names){ "", "" };
	while ((result = startup_next(&list, &name, &value, &err)) == WALK_ITEM) {
		if (strcmp(name, "user") == 0)
			names->user = value;
		else if (strcmp(name, "database") == 0)
			names->database = value;
	}
	if (!*names->database)
		names->database = names->user;
	return result != WALK_BAD && *names->user;
}

/* The number of the loop in which its pool is at home; its own loop if that will do. */
static unsigned int home_of(const struct client *client, const struct names *names)
{
	const struct clients_with *with = &client->clients->with;
	const struct config *config = client->clients->config;
	const struct config_database *entry = config_database_find(config, names->database);
	unsigned int count;
	const char *role;

	if (!entry)
		entry = config_database_auto(config);
	if (!entry)
		return with->loop_number;
	role = entry->user ? entry->user : names->user;
	count = homes_count(with->homes,
	                    config_pool_size(config, entry, config_user_find(config, role)),
	                    config->servers_per_loop);
	if (count == with->loop_count)
		return with->loop_number;
	return with->pick_home(with->arg, homes_first(with->homes, names->database, role), count);
}

/* A client moves by a copy of its descriptor: not when descriptors run short. */
static bool goes_home(struct client *client, const struct names *names)
{
	const struct clients_with *with = &client->clients->with;
	unsigned int home = home_of(client, names);

	return home != with->loop_number && !unauthenticated_is_short(client) &&
	       with->send_elsewhere(with->arg, client, CLIENT_GOES_HOME, home);
}

bool startup_goes(struct client *client, struct bytes packet)
{
	const struct clients_with *with = &client->clients->with;
	struct names names;

	if (!with->send_elsewhere || client->login->has_moved || !read_who(packet, &names))
		return false;
	if (strcmp(names.database, CONFIG_CONSOLE_DATABASE) == 0)
		return with->send_elsewhere(with->arg, client, CLIENT_GOES_TO_CONSOLE, 0);
	return with->homes && goes_home(client, &names);
}
