/* SPDX-License-Identifier: ISC */
#include "pgweir/pool/fair.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/base/container_of.h"
#include "pgweir/base/heap.h"

#define CLASSES (PRIORITY_LOW + 1)
#define UNIT 1000 /* of what is charged: weights up to that make a difference */
#define MEAN_OF 8 /* how many borrowers the mean is about */

/* A borrower among the others. It is kept while it neither waits nor has a server. */
struct fair_member {
	UT_hash_handle hh;
	struct borrower *borrower;
	struct fair_group *group;      /* NULL: it neither waits nor has a server */
	TAILQ_ENTRY(fair_member) node; /* while it waits */
	uint64_t charged;              /* in advance, while it has a server */
};

struct fair_group {
	UT_hash_handle hh; /* by class and name */
	TAILQ_HEAD(fair_line, fair_member) waiting;
	unsigned int waiting_count, served_count;
	unsigned int weight;
	enum priority priority;
	/* In the line of its class. Key: server time by weight, and what is charged ahead. */
	struct heap_node turn;
	usec_t mean, used;
	char name[]; /* of `key_size`: the class, and the name with its zero */
};

struct line {
	struct heap groups; /* that have waiting borrowers: the one that has used least is first */
	uint64_t floor;     /* what the last one that was served had used before */
	usec_t served_at;   /* or the first of it has waited since then */
};

struct fair {
	struct hash_key secret;
	struct fair_group *groups;
	struct fair_member *members;
	struct line lines[CLASSES];
	const struct line *last; /* of which somebody was served last */
};

static struct fair_group *group_at(const struct line *line, size_t place)
{
	return container_of(line->groups.list[place], struct fair_group, turn);
}

static struct line *line_of(struct fair *fair, const struct fair_group *group)
{
	return &fair->lines[group->priority];
}

/* ---- groups ---- */

struct fair *fair_new(void)
{
	struct fair *fair = calloc(1, sizeof(*fair));

	if (fair)
		hash_key_draw(&fair->secret);
	return fair;
}

static void free_group(struct fair *fair, struct fair_group *group)
{
	HASH_DEL(fair->groups, group);
	free(group);
}

/* ---- members ---- */

static struct fair_member *find_member(const struct fair *fair, const struct borrower *borrower)
{
	return TABLE_GET_OWN(hh, fair->members, &borrower, sizeof(borrower));
}

/* NULL: no memory. */
static struct fair_member *member_of(struct fair *fair, struct borrower *borrower)
{
	struct fair_member *member = find_member(fair, borrower);

	if (member || !(member = calloc(1, sizeof(*member))))
		return member;
	member->borrower = borrower;
	HASH_ADD_PTR(fair->members, borrower, member);
	return member;
}

static void free_member(struct fair *fair, struct fair_member *member)
{
	HASH_DEL(fair->members, member);
	free(member);
}

void fair_forget(struct fair *fair, const struct borrower *borrower)
{
	struct fair_member *member = find_member(fair, borrower);

	if (member)
		free_member(fair, member);
}

void fair_free(struct fair **fairp)
{
	struct fair *fair = *fairp;

	*fairp = NULL;
	if (!fair)
		return;
	while (fair->members)
		free_member(fair, fair->members);
	while (fair->groups) {
		assert(!fair->groups->waiting_count && !fair->groups->served_count);
		free_group(fair, fair->groups);
	}
	for (int i = 0; i < CLASSES; i++)
		heap_done(&fair->lines[i].groups);
	free(fair);
}

/* The name behind a byte for the class: the key. */
static struct fair_group *find(const struct fair *fair, const char *key, size_t size)
{
	return TABLE_GET(hh, &fair->secret, fair->groups, key, size);
}

static struct fair_group *add(struct fair *fair, const struct fair_who *who, const char *key,
                              size_t size)
{
	struct fair_group *group = calloc(1, sizeof(*group) + size + 1);

	if (!group)
		return NULL;
	memcpy(group->name, key, size);
	TAILQ_INIT(&group->waiting);
	group->priority = who->priority;
	group->turn.key = fair->lines[who->priority].floor;
	TABLE_ADD(hh, &fair->secret, fair->groups, group->name, size, group);
	return group;
}

/*
 * A group that nobody is in, and that has not used more than others, is as good as a new one. What
 * it has used above that is kept, so that nobody gets rid of it by leaving.
 */
static void forget_unused(struct fair *fair, struct fair_group *group)
{
	if (!group->waiting_count && !group->served_count &&
	    group->turn.key <= line_of(fair, group)->floor)
		free_group(fair, group);
}

/* Since they were left, the others may have used as much. */
static void forget_all_unused(struct fair *fair)
{
	struct fair_group *group, *next;

	HASH_ITER (hh, fair->groups, group, next)
		forget_unused(fair, group);
}

#define NAME_MAX_SIZE 128

/* NULL: no memory. */
static struct fair_group *group_of(struct fair *fair, const struct fair_who *who)
{
	char key[1 + NAME_MAX_SIZE];
	size_t count = who->name.count < NAME_MAX_SIZE ? who->name.count : NAME_MAX_SIZE;
	struct fair_group *group;

	key[0] = (char)('0' + who->priority);
	if (count)
		memcpy(key + 1, who->name.at, count);
	group = find(fair, key, count + 1);
	if (!group && HASH_COUNT(fair->groups) >= FAIR_GROUPS_MAX)
		forget_all_unused(fair);
	if (!group && HASH_COUNT(fair->groups) >= FAIR_GROUPS_MAX) {
		count = 0;
		group = find(fair, key, 1);
	}
	if (!group)
		group = add(fair, who, key, count + 1);
	if (group)
		group->weight = who->weight;
	return group;
}

static uint64_t charge_of(const struct fair_group *group, usec_t time)
{
	return (uint64_t)time * UNIT / group->weight;
}

/* ---- waiting ---- */

bool fair_wait(struct fair *fair, struct borrower *borrower, const struct fair_who *who,
               bool is_first, usec_t now)
{
	struct fair_member *member = member_of(fair, borrower);
	struct fair_group *group = member ? group_of(fair, who) : NULL;
	struct line *line;

	if (!group)
		return false;
	line = line_of(fair, group);
	if (!group->waiting_count) {
		if (group->turn.key < line->floor)
			group->turn.key = line->floor;
		if (!line->groups.count)
			line->served_at = now;
		if (!heap_add(&line->groups, &group->turn)) {
			forget_unused(fair, group);
			return false;
		}
	}
	member->group = group;
	group->waiting_count++;
	if (is_first)
		TAILQ_INSERT_HEAD(&group->waiting, member, node);
	else
		TAILQ_INSERT_TAIL(&group->waiting, member, node);
	return true;
}

void fair_leave(struct fair *fair, const struct borrower *borrower)
{
	struct fair_member *member = find_member(fair, borrower);
	struct fair_group *group = member ? member->group : NULL;

	if (!group)
		return;
	member->group = NULL;
	TAILQ_REMOVE(&group->waiting, member, node);
	if (--group->waiting_count)
		return;
	heap_remove(&line_of(fair, group)->groups, &group->turn);
	forget_unused(fair, group);
}

/*
 * The highest class that has somebody; or one of which nobody was served for too long, while others
 * were: the one that has waited longest. With statements of seconds the classes take turns.
 */
static const struct line *next_line(const struct fair *fair, usec_t now)
{
	const struct line *next = NULL, *starved = NULL;

	for (int i = CLASSES - 1; i >= 0; i--) {
		const struct line *line = &fair->lines[i];

		if (!line->groups.count)
			continue;
		if (line != fair->last && now - line->served_at >= FAIR_STARVED &&
		    (!starved || line->served_at <= starved->served_at))
			starved = line;
		next = line;
	}
	return starved ? starved : next;
}

struct borrower *fair_next(const struct fair *fair, usec_t now)
{
	const struct line *line = next_line(fair, now);

	return line ? TAILQ_FIRST(&group_at(line, 0)->waiting)->borrower : NULL;
}

/* ---- using a server ---- */

void fair_lend(struct fair *fair, struct borrower *borrower, const struct fair_who *who, usec_t now)
{
	struct fair_member *member = member_of(fair, borrower);
	struct fair_group *group = member ? group_of(fair, who) : NULL;
	struct line *line;

	if (!group)
		return;
	line = line_of(fair, group);
	line->served_at = now;
	fair->last = line;
	if (group->turn.key > line->floor)
		line->floor = group->turn.key;
	else
		group->turn.key = line->floor;
	member->group = group;
	member->charged = charge_of(group, group->mean);
	group->turn.key += member->charged;
	group->served_count++;
	if (group->waiting_count)
		heap_moved(&line->groups, &group->turn);
}

void fair_return(struct fair *fair, const struct borrower *borrower, usec_t used)
{
	struct fair_member *member = find_member(fair, borrower);
	struct fair_group *group = member ? member->group : NULL;

	if (!group)
		return;
	member->group = NULL;
	group->served_count--;
	group->used += used;
	group->mean += (used - group->mean) / MEAN_OF;
	group->turn.key += charge_of(group, used) - member->charged;
	if (group->waiting_count)
		heap_moved(&line_of(fair, group)->groups, &group->turn);
	forget_unused(fair, group);
}

struct borrower *fair_last(const struct fair *fair)
{
	for (int i = CLASSES - 1; i >= 0; i--) {
		const struct line *line = &fair->lines[i];

		if (line->groups.count)
			return TAILQ_LAST(&group_at(line, line->groups.count - 1)->waiting,
			                  fair_line)
			    ->borrower;
	}
	return NULL;
}

/* ---- to be shown ---- */

const char *fair_key_after(const struct fair *fair, const char *key)
{
	const struct fair_group *group;
	const char *found = NULL;

	for (group = fair->groups; group; group = group->hh.next) {
		if (strcmp(group->name, key) > 0 && (!found || strcmp(group->name, found) < 0))
			found = group->name;
	}
	return found;
}

void fair_add_up(const struct fair *fair, const char *key, struct fair_sum *sum)
{
	const struct fair_group *group = find(fair, key, strlen(key));

	if (!group)
		return;
	sum->priority = group->priority;
	sum->weight = group->weight;
	sum->waiting += group->waiting_count;
	sum->served += group->served_count;
	sum->used += group->used;
}
