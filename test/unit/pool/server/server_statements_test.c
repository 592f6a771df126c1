/* SPDX-License-Identifier: ISC */
/*
 * pool/server/statements.c, what a server knows, with a ledger that confirms and reverts.
 */
#include "pgweir/pool/server/statements.h"

#include <stdio.h>
#include <string.h>

#include "../../unit.h"

static const struct bytes none = { "", 0 }; /* scope */

/*
 * A script of words: what is done to statement a, b or c.
 *   +a  a Parse is sent         -a  a Close is sent       *a  Close and Parse are sent
 *   S   a Sync is sent          !   all is thrown away    ~a  it is spoilt      .a  it is used
 *   <1  a reply of the server   <e  an error without a Sync behind it
 *   =ab these are known, the longest unused first
 *   ?a  is sure                 /a  is not                %a  is spoilt
 *   D   a Describe of a is sent  tb  it has found the types of b
 *   @a  the Parse that was sent last is noted as a client's   &a  a serves that client   ^a  not
 *   Ca  a has columns, by the last Describe   ca  they are known   ka  they are not
 *   X   none is believed any more   |   a mark   Y   nor what was sent behind the mark
 *   bba b is called as a        bb-  b is not known
 */
static const struct {
	const char *says;
	const char *script;
} cases[] = {
	{ "a Parse is believed at once", "+a =a ?a <1 =a" },
	{ "and taken back when it fails", "+a <E =" },
	{ "and when something in front of it fails", "+a +b <E =" },
	{ "the one in front stays", "+a +b <1 =ab <E =a" },
	{ "a Close is believed at once", "+a <1 -a = <3 =" },
	{ "and taken back when it is skipped", "+a <1 +b -a =b <E =a" },
	{ "Parse and Close in one batch that fails", "+a -a = <E =" },
	{ "a Close that is skipped behind a Parse that was not", "+a -a +b <1 =b <E =a" },
	{ "Close and Parse in one batch that fails", "+a <1 +b -a +a =ba <E =a" },
	{ "use makes it the youngest", "+a +b <1 <1 =ab .a =ba .a =ba" },
	{ "Close and Parse in one", "+a <1 *a =a <3 <1 =a" },
	{ "both are skipped", "+a <1 +b *a <E =a" },
	{ "both are skipped at once, as the server waits for a Sync",
	  "+a <1 +b <e *a =a S <Z ?a *a <3 <1 =a" },
	{ "only the Close comes through", "+a <1 *a <3 <E =" },
	{ "all is thrown away", "+a +b <1 <1 ! =" },
	{ "but for what is sent behind", "+a <1 +b ! =b <1 =b" },
	{ "Close and Parse are sent behind", "+a <1 *a ! =a <3 <1 =a" },
	{ "and fail", "+a <1 *a ! =a <E =" },
	{ "a Close that is skipped does not bring back what was thrown away",
	  "+a <1 +b -a ! <E =" },
	{ "what is confirmed is sure", "+a <1 S +b S ?a /b /c" },
	{ "what is open is sure within its batch", "+a -a +b ?a ?b ?c S /a /b /c" },
	{ "what has been answered is sure", "+a S /a <1 ?a" },
	{ "a Close that is open is not sure", "+a <1 -a S /a /b <3 ?a ?b" },
	{ "Close and Parse are not sure", "+a <1 *a S /a <3 /a <1 ?a" },
	{ "a change behind a Sync does not hide one before it", "+a <1 S +b S *a /b <Z <1 ?b" },
	{ "what comes, goes and comes again in a batch is not sure half way",
	  "+a -a +a <1 S /a <3 /a <1 ?a" },
	{ "spoilt until it is parsed again", "+a <1 ~a %a *a <3 <1 =a ?a" },
	{ "and still if that is skipped", "+a <1 ~a +b *a <E %a =a" },
	{ "and if a Close of it is skipped", "+a <1 ~a +b -a =b <E =a %a" },
	{ "what a message that is sent takes away", "+a <1 +b Y %a %b <1 %b *b ! =b <3 <1 =b" },
	{ "and does not, if it is skipped", "+a <1 +b +c Y <1 *a <E =ba %a %b" },
	{ "none is believed any more", "+a +b <1 X %a <1 *a =ba" },
	{ "but for what was sent before the mark", "+a +b <1 <1 | *b +c <3 <1 <1 Y .a %b %c" },
	{ "a statement with the types that another was found to have",
	  "+a <1 bb- D tb bba aaa =a" },
	{ "it is used there", "+a +c <1 <1 D tb bba =ca" },
	{ "its own name goes first", "+a +b <1 <1 D tb bbb" },
	{ "it goes with the other", "+a <1 D tb -a bb- <3 bb-" },
	{ "and does not come back with it", "+a <1 D tb +c -a <E =a bb-" },
	{ "it goes when all is thrown away", "+a <1 D tb ! bb-" },
	{ "and when the other is parsed again", "+a <1 D tb *a bb- <3 <1 bb-" },
	{ "a description of what was there before counts for nothing", "+a <1 D *a tb bb-" },
	{ "it is spoilt with the other", "+a <1 D tb ~b %a bb-" },
	{ "it is sure as the other", "+a <1 D tb +c S ?b /c" },
	{ "a Close that is skipped behind a Parse that is not answered when all is thrown away",
	  "+b +a -a ! <E =" },
	{ "a Parse serves its own client", "+a <1 @a &a" },
	{ "and not one that has parsed later", "+a <1 @b ^a" },
	{ "unless it is parsed again", "+a <1 @b ^a *a <3 <1 &a" },
	{ "but not if that is skipped", "+a <1 @b *a <E ^a" },
	{ "with its types it is as old as the other", "+a <1 D tb &b @b ^b" },
	{ "columns", "+a <1 ka D Ca ca" },
	{ "also with its types", "+a <1 D tb Ca cb" },
	{ "they go with the Parse", "+a <1 D Ca *a ka <3 <1 ka" },
	{ "a late description counts for nothing", "+a <1 D *a Ca ka" },
	{ "they come back if the Parse is skipped", "+a <1 D Ca *a ka <E ca" },
	{ "and not if it is spoilt", "+a <1 D Ca ~a ka" },
};

struct stage {
	struct statements statements;
	struct ledger ledger;
	struct server_statements known;
	struct statement *all[3];
	uint64_t parse_number; /* of the last Describe */
	usec_t since;          /* of the client */
};

static void expect(struct stage *stage, const char *names, const char *says)
{
	struct server_statements_list *list = &stage->known.list;
	unsigned int count = server_statements_count(&stage->known);
	char have[8] = "";

	ck_assert_uint_lt(count, sizeof(have));
	for (unsigned int i = 0; i < count; i++) {
		struct server_statement *oldest = server_statements_oldest(&stage->known, 0);

		ck_assert(!TAILQ_EMPTY(list));
		for (int which = 0; which < 3; which++)
			if (stage->all[which] == oldest->statement)
				have[i] = (char)('a' + which);
		/* goes round once */
		TAILQ_REMOVE(list, oldest, node);
		TAILQ_INSERT_TAIL(list, oldest, node);
	}
	ck_assert_msg(strcmp(have, names) == 0, "%s: \"%s\" instead of \"%s\"", says, have, names);
}

static void reply(struct stage *stage, char type, const char *says)
{
	bool is_end;

	ck_assert_msg(ledger_reply(&stage->ledger, type == 'e' ? 'E' : type, &is_end) !=
	                  LEDGER_MISMATCH,
	              "%s: '%c' does not fit", says, type);
	if (type == 'E' || type == 'e') {
		struct ledger_change *change = ledger_take_failed(&stage->ledger);

		if (change)
			change->settle(change, false);
	}
	if (type == 'E') {
		ledger_add(&stage->ledger, LEDGER_SYNC, LEDGER_CLIENT);
		ledger_reply(&stage->ledger, 'Z', &is_end);
	}
}

static void forget(struct stage *stage, struct statement *statement)
{
	struct server_statement *entry = server_statements_find(&stage->known, statement, true);

	ledger_add_change(&stage->ledger, LEDGER_CLOSE, LEDGER_CLIENT,
	                  server_statements_forget(entry));
}

static void send_repeat(struct stage *stage, struct statement *statement)
{
	forget(stage, statement);
	ledger_add_change(&stage->ledger, LEDGER_PARSE, LEDGER_CLIENT,
	                  server_statements_learn(&stage->known, statement));
}

/* "ba": b is called a there. */
static void expect_name(struct stage *stage, const char *word, const char *says)
{
	const struct server_statement *entry =
	    server_statements_use(&stage->known, stage->all[word[1] - 'a'], false);
	struct bytes name;

	ck_assert_msg((entry != NULL) == (word[2] != '-'), "%s: %s", says, word);
	if (!entry)
		return;
	name = statement_image_name(entry->image);
	ck_assert_msg(bytes_equal(name, statement_name(stage->all[word[2] - 'a'])), "%s: %s", says,
	              word);
}

static void step(struct stage *stage, const char *word, const char *says)
{
	struct server_statements *known = &stage->known;
	struct statement *statement =
	    strchr("abc", word[1]) && word[1] ? stage->all[word[1] - 'a'] : NULL;
	struct server_statement *entry =
	    statement ? server_statements_find(known, statement, false) : NULL;

	switch (word[0]) {
	case '+':
		ledger_add_change(&stage->ledger, LEDGER_PARSE, LEDGER_CLIENT,
		                  server_statements_learn(known, statement));
		break;
	case '-':
		forget(stage, statement);
		break;
	case '*':
		send_repeat(stage, statement);
		break;
	case 'S':
		ledger_add(&stage->ledger, LEDGER_SYNC, LEDGER_CLIENT);
		break;
	case '!':
		server_statements_forget_confirmed(known);
		break;
	case 'X':
		server_statements_distrust(known);
		break;
	case 'Y':
		server_statements_distrust_marked(known);
		break;
	case '|':
		server_statements_mark(known);
		break;
	case '~':
		entry->state.is_stale = true;
		break;
	case 'D':
		entry = server_statements_find(known, stage->all[0], false);
		stage->parse_number = entry->parse_number;
		break;
	case 't':
		server_statements_typed(known, stage->all[0], statement, stage->parse_number);
		break;
	case '@':
		entry = server_statements_find(known, statement, true);
		stage->since = entry ? entry->state.done_at : clock_now() + 1;
		while (clock_now() < stage->since)
			continue;
		break;
	case '&':
	case '^':
		ck_assert_msg(server_statement_is_since(entry, stage->since) == (word[0] == '&'),
		              "%s: %s", says, word);
		break;
	case 'C':
		if (entry->parse_number == stage->parse_number)
			entry->state.columns = 7;
		break;
	case 'c':
	case 'k':
		ck_assert_msg(server_statements_columns(known, statement) ==
		                  (word[0] == 'c' ? 7 : 0),
		              "%s: %s", says, word);
		break;
	case 'b':
		expect_name(stage, word, says);
		break;
	case '.':
		ck_assert(server_statements_use(known, statement, true));
		break;
	case '<':
		reply(stage, word[1], says);
		break;
	case '=':
		expect(stage, word + 1, says);
		break;
	case '?':
	case '/':
		ck_assert_msg(server_statements_is_sure(known, statement) == (word[0] == '?'),
		              "%s: %s", says, word);
		break;
	case '%':
		ck_assert_msg(server_statements_find(known, statement, true) &&
		                  !server_statements_use(known, statement, true),
		              "%s: %s", says, word);
	}
}

START_TEST(server_statements_plays)
{
	static const char *const texts[] = { "a\0\0\0", "b\0\0\0", "c\0\0\0" };
	struct stage stage = { 0 };
	char script[128], *word, *rest = NULL;

	server_statements_init(&stage.known, &stage.ledger);
	for (int i = 0; i < 3; i++)
		stage.all[i] = statement_of(&stage.statements, bytes_of(texts[i], 4), none);
	snprintf(script, sizeof(script), "%s", cases[_i].script);
	for (word = strtok_r(script, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		step(&stage, word, cases[_i].says);
	ledger_done(&stage.ledger);
	ck_assert_uint_eq(stage.known.open.count, 0);
	server_statements_done(&stage.known);
	for (int i = 0; i < 3; i++)
		statement_release(&stage.all[i]);
	ck_assert_uint_eq(HASH_COUNT(stage.statements.table), 0);
}
END_TEST

START_TEST(server_statements_lets_the_oldest_go)
{
	struct stage stage = { 0 };

	server_statements_init(&stage.known, &stage.ledger);
	stage.all[0] = statement_of(&stage.statements, bytes_of("a\0\0\0", 4), none);
	ck_assert_ptr_null(server_statements_oldest(&stage.known, 1));
	step(&stage, "+a", "");
	ck_assert_ptr_eq(server_statements_oldest(&stage.known, 1)->statement, stage.all[0]);
	ck_assert_ptr_null(server_statements_oldest(&stage.known, 2));
	ledger_done(&stage.ledger);
	server_statements_done(&stage.known);
	statement_release(&stage.all[0]);
}
END_TEST

/*
 * A server has a statement under the name that another process gave it: so it is bound, and closed
 * before it gets its own. An EXECUTE is for its own name only.
 */
START_TEST(server_statements_have_the_name_that_they_got)
{
	static const struct {
		const char *script;
		bool is_other; /* afterwards */
	} steps[] = {
		{ "?a", true },        { "+b -a <E", true },
		{ "+b *a <E", true },  { "+b <e *a S <Z", true },
		{ "*a <3 <1", false },
	};
	const struct statement_name arrived = { "abc", 9 };
	struct server_statement_state state = { .columns = 5 };
	struct stage stage = { 0 };
	struct statement_image *image;
	char script[32], *word, *rest;
	struct bytes name;

	server_statements_init(&stage.known, &stage.ledger);
	for (int i = 0; i < 2; i++)
		stage.all[i] =
		    statement_of(&stage.statements, bytes_of(i ? "b\0\0\0" : "a\0\0\0", 4), none);
	image =
	    statement_image_named(&stage.statements.names, &arrived, bytes_of("a\0\0\0", 4), none);
	ck_assert(server_statements_restore(&stage.known, stage.all[0], image, &state));
	ck_assert(server_statements_restore(&stage.known, stage.all[0], image, &state));
	ck_assert(
	    !server_statements_restore(&stage.known, stage.all[0], stage.all[0]->image, &state));
	statement_image_release(&image);
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		const char *says = steps[i].script;
		const struct server_statement *entry;

		snprintf(script, sizeof(script), "%s", steps[i].script);
		rest = NULL;
		for (word = strtok_r(script, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
			step(&stage, word, says);
		entry = server_statements_use(&stage.known, stage.all[0], false);
		ck_assert_msg(entry, "%s", says);
		name = statement_image_name(entry->image);
		ck_assert_msg(bytes_are(name, "PGBOUNCER_abc_9") == steps[i].is_other, "%s", says);
		ck_assert(server_statements_find(&stage.known, stage.all[0], true));
		ck_assert_msg(!server_statements_use(&stage.known, stage.all[0], true) ==
		                  steps[i].is_other,
		              "%s", says);
		ck_assert_uint_eq(server_statements_columns(&stage.known, stage.all[0]),
		                  steps[i].is_other ? 5 : 0);
	}
	ledger_done(&stage.ledger);
	server_statements_done(&stage.known);
	/* Each loop makes an image of its own: the same name is the same. */
	image = statement_image_hold(stage.all[0]->image);
	statement_release(&stage.all[0]);
	stage.all[0] = statement_of(&stage.statements, bytes_of("a\0\0\0", 4), none);
	ck_assert_ptr_ne(stage.all[0]->image, image);
	ck_assert(server_statements_restore(&stage.known, stage.all[0], image, &state));
	ck_assert(server_statements_use(&stage.known, stage.all[0], true));
	server_statements_done(&stage.known);
	statement_image_release(&image);
	for (int i = 0; i < 2; i++)
		statement_release(&stage.all[i]);
	ck_assert_uint_eq(HASH_COUNT(stage.statements.table), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/known");
	TCase *tcase = tcase_create("known");

	tcase_add_loop_test(tcase, server_statements_plays, 0, COUNT_OF(cases));
	tcase_add_test(tcase, server_statements_lets_the_oldest_go);
	tcase_add_test(tcase, server_statements_have_the_name_that_they_got);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
