/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing traces in comments: a value lies within the text, and is 2-32-16-2 lower-case digits.
 */
#include "pgweir/pgwire/sql_token.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_of(data, size), value;

	if (!sql_traceparent(text, &value))
		return 0;
	assert(value.count == SQL_TRACEPARENT_SIZE && value.at >= text.at &&
	       value.at + value.count < text.at + text.count);
	for (size_t i = 0; i < value.count; i++) {
		if (i == 2 || i == 35 || i == 52)
			assert(value.at[i] == '-');
		else
			assert(strchr("0123456789abcdef", value.at[i]) && value.at[i]);
	}
	return 0;
}
