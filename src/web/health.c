/* SPDX-License-Identifier: ISC */
/*
 * /healthz: whether all loops turn, as they must for any SHOW. /readyz: whether new work is
 * accepted, as SHOW READY says.
 */
#include "web_priv.h"

#define HEALTH_LIMIT (5 * USEC_PER_SEC) /* a loop that turns answers within milliseconds */

static enum answer_result add_health(struct answer *answer, bool is_about_work, struct buf *out)
{
	struct bytes values[COLUMNS_MAX], piece = buf_bytes(&answer->reader->piece);
	struct bytes reason = bytes_text("ok");

	if (answer->reader->state == READER_AWAY) {
		answer->head.status = 503;
		reason = bytes_text("an event loop does not answer");
	} else if (is_about_work) {
		bool is_known = reader_take(&piece, values);

		reason = bytes_text("ready");
		if (!is_known || !bytes_are(values[0], "yes")) {
			answer->head.status = 503;
			reason = is_known ? values[1] : bytes_text("not known");
		}
	}
	buf_printf(out, "%.*s\n", (int)reason.count, reason.at);
	return ANSWER_END;
}

static enum answer_result next_of_health(struct answer *answer, struct buf *out)
{
	return add_health(answer, false, out);
}

static enum answer_result next_of_ready(struct answer *answer, struct buf *out)
{
	return add_health(answer, true, out);
}

void health_answer(struct connection *connection, const struct http_head *head)
{
	bool is_about_work = bytes_are(head->path, "/readyz");
	struct answer *answer =
	    connection_begin_answer(connection, sizeof(*answer), "text/plain; charset=utf-8",
	                            is_about_work ? next_of_ready : next_of_health);

	if (!answer)
		return;
	answer->limit = HEALTH_LIMIT;
	if (connection_read_table(answer, "READY"))
		answer->reader->budget = &connection->all->readers.probes;
	else
		connection_close(connection);
}
