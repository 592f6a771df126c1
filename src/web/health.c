/* SPDX-License-Identifier: ISC */
/*
 * /healthz: whether all loops turn, as they must for any SHOW. /readyz: whether new work is
 * accepted, as SHOW READY says.
 */
#include "web_priv.h"

#define HEALTH_LIMIT (5 * USEC_PER_SEC) /* a loop that turns answers within milliseconds */

struct health {
	struct answer answer;
	bool is_about_work;
};

static enum answer_result next_of_health(struct answer *answer, struct buf *out)
{
	bool is_about_work = container_of(answer, struct health, answer)->is_about_work;
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

void health_answer(struct connection *connection, const struct http_head *head)
{
	struct health *health = connection_begin_answer(
	    connection, sizeof(*health), "text/plain; charset=utf-8", next_of_health);

	if (!health)
		return;
	health->is_about_work = bytes_are(head->path, "/readyz");
	health->answer.limit = HEALTH_LIMIT;
	if (connection_read_table(&health->answer, "READY"))
		health->answer.reader->budget = &connection->all->readers.probes;
	else
		connection_close(connection);
}
