/* SPDX-License-Identifier: ISC */
/*
 * SHOW of the rules of auth_type hba: HBA, IDENT. Their columns are those of PostgreSQL's
 * pg_hba_file_rules and pg_ident_file_mappings, with arrays as text. A rule is found by its
 * number, so that a reload between two rows does no harm.
 */
#include "show_priv.h"

#include "pgweir/base/banned.h"

/* ---- HBA ---- */

struct hba_show_row {
	int64_t rule_number, line_number;
	const char *file_name, *type, *database, *user_name, *address, *netmask, *auth_method,
	    *options, *error;
	char buffer[2][ADDRESS_TEXT_SIZE]; /* for address and netmask */
};
_Static_assert(sizeof(struct hba_show_row) <= ROW_SIZE_MAX, "a row is too large");

#define HBA_TEXT(field, help) COLUMN(struct hba_show_row, VALUE_TEXT, field, help)

static const struct column hba_columns[] = {
	COLUMN(struct hba_show_row, VALUE_INT4, rule_number,
	       "Position of the rule. The first rule that matches a client is used."),
	HBA_TEXT(file_name, "File that contains the line."),
	COLUMN(struct hba_show_row, VALUE_INT4, line_number, "Line number in the file."),
	HBA_TEXT(type, "Connection type: local, host, hostssl, ..."),
	HBA_TEXT(database, "Databases that the rule applies to, as an array."),
	HBA_TEXT(user_name, "Users that the rule applies to, as an array."),
	HBA_TEXT(address, "Client address: an IP address, all, samehost, samenet, or a host name."),
	HBA_TEXT(netmask, "Netmask of an IP address."),
	HBA_TEXT(auth_method, "Authentication method."),
	HBA_TEXT(options, "Options of the authentication method, as an array."),
	HBA_TEXT(error, "Why the rule never allows a login; NULL if it can."),
};

#undef HBA_TEXT

/* Moves all lists of a row to the cursor's buffer, each with a terminating zero. */
static void take_lists(struct cursor *cursor, struct hba_show_row *row, struct hba_lists *lists)
{
	size_t user, options;

	buf_clear(&cursor->text);
	buf_add_cstr(&cursor->text, buf_text(&lists->database));
	user = cursor->text.count;
	buf_add_cstr(&cursor->text, buf_text(&lists->user));
	options = cursor->text.count;
	buf_add_cstr(&cursor->text, buf_text(&lists->options));
	if (buf_ok(&cursor->text)) {
		row->database = cursor->text.at;
		row->user_name = cursor->text.at + user;
		row->options = lists->options.count ? cursor->text.at + options : NULL;
	}
	buf_free(&lists->database);
	buf_free(&lists->user);
	buf_free(&lists->options);
}

static bool next_rule(struct cursor *cursor, void *at)
{
	const struct hba *hba = show_source_first(cursor->source)->clients->hba;
	struct hba_show_row *row = at;
	struct hba_lists lists = { 0 };
	struct hba_row rule;

	if (!hba || !hba_row(hba, cursor->index, &rule, &lists))
		return false;
	row->rule_number = (int64_t)++cursor->index;
	row->file_name = rule.file;
	row->line_number = rule.line;
	row->type = rule.type;
	row->auth_method = rule.method;
	row->address = rule.address;
	row->error = rule.error;
	if (rule.address == lists.address)
		row->address = memcpy(row->buffer[0], lists.address, ADDRESS_TEXT_SIZE);
	if (rule.netmask)
		row->netmask = memcpy(row->buffer[1], lists.netmask, ADDRESS_TEXT_SIZE);
	take_lists(cursor, row, &lists);
	return true;
}

const struct show show_hba = { "HBA",
	                       next_rule,
	                       COLUMNS(hba_columns),
	                       "Rules of auth_hba_file, if auth_type is hba.",
	                       CONSOLE_STATS,
	                       SHOW_ALONE };

/* ---- IDENT ---- */

struct ident_show_row {
	int64_t map_number, line_number;
	const char *file_name, *map_name, *sys_name, *pg_username;
};

static const struct column ident_columns[] = {
	COLUMN(struct ident_show_row, VALUE_INT4, map_number,
	       "Position of the map line among all lines, from 1."),
	COLUMN(struct ident_show_row, VALUE_TEXT, file_name, "File that contains the line."),
	COLUMN(struct ident_show_row, VALUE_INT4, line_number, "Line number in the file."),
	COLUMN(struct ident_show_row, VALUE_TEXT, map_name, "Name of the map."),
	COLUMN(struct ident_show_row, VALUE_TEXT, sys_name,
	       "System user name, or the name in a client certificate."),
	COLUMN(struct ident_show_row, VALUE_TEXT, pg_username,
	       "Database user that the system user may log in as."),
};

static bool next_mapping(struct cursor *cursor, void *at)
{
	const struct hba *hba = show_source_first(cursor->source)->clients->hba;
	struct ident_show_row *row = at;
	struct ident_row mapping;

	if (!hba || !hba_ident_row(hba, cursor->index, &mapping))
		return false;
	*row = (struct ident_show_row){ .map_number = (int64_t)++cursor->index,
		                        .line_number = mapping.line,
		                        .file_name = mapping.file,
		                        .map_name = mapping.map,
		                        .sys_name = mapping.system_user,
		                        .pg_username = mapping.user };
	return true;
}

const struct show show_ident = { "IDENT",
	                         next_mapping,
	                         COLUMNS(ident_columns),
	                         "User name maps of auth_ident_file, if auth_type is hba.",
	                         CONSOLE_STATS,
	                         SHOW_ALONE };
