/* SPDX-License-Identifier: ISC */
/*
 * Limits the file descriptors of connections that have not logged in.
 *
 * A client can open connections and send nothing for client_login_timeout. So when file
 * descriptors run short, each new connection closes the oldest of those, and the last
 * descriptors are kept for servers, consoles and cancel requests. The kernel always assigns
 * the lowest free descriptor, so a descriptor of `files_for_clients` or more shows that all
 * lower ones are in use. While a connection that has not logged in has such a descriptor,
 * descriptors count as short: the next connection may get a lower one that was just freed.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "login_priv.h"

#define TELL_PERIOD (60 * USEC_PER_SEC)
#define FILES_ADVICE "raise the limit on open files (ulimit -n; systemd: LimitNOFILE=)"

static bool is_high(const struct clients *clients, int fd)
{
	return clients->with.files_for_clients && fd >= clients->with.files_for_clients;
}

void unauthenticated_add(struct client *client)
{
	struct clients *clients = client->clients;
	struct client_login *login = client->login;

	TAILQ_INSERT_TAIL(&clients->unauthenticated, login, unauthenticated);
	login->client = client;
	login->is_high = is_high(clients, client->stream.watch.fd);
	clients->high_count += login->is_high;
	if (clients->high_count && TAILQ_FIRST(&clients->unauthenticated) != login)
		clients_evict_oldest(clients);
}

static void report_shortage(struct clients *clients)
{
	struct logger logger = { clients->with.log, NULL };
	usec_t now = loop_now(clients->with.loop);
	bool begins = limit_event_begins(&clients->with.told->files_met, now);

	if (!login_may_tell(&clients->with.told->shortage_at, now, TELL_PERIOD) && !begins)
		return;
	log_event(&logger, LOG_LEVEL_WARNING,
	          &(struct log_facts){ .kept = begins ? LIMIT_EVENT_KIND : NULL },
	          "running out of open files: for each new connection, the oldest one that "
	          "has not logged in is closed; " FILES_ADVICE ", or lower client_login_timeout");
}

usec_t clients_oldest_login(const struct clients *clients)
{
	const struct client_login *oldest = TAILQ_FIRST(&clients->unauthenticated);

	return oldest ? oldest->client->connected_at : 0;
}

bool clients_evict_oldest(struct clients *clients)
{
	struct client_login *oldest = TAILQ_FIRST(&clients->unauthenticated);

	report_shortage(clients);
	if (!oldest)
		return false;
	clients->files_hits++;
	client_close(oldest->client, CLOSE_FILES_EVICTED);
	return true;
}

int clients_files_used(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? INT_MAX : fd;
}

bool unauthenticated_is_short(const struct client *client)
{
	/* Lower descriptors may have been freed since: find the lowest free one now. */
	return is_high(client->clients, client->stream.watch.fd) &&
	       is_high(client->clients, clients_files_used());
}

void unauthenticated_refuse(struct client *client)
{
	struct clients *clients = client->clients;
	struct err err;
	char detail[96];

	clients->files_hits++;
	report_shortage(clients);
	snprintf(detail, sizeof(detail), "%d open files of pgweir may belong to clients.",
	         clients->with.files_for_clients);
	err_close(&err, CLOSE_FILES_LIMIT);
	client_fatal_detailed(client, &err, detail, "To the administrator: " FILES_ADVICE ".");
}
