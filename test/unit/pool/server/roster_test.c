/* SPDX-License-Identifier: ISC */
/*
 * pool/server/roster*.c: which hosts fit, which primary counts, and what is logged, told as scripts
 * with a clock that the script turns.
 */
#include "pgweir/pool/server/roster.h"

#include <stdio.h>
#include <string.h>

#include "../../unit.h"

#define FIRST_TIME 1000

struct scene {
	struct roster roster;
	char events[16]; /* since the last word about them, a letter each */
	usec_t without;
	usec_t now;
};

static void open_roster(struct scene *scene, const char *list)
{
	*scene = (struct scene){ .now = FIRST_TIME };
	ck_assert(roster_init(&scene->roster, list, scene->now));
}

/*
 * A script of words about hosts a to d:
 *   a=p3  it answers the role question: primary, timeline 3 (s: standby; 0: timeline not known)
 *   a:p   a login or a report says only that (a:r: primary, read-only by default)
 *   a~    a server there has refused to write
 *   a!    it is lost       aw   it is watched     +N   the clock goes on
 *   ad    it is disabled   an   it is drained     ae   it is enabled       t  trust again
 *   a?pG  fits primary: G good, M maybe or due, S spare, N no
 *         (s: standby, w: read-write, r: read-only, f: prefer-standby, y: any)
 *   a>pS  may stay: S stays, L lost, R role, D drained, X disabled, F fenced
 *   "E"   the events since the last one are these: R role, F fenced, O foreign, L lost, B back
 *   *N    there was no primary for so long, until the last word
 */
static const struct {
	const char *says;
	const char *script;
} cases[] = {
	{ "nothing is known: all may be tried", "a?pM a?sM a?fM a?yG a>pS" },
	{ "a primary", "a=p1 a?pG a?wG a?sN a?rN a?fS a?yG a>pS a>sR" },
	{ "a standby", "b=s1 b?pN b?wN b?sG b?rG b?fG b?yG b>pR b>wR b>sS b>fS" },
	{ "a primary that is read-only by default", "a:r a?pG a?wN a?rG a?sN" },
	{ "what did not fit may be tried after the gap", "a:s a?pN +199999 a?pN +1 a?pM" },
	{ "unless it is watched", "a=s1 aw +1000000 a?pN" },
	{ "a lost host is not used, but keeps its lent servers", "a=p1 a! a?pN a>pL a?yG a>yS" },
	{ "until it is back", "a=p1 a! a=p1 a?pG a>pS" },
	{ "what happens is logged once", "\"\" a=p1 \"R\" a=p1 \"\" a! \"L\" a! \"\" a=p1 \"B\"" },
	{ "a promotion", "a=p1 b=s1 a! \"RRL\" b=p2 \"R\" b?pG a?pN a>pF" },
	{ "without a primary", "a=p1 a! +70 b=p2 *70" },
	{ "from the beginning", "+5 a=s1 +7 b=p1 *12" },
	{ "a promotion that a session reports first", "a=p1 b=s1 a! b:p b?pG a?pN b=p2 b?pG" },
	{ "the former primary comes back as primary",
	  "a=p1 a! b=p2 \"RLR\" a=p1 \"BF\" a?pN b?pG" },
	{ "and is logged again when it comes back again",
	  "a=p1 a! b=p2 a=p1 \"RLRBF\" a=p1 \"\" a! \"L\" a=p1 \"BF\"" },
	{ "the former primary comes back as standby", "a=p1 a! b=p2 a=s2 a?sG a?pN a>sS b?pG" },
	{ "the former primary comes back while the new one is lost",
	  "a=p1 a! b=p2 b! a=p1 a?pN b?pN" },
	{ "two primaries: the newer timeline counts",
	  "a=p1 \"R\" b=p2 \"RF\" a?pN b?pG a>yF a?yN" },
	{ "in the other order", "b=p2 \"R\" a=p1 \"RF\" a?pN b?pG" },
	{ "with the same timeline: the one that has counted so far",
	  "b=p2 a=p2 \"RRF\" a?pN b?pG" },
	{ "a primary whose timeline is not known counts behind",
	  "b=p2 a:p a?pN b?pG a=p3 a?pG b?pN" },
	{ "unless the other one is lost", "b=p2 b! a:p a?pG" },
	{ "a fenced host is tried after the gap", "b=p2 a=p1 a?pN +200000 a?pM a?yM" },
	{ "unless it is watched", "b=p2 a=p1 aw +1000000 a?pN" },
	{ "a fenced host is promoted", "a=p1 b=p2 a?pN +200000 a=p3 a?pG b?pM" },
	{ "a fenced primary is a standby now", "b=p2 a=p1 a=s2 a>sS a?sG" },
	{ "two standbys are promoted, to the same timeline",
	  "a=p1 b=s1 c=s1 a! b=p2 c=p2 b?pG c?pN" },
	{ "two addresses of one server", "a=P b=P \"RR\" a?pG b?pG" },
	{ "a host of another cluster", "a=p1 b=x1 \"RRO\" b?sN b>sF b?yN a?pG" },
	{ "trusted again", "a=p3 a! b=p1 b?pN t b?pG" },
	{ "another cluster is trusted", "a=p1 a! b=X1 b?pN t b?pG" },
	{ "a primary that refuses to write must say again what it is",
	  "a=p1 a>pS a~ a?pG a?wN a>pR a>wR a>yS a:p a>pR a=p1 a>pS a>wS" },
	{ "a watch that is asked too knows better", "a=p1 aw a~ a?pG a?wG a>pR a>wR a=p1 a>wS" },
	{ "drained", "a=p1 an a?pN a?yN a>pD a>yD ae a?pG a>pS" },
	{ "disabled", "a=p1 ad a?pN a>pX b?pM" },
	{ "a host that nothing is known of is disabled", "ad a?pN a?yN a>yX a=p1 a?pN" },
	{ "without a primary while it is drained", "a=p1 an +40 b=p2 *40" },
	{ "a standby does not leave because it was lost for a while", "b=s1 b! b:s b?sG b>sS" },
};

static const struct {
	char letter;
	enum target_session_attrs target;
} targets[] = {
	{ 'p', TARGET_PRIMARY },   { 's', TARGET_STANDBY },        { 'w', TARGET_READ_WRITE },
	{ 'r', TARGET_READ_ONLY }, { 'f', TARGET_PREFER_STANDBY }, { 'y', TARGET_ANY },
};

static enum target_session_attrs target_of(char letter)
{
	for (size_t i = 0; i < COUNT_OF(targets); i++) {
		if (targets[i].letter == letter)
			return targets[i].target;
	}
	ck_abort_msg("no target %c", letter);
}

/* x, X: of another cluster; P: a server of which there are two addresses. */
static struct host_report answer_of(const char *word)
{
	char kind = word[0] | 0x20;
	struct host_report report = { .is_full = true };

	report.role = kind == 's' || word[0] == 'x' ? HOST_STANDBY : HOST_PRIMARY;
	report.system = kind == 'x' ? 77 : 42;
	report.started = word[0] == 'P' ? 5 : 0;
	report.timeline = word[0] == 'P' ? 1 : (uint32_t)(word[1] - '0');
	return report;
}

static void check_letter(const struct scene *scene, const char *says, const char *word,
                         enum roster_fit fit, usec_t due)
{
	static const char letters[] = {
		[ROSTER_NO] = 'N', [ROSTER_MAYBE] = 'M', [ROSTER_SPARE] = 'S', [ROSTER_GOOD] = 'G'
	};
	char letter = letters[fit];

	ck_assert_msg((due == 0) == (fit != ROSTER_NO), "%s: %s: due", says, word);
	if (due && due <= scene->now)
		letter = 'M';
	ck_assert_msg(letter == word[3], "%s: %s: %c", says, word, letter);
}

static enum roster_fit fit_of(struct scene *scene, const struct roster_at *at,
                              enum target_session_attrs target, usec_t *due)
{
	return roster_fit(&scene->roster, at, &(struct roster_want){ .target = target }, due);
}

static void check_fit(struct scene *scene, const char *says, const char *word,
                      const struct roster_at *at)
{
	usec_t due;
	enum roster_fit fit = fit_of(scene, at, target_of(word[2]), &due);

	check_letter(scene, says, word, fit, due);
}

static void check_stay(struct scene *scene, const char *says, const char *word,
                       const struct roster_at *at)
{
	static const char letters[] = {
		[CLOSE_NONE] = 'S',         [CLOSE_HOST_LOST] = 'L',     [CLOSE_HOST_ROLE] = 'R',
		[CLOSE_HOST_DRAINED] = 'D', [CLOSE_HOST_DISABLED] = 'X', [CLOSE_HOST_FENCED] = 'F'
	};
	enum close_reason stay = roster_stay(&scene->roster, at, target_of(word[2]));

	ck_assert_msg(letters[stay] == word[3], "%s: %s: %c", says, word, letters[stay]);
}

static void check_events(struct scene *scene, const char *says, const char *word)
{
	size_t count = strlen(word) - 2;

	ck_assert_msg(strlen(scene->events) == count &&
	                  strncmp(scene->events, &word[1], count) == 0,
	              "%s: %s: %s", says, word, scene->events);
	scene->events[0] = 0;
}

static enum host_admin admin_of(char letter)
{
	return letter == 'd' ? HOST_DISABLED : letter == 'n' ? HOST_DRAINING : HOST_ENABLED;
}

/* What a line for the log is about: R role, F fenced, O foreign, L lost, B back, ... */
static char event_of(const char *line)
{
	static const struct {
		const char *words;
		char letter;
	} events[] = {
		{ "it says that it is primary", 'F' },
		{ "of another cluster", 'O' },
		{ " is lost: ", 'L' },
		{ "answers again", 'B' },
		{ "has diverged", 'd' },
		{ "gets no reads: it is ", 'b' },
		{ "gets reads again: it is ", 'c' },
		{ "follows the primary again", 'f' },
		{ "has become primary without", 'l' },
		{ " is primary", 'R' },
		{ " is a standby", 'R' },
	};

	for (size_t i = 0; i < COUNT_OF(events); i++) {
		if (strstr(line, events[i].words))
			return events[i].letter;
	}
	ck_abort_msg("%s", line);
}

/* The events of several words are collected. */
static void note_events(struct scene *scene, const struct roster_changes *changes)
{
	size_t count = strlen(scene->events);

	for (unsigned int i = 0; i < changes->count; i++)
		scene->events[count++] = event_of(changes->lines[i].text);
	ck_assert_uint_lt(count, sizeof(scene->events));
	scene->events[count] = 0;
	scene->without = changes->without;
}

static void note(struct scene *scene, const char *word, const struct roster_at *at)
{
	struct roster_changes changes = { 0 };
	struct host_report report = { .role = word[2] == 's' ? HOST_STANDBY : HOST_PRIMARY,
		                      .is_read_only = word[2] == 'r' };

	if (word[1] == '~')
		report.is_read_only = report.is_doubtful = true;
	if (word[1] == '=')
		report = answer_of(&word[2]);
	if (word[1] == '!')
		roster_fail(&scene->roster, at, ROSTER_LOST, "no answer", scene->now, &changes);
	else
		roster_note(&scene->roster, at, &report, scene->now, &changes);
	note_events(scene, &changes);
}

static void play(struct scene *scene, const char *says, const char *word)
{
	struct roster_at at = { .host = (unsigned int)(word[0] - 'a') };

	if (*word == '+')
		scene->now += strtoll(&word[1], NULL, 10);
	else if (*word == '*')
		ck_assert_int_eq(scene->without, strtoll(&word[1], NULL, 10));
	else if (*word == '"')
		check_events(scene, says, word);
	else if (strcmp(word, "t") == 0)
		roster_trust_again(&scene->roster, scene->now);
	else if (word[1] == '?')
		check_fit(scene, says, word, &at);
	else if (word[1] == '>')
		check_stay(scene, says, word, &at);
	else if (word[1] == 'w')
		roster_watch(&scene->roster, &at);
	else if (strchr("dne", word[1]))
		roster_set_admin(&scene->roster, at.host, admin_of(word[1]), scene->now);
	else
		note(scene, word, &at);
}

START_TEST(roles_decide)
{
	struct scene scene;
	char script[256], *rest = script, *word;

	snprintf(script, sizeof(script), "%s", cases[_i].script);
	open_roster(&scene, "/a,/b,/c,/d");
	while ((word = strsep(&rest, " ")))
		play(&scene, cases[_i].says, word);
	roster_done(&scene.roster);
}
END_TEST

static void note_position(struct scene *scene, unsigned int host, enum host_role role,
                          uint64_t position)
{
	struct roster_at at = { .host = host };
	struct host_report report = { .role = role, .is_full = true, .position = position };

	roster_watch(&scene->roster, &at);
	roster_note(&scene->roster, &at, &report, scene->now, NULL);
}

/* The same, of a timeline; returns the last event. 0: none. */
static char note_history(struct scene *scene, unsigned int host, enum host_role role,
                         uint32_t timeline, uint64_t position)
{
	struct roster_at at = { .host = host };
	struct roster_changes changes = { 0 };
	struct host_report report = {
		.role = role, .is_full = true, .timeline = timeline, .position = position
	};

	roster_watch(&scene->roster, &at);
	roster_note(&scene->roster, &at, &report, scene->now, &changes);
	return changes.count ? event_of(changes.lines[changes.count - 1].text) : 0;
}

static struct roster_row row_at(struct scene *scene, unsigned int host)
{
	struct roster_at at = { .host = host };
	struct roster_row row;

	ck_assert(roster_find(&scene->roster, &at, &row));
	return row;
}

START_TEST(lag_is_the_age_of_what_a_standby_has)
{
	struct scene scene;

	open_roster(&scene, "/a,/b");
	note_position(&scene, 1, HOST_STANDBY, 50);
	ck_assert_int_eq(row_at(&scene, 1).lag, ROSTER_LAG_UNKNOWN);
	note_position(&scene, 0, HOST_PRIMARY, 100);
	scene.now += 10;
	note_position(&scene, 0, HOST_PRIMARY, 100);
	scene.now += 10;
	note_position(&scene, 0, HOST_PRIMARY, 120);

	scene.now += 5;
	note_position(&scene, 1, HOST_STANDBY, 120);
	ck_assert_int_eq(row_at(&scene, 1).lag, 0);
	ck_assert_uint_eq(row_at(&scene, 1).lag_bytes, 0);
	note_position(&scene, 1, HOST_STANDBY, 110);
	ck_assert_int_eq(row_at(&scene, 1).lag, 15);
	ck_assert_uint_eq(row_at(&scene, 1).lag_bytes, 10);
	note_position(&scene, 1, HOST_STANDBY, 100);
	ck_assert_int_eq(row_at(&scene, 1).lag, 15);
	note_position(&scene, 1, HOST_STANDBY, 99);
	ck_assert_int_eq(row_at(&scene, 1).lag, 15);
	roster_fail(&scene.roster, &(struct roster_at){ .host = 1 }, ROSTER_LOST, "", scene.now,
	            NULL);
	ck_assert_int_eq(row_at(&scene, 1).lag, ROSTER_LAG_UNKNOWN);
	note_position(&scene, 1, HOST_STANDBY, 120);
	ck_assert_int_eq(row_at(&scene, 1).lag, 0);
	roster_fail(&scene.roster, &(struct roster_at){ .host = 1 }, ROSTER_REFUSED, "", scene.now,
	            NULL);
	ck_assert_int_eq(row_at(&scene, 1).lag, ROSTER_LAG_UNKNOWN);
	/* What the primary has written is not known without a watch, unless it is dead. */
	roster_fail(&scene.roster, &(struct roster_at){ .host = 0 }, ROSTER_REFUSED, "", scene.now,
	            NULL);
	note_position(&scene, 1, HOST_STANDBY, 120);
	ck_assert_int_eq(row_at(&scene, 1).lag, ROSTER_LAG_UNKNOWN);
	roster_fail(&scene.roster, &(struct roster_at){ .host = 0 }, ROSTER_LOST, "", scene.now,
	            NULL);
	note_position(&scene, 1, HOST_STANDBY, 120);
	ck_assert_int_eq(row_at(&scene, 1).lag, 0);
	roster_done(&scene.roster);
}
END_TEST

/* A great lag is known within the distance of two samples, however many there were. */
START_TEST(lag_is_remembered_for_long)
{
	struct scene scene;

	open_roster(&scene, "/a,/b");
	for (uint64_t i = 0; i < 10000; i++) {
		scene.now += 10;
		note_position(&scene, 0, HOST_PRIMARY, 1000 + i);
	}
	for (uint64_t behind = 1; behind < 9000; behind *= 3) {
		usec_t lag;

		note_position(&scene, 1, HOST_STANDBY, 1000 + 9999 - behind);
		lag = row_at(&scene, 1).lag;
		ck_assert_int_ge(lag, (usec_t)behind * 10);
		ck_assert_int_le(lag, (usec_t)behind * 10 * 2 + 50000);
	}
	roster_done(&scene.roster);
}
END_TEST

/* Steps of a standby whose primary is at 120 since the 20th, with two limits: 15, and 30 bytes. */
static const struct {
	const char *says;
	usec_t pause;
	uint64_t position; /* 0: it is lost */
	enum host_role role;
	bool is_late, is_far;
	const char *events; /* b behind, c caught up, L lost, B back, R role, F fenced */
} steps[] = {
	{ "a lag within both limits", 0, 110, HOST_STANDBY, false, false, "" },
	{ "at the limit", 5, 110, HOST_STANDBY, false, false, "" },
	{ "longer", 1, 110, HOST_STANDBY, true, false, "b" },
	{ "longer still", 9, 110, HOST_STANDBY, true, false, "" },
	{ "and too many bytes", 0, 80, HOST_STANDBY, true, true, "b" },
	{ "fewer bytes", 0, 100, HOST_STANDBY, true, false, "c" },
	{ "nothing", 0, 120, HOST_STANDBY, false, false, "c" },
	{ "both at once", 0, 1, HOST_STANDBY, true, true, "bb" },
	{ "a lag that is not known is too much", 0, 0, HOST_STANDBY, true, true, "L" },
	{ "it is back without a lag", 0, 120, HOST_STANDBY, false, false, "B" },
	{ "it is lost again", 0, 0, HOST_STANDBY, true, true, "L" },
	{ "it is back, and behind", 0, 100, HOST_STANDBY, true, false, "Bb" },
	{ "a primary is not behind", 0, 100, HOST_PRIMARY, false, false, "RF" },
};

static void check_limit(struct scene *scene, unsigned int step, const struct roster_limit *limit,
                        bool is_behind)
{
	struct roster_row row = row_at(scene, 1);

	ck_assert_msg(roster_row_is_behind(&row, limit) == is_behind, "%s", steps[step].says);
}

static void check_changes(const struct roster_changes *changes, unsigned int step)
{
	char events[ROSTER_LINES_MAX + 1] = "";

	for (unsigned int i = 0; i < changes->count; i++)
		events[i] = event_of(changes->lines[i].text);
	ck_assert_msg(strcmp(events, steps[step].events) == 0, "%s: %s", steps[step].says, events);
	ck_assert_msg(changes->has_news == (changes->count > 0), "%s: news", steps[step].says);
}

START_TEST(limits_of_the_lag)
{
	static const struct roster_limit limits[] = { { 15, 0 }, { 0, 30 } };
	struct roster_at at = { .host = 1 };
	struct scene scene;

	open_roster(&scene, "/a,/b");
	for (unsigned int i = 0; i < 2 * COUNT_OF(limits); i++)
		ck_assert(roster_add_limit(&scene.roster, &limits[i % COUNT_OF(limits)]));
	ck_assert_uint_eq(scene.roster.limit_count, COUNT_OF(limits));
	note_position(&scene, 0, HOST_PRIMARY, 100);
	note_position(&scene, 1, HOST_STANDBY, 100);
	scene.now += 10;
	note_position(&scene, 0, HOST_PRIMARY, 120);
	for (unsigned int i = 0; i < COUNT_OF(steps); i++) {
		struct host_report report = { .role = steps[i].role,
			                      .is_full = true,
			                      .position = steps[i].position };
		struct roster_changes changes = { 0 };

		scene.now += steps[i].pause;
		if (report.position)
			roster_note(&scene.roster, &at, &report, scene.now, &changes);
		else
			roster_fail(&scene.roster, &at, ROSTER_LOST, "", scene.now, &changes);
		check_changes(&changes, i);
		check_limit(&scene, i, &limits[0], steps[i].is_late);
		check_limit(&scene, i, &limits[1], steps[i].is_far);
		check_limit(&scene, i, &(struct roster_limit){ 0 }, false);
	}
	roster_done(&scene.roster);
}
END_TEST

/* A host with two addresses is behind if both are. */
START_TEST(a_host_is_behind_with_all_its_addresses)
{
	static const struct roster_want want = { TARGET_STANDBY, { 0, 5 }, false };
	struct host_report report = { .role = HOST_STANDBY, .is_full = true, .position = 100 };
	struct roster_at host = { .host = 0 }, one = { .host = 0 }, other = { .host = 0 };
	struct address addresses[2];
	struct scene scene;
	usec_t due;

	open_roster(&scene, "name,/b");
	ck_assert_int_eq(roster_fit(&scene.roster, &host, &want, &due), ROSTER_MAYBE);
	ck_assert(address_parse(&addresses[0], "192.0.2.1", 0));
	ck_assert(address_parse(&addresses[1], "192.0.2.2", 0));
	one.address = &addresses[0];
	other.address = &addresses[1];
	note_position(&scene, 1, HOST_PRIMARY, 120);
	roster_note(&scene.roster, &one, &report, scene.now, NULL);
	roster_watch(&scene.roster, &one);
	roster_note(&scene.roster, &other, &report, scene.now, NULL);
	roster_watch(&scene.roster, &other);
	/* not known */
	ck_assert_int_eq(roster_fit(&scene.roster, &one, &want, &due), ROSTER_BEHIND);
	roster_note(&scene.roster, &one, &report, scene.now, NULL);
	ck_assert_int_eq(roster_fit(&scene.roster, &host, &want, &due), ROSTER_BEHIND);
	report.position = 120;
	roster_note(&scene.roster, &other, &report, scene.now, NULL);
	ck_assert_int_eq(roster_fit(&scene.roster, &one, &want, &due), ROSTER_BEHIND);
	ck_assert_int_eq(roster_fit(&scene.roster, &other, &want, &due), ROSTER_GOOD);
	ck_assert_int_eq(roster_fit(&scene.roster, &host, &want, &due), ROSTER_GOOD);
	roster_done(&scene.roster);
}
END_TEST

START_TEST(rows_follow_the_addresses_of_a_name)
{
	struct scene scene;
	struct address one, other;
	struct roster_at at = { .host = 0, .address = &one };
	struct host_report report = { .role = HOST_PRIMARY };
	struct roster_row row;

	open_roster(&scene, "name,/b");
	ck_assert(address_parse(&one, "192.0.2.1", 5432));
	ck_assert(address_parse(&other, "192.0.2.2", 0));
	roster_note(&scene.roster, &(struct roster_at){ .host = 1 }, &report, scene.now, NULL);
	report.role = HOST_STANDBY;
	roster_note(&scene.roster, &at, &report, scene.now, NULL);
	at.address = &other;
	roster_note(&scene.roster, &at, &report, scene.now, NULL);

	ck_assert(roster_row_at(&scene.roster, 0, &row) && row.host == 0);
	ck_assert(roster_row_at(&scene.roster, 2, &row) && row.host == 1);
	ck_assert(!roster_row_at(&scene.roster, 3, &row));
	roster_keep(&scene.roster, 0, &other, 1);
	ck_assert(roster_row_at(&scene.roster, 0, &row));
	ck_assert(address_equal_host(&row.address, &other));
	at.address = &one;
	ck_assert(!roster_find(&scene.roster, &at, &row));
	at.address = NULL;
	ck_assert(!roster_find(&scene.roster, &at, &row));
	ck_assert(roster_primary(&scene.roster, &row) && row.host == 1);
	at.host = 7;
	roster_note(&scene.roster, &at, &report, scene.now, NULL); /* there is no such host */
	ck_assert(!roster_row_at(&scene.roster, 2, &row));
	roster_done(&scene.roster);
}
END_TEST

/* The list "/a,/b" becomes "/c,/a": what is known of /a is known at once. */
START_TEST(another_roster_remembers)
{
	struct scene former, scene;
	struct roster_row row, old;
	struct roster_at at = { .host = 0 };
	usec_t due;

	open_roster(&former, "/a,/b");
	play(&former, "former", "a=p3");
	play(&former, "former", "b=s3");
	former.now += 50;
	play(&former, "former", "a=p3");
	open_roster(&scene, "/c,/a");
	scene.now = former.now + 7;
	old = row_at(&former, 0);
	old.host = 1;
	roster_remember(&scene.roster, &old, 3, 42, scene.now);
	ck_assert(row_at(&scene, 1).is_elected && row_at(&scene, 1).is_sure);
	ck_assert_int_eq(row_at(&scene, 1).since, FIRST_TIME);
	ck_assert_uint_eq(row_at(&scene, 1).known.timeline, 3);
	play(&scene, "remembered", "b?pG");
	play(&scene, "remembered",
	     "a=p1"); /* an older timeline does not count, nor another system */
	play(&scene, "remembered", "\"RF\"");
	play(&scene, "remembered", "a=x3");
	play(&scene, "remembered", "a>yF");
	/* What is known better stays. */
	scene.now++;
	play(&scene, "newer", "b=s4");
	roster_remember(&scene.roster, &old, 3, 42, scene.now);
	ck_assert_int_eq(row_at(&scene, 1).known.role, HOST_STANDBY);
	roster_done(&scene.roster);
	/* A lost host stays lost; without a watch, it is tried again soon. */
	play(&former, "former", "a!");
	open_roster(&scene, "/a");
	scene.now = former.now + 7;
	old = row_at(&former, 0);
	roster_remember(&scene.roster, &old, 3, 42, scene.now);
	ck_assert(row_at(&scene, 0).is_lost && !row_at(&scene, 0).is_sure);
	ck_assert_int_eq(row_at(&scene, 0).lost_at, former.now);
	ck_assert_int_eq(fit_of(&scene, &at, TARGET_PRIMARY, &due), ROSTER_NO);
	ck_assert_int_eq(due, scene.now + ROSTER_GAP);
	roster_watch(&scene.roster, &at);
	ck_assert_int_eq(fit_of(&scene, &at, TARGET_PRIMARY, &due), ROSTER_NO);
	ck_assert_int_eq(due, INT64_MAX);
	row = row_at(&scene, 0);
	ck_assert_str_eq(row.error, "no answer");
	roster_done(&scene.roster);
	roster_done(&former.roster);
}
END_TEST

START_TEST(a_host_has_so_many_addresses_at_most)
{
	struct scene scene;
	struct address address;
	struct roster_at at = { .host = 0, .address = &address };
	struct host_report report = { .role = HOST_STANDBY };
	struct roster_row row;
	char text[16];

	open_roster(&scene, "name,/b");
	roster_note(&scene.roster, &(struct roster_at){ .host = 1 }, &report, scene.now, NULL);
	for (int i = 0; i < 3 * ROSTER_ADDRESSES; i++) {
		snprintf(text, sizeof(text), "192.0.2.%d", i);
		ck_assert(address_parse(&address, text, 0));
		scene.now++;
		roster_note(&scene.roster, &at, &report, scene.now, NULL);
	}
	ck_assert(roster_find(&scene.roster, &at, &row));
	ck_assert(roster_row_at(&scene.roster, ROSTER_ADDRESSES, &row) && row.host == 1);
	ck_assert(!roster_row_at(&scene.roster, ROSTER_ADDRESSES + 1, &row));
	roster_done(&scene.roster);
}
END_TEST

START_TEST(the_number_changes_with_what_pools_must_know)
{
	struct scene scene;
	struct roster_at at = { 0 };
	struct host_report report = { .role = HOST_PRIMARY, .is_full = true, .position = 5 };
	unsigned int before;

	open_roster(&scene, "/a");
	before = roster_number(&scene.roster);
	ck_assert_int_eq(roster_without_since(&scene.roster), scene.now);
	roster_note(&scene.roster, &at, &report, scene.now, NULL);
	ck_assert_int_eq(roster_without_since(&scene.roster), 0);
	ck_assert_uint_ne(roster_number(&scene.roster), before);
	ck_assert(row_at(&scene, 0).is_sure);
	before = roster_number(&scene.roster);
	report.position = 6;
	roster_note(&scene.roster, &at, &report, scene.now, NULL);
	ck_assert_uint_eq(roster_number(&scene.roster), before);
	roster_set_admin(&scene.roster, 0, HOST_ENABLED, scene.now);
	ck_assert_uint_eq(roster_number(&scene.roster), before);
	roster_set_admin(&scene.roster, 0, HOST_DRAINING, scene.now);
	ck_assert_uint_ne(roster_number(&scene.roster), before);
	roster_fail(&scene.roster, &at, ROSTER_LOST, "no answer", scene.now, NULL);
	ck_assert(!row_at(&scene, 0).is_sure);
	ck_assert_int_eq(roster_without_since(&scene.roster), scene.now);
	roster_done(&scene.roster);
}
END_TEST

START_TEST(a_standby_that_does_not_follow_gets_no_reads)
{
	struct roster_at at = { .host = 1 };
	struct scene scene;
	usec_t due;

	open_roster(&scene, "a,b");
	note_history(&scene, 0, HOST_PRIMARY, 2, 100);
	note_history(&scene, 1, HOST_STANDBY, 1, 90);
	scene.now += ROSTER_DIVERGED_LAG;
	note_history(&scene, 0, HOST_PRIMARY, 2, 200);
	ck_assert_int_eq(note_history(&scene, 1, HOST_STANDBY, 1, 90), 0);
	scene.now += 1;
	ck_assert_int_eq(note_history(&scene, 1, HOST_STANDBY, 1, 90), 'd');
	ck_assert(row_at(&scene, 1).is_diverged);
	ck_assert_int_eq(fit_of(&scene, &at, TARGET_STANDBY, &due), ROSTER_NO);
	ck_assert_int_eq(roster_stay(&scene.roster, &at, TARGET_STANDBY), CLOSE_HOST_ROLE);
	ck_assert_int_eq(note_history(&scene, 1, HOST_STANDBY, 1, 90), 0);
	ck_assert_int_eq(note_history(&scene, 1, HOST_STANDBY, 2, 200), 'f');
	ck_assert_int_eq(fit_of(&scene, &at, TARGET_STANDBY, &due), ROSTER_GOOD);
	roster_done(&scene.roster);
}
END_TEST

START_TEST(a_standby_of_the_same_timeline_only_lags)
{
	struct scene scene;

	open_roster(&scene, "a,b");
	note_history(&scene, 0, HOST_PRIMARY, 1, 100);
	note_history(&scene, 1, HOST_STANDBY, 1, 90);
	scene.now += 2 * ROSTER_DIVERGED_LAG;
	note_history(&scene, 0, HOST_PRIMARY, 1, 200);
	ck_assert_int_eq(note_history(&scene, 1, HOST_STANDBY, 1, 90), 0);
	ck_assert(!row_at(&scene, 1).is_diverged);
	roster_done(&scene.roster);
}
END_TEST

#define NO_COPY ((enum roster_copy) - 1)

struct found_copy {
	const char *name;
	enum roster_copy copy;
	uint64_t missing;
};

static void note_copy(void *arg, const char *standby, enum roster_copy copy, uint64_t missing)
{
	struct found_copy *found = arg;

	if (strcmp(standby, found->name) != 0)
		return;
	found->copy = copy;
	found->missing = missing;
}

static enum roster_copy copy_of(struct scene *scene, const char *name, const char *host,
                                usec_t since, uint64_t *missing)
{
	struct found_copy found = { .name = name, .copy = NO_COPY };

	roster_copies(&scene->roster, host, since, note_copy, &found);
	*missing = found.missing;
	return found.copy;
}

START_TEST(a_copy_is_compared_with_what_was_asked_since)
{
	struct scene scene;
	uint64_t missing = 0;
	usec_t since;

	open_roster(&scene, "a,b,c");
	note_history(&scene, 0, HOST_PRIMARY, 1, 1000);
	note_history(&scene, 1, HOST_STANDBY, 1, 1000);
	ck_assert_int_eq(copy_of(&scene, "b", "a", scene.now, &missing), ROSTER_COPY_WHOLE);
	since = ++scene.now; /* what was known before does not count */
	ck_assert_int_eq(copy_of(&scene, "b", "a", since, &missing), ROSTER_COPY_ASKED);
	note_history(&scene, 0, HOST_PRIMARY, 1, 1100);
	note_history(&scene, 1, HOST_STANDBY, 1, 1060);
	ck_assert_int_eq(copy_of(&scene, "b", "a", since, &missing), ROSTER_COPY_ASKED);
	scene.now = since + ROSTER_COPY_WAIT;
	note_history(&scene, 1, HOST_STANDBY, 1, 1060);
	ck_assert_int_eq(copy_of(&scene, "b", "a", since, &missing), ROSTER_COPY_BEHIND);
	ck_assert_uint_eq(missing, 40);
	note_history(&scene, 1, HOST_STANDBY, 1, 1100);
	ck_assert_int_eq(copy_of(&scene, "b", "a", since, &missing), ROSTER_COPY_WHOLE);
	/* the primary, and what is compared with another host */
	ck_assert_int_eq(copy_of(&scene, "a", "a", since, &missing), NO_COPY);
	ck_assert_int_eq(copy_of(&scene, "b", "b", since, &missing), NO_COPY);
	note_history(&scene, 2, HOST_STANDBY, 2, 1200);
	ck_assert_int_eq(copy_of(&scene, "c", "a", since, &missing), ROSTER_COPY_UNKNOWN);
	roster_done(&scene.roster);
}
END_TEST

START_TEST(a_promotion_tells_what_is_lost)
{
	struct scene scene;

	open_roster(&scene, "a,b");
	note_history(&scene, 0, HOST_PRIMARY, 1, 1000);
	note_history(&scene, 1, HOST_STANDBY, 1, 900);
	ck_assert_int_eq(note_history(&scene, 1, HOST_PRIMARY, 2, 940), 'l');
	ck_assert_uint_eq(row_at(&scene, 1).lost_bytes, 60);
	/* the next one has everything */
	ck_assert_int_ne(note_history(&scene, 0, HOST_PRIMARY, 3, 940), 'l');
	ck_assert_uint_eq(row_at(&scene, 0).lost_bytes, 0);
	roster_done(&scene.roster);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/roster");
	TCase *tcase = tcase_create("roster");

	tcase_add_loop_test(tcase, roles_decide, 0, COUNT_OF(cases));
	tcase_add_test(tcase, lag_is_the_age_of_what_a_standby_has);
	tcase_add_test(tcase, lag_is_remembered_for_long);
	tcase_add_test(tcase, limits_of_the_lag);
	tcase_add_test(tcase, a_host_is_behind_with_all_its_addresses);
	tcase_add_test(tcase, rows_follow_the_addresses_of_a_name);
	tcase_add_test(tcase, another_roster_remembers);
	tcase_add_test(tcase, a_host_has_so_many_addresses_at_most);
	tcase_add_test(tcase, a_standby_that_does_not_follow_gets_no_reads);
	tcase_add_test(tcase, a_standby_of_the_same_timeline_only_lags);
	tcase_add_test(tcase, a_copy_is_compared_with_what_was_asked_since);
	tcase_add_test(tcase, a_promotion_tells_what_is_lost);
	tcase_add_test(tcase, the_number_changes_with_what_pools_must_know);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
