/* SPDX-License-Identifier: ISC */
/*
 * Short answers that several paths have.
 */
#include "pgweir/base/text.h"

#include "web_priv.h"

#include "pgweir/base/banned.h"

#define CHALLENGE "WWW-Authenticate: Basic realm=\"pgweir\", charset=\"UTF-8\"\r\n"

void web_answer_error(struct connection *connection, int status, const char *text, const char *hint)
{
	struct buf out = { 0 };

	buf_add_text(&out, "{\"error\":");
	json_add_text(&out, bytes_text(text));
	if (hint) {
		buf_add_text(&out, ",\"hint\":");
		json_add_text(&out, bytes_text(hint));
	}
	buf_add_text(&out, "}\n");
	connection_answer(connection,
	                  &(struct answer_head){ .status = status,
	                                         .type = "application/json",
	                                         .fields = status == 401 ? CHALLENGE : NULL },
	                  buf_bytes(&out));
	buf_free(&out);
}

void web_answer_text(struct connection *connection, int status, const char *text)
{
	struct buf out = { 0 };

	buf_printf(&out, "%s\n", text);
	connection_answer(
	    connection,
	    &(struct answer_head){ .status = status, .type = "text/plain; charset=utf-8" },
	    buf_bytes(&out));
	buf_free(&out);
}
