/* SPDX-License-Identifier: ISC */
/*
 * The certificates of ours: which are in use, and warnings before they expire.
 *
 * Those that were read count: a file may have been replaced since.
 */
#include <stdio.h>
#include <string.h>

#include "daemon_priv.h"

#define DAY ((int64_t)24 * 3600)

/* Seconds before a certificate expires: each gives a warning. From the greatest to the least. */
static const int64_t thresholds[] = { 30 * DAY, 7 * DAY, DAY, 0 };

static bool passes_threshold(int64_t left, int64_t left_before)
{
	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		if (left <= thresholds[i] && thresholds[i] < left_before)
			return true;
	}
	return false;
}

static const char *say_left(int64_t left, char out[32])
{
	if (left <= 0)
		return "has expired";
	if (left > 2 * DAY)
		snprintf(out, 32, "expires in %lld days", (long long)(left / DAY));
	else
		snprintf(out, 32, "expires in %lld hours", (long long)left / 3600);
	return out;
}

/* ---- where they are ---- */

/* Those of the settings first, then those of listeners. */
struct contexts {
	size_t count;
	const struct tls_context *at[1 + CONFIG_LISTENERS_MAX], *server;
	const struct config_listener *entries[1 + CONFIG_LISTENERS_MAX];
};

static void add_gate(struct contexts *contexts, const struct gate_rules *rules)
{
	contexts->entries[contexts->count] = rules->entry;
	contexts->at[contexts->count++] = rules->tls;
}

/* If only the web server shows certificates of the settings, it has them. */
static struct contexts contexts_of(const struct parts *parts)
{
	const struct tls_context *client = parts->tls.client;
	struct contexts contexts = { .count = 1,
		                     .at = { client ? client : web_rights_tls(parts->web) },
		                     .server = parts->tls.server };

	for (size_t i = 0; i < parts->gates.count; i++)
		add_gate(&contexts, &parts->gates.at[i]);
	return contexts;
}

/* Whether one of the first contexts has this certificate. */
static bool is_known(const struct contexts *contexts, size_t count, const char *file)
{
	struct tls_certificate other;

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; tls_context_certificate(contexts->at[i], j, &other); j++) {
			if (strcmp(other.file, file) == 0)
				return true;
		}
	}
	return false;
}

/* *entry: of the listener that it belongs to; NULL: of none. false: no more. */
static bool find(const struct contexts *contexts, size_t number, struct certificate_shown *shown,
                 const struct config_listener **entry)
{
	struct tls_certificate *found = &shown->certificate;

	for (size_t i = 0; i < contexts->count; i++) {
		*entry = contexts->entries[i];
		for (size_t j = 0; tls_context_certificate(contexts->at[i], j, found); j++) {
			shown->setting = j ? "client_tls_name_files" : "client_tls_cert_file";
			if (!is_known(contexts, i, found->file) && number-- == 0)
				return true;
		}
	}
	*entry = NULL;
	shown->setting = "server_tls_cert_file";
	return number == 0 && tls_context_certificate(contexts->server, 0, found);
}

/* ---- those of a configuration ---- */

void certificates_judge(const struct parts *parts, struct problems *problems)
{
	struct contexts contexts = contexts_of(parts);
	const struct config_listener *entry;
	struct certificate_shown shown;
	char words[32];

	for (size_t i = 0; find(&contexts, i, &shown, &entry); i++) {
		if (shown.certificate.seconds_left <= thresholds[0])
			problems_warn(
			    problems,
			    entry ? entry->pos : config_source_pos(parts->config, shown.setting),
			    "%s: the certificate in %s %s", shown.setting, shown.certificate.file,
			    say_left(shown.certificate.seconds_left, words));
	}
}

/* ---- those in use ---- */

bool certificates_show(struct daemon *daemon, size_t number, struct certificate_shown *shown)
{
	struct contexts contexts = contexts_of(&daemon->now);
	const struct config_listener *entry;

	TAILQ_EACH (door, &daemon->doors, node) {
		if (door->gate)
			add_gate(&contexts, &door->gate->rules);
	}
	return find(&contexts, number, shown, &entry);
}

void certificates_look(struct daemon *daemon)
{
	struct certificate_shown shown;
	int64_t now = wall_now() / USEC_PER_SEC, passed = now - daemon->certificates_at;
	char words[32];

	for (size_t i = 0; certificates_show(daemon, i, &shown); i++) {
		int64_t left = shown.certificate.seconds_left;

		if (passes_threshold(left, left + passed))
			log_warning(&daemon->logger, "%s: the certificate in %s %s", shown.setting,
			            shown.certificate.file, say_left(left, words));
	}
	daemon->certificates_at = now;
}
