/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing logins, both roles: a client authenticates to us, and we to a server.
 * Keys are derived synchronously here, not in a helper thread.
 *
 * The first byte of the input chooses role, method and secret. The rest are messages,
 * each after its length in two bytes. A '+' in a message is replaced by the last nonce
 * that was sent, which no fuzzer can guess.
 *
 * No login may succeed by chance: AUTH_SERVER_OK with a method that requires authentication is
 * a failure, and so is AUTH_CLIENT_OK with a server without a valid SCRAM signature.
 */
#include "pgweir/auth/auth_server.h"
#include "pgweir/auth/auth_client.h"

#include <assert.h>
#include <string.h>

#include "pgweir/loop/workers.h"
#include "pgweir/pgwire/fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SCRAM_SECRET                                    \
	"SCRAM-SHA-256$4:MDEyMzQ1Njc4OWFiY2RlZg==$"     \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:" \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

static const struct secret secrets[] = {
	{ SECRET_PLAIN, "a long secret that nobody guesses: 5cT0pOhrTqx2" },
	{ SECRET_MD5, "md5ed2bc54e6e4dea5b8b2b53cc65e1ad24" },
	{ SECRET_SCRAM, SCRAM_SECRET },
};

#define SECRET_COUNT (sizeof(secrets) / sizeof(secrets[0]))
#define DIGITS_MAX 4 /* digits of the iteration count: more would only be slow */

/* The work of one exchange. */
struct bench {
	struct job *job;
	bool is_done;
};

static void on_work(void *arg) { ((struct bench *)arg)->is_done = true; }

static bool is_named(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "somebody") == 0;
}

static bool submit(void *arg, struct job *job, bool is_slow)
{
	(void)is_slow;
	((struct bench *)arg)->job = job;
	return true;
}

/* What a helper thread and the loop would do. */
static void run_job(struct bench *bench)
{
	bench->is_done = false;
	bench->job->run(bench->job);
	bench->job->done(bench->job);
	assert(bench->is_done);
}

/* The nonce in our last message, or nothing. */
static struct bytes nonce_in(struct bytes said)
{
	for (size_t at = said.count; at >= 2; at--) {
		const char *begin = said.at + at;
		const char *end = said.at + said.count, *comma;

		if (begin[-2] != 'r' || begin[-1] != '=')
			continue;
		comma = memchr(begin, ',', (size_t)(end - begin));
		return bytes_of(begin, (size_t)((comma ? comma : end) - begin));
	}
	return (struct bytes){ 0 };
}

/* The next complete message. false: there is none, or it would take too long. */
static bool next_message(struct bytes *in, struct bytes said, struct buf *message)
{
	struct bytes nonce = nonce_in(said);
	unsigned int digits = 0;
	size_t count;

	buf_clear(message);
	if (in->count < 2)
		return false;
	count = load_be16(in->at);
	*in = bytes_skip(*in, 2);
	for (; count && in->count; count--, *in = bytes_skip(*in, 1)) {
		digits = *in->at >= '0' && *in->at <= '9' ? digits + 1 : 0;
		if (digits > DIGITS_MAX)
			return false;
		if (*in->at == '+')
			buf_add(message, nonce.at, nonce.count);
		else
			buf_add_byte(message, *in->at);
	}
	return true;
}

/* The methods that need nothing but the exchange. */
static const enum auth_method methods[] = {
	AUTH_METHOD_TRUST, AUTH_METHOD_ANY,  AUTH_METHOD_PLAIN, AUTH_METHOD_MD5,
	AUTH_METHOD_SCRAM, AUTH_METHOD_PEER, AUTH_METHOD_CERT,
};

#define METHOD_COUNT (sizeof(methods) / sizeof(methods[0]))

static void enter(struct bytes in, unsigned int choice, struct verifiers *verifiers)
{
	enum auth_method method = methods[choice % METHOD_COUNT];
	bool asks =
	    method == AUTH_METHOD_PLAIN || method == AUTH_METHOD_MD5 || method == AUTH_METHOD_SCRAM;
	struct bench bench = { 0 };
	size_t secret = choice / METHOD_COUNT % (SECRET_COUNT + 1);
	struct buf out = { 0 }, message = { 0 };
	enum auth_server_result result;
	struct err err;
	struct auth_server *auth = auth_server_new(&(struct auth_server_who){
	    .method = method,
	    .user = "somebody",
	    .secret = secret < SECRET_COUNT ? &secrets[secret] : NULL,
	    .iterations = 2,
	    .is_named = is_named,
	    .verifiers = verifiers,
	    .runner = { submit, on_work, &bench },
	});

	result = auth_server_start(auth, &out, &err);
	if (result == AUTH_SERVER_WORK) {
		run_job(&bench);
		result = auth_server_resume(auth, &out, &err);
	}
	while (result == AUTH_SERVER_MORE && next_message(&in, buf_bytes(&out), &message)) {
		buf_clear(&out);
		result = auth_server_answer(auth, buf_bytes(&message), &out, &err);
		while (result == AUTH_SERVER_WORK) {
			run_job(&bench);
			result = auth_server_resume(auth, &out, &err);
		}
	}
	assert(result != AUTH_SERVER_OK || !asks);
	assert(result != AUTH_SERVER_REFUSED || auth_server_reason(auth));
	auth_server_free(&auth);
	buf_free(&out);
	buf_free(&message);
}

static bool begins_sasl(const struct buf *message)
{
	return message->count >= 4 && load_be32(message->at) == AUTH_SASL;
}

static void log_in(struct bytes in, unsigned int choice, struct verifiers *verifiers)
{
	struct scram_verifier scram = { .keys = { { 1 }, { 2 }, { 3 } } };
	struct credentials credentials[] = {
		{ .kind = SECRET_NONE },
		{ .kind = SECRET_PLAIN, .text = secrets[0].text },
		{ .kind = SECRET_MD5, .text = secrets[1].text },
		{ .kind = SECRET_SCRAM, .scram = &scram },
	};
	bool is_scram = false;
	struct bench bench = { 0 };
	struct buf out = { 0 }, message = { 0 };
	enum auth_client_result result = AUTH_CLIENT_MORE;
	struct err err;
	struct auth_client *login = auth_client_new(&(struct auth_client_who){
	    .user = "somebody",
	    .credentials = &credentials[choice % 4],
	    .verifiers = verifiers,
	    .runner = { submit, on_work, &bench },
	});

	while (result == AUTH_CLIENT_MORE && next_message(&in, buf_bytes(&out), &message)) {
		is_scram = is_scram || begins_sasl(&message);
		buf_clear(&out);
		result = auth_client_answer(login, buf_bytes(&message), &out, &err);
		while (result == AUTH_CLIENT_WORK) {
			run_job(&bench);
			result = auth_client_resume(login, &out, &err);
		}
	}
	assert(result != AUTH_CLIENT_OK || !is_scram);
	auth_client_free(&login);
	buf_free(&out);
	buf_free(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct verifiers *verifiers = verifiers_new(10, NULL);
	struct bytes in = bytes_of(data, size);

	if (size) {
		unsigned int choice = data[0];

		if (choice & 1)
			enter(bytes_skip(in, 1), choice >> 1, verifiers);
		else
			log_in(bytes_skip(in, 1), choice >> 1, verifiers);
	}
	verifiers_free(&verifiers);
	return 0;
}
