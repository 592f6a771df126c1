/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the configuration: any bytes as a file, and everything derived from it.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "pgweir/config/entries.h"
#include "pgweir/config/settings.h"
#include "../lib/config_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct config *config)
{
	const struct config_database *database = NULL;
	const struct config_user *user = NULL;
	char buffer[SETTING_VALUE_SIZE];

	for (size_t i = 0; i < settings_count; i++)
		assert(setting_value(config, &settings[i], buffer) || !settings[i].initial);
	while ((database = config_entry_next(config, ENTRY_DATABASE, database))) {
		assert(config_entry(config, ENTRY_DATABASE, database->name) == database);
		assert(config_database_same_server(database, database, database->name));
		assert(config_pool_size(config, database, NULL) >= 0);
		assert(config_server_lifetime(config, database) >= 0);
		assert(config_pool_mode(config, database, NULL) != POOL_MODE_INHERIT);
	}
	while ((user = config_entry_next(config, ENTRY_USER, user))) {
		assert(config_entry(config, ENTRY_USER, user->name) == user);
		assert(config_query_wait_timeout(config, NULL, user) >= 0);
		assert(config_max_user_connections(config, user) >= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct problems problems = { 0 };
	const struct config *config, *kept;
	struct buf differ = { 0 };

	if (memmem(data, size, "%include", 8)) /* of any file of this machine */
		return 0;
	config = config_parse(bytes_of(data, size), "fuzz", &problems);
	assert(!config == problems_any(&problems));
	if (config) {
		walk(config);
		kept = config_keep_boot_only(config, config, &differ);
		assert(kept && differ.count == 0);
		config_unref(&kept);
	}
	config_unref(&config);
	problems_done(&problems);
	buf_free(&differ);
	return 0;
}
