/* SPDX-License-Identifier: ISC */
/*
 * The certificates of ours: which are in use, and warnings before they expire.
 *
 * A configuration that is loaded or checked is judged by the files that it names. While the daemon
 * runs, those in use count: a file may have been replaced and not been read.
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

/* ---- those of a configuration ---- */

static void judge(struct source_pos pos, const char *setting, const char *path,
                  struct problems *problems)
{
	char words[32];
	int64_t left;

	if (path && *path && tls_time_left(path, &left) && left <= thresholds[0])
		problems_warn(problems, pos, "%s: the certificate in %s %s", setting, path,
		              say_left(left, words));
}

/* Those with a certificate of their own. Returns whether others use that of the settings. */
static bool judge_listeners(const struct config *config, struct problems *problems)
{
	const struct config_listener *entry = NULL;
	bool is_inherited = false;

	while ((entry = config_listener_next(config, entry))) {
		const char *mode = entry->client_tls_sslmode;

		if (entry->client_tls_cert_file)
			judge(entry->pos, "client_tls_cert_file", entry->client_tls_cert_file,
			      problems);
		else
			is_inherited |= mode && strcmp(mode, "disable") != 0;
	}
	return is_inherited;
}

void certificates_judge(const struct config *config, struct problems *problems)
{
	const struct config_list *names = &config->client_tls_name_files;
	bool is_used = config->client_tls_sslmode != TLS_MODE_DISABLE || config->metrics_tls;

	if (judge_listeners(config, problems) || is_used) {
		judge(config_source_pos(config, "client_tls_cert_file"), "client_tls_cert_file",
		      config->client_tls_cert_file, problems);
		for (size_t i = 0; i < names->count; i++)
			judge(config_source_pos(config, "client_tls_name_files"),
			      "client_tls_name_files", names->names[i], problems);
	}
	if (config->server_tls_sslmode != TLS_MODE_DISABLE)
		judge(config_source_pos(config, "server_tls_cert_file"), "server_tls_cert_file",
		      config->server_tls_cert_file, problems);
}

/* ---- those in use ---- */

/* Whether one of the first doors, or the context, has this certificate. */
static bool is_known(const struct daemon *daemon, const struct tls_context *main,
                     const struct door *until, const char *file)
{
	const struct door *door;
	struct tls_certificate own;

	if (tls_context_certificate(main, 0, &own) && strcmp(own.file, file) == 0)
		return true;
	TAILQ_FOREACH (door, &daemon->doors, node) {
		if (door == until)
			return false;
		if (door->gate && tls_context_certificate(door->gate->rules.tls, 0, &own) &&
		    strcmp(own.file, file) == 0)
			return true;
	}
	return false;
}

/* If only the web server shows certificates of the settings, it has them. */
static const struct tls_context *main_context(const struct daemon *daemon)
{
	return daemon->now.tls.client ? daemon->now.tls.client : web_tls(daemon->web);
}

bool certificates_show(struct daemon *daemon, size_t number, struct certificate_shown *shown)
{
	const struct tls_context *main = main_context(daemon);
	const struct door *door;
	struct tls_certificate own;

	*shown = (struct certificate_shown){ .setting = "client_tls_cert_file" };
	for (size_t i = 0; tls_context_certificate(main, i, &shown->certificate); i++) {
		if (i > 0)
			shown->setting = "client_tls_name_files";
		if (number-- == 0)
			return true;
	}
	TAILQ_FOREACH (door, &daemon->doors, node) {
		const struct tls_context *context = door->gate ? door->gate->rules.tls : NULL;

		if (!tls_context_certificate(context, 0, &own) ||
		    is_known(daemon, main, door, own.file))
			continue;
		*shown = (struct certificate_shown){ "client_tls_cert_file", own };
		if (number-- == 0)
			return true;
	}
	shown->setting = "server_tls_cert_file";
	return number == 0 &&
	       tls_context_certificate(daemon->now.tls.server, 0, &shown->certificate);
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
