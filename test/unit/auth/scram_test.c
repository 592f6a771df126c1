/* SPDX-License-Identifier: ISC */
/*
 * auth/scram.c: the exchange of RFC 7677, both roles against each other, and what
 * each of them must refuse.
 */
#include "pgweir/auth/scram.h"
#include "pgweir/base/text.h"

#include <stdlib.h>

#include "../unit.h"

#define CLIENT_NONCE "rOprNGfwEbeRWgbNEkqO"
#define SERVER_NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define JOINT CLIENT_NONCE SERVER_NONCE
#define SALT "W22ZaJ0SNY7soEsUEjb6gQ=="
#define CLIENT_FIRST "n,,n=user,r=" CLIENT_NONCE
#define SERVER_FIRST "r=" JOINT ",s=" SALT ",i=4096"
#define PROOF "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
#define CLIENT_FINAL "c=biws,r=" JOINT ",p=" PROOF
#define SERVER_FINAL "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
#define VERIFIER                                                                    \
	"SCRAM-SHA-256$4096:" SALT "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:" \
	"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="

static struct scram_verifier verifier_of(const char *text)
{
	struct scram_verifier verifier;

	ck_assert(scram_verifier_parse(text, &verifier));
	return verifier;
}

/* A server that waits for client-final. */
static struct scram server_at_final(const char *client_first)
{
	struct scram_verifier verifier = verifier_of(VERIFIER);
	struct scram scram = { .nonce = SERVER_NONCE };
	struct buf out = { 0 };
	struct err err;

	ck_assert_msg(scram_server_first(&scram, bytes_text(client_first),
	                                 scram_salt(&verifier.made_for),
	                                 verifier.made_for.iterations, &out, &err),
	              "%s", err.text);
	ck_assert_str_eq(buf_text(&out), SERVER_FIRST);
	buf_free(&out);
	return scram;
}

/* A client that waits for server-first. */
static struct scram client_at_first(void)
{
	struct scram scram = { .nonce = CLIENT_NONCE };
	struct buf out = { 0 };

	ck_assert(scram_client_first(&scram, "user", &out, NULL));
	ck_assert_str_eq(buf_text(&out), CLIENT_FIRST);
	buf_free(&out);
	return scram;
}

START_TEST(scram_server_of_rfc_7677)
{
	struct scram_verifier verifier = verifier_of(VERIFIER);
	struct scram scram = server_at_final(CLIENT_FIRST);
	unsigned char hash[SHA256_SIZE];
	struct buf out = { 0 };
	struct err err;

	ck_assert(scram_server_read(&scram, bytes_text(CLIENT_FINAL), &err));
	ck_assert(scram_server_check(&scram, &verifier.keys, &out, &err));
	ck_assert(digest_sha256(bytes_of(verifier.keys.client_key, SCRAM_KEY_SIZE), hash));
	ck_assert_int_eq(memcmp(hash, verifier.keys.stored_key, sizeof(hash)), 0);
	ck_assert_str_eq(buf_text(&out), SERVER_FINAL);
	verifier.keys.stored_key[0] ^= 1;
	ck_assert(!scram_server_check(&scram, &verifier.keys, &out, &err));
	ck_assert_int_eq(err.code, ERR_PASSWORD);
	ck_assert_str_eq(buf_text(&out), SERVER_FINAL);
	buf_free(&out);
	scram_done(&scram);
}
END_TEST

START_TEST(scram_client_of_rfc_7677)
{
	struct scram scram = client_at_first();
	struct scram_challenge challenge;
	struct scram_keys keys;
	struct buf out = { 0 };
	struct err err;

	ck_assert(scram_client_read(&scram, bytes_text(SERVER_FIRST), &challenge, &err));
	ck_assert_uint_eq(challenge.iterations, 4096);
	ck_assert(scram_derive("pencil", bytes_of(challenge.salt, challenge.salt_count),
	                       challenge.iterations, &keys));
	ck_assert(scram_client_final(&scram, &keys, &out, &err));
	ck_assert_str_eq(buf_text(&out), CLIENT_FINAL);
	ck_assert(scram_client_check(&scram, &keys, bytes_text(SERVER_FINAL), &err));
	ck_assert(!scram_client_check(&scram, &keys, bytes_text("v=" PROOF), &err));
	ck_assert_int_eq(err.code, ERR_PASSWORD);
	ck_assert(!scram_client_check(&scram, &keys, bytes_text("e=other-error"), &err));
	ck_assert_int_eq(err.code, ERR_PROTOCOL);
	ck_assert(!scram_client_check(&scram, &keys, bytes_text("v=AAAA"), &err));
	ck_assert(!scram_client_check(&scram, &keys, bytes_text(""), &err));
	buf_free(&out);
	scram_done(&scram);
}
END_TEST

START_TEST(scram_verifiers_there_and_back)
{
	struct scram_verifier verifier = verifier_of(VERIFIER);
	struct scram_keys keys;
	struct buf out = { 0 };

	scram_verifier_text(&verifier, &out);
	ck_assert_str_eq(buf_text(&out), VERIFIER);
	ck_assert(scram_derive("pencil", scram_salt(&verifier.made_for), 4096, &keys));
	ck_assert_int_eq(memcmp(keys.stored_key, verifier.keys.stored_key, SCRAM_KEY_SIZE), 0);
	ck_assert_int_eq(memcmp(keys.server_key, verifier.keys.server_key, SCRAM_KEY_SIZE), 0);
	buf_free(&out);
}
END_TEST

static const char *const no_verifiers[] = {
	"",
	"SCRAM-SHA-256",
	"SCRAM-SHA-256$",
	"SCRAM-SHA-1$4096:" SALT "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
	"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
	"SCRAM-SHA-256$0:" SALT "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
	"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
	"SCRAM-SHA-256$4096:$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
	"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
	"SCRAM-SHA-256$4096:" SALT "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:AAAA",
	VERIFIER "=",
	VERIFIER ":x",
};

START_TEST(scram_refuses_verifiers)
{
	struct scram_verifier verifier;

	ck_assert_msg(!scram_verifier_parse(no_verifiers[_i], &verifier), "%s", no_verifiers[_i]);
}
END_TEST

static const struct {
	const char *text;
	const char *reason; /* NULL: accepted */
} client_firsts[] = {
	{ "n,,n=,r=abc", NULL },
	{ "y,,n=,r=abc", NULL },
	{ "n,,n=who,r=abc,x=1", NULL },
	{ "", "malformed SCRAM message: unexpected channel binding flag" },
	{ "n", "malformed SCRAM message: nothing after the channel binding flag" },
	{ "x,,n=,r=abc", "malformed SCRAM message: unexpected channel binding flag" },
	{ "p=tls-server-end-point,,n=,r=abc",
	  "client requests channel binding, but has not chosen SCRAM-SHA-256-PLUS" },
	{ "n,a=bo,n=,r=abc", "client uses an authorization identity, which is not supported" },
	{ "n,,m=1,n=,r=abc", "client requires an unsupported SCRAM extension" },
	{ "n,,r=abc", "malformed SCRAM message: no user name in client-first" },
	{ "n,,n=", "malformed SCRAM message: no valid nonce in client-first" },
	{ "n,,n=,r=", "malformed SCRAM message: no valid nonce in client-first" },
	{ "n,,n=,r=a\x7f", "malformed SCRAM message: no valid nonce in client-first" },
	{ "n,,n=,r=a b", "malformed SCRAM message: no valid nonce in client-first" },
	{ "n,,n=,r=\xc3\xa9", "malformed SCRAM message: no valid nonce in client-first" },
};

START_TEST(scram_client_firsts)
{
	struct scram scram = { 0 };
	struct buf out = { 0 };
	struct err err = { 0 };
	bool ok = scram_server_first(&scram, bytes_text(client_firsts[_i].text),
	                             bytes_text("0123456789abcdef"), 4096, &out, &err);

	ck_assert_msg(ok == !client_firsts[_i].reason, "%s", client_firsts[_i].text);
	if (!ok) {
		ck_assert_str_eq(err.text, client_firsts[_i].reason);
		ck_assert_int_eq(err.code, ERR_PROTOCOL);
		ck_assert_uint_eq(out.count, 0);
	}
	buf_free(&out);
	scram_done(&scram);
}
END_TEST

static const struct {
	const char *text;
	bool ok;
} client_finals[] = {
	{ CLIENT_FINAL, true },
	{ "c=biws,r=" JOINT ",x=1,p=" PROOF, true },
	{ "c=eSws,r=" JOINT ",p=" PROOF, false },
	{ "c=,r=" JOINT ",p=" PROOF, false },
	{ "r=" JOINT ",c=biws,p=" PROOF, false },
	{ "c=biws,r=" CLIENT_NONCE ",p=" PROOF, false },
	{ "c=biws,r=" JOINT "x,p=" PROOF, false },
	{ "c=biws,p=" PROOF, false },
	{ "c=biws,r=" JOINT, false },
	{ "c=biws,r=" JOINT ",p=", false },
	{ "c=biws,r=" JOINT ",p=AAAA", false },
	{ "c=biws,r=" JOINT ",p=" PROOF ",x=1", false },
	{ "p=" PROOF, false },
	{ "", false },
	{ ",", false },
	{ ",p", false },
};

START_TEST(scram_client_finals)
{
	struct scram scram = server_at_final(CLIENT_FIRST);
	struct err err = { 0 };

	ck_assert_msg(scram_server_read(&scram, bytes_text(client_finals[_i].text), &err) ==
	                  client_finals[_i].ok,
	              "%s", client_finals[_i].text);
	if (!client_finals[_i].ok)
		ck_assert_int_eq(err.code, ERR_PROTOCOL);
	scram_done(&scram);
}
END_TEST

static const struct {
	const char *text;
	bool ok;
} server_firsts[] = {
	{ SERVER_FIRST, true },
	{ SERVER_FIRST ",x=1", true },
	{ "r=" CLIENT_NONCE ",s=" SALT ",i=4096", false }, /* adds no nonce of its own */
	{ "r=x" JOINT ",s=" SALT ",i=4096", false },
	{ "m=1,r=" JOINT ",s=" SALT ",i=4096", false },
	{ "r=" JOINT ",s=,i=4096", false },
	{ "r=" JOINT ",s=!,i=4096", false },
	{ "r=" JOINT ",i=4096", false },
	{ "r=" JOINT ",s=" SALT ",i=0", false },
	{ "r=" JOINT ",s=" SALT ",i=-1", false },
	{ "r=" JOINT ",s=" SALT ",i=", false },
	{ "r=" JOINT ",s=" SALT ",i=10000001", false },
	{ "r=" JOINT ",s=" SALT ",i=99999999999999999999", false },
	{ "r=" JOINT ",s=" SALT ",i=4096x", false },
	{ "r=" JOINT ",s=" SALT, false },
	{ "", false },
};

START_TEST(scram_server_firsts)
{
	struct scram scram = client_at_first();
	struct scram_challenge challenge;
	struct err err = { 0 };

	ck_assert_msg(scram_client_read(&scram, bytes_text(server_firsts[_i].text), &challenge,
	                                &err) == server_firsts[_i].ok,
	              "%s", server_firsts[_i].text);
	scram_done(&scram);
}
END_TEST

/* At every cut, a message is refused or authentication fails; nothing is read after its end. */
START_TEST(scram_messages_at_every_cut)
{
	struct bytes whole = bytes_text(CLIENT_FINAL);

	for (size_t count = 0; count < whole.count; count++) {
		struct scram scram = server_at_final(CLIENT_FIRST);
		char *cut = malloc(count ? count : 1);

		memcpy(cut, whole.at, count);
		ck_assert(!scram_server_read(&scram, bytes_of(cut, count), NULL));
		free(cut);
		scram_done(&scram);
	}
}
END_TEST

START_TEST(scram_overlong_is_refused)
{
	char *text = malloc(SCRAM_MESSAGE_MAX + 1);
	struct bytes in = bytes_of(text, SCRAM_MESSAGE_MAX + 1);
	struct scram server = server_at_final(CLIENT_FIRST), client = client_at_first();
	struct scram_challenge challenge;
	struct scram_keys keys = { 0 };
	struct buf out = { 0 };
	struct scram first = { 0 };

	memset(text, 'a', in.count);
	memcpy(text, "n,,n=,r=abc,", 12);
	ck_assert(!scram_server_first(&first, in, bytes_text("salt"), 1, &out, NULL));
	memcpy(text, CLIENT_FINAL ",", strlen(CLIENT_FINAL) + 1);
	ck_assert(!scram_server_read(&server, in, NULL));
	memcpy(text, SERVER_FIRST ",", strlen(SERVER_FIRST) + 1);
	ck_assert(!scram_client_read(&client, in, &challenge, NULL));
	memcpy(text, SERVER_FINAL ",", strlen(SERVER_FINAL) + 1);
	ck_assert(!scram_client_check(&client, &keys, in, NULL));
	free(text);
	buf_free(&out);
	scram_done(&first);
	scram_done(&server);
	scram_done(&client);
}
END_TEST

/* Both our roles, with random nonces and salt. */
static bool both_roles(const char *password, const char *tried)
{
	struct scram server = { 0 }, client = { 0 };
	struct bytes salt = bytes_text("0123456789abcdef");
	struct buf a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	struct scram_keys kept, made;
	struct scram_challenge challenge;
	bool ok;

	ck_assert(scram_derive(password, salt, 2, &kept));
	ck_assert(scram_client_first(&client, "", &a, NULL));
	ck_assert(scram_server_first(&server, buf_bytes(&a), salt, 2, &b, NULL));
	ck_assert(scram_client_read(&client, buf_bytes(&b), &challenge, NULL));
	ck_assert(scram_derive(tried, bytes_of(challenge.salt, challenge.salt_count),
	                       challenge.iterations, &made));
	ck_assert(scram_client_final(&client, &made, &c, NULL));
	ck_assert(scram_server_read(&server, buf_bytes(&c), NULL));
	memset(kept.client_key, 0, sizeof(kept.client_key));
	ok = scram_server_check(&server, &kept, &d, NULL);
	ck_assert_int_eq(scram_client_check(&client, &made, buf_bytes(&d), NULL), ok);
	if (ok)
		ck_assert_int_eq(memcmp(kept.client_key, made.client_key, SCRAM_KEY_SIZE), 0);
	scram_done(&server);
	scram_done(&client);
	buf_free(&a);
	buf_free(&b);
	buf_free(&c);
	buf_free(&d);
	return ok;
}

START_TEST(scram_both_roles)
{
	ck_assert(both_roles("secret", "secret"));
	ck_assert(both_roles("I\xc2\xadX", "\xe2\x85\xa8")); /* equal after SASLprep */
	ck_assert(both_roles("\xff", "\xff"));
	ck_assert(!both_roles("secret", "Secret"));
	ck_assert(!both_roles("secret", ""));
}
END_TEST

/* ---- channel binding ---- */

static const struct {
	const char *says;
	const char *client, *server; /* binding data of the channels; "" = none */
	bool client_plus, server_plus;
	const char *reason; /* NULL: the login succeeds */
} channels[] = {
	{ "the same channel", "one certificate", "one certificate", true, true, NULL },
	{ "no channel", "", "", false, false, NULL },
	{ "two channels, somebody in the middle", "his certificate", "one certificate", true, true,
	  "SCRAM channel binding check failed" },
	{ "the offer was taken away", "one certificate", "one certificate", false, false,
	  "client did not see that channel binding is offered" },
	{ "the server cannot bind", "one certificate", "", false, false, NULL },
	{ "the client cannot bind", "", "one certificate", false, false, NULL },
	{ "binding without its mechanism", "one certificate", "one certificate", true, false,
	  "client requests channel binding, but has not chosen SCRAM-SHA-256-PLUS" },
	{ "the mechanism without binding", "", "one certificate", false, true,
	  "malformed SCRAM message: no channel binding in SCRAM-SHA-256-PLUS" },
};

START_TEST(scram_binds_to_a_channel)
{
	struct scram client = { .is_plus = channels[_i].client_plus };
	struct scram server = { .is_plus = channels[_i].server_plus };
	struct scram_challenge challenge;
	struct scram_keys keys;
	struct buf first = { 0 }, reply = { 0 }, final = { 0 };
	struct err err = { 0 };
	bool holds;

	scram_bind(&client, bytes_text(channels[_i].client));
	scram_bind(&server, bytes_text(channels[_i].server));
	ck_assert(scram_client_first(&client, "", &first, NULL));
	holds =
	    scram_server_first(&server, buf_bytes(&first), bytes_text("salt"), 1, &reply, &err) &&
	    scram_client_read(&client, buf_bytes(&reply), &challenge, &err) &&
	    scram_derive("pencil", bytes_text("salt"), 1, &keys) &&
	    scram_client_final(&client, &keys, &final, &err) &&
	    scram_server_read(&server, buf_bytes(&final), &err);
	ck_assert_msg(holds == !channels[_i].reason, "%s: %s", channels[_i].says, err.text);
	if (!holds)
		ck_assert_str_eq(err.text, channels[_i].reason);
	buf_free(&first);
	buf_free(&reply);
	buf_free(&final);
	scram_done(&client);
	scram_done(&server);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/scram");
	TCase *cases = tcase_create("scram");

	tcase_add_test(cases, scram_server_of_rfc_7677);
	tcase_add_test(cases, scram_client_of_rfc_7677);
	tcase_add_test(cases, scram_verifiers_there_and_back);
	tcase_add_loop_test(cases, scram_refuses_verifiers, 0, COUNT_OF(no_verifiers));
	tcase_add_loop_test(cases, scram_client_firsts, 0, COUNT_OF(client_firsts));
	tcase_add_loop_test(cases, scram_client_finals, 0, COUNT_OF(client_finals));
	tcase_add_loop_test(cases, scram_server_firsts, 0, COUNT_OF(server_firsts));
	tcase_add_test(cases, scram_messages_at_every_cut);
	tcase_add_test(cases, scram_overlong_is_refused);
	tcase_add_test(cases, scram_both_roles);
	tcase_add_loop_test(cases, scram_binds_to_a_channel, 0, COUNT_OF(channels));
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
