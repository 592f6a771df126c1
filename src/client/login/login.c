/* SPDX-License-Identifier: ISC */
/*
 * What a client has during its login only.
 */
#include <stdlib.h>

#include "auth_query_priv.h"
#include "login_priv.h"

#include "pgweir/auth/secret.h"

#define UNKNOWN_MAX ((size_t)64 * 1024) /* bytes of the names of unknown protocol options */

struct client_login *login_new(void)
{
	struct client_login *login = calloc(1, sizeof(*login));

	if (login)
		login->unknown.limit = UNKNOWN_MAX;
	return login;
}

void login_free(struct client *client)
{
	struct client_login *login = client->login;

	throttle_drop(client);
	client->login = NULL;
	auth_server_free(&login->auth);
	hba_check_free(login);
	secret_free(&login->outside);
	auth_query_free(login);
	buf_free(&login->unknown);
	buf_free(&login->parameters);
	free(login->database);
	free(login->user);
	free(login->certificate_name);
	free(login->options);
	free(login);
}
