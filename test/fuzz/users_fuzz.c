/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing auth_file: any content is accepted as a whole or refused with a reason;
 * its texts are also passed to SASLprep and to the parser of SCRAM secrets.
 */
#include "pgweir/auth/users.h"

#include <assert.h>

#include "pgweir/auth/digest.h"
#include "pgweir/auth/scram.h"

#include "../lib/auth_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct user *user, void *arg)
{
	struct scram_verifier verifier;
	char *prepared = saslprep(user->secret.text);

	assert(prepared);
	secret_free(&prepared);
	assert(users_find(arg, user->name) == user);
	assert(*user->name && strlen(user->name) <= USER_NAME_MAX);
	assert((user->secret.kind == SECRET_NONE) == !*user->secret.text);
	assert((user->secret.kind == SECRET_SCRAM) ==
	       scram_verifier_parse(user->secret.text, &verifier));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct problems problems = { 0 };
	struct users *users = users_parse(bytes_of(data, size), "f", &problems);

	users_each(users, use, users);
	problems_done(&problems);
	users_release(&users);
	return 0;
}
