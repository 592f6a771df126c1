/* SPDX-License-Identifier: ISC */
/*
 * The rows of a roster, and how a change of one is noted for the log and the pools.
 */
#include <stdlib.h>
#include <string.h>

#include "roster_priv.h"

bool roster_row_is_of(const struct roster_row *row, const struct roster_at *at)
{
	if (row->host != at->host)
		return false;
	if (!at->address)
		return row->address.family == AF_UNSPEC;
	return row->address.family != AF_UNSPEC && address_equal_host(&row->address, at->address);
}

struct roster_row *roster_find_row(const struct roster *roster, const struct roster_at *at)
{
	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster_row_is_of(&roster->rows[i], at))
			return &roster->rows[i];
	}
	return NULL;
}

static void remove_row(struct roster *roster, unsigned int number)
{
	roster->count--;
	memmove(&roster->rows[number], &roster->rows[number + 1],
	        (roster->count - number) * sizeof(*roster->rows));
}

/* A host with as many rows as it may have loses that which was not seen for the longest time. */
static void make_space(struct roster *roster, unsigned int host)
{
	unsigned int count = 0, oldest = 0;

	for (unsigned int i = 0; i < roster->count; i++) {
		if (roster->rows[i].host != host)
			continue;
		if (count++ == 0 || roster->rows[i].seen_at < roster->rows[oldest].seen_at)
			oldest = i;
	}
	if (count >= ROSTER_ADDRESSES)
		remove_row(roster, oldest);
}

/* Rows are in the order of their hosts, and of a host in the order in which they were found. */
static struct roster_row *insert_row(struct roster *roster, const struct roster_at *at)
{
	struct roster_row *rows = realloc(roster->rows, (roster->count + 1) * sizeof(*rows));
	unsigned int place = roster->count;

	if (!rows)
		return NULL;
	roster->rows = rows;
	while (place > 0 && rows[place - 1].host > at->host)
		place--;
	memmove(&rows[place + 1], &rows[place], (roster->count - place) * sizeof(*rows));
	roster->count++;
	rows[place] = (struct roster_row){ .host = at->host,
		                           .admin = roster->admins[at->host],
		                           .lag = ROSTER_LAG_UNKNOWN };
	if (at->address) {
		rows[place].address = *at->address;
		address_set_port(&rows[place].address, 0);
	}
	return &rows[place];
}

struct roster_row *roster_row_of(struct roster *roster, const struct roster_at *at)
{
	struct roster_row *row = roster_find_row(roster, at);

	if (row || at->host >= roster->host_count)
		return row;
	make_space(roster, at->host);
	return insert_row(roster, at);
}

bool roster_find(struct roster *roster, const struct roster_at *at, struct roster_row *row)
{
	const struct roster_row *found;

	roster_lock(roster);
	found = roster_find_row(roster, at);
	if (found)
		*row = *found;
	roster_unlock(roster);
	return found != NULL;
}

bool roster_row_at(struct roster *roster, unsigned int number, struct roster_row *row)
{
	bool has;

	roster_lock(roster);
	has = number < roster->count;
	if (has)
		*row = roster->rows[number];
	roster_unlock(roster);
	return has;
}

static bool is_one_of(const struct address *address, const struct address *addresses,
                      unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (address_equal_host(address, &addresses[i]))
			return true;
	}
	return false;
}

void roster_keep(struct roster *roster, unsigned int host, const struct address *addresses,
                 unsigned int count)
{
	roster_lock(roster);
	for (unsigned int i = roster->count; i-- > 0;) {
		const struct roster_row *row = &roster->rows[i];

		if (row->host == host && (row->address.family == AF_UNSPEC ||
		                          !is_one_of(&row->address, addresses, count)))
			remove_row(roster, i);
	}
	roster_unlock(roster);
}

/* ---- changes ---- */

struct roster_change *roster_add_change(struct roster_changes *changes, enum roster_event event,
                                        const struct roster_row *row)
{
	struct roster_change *change;

	if (!changes || changes->count == ROSTER_CHANGES_MAX)
		return NULL;
	change = &changes->list[changes->count++];
	*change = (struct roster_change){ .event = event, .row = *row };
	return change;
}

void roster_bump(struct roster *roster, struct roster_changes *changes)
{
	atomic_fetch_add_explicit(&roster->number, 1, memory_order_release);
	if (changes)
		changes->has_news = true;
}
