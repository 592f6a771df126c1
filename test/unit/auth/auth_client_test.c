/* SPDX-License-Identifier: ISC */
/*
 * auth/auth_client.c: each request with each kind of credentials, and lying
 * servers. The test runs the jobs.
 */
#include "pgweir/auth/auth_client.h"
#include "pgweir/auth/auth_server.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include <stdlib.h>

#include "../unit.h"

#define ITERATIONS 3
#define OK_BODY bytes_of("\0\0\0\0", 4)
#define SASL_BODY bytes_of("\0\0\0\12SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0", 38)
#define FAILED(reason) "server login failed: " reason

struct stage {
	struct verifiers *verifiers;
	struct auth_client *auth;
	struct buf out;
	struct err err;
	int call_count;
	struct job *job; /* that was submitted */
	bool is_crowded; /* no job is accepted */
};

static void count_call(void *arg) { ((struct stage *)arg)->call_count++; }

static bool submit(void *arg, struct job *job, bool is_slow)
{
	struct stage *stage = arg;

	(void)is_slow;
	stage->job = job;
	return !stage->is_crowded;
}

static void stage_open(struct stage *stage, const struct credentials *credentials)
{
	struct auth_client_who who = { .user = "bo",
		                       .credentials = credentials,
		                       .verifiers = stage->verifiers,
		                       .runner = { submit, count_call, stage } };

	stage->auth = auth_client_new(&who);
	ck_assert_ptr_nonnull(stage->auth);
}

static void stage_close(struct stage *stage)
{
	auth_client_free(&stage->auth);
	ck_assert_ptr_null(stage->auth);
	buf_free(&stage->out);
}

static enum auth_client_result say(struct stage *stage, struct bytes body)
{
	buf_clear(&stage->out);
	return auth_client_answer(stage->auth, body, &stage->out, &stage->err);
}

/* The body of the one message that was sent. */
static struct bytes sent(const struct stage *stage)
{
	struct frame frame;

	ck_assert_int_eq(frame_peek(buf_bytes(&stage->out), 10000, &frame), WIRE_OK);
	ck_assert_int_eq(frame.type, 'p');
	ck_assert_uint_eq(frame.length, stage->out.count);
	return frame_body(buf_bytes(&stage->out), &frame);
}

static char md5_secret[] = "md54ff2ee6ce2a4d4b8b2f4a4d8e7d2d0a1";

static struct credentials plain = { .kind = SECRET_PLAIN, .text = "secret" };
static struct credentials wrong = { .kind = SECRET_PLAIN, .text = "wrong" };
static struct credentials md5 = { .kind = SECRET_MD5, .text = md5_secret };

static const struct {
	const char *says;
	const struct credentials *credentials;
	struct bytes body;
	const char *failed; /* NULL: a response is sent */
} firsts[] = {
	{ "cleartext, plain", &plain, { "\0\0\0\3", 4 }, NULL },
	{ "cleartext, md5", &md5, { "\0\0\0\3", 4 }, FAILED("wrong password type") },
	{ "cleartext, nothing", NULL, { "\0\0\0\3", 4 }, FAILED("wrong password type") },
	{ "md5, plain", &plain, { "\0\0\0\5salt", 8 }, NULL },
	{ "md5, md5", &md5, { "\0\0\0\5salt", 8 }, NULL },
	{ "md5, nothing", NULL, { "\0\0\0\5salt", 8 }, FAILED("wrong password type") },
	{ "SCRAM, plain", &plain, { "\0\0\0\12SCRAM-SHA-256\0", 19 }, NULL },
	{ "SCRAM, md5", &md5, { "\0\0\0\12SCRAM-SHA-256\0", 19 }, FAILED("wrong password type") },
	{ "no mechanism of ours",
	  &plain,
	  { "\0\0\0\12SCRAM-SHA-256-PLUS\0X\0", 26 },
	  FAILED("none of the server's SASL authentication mechanisms are supported") },
	{ "no mechanism",
	  &plain,
	  { "\0\0\0\12", 5 },
	  FAILED("none of the server's SASL authentication mechanisms are supported") },
	{ "GSS", &plain, { "\0\0\0\7", 4 }, FAILED("unsupported authentication method") },
	{ "SSPI", &plain, { "\0\0\0\11", 4 }, FAILED("unsupported authentication method") },
	{ "of the future", &plain, { "\1\0\0\3", 4 }, FAILED("unsupported authentication method") },
	{ "a challenge out of the blue",
	  &plain,
	  { "\0\0\0\13r=", 6 },
	  FAILED("unsupported authentication method") },
	{ "cut short", &plain, { "\0\0", 2 }, FAILED("malformed authentication request") },
	{ "md5 without salt",
	  &plain,
	  { "\0\0\0\5sal", 7 },
	  FAILED("malformed authentication request") },
};

START_TEST(auth_client_first_requests)
{
	struct stage stage = { 0 };
	enum auth_client_result result;

	stage_open(&stage, firsts[_i].credentials);
	result = say(&stage, firsts[_i].body);
	ck_assert_msg(result == (firsts[_i].failed ? AUTH_CLIENT_FAILED : AUTH_CLIENT_MORE), "%s",
	              firsts[_i].says);
	if (result == AUTH_CLIENT_FAILED) {
		ck_assert_str_eq(stage.err.text, firsts[_i].failed);
		ck_assert_int_eq(stage.err.code, ERR_NOT_ALLOWED);
		ck_assert_uint_eq(stage.out.count, 0);
	}
	stage_close(&stage);
}
END_TEST

START_TEST(auth_client_without_any_proof)
{
	struct stage stage = { 0 };

	stage_open(&stage, NULL);
	ck_assert_int_eq(say(&stage, OK_BODY), AUTH_CLIENT_OK);
	ck_assert_uint_eq(stage.out.count, 0);
	ck_assert_int_eq(say(&stage, OK_BODY), AUTH_CLIENT_FAILED);
	stage_close(&stage);
}
END_TEST

START_TEST(auth_client_with_cleartext)
{
	struct stage stage = { 0 };

	stage_open(&stage, &plain);
	ck_assert_int_eq(say(&stage, bytes_of("\0\0\0\3", 4)), AUTH_CLIENT_MORE);
	ck_assert(bytes_equal(sent(&stage), bytes_of("secret\0", 7)));
	ck_assert_int_eq(say(&stage, OK_BODY), AUTH_CLIENT_OK);
	stage_close(&stage);

	stage_open(&stage, &plain);
	say(&stage, bytes_of("\0\0\0\3", 4));
	ck_assert_int_eq(say(&stage, bytes_of("\0\0\0\3", 4)), AUTH_CLIENT_FAILED); /* only once */
	ck_assert_uint_eq(stage.out.count, 0);
	stage_close(&stage);
}
END_TEST

START_TEST(auth_client_with_md5)
{
	char inner[MD5_TEXT_SIZE], answer[MD5_TEXT_SIZE];
	struct credentials stored = { .kind = SECRET_MD5, .text = inner };
	struct stage stage = { 0 };

	ck_assert(digest_md5(bytes_text("secret"), bytes_text("bo"), inner));
	ck_assert(digest_md5(bytes_of(inner + 3, 32), bytes_text("salt"), answer));
	for (int i = 0; i < 2; i++) {
		stage_open(&stage, i ? &stored : &plain);
		ck_assert_int_eq(say(&stage, bytes_of("\0\0\0\5salt", 8)), AUTH_CLIENT_MORE);
		ck_assert(bytes_equal(sent(&stage), bytes_of(answer, MD5_TEXT_SIZE)));
		ck_assert_int_eq(say(&stage, OK_BODY), AUTH_CLIENT_OK);
		stage_close(&stage);
	}
}
END_TEST

/* A server with the password "secret", implemented by the other role of scram.c. */
struct server {
	struct scram scram;
	struct scram_verifier secret;
	struct buf final; /* what proves that it knows the secret, once the client has */
};

static void server_begin(struct server *server)
{
	*server = (struct server){ 0 };
	ck_assert(scram_derive("secret", bytes_text("0123456789abcdef"), ITERATIONS,
	                       &server->secret.keys));
}

/* Up to the request after server-first. */
static enum auth_client_result server_challenges(struct server *server, struct stage *stage)
{
	struct buf first = { 0 }, message = { 0 };
	const char *mechanism;
	enum auth_client_result result;
	struct bytes data;

	ck_assert_int_eq(say(stage, SASL_BODY), AUTH_CLIENT_MORE);
	ck_assert_int_eq(fields_sasl_initial(sent(stage), &mechanism, &data), WIRE_OK);
	ck_assert_str_eq(mechanism, SCRAM_MECHANISM);
	ck_assert(scram_server_first(&server->scram, data, bytes_text("0123456789abcdef"),
	                             ITERATIONS, &first, NULL));
	message_auth(&message, AUTH_SASL_CONTINUE, buf_bytes(&first));
	result = say(stage, bytes_skip(buf_bytes(&message), FRAME_HEADER_SIZE));
	buf_free(&first);
	buf_free(&message);
	return result;
}

static enum auth_client_result work(struct stage *stage)
{
	stage->job->run(stage->job);
	stage->job->done(stage->job);
	ck_assert_int_eq(stage->call_count, 1);
	return auth_client_resume(stage->auth, &stage->out, &stage->err);
}

static bool server_believes(struct server *server, struct stage *stage)
{
	ck_assert(scram_server_read(&server->scram, sent(stage), NULL));
	return scram_server_check(&server->scram, &server->secret.keys, &server->final, NULL);
}

static enum auth_client_result server_proves(struct server *server, struct stage *stage)
{
	struct buf message = { 0 };
	enum auth_client_result result;

	message_auth(&message, AUTH_SASL_FINAL, buf_bytes(&server->final));
	result = say(stage, bytes_skip(buf_bytes(&message), FRAME_HEADER_SIZE));
	buf_free(&server->final);
	buf_free(&message);
	return result;
}

/* A complete login; returns whether a derivation was needed. */
static bool auth_client_by_scram(struct verifiers *verifiers, const struct credentials *credentials)
{
	struct stage stage = { .verifiers = verifiers };
	struct server server;
	enum auth_client_result result;
	bool had_work;

	server_begin(&server);
	stage_open(&stage, credentials);
	result = server_challenges(&server, &stage);
	had_work = result == AUTH_CLIENT_WORK;
	if (had_work)
		result = work(&stage);
	ck_assert_int_eq(result, AUTH_CLIENT_MORE);
	ck_assert(server_believes(&server, &stage));
	ck_assert_int_eq(server_proves(&server, &stage), AUTH_CLIENT_MORE);
	ck_assert_uint_eq(stage.out.count, 0);
	ck_assert_int_eq(say(&stage, OK_BODY), AUTH_CLIENT_OK);
	stage_close(&stage);
	scram_done(&server.scram);
	return had_work;
}

START_TEST(auth_client_by_scram_derives_once)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);

	ck_assert(auth_client_by_scram(verifiers, &plain));
	ck_assert(!auth_client_by_scram(verifiers, &plain));
	ck_assert_uint_eq(verifiers_count(verifiers), 1);
	verifiers_free(&verifiers);
}
END_TEST

START_TEST(auth_client_by_captured_keys)
{
	struct server server;
	struct credentials keys = { .kind = SECRET_SCRAM, .scram = &server.secret };

	server_begin(&server);
	ck_assert(!auth_client_by_scram(NULL, &keys));
}
END_TEST

START_TEST(auth_client_with_keys_elsewhere)
{
	struct server server;
	struct credentials keys = { .kind = SECRET_SCRAM, .scram = &server.secret };
	struct stage stage = { 0 };

	server_begin(&server);
	stage_open(&stage, &keys);
	ck_assert_int_eq(say(&stage, bytes_of("\0\0\0\5salt", 8)), AUTH_CLIENT_FAILED);
	ck_assert_str_eq(stage.err.text, FAILED("wrong password type"));
	stage_close(&stage);
}
END_TEST

/* Continues after client-final with these bytes. */
static void expect_after_final(struct bytes body, const char *failed)
{
	struct stage stage = { .verifiers = verifiers_new(10, NULL) };
	struct server server;

	server_begin(&server);
	stage_open(&stage, &plain);
	ck_assert_int_eq(server_challenges(&server, &stage), AUTH_CLIENT_WORK);
	ck_assert_int_eq(work(&stage), AUTH_CLIENT_MORE);
	ck_assert_int_eq(say(&stage, body), AUTH_CLIENT_FAILED);
	ck_assert_str_eq(stage.err.text, failed);
	ck_assert_uint_eq(verifiers_count(stage.verifiers), 0);
	stage_close(&stage);
	scram_done(&server.scram);
	verifiers_free(&stage.verifiers);
}

START_TEST(auth_client_wants_the_servers_proof)
{
	expect_after_final(OK_BODY, FAILED("failed to verify server signature"));
	expect_after_final(bytes_of("\0\0\0\14v=AAAA", 10),
	                   FAILED("failed to verify server signature"));
	expect_after_final(bytes_of("\0\0\0\14e=other-error", 17),
	                   FAILED("failed to verify server signature"));
	expect_after_final(bytes_of("\0\0\0\14v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", 50),
	                   FAILED("invalid server signature"));
	expect_after_final(bytes_of("\0\0\0\3", 4), FAILED("unexpected authentication request"));
}
END_TEST

START_TEST(auth_client_ok_before_the_challenge_does_not_count)
{
	struct stage stage = { 0 };

	stage_open(&stage, &plain);
	ck_assert_int_eq(say(&stage, SASL_BODY), AUTH_CLIENT_MORE);
	ck_assert_int_eq(say(&stage, OK_BODY), AUTH_CLIENT_FAILED);
	stage_close(&stage);
}
END_TEST

START_TEST(auth_client_refuses_a_bad_challenge)
{
	struct stage stage = { 0 };

	stage_open(&stage, &plain);
	ck_assert_int_eq(say(&stage, SASL_BODY), AUTH_CLIENT_MORE);
	ck_assert_int_eq(say(&stage, bytes_of("\0\0\0\13r=x,s=AAAA,i=1", 18)), AUTH_CLIENT_FAILED);
	ck_assert_str_eq(stage.err.text,
	                 FAILED("malformed SCRAM message: no valid nonce in server-first"));
	stage_close(&stage);
}
END_TEST

START_TEST(auth_client_with_a_wrong_password)
{
	struct stage stage = { .verifiers = verifiers_new(10, NULL) };
	struct server server;

	server_begin(&server);
	stage_open(&stage, &wrong);
	ck_assert_int_eq(server_challenges(&server, &stage), AUTH_CLIENT_WORK);
	ck_assert_int_eq(work(&stage), AUTH_CLIENT_MORE);
	ck_assert(!server_believes(&server, &stage));
	stage_close(&stage);
	scram_done(&server.scram);
	verifiers_free(&stage.verifiers);
}
END_TEST

START_TEST(auth_client_that_goes_while_it_works)
{
	struct stage stage = { .verifiers = verifiers_new(10, NULL) };
	struct server server;

	server_begin(&server);
	stage_open(&stage, &plain);
	ck_assert_int_eq(server_challenges(&server, &stage), AUTH_CLIENT_WORK);
	stage_close(&stage);
	stage.job->run(stage.job);
	stage.job->done(stage.job);
	ck_assert_int_eq(stage.call_count, 0);
	scram_done(&server.scram);

	server_begin(&server);
	stage.is_crowded = true;
	stage_open(&stage, &plain);
	ck_assert_int_eq(server_challenges(&server, &stage), AUTH_CLIENT_FAILED);
	ck_assert_int_eq(stage.err.reason, CLOSE_TOO_MANY_LOGINS);
	stage_close(&stage);
	scram_done(&server.scram);
	verifiers_free(&stage.verifiers);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/auth_client");
	TCase *cases = tcase_create("auth_client");

	tcase_add_loop_test(cases, auth_client_first_requests, 0, COUNT_OF(firsts));
	tcase_add_test(cases, auth_client_without_any_proof);
	tcase_add_test(cases, auth_client_with_cleartext);
	tcase_add_test(cases, auth_client_with_md5);
	tcase_add_test(cases, auth_client_by_scram_derives_once);
	tcase_add_test(cases, auth_client_by_captured_keys);
	tcase_add_test(cases, auth_client_with_keys_elsewhere);
	tcase_add_test(cases, auth_client_wants_the_servers_proof);
	tcase_add_test(cases, auth_client_ok_before_the_challenge_does_not_count);
	tcase_add_test(cases, auth_client_refuses_a_bad_challenge);
	tcase_add_test(cases, auth_client_with_a_wrong_password);
	tcase_add_test(cases, auth_client_that_goes_while_it_works);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
