/* SPDX-License-Identifier: ISC */
/*
 * Lines of the log as JSON: {"time":..,"pid":..,"level":..,"peer":..,"message":..}
 */
#include "log_json_priv.h"

#include <string.h>
#include <time.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/json.h"

#include "pgweir/base/banned.h"

static void add_member(struct buf *out, const char *name, struct bytes value)
{
	buf_printf(out, ",\"%s\":", name);
	json_add_text(out, value);
}

static void add_time(struct buf *out)
{
	usec_t now = wall_now();
	time_t second = now / USEC_PER_SEC;
	char words[64];
	struct tm local;

	localtime_r(&second, &local);
	strftime(words, sizeof(words), "%Y-%m-%dT%H:%M:%S", &local);
	buf_printf(out, "{\"time\":\"%s.%03u", words, (unsigned int)(now % USEC_PER_SEC / 1000));
	/* strftime() gives +0100, RFC 3339 wants +01:00 */
	strftime(words, sizeof(words), "%z", &local);
	buf_printf(out, "%.3s:%.2s\"", words, words + 3);
}

/* The host in an address: 127.0.0.1:5, [::1]:5 and unix(4711):6432 without what follows it. */
static struct bytes host_of(struct bytes address)
{
	const char *end;

	if (address.count && *address.at == '[')
		address = bytes_skip(address, 1);
	end = memchr(address.at, ']', address.count);
	if (!end)
		end = memchr(address.at, '(', address.count);
	if (!end)
		end = memchr(address.at, ':', address.count);
	return end ? bytes_of(address.at, (size_t)(end - address.at)) : address;
}

static void add_who(struct buf *out, const struct log_who *who)
{
	if (who->kind)
		add_member(out, "peer", bytes_text(who->kind));
	if (who->pointer)
		buf_printf(out, ",\"pointer\":\"%p\"", who->pointer);
	if (who->id)
		buf_printf(out, ",\"id\":%llu", (unsigned long long)who->id);
	if (who->database)
		add_member(out, "database", bytes_text(who->database));
	if (who->user)
		add_member(out, "user", bytes_text(who->user));
	if (who->address.count) {
		add_member(out, "address", bytes_of(who->address.at, who->address.count));
		add_member(out, "addr", host_of(bytes_of(who->address.at, who->address.count)));
	}
	if (who->application_name && *who->application_name)
		add_member(out, "application_name", bytes_text(who->application_name));
}

static void add_ms(struct buf *out, const char *name, usec_t usec)
{
	buf_printf(out, ",\"%s\":%lld.%03lld", name, (long long)(usec / USEC_PER_MS),
	           (long long)(usec % USEC_PER_MS));
}

static void add_facts(struct buf *out, const struct log_facts *facts)
{
	const struct {
		const char *name, *text;
	} texts[] = {
		{ "event", facts->event },     { "sqlstate", facts->sqlstate },
		{ "reason", facts->reason },   { "command", facts->command },
		{ "setting", facts->setting }, { "value", facts->value },
		{ "was", facts->was },         { "statement", facts->statement },
		{ "digest", facts->digest },   { "traceparent", facts->traceparent },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].text)
			add_member(out, texts[i].name, bytes_text(texts[i].text));
	}
	if (facts->has_duration)
		add_ms(out, "duration_ms", facts->duration);
	if (facts->has_wait)
		add_ms(out, "wait_ms", facts->wait);
}

void log_json_add(struct buf *out, struct bytes level, long pid, const struct log_who *who,
                  struct bytes text)
{
	add_time(out);
	buf_printf(out, ",\"pid\":%ld", pid);
	add_member(out, "level", level);
	add_who(out, who);
	if (who->facts)
		add_facts(out, who->facts);
	add_member(out, "message", text);
	buf_add_text(out, "}\n");
}
