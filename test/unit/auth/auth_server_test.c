/* SPDX-License-Identifier: ISC */
/*
 * auth/auth_server.c: each method with each kind of secret, with correct, wrong and
 * empty passwords and unknown users. The test runs the jobs.
 */
#include "pgweir/auth/auth_server.h"
#include "pgweir/auth/digest.h"
#include "pgweir/pgwire/fields.h"
#include "pgweir/pgwire/message.h"

#include <stdlib.h>

#include "../unit.h"

#define ITERATIONS 3

/* The state of a client. */
struct client {
	const char *password;
	struct scram scram;
	struct scram_keys made;
	char salt[64]; /* offered in SCRAM */
	bool was_offered_scram;
	bool has_checked; /* the server's signature */
};

struct stage {
	struct verifiers *verifiers;
	struct auth_server *auth;
	struct buf out;
	struct err err;
	int job_count;
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

/* A secret of each kind, for the password "secret" of the user "bo". */
static const char *secret_text(enum secret_kind kind, struct buf *out)
{
	struct scram_verifier verifier = { .made_for = { ITERATIONS, 16, "" } };
	char md5[MD5_TEXT_SIZE];

	switch (kind) {
	case SECRET_PLAIN:
		buf_add_text(out, "secret");
		break;
	case SECRET_MD5:
		ck_assert(digest_md5(bytes_text("secret"), bytes_text("bo"), md5));
		buf_add_text(out, md5);
		break;
	case SECRET_SCRAM:
		memcpy(verifier.made_for.salt, "0123456789abcdef", 16);
		ck_assert(scram_derive("secret", scram_salt(&verifier.made_for), ITERATIONS,
		                       &verifier.keys));
		scram_verifier_text(&verifier, out);
		break;
	default:
		break;
	}
	return buf_text(out);
}

static void answer_md5(struct client *client, struct bytes salt, struct buf *reply)
{
	char inner[MD5_TEXT_SIZE], outer[MD5_TEXT_SIZE];

	ck_assert(digest_md5(bytes_text(client->password), bytes_text("bo"), inner));
	ck_assert(digest_md5(bytes_of(inner + 3, 32), salt, outer));
	buf_add_cstr(reply, outer);
}

static void answer_sasl(struct client *client, struct buf *reply)
{
	struct buf first = { 0 };

	client->was_offered_scram = true;
	ck_assert(scram_client_first(&client->scram, "", &first, NULL));
	buf_add_cstr(reply, SCRAM_MECHANISM);
	buf_add_be32(reply, (uint32_t)first.count);
	buf_add(reply, first.at, first.count);
	buf_free(&first);
}

static void answer_challenge(struct client *client, struct bytes data, struct buf *reply)
{
	struct scram_challenge challenge;

	ck_assert(scram_client_read(&client->scram, data, &challenge, NULL));
	ck_assert_uint_eq(challenge.iterations, ITERATIONS);
	base64_encode(bytes_of(challenge.salt, challenge.salt_count), client->salt);
	ck_assert(scram_derive(client->password, bytes_of(challenge.salt, challenge.salt_count),
	                       challenge.iterations, &client->made));
	ck_assert(scram_client_final(&client->scram, &client->made, reply, NULL));
}

/* Reads what the server side has sent and makes the client's answer; false: nothing to answer. */
static bool client_answers(struct client *client, struct stage *stage, struct buf *reply)
{
	struct bytes in = buf_bytes(&stage->out);
	struct auth_request request;
	struct frame frame;

	if (in.count == 0)
		return false;
	ck_assert_int_eq(frame_peek(in, 10000, &frame), WIRE_OK);
	ck_assert_int_eq(frame.type, 'R');
	ck_assert_uint_eq(frame.length, in.count);
	ck_assert_int_eq(fields_auth(frame_body(in, &frame), &request), WIRE_OK);
	switch (request.kind) {
	case AUTH_CLEARTEXT:
		buf_add_cstr(reply, client->password);
		break;
	case AUTH_MD5:
		answer_md5(client, request.salt, reply);
		break;
	case AUTH_SASL:
		answer_sasl(client, reply);
		break;
	case AUTH_SASL_CONTINUE:
		answer_challenge(client, request.data, reply);
		break;
	case AUTH_SASL_FINAL:
		client->has_checked =
		    scram_client_check(&client->scram, &client->made, request.data, NULL);
		buf_clear(&stage->out);
		return false;
	default:
		ck_abort_msg("request %u", request.kind);
	}
	buf_clear(&stage->out);
	return true;
}

static enum auth_server_result work(struct stage *stage)
{
	stage->job_count++;
	stage->job->run(stage->job);
	stage->job->done(stage->job);
	ck_assert_int_eq(stage->call_count, stage->job_count);
	return auth_server_resume(stage->auth, &stage->out, &stage->err);
}

static void stage_open(struct stage *stage, enum auth_method method, const struct secret *secret)
{
	struct auth_server_who who = { .method = method,
		                       .user = "bo",
		                       .secret = secret,
		                       .iterations = ITERATIONS,
		                       .verifiers = stage->verifiers,
		                       .runner = { submit, count_call, stage } };

	stage->auth = auth_server_new(&who);
	ck_assert_ptr_nonnull(stage->auth);
}

static void stage_close(struct stage *stage)
{
	auth_server_free(&stage->auth);
	ck_assert_ptr_null(stage->auth);
	buf_free(&stage->out);
}

/* The complete exchange; it stays open for the test. */
static enum auth_server_result play(struct stage *stage, struct client *client)
{
	enum auth_server_result result = auth_server_start(stage->auth, &stage->out, &stage->err);

	for (int turn = 0; turn < 10; turn++) {
		struct buf reply = { 0 };

		if (result == AUTH_SERVER_WORK) {
			result = work(stage);
			continue;
		}
		if (client_answers(client, stage, &reply) && result == AUTH_SERVER_MORE)
			result = auth_server_answer(stage->auth, buf_bytes(&reply), &stage->out,
			                            &stage->err);
		buf_free(&reply);
		if (result == AUTH_SERVER_OK || result == AUTH_SERVER_REFUSED)
			break;
	}
	if (stage->out.count) { /* server-final is sent with AUTH_SERVER_OK */
		struct buf reply = { 0 };

		client_answers(client, stage, &reply);
		buf_free(&reply);
	}
	scram_done(&client->scram);
	return result;
}

#define NOBODY (SECRET_SCRAM + 1)
#define PASSWORD_FAILED "password authentication failed"
#define SASL_FAILED "SASL authentication failed"
#define TRUST_FAILED "\"trust\" authentication failed"
#define EMPTY "empty password returned by client"

static const struct {
	enum auth_method method;
	int secret; /* enum secret_kind, or NOBODY */
	const char *password;
	const char *refused; /* NULL: the login succeeds */
	enum err_code code;
	enum secret_kind credentials;
	int job_count;
} cases[] = {
	{ AUTH_METHOD_ANY, SECRET_PLAIN, "", NULL, 0, SECRET_PLAIN, 0 },
	{ AUTH_METHOD_ANY, NOBODY, "", NULL, 0, SECRET_NONE, 0 },
	{ AUTH_METHOD_TRUST, SECRET_PLAIN, "", NULL, 0, SECRET_PLAIN, 0 },
	{ AUTH_METHOD_TRUST, SECRET_MD5, "", NULL, 0, SECRET_MD5, 0 },
	{ AUTH_METHOD_TRUST, SECRET_SCRAM, "", NULL, 0, SECRET_NONE, 0 },
	{ AUTH_METHOD_TRUST, SECRET_NONE, "", NULL, 0, SECRET_NONE, 0 },
	{ AUTH_METHOD_TRUST, NOBODY, "", TRUST_FAILED, ERR_NOT_ALLOWED, 0, 0 },

	{ AUTH_METHOD_PLAIN, SECRET_PLAIN, "secret", NULL, 0, SECRET_PLAIN, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_PLAIN, "wrong", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_PLAIN, "", EMPTY, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_MD5, "secret", NULL, 0, SECRET_PLAIN, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_MD5, "wrong", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_MD5, "", EMPTY, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_SCRAM, "secret", NULL, 0, SECRET_PLAIN, 1 },
	{ AUTH_METHOD_PLAIN, SECRET_SCRAM, "wrong", PASSWORD_FAILED, ERR_PASSWORD, 0, 1 },
	{ AUTH_METHOD_PLAIN, SECRET_SCRAM, "", EMPTY, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_NONE, "secret", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_PLAIN, SECRET_NONE, "", EMPTY, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_PLAIN, NOBODY, "secret", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },

	{ AUTH_METHOD_MD5, SECRET_PLAIN, "secret", NULL, 0, SECRET_PLAIN, 0 },
	{ AUTH_METHOD_MD5, SECRET_PLAIN, "wrong", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_MD5, SECRET_MD5, "secret", NULL, 0, SECRET_MD5, 0 },
	{ AUTH_METHOD_MD5, SECRET_MD5, "wrong", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_MD5, SECRET_MD5, "", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_MD5, SECRET_SCRAM, "secret", NULL, 0, SECRET_SCRAM, 0 },
	{ AUTH_METHOD_MD5, SECRET_SCRAM, "wrong", SASL_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_MD5, SECRET_NONE, "", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_MD5, NOBODY, "secret", PASSWORD_FAILED, ERR_PASSWORD, 0, 0 },

	{ AUTH_METHOD_SCRAM, SECRET_PLAIN, "secret", NULL, 0, SECRET_PLAIN, 1 },
	{ AUTH_METHOD_SCRAM, SECRET_PLAIN, "wrong", SASL_FAILED, ERR_PASSWORD, 0, 1 },
	{ AUTH_METHOD_SCRAM, SECRET_PLAIN, "", SASL_FAILED, ERR_PASSWORD, 0, 1 },
	{ AUTH_METHOD_SCRAM, SECRET_MD5, "secret", SASL_FAILED, ERR_PASSWORD, 0, 1 },
	{ AUTH_METHOD_SCRAM, SECRET_SCRAM, "secret", NULL, 0, SECRET_SCRAM, 0 },
	{ AUTH_METHOD_SCRAM, SECRET_SCRAM, "wrong", SASL_FAILED, ERR_PASSWORD, 0, 0 },
	{ AUTH_METHOD_SCRAM, SECRET_NONE, "", SASL_FAILED, ERR_PASSWORD, 0, 1 },
	{ AUTH_METHOD_SCRAM, NOBODY, "secret", SASL_FAILED, ERR_PASSWORD, 0, 1 },
};

static void check_credentials(struct stage *stage, const struct client *client,
                              enum secret_kind kind)
{
	const struct credentials *credentials = auth_server_credentials(stage->auth);

	ck_assert_int_eq(credentials_kind(credentials), kind);
	if (kind == SECRET_PLAIN)
		ck_assert_str_eq(credentials->text, "secret");
	if (kind == SECRET_SCRAM)
		ck_assert_mem_eq(&credentials->scram->keys, &client->made, sizeof(client->made));
	credentials_release(&credentials);
}

START_TEST(auth_server_methods_and_secrets)
{
	struct stage stage = { .verifiers = verifiers_new(10, NULL) };
	struct client client = { .password = cases[_i].password };
	bool is_nobody = cases[_i].secret == NOBODY;
	struct buf text = { 0 };
	struct secret secret = users_secret_of(
	    is_nobody ? NULL : secret_text((enum secret_kind)cases[_i].secret, &text));
	enum auth_server_result result;

	stage_open(&stage, cases[_i].method, is_nobody ? NULL : &secret);
	result = play(&stage, &client);
	ck_assert_int_eq(result, cases[_i].refused ? AUTH_SERVER_REFUSED : AUTH_SERVER_OK);
	ck_assert_int_eq(stage.job_count, cases[_i].job_count);
	if (cases[_i].refused) {
		ck_assert_str_eq(stage.err.text, cases[_i].refused);
		ck_assert_int_eq(stage.err.code, cases[_i].code);
		ck_assert_str_ne(auth_server_reason(stage.auth), "");
		ck_assert(!client.has_checked);
	} else {
		check_credentials(&stage, &client, cases[_i].credentials);
		ck_assert_int_eq(client.has_checked, client.was_offered_scram);
	}
	stage_close(&stage);
	verifiers_free(&stage.verifiers);
	buf_free(&text);
}
END_TEST

#define PEER_FAILED "unix socket login rejected"
#define CERT_FAILED "certificate authentication failed"

/* The name of the system user with the id 0. */
static bool is_root(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "root") == 0;
}

#define NO_UID ((uid_t)-2) /* that no user has */

/* Externally authenticated names: accepted only for existing users. */
static const struct {
	enum auth_method method;
	bool is_known, is_proven;
	const char *refused; /* NULL: the login succeeds */
} proven[] = {
	{ AUTH_METHOD_PEER, true, true, NULL },
	{ AUTH_METHOD_PEER, true, false, PEER_FAILED },
	{ AUTH_METHOD_PEER, false, true, PEER_FAILED },
	{ AUTH_METHOD_PEER, false, false, PEER_FAILED },
	{ AUTH_METHOD_CERT, true, true, NULL },
	{ AUTH_METHOD_CERT, true, false, CERT_FAILED },
	{ AUTH_METHOD_CERT, false, true, CERT_FAILED },
	{ AUTH_METHOD_CERT, false, false, CERT_FAILED },
};

START_TEST(auth_server_proven_elsewhere)
{
	struct secret secret = users_secret_of("");
	struct stage stage = { 0 };
	bool is_peer = proven[_i].method == AUTH_METHOD_PEER;
	enum auth_server_result result;

	stage.auth = auth_server_new(&(struct auth_server_who){
	    .method = proven[_i].method,
	    .user = "alice",
	    .secret = proven[_i].is_known ? &secret : NULL,
	    .is_proven = !is_peer && proven[_i].is_proven,
	    .uid = proven[_i].is_proven ? 0 : NO_UID,
	    .is_named = is_root,
	    .runner = { submit, count_call, &stage },
	});
	result = auth_server_start(stage.auth, &stage.out, &stage.err);
	ck_assert_int_eq(result == AUTH_SERVER_WORK, is_peer);
	if (is_peer)
		result = work(&stage);
	ck_assert_int_eq(result, proven[_i].refused ? AUTH_SERVER_REFUSED : AUTH_SERVER_OK);
	ck_assert_str_eq(stage.err.text, proven[_i].refused ? proven[_i].refused : "");
	ck_assert_uint_eq(stage.out.count, 0);
	stage_close(&stage);
}
END_TEST

/* Runs `method` with a secret of this kind and returns the number of jobs. */
static int jobs_of(struct verifiers *verifiers, enum auth_method method, enum secret_kind kind,
                   const char *password)
{
	struct stage stage = { .verifiers = verifiers };
	struct client client = { .password = password };
	struct buf text = { 0 };
	struct secret secret = users_secret_of(secret_text(kind, &text));

	stage_open(&stage, method, &secret);
	play(&stage, &client);
	stage_close(&stage);
	buf_free(&text);
	return stage.job_count;
}

START_TEST(auth_server_derives_once)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);

	ck_assert_int_eq(jobs_of(verifiers, AUTH_METHOD_SCRAM, SECRET_PLAIN, "wrong"), 1);
	ck_assert_int_eq(jobs_of(verifiers, AUTH_METHOD_SCRAM, SECRET_PLAIN, "secret"), 0);
	ck_assert_int_eq(jobs_of(verifiers, AUTH_METHOD_PLAIN, SECRET_SCRAM, "wrong"), 1);
	ck_assert_int_eq(jobs_of(verifiers, AUTH_METHOD_PLAIN, SECRET_SCRAM, "wrong"), 1);
	ck_assert_int_eq(jobs_of(verifiers, AUTH_METHOD_PLAIN, SECRET_SCRAM, "secret"), 1);
	ck_assert_int_eq(jobs_of(verifiers, AUTH_METHOD_PLAIN, SECRET_SCRAM, "secret"), 0);
	ck_assert_uint_eq(verifiers_count(verifiers), 2);
	verifiers_free(&verifiers);
}
END_TEST

/* Runs SCRAM and returns the offered salt. */
static void offered_salt(struct verifiers *verifiers, const struct secret *secret, char out[64])
{
	struct stage stage = { .verifiers = verifiers };
	struct client client = { .password = "x" };

	stage_open(&stage, AUTH_METHOD_SCRAM, secret);
	play(&stage, &client);
	memcpy(out, client.salt, 64);
	stage_close(&stage);
}

START_TEST(auth_server_offers_stable_salts)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct secret plain = users_secret_of("secret"), other = users_secret_of("changed");
	char salts[5][64];

	offered_salt(verifiers, NULL, salts[0]);
	offered_salt(verifiers, NULL, salts[1]);
	offered_salt(verifiers, &plain, salts[2]);
	offered_salt(verifiers, &plain, salts[3]);
	offered_salt(verifiers, &other, salts[4]);
	ck_assert_str_eq(salts[0], salts[1]);
	ck_assert_str_eq(salts[2], salts[3]);
	ck_assert_str_ne(salts[0], salts[2]);
	ck_assert_str_ne(salts[2], salts[4]);
	verifiers_free(&verifiers);
}
END_TEST

static const struct {
	const char *says;
	enum auth_method method;
	struct bytes body;
	const char *text;
	const char *reason;
} broken[] = {
	{ "no zero",
	  AUTH_METHOD_PLAIN,
	  { "secret", 6 },
	  "invalid password packet",
	  "malformed password packet" },
	{ "two texts",
	  AUTH_METHOD_MD5,
	  { "a\0b\0", 4 },
	  "invalid password packet",
	  "malformed password packet" },
	{ "no SASLInitialResponse",
	  AUTH_METHOD_SCRAM,
	  { "secret\0", 7 },
	  SASL_FAILED,
	  "malformed SASLInitialResponse" },
	{ "another mechanism",
	  AUTH_METHOD_SCRAM,
	  { "PLAIN\0\0\0\0\1x", 11 },
	  "client selected an invalid SASL authentication mechanism",
	  "invalid SASL mechanism" },
	{ "no initial data",
	  AUTH_METHOD_SCRAM,
	  { "SCRAM-SHA-256\0\377\377\377\377", 18 },
	  SASL_FAILED,
	  "malformed SASLInitialResponse" },
	{ "channel binding",
	  AUTH_METHOD_SCRAM,
	  { "SCRAM-SHA-256\0\0\0\0\40p=tls-server-end-point,,n=,r=abc", 50 },
	  SASL_FAILED,
	  "client requests channel binding, but has not chosen SCRAM-SHA-256-PLUS" },
};

START_TEST(auth_server_broken_messages)
{
	struct stage stage = { .verifiers = verifiers_new(10, NULL) };
	struct secret secret = users_secret_of("secret");

	stage_open(&stage, broken[_i].method, &secret);
	ck_assert_int_eq(auth_server_start(stage.auth, &stage.out, &stage.err), AUTH_SERVER_MORE);
	ck_assert_int_eq(auth_server_answer(stage.auth, broken[_i].body, &stage.out, &stage.err),
	                 AUTH_SERVER_REFUSED);
	ck_assert_str_eq(stage.err.text, broken[_i].text);
	ck_assert_int_eq(stage.err.code, ERR_PROTOCOL);
	ck_assert_str_eq(auth_server_reason(stage.auth), broken[_i].reason);
	stage_close(&stage);
	verifiers_free(&stage.verifiers);
}
END_TEST

/* A client that sends while its keys are derived, or before the request. */
START_TEST(auth_server_unexpected_messages)
{
	struct stage stage = { .verifiers = verifiers_new(10, NULL) };
	struct buf text = { 0 };
	struct secret secret = users_secret_of(secret_text(SECRET_SCRAM, &text));

	stage_open(&stage, AUTH_METHOD_PLAIN, &secret);
	auth_server_start(stage.auth, &stage.out, &stage.err);
	ck_assert_int_eq(
	    auth_server_answer(stage.auth, bytes_of("secret\0", 7), &stage.out, &stage.err),
	    AUTH_SERVER_WORK);
	ck_assert_int_eq(
	    auth_server_answer(stage.auth, bytes_of("secret\0", 7), &stage.out, &stage.err),
	    AUTH_SERVER_REFUSED);
	stage_close(&stage);
	ck_assert(stage.job->is_abandoned);
	stage.job->done(stage.job);
	ck_assert_int_eq(stage.call_count, 0);

	stage_open(&stage, AUTH_METHOD_PLAIN, &secret);
	ck_assert_int_eq(
	    auth_server_answer(stage.auth, bytes_of("secret\0", 7), &stage.out, &stage.err),
	    AUTH_SERVER_REFUSED);
	stage_close(&stage);
	verifiers_free(&stage.verifiers);
	buf_free(&text);
}
END_TEST

START_TEST(auth_server_whose_job_is_refused)
{
	struct stage stage = { .verifiers = verifiers_new(10, NULL), .is_crowded = true };
	struct buf text = { 0 };
	struct secret secret = users_secret_of(secret_text(SECRET_SCRAM, &text));

	stage_open(&stage, AUTH_METHOD_PLAIN, &secret);
	auth_server_start(stage.auth, &stage.out, &stage.err);
	ck_assert_int_eq(
	    auth_server_answer(stage.auth, bytes_of("secret\0", 7), &stage.out, &stage.err),
	    AUTH_SERVER_BUSY);
	stage_close(&stage);
	verifiers_free(&stage.verifiers);
	buf_free(&text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/auth_server");
	TCase *tests = tcase_create("auth_server");

	tcase_add_loop_test(tests, auth_server_methods_and_secrets, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, auth_server_proven_elsewhere, 0, COUNT_OF(proven));
	tcase_add_test(tests, auth_server_derives_once);
	tcase_add_test(tests, auth_server_offers_stable_salts);
	tcase_add_loop_test(tests, auth_server_broken_messages, 0, COUNT_OF(broken));
	tcase_add_test(tests, auth_server_unexpected_messages);
	tcase_add_test(tests, auth_server_whose_job_is_refused);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
