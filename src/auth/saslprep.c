/* SPDX-License-Identifier: ISC */
/*
 * SASLprep, by libidn.
 *
 * As in PostgreSQL: code points that Unicode 3.2 does not define are forbidden, ASCII is used
 * unchanged, and if SASLprep fails, the bytes are used unchanged. Any difference would derive
 * another key, and the login would fail.
 */
#include "pgweir/auth/saslprep.h"

#include <stdlib.h>
#include <string.h>

#include <stringprep.h>

#include "pgweir/auth/digest.h"
#include "pgweir/auth/secret.h"
#include "pgweir/base/bytes.h"

#include "pgweir/base/banned.h"

char *saslprep(const char *password)
{
	char *prepared = NULL;

	if (bytes_are_ascii(bytes_text(password)) ||
	    stringprep_profile(password, &prepared, "SASLprep", STRINGPREP_NO_UNASSIGNED) !=
	        STRINGPREP_OK)
		return strdup(password);
	if (*prepared)
		return prepared;
	secret_free(&prepared);
	return strdup(password);
}
