/* SPDX-License-Identifier: ISC */
/*
 * Lines of the log as JSON: {"time":..,"pid":..,"level":..,"peer":..,"message":..}
 */
#include "log_json_priv.h"

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
	strftime(words, sizeof(words), "%z", &local); /* +0100: RFC 3339 wants +01:00 */
	buf_printf(out, "%.3s:%.2s\"", words, words + 3);
}

static void add_who(struct buf *out, const struct log_who *who)
{
	if (who->kind)
		add_member(out, "peer", bytes_text(who->kind));
	if (who->pointer)
		buf_printf(out, ",\"pointer\":\"%p\"", who->pointer);
	if (who->id)
		buf_printf(out, ",\"id\":%llu", (unsigned long long)who->id);
	if (who->database) {
		add_member(out, "database", bytes_text(who->database));
		add_member(out, "user", bytes_text(who->user));
	}
	if (who->address.count)
		add_member(out, "address", bytes_of(who->address.at, who->address.count));
}

void log_json_add(struct buf *out, struct bytes level, long pid, const struct log_who *who,
                  struct bytes text)
{
	add_time(out);
	buf_printf(out, ",\"pid\":%ld", pid);
	add_member(out, "level", level);
	add_who(out, who);
	add_member(out, "message", text);
	buf_add_text(out, "}\n");
}
