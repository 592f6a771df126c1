/* SPDX-License-Identifier: ISC */
/*
 * pool/server/ledger.c: dialogues checked against PostgreSQL's real behaviour, and a small
 * model of a backend with thousands of random pipelines.
 */
#include "pgweir/pool/server/ledger.h"

#include <string.h>

#include "../../unit.h"

/* ---- dialogues ---- */

/*
 * A dialogue: after '>' requests as on the wire, after '<' replies. Behind one
 * stands what is expected of it when that is not the usual:
 *   request: '~' is ours
 *   reply:   '!' mismatch, '?' doubt    '~' is ours, '.' ours and the last of it
 */
static const struct dialogue {
	const char *says;
	const char *script;
	size_t left; /* entries at the end */
	bool is_unsure;
} dialogues[] = {
	/* simple */
	{ "nothing is owed: no reply fits", "<Z!", 0, 0 },
	{ "nothing is owed: no row fits", "<D!", 0, 0 },
	{ "a query with rows", ">Q<TDDCZ", 0, 0 },
	{ "a query of several statements", ">Q<TDCCTCIZ", 0, 0 },
	{ "an empty query", ">Q<IZ", 0, 0 },
	{ "a query that fails", ">Q<EZ", 0, 0 },
	{ "a query that fails after rows", ">Q<TDDEZ", 0, 0 },
	{ "pipelined queries are answered one by one", ">QQQ<CZ<EZ<TDCZ", 0, 0 },
	{ "one of two is answered", ">QQ<CZ", 1, 0 },
	{ "a query is not over before it has a result", ">Q<Z!", 1, 0 },
	{ "the second query is not over with the first", ">QQ<CZZ!", 1, 0 },
	{ "a query gets no ParseComplete", ">Q<1!", 1, 0 },
	{ "a query gets no NoData", ">Q<n!", 1, 0 },
	{ "the type byte zero is no reply", ">Q<\\!", 1, 0 },
	{ "a login's reply is out of step", ">Q<R!", 1, 0 },
	{ "Flush asks for nothing", ">H", 0, 0 },
	/* FunctionCall */
	{ "a function call", ">F<VZ", 0, 0 },
	{ "a function call that fails", ">FQ<EZ<CZ", 0, 0 },
	{ "a function call gets no rows", ">F<D!", 1, 0 },
	{ "a function call is not over before its result", ">F<Z!", 1, 0 },
	/* extended */
	{ "one statement", ">PBDES<12TDDCZ", 0, 0 },
	{ "a statement is described", ">PDS<1tTZ", 0, 0 },
	{ "a statement without rows is described", ">PDS<1tnZ", 0, 0 },
	{ "a portal without rows", ">BDE<2nC", 0, 0 },
	{ "Close", ">CS<3Z", 0, 0 },
	{ "Sync alone", ">S<Z", 0, 0 },
	{ "commit fails at the Sync", ">ES<CEZ", 0, 0 },
	{ "and what follows is not skipped", ">ESPS<CEZ1Z", 0, 0 },
	{ "PortalSuspended, and on", ">PBEEES<12DsDsCZ", 0, 0 },
	{ "an empty query string", ">PBES<12IZ", 0, 0 },
	{ "statements without Sync between", ">PBEPBECES<12C12C3CZ", 0, 0 },
	{ "two pipelines", ">PBESPBES<12CZ12DCZ", 0, 0 },
	{ "no reply is owed out of order", ">PB<2!", 2, 0 },
	{ "Parse does not get BindComplete", ">P<2!", 1, 0 },
	{ "Bind does not get ParseComplete", ">B<1!", 1, 0 },
	{ "Close does not get ParseComplete", ">C<1!", 1, 0 },
	{ "Execute does not get RowDescription", ">E<T!", 1, 0 },
	{ "Execute is not over with ReadyForQuery", ">E<Z!", 1, 0 },
	{ "Sync does not get CommandComplete", ">S<C!", 1, 0 },
	{ "a Query without Sync before it", ">PBEQ<12C<TDCZ", 0, 0 },
	/* errors skip to Sync */
	{ "Parse fails", ">PBDES<EZ", 0, 0 },
	{ "Bind fails", ">PBDES<1EZ", 0, 0 },
	{ "Describe fails after its parameters", ">DES<tEZ", 0, 0 },
	{ "a Describe of which the types are kept", ">PtBS<1tn2Z", 0, 0 },
	{ "it fails after them", ">tBES<tEZ", 0, 0 },
	{ "it does not get CommandComplete", ">t<C!", 1, 0 },
	{ "Execute fails among its rows", ">PBES<12DDEZ", 0, 0 },
	{ "only up to the first Sync", ">PBESPBES<EZ12CZ", 0, 0 },
	{ "the Sync comes later", ">PBE<E>PBE>S<Z", 0, 0 },
	{ "a Query is skipped too", ">P<E>Q>S<Z", 0, 0 },
	{ "a Query that lay there already is skipped", ">PQQS<EZ", 0, 0 },
	{ "a FunctionCall is skipped", ">PFS<EZ", 0, 0 },
	{ "no reply while skipping", ">P<E>P<1!", 0, 0 },
	{ "after the Sync all is as before", ">P<E>S<Z>Q<TDCZ", 0, 0 },
	/* COPY IN, simple */
	{ "COPY IN", ">Q<G>dddc<CZ", 0, 0 },
	{ "COPY IN, all sent at once", ">QddcQ<GCZ<CZ", 0, 0 },
	{ "two of them in one query", ">Q<G>dc<CG>dc<CZ", 0, 0 },
	{ "two of them in one query, all sent at once", ">QdcdcQ<GCGCZ<CZ", 0, 0 },
	{ "another statement behind it", ">Qdc<GCTDCZ", 0, 0 },
	{ "CopyFail", ">Q<G>df<EZ", 0, 0 },
	{ "it fails at the data, CopyDone comes later", ">Q<G>d<E>ddc<Z>Q<CZ", 0, 0 },
	{ "it fails at the data, CopyDone was on its way", ">Q<G>dddcQ<EZ<CZ", 0, 0 },
	{ "the first of two fails", ">QdcdcQ<GEZ<CZ", 0, 0 },
	{ "it is no COPY at all", ">QddcQ<CZ<CZ", 0, 0 },
	{ "it fails before it begins", ">QddcQ<EZ<CZ", 0, 0 },
	{ "stray CopyData, CopyDone, CopyFail", ">dcf", 0, 0 },
	{ "strays between others", ">QdcfQcf<CZ<CZ", 0, 0 },
	{ "Sync is ignored", ">Q<G>SdSc<CZ", 0, 0 },
	{ "Sync among the data of one that fails", ">Q<G>dSc<EZZ", 0, 0 },
	{ "the same, and it was ignored", ">Q<G>dSc<EZ", 0, 1 },
	{ "Flush is ignored", ">Q<G>Hdc<CZ", 0, 0 },
	{ "another Query: nobody knows whether it runs", ">Q<G>Q<E?", 2, 0 },
	{ "Parse: nobody knows whether it runs", ">Q<G>dP<E?", 2, 0 },
	/* COPY IN, extended */
	{ "COPY IN by Execute", ">PBE<12G>ddcS<CZ", 0, 0 },
	{ "Sync right behind Execute is ignored", ">PBES<12G>ddcS<CZ", 0, 0 },
	{ "the same, all sent at once", ">PBESddcS<12GCZ", 0, 0 },
	{ "several Syncs", ">ESSSddcS<GCZ", 0, 0 },
	{ "Sync behind the CopyDone is the real one", ">EScS<GCZ", 0, 0 },
	{ "Sync later, when we know", ">E<G>SdScS<CZ", 0, 0 },
	{ "more statements behind it", ">EdcPBES<GC12CZ", 0, 0 },
	{ "CopyFail", ">E<G>dfS<EZ", 0, 0 },
	{ "it fails at the data, CopyDone later", ">E<G>d<E>dcS<Z", 0, 0 },
	{ "it fails at the data, CopyDone on its way", ">EddcS<GEZ", 0, 0 },
	{ "it fails before it begins", ">PBESddcS<12EZZ", 0, 0 },
	{ "it is no COPY at all", ">PBESddcS<12CZZ", 0, 0 },
	{ "a statement behind it goes with it", ">EdcPBES<GEZ", 0, 0 },
	{ "Parse instead of data", ">EPBES<GEZ", 0, 0 },
	{ "Sync among the data, good end", ">EdSdcS<GCZ", 0, 0 },
	{ "Sync among the data, bad end behind it", ">EdSdcS<GEZ", 0, 1 },
	{ "Sync among the data, bad end before it", ">EdSdcS<GEZZ", 0, 0 },
	{ "the same, with a pipeline behind it", ">EdSdcSPBES<GEZZ12CZ", 0, 0 },
	{ "it fails at the data, a Sync was on its way", ">PBES<12G>dS<EZ", 0, 1 },
	{ "what is answered then leaves no doubt", ">PBES<12G>dS<EZ>PBES<12CZZ!", 0, 0 },
	{ "nor what fails then", ">PBES<12G>dS<EZ>PBES<EZZ!", 0, 0 },
	{ "a Sync was on its way, and was ignored", ">PBES<12G>dSd<E>S<Z", 0, 1 },
	{ "a request behind such a Sync runs or not", ">E<G>dSPBES<E?", 5, 1 },
	{ "the next one's Sync is not touched", ">EcSES<GCZ<CZ", 0, 0 },
	/* a COPY that fails before it has read any data */
	{ "the Sync behind it is answered", ">ES<GEZ", 0, 0 },
	{ "what comes of the data is ignored", ">ES<GE>dc<Z>S<Z", 0, 0 },
	{ "it was ignored, so another one is answered", ">ES<G>d<E>dcS<Z", 0, 1 },
	{ "both are answered", ">ES<G>d<E>dcS<ZZ", 0, 0 },
	{ "both, with a query behind them", ">ES<GE>dcSQ<ZZ<CZ", 0, 0 },
	{ "both, with a pipeline behind them", ">ESdcSPBES<GEZZ12CZ", 0, 0 },
	{ "one, with a pipeline behind it", ">ESdcSPBES<GEZ12CZ", 0, 0 },
	{ "a query behind it runs or not", ">ESdcQS<GE?", 3, 1 },
	{ "a query that comes later runs or not", ">ES<GE>dc>Q<Z?", 0, 1 },
	{ "one stray only", ">ES<GEZZ!", 0, 0 },
	{ "a good end leaves no doubt", ">ESdcS<GCZZ!", 0, 0 },
	/* COPY OUT, CopyBoth */
	{ "COPY OUT", ">Q<HdddcCZ", 0, 0 },
	{ "COPY OUT by Execute", ">PBES<12HddcCZ", 0, 0 },
	{ "COPY OUT fails", ">PBES<12HdEZ", 0, 0 },
	{ "COPY OUT fails, simple", ">QQ<HdEZ<CZ", 0, 0 },
	{ "CopyDone of a client is ignored there", ">Qc<HdcCZ", 0, 0 },
	{ "COPY BOTH, ended by the client", ">Q<W>dd<dd>c<dcCCZ", 0, 0 },
	{ "ended by the server, with a result behind it", ">Q<Wd>d<c>dd>c<TDCCZ", 0, 0 },
	{ "ended at the same time", ">Q<Wdc>c<CZ", 0, 0 },
	{ "all sent at once", ">QdcQ<WdcCZ<TDCZ", 0, 0 },
	{ "it begins, and nothing comes", ">Q<W", 1, 0 },
	{ "it fails", ">Q<Wd>d<EZ", 0, 0 },
	{ "it fails, and CopyDone comes later", ">Q<W>d<E>dc<Z>Q<CZ", 0, 0 },
	{ "it fails, CopyDone was on its way", ">Q<W>dc<dEZ>Q<CZ", 0, 0 },
	{ "it fails after both have ended it", ">Q<W>c<cEZ", 0, 0 },
	{ "it fails, a query was on its way", ">Q<W>dcQ<EZTDCZ", 0, 0 },
	{ "it fails, a query without CopyDone runs", ">Q<W>Q<EZCZ", 0, 0 },
	{ "it fails, a Sync is answered", ">Q<W>S<EZZ", 0, 0 },
	{ "no row in the middle of it", ">Q<W<D!", 1, 0 },
	{ "no result in the middle of it", ">Q<Wd<T!", 1, 0 },
	{ "a second stream that is over at once", ">Q<WCCZ>dcQ<CZ", 0, 0 },
	{ "no end before the client has ended it", ">Q<Wdc<C!", 1, 0 },
	{ "the same, and the client has ended it", ">Qc<WCCZ", 0, 0 },
	{ "nothing to be ready for in the middle of it", ">Q<W<Z!", 1, 0 },
	{ "a keepalive behind the server's CopyDone", ">Q<Wdcd>c<dCCZ", 0, 0 },
	{ "no second CopyDone", ">Q<Wc<c!", 1, 0 },
	{ "no COPY IN within it", ">Q<W<G!", 1, 0 },
	{ "it does not begin within a COPY IN", ">Q<G<W!", 1, 0 },
	{ "it is not for Execute", ">PBES<12W!", 2, 0 },
	{ "a base backup: results and copies in one reply", ">Q<TDCTDDCHdddcHddcTDCCZ", 0, 0 },
	/* ours */
	{ "an order", ">Q~<C~Z.", 0, 0 },
	{ "an order that fails", ">Q~<E~Z.", 0, 0 },
	{ "an order in front of the client's", ">Q~Q<C~Z.<TDCZ", 0, 0 },
	{ "our Parse in front of a Bind", ">P~BES<1.2CZ", 0, 0 },
	{ "our Parse fails, so the client's requests do not run", ">P~BES<E*Z", 0, 0 },
	{ "our Parse fails, and has a Sync of its own", ">P~S~BES<E~Z.2CZ", 0, 0 },
	{ "our Close between", ">PC~BES<13.2CZ", 0, 0 },
};

static enum ledger_kind kind_of(char type)
{
	static const enum ledger_kind kinds[128] = {
		['Q'] = LEDGER_QUERY,    ['F'] = LEDGER_FUNCTION,  ['P'] = LEDGER_PARSE,
		['B'] = LEDGER_BIND,     ['D'] = LEDGER_DESCRIBE,  ['E'] = LEDGER_EXECUTE,
		['t'] = LEDGER_TYPES,    ['C'] = LEDGER_CLOSE,     ['S'] = LEDGER_SYNC,
		['H'] = LEDGER_NONE,     ['d'] = LEDGER_COPY_DATA, ['c'] = LEDGER_COPY_END,
		['f'] = LEDGER_COPY_END,
	};

	return kinds[(unsigned char)type];
}

static void expect_request(struct ledger *ledger, const struct dialogue *dialogue, const char *at)
{
	enum ledger_fate fate = at[1] == '~' ? LEDGER_OURS : LEDGER_CLIENT;

	ck_assert_msg(ledger_add(ledger, kind_of(*at), fate), "%s: request at \"%s\"",
	              dialogue->says, at);
}

static void expect_reply(struct ledger *ledger, const struct dialogue *dialogue, const char *at)
{
	enum ledger_verdict expected = at[1] == '!'                   ? LEDGER_MISMATCH
	                               : at[1] == '?'                 ? LEDGER_DOUBT
	                               : at[1] == '*'                 ? LEDGER_FATAL
	                               : at[1] == '~' || at[1] == '.' ? LEDGER_ANSWERED
	                                                              : LEDGER_PASS;
	bool is_end;
	enum ledger_verdict verdict = ledger_reply(ledger, *at == '\\' ? 0 : *at, &is_end);

	ck_assert_msg(verdict == expected, "%s: reply at \"%s\" is %d", dialogue->says, at,
	              verdict);
	if (expected == LEDGER_ANSWERED)
		ck_assert_msg(is_end == (at[1] == '.'), "%s: end at \"%s\"", dialogue->says, at);
}

static void play(struct ledger *ledger, const struct dialogue *dialogue)
{
	bool is_request = true;

	for (const char *at = dialogue->script; *at; at++) {
		if (*at == '>' || *at == '<')
			is_request = *at == '>';
		else if (strchr("!?~.*", *at))
			continue;
		else if (is_request)
			expect_request(ledger, dialogue, at);
		else
			expect_reply(ledger, dialogue, at);
	}
	ck_assert_msg(ledger->count == dialogue->left, "%s: %u are left", dialogue->says,
	              ledger->count);
	ck_assert_msg(ledger_is_certain(ledger) == !dialogue->is_unsure, "%s: %u are unsure",
	              dialogue->says, ledger->unsure_count);
}

START_TEST(ledger_plays)
{
	struct ledger ledger = { 0 };

	play(&ledger, &dialogues[_i]);
	ledger_done(&ledger);
	ck_assert(ledger_is_empty(&ledger));
	play(&ledger, &dialogues[_i]); /* no state remains */
	ledger_done(&ledger);
	ck_assert_ptr_null(ledger.ring);
}
END_TEST

/* The same at every position in the ring. */
START_TEST(ledger_plays_wherever_the_head_is)
{
	for (size_t i = 0; i < COUNT_OF(dialogues) * 8; i++) {
		struct ledger ledger = { 0 };

		for (size_t shift = 0; shift <= i % 8; shift++)
			play(&ledger, &(struct dialogue){ "shift", ">S<Z", 0, false });
		play(&ledger, &dialogues[i / 8]);
		ledger_done(&ledger);
	}
}
END_TEST

START_TEST(ledger_grows_to_its_limit)
{
	struct ledger ledger = { 0 };
	bool is_end;

	for (size_t i = 0; i < LEDGER_MAX; i++) {
		unit_expect(!ledger_is_full(&ledger));
		unit_expect(ledger_add(&ledger, i % 2 ? LEDGER_SYNC : LEDGER_QUERY, LEDGER_CLIENT));
	}
	ck_assert(ledger_is_full(&ledger));
	for (size_t i = 0; i < LEDGER_MAX; i++) {
		if (i % 2 == 0)
			unit_expect(ledger_reply(&ledger, 'I', &is_end) == LEDGER_PASS);
		unit_expect(ledger_reply(&ledger, 'Z', &is_end) == LEDGER_PASS);
		unit_expect(is_end);
	}
	ck_assert(ledger_is_empty(&ledger));
	ledger_done(&ledger);
}
END_TEST

/* One client must not delay the others: the cost must not grow quadratically. */
START_TEST(ledger_takes_many_syncs_in_a_copy)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add(&ledger, LEDGER_EXECUTE, LEDGER_CLIENT);
	if (_i)
		ledger_add(&ledger, LEDGER_COPY_DATA, LEDGER_CLIENT);
	while (!ledger_is_full(&ledger))
		ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ck_assert_int_eq(ledger_reply(&ledger, 'G', &is_end), LEDGER_PASS);
	for (int i = 0; i < 1000000; i++)
		unit_expect(ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT));
	ck_assert_uint_eq(ledger.count, 1); /* a COPY may last for days */
	ledger_add(&ledger, LEDGER_COPY_END, LEDGER_CLIENT);
	ck_assert_int_eq(ledger_reply(&ledger, 'C', &is_end), LEDGER_PASS);
	ck_assert(ledger_is_empty(&ledger));
	ledger_done(&ledger);
}
END_TEST

/* ---- changes ---- */

/* A change that records its result: its letter, in upper case if it was applied. */
struct written {
	struct ledger_change base;
	char letter;
	char *story;
};

static void settle_written(struct ledger_change *base, bool is_done)
{
	struct written *written = (struct written *)base;
	size_t count = strlen(written->story);

	written->story[count] = (char)(is_done ? written->letter - 'a' + 'A' : written->letter);
	written->story[count + 1] = 0;
}

/*
 * After '>' requests, each with a change a, b, c ... in turn, and behind it '+' injected,
 * '#' (of a Close) answered here, '%' (of a Parse) replaced. After '<' replies: all must fit; '@'
 * the turn of an answer of ours, '_' that of none. '0' clears.
 */
static const struct {
	const char *says;
	const char *script;
	const char *story;
} change_cases[] = {
	{ "all are done", ">PBC<123", "ABC" },
	{ "a failure takes back all up to the Sync, the last first", ">PBCSP<1E", "Acb" },
	{ "what is behind the Sync stands", ">PSB<EZ2", "aB" },
	{ "a request that is skipped is settled at once", ">P<E>B", "ab" },
	{ "clearing takes back the last first", ">PBC<10", "Acb" },
	{ "injected", ">P+B<12", "AB" },
	{ "an injected one fails", ">P+B<E", "ba" },
	{ "answered here when its turn comes", ">PC#<_1@", "AB" },
	{ "answered here at once", ">C#C#<@@_", "AB" },
	{ "not answered when something fails in front", ">PC#<E_", "ba" },
	{ "an answer of the server in its place does not fit", ">C#<3!", "" },
	{ "replaced", ">BP%<2E", "Ab" },
	{ "a replaced one that succeeds does not fit", ">P%<1!", "" },
	{ "the Sync of a failure changes nothing", ">P<E>S<Z", "a" },
};

static void play_change(struct ledger *ledger, struct written *written, const char *at)
{
	enum ledger_fate fate = at[1] == '+' ? LEDGER_DROPPED : LEDGER_CLIENT;
	enum ledger_kind kind = at[1] == '#'   ? LEDGER_CLOSE_HERE
	                        : at[1] == '%' ? LEDGER_REFUSED_PARSE
	                                       : kind_of(*at);

	if (*at == 'S')
		ck_assert(ledger_add(ledger, LEDGER_SYNC, fate));
	else
		ck_assert(ledger_add_change(ledger, kind, fate, &written->base));
}

static void play_change_reply(struct ledger *ledger, const char *says, const char *at)
{
	struct ledger_change *failed;
	bool is_end;

	if (*at == '0') {
		ledger_done(ledger);
	} else if (*at == '@' || *at == '_') {
		ck_assert_msg(ledger_answer(ledger) == (*at == '@'), "%s: at \"%s\"", says, at);
	} else {
		ck_assert_msg((ledger_reply(ledger, *at, &is_end) == LEDGER_MISMATCH) ==
		                  (at[1] == '!'),
		              "%s: at \"%s\"", says, at);
		failed = *at == 'E' ? ledger_take_failed(ledger) : NULL;
		if (failed)
			failed->settle(failed, false);
	}
}

START_TEST(ledger_settles_changes)
{
	struct written changes[8];
	struct ledger ledger = { 0 };
	char story[32] = "";
	bool is_request = true;
	size_t count = 0;

	for (const char *at = change_cases[_i].script; *at; at++) {
		if (*at == '>' || *at == '<') {
			is_request = *at == '>';
		} else if (strchr("+#%!", *at)) {
			continue;
		} else if (is_request) {
			changes[count] = (struct written){ { .settle = settle_written },
				                           (char)('a' + count),
				                           story };
			play_change(&ledger, &changes[count], at);
			count += *at != 'S';
		} else {
			play_change_reply(&ledger, change_cases[_i].says, at);
		}
	}
	ck_assert_msg(strcmp(story, change_cases[_i].story) == 0, "%s: \"%s\"",
	              change_cases[_i].says, story);
	ledger_done(&ledger);
}
END_TEST

/* ---- whether an Execute was sent ---- */

START_TEST(ledger_knows_of_an_execute)
{
	static const struct {
		enum ledger_kind kind;
		bool has_executed;
	} steps[] = {
		{ LEDGER_PARSE, false },  { LEDGER_BIND, false },     { LEDGER_EXECUTE, true },
		{ LEDGER_PARSE, true },   { LEDGER_SYNC, false },     { LEDGER_DESCRIBE, false },
		{ LEDGER_EXECUTE, true }, { LEDGER_QUERY, false },    { LEDGER_PARSE, false },
		{ LEDGER_EXECUTE, true }, { LEDGER_FUNCTION, false },
	};
	struct ledger ledger = { 0 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		ledger_add(&ledger, steps[i].kind, LEDGER_CLIENT);
		ck_assert_msg(ledger.has_executed == steps[i].has_executed, "step %zu", i);
	}
	ledger_done(&ledger);
}
END_TEST

/* A COPY ignores the Sync that was sent with its Execute. */
START_TEST(ledger_knows_of_the_execute_of_a_copy)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add(&ledger, LEDGER_EXECUTE, LEDGER_CLIENT);
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ck_assert(!ledger.has_executed);
	ledger_reply(&ledger, 'G', &is_end);
	ck_assert(ledger.has_executed);
	ledger_done(&ledger);
}
END_TEST

/* ---- an injected Sync ---- */

static void replies_are(struct ledger *ledger, const char *types,
                        const enum ledger_verdict *verdicts)
{
	bool is_end;

	for (size_t i = 0; types[i]; i++)
		ck_assert_msg(ledger_reply(ledger, types[i], &is_end) == verdicts[i], "%s: %zu",
		              types, i);
	ck_assert(ledger_is_empty(ledger) && ledger_is_certain(ledger) && !ledger->is_open);
	ledger_done(ledger);
}

static struct ledger guarded(enum ledger_fate fate)
{
	struct ledger ledger = { 0 };

	ledger_add(&ledger, LEDGER_PARSE, LEDGER_DROPPED);
	ck_assert(ledger.is_open);
	ledger_add(&ledger, LEDGER_QUERY, fate);
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_DROPPED);
	return ledger;
}

START_TEST(ledger_guards_a_query)
{
	struct ledger ledger = guarded(LEDGER_CLIENT);

	replies_are(&ledger, "1CZZ",
	            (enum ledger_verdict[]){ LEDGER_DROP, LEDGER_PASS, LEDGER_PASS, LEDGER_DROP });
	ledger = guarded(LEDGER_CLIENT);
	replies_are(&ledger, "1EZZ",
	            (enum ledger_verdict[]){ LEDGER_DROP, LEDGER_PASS, LEDGER_PASS, LEDGER_DROP });
	ledger = guarded(LEDGER_CLIENT);
	replies_are(&ledger, "EZ", (enum ledger_verdict[]){ LEDGER_PASS, LEDGER_PASS });
}
END_TEST

static void settle_nothing(struct ledger_change *change, bool is_done)
{
	(void)change;
	(void)is_done;
}

/* A Query, and a Describe of ours, whose error the client gets if the Query has succeeded. */
static struct ledger described(struct ledger_change *change)
{
	struct ledger ledger = { 0 };

	change->settle = settle_nothing;
	ledger_add_change(&ledger, LEDGER_QUERY, LEDGER_CLIENT, change);
	ledger_add(&ledger, LEDGER_TYPES, LEDGER_OURS);
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_OURS);
	return ledger;
}

START_TEST(ledger_passes_a_ready_on)
{
	struct ledger_change change = { 0 };
	struct ledger ledger = described(&change);

	replies_are(&ledger, "CZtnZ",
	            (enum ledger_verdict[]){ LEDGER_PASS, LEDGER_DROP, LEDGER_DROP, LEDGER_DROP,
	                                     LEDGER_PASS });
	ledger = described(&change);
	replies_are(&ledger, "CZEZ",
	            (enum ledger_verdict[]){ LEDGER_PASS, LEDGER_DROP, LEDGER_PASS, LEDGER_PASS });
	ledger = described(&change);
	replies_are(
	    &ledger, "EZEZ",
	    (enum ledger_verdict[]){ LEDGER_PASS, LEDGER_PASS, LEDGER_ANSWERED, LEDGER_ANSWERED });
}
END_TEST

/* A late BEGIN: the messages after it are certainly processed, or the server is lost. */
static struct ledger begun(void)
{
	struct ledger ledger = { 0 };

	ledger_add(&ledger, LEDGER_PARSE, LEDGER_OURS);
	ledger_add(&ledger, LEDGER_BIND, LEDGER_OURS);
	ledger_add(&ledger, LEDGER_EXECUTE, LEDGER_OURS);
	ledger_add(&ledger, LEDGER_CLOSE, LEDGER_OURS);
	ck_assert(!ledger.is_open && ledger_flush(&ledger)); /* nothing else makes it respond */
	return ledger;
}

START_TEST(ledger_begins_late)
{
	static const char *const failures[] = { "E", "1E", "12E", "12CE" };
	struct ledger ledger = begun();
	bool is_end;

	ledger_add(&ledger, LEDGER_QUERY, LEDGER_CLIENT);
	replies_are(&ledger, "12C3CZ",
	            (enum ledger_verdict[]){ LEDGER_ANSWERED, LEDGER_ANSWERED, LEDGER_ANSWERED,
	                                     LEDGER_ANSWERED, LEDGER_PASS, LEDGER_PASS });
	for (size_t i = 0; i < COUNT_OF(failures); i++) {
		const char *at = failures[i];

		ledger = begun();
		ledger_add(&ledger, LEDGER_QUERY, LEDGER_CLIENT);
		for (; *at != 'E'; at++)
			ck_assert_int_eq(ledger_reply(&ledger, *at, &is_end), LEDGER_ANSWERED);
		ck_assert_int_eq(ledger_reply(&ledger, *at, &is_end), LEDGER_FATAL);
		ledger_done(&ledger);
	}
}
END_TEST

START_TEST(ledger_ignores_a_query)
{
	struct ledger ledger = begun();

	ledger_add(&ledger, LEDGER_QUERY, LEDGER_OURS);
	ledger_add(&ledger, LEDGER_QUERY, LEDGER_CLIENT);
	replies_are(&ledger, "12C3EZEZ",
	            (enum ledger_verdict[]){ LEDGER_ANSWERED, LEDGER_ANSWERED, LEDGER_ANSWERED,
	                                     LEDGER_ANSWERED, LEDGER_ANSWERED, LEDGER_ANSWERED,
	                                     LEDGER_PASS, LEDGER_PASS });
	ledger = (struct ledger){ 0 };
	ledger_add(&ledger, LEDGER_QUERY, LEDGER_OURS);
	replies_are(&ledger, "CZ", (enum ledger_verdict[]){ LEDGER_ANSWERED, LEDGER_ANSWERED });
}
END_TEST

START_TEST(ledger_replaces_a_query)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add(&ledger, LEDGER_REFUSED_QUERY, LEDGER_CLIENT);
	replies_are(&ledger, "EZ", (enum ledger_verdict[]){ LEDGER_REPLACED, LEDGER_PASS });
	ledger_add(&ledger, LEDGER_REFUSED_PARSE, LEDGER_CLIENT);
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	replies_are(&ledger, "EZ", (enum ledger_verdict[]){ LEDGER_REPLACED, LEDGER_PASS });
	for (const char *type = "TDCI"; *type; type++) {
		ledger_add(&ledger, LEDGER_REFUSED_QUERY, LEDGER_CLIENT);
		ck_assert(!ledger_passes_plain(&ledger, *type) && !ledger_passes_rows(&ledger));
		ck_assert_int_eq(ledger_reply(&ledger, *type, &is_end), LEDGER_MISMATCH);
		ledger_done(&ledger);
	}
}
END_TEST

START_TEST(ledger_swallows_the_sync_of_a_failure)
{
	struct ledger ledger = { 0 };
	bool is_end;

	for (int more = 1; more >= 0; more--) {
		ledger_add(&ledger, LEDGER_BIND, LEDGER_CLIENT);
		ledger_add(&ledger, LEDGER_EXECUTE, LEDGER_CLIENT);
		ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
		if (more)
			ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
		ck_assert(!ledger_drop_sync(&ledger));
		ledger_reply(&ledger, 'E', &is_end);
		ck_assert_int_eq(ledger_drop_sync(&ledger), !more);
		if (more)
			replies_are(&ledger, "ZZ",
			            (enum ledger_verdict[]){ LEDGER_PASS, LEDGER_PASS });
	}
	replies_are(&ledger, "Z", (enum ledger_verdict[]){ LEDGER_DROP });
	ck_assert(!ledger_drop_sync(&ledger));
}
END_TEST

/* What is sent behind a Query is open also when that is answered. */
START_TEST(ledger_stays_open)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add(&ledger, LEDGER_QUERY, LEDGER_CLIENT);
	ledger_add(&ledger, LEDGER_PARSE, LEDGER_CLIENT);
	ledger_reply(&ledger, 'C', &is_end);
	ledger_reply(&ledger, 'Z', &is_end);
	ck_assert(ledger.is_open && ledger_needs_more(&ledger));
	ledger_done(&ledger);
}
END_TEST

/* A question may be behind the Sync, but nothing of the client. */
START_TEST(ledger_ignores_a_question)
{
	struct ledger ledger = { 0 };
	bool is_end;

	for (int is_ours = 0; is_ours < 2; is_ours++) {
		ledger_add(&ledger, LEDGER_BIND, LEDGER_CLIENT);
		ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
		ledger_add(&ledger, LEDGER_QUERY, is_ours ? LEDGER_OURS : LEDGER_CLIENT);
		ledger_reply(&ledger, 'E', &is_end);
		ck_assert_int_eq(ledger_drop_sync(&ledger), is_ours);
		if (!is_ours)
			replies_are(
			    &ledger, "ZCZ",
			    (enum ledger_verdict[]){ LEDGER_PASS, LEDGER_PASS, LEDGER_PASS });
	}
	replies_are(&ledger, "ZEZ",
	            (enum ledger_verdict[]){ LEDGER_DROP, LEDGER_ANSWERED, LEDGER_ANSWERED });
	ck_assert(ledger_is_at_rest(&ledger));
}
END_TEST

/* After '>' requests and after '<' replies; then what is complete. */
static const struct {
	const char *says;
	const char *script;
	bool is_flush_wanted, ends_ready, ends_empty;
} waits[] = {
	{ "nothing was asked", "", false, true, true },
	{ "of Parse nothing is heard without a Flush", ">P", true, true, false },
	{ "what was answered needs none, but who knows", ">P<1", true, true, true },
	{ "Sync makes one needless", ">PBES", false, false, false },
	{ "Sync, answered", ">PBES<12CZ", false, true, true },
	{ "a Query is answered at once", ">PQ", false, false, false },
	{ "what stands behind it is not", ">QP<CZ", true, true, false },
	{ "a function call is answered at once", ">F", false, false, false },
	{ "of two Syncs the last one counts", ">SPS<Z", false, false, false },
	{ "the end of a COPY needs one too", ">E<G>c", true, true, false },
	{ "a COPY waits for its data itself", ">Q<G", false, true, true },
	{ "not when it has its end", ">Qc<G", true, false, false },
	{ "a Sync that it ignores is not waited for", ">ES<G", false, true, true },
	{ "what fails is not waited for", ">PBES<E", false, false, false },
	{ "and its Sync is answered", ">PBES<EZ", false, true, true },
};

START_TEST(ledger_says_what_is_waited_for)
{
	struct ledger ledger = { 0 };
	bool is_request = true, is_end;

	for (const char *at = waits[_i].script; *at; at++) {
		if (*at == '>' || *at == '<')
			is_request = *at == '>';
		else if (is_request)
			ledger_add(&ledger, kind_of(*at), LEDGER_CLIENT);
		else
			ck_assert(ledger_reply(&ledger, *at, &is_end) == LEDGER_PASS);
	}
	ck_assert_msg(ledger_ends_wait(&ledger, LEDGER_WAIT_READY) == waits[_i].ends_ready &&
	                  ledger_ends_wait(&ledger, LEDGER_WAIT_EMPTY) == waits[_i].ends_empty,
	              "%s", waits[_i].says);
	ck_assert(ledger_ends_wait(&ledger, LEDGER_WAIT_SPACE));
	ck_assert(ledger_ends_wait(&ledger, LEDGER_WAIT_NOT));
	ck_assert_msg(ledger_flush(&ledger) == waits[_i].is_flush_wanted, "%s", waits[_i].says);
	ck_assert(!ledger_flush(&ledger));
	ledger_done(&ledger);
}
END_TEST

START_TEST(ledger_waits_for_space)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add(&ledger, LEDGER_PARSE, LEDGER_CLIENT);
	while (!ledger_is_full(&ledger)) {
		unit_expect(ledger_ends_wait(&ledger, LEDGER_WAIT_SPACE));
		ledger_add(&ledger, LEDGER_CLOSE_HERE, LEDGER_CLIENT);
	}
	ck_assert(!ledger_ends_wait(&ledger, LEDGER_WAIT_SPACE));
	ck_assert(ledger_flush(&ledger)); /* our own responses do not hide what was sent */
	ledger_reply(&ledger, '1', &is_end);
	ck_assert(ledger_ends_wait(&ledger, LEDGER_WAIT_SPACE));
	while (ledger_answer(&ledger))
		continue;
	ck_assert(ledger_ends_wait(&ledger, LEDGER_WAIT_EMPTY));
	ledger_done(&ledger);
}
END_TEST

/* ---- a model of a backend ---- */

#define REQUESTS_MAX 160
#define REPLIES_MAX 4096

/*
 * plan: what becomes of it. A letter for each statement of a Query, one for the
 * others: c completes, r has rows, e is empty, x fails, s is suspended, o is COPY
 * OUT, i is COPY IN. copy_fails: the CopyData at which a COPY IN fails; 0 = before
 * it has read anything, one more than there is = at the CopyDone, -1 = never.
 */
struct request {
	char type;
	const char *plan;
	int copy_fails;
};

struct model {
	const struct request *running; /* a Query or Execute in COPY IN */
	size_t statement;
	bool is_copying, is_skipping;
	int data_count;
	char replies[REPLIES_MAX];
	size_t reply_count;
};

static void emit(struct model *model, const char *types)
{
	size_t count = strlen(types);

	unit_expect(model->reply_count + count <= REPLIES_MAX);
	memcpy(model->replies + model->reply_count, types, count);
	model->reply_count += count;
}

static void fail_statement(struct model *model)
{
	emit(model, "E");
	model->is_copying = false;
	if (model->running->type == 'Q')
		emit(model, "Z");
	else
		model->is_skipping = true;
}

/* Runs the rest of a Query or Execute; true: complete, false: it failed, or is in COPY. */
static bool run_statements(struct model *model)
{
	const struct request *request = model->running;
	const char *left = request->plan + model->statement;

	for (; *left; left++, model->statement++) {
		switch (*left) {
		case 'c':
			emit(model, "C");
			break;
		case 'r':
			emit(model, request->type == 'Q' ? "TDDC" : "DDC");
			break;
		case 'e':
			emit(model, "I");
			break;
		case 's':
			emit(model, "Ds");
			break;
		case 'o':
			emit(model, "HddcC");
			break;
		case 'i':
			emit(model, "G");
			model->is_copying = true;
			model->data_count = 0;
			if (request->copy_fails == 0)
				fail_statement(model);
			return false;
		default:
			fail_statement(model);
			return false;
		}
	}
	return true;
}

static void go_on(struct model *model)
{
	if (run_statements(model) && model->running->type == 'Q')
		emit(model, "Z");
}

static void copy(struct model *model, char type)
{
	bool fails = false;

	unit_expect(
	    strchr("dcfHS", type)); /* otherwise a real backend would have closed the connection */
	if (type == 'd')
		fails = ++model->data_count == model->running->copy_fails;
	else if (type == 'c')
		fails = model->data_count + 1 == model->running->copy_fails;
	if (fails || type == 'f') {
		fail_statement(model);
	} else if (type == 'c') {
		model->is_copying = false;
		emit(model, "C");
		model->statement++;
		go_on(model);
	}
}

static void consume(struct model *model, const struct request *request)
{
	static const char *const good[128] = {
		['P'] = "1", ['B'] = "2", ['C'] = "3", ['F'] = "VZ", ['S'] = "Z",
	};
	char type = request->type;
	bool fails = *request->plan == 'x';

	if (model->is_copying) {
		copy(model, type);
		return;
	}
	if (type == 'S')
		model->is_skipping = false;
	if (model->is_skipping || strchr("dcfH", type))
		return;
	if (type == 'Q' || type == 'E') {
		model->running = request;
		model->statement = 0;
		go_on(model);
	} else if (type == 'D') {
		emit(model, fails ? "tE" : *request->plan == 'e' ? "n" : "tT");
		model->is_skipping = fails;
	} else if (fails) {
		emit(model, type == 'F' || type == 'S' ? "EZ" : "E");
		model->is_skipping = type != 'F' && type != 'S';
	} else {
		emit(model, good[(unsigned char)type]);
	}
}

/* ---- random pipelines ---- */

struct dice {
	uint32_t state;
};

static unsigned int roll(struct dice *dice, unsigned int sides)
{
	dice->state = dice->state * 1664525u + 1013904223u;
	return (dice->state >> 8) % sides;
}

struct pipeline {
	struct request requests[REQUESTS_MAX];
	size_t count;
	bool has_early_sync; /* right after the Execute of a COPY */
	bool has_odd_sync;   /* a Sync among CopyData: doubt is allowed */
};

static void ask(struct pipeline *pipeline, char type, const char *plan, int copy_fails)
{
	if (pipeline->count < REQUESTS_MAX)
		pipeline->requests[pipeline->count++] = (struct request){ type, plan, copy_fails };
}

static void ask_data(struct pipeline *pipeline, struct dice *dice, bool may_have_sync)
{
	unsigned int data = roll(dice, 4);

	for (unsigned int i = 0; i < data; i++) {
		ask(pipeline, 'd', "", 0);
		if (roll(dice, 8) == 0)
			ask(pipeline, 'H', "", 0);
		if (may_have_sync && roll(dice, 12) == 0) {
			ask(pipeline, 'S', "", 0);
			pipeline->has_odd_sync = true;
		}
	}
	ask(pipeline, roll(dice, 5) ? 'c' : 'f', "", 0);
}

static void ask_query(struct pipeline *pipeline, struct dice *dice)
{
	static const char *const plans[] = { "c",  "r",  "rcr", "e",   "x", "cx", "i",
		                             "ii", "ic", "cir", "iix", "o", "oo", "ro" };
	const char *plan = plans[roll(dice, COUNT_OF(plans))];

	ask(pipeline, 'Q', plan, (int)roll(dice, 6) - 1);
	for (; *plan; plan++) {
		if (*plan == 'i')
			ask_data(pipeline, dice, false);
	}
}

static void ask_extended(struct pipeline *pipeline, struct dice *dice, bool may_have_sync)
{
	static const char *const executes[] = { "c", "r", "e", "s", "o", "x", "i", "i" };
	static const char asks[] = "PBDCEEEE";
	unsigned int length = roll(dice, 6);

	for (unsigned int i = 0; i < length; i++) {
		char type = asks[roll(dice, sizeof(asks) - 1)];
		const char *plan = type == 'E'      ? executes[roll(dice, COUNT_OF(executes))]
		                   : roll(dice, 10) ? ""
		                                    : "x";

		ask(pipeline, type, plan, (int)roll(dice, 6) - 1);
		if (type != 'E' || *plan != 'i')
			continue;
		if (roll(dice, 2)) {
			ask_data(pipeline, dice, may_have_sync);
			continue;
		}
		pipeline->has_early_sync = true;
		ask(pipeline, 'S', "", 0); /* before it was known to be a COPY */
		ask_data(pipeline, dice, may_have_sync);
		ask(pipeline, 'S', "", 0);
	}
	/* A failing Sync after two others, one of them without a response, is ambiguous. */
	if (roll(dice, 10))
		ask(pipeline, 'S', pipeline->has_early_sync || roll(dice, 10) ? "" : "x", 0);
}

static void make_pipeline(struct pipeline *pipeline, struct dice *dice, bool may_have_sync)
{
	unsigned int parts = 1 + roll(dice, 5);

	*pipeline = (struct pipeline){ 0 };
	while (parts--) {
		switch (roll(dice, 6)) {
		case 0:
		case 1:
			ask_query(pipeline, dice);
			break;
		case 2:
			ask(pipeline, 'F', roll(dice, 3) ? "" : "x", 0);
			break;
		case 3:
			ask(pipeline, "dcfH"[roll(dice, 4)], "", 0);
			break;
		default:
			ask_extended(pipeline, dice, may_have_sync);
		}
	}
	/* These always fit: the end of a COPY, the Sync after an error. */
	if (pipeline->count > REQUESTS_MAX - 2)
		pipeline->count = REQUESTS_MAX - 2;
	ask(pipeline, 'f', "", 0);
	ask(pipeline, 'S', "", 0);
}

/* The same as ready_count, without iterating. */
static uint32_t count_ready(const struct ledger *ledger)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ledger->count; i++) {
		uint8_t kind = ledger->ring[(ledger->head + i) & (ledger->capacity - 1)].kind;

		count += kind == LEDGER_SYNC || kind == LEDGER_QUERY || kind == LEDGER_FUNCTION;
	}
	return count;
}

/* A ledger of the same requests, whose replies take the short form where there is one. */
static enum ledger_verdict reply_short(struct ledger *ledger, char type)
{
	bool is_end, is_passed = type == 'Z' ? ledger_passes_ready(ledger)
	                                     : ledger_passes_plain(ledger, type);

	return is_passed ? LEDGER_PASS : ledger_reply(ledger, type, &is_end);
}

static bool is_same(const struct ledger *a, const struct ledger *b)
{
	for (uint32_t i = 0; i < a->count && a->count == b->count; i++) {
		uint32_t mask = a->capacity - 1;
		const struct ledger_entry *left = &a->ring[(a->head + i) & mask];
		const struct ledger_entry *right = &b->ring[(b->head + i) & mask];

		if (left->kind != right->kind || left->fate != right->fate)
			return false;
	}
	return a->capacity == b->capacity && a->head == b->head && a->count == b->count &&
	       a->ready_count == b->ready_count && a->sync_epoch == b->sync_epoch &&
	       a->copy_sync_count == b->copy_sync_count && a->unsure_count == b->unsure_count &&
	       a->copy == b->copy && a->is_skipping == b->is_skipping &&
	       a->has_data == b->has_data && a->has_result == b->has_result &&
	       a->is_skip_unsure == b->is_skip_unsure && a->is_open == b->is_open &&
	       a->has_executed == b->has_executed && a->is_held_back == b->is_held_back &&
	       a->is_doubtful == b->is_doubtful;
}

/*
 * Runs a pipeline: sending, the backend's progress and the arrival of its replies advance randomly.
 * The ledger must never be out of step.
 */
static void run_pipeline(const struct pipeline *pipeline, struct dice *dice, uint32_t seed)
{
	struct ledger ledger = { 0 }, other = { 0 };
	struct model model = { 0 };
	const struct request *sent[REQUESTS_MAX];
	size_t asked = 0, sent_count = 0, consumed = 0, seen = 0;
	unsigned int eager = 1 + roll(dice, 4), slow = 1 + roll(dice, 4);

	while (asked < pipeline->count || consumed < sent_count || seen < model.reply_count) {
		unsigned int step = roll(dice, eager + slow + 2);

		if (step < eager && asked < pipeline->count) {
			const struct request *request = &pipeline->requests[asked++];
			enum ledger_kind kind = kind_of(request->type);

			unit_expect(ledger_add(&other, kind, LEDGER_CLIENT));
			if (ledger_add(&ledger, kind, LEDGER_CLIENT))
				sent[sent_count++] = request;
		} else if (step < eager + 1 && consumed < sent_count) {
			consume(&model, sent[consumed++]);
		} else if (seen < model.reply_count) {
			bool is_end;
			enum ledger_verdict verdict =
			    ledger_reply(&ledger, model.replies[seen], &is_end);

			if (reply_short(&other, model.replies[seen++]) != verdict)
				ck_abort_msg("seed %u: the short form differs", seed);
			if (verdict == LEDGER_DOUBT && pipeline->has_odd_sync)
				goto out;
			if (verdict != LEDGER_PASS)
				ck_abort_msg("seed %u: reply %zu (%c) is %d", seed, seen - 1,
				             model.replies[seen - 1], verdict);
		}
		if (ledger.ready_count != count_ready(&ledger))
			ck_abort_msg("seed %u: %u", seed, ledger.ready_count);
		if (!is_same(&ledger, &other))
			ck_abort_msg("seed %u: the short form leaves another ledger", seed);
	}
	ck_assert_msg(ledger_is_empty(&ledger), "seed %u: %u are left", seed, ledger.count);
out:
	ledger_done(&ledger);
	ledger_done(&other);
}

START_TEST(ledger_follows_a_backend)
{
	for (uint32_t seed = 0; seed < 3000; seed++) {
		struct dice dice = { seed * 2654435761u + (uint32_t)_i };
		struct pipeline pipeline;

		make_pipeline(&pipeline, &dice, _i);
		run_pipeline(&pipeline, &dice, seed);
	}
}
END_TEST

START_TEST(ledger_counts_a_call_in_the_short_form)
{
	struct ledger ledger = { 0 };

	ledger_add(&ledger, LEDGER_EXECUTE, LEDGER_CLIENT);
	ck_assert(ledger_mark_call(&ledger, LEDGER_EXECUTE));
	ck_assert_uint_eq(ledger.call_count, 1);
	ck_assert(ledger_passes_plain(&ledger, 'C'));
	ck_assert_uint_eq(ledger.call_count, 0);
	ledger_done(&ledger);
}
END_TEST

/* A change, an answer of ours and the end of a COPY each need ledger_reply(). */
START_TEST(ledger_keeps_to_the_long_form)
{
	char story[8] = "";
	struct written written = { { .settle = settle_written }, 'a', story };
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add_change(&ledger, LEDGER_BIND, LEDGER_CLIENT, &written.base);
	ck_assert(!ledger_passes_plain(&ledger, '2'));
	ck_assert_int_eq(ledger_reply(&ledger, '2', &is_end), LEDGER_PASS);
	ledger_add(&ledger, LEDGER_BIND, LEDGER_CLIENT);
	ledger_add(&ledger, LEDGER_CLOSE_HERE, LEDGER_CLIENT);
	ck_assert(!ledger_passes_plain(&ledger, '2'));
	ledger_done(&ledger);
	ledger_add(&ledger, LEDGER_BIND, LEDGER_DROPPED);
	ck_assert(!ledger_passes_plain(&ledger, '2'));
	ledger_done(&ledger);
	ledger_add(&ledger, LEDGER_TYPES, LEDGER_CLIENT);
	ck_assert(!ledger_passes_plain(&ledger, 'T'));
	ck_assert_str_eq(story, "A");
	ledger_done(&ledger);
}
END_TEST

/* ---- the short form of a ReadyForQuery: only if nothing special is owed, and nothing else ---- */

static const struct {
	const char *says;
	enum ledger_kind kinds[2]; /* LEDGER_NONE: nothing */
	enum ledger_fate fate;
	const char *replies; /* before the ReadyForQuery */
	bool is_passed;
} short_readies[] = {
	{ "nothing", { LEDGER_NONE }, LEDGER_CLIENT, "", false },
	{ "a Query", { LEDGER_QUERY }, LEDGER_CLIENT, "C", true },
	{ "a Query without a result", { LEDGER_QUERY }, LEDGER_CLIENT, "", false },
	{ "a Query that has begun a COPY", { LEDGER_QUERY }, LEDGER_CLIENT, "CG", false },
	{ "a Query that copies both ways", { LEDGER_QUERY }, LEDGER_CLIENT, "CW", false },
	{ "a Query of ours", { LEDGER_QUERY }, LEDGER_OURS, "C", false },
	{ "a Sync", { LEDGER_SYNC }, LEDGER_CLIENT, "", true },
	{ "a Sync of ours", { LEDGER_SYNC }, LEDGER_DROPPED, "", false },
	{ "a Sync, and more", { LEDGER_SYNC, LEDGER_PARSE }, LEDGER_CLIENT, "", false },
	{ "no Sync", { LEDGER_BIND }, LEDGER_CLIENT, "", false },
	{ "a function call", { LEDGER_FUNCTION }, LEDGER_CLIENT, "V", false },
};

START_TEST(ledger_ends_with_a_short_ready)
{
	struct ledger ledger = { 0 };
	bool is_end;

	for (size_t i = 0; i < 2; i++)
		ledger_add(&ledger, short_readies[_i].kinds[i], short_readies[_i].fate);
	for (const char *reply = short_readies[_i].replies; *reply; reply++)
		ledger_reply(&ledger, *reply, &is_end);
	ck_assert_msg(ledger_passes_ready(&ledger) == short_readies[_i].is_passed, "%s",
	              short_readies[_i].says);
	ledger_done(&ledger);
}
END_TEST

/* Before the first request there is no ring. */
START_TEST(ledger_of_nothing)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ck_assert(!ledger_passes_ready(&ledger));
	ck_assert(!ledger_passes_plain(&ledger, 'C'));
	ck_assert(!ledger_owes_injected(&ledger));
	ck_assert(!ledger_mark_call(&ledger, LEDGER_EXECUTE));
	ck_assert_int_eq(ledger_reply(&ledger, 'Z', &is_end), LEDGER_MISMATCH);
	ledger_done(&ledger);
}
END_TEST

START_TEST(ledger_settles_a_change_with_a_long_ready)
{
	char story[8] = "";
	struct written written = { { .settle = settle_written }, 'a', story };
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add_change(&ledger, LEDGER_SYNC, LEDGER_CLIENT, &written.base);
	ck_assert(!ledger_passes_ready(&ledger));
	ck_assert_int_eq(ledger_reply(&ledger, 'Z', &is_end), LEDGER_PASS);
	ck_assert_str_eq(story, "A");
	/* that of a request that has failed, too */
	ledger_add_change(&ledger, LEDGER_QUERY, LEDGER_CLIENT, &written.base);
	ck_assert_int_eq(ledger_reply(&ledger, 'E', &is_end), LEDGER_PASS);
	ck_assert(!ledger_passes_ready(&ledger));
	ck_assert_int_eq(ledger_reply(&ledger, 'Z', &is_end), LEDGER_PASS);
	ck_assert_str_eq(story, "Aa");
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ledger.is_doubtful = true;
	ck_assert(!ledger_passes_ready(&ledger));
	ledger_done(&ledger);
}
END_TEST

/* ---- calls ---- */

static const struct ledger_call *take_call(struct ledger *ledger)
{
	const struct ledger_call *ended = ledger->ended;

	ledger->ended = NULL;
	return ended;
}

START_TEST(ledger_counts_calls)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ck_assert(!ledger_mark_call(&ledger, LEDGER_QUERY));
	ledger_add(&ledger, LEDGER_BIND, LEDGER_CLIENT);
	ck_assert(!ledger_mark_call(&ledger, LEDGER_EXECUTE));
	for (unsigned int i = 0; i < 3; i++) {
		struct ledger_call *call;

		ledger_add(&ledger, LEDGER_EXECUTE, LEDGER_CLIENT);
		call = ledger_mark_call(&ledger, LEDGER_EXECUTE);
		ck_assert_ptr_nonnull(call);
		call->tag = i;
		ck_assert(!ledger_mark_call(&ledger, LEDGER_EXECUTE));
	}
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ck_assert_uint_eq(ledger.call_count, 3);
	ledger_reply(&ledger, '2', &is_end);
	ledger_reply(&ledger, 'D', &is_end);
	ck_assert_uint_eq(ledger.call_count, 3);
	ck_assert(!take_call(&ledger));
	ledger_reply(&ledger, 'C', &is_end);
	ck_assert_uint_eq(ledger.call_count, 2);
	ck_assert_uint_eq(take_call(&ledger)->tag, 0);
	ck_assert_uint_eq(ledger_first_call(&ledger)->tag, 1);
	ledger_reply(&ledger, 'E', &is_end);
	ck_assert_uint_eq(ledger.call_count, 0);
	ck_assert_uint_eq(take_call(&ledger)->tag, 1);
	ck_assert(!take_call(&ledger) && !ledger_first_call(&ledger));
	ledger_reply(&ledger, 'Z', &is_end);
	ck_assert(ledger_is_empty(&ledger));
	ledger_add(&ledger, LEDGER_QUERY, LEDGER_OURS);
	ck_assert(!ledger_mark_call(&ledger, LEDGER_QUERY));
	ledger_add(&ledger, LEDGER_QUERY, LEDGER_CLIENT);
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_DROPPED);
	ck_assert(ledger_mark_call(&ledger, LEDGER_QUERY));
	ledger_done(&ledger);
	ck_assert_uint_eq(ledger.call_count, 0);
	ledger_done(&ledger);
}
END_TEST

/* What many requests at once have needed is not kept. */
START_TEST(ledger_shrinks_when_empty)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ledger_reply(&ledger, 'Z', &is_end);
	ledger_shrink(&ledger);
	ck_assert_uint_ne(ledger.capacity, 0);
	for (size_t i = 0; i < LEDGER_KEPT + 1; i++)
		ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ledger_shrink(&ledger);
	ck_assert_uint_eq(ledger.count, LEDGER_KEPT + 1);
	while (ledger.count)
		ledger_reply(&ledger, 'Z', &is_end);
	ledger_shrink(&ledger);
	ck_assert_uint_eq(ledger.capacity, 0);
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ck_assert_int_eq(ledger_reply(&ledger, 'Z', &is_end), LEDGER_PASS);
	ledger_done(&ledger);
}
END_TEST

/* The Sync behind the head goes, and the call stays one. */
START_TEST(ledger_counts_the_call_of_a_copy)
{
	struct ledger ledger = { 0 };
	bool is_end;

	ledger_add(&ledger, LEDGER_EXECUTE, LEDGER_CLIENT);
	ck_assert(ledger_mark_call(&ledger, LEDGER_EXECUTE));
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ledger_reply(&ledger, 'G', &is_end);
	ck_assert_uint_eq(ledger.call_count, 1);
	ledger_add(&ledger, LEDGER_COPY_END, LEDGER_CLIENT);
	ledger_add(&ledger, LEDGER_SYNC, LEDGER_CLIENT);
	ck_assert_uint_eq(ledger.call_count, 1);
	ledger_reply(&ledger, 'C', &is_end);
	ck_assert_uint_eq(ledger.call_count, 0);
	ledger_done(&ledger);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/ledger");
	TCase *cases = tcase_create("ledger");

	tcase_set_timeout(cases, 60);
	tcase_add_loop_test(cases, ledger_settles_changes, 0, COUNT_OF(change_cases));
	tcase_add_test(cases, ledger_knows_of_an_execute);
	tcase_add_test(cases, ledger_knows_of_the_execute_of_a_copy);
	tcase_add_test(cases, ledger_guards_a_query);
	tcase_add_test(cases, ledger_passes_a_ready_on);
	tcase_add_test(cases, ledger_begins_late);
	tcase_add_test(cases, ledger_ignores_a_query);
	tcase_add_test(cases, ledger_replaces_a_query);
	tcase_add_test(cases, ledger_stays_open);
	tcase_add_test(cases, ledger_swallows_the_sync_of_a_failure);
	tcase_add_test(cases, ledger_ignores_a_question);
	tcase_add_loop_test(cases, ledger_says_what_is_waited_for, 0, COUNT_OF(waits));
	tcase_add_test(cases, ledger_waits_for_space);
	tcase_add_test(cases, ledger_counts_a_call_in_the_short_form);
	tcase_add_test(cases, ledger_keeps_to_the_long_form);
	tcase_add_loop_test(cases, ledger_ends_with_a_short_ready, 0, COUNT_OF(short_readies));
	tcase_add_test(cases, ledger_of_nothing);
	tcase_add_test(cases, ledger_settles_a_change_with_a_long_ready);
	tcase_add_test(cases, ledger_counts_calls);
	tcase_add_test(cases, ledger_shrinks_when_empty);
	tcase_add_test(cases, ledger_counts_the_call_of_a_copy);
	tcase_add_loop_test(cases, ledger_plays, 0, COUNT_OF(dialogues));
	tcase_add_test(cases, ledger_plays_wherever_the_head_is);
	tcase_add_test(cases, ledger_grows_to_its_limit);
	tcase_add_loop_test(cases, ledger_takes_many_syncs_in_a_copy, 0, 2);
	tcase_add_loop_test(cases, ledger_follows_a_backend, 0, 2);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
