/* SPDX-License-Identifier: ISC */
/*
 * Reads the text of hosts_from: where hosts are found.
 */
#include "pgweir/config/hosts_from.h"

#include <string.h>

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
