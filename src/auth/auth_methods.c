/* SPDX-License-Identifier: ISC */
/*
 * The table of authentication methods, and passwords that PAM checks. Only this file uses libpam.
 */
#include "pgweir/auth/auth_methods.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if PGWEIR_PAM
#include <security/pam_appl.h>
#endif

enum outside_answer auth_outside_reply(struct outside_question *question,
                                       enum outside_answer answer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(question->reason, sizeof(question->reason), format, args);
	va_end(args);
	return answer;
}

/*
 * ---- PAM: the modules of a service check a password ----
 *
 * Hard here: modules may ask anything. Each prompt without echo is answered with the password.
 * Any other prompt cannot be answered for a client, and fails.
 */

#if PGWEIR_PAM

static void wipe_replies(struct pam_response *replies, int count)
{
	for (int i = 0; i < count; i++) {
		if (replies[i].resp)
			explicit_bzero(replies[i].resp, strlen(replies[i].resp));
		free(replies[i].resp);
	}
	free(replies);
}

static bool answer(const struct pam_message *message, struct pam_response *reply,
                   const char *password)
{
	switch (message->msg_style) {
	case PAM_PROMPT_ECHO_OFF:
		reply->resp = strdup(password);
		return reply->resp;
	case PAM_TEXT_INFO:
	case PAM_ERROR_MSG:
		return true;
	default:
		return false;
	}
}

static int converse(int count, const struct pam_message **messages, struct pam_response **replies,
                    void *arg)
{
	const struct outside_question *question = arg;
	struct pam_response *made;

	if (count <= 0 || count > PAM_MAX_NUM_MSG)
		return PAM_CONV_ERR;
	made = calloc((size_t)count, sizeof(*made));
	if (!made)
		return PAM_BUF_ERR;
	for (int i = 0; i < count; i++) {
		if (!answer(messages[i], &made[i], question->password)) {
			wipe_replies(made, count);
			return PAM_CONV_ERR;
		}
	}
	*replies = made;
	return PAM_SUCCESS;
}

/* Starts PAM with a service, given by its name or by the path of its file. */
static int start_pam(struct outside_question *question, const struct pam_conv *conversation,
                     pam_handle_t **handle)
{
	const char *service = question->options, *slash = strrchr(service, '/');

	if (!slash)
		return pam_start(service, question->user, conversation, handle);
#ifdef HAVE_PAM_START_CONFDIR
	char *directory = strndup(service, (size_t)(slash - service));
	int result = PAM_BUF_ERR;

	if (directory)
		result =
		    pam_start_confdir(slash + 1, question->user, conversation, directory, handle);
	free(directory);
	return result;
#else
	return PAM_ABORT;
#endif
}

#ifdef PAM_FAIL_DELAY
/* Instead of PAM's delay after a failure, which would occupy a helper thread for seconds. */
static void do_not_wait(int result, unsigned int usec, void *arg)
{
	(void)result;
	(void)usec;
	(void)arg;
}
#endif

static int ask(pam_handle_t *handle, const struct outside_question *question)
{
	int result = pam_set_item(handle, PAM_RHOST, question->host);

#ifdef PAM_FAIL_DELAY
	if (result == PAM_SUCCESS)
		result = pam_set_item(handle, PAM_FAIL_DELAY, (const void *)do_not_wait);
#endif
	if (result == PAM_SUCCESS)
		result = pam_authenticate(handle, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK);
	if (result == PAM_SUCCESS)
		result = pam_acct_mgmt(handle, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK);
	return result;
}

static enum outside_answer pam_judge(struct outside_question *question)
{
	const struct pam_conv conversation = { converse, question };
	pam_handle_t *handle = NULL;
	int result = start_pam(question, &conversation, &handle);

	if (result != PAM_SUCCESS)
		return auth_outside_reply(question, OUTSIDE_FAILED,
		                          "PAM cannot begin with service %s: %s", question->options,
		                          pam_strerror(handle, result));
	result = ask(handle, question);
	if (result != PAM_SUCCESS)
		auth_outside_reply(question, OUTSIDE_NO, "PAM: %s", pam_strerror(handle, result));
	pam_end(handle, result);
	return result == PAM_SUCCESS ? OUTSIDE_YES : OUTSIDE_NO;
}

#else

static enum outside_answer pam_judge(struct outside_question *question)
{
	return auth_outside_reply(question, OUTSIDE_FAILED, "built without PAM");
}

#endif

static enum outside_fitness check_service(const char *service, struct err *err)
{
	if (!*service || service[strlen(service) - 1] == '/')
		err_set(err, ERR_CONFIG, "the name of the PAM service is empty");
	else if (*service != '/' && strchr(service, '/'))
		err_set(err, ERR_CONFIG,
		        "the PAM service %s is neither a name nor an absolute path", service);
	else if (*service == '/' && access(service, R_OK) != 0)
		err_set(err, ERR_CONFIG, "cannot read the PAM service %s: %s", service,
		        strerror(errno));
	else
		return OUTSIDE_FIT;
	return OUTSIDE_BAD;
}

const struct outside outside_pam = { "PAM", PGWEIR_PAM, pam_judge, check_service };

/* ---- the table ---- */

#define OPTIONS_IN(field) .setting = #field, .setting_at = offsetof(struct config, field)

const struct auth_method_row auth_methods[AUTH_METHODS] = {
	[AUTH_METHOD_ANY] = { .name = "any", .takes_anybody = true, .needs_no_file = true },
	[AUTH_METHOD_TRUST] = { .name = "trust", .hba_name = "trust", .refusal = CLOSE_AUTH_TRUST },
	[AUTH_METHOD_PLAIN] = { .name = "plain",
	                        .hba_name = "password",
	                        .hba_alias = "plain",
	                        .question = AUTH_ASKS_PASSWORD,
	                        .refusal = CLOSE_AUTH_PASSWORD },
	[AUTH_METHOD_MD5] = { .name = "md5",
	                      .hba_name = "md5",
	                      .question = AUTH_ASKS_MD5,
	                      .refusal = CLOSE_AUTH_PASSWORD },
	[AUTH_METHOD_SCRAM] = { .name = "scram-sha-256",
	                        .hba_name = "scram-sha-256",
	                        .question = AUTH_ASKS_SCRAM,
	                        .refusal = CLOSE_AUTH_PASSWORD },
	[AUTH_METHOD_HBA] = { .name = "hba" },
	[AUTH_METHOD_CERT] = { .name = "cert",
	                       .hba_name = "cert",
	                       .hba_only = "hostssl",
	                       .voucher = AUTH_BY_CERTIFICATE,
	                       .refusal = CLOSE_AUTH_CERTIFICATE },
	[AUTH_METHOD_PAM] = { .name = "pam",
	                      .hba_name = "pam",
	                      .question = AUTH_ASKS_PASSWORD,
	                      .needs_no_file = true,
	                      .outside = &outside_pam,
	                      OPTIONS_IN(auth_pam_service),
	                      .threads = 4,
	                      .refusal = CLOSE_AUTH_PAM },
	[AUTH_METHOD_LDAP] = { .name = "ldap",
	                       .hba_name = "ldap",
	                       .question = AUTH_ASKS_PASSWORD,
	                       .outside = &outside_ldap,
	                       OPTIONS_IN(auth_ldap_options),
	                       .may_be_unset = true,
	                       .threads = 8,
	                       .refusal = CLOSE_AUTH_LDAP },
	[AUTH_METHOD_PEER] = { .name = "peer",
	                       .hba_name = "peer",
	                       .hba_only = "local",
	                       .voucher = AUTH_BY_SYSTEM_USER,
	                       .threads = 2,
	                       .refusal = CLOSE_AUTH_PEER },
	[AUTH_METHOD_REJECT] = { .name = "reject", .hba_name = "reject" },
};

enum auth_method auth_methods_by_hba_name(const char *word)
{
	for (int method = 0; method < AUTH_METHODS; method++) {
		const struct auth_method_row *row = &auth_methods[method];

		if ((row->hba_name && strcmp(row->hba_name, word) == 0) ||
		    (row->hba_alias && strcmp(row->hba_alias, word) == 0))
			return (enum auth_method)method;
	}
	return AUTH_METHODS;
}

const char *auth_methods_options(enum auth_method method, const struct config *config)
{
	const struct auth_method_row *row = &auth_methods[method];

	return row->setting ? *(char *const *)((const char *)config + row->setting_at) : NULL;
}

/* ---- TLS of clients ---- */

struct tls_options client_tls_options(const struct config *config, const char *protocol)
{
	/* Without a CA, clients are asked for a certificate only if the mode requires one. */
	enum tls_check check = *config->client_tls_ca_file ? TLS_CHECK_GIVEN : TLS_CHECK_NONE;

	if (config->client_tls_sslmode >= TLS_MODE_VERIFY_CA)
		check = TLS_CHECK_CHAIN;
	return (struct tls_options){
		.role = TLS_ACCEPTS,
		.check = check,
		.prefix = "client_tls",
		.ca_file = config->client_tls_ca_file,
		.cert_file = config->client_tls_cert_file,
		.key_file = config->client_tls_key_file,
		.name_files = config->client_tls_name_files.names,
		.name_file_count = config->client_tls_name_files.count,
		.protocols = config->client_tls_protocols,
		.ciphers = config->client_tls_ciphers,
		.ciphersuites = config->client_tls13_ciphers,
		.curve = config->client_tls_ecdhcurve,
		.dheparams = config->client_tls_dheparams,
		.has_own_records = config->tls_records == TLS_RECORDS_OWN,
		.protocol = protocol,
	};
}
