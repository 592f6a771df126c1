/* SPDX-License-Identifier: ISC */
/*
 * Client: drives one libpq connection from the event loop.
 *
 *   socket readable --> take answers --> all there? --> next step --> flush
 *
 * Hard here: a step, a result or the deadline may end the connection in the middle of a turn, so
 * the state must be checked after every call that can end it.
 */
#include "client.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "activity.h"
#include "canceller.h"

#define AWAY_MSEC_MAX 50

static void client_turn(struct client *client);
static void client_connect(struct client *client);

static const char *activity_name(const struct client *client)
{
	return client->activity ? client->activity->name : "connecting";
}

static void arm(struct event *event, unsigned int milliseconds)
{
	struct timeval wait = { .tv_sec = milliseconds / 1000,
		                .tv_usec = milliseconds % 1000 * 1000 };

	event_add(event, &wait);
}

static void arm_deadline(struct client *client)
{
	arm(client->deadline, client->load->options.patience_seconds * 1000);
}

static void free_event(struct event **event)
{
	if (*event)
		event_free(*event);
	*event = NULL;
}

/* Closes the socket under libpq, so that it cannot send Terminate. */
static void cut_socket(PGconn *conn, enum vanish_how how)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	int fd = PQsocket(conn);
	int null_fd;

	if (fd < 0)
		return;
	if (how == VANISH_FIN) {
		shutdown(fd, SHUT_RDWR);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return;
	dup2(null_fd, fd);
	close(null_fd);
}

/* Ends the connection and resets everything related to it. */
static void drop_connection(struct client *client, enum vanish_how how)
{
	free_event(&client->readable);
	free_event(&client->writable);
	event_del(client->deadline);
	event_del(client->later);
	if (how != VANISH_POLITELY)
		cut_socket(client->conn, how);
	PQfinish(client->conn);
	client->conn = NULL;
	answers_clear(&client->answers);
	client->activity = NULL;
	client->is_step_open = false;
	client->is_cancelling = false;
	client->cancel_ticket++;
	client->write_count = 0;
	memset(client->prepared, 0, sizeof(client->prepared));
}

void client_vanish(struct client *client, enum vanish_how how)
{
	if (how != VANISH_POLITELY)
		tally_add(&client->load->tally, TALLY_VANISHED, 1);
	drop_connection(client, how);
	client->state = CLIENT_AWAY;
	arm(client->later, load_random(client->load, AWAY_MSEC_MAX));
}

static void client_finish(struct client *client)
{
	if (client->conn)
		drop_connection(client, VANISH_POLITELY);
	client->state = CLIENT_FINISHED;
	client->load->clients_left--;
	if (client->load->clients_left == 0)
		event_base_loopbreak(client->load->base);
}

/* Reports, and reconnects: results after a wrong one are meaningless. */
static void client_wrong(struct client *client, const char *text)
{
	tally_wrong(&client->load->tally,
	            "client %u, backend key %d, %s, step %u, statement %u: %s", client->id,
	            PQbackendPID(client->conn), activity_name(client), client->step,
	            client->sequence, text);
	client_vanish(client, VANISH_FIN);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct client *client = arg;
	struct due *due = answers_next(&client->answers);
	char text[256];

	(void)fd;
	(void)what;
	tally_add(&client->load->tally, TALLY_SILENT, 1);
	snprintf(text, sizeof(text), "no answer within %u s; %s%s%s",
	         client->load->options.patience_seconds, due ? "next due is " : "nothing is due",
	         due ? answers_kind_name(due->kind) : "",
	         client->is_cancelling ? ", a cancel is on its way" : "");
	client_wrong(client, text);
}

static void on_notice(void *arg, const PGresult *notice)
{
	struct client *client = arg;

	if (!answers_judge_notice(&client->answers, notice, &client->load->tally))
		tally_wrong(&client->load->tally, "client %u, %s, step %u: %s", client->id,
		            activity_name(client), client->step, client->answers.complaint);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	client_turn(arg);
}

/* The socket may change with each step of libpq's login. */
static void follow_socket(struct client *client)
{
	int fd = PQsocket(client->conn);

	if (client->readable && event_get_fd(client->readable) == fd)
		return;
	free_event(&client->readable);
	free_event(&client->writable);
	client->readable =
	    event_new(client->load->base, fd, EV_READ | EV_PERSIST, on_socket, client);
	client->writable = event_new(client->load->base, fd, EV_WRITE, on_socket, client);
}

static void wish_for(struct client *client, PostgresPollingStatusType wish)
{
	follow_socket(client);
	if (wish == PGRES_POLLING_WRITING) {
		event_del(client->readable);
		event_add(client->writable, NULL);
	} else {
		event_del(client->writable);
		event_add(client->readable, NULL);
	}
}

static void client_connect(struct client *client)
{
	char name[WORDS_SIZE];
	const char *const keywords[] = { "dbname", "application_name", NULL };
	const char *const values[] = { client->load->options.conninfo, name, NULL };

	snprintf(name, sizeof(name), "load-%u", client->id);
	client->state = CLIENT_CONNECTING;
	client->step = 0;
	client->conn = PQconnectStartParams(keywords, values, 1);
	PQsetNoticeReceiver(client->conn, on_notice, client);
	if (PQstatus(client->conn) == CONNECTION_BAD) {
		client_wrong(client, PQerrorMessage(client->conn));
		return;
	}
	arm_deadline(client);
	wish_for(client, PGRES_POLLING_WRITING);
}

static void go_on_connecting(struct client *client)
{
	PostgresPollingStatusType wish = PQconnectPoll(client->conn);

	if (wish == PGRES_POLLING_FAILED) {
		client_wrong(client, PQerrorMessage(client->conn));
		return;
	}
	if (wish != PGRES_POLLING_OK) {
		wish_for(client, wish);
		return;
	}
	tally_add(&client->load->tally, TALLY_CONNECTS, 1);
	PQsetnonblocking(client->conn, 1);
	client->state = CLIENT_WORKING;
	wish_for(client, PGRES_POLLING_READING);
	client_turn(client);
}

/* False if there is no further result now, or the connection is closed. */
static bool take_copy_line(struct client *client)
{
	char *line;
	int length = PQgetCopyData(client->conn, &line, 1);
	bool is_right;

	if (length == 0)
		return false;
	if (length < 0) {
		answers_next(&client->answers)->is_copying = false;
		return true;
	}
	is_right = answers_judge_line(&client->answers, line);
	PQfreemem(line);
	if (!is_right)
		client_wrong(client, client->answers.complaint);
	return is_right;
}

static bool take_result(struct client *client)
{
	PGresult *result;
	bool is_right;

	if (PQisBusy(client->conn))
		return false;
	result = PQgetResult(client->conn);
	is_right = answers_judge(&client->answers, result, &client->load->tally);
	PQclear(result);
	if (is_right)
		arm_deadline(client);
	else
		client_wrong(client, client->answers.complaint);
	return is_right;
}

static void take_answers(struct client *client)
{
	const struct due *due;

	while (client->state == CLIENT_WORKING && (due = answers_next(&client->answers)))
		if (!(due->is_copying ? take_copy_line(client) : take_result(client)))
			return;
}

static void end_activity(struct client *client)
{
	if (PQtransactionStatus(client->conn) != PQTRANS_IDLE)
		client_wrong(client, "still in a transaction at the end");
	else if (client->answers.notice[0])
		client_wrong(client, "a notice did not come");
	client->activity = NULL;
	client->write_count = 0;
}

static void take_step(struct client *client)
{
	if (!client->activity && client->load->is_ending) {
		client_finish(client);
		return;
	}
	if (!client->activity) {
		client->activity = activity_pick(client->load);
		client->step = 0;
	}
	client->is_step_open = false;
	switch (client->activity->step(client, client->step)) {
	case STEP_SENT:
		client->step++;
		arm_deadline(client);
		break;
	case STEP_AGAIN:
		client->is_step_open = true;
		break;
	case STEP_DONE:
		end_activity(client);
		break;
	case STEP_GONE:
		break;
	}
}

/* Sends what libpq holds. True if all is out. */
static bool flush(struct client *client)
{
	int rest = PQflush(client->conn);

	if (rest == 1)
		event_add(client->writable, NULL);
	return rest == 0;
}

static bool may_step(const struct client *client)
{
	return client->state == CLIENT_WORKING && client->answers.count == 0 &&
	       !client->is_cancelling;
}

static void client_turn(struct client *client)
{
	if (client->state == CLIENT_CONNECTING) {
		go_on_connecting(client);
		return;
	}
	if (!PQconsumeInput(client->conn)) {
		client_wrong(client, PQerrorMessage(client->conn));
		return;
	}
	take_answers(client);
	while (may_step(client)) {
		if (client->is_step_open && !flush(client))
			return;
		take_step(client);
		take_answers(client);
	}
	if (client->state == CLIENT_WORKING)
		flush(client);
}

static void send_cancel(struct client *client)
{
	tally_add(&client->load->tally, TALLY_CANCELS, 1);
	canceller_ask(client->load->canceller, PQgetCancel(client->conn), client,
	              client->cancel_ticket);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct client *client = arg;

	(void)fd;
	(void)what;
	if (client->state == CLIENT_WORKING)
		send_cancel(client);
	else if (client->load->is_ending)
		client_finish(client);
	else
		client_connect(client);
}

void client_cancel_after(struct client *client, unsigned int milliseconds)
{
	client->cancel_ticket++;
	client->is_cancelling = true;
	arm(client->later, milliseconds);
}

void client_on_cancelled(void *arg, unsigned int ticket, bool is_sent)
{
	struct client *client = arg;

	if (!client->is_cancelling || ticket != client->cancel_ticket)
		return;
	client->is_cancelling = false;
	if (is_sent)
		client_turn(client);
	else
		client_wrong(client, "the cancel request could not be delivered");
}

void client_tag(struct client *client, char *tag)
{
	client->sequence++;
	snprintf(tag, TAG_SIZE, "c%u.s%u", client->id, client->sequence);
}

void client_take_writes(struct client *client, size_t count, enum write_state state)
{
	client->write_first = ledger_take(&client->writes, count, state);
	client->write_count = count;
}

void client_commit_writes(struct client *client)
{
	ledger_settle(&client->writes, client->write_first, client->write_count, WRITE_COMMITTED);
	tally_add(&client->load->tally, TALLY_WRITES, client->write_count);
}

void client_start(struct client *client, struct load *load, unsigned int id)
{
	*client = (struct client){ .load = load, .id = id, .state = CLIENT_AWAY };
	client->deadline = evtimer_new(load->base, on_deadline, client);
	client->later = evtimer_new(load->base, on_later, client);
	arm(client->later, load_random(load, AWAY_MSEC_MAX));
}

void client_done(struct client *client)
{
	if (client->conn)
		drop_connection(client, VANISH_POLITELY);
	free_event(&client->deadline);
	free_event(&client->later);
	ledger_done(&client->writes);
}
