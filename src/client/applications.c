/* SPDX-License-Identifier: ISC */
/*
 * Applications.
 */
#include "pgweir/client/applications.h"

#include <stdlib.h>

#include "pgweir/base/text.h"

void applications_init(struct applications *applications, const struct hash_key *key)
{
	*applications = (struct applications){ .key = key };
	TAILQ_INIT(&applications->unused);
}

static void forget_oldest(struct applications *applications)
{
	struct application *oldest = TAILQ_FIRST(&applications->unused);

	applications->gone_xact_count += oldest->xact_count;
	applications->gone_error_count += oldest->error_count;
	TAILQ_REMOVE(&applications->unused, oldest, node);
	applications->unused_count--;
	HASH_DEL(applications->table, oldest);
	free(oldest);
}

void applications_done(struct applications *applications)
{
	struct application *application, *next;

	HASH_ITER (hh, applications->table, application, next) {
		HASH_DEL(applications->table, application);
		free(application);
	}
}

static struct application *find_cut(const struct applications *applications, const char *cut)
{
	return TABLE_GET(hh, applications->key, applications->table, cut, strlen(cut));
}

const struct application *applications_find(const struct applications *applications,
                                            const char *name)
{
	char cut[APPLICATION_NAME_SIZE];

	text_copy(cut, sizeof(cut), name);
	return find_cut(applications, cut);
}

struct application *applications_join(struct applications *applications, const char *name)
{
	char cut[APPLICATION_NAME_SIZE];
	struct application *application;

	text_copy(cut, sizeof(cut), name);
	application = find_cut(applications, cut);
	if (application && !application->client_count) {
		TAILQ_REMOVE(&applications->unused, application, node);
		applications->unused_count--;
	} else if (!application) {
		application = calloc(1, sizeof(*application));
		if (!application)
			return NULL;
		memcpy(application->name, cut, sizeof(cut));
		application->hash = hash_bytes(applications->key, cut, strlen(cut));
		TABLE_ADD_STR(hh, applications->key, applications->table, application->name,
		              application);
	}
	application->client_count++;
	return application;
}

void applications_leave(struct applications *applications, struct application **applicationp)
{
	struct application *application = *applicationp;

	*applicationp = NULL;
	if (!application || --application->client_count)
		return;
	TAILQ_INSERT_TAIL(&applications->unused, application, node);
	if (++applications->unused_count > APPLICATIONS_KEPT)
		forget_oldest(applications);
}

void applications_reset(struct applications *applications)
{
	struct application *application, *next;

	while (applications->unused_count)
		forget_oldest(applications);
	HASH_ITER (hh, applications->table, application, next)
		application->xact_count = application->error_count = 0;
	applications->gone_xact_count = applications->gone_error_count = 0;
}
