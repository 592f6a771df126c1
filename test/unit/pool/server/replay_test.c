/* SPDX-License-Identifier: ISC */
/*
 * pool/server/server.c, batches that are kept: what is left of several batches while they are
 * answered.
 */
#include "pgweir/pool/server/replay.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/pgwire/frame.h"

#include "../../unit.h"

/*
 * kept: types of messages; a Query has a text, 'q' is an empty one. texts: of the opening that is
 * in it, one letter each. said: 'r' a reply, 'T' and 'I' a ReadyForQuery. left: what is kept then,
 * and behind a '/' the opening that was answered, and behind another one that in what is kept; '!':
 * it cannot be sent again now.
 */
static const struct {
	const char *says, *kept, *texts, *said, *left;
} cases[] = {
	{ "nothing is answered", "QPBES", "a", "", "QPBES//a" },
	{ "the first is answered in part", "QPBES", "a", "r", "QPBES//a!" },
	{ "and in full", "QPBES", "a", "rT", "PBES/a/" },
	{ "then the second, in part", "QPBES", "a", "rTr", "//" },
	{ "an opening of several", "QQPBES", "ab", "rT", "QPBES/a/b" },
	{ "the second of them", "QQPBES", "ab", "rTrT", "PBES/ab/" },
	{ "a batch of two", "PBEPBESQ", "ab", "rrT", "Q/ab/" },
	{ "part of it is in the last batch", "QPBEPBES", "ab", "rT", "PBEPBES/a/b" },
	{ "an empty Query has no text", "qQQ", "a", "rIrT", "Q/a/" },
	{ "a Sync alone", "SQQ", "a", "I", "QQ//a" },
	{ "it has not opened", "QQ", "a", "rI", "//" },
	{ "it is open before", "qQ", "", "rT", "//" },
	{ "a batch without an end", "QPBE", "a", "rT", "PBE/a/" },
};

static void keep(struct replay *replay, const char *types, const char *texts)
{
	struct replay_batches *batches = &replay->batches;
	char bytes[256];
	size_t count = 0, size = 0;
	bool is_end = true;

	for (; *types; types++) {
		bool has_text = *types == 'Q';

		bytes[count] = *types == 'q' ? 'Q' : *types;
		store_be32(bytes + count + 1,
		           has_text ? 6 : (*types == 'q' || *types == 'E' ? 5 : 4));
		memcpy(bytes + count + FRAME_HEADER_SIZE, has_text ? "x" : "\0", 2);
		count += FRAME_HEADER_SIZE + (has_text ? 2 : *types == 'q' || *types == 'E');
		size += 2 * ((has_text || *types == 'E') && size < 2 * strlen(texts));
		batches->count += is_end;
		batches->at[batches->count - 1].end = (uint16_t)count;
		batches->at[batches->count - 1].opening = (uint16_t)size;
		is_end = strchr("QqS", *types) != NULL;
	}
	ck_assert(replay_add(replay, bytes_of(bytes, count)));
	ck_assert(replay->count == count);
	replay->may_resend = true;
	for (size_t i = 0; texts[i]; i++)
		memcpy(replay->at + REPLAY_MAX + 2 * i, (char[]){ texts[i], 0 }, 2);
}

static void tell_texts(const char *at, size_t count, char *out)
{
	for (size_t i = 0; i < count; i += 2)
		stpcpy(out + strlen(out), (char[]){ at[i], 0 });
}

static void tell(const struct replay *replay, char *out)
{
	struct bytes rest = bytes_of(replay->at, replay->count);
	const char *opening = replay->at + REPLAY_MAX;
	size_t more = (size_t)replay_whole_opening(replay) - replay->opening_count;
	struct frame frame;

	*out = 0;
	while (frame_peek(rest, UINT32_MAX, &frame) == WIRE_OK) {
		stpcpy(out + strlen(out), (char[]){ frame.type, 0 });
		rest = bytes_skip(rest, frame.length);
	}
	stpcpy(out + strlen(out), "/");
	tell_texts(opening, replay->opening_count, out);
	stpcpy(out + strlen(out), "/");
	tell_texts(opening + replay->opening_count, more, out);
	ck_assert(2 * replay_count_opening(replay) == more);
	if (replay->count && !replay_may_resend(replay))
		stpcpy(out + strlen(out), "!");
}

START_TEST(replay_is_answered)
{
	struct replay replay = { 0 };
	char left[64];

	keep(&replay, cases[_i].kept, cases[_i].texts);
	for (const char *said = cases[_i].said; *said; said++) {
		if (*said == 'r')
			replay_reply(&replay);
		else
			replay_ready(&replay, *said);
	}
	tell(&replay, left);
	ck_assert_msg(strcmp(left, cases[_i].left) == 0, "%s: %s", cases[_i].says, left);
	replay_done(&replay);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool/server/replay");
	TCase *tcase = tcase_create("replay");

	tcase_add_loop_test(tcase, replay_is_answered, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
