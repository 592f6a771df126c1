/* SPDX-License-Identifier: ISC */
/*
 * The keys of entries in [databases], [users] and [peers], and the parsing of their values.
 *
 * Numbers here are always decimal, even with a leading zero, as in these sections of
 * PgBouncer's file. But a text that is not a number is an error, not 0.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config_priv.h"

#include "pgweir/base/text.h"

/* clang-format off */
#define TYPE(owner, field) _Generic(((struct owner *)0)->field, \
	char *: ENTRY_TEXT, int: ENTRY_INT, usec_t: ENTRY_TIME, size_t: ENTRY_BYTES, \
	struct config_list: ENTRY_FUNCTIONS, \
	enum pool_mode: ENTRY_WORD, enum session_state_mode: ENTRY_WORD, \
	enum session_isolation: ENTRY_WORD, \
	enum route_reads: ENTRY_WORD, enum causal_reads: ENTRY_WORD, \
	enum load_balance_hosts: ENTRY_WORD, enum target_session_attrs: ENTRY_WORD)
#define KEY(owner, field, ...) \
	{ .name = #field, .type = TYPE(owner, field), .at = offsetof(struct owner, field), __VA_ARGS__ }
#define DATABASE(field, ...) KEY(config_database, field, __VA_ARGS__)
#define USER(field, ...) KEY(config_user, field, __VA_ARGS__)
#define PEER(field, ...) KEY(config_peer, field, __VA_ARGS__)
#define POOL_MODES .words = value_pool_modes, .unset = POOL_MODE_INHERIT
#define SESSION_STATES .words = value_session_states, .unset = SESSION_STATE_INHERIT
#define ISOLATIONS .words = value_session_isolations, .unset = SESSION_ISOLATION_INHERIT
#define CAUSAL .words = value_causal_reads, .unset = CAUSAL_READS_INHERIT
#define ROUTES .words = value_route_reads, .unset = ROUTE_READS_INHERIT
/* clang-format on */

static const char entry_help[] = "As the setting, for this entry.";
static const char same_help[] = "As the setting, for this entry. Negative = the setting's value.";
static const char above_zero_help[] = "As the setting, for this entry. 0 = the setting's value.";
static const char auth_help[] = "As the setting, for clients of this entry.";
static const char wait_help[] = "As the setting, for this entry. 0 or negative = no limit.";
static const char startup_help[] = "Sent to the server in the startup packet.";

const struct entry_key database_keys[] = {
	DATABASE(application_name, .help = startup_help),
	DATABASE(auth_dbname, .length_max = CONFIG_DATABASE_NAME_MAX,
	         .doubted = CONFIG_CONSOLE_DATABASE,
	         .doubt = "is the console's name: auth_query cannot run for this entry",
	         .help = auth_help),
	DATABASE(auth_query, .help = auth_help),
	DATABASE(auth_user, .length_max = CONFIG_USER_NAME_MAX, .help = auth_help),
	DATABASE(causal_reads, CAUSAL, .help = entry_help),
	DATABASE(client_encoding, .help = startup_help),
	DATABASE(connect_query,
	         .help = "Query that runs on each new server connection. Its errors are logged "
	                 "and otherwise ignored."),
	DATABASE(datestyle, .help = startup_help),
	DATABASE(dbname, .length_max = CONFIG_DATABASE_NAME_MAX, .initial = "the entry's name",
	         .help = "Name of the database on the server."),
	DATABASE(fail_fast, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	DATABASE(host, .is_hosts = true,
	         .help = "Host name, IPv4 or IPv6 address, or directory of a Unix socket (/path "
	                 "or @name); or several of these, separated by commas without blanks. A "
	                 "host that cannot be reached is skipped for server_login_retry as long "
	                 "as another one can be reached. If not set, the Unix socket in "
	                 "unix_socket_dir."),
	DATABASE(late_begin, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	DATABASE(load_balance_hosts, .words = value_load_balances, .initial = "round-robin",
	         .help = "How the host of a new connection is chosen if there are several. "
	                 "round-robin: each in turn; least-connections: the one with the fewest "
	                 "server connections of this process, whichever entries they are of, in "
	                 "turn if several have as few; disable: the same one until a connection "
	                 "to it fails."),
	DATABASE(max_db_client_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(max_db_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(max_pinned_servers, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(max_standby_lag, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(max_standby_lag_bytes, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(min_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(password, .length_max = CONFIG_PASSWORD_MAX,
	         .help = "Password of user (default: the one in auth_file)."),
	DATABASE(pin_functions, .help = entry_help),
	DATABASE(pool_mode, POOL_MODES, .help = entry_help),
	DATABASE(pool_size, .low = LOW_MINUS_INHERITS,
	         .help = "As default_pool_size, for this entry. 0 = no limit; negative = the "
	                 "setting's value."),
	DATABASE(port, .min = 1, .max = 65535, .initial = "5432", .help = "Port of the server."),
	DATABASE(query_wait_timeout, .low = LOW_MINUS_IS_ZERO, .help = wait_help),
	DATABASE(reserve_pool_size, .low = LOW_MINUS_INHERITS,
	         .help = "As the setting, for this entry; reserve_pool is an alias. Negative = "
	                 "the setting's value."),
	DATABASE(route_reads, ROUTES, .help = entry_help),
	DATABASE(server_lifetime, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	DATABASE(session_isolation, ISOLATIONS, .help = entry_help),
	DATABASE(session_state, SESSION_STATES, .help = entry_help),
	DATABASE(standby_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help),
	DATABASE(target_session_attrs, .words = value_targets, .initial = "any",
	         .help = "What the host of a server connection must be, with the words of "
	                 "libpq: any; read-write or read-only, by the default of a new session; "
	                 "primary or standby; prefer-standby, any host if none is a standby. "
	                 "Other hosts of the entry are not used. While no host fits, clients "
	                 "wait."),
	DATABASE(timezone, .help = startup_help),
	DATABASE(user, .length_max = CONFIG_USER_NAME_MAX,
	         .help = "Server user for all clients of this entry: they share one pool, and "
	                 "its connections log in as this user."),
};

const size_t database_keys_count = sizeof(database_keys) / sizeof(database_keys[0]);

const struct entry_key user_keys[] = {
	USER(causal_reads, CAUSAL, .help = entry_help),
	USER(client_idle_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(fail_fast, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	USER(idle_transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(late_begin, .low = LOW_MINUS_INHERITS, .max = 1, .help = same_help),
	USER(max_user_client_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(max_user_connections, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(pin_idle_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(pool_mode, POOL_MODES, .help = entry_help),
	USER(pool_size, .low = LOW_MINUS_INHERITS,
	     .help = "As default_pool_size, for the pools of this user. 0 = no limit; "
	             "negative = the database's value."),
	USER(query_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
	USER(query_wait_timeout, .low = LOW_MINUS_IS_ZERO, .help = wait_help),
	USER(reserve_pool_size, .low = LOW_MINUS_INHERITS, .help = same_help),
	USER(route_reads, ROUTES, .help = entry_help),
	USER(session_isolation, ISOLATIONS, .help = entry_help),
	USER(session_state, SESSION_STATES, .help = entry_help),
	USER(transaction_timeout, .low = LOW_ZERO_INHERITS, .help = above_zero_help),
};

const size_t user_keys_count = sizeof(user_keys) / sizeof(user_keys[0]);

const struct entry_key peer_keys[] = {
	PEER(host, .length_max = CONFIG_PEER_HOST_MAX,
	     .help = "Host name, IPv4 or IPv6 address, or Unix socket directory (/path or "
	             "@name) of the peer. Required."),
	PEER(pool_size, .low = LOW_MINUS_INHERITS,
	     .help = "Maximum number of cancel requests that are being sent to the peer at "
	             "the same time; further ones wait. 0 = no limit. If not set, or "
	             "negative: as default_pool_size."),
	PEER(port, .min = 1, .max = 65535, .initial = "6432",
	     .help = "Port of the peer, also used in the name of its Unix socket."),
};

const size_t peer_keys_count = sizeof(peer_keys) / sizeof(peer_keys[0]);

static const struct {
	const char *alias;
	const char *name;
} aliases[] = {
	{ "reserve_pool", "reserve_pool_size" },
};

union field {
	void *at;
	char **text;
	int *number;
	usec_t *time;
	size_t *bytes;
	unsigned int *word;
	struct config_list *list;
};

static union field field_of(void *entry, const struct entry_key *key)
{
	return (union field){ .at = (char *)entry + key->at };
}

void entry_reset(void *entry, const struct entry_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		union field field = field_of(entry, &keys[i]);

		if (keys[i].type == ENTRY_WORD)
			*field.word = keys[i].unset;
		else if (keys[i].type == ENTRY_TIME)
			*field.time = CONFIG_INHERIT;
		else if (keys[i].type == ENTRY_BYTES)
			*field.bytes = (size_t)CONFIG_INHERIT;
		else if (keys[i].type == ENTRY_INT)
			*field.number = CONFIG_INHERIT;
	}
}

void config_entry_free(void *entry, const struct entry_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		union field field = field_of(entry, &keys[i]);

		if (keys[i].type == ENTRY_FUNCTIONS)
			value_list_free(field.list);
		if (keys[i].type != ENTRY_TEXT || !*field.text)
			continue;
		explicit_bzero(*field.text, strlen(*field.text));
		free(*field.text);
		*field.text = NULL;
	}
}

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
	if (count > CONFIG_HOSTS_MAX)
		return err_set(err, ERR_CONFIG, "has more than %d hosts", CONFIG_HOSTS_MAX);
	return true;
}

/* Adds a warning; notes may be NULL. */
__attribute__((format(printf, 3, 4))) static void
add_note(struct buf *notes, const struct entry_key *key, const char *format, ...)
{
	va_list args;

	if (!notes)
		return;
	buf_printf(notes, "%s%s: ", notes->count ? "; " : "", key->name);
	va_start(args, format);
	buf_vprintf(notes, format, args);
	va_end(args);
}

static bool put_text(char **field, const struct entry_key *key, const char *text, struct buf *notes,
                     struct err *err)
{
	char *copy;

	if (key->is_hosts && !judge_hosts(text, err))
		return false;
	if (key->length_max && strlen(text) > key->length_max)
		return err_set(err, ERR_CONFIG, "is longer than %zu bytes", key->length_max);
	if (key->doubted && strcmp(text, key->doubted) == 0)
		add_note(notes, key, "\"%s\" %s", text, key->doubt);
	copy = strdup(text);
	if (!copy)
		return err_set(err, ERR_MEMORY, "no memory");
	free(*field);
	*field = copy;
	return true;
}

/* The meaning of a small number, by the key's row. */
static int64_t low_meaning(enum entry_low low, int64_t value)
{
	if (low == LOW_MINUS_INHERITS && value < 0)
		return CONFIG_INHERIT;
	if (low == LOW_ZERO_INHERITS && value <= 0)
		return CONFIG_INHERIT;
	if (low == LOW_MINUS_IS_ZERO && value < 0)
		return 0;
	return value;
}

static bool put_int(int *field, const struct entry_key *key, const char *text, struct buf *notes,
                    struct err *err)
{
	int64_t value, max = key->max ? key->max : INT32_MAX;

	if (!value_int(text, 10, &value, err))
		return false;
	if (value > max && key->low != LOW_REFUSED) {
		add_note(notes, key, "must be from %lld to %lld, %lld is used", (long long)key->min,
		         (long long)max, (long long)max);
		value = max;
	}
	if (value > max || (key->low == LOW_REFUSED && value < key->min))
		return err_set(err, ERR_CONFIG, "must be from %lld to %lld", (long long)key->min,
		               (long long)max);
	*field = (int)low_meaning(key->low, value);
	return true;
}

static bool put_time(usec_t *field, const struct entry_key *key, const char *text, struct err *err)
{
	usec_t value;

	if (!value_time(text, USEC_PER_SEC, 10, &value, err))
		return false;
	*field = low_meaning(key->low, value);
	return true;
}

static bool put_bytes(size_t *field, const struct entry_key *key, const char *text, struct err *err)
{
	int64_t value;

	if (!value_bytes(text, &value, err))
		return false;
	*field = (size_t)low_meaning(key->low, value);
	return true;
}

static bool put_word(unsigned int *field, const struct entry_key *key, const char *text,
                     struct err *err)
{
	int at = value_word(text, key->words);

	if (at < 0)
		return value_refuse_word(text, key->words, err);
	*field = (unsigned int)at;
	return true;
}

static bool put_functions(struct config_list *field, const char *text, struct err *err)
{
	struct config_list list;

	if (!value_list(text, false, &list, err))
		return false;
	if (!value_functions(&list, err)) {
		value_list_free(&list);
		return false;
	}
	value_list_free(field);
	*field = list;
	return true;
}

static bool put(void *entry, const struct entry_key *key, const char *text, struct buf *notes,
                struct err *err)
{
	union field field = field_of(entry, key);

	switch (key->type) {
	case ENTRY_TEXT:
		return put_text(field.text, key, text, notes, err);
	case ENTRY_INT:
		return put_int(field.number, key, text, notes, err);
	case ENTRY_TIME:
		return put_time(field.time, key, text, err);
	case ENTRY_BYTES:
		return put_bytes(field.bytes, key, text, err);
	case ENTRY_WORD:
		return put_word(field.word, key, text, err);
	case ENTRY_FUNCTIONS:
		return put_functions(field.list, text, err);
	}
	return false;
}

static const struct entry_key *find_key(const struct entry_key *keys, size_t count,
                                        const char *name)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
		if (strcmp(aliases[i].alias, name) == 0)
			name = aliases[i].name;
	}
	for (size_t i = 0; i < count; i++) {
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	}
	return NULL;
}

static bool refuse_key(const struct entry_key *keys, size_t count, const char *name,
                       struct err *err)
{
	struct nearest nearest = nearest_begin(name);

	for (size_t i = 0; i < count; i++)
		nearest_offer(&nearest, keys[i].name);
	if (nearest.found)
		return err_set(err, ERR_CONFIG, "unknown key \"%s\": did you mean \"%s\"?", name,
		               nearest.found);
	return err_set(err, ERR_CONFIG, "unknown key \"%s\"", name);
}

bool entry_read(void *entry, const struct entry_key *keys, size_t count, char *text,
                struct buf *notes, struct err *err)
{
	struct pairs pairs = { .at = text };
	enum pairs_result result;

	while ((result = pairs_next(&pairs, err)) == PAIRS_ONE) {
		const struct entry_key *key = find_key(keys, count, pairs.key);

		if (!key)
			return refuse_key(keys, count, pairs.key, err);
		if (!put(entry, key, pairs.value, notes, err))
			return err_prefix(err, "%s: ", key->name);
	}
	return result == PAIRS_END;
}
