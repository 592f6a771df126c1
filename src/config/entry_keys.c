/* SPDX-License-Identifier: ISC */
/*
 * The keys of the entries of all sections but [pgbouncer], and the parsing of their values: lists
 * of hosts, and where these are found, too.
 *
 * Numbers here are always decimal, even with a leading zero, as in these sections of
 * PgBouncer's file. But a text that is not a number is an error, not 0.
 */
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/text.h"

#include "config_priv.h"

/* clang-format off */
#define KEY(owner, field, ...) \
	{ .name = #field, .type = SETTING_TYPE(owner, field), .at = offsetof(struct owner, field), \
	  .is_of_entry = true, __VA_ARGS__ },
/* clang-format on */

static const char entry_help[] = "As the setting, for this entry.";
static const char same_help[] = "As the setting, for this entry. Negative = the setting's value.";
static const char above_zero_help[] = "As the setting, for this entry. 0 = the setting's value.";
static const char auth_help[] = "As the setting, for clients of this entry.";
static const char wait_help[] = "As the setting, for this entry. 0 or negative = no limit.";
static const char listener_help[] = "As the setting, for clients of this listener.";
static const char application_help[] =
    "As the setting, for clients of this application_name, if it is shorter than what applies to "
    "them without this line. 0 = nothing else than that.";
static const char guaranteed_help[] =
    "While it has fewer servers than that, its pools come before others where a limit on servers "
    "that pools share is reached (max_server_connections and the like). What it does not use, "
    "others may use. The sum of all entries must not be above max_server_connections.";
static const char startup_help[] = "Sent to the server in the startup packet.";

/* ---- hosts ---- */

bool config_host_next(const char **list, struct bytes *host)
{
	size_t count;

	if (!*list)
		return false;
	count = strcspn(*list, ",");
	*host = bytes_of(*list, count);
	*list = (*list)[count] ? *list + count + 1 : NULL;
	return true;
}

bool config_host_at(const char *list, unsigned int number, struct bytes *host)
{
	do {
		if (!config_host_next(&list, host))
			return false;
	} while (number-- > 0);
	return true;
}

unsigned int config_host_count(const char *list)
{
	unsigned int count = 1;

	while ((list = strchr(list, ','))) {
		list++;
		count++;
	}
	return count;
}

int config_host_number(const char *list, const char *before, unsigned int number)
{
	struct bytes old, host;

	if (!config_host_at(before, number, &old))
		return -1;
	for (int i = 0; config_host_next(&list, &host); i++) {
		if (bytes_equal(host, old))
			return i;
	}
	return -1;
}

/* Digits of a port at the end of a host; 0: it is none. */
static int port_at(const char *digits, const char *end)
{
	int port = 0;

	while (digits < end && *digits >= '0' && *digits <= '9' && port <= UINT16_MAX)
		port = port * 10 + *digits++ - '0';
	return digits == end && port <= UINT16_MAX ? port : 0;
}

int config_host_port(struct bytes *host, int port)
{
	const char *colon = memrchr(host->at, ':', host->count);
	size_t count = colon ? (size_t)(colon - host->at) : 0;
	int own = count ? port_at(colon + 1, host->at + host->count) : 0;

	if (!own)
		return port;
	if (host->at[0] == '[' && colon[-1] == ']' && count > 2)
		*host = bytes_of(host->at + 1, count - 2);
	else if (!memchr(host->at, ':', count)) /* else it is an IPv6 address */
		*host = bytes_of(host->at, count);
	else
		return port;
	return own;
}

/* ---- hosts_from ---- */

static bool take_prefix(struct bytes *rest, const char *prefix)
{
	size_t count = strlen(prefix);

	if (rest->count < count || memcmp(rest->at, prefix, count) != 0)
		return false;
	*rest = bytes_skip(*rest, count);
	return true;
}

static struct bytes take_part(struct bytes *rest, size_t count)
{
	struct bytes part = bytes_of(rest->at, count);

	*rest = bytes_skip(*rest, count);
	return part;
}

static bool read_patroni(struct bytes rest, struct hosts_source *source)
{
	const char *at;

	source->kind = HOSTS_FROM_PATRONI;
	source->is_tls = take_prefix(&rest, "https://");
	if (!source->is_tls && !take_prefix(&rest, "http://"))
		return false;
	at = rest.count ? memchr(rest.at, '/', rest.count) : NULL;
	source->hosts = take_part(&rest, at ? (size_t)(at - rest.at) : rest.count);
	source->path = rest;
	at = memrchr(source->hosts.at, '@', source->hosts.count);
	if (at) {
		source->login = take_part(&source->hosts, (size_t)(at - source->hosts.at));
		source->hosts = bytes_skip(source->hosts, 1);
	}
	return source->hosts.count > 0;
}

struct bytes hosts_source_host(const struct hosts_source *source, unsigned int number)
{
	struct bytes rest = source->hosts, host;

	do {
		host = bytes_take_until(&rest, ',');
	} while (number-- > 0 && rest.count);
	return host;
}

unsigned int hosts_source_count(const struct hosts_source *source)
{
	unsigned int count = 1;

	for (size_t i = 0; i < source->hosts.count; i++)
		count += source->hosts.at[i] == ',';
	return count;
}

bool hosts_source_read(const char *text, struct hosts_source *source, struct err *err)
{
	struct bytes rest = bytes_text(text);
	bool is_good = rest.count < HOSTS_SOURCE_MAX;

	*source = (struct hosts_source){ .kind = HOSTS_FROM_SRV };
	for (const char *at = text; is_good && *at; at++)
		is_good = *at > ' ' && *at < 127;
	if (is_good && take_prefix(&rest, "srv:"))
		source->path = rest;
	else if (is_good && take_prefix(&rest, "patroni:"))
		is_good = read_patroni(rest, source);
	else
		is_good = false;
	if (is_good && (source->kind == HOSTS_FROM_PATRONI || source->path.count))
		return true;
	return err_set(err, ERR_CONFIG,
	               "must be srv:_postgresql._tcp.name or patroni:http://host:8008/cluster");
}

bool hosts_source_names_host(struct bytes name)
{
	for (size_t i = 0; i < name.count; i++) {
		char c = name.at[i];
		bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!is_letter && !(c >= '0' && c <= '9') && !memchr("-._:%", c, 5))
			return false;
	}
	return name.count > 0;
}

void hosts_source_show(const struct hosts_source *source, struct strbuf *out)
{
	if (source->kind == HOSTS_FROM_SRV) {
		strbuf_add(out, "srv:");
	} else {
		strbuf_add(out, source->is_tls ? "patroni:https://" : "patroni:http://");
		strbuf_add_bytes(out, source->hosts.at, source->hosts.count);
	}
	strbuf_add_bytes(out, source->path.at, source->path.count);
}

/* ---- what the texts of hosts must be ---- */

static bool judge_hosts(const char *text, struct err *err)
{
	struct bytes host;
	unsigned int count = 0;

	if (strpbrk(text, " \t"))
		return err_set(err, ERR_CONFIG, "contains a blank (separate hosts by commas only)");
	while (config_host_next(&text, &host)) {
		if (host.count == 0)
			return err_set(err, ERR_CONFIG, "contains an empty name");
		count++;
	}
	return count <= CONFIG_HOSTS_MAX ||
	       err_set(err, ERR_CONFIG, "has more than %d hosts", CONFIG_HOSTS_MAX);
}

static bool judge_source(const char *text, struct err *err)
{
	struct hosts_source source;

	return hosts_source_read(text, &source, err);
}

/* ---- rows ---- */

static const struct setting database_keys[] = {
#define DATABASE(type, field, ...) KEY(config_database, field, __VA_ARGS__)
#include "pgweir/config/entry_table.h"
};

static const struct setting user_keys[] = {
#define USER(type, field, ...) KEY(config_user, field, __VA_ARGS__)
#include "pgweir/config/entry_table.h"
};

static const struct setting peer_keys[] = {
#define PEER(type, field, ...) KEY(config_peer, field, __VA_ARGS__)
#include "pgweir/config/entry_table.h"
};

static const struct setting listener_keys[] = {
#define LISTENER(type, field, ...) KEY(config_listener, field, __VA_ARGS__)
#include "pgweir/config/entry_table.h"
};

static const struct setting application_keys[] = {
#define APPLICATION(type, field, ...) KEY(config_application, field, __VA_ARGS__)
#include "pgweir/config/entry_table.h"
};

static const struct setting statement_keys[] = {
#define STATEMENT(type, field, ...) KEY(config_statement, field, __VA_ARGS__)
#include "pgweir/config/entry_table.h"
};

#define KIND(word, rows, most)                                                    \
	{                                                                         \
		.what = (word), .section = word "s", .keys = (rows),              \
		.key_count = sizeof(rows) / sizeof((rows)[0]), .name_max = (most) \
	}

const struct entry_kind entry_kinds[ENTRY_KINDS] = {
	[ENTRY_DATABASE] = KIND("database", database_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_USER] = KIND("user", user_keys, CONFIG_USER_NAME_MAX),
	[ENTRY_PEER] = KIND("peer", peer_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_LISTENER] = KIND("listener", listener_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_APPLICATION] = KIND("application", application_keys, CONFIG_DATABASE_NAME_MAX),
	[ENTRY_STATEMENT] = KIND("statement", statement_keys, CONFIG_DATABASE_NAME_MAX),
};

void entry_reset(void *entry, enum entry_kind_id kind)
{
	for (size_t i = 0; i < entry_kinds[kind].key_count; i++)
		field_reset(entry, &entry_kinds[kind].keys[i], NULL);
}

void entry_clear(void *entry, enum entry_kind_id kind)
{
	for (size_t i = 0; i < entry_kinds[kind].key_count; i++)
		field_free(entry, &entry_kinds[kind].keys[i]);
}

/*
 * ---- pairs: the right side of a line, `key=value key='a value'` ----
 *
 * Hard here: an unquoted value may contain any character except blanks, even quotes, ; and #
 * (e.g. a password). So a comment can follow only a quoted value. And if a password contains a
 * blank but was not quoted, its second half must not appear in an error text.
 */

#define BLANKS " \t"

struct pairs {
	char *at;    /* set it to the text, which will be modified */
	char *key;   /* the current pair, inside the text; NULL before the first and at the end */
	char *value; /* of the key, by take_value(); never empty */
	bool is_quoted;
};

#define QUOTES_HINT "(a value that holds blanks, or has a comment behind it, needs single quotes)"

static char *skip_blanks(char *at) { return at + strspn(at, BLANKS); }

/* Parses the next key. false: *err does not show what may be the rest of a value. */
static bool take_key(struct pairs *pairs, struct err *err)
{
	char *key = skip_blanks(pairs->at), *before = pairs->key;
	char *end = key + strcspn(key, BLANKS "='");
	char *at = skip_blanks(end);

	pairs->key = *key ? key : NULL;
	if (!*key)
		return true;
	if (end == key || *at != '=')
		return before ? err_set(err, ERR_CONFIG,
		                        "key=value is expected after %s " QUOTES_HINT, before)
		              : err_set(err, ERR_CONFIG, "key=value is expected");
	*end = 0;
	pairs->at = skip_blanks(at + 1);
	return true;
}

/*
 * Parses the value of the key. Without quotes it ends at a blank. In single quotes it may contain
 * blanks, and a doubled quote means one quote; a comment may follow. false: *err does not show it.
 */
static bool take_value(struct pairs *pairs, struct err *err)
{
	char *at = pairs->at;

	pairs->value = at;
	pairs->is_quoted = *at == '\'';
	if (pairs->is_quoted) {
		if (!value_take_quoted(&at))
			return err_set(err, ERR_CONFIG, "%s: unterminated quote", pairs->key);
		if (*at && !strchr(BLANKS, *at))
			return err_set(err, ERR_CONFIG, "%s: a blank must follow the quotes",
			               pairs->key);
		at = skip_blanks(at);
		if (*at == ';' || *at == '#')
			at += strlen(at);
	} else {
		at += strcspn(at, BLANKS);
		if (*at)
			*at++ = 0;
	}
	pairs->at = at;
	return *pairs->value ||
	       err_set(err, ERR_CONFIG, "%s: the value is missing (omit the key for its default)",
	               pairs->key);
}

/* ---- keys ---- */

/* Several ports are for as many hosts, as in libpq. The number is that of the first one. */
static bool give_ports(struct config_database *database, const char *ports, struct err *err)
{
	const struct entry_kind *kind = &entry_kinds[ENTRY_DATABASE];
	const struct setting *key = setting_find_in(kind->keys, kind->key_count, "port");
	const char *hosts = database->host;
	struct buf list = { 0 };
	struct bytes host, port;
	int first = 0;

	while (hosts && ports) {
		char text[16] = "";
		bool is_v6;

		config_host_next(&hosts, &host);
		config_host_next(&ports, &port);
		config_host_port(&host, 0);
		is_v6 = memchr(host.at, ':', host.count) != NULL;
		if (port.count < sizeof(text))
			memcpy(text, port.at, port.count);
		if (!field_put(database, key, text, NULL, err)) {
			buf_free(&list);
			return err_prefix(err, "port: ");
		}
		first = first ? first : database->port;
		buf_printf(&list, "%s%s%.*s%s:%d", list.count ? "," : "", is_v6 ? "[" : "",
		           (int)host.count, host.at, is_v6 ? "]" : "", database->port);
	}
	database->port = first;
	if (hosts || ports || !buf_ok(&list)) {
		buf_free(&list);
		return err_set(err, ERR_CONFIG, "port: there must be as many ports as hosts");
	}
	free(database->host);
	database->host = strdup(buf_text(&list));
	buf_free(&list);
	return database->host || err_set(err, ERR_MEMORY, "no memory");
}

bool entry_read(void *entry, enum entry_kind_id kind, char *text, struct buf *notes,
                struct err *err)
{
	const struct setting *keys = entry_kinds[kind].keys, *key;
	size_t count = entry_kinds[kind].key_count;
	struct pairs pairs = { .at = text };
	const char *ports = NULL;
	struct err note;

	for (;;) {
		bool may_be_secret =
		    pairs.key && strcmp(pairs.key, "password") == 0 && !pairs.is_quoted;

		if (!take_key(&pairs, err))
			return false;
		if (!pairs.key)
			return !ports || give_ports(entry, ports, err);
		key = setting_find_in(keys, count, pairs.key);
		if (!key && strcmp(pairs.key, "reserve_pool") == 0) /* an alias */
			key = setting_find_in(keys, count, "reserve_pool_size");
		if (!key && may_be_secret) /* as the rest of a password that holds a blank */
			return err_set(err, ERR_CONFIG, "unknown key after password " QUOTES_HINT);
		if (!key)
			return setting_refuse_in(keys, count, "unknown key", pairs.key, err);
		if (!take_value(&pairs, err))
			return false;
		if (kind == ENTRY_DATABASE && strcmp(key->name, "port") == 0) {
			ports = strchr(pairs.value, ',') ? pairs.value : NULL;
			if (ports)
				continue;
		}
		if (!field_put(entry, key, pairs.value, &note, err))
			return err_prefix(err, "%s: ", key->name);
		if (note.code != ERR_NONE && notes)
			buf_printf(notes, "%s%s: %s", notes->count ? "; " : "", key->name,
			           note.text);
	}
}
