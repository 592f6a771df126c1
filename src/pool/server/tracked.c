/* SPDX-License-Identifier: ISC */
/*
 * The tracked parameters.
 */
#include "pgweir/pool/server/tracked.h"

#include <strings.h>

/*
 * Always tracked, in the order of the welcome: all parameters that some version of PostgreSQL
 * reports and that a client can change. What a server does not report is not in its welcome.
 */
static const char *const always[] = {
	"DateStyle",        "client_encoding",     "TimeZone",    "standard_conforming_strings",
	"application_name", "IntervalStyle",       "search_path", "default_transaction_read_only",
	"scram_iterations", SESSION_AUTHORIZATION,
};
#define ALWAYS_COUNT (sizeof(always) / sizeof(always[0]))

const char *tracked_at(const struct config *config, size_t index)
{
	const struct config_list *extra = &config->track_extra_parameters;

	if (index < ALWAYS_COUNT)
		return always[index];
	return index - ALWAYS_COUNT < extra->count ? extra->names[index - ALWAYS_COUNT] : NULL;
}

const char *tracked_find(const struct config *config, const char *name)
{
	const char *tracked;

	for (size_t i = 0; (tracked = tracked_at(config, i)); i++) {
		if (strcasecmp(tracked, name) == 0)
			return tracked;
	}
	return NULL;
}
