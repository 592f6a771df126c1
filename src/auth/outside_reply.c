/* SPDX-License-Identifier: ISC */
/*
 * The answer of PAM or LDAP about a password, with the reason for the log.
 */
#include "outside_priv.h"

#include <stdarg.h>
#include <stdio.h>

#include "pgweir/base/banned.h"

enum outside_answer outside_reply(struct outside_question *question, enum outside_answer answer,
                                  const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(question->reason, sizeof(question->reason), format, args);
	va_end(args);
	return answer;
}
