/* SPDX-License-Identifier: ISC */
/*
 * The settings as a table, found by name.
 */
#include "pgweir/config/settings.h"

#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "config_priv.h"

/* clang-format off */
#define SETTING(type_, field, ...) \
	{ .name = #field, .type = SETTING_TYPE(config, field), .at = offsetof(struct config, field), \
	  __VA_ARGS__ },
#define LIVE .reload = RELOAD_LIVE
#define BOOT .reload = RELOAD_BOOT
#define GROUP(name) .group = GROUP_##name
/* clang-format on */

#define WORD_OF(name, word, missing) word,
#define MISSING_OF(name, word, missing) missing,

static const char *const auth_types[] = { AUTH_METHODS_OF_SETTING(WORD_OF) NULL };
static const char *const auth_types_missing[] = { AUTH_METHODS_OF_SETTING(MISSING_OF) NULL };
static const char *const fair_bys[] = { "none", "user", "application", "address", NULL };
static const char *const log_formats[] = { "text", "json", NULL };
static const char *const proxy_protocols[] = { "off", "accept", "require", NULL };
static const char *const tls_modes[] = { "disable",   "allow",       "prefer", "require",
	                                 "verify-ca", "verify-full", NULL };
static const char *const required_methods[] = { "password", "md5", "scram-sha-256", "none", NULL };
static const char *const console_versions[] = { "1.23", "1.24", "1.25", "1.26", NULL };
static const char *const drain_signals[] = { "SIGINT", "SIGTERM", NULL };
static const char *const tls_records_by[] = { "own", "openssl", NULL };
static const char *const tls_negotiations[] = { "postgres", "direct", NULL };

const struct setting settings[] = {
#include "pgweir/config/settings_table.h"
};

static int compare_name(const void *name, const void *setting)
{
	return strcmp(name, ((const struct setting *)setting)->name);
}

const struct setting *setting_find_in(const struct setting *rows, size_t count, const char *name)
{
	return bsearch(name, rows, count, sizeof(rows[0]), compare_name);
}

bool setting_refuse_in(const struct setting *rows, size_t count, const char *what, const char *name,
                       struct err *err)
{
	enum err_code code = rows == settings ? ERR_NO_PARAMETER : ERR_CONFIG;
	struct nearest nearest = nearest_begin(name);

	for (size_t i = 0; i < count; i++)
		nearest_offer(&nearest, rows[i].name);
	if (nearest.found)
		return err_set(err, code, "%s \"%s\": did you mean \"%s\"?", what, name,
		               nearest.found);
	return err_set(err, code, "%s \"%s\"", what, name);
}

const struct setting *setting_find(const char *name)
{
	/* PgBouncer's name for it on Windows, found in old files. */
	if (strcmp(name, "service_name") == 0)
		name = "job_name";
	return setting_find_in(settings, settings_count, name);
}

bool setting_refuse(const char *name, struct err *err)
{
	return setting_refuse_in(settings, settings_count, "unknown setting", name, err);
}
