/* SPDX-License-Identifier: ISC */
/*
 * client/session/session_state.c: when a server is asked what a transaction has left, and whose it
 * is after the answer. In these scripts a Query that the server hears behind the client's own is
 * the question; D(u::1) in its answer is one held cursor, D(t::1) one temporary object.
 */
#include "../../../../src/client/session/session_priv.h"
#include "../../../lib/script.h"

#include "../../unit.h"

#define FOLLOW "pool_mode=transaction\nsession_state=follow\nsession_sample=0\ndefault_pool_size=1"
#define LOGIN "a^ 1^ a<RSKZ b^ b<RSKZ "
#define HOLD "aQ(declare_c_cursor_with_hold_for_select_1) "
#define TEMP "aQ(create_temp_table_t_as_select_1) "
/* a has a held cursor, and so the server. */
#define PINNED LOGIN HOLD "1<Q 1C(DECLARE_CURSOR)Z a<CZ 1<Q 1D(u::1)CZ a< "
/* The same; the server was in doubt, so it is cleaned before b's message is sent. */
#define B_IS_CLEANED "bQ(select_2) 1<Q 1C(DISCARD_SEQUENCES)Z b< 1<<Q(select_2) 1CZ b<CZ"
/* b has the server. */
#define B_IS_SERVED "bQ(select_2) 1<<Q(select_2) 1CZ b<CZ"
#define B_WAITS "bQ(select_2) 1< "

static const struct script cases[] = {
	/* asked, or not */
	{ "what touches nothing", FOLLOW, LOGIN "aQ 1<Q 1CZ a<CZ 1< " B_IS_SERVED },
	{ "a SET with a literal is known without a question", FOLLOW,
	  LOGIN "aQ(set_app.x='y') 1<Q 1C(SET)Z a<CZ 1< aQ(select_1) 1<<Q(select_1)" },
	{ "two of them in one write are not", FOLLOW,
	  LOGIN "aQ(set_app.x='y')Q(set_app.x='z') 1<QQ 1C(SET)Z a<CZ 1< 1C(SET)Z a<CZ 1<Q" },
	{ "a DO block", FOLLOW, LOGIN "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1<Q 1CZ " B_IS_CLEANED },
	{ "a failed one, too", FOLLOW,
	  LOGIN "aQ(do_x) 1<Q 1E(42601:no)Z a<EZ 1<Q 1CZ " B_IS_CLEANED },
	{ "a function that is called by its number", FOLLOW, LOGIN "aF 1<F 1VZ a<VZ 1<Q" },
	{ "not before the transaction has ended", FOLLOW,
	  LOGIN "aQ(begin) 1<Q 1C(BEGIN)z a<CZ aQ(do_x) 1<Q 1C(DO)z a<CZ 1< aQ(commit) 1<Q "
	        "1C(COMMIT)Z a<CZ 1<Q" },
	{ "after a rollback, too: what is not undone by it", FOLLOW,
	  LOGIN "aQ(begin) 1<Q 1C(BEGIN)z a<CZ aQ(do_x) 1<Q 1E(42601:no)y a<EZ 1< aQ(rollback) 1<Q "
	        "1C(ROLLBACK)Z a<CZ 1<Q" },
	{ "once, behind all that was sent at the same time", FOLLOW,
	  LOGIN "aQ(do_x)Q(select_1) 1<QQ 1C(DO)Z a<CZ 1< 1CZ a<CZ 1<Q 1CZ " B_IS_CLEANED },
	{ "not for a Parse alone", FOLLOW,
	  LOGIN "aP(:do_x)S 1<PS 11Z a<1Z 1< aB()ES 1<PBES 112CZ a<2CZ 1<Q" },
	{ "for a named statement at each use", FOLLOW,
	  LOGIN "aP(s:do_x)S 1<PS 11Z a<1Z 1< aB(s)ES 1<BES 12CZ a<2CZ 1<Q 1CZ "
	        "aB(s)ES 1<BES 12CZ a<2CZ 1<Q" },
	{ "nobody if session state is not followed",
	  "pool_mode=transaction\nsession_state=off\ndefault_pool_size=1",
	  LOGIN "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1< " B_IS_SERVED },

	/* while it is asked */
	{ "the client's next message waits", FOLLOW,
	  LOGIN "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1<Q aQ(select_1) 1< 1CZ 1<<Q(select_1)" },
	{ "others wait", FOLLOW, LOGIN "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1<Q " B_WAITS "1CZ 1<Q" },
	{ "the client leaves: the server stays", FOLLOW,
	  LOGIN "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1<Q a. 1< 1CZ " B_IS_CLEANED },
	{ "the server ends", FOLLOW, LOGIN "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1<Q 1. a<E." },
	{ "what was skipped is not sent again if the cleaning fails", FOLLOW,
	  LOGIN "aQ(do_x) 1<Q bP(:select_1) b* b<E 1C(DO)Z a<CZ 1<Q 1CZ bSQ(select_2) 1<Q "
	        "b<Z 1E(57014:no)Z 2^ 2<<Q(select_2) 2CZ b<CZ" },
	{ "an answer that nobody can read", FOLLOW,
	  LOGIN "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1<Q 1D(x::1)CZ 1<X. a<E." },

	/* pinned, and released */
	{ "a held cursor keeps the server", FOLLOW, PINNED B_WAITS "aQ(select_1) 1<<Q(select_1)" },
	{ "one that was not there after all does not", FOLLOW,
	  LOGIN HOLD "1<Q 1C(DECLARE_CURSOR)Z a<CZ 1<Q 1D(u::0)CZ " B_IS_SERVED },
	{ "what touches nothing is not asked after, and changes nothing", FOLLOW,
	  PINNED "aQ(select_1) 1<Q 1CZ a<CZ 1< " B_WAITS },
	{ "its CLOSE is asked after", FOLLOW,
	  PINNED "aQ(close_c) 1<Q 1C(CLOSE_CURSOR)Z a<CZ 1<Q 1D(u::0)CZ " B_IS_SERVED },
	{ "the CLOSE of another one changes nothing", FOLLOW,
	  PINNED "aQ(close_d) 1<Q 1E(34000:no)Z a<EZ 1<Q 1D(u::1)CZ " B_WAITS },
	{ "a CLOSE that was rolled back", FOLLOW,
	  PINNED
	  "aQ(begin) 1<Q 1C(BEGIN)z a<CZ aQ(close_c) 1<Q 1C(CLOSE_CURSOR)z a<CZ aQ(rollback) "
	  "1<Q 1C(ROLLBACK)Z a<CZ 1<Q 1D(u::1)CZ " B_WAITS },
	{ "two reasons: the last one counts", FOLLOW,
	  PINNED TEMP
	  "1<Q 1C(SELECT_1)Z a<CZ 1<Q 1D(t::1)CZ aQ(close_c) 1<Q 1C(CLOSE_CURSOR)Z a<CZ "
	  "1<Q 1D(u::0)D(t::1)CZ aQ(drop_table_t) 1<Q 1C(DROP_TABLE)Z a<CZ 1<Q "
	  "1D(t::0)CZ " B_IS_SERVED },
	{ "a DO block may end all of them", FOLLOW,
	  PINNED "aQ(do_x) 1<Q 1C(DO)Z a<CZ 1<Q 1D(u::0)D(t::0)D(l::0)CZ " B_IS_CLEANED },
	{ "what cannot be asked for stays until the client leaves, and then the server is closed",
	  FOLLOW,
	  LOGIN "aQ(set_seed=0.5) 1<Q 1C(SET)Z a<CZ 1<Q 1CZ aQ(discard_all) 1<Q 1xZ a<CZ 1<Q 1CZ "
	        "aQ(select_1) 1<<Q(select_1) 1CZ a<CZ aX 1<X. bQ(select_2) 2^ 2<<Q(select_2)" },

	/* ended in between */
	{ "the client leaves between two transactions: the server is reset", FOLLOW,
	  PINNED "aX 1<<Q(DISCARD_ALL) 1xZ " B_IS_SERVED },
	{ "the same while a request to cancel is on its way, so that it cannot be asked", FOLLOW,
	  LOGIN HOLD "1<Q a* 2* 1C(DECLARE_CURSOR)Z a<CZ 1< aX 1<<Q(DISCARD_ALL) 1xZ "
	             "bQ(select_2) 1< 2. 1<<Q(select_2) 1CZ b<CZ" },
	{ "the same behind a CREATE: a default may make what it creates temporary", FOLLOW,
	  LOGIN "aQ(create_table_t_as_select_1) 1<Q a* 2* 1C(CREATE_TABLE)Z a<CZ 1< aX "
	        "2. " B_IS_CLEANED },
	{ "with what cannot be removed it is closed", FOLLOW,
	  LOGIN
	  "aQ(set_seed=0.5) 1<Q 1C(SET)Z a<CZ 1<Q 1CZ aX 1<X. bQ(select_2) 2^ 2<<Q(select_2)" },
	{ "the client leaves in a statement", FOLLOW, PINNED "aQ(select_1) 1<Q a. 2* 2. 1<X." },
	{ "the client leaves in a transaction", FOLLOW,
	  PINNED "aQ(begin) 1<Q 1C(BEGIN)z a<CZ aX 1<X." },
	{ "the server ends", FOLLOW, PINNED "1. a<E. bQ(select_2) 2^ 2<<Q(select_2)" },
	{ "its place is free again then", FOLLOW "\nmax_pinned_servers=1",
	  PINNED "1. a<E. c^ c<RSKZ cQ(declare_d_cursor_with_hold_for_select_1) 2^ 2<Q "
	         "2C(DECLARE_CURSOR)Z c<CZ 2<Q 2D(u::1)CZ bQ(select_2) 2<" },

	/* parameters */
	{ "a server that was asked for parameters is in doubt", FOLLOW,
	  LOGIN "aQ(set_app.x='y')Q(set_app.x='z') 1<QQ 1C(SET)Z a<CZ 1C(SET)Z a<CZ 1<Q "
	        "1CZ " B_IS_CLEANED },
	{ "one that is refused behind the cleaning is no reason to clean less from then on", FOLLOW,
	  LOGIN "aQ(set_app.x='y') 1<Q 1C(SET)Z a<CZ bQ(do_x) 1<Q 1CZ 1<Q 1C(DO)Z b<CZ 1<Q 1CZ "
	        "aQ(select_1) 1<Q 1C(DISCARD_SEQUENCES)E(42602:no)Z a<E. 1< " B_IS_CLEANED },
	{ "the client's name of a parameter cannot be asked for: the server stays", FOLLOW,
	  LOGIN "aQ(set_app.\303\274=1) 1<Q 1C(SET)Z a<CZ 1<Q 1CZ " B_WAITS
	        "aQ(select_1) 1<Q 1CZ a<CZ 1< aQ(discard_all) 1<Q 1C(DISCARD_ALL)Z a<CZ 1<Q 1CZ "
	        "1<X. 2^ 2<<Q(select_2)" },

	/* refused */
	{ "no place: before the statement runs, and it fails the transaction",
	  FOLLOW "\nmax_pinned_servers=0",
	  LOGIN "aQ(begin) 1<Q 1C(BEGIN)z a<CZ " HOLD "1<Q 1E(42601:no)y a<<E(53300)Z(E)" },
	{ "the place of another client", FOLLOW "\nmax_pinned_servers=1\ndefault_pool_size=2",
	  "a^ 1^ a<RSKZ b^ b<RSKZ " HOLD "1<Q 1C(DECLARE_CURSOR)Z a<CZ 1<Q 1D(u::1)CZ a< "
	  "bQ(create_temp_table_t_as_select_1) b< aQ(close_c) 1<Q "
	  "1C(CLOSE_CURSOR)Z a<CZ 1<Q 1D(u::0)CZ 1<<Q(create_temp_table_t_as_select_1)" },
	{ "the client's own place serves again", FOLLOW "\nmax_pinned_servers=1",
	  PINNED TEMP "1<<Q(create_temp_table_t_as_select_1)" },
	{ "session_state = refuse",
	  "pool_mode=transaction\nsession_state=refuse\ndefault_pool_size=1",
	  LOGIN TEMP "1<Q 1E(42601:no)Z a<<E(0A000)Z 1< " B_IS_SERVED },
	{ "what sets parameters back is not refused",
	  "pool_mode=transaction\nsession_state=refuse\ndefault_pool_size=1",
	  LOGIN "aQ(reset_all) 1<<Q(reset_all)" },
	{ "pool_mode = statement", "pool_mode=statement\nsession_state=follow\ndefault_pool_size=1",
	  LOGIN TEMP "1<Q 1E(42601:no)Z a<<E(0A000)Z 1< " B_IS_SERVED },
	{ "by the extended protocol", FOLLOW "\nmax_pinned_servers=0",
	  LOGIN "aP(:create_temp_table_t_as_select_1)S 1<PS 11Z a<1Z aB()ES 1<PES 1E(42601:no)Z "
	        "a<<E(53300)Z" },
};

/* What is said of a kind of session state fits what is done with it. */
START_TEST(the_table_of_features_is_whole)
{
	unsigned int touches = 0, pins = 0;

	for (size_t i = 0; i < FEATURES; i++) {
		const struct feature *feature = &session_features[i];

		ck_assert_uint_ne(feature->touch, 0);
		ck_assert_uint_eq(touches & feature->touch, 0);
		ck_assert_uint_eq(pins & feature->pin, 0);
		touches |= feature->touch;
		pins |= feature->pin;
		ck_assert_int_eq(feature->pin != 0, feature->why != NULL);
		ck_assert(!feature->letter || feature->why);
		ck_assert_int_eq(feature->error != NULL, feature->way_out != NULL);
		ck_assert_int_eq(feature->used != NULL, feature->fate != NULL);
		/* It may be refused for want of a server of its own. */
		ck_assert(!(feature->touch & SQL_TOUCH_PINS) || (feature->pin && feature->error));
		ck_assert(!feature->letter || features_parts(feature->touch, 0));
	}
	ck_assert_uint_eq(pins, (SESSION_PIN_LISTEN << 1) - 1);
	ck_assert_uint_eq(SQL_TOUCH_PINS & ~touches, 0);
}
END_TEST

START_TEST(an_answer_shows_pins)
{
	const unsigned int before = SESSION_PIN_TEMP | SESSION_PIN_CURSOR | SESSION_PIN_LISTEN;
	struct facts facts = {
		.parts = QUESTION_ALL, .cursor_count = 1, .lock_count = 2, .statement_count = 1
	};

	ck_assert_uint_eq(features_pins(before, &facts),
	                  SESSION_PIN_CURSOR | SESSION_PIN_LOCK | SESSION_PIN_STATEMENT);
	facts = (struct facts){ .parts = QUESTION_TEMP | QUESTION_CURSORS, .temp_count = 1 };
	ck_assert_uint_eq(features_pins(before, &facts), SESSION_PIN_TEMP | SESSION_PIN_LISTEN);
}
END_TEST

/* What the player of scripts prints where one of them fails. */
START_TEST(the_dialogue_is_told)
{
	struct stage stage;

	stage_open(&stage, FOLLOW);
	stage_play_words(&stage, "told",
	                 "a^ 1^ a<RSKZ aQ(select_1) 1<<Q(select_1) 1E(42601:no)Z "
	                 "a<<E(42601)Z 1< a.");
	ck_assert_str_eq(buf_text(&stage.dialogue),
	                 "\n  client a logs in"
	                 "\n  server 1 is asked for and says Authentication, ParameterStatus, "
	                 "BackendKeyData, ReadyForQuery"
	                 "\n  client a hears Authentication, ParameterStatus(TimeZone), "
	                 "BackendKeyData, ReadyForQuery"
	                 "\n  client a says Query(select_1)"
	                 "\n  server 1 hears Query(select_1)"
	                 "\n  server 1 says ErrorResponse(42601:no), ReadyForQuery"
	                 "\n  client a hears ErrorResponse(42601), ReadyForQuery"
	                 "\n  server 1 hears nothing"
	                 "\n  client a says the end");
	stage_close(&stage);
}
END_TEST

START_TEST(session) { script_play(&cases[_i]); }
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/session/session");
	TCase *tests = tcase_create("session");

	tcase_add_loop_test(tests, session, 0, COUNT_OF(cases));
	tcase_add_test(tests, the_dialogue_is_told);
	tcase_add_test(tests, the_table_of_features_is_whole);
	tcase_add_test(tests, an_answer_shows_pins);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
