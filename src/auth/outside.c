/* SPDX-License-Identifier: ISC */
/*
 * Passwords that PAM or LDAP checks.
 *
 * Hard here: the owner may be closed while a helper thread still works with the copies. Then
 * the job owns the object and frees it at its end.
 */
#include "outside_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgweir/auth/digest.h"
#include "pgweir/auth/secret.h"
#include "ldap_options_priv.h"

#include "pgweir/base/banned.h"

struct outside {
	struct job job; /* must be first */
	struct outside_question question;
	enum auth_method method;
	enum outside_answer answer;
	bool is_submitted;
	void (*on_done)(void *arg);
	void *arg;
	char *user, *password, *options, *host;
};

/* ---- methods ---- */

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

static enum outside_fitness check_ldap(const char *text, struct err *err)
{
	struct ldap_options options;
	bool is_good = ldap_options_parse(text, &options, err);

	ldap_options_done(&options);
	if (is_good)
		return OUTSIDE_FIT;
	return options.is_contradictory ? OUTSIDE_CONTRADICTORY : OUTSIDE_BAD;
}

static const struct {
	const char *name;
	bool is_built;
	enum outside_answer (*judge)(struct outside_question *question);
	enum outside_fitness (*check)(const char *options, struct err *err);
} methods[AUTH_METHODS] = {
	[AUTH_METHOD_PAM] = { "PAM", PGWEIR_PAM, pam_judge, check_service },
	[AUTH_METHOD_LDAP] = { "LDAP", PGWEIR_LDAP, ldap_judge, check_ldap },
};

const char *outside_name(enum auth_method method) { return methods[method].name; }

bool outside_is_built(enum auth_method method) { return methods[method].is_built; }

enum outside_fitness outside_check(enum auth_method method, const char *options, struct err *err)
{
	return methods[method].check(options, err);
}

void outside_prepare(void) { ldap_prepare(); }

/* ---- creation and end ---- */

static void destroy(struct outside *outside)
{
	secret_free(&outside->password);
	secret_free(&outside->options);
	free(outside->user);
	free(outside->host);
	free(outside);
}

struct outside *outside_new(const struct outside_who *who)
{
	struct outside *outside = calloc(1, sizeof(*outside));

	if (!outside)
		return NULL;
	outside->method = who->method;
	outside->on_done = who->on_done;
	outside->arg = who->arg;
	outside->answer = OUTSIDE_FAILED;
	outside->user = strdup(who->user);
	outside->options = strdup(who->options);
	outside->host = strdup(who->host);
	if (outside->user && outside->options && outside->host)
		return outside;
	destroy(outside);
	return NULL;
}

/* Called on a helper thread. */
static void run(struct job *job)
{
	struct outside *outside = (struct outside *)job;
	struct outside_question *question = &outside->question;

	if (question->deadline && clock_now() >= question->deadline)
		outside->answer = outside_reply(question, OUTSIDE_FAILED,
		                                "it waited too long for a helper thread");
	else
		outside->answer = methods[outside->method].judge(question);
}

static void done(struct job *job)
{
	struct outside *outside = (struct outside *)job;

	secret_free(&outside->password);
	if (job->is_abandoned) {
		destroy(outside);
		return;
	}
	outside->is_submitted = false;
	outside->on_done(outside->arg);
}

bool outside_ask(struct outside *outside, const char *password, usec_t deadline)
{
	_Static_assert(offsetof(struct outside, job) == 0, "run() counts on it");
	secret_free(&outside->password);
	outside->password = strdup(password);
	if (!outside->password)
		return false;
	outside->job = (struct job){ .run = run, .done = done };
	outside->question = (struct outside_question){ .user = outside->user,
		                                       .password = outside->password,
		                                       .options = outside->options,
		                                       .host = outside->host,
		                                       .deadline = deadline };
	return true;
}

struct job *outside_job(struct outside *outside)
{
	outside->is_submitted = true;
	return &outside->job;
}

void outside_refused(struct outside *outside) { outside->is_submitted = false; }

enum outside_answer outside_answer(const struct outside *outside) { return outside->answer; }

const char *outside_reason(const struct outside *outside) { return outside->question.reason; }

void outside_free(struct outside **outsidep)
{
	struct outside *outside = *outsidep;

	*outsidep = NULL;
	if (!outside)
		return;
	if (outside->is_submitted)
		workers_abandon(&outside->job);
	else
		destroy(outside);
}
