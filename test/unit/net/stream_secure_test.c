/* SPDX-License-Identifier: ISC */
/*
 * net/stream_secure.c and what is below it: two encrypted streams, and between
 * them a wire controlled by the test, which forwards in pieces of any size. All of it with
 * OpenSSL's record layer, with ours, and with one of each kind.
 */
#include "pgweir/net/stream.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ERR_STATE OPENSSL_ERR_STATE
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

#include "pgweir/base/buf.h"
#include "pgweir/loop/workers.h"
#include "pgweir/net/tls.h"

#include "../unit.h"
#include "../../../src/net/tls_priv.h"

#define TURNS_MAX 2000000

struct end {
	struct stream stream;
	int far; /* the wire's end of the pair */
	struct buf got;
	bool is_secured, has_failed, has_ended;
	char why[ERR_TEXT_SIZE];
};

struct stage {
	struct loop *loop;
	struct workers *handshakes;
	struct stream_pool pool;
	struct task task;
	struct tls_context *accepts, *connects;
	struct end here, there;
	size_t cut;  /* bytes that the wire forwards at once */
	size_t left; /* and in total */
	size_t carried[2];
	unsigned int turns;
	bool (*is_done)(struct stage *stage);
};

static unsigned int own_roles; /* 1 << role: has our record layer with TLS 1.3 */

static char folder[] = "/tmp/pgweir-secure-XXXXXX";
static char cert_path[64], key_path[64];

/* ---- a certificate ---- */

static void make_certificate(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	X509_NAME *name = X509_get_subject_name(certificate);
	FILE *file;

	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(cert_path, sizeof(cert_path), "%s/crt", folder);
	snprintf(key_path, sizeof(key_path), "%s/key", folder);
	X509_set_version(certificate, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), -1000);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 100000);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"db.example",
	                           -1, -1, 0);
	X509_set_issuer_name(certificate, name);
	X509_set_pubkey(certificate, key);
	ck_assert_int_gt(X509_sign(certificate, key, EVP_sha256()), 0);
	file = fopen(cert_path, "we");
	ck_assert_int_eq(PEM_write_X509(file, certificate), 1);
	fclose(file);
	file = fopen(key_path, "we");
	ck_assert_int_eq(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

static void drop_certificate(void)
{
	unlink(cert_path);
	unlink(key_path);
	rmdir(folder);
}

/* ---- the ends ---- */

static void on_input(struct stream *stream)
{
	struct end *end = (struct end *)stream;
	enum stream_result result;
	struct bytes in;

	do {
		result = stream_read(stream, &in);
		if (result == STREAM_END) {
			end->has_ended = true;
			stream_want(stream, WANT_NOTHING);
		} else if (result != STREAM_NOTHING) {
			buf_add(&end->got, in.at, in.count);
		}
	} while (result == STREAM_DATA);
}

static void on_flushed(struct stream *stream) { (void)stream; }

static void on_gone(struct stream *stream) { ((struct end *)stream)->has_ended = true; }

static void on_secured(struct stream *stream, const struct err *err)
{
	struct end *end = (struct end *)stream;
	struct bytes kept;

	ck_assert(!end->is_secured && !end->has_failed);
	end->is_secured = !err;
	end->has_failed = err != NULL;
	if (err) {
		snprintf(end->why, sizeof(end->why), "%s", err->text);
		return;
	}
	kept = stream_kept(stream);
	buf_add(&end->got, kept.at, kept.count);
	stream_keep(stream, (struct bytes){ 0 });
	stream_want(stream, WANT_INPUT);
}

static const struct stream_ops ops = { on_input, on_flushed, on_gone, on_secured };

/* ---- the wire ---- */

/* Forwards data from one side to the other in small pieces, and the end. */
static void carry(struct stage *stage, struct end *from, struct end *to, size_t *carried)
{
	size_t most = stage->cut < stage->left ? stage->cut : stage->left;
	char piece[65536];
	ssize_t done = 0;

	if (from->far < 0 || to->far < 0)
		return;
	if (most > sizeof(piece))
		most = sizeof(piece);
	if (most) {
		done = recv(from->far, piece, most, MSG_PEEK);
		if (done < 0)
			return;
		done = done ? send(to->far, piece, (size_t)done, MSG_NOSIGNAL) : 0;
		if (done < 0)
			return; /* full: later */
	}
	if (done == 0) {
		shutdown(to->far, SHUT_WR);
		return;
	}
	recv(from->far, piece, (size_t)done, 0);
	stage->left -= (size_t)done;
	*carried += (size_t)done;
}

static void turn(struct task *task)
{
	struct stage *stage = (struct stage *)((char *)task - offsetof(struct stage, task));

	carry(stage, &stage->here, &stage->there, &stage->carried[0]);
	carry(stage, &stage->there, &stage->here, &stage->carried[1]);
	if (stage->is_done(stage) || ++stage->turns > TURNS_MAX)
		loop_stop(stage->loop);
	else
		loop_defer(stage->loop, task);
}

static void run_until(struct stage *stage, bool (*is_done)(struct stage *stage))
{
	stage->is_done = is_done;
	stage->turns = 0;
	loop_defer(stage->loop, &stage->task);
	loop_run(stage->loop);
	ck_assert_uint_le(stage->turns, TURNS_MAX);
}

static struct tls_context *make_context(enum tls_role role, const char *protocols)
{
	struct err err;
	struct tls_context *context = tls_context_new(
	    &(struct tls_options){ .role = role,
	                           .prefix = "own",
	                           .has_own_records = own_roles & (1u << role),
	                           .protocols = protocols,
	                           .cert_file = role == TLS_ACCEPTS ? cert_path : "",
	                           .key_file = role == TLS_ACCEPTS ? key_path : "" },
	    &err);

	ck_assert_msg(context != NULL, "%s", context ? "" : err.text);
	return context;
}

static void open_end(struct stage *stage, struct end *end)
{
	int pair[2];

	*end = (struct end){ .far = -1 };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	stream_open(&end->stream, stage->loop, &stage->pool, pair[0], &ops);
	end->far = pair[1];
}

static void make(struct stage *stage, size_t cut, const char *protocols)
{
	struct err err;

	*stage = (struct stage){ .task.run = turn, .cut = cut, .left = SIZE_MAX };
	stage->loop = loop_new(&err);
	stage->handshakes = workers_new(2, UINT_MAX, &err);
	stream_pool_init(&stage->pool, 4096);
	stage->pool.handshakes = stage->handshakes;
	stage->accepts = make_context(TLS_ACCEPTS, protocols);
	stage->connects = make_context(TLS_CONNECTS, protocols);
	open_end(stage, &stage->here);
	open_end(stage, &stage->there);
}

static void begin(struct stage *stage)
{
	struct err err;

	ck_assert(
	    stream_secure(&stage->here.stream, stage->accepts, NULL, (struct bytes){ 0 }, &err));
	ck_assert(stream_secure(&stage->there.stream, stage->connects, "db.example",
	                        (struct bytes){ 0 }, &err));
	ck_assert(stream_is_shaking(&stage->here.stream));
	ck_assert(!stream_is_encrypted(&stage->here.stream));
}

static bool both_secured(struct stage *stage)
{
	return stage->here.is_secured && stage->there.is_secured;
}

static void close_end(struct end *end)
{
	stream_close(&end->stream);
	if (end->far >= 0)
		close(end->far);
	end->far = -1;
	buf_free(&end->got);
}

static void done(struct stage *stage)
{
	close_end(&stage->here);
	close_end(&stage->there);
	loop_undefer(stage->loop, &stage->task);
	workers_free(&stage->handshakes);
	ck_assert_uint_eq(stage->pool.buffers.used_count, 0);
	stream_pool_done(&stage->pool);
	tls_context_unref(&stage->accepts);
	tls_context_unref(&stage->connects);
	loop_free(&stage->loop);
}

/* ---- the handshake ---- */

static const struct {
	size_t cut;
	const char *protocols;
} cuts[] = {
	{ 1, "tlsv1.3" },   { 2, "tlsv1.2" },   { 7, "secure" },
	{ 100, "tlsv1.2" }, { 517, "tlsv1.3" }, { 65536, "secure" },
};

START_TEST(secure_handshake_in_pieces)
{
	unsigned char ours[TLS_BINDING_MAX], theirs[TLS_BINDING_MAX];
	char text[TLS_TEXT_SIZE], *peer;
	struct stage stage;
	const char *name;

	make(&stage, cuts[_i % (int)COUNT_OF(cuts)].cut, cuts[_i % (int)COUNT_OF(cuts)].protocols);
	begin(&stage);
	run_until(&stage, both_secured);
	ck_assert(stream_is_encrypted(&stage.here.stream));
	ck_assert(strncmp(tls_text(&stage.here.stream, text, sizeof(text)), "TLSv1.", 6) == 0);
	ck_assert_str_eq(tls_records_text(&stage.here.stream),
	                 (own_roles & 1u << TLS_ACCEPTS) && strncmp(text, "TLSv1.3", 7) == 0
	                     ? "own"
	                     : "openssl");
	ck_assert_uint_eq(tls_agreed_protocol(&stage.there.stream, &name), 10);
	ck_assert_mem_eq(name, "postgresql", 10);
	/* Both report the same server certificate. */
	ck_assert_uint_eq(tls_channel_binding(&stage.here.stream, ours), 32);
	ck_assert_uint_eq(tls_channel_binding(&stage.there.stream, theirs), 32);
	ck_assert_mem_eq(ours, theirs, 32);
	/* It was not verified, so it identifies no user. */
	ck_assert(!tls_peer_name(&stage.there.stream, &peer));
	ck_assert(!tls_peer_name(&stage.here.stream, &peer));
	done(&stage);
}
END_TEST

static unsigned int hello_count;

static void count_hellos(const SSL *ssl, int where, int result)
{
	(void)result;
	if (where == SSL_CB_ACCEPT_LOOP && SSL_get_state(ssl) == TLS_ST_SR_CLNT_HELLO)
		hello_count++;
}

/* PostgreSQL before 18 has this group only: its key comes with the first ClientHello. */
START_TEST(secure_servers_need_not_ask_for_another_group)
{
	struct stage stage;

	hello_count = 0;
	make(&stage, 65536, "tlsv1.3");
	SSL_CTX_set1_groups_list(stage.accepts->library, "prime256v1");
	SSL_CTX_set_info_callback(stage.accepts->library, count_hellos);
	begin(&stage);
	run_until(&stage, both_secured);
	ck_assert_uint_eq(hello_count, 1);
	done(&stage);
}
END_TEST

/*
 * Where each step ran: helper threads do what may need much time, even if the peer's certificate is
 * asked for, but does not come. The last step, with its Finished alone, is the loop's.
 */
static pthread_t loop_thread;
static unsigned int hellos_of[2], finished_of[2], keys_of[2]; /* on a helper thread; on the loop */

static void count_steps(const SSL *ssl, int where, int result)
{
	bool is_loop = pthread_equal(pthread_self(), loop_thread);
	OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);

	(void)result;
	if (where != SSL_CB_ACCEPT_LOOP)
		return;
	hellos_of[is_loop] += state == TLS_ST_SR_CLNT_HELLO;
	keys_of[is_loop] += state == TLS_ST_SR_KEY_EXCH;
	finished_of[is_loop] += state == TLS_ST_SR_FINISHED;
}

static const struct {
	const char *protocols, *group;
	int verify;
	unsigned int hellos, keys;
	bool is_last_cheap;
} steps[] = {
	{ "tlsv1.3", "prime256v1", SSL_VERIFY_NONE, 1, 0, true },
	/* another ClientHello is asked for */
	{ "tlsv1.3", "P-384", SSL_VERIFY_NONE, 2, 0, true },
	{ "tlsv1.3", "prime256v1", SSL_VERIFY_PEER, 1, 0, false },
	{ "tlsv1.3", "P-384", SSL_VERIFY_PEER, 2, 0, false },
	{ "tlsv1.2", "prime256v1", SSL_VERIFY_NONE, 1, 1, false },
};

START_TEST(secure_only_the_cheap_step_is_for_the_loop)
{
	struct stage stage;

	loop_thread = pthread_self();
	memset(hellos_of, 0, sizeof(hellos_of));
	memset(finished_of, 0, sizeof(finished_of));
	memset(keys_of, 0, sizeof(keys_of));
	make(&stage, 65536, steps[_i].protocols);
	SSL_CTX_set1_groups_list(stage.accepts->library, steps[_i].group);
	SSL_CTX_set_verify(stage.accepts->library, steps[_i].verify, NULL);
	SSL_CTX_set_info_callback(stage.accepts->library, count_steps);
	begin(&stage);
	run_until(&stage, both_secured);
	ck_assert_uint_eq(hellos_of[false], steps[_i].hellos);
	ck_assert_uint_eq(hellos_of[true], 0);
	ck_assert_uint_eq(keys_of[false], steps[_i].keys);
	ck_assert_uint_eq(keys_of[true], 0);
	ck_assert_uint_eq(finished_of[steps[_i].is_last_cheap], 1);
	ck_assert_uint_eq(finished_of[!steps[_i].is_last_cheap], 0);
	done(&stage);
}
END_TEST

static bool one_failed(struct stage *stage) { return stage->here.has_failed; }

/* The wire ends after this many bytes of the ClientHello. */
START_TEST(secure_far_end_goes_amid_the_handshake)
{
	struct stage stage;

	make(&stage, 65536, "secure");
	stage.left = (size_t)_i * 13;
	begin(&stage);
	run_until(&stage, one_failed);
	ck_assert_str_eq(stage.here.why, "closed during the TLS handshake");
	done(&stage);
}
END_TEST

static unsigned int turns_wanted;

static bool have_turned(struct stage *stage) { return stage->turns >= turns_wanted; }

/* A helper thread may be using it: no use after free, and no leak. */
START_TEST(secure_close_amid_the_handshake)
{
	struct stage stage;

	for (unsigned int turns = 0; turns < 40; turns++) {
		make(&stage, 65536, "secure");
		begin(&stage);
		turns_wanted = turns * turns;
		if (turns % 2)
			run_until(&stage, have_turned);
		stream_close(&stage.there.stream);
		stream_close(&stage.here.stream);
		done(&stage);
	}
}
END_TEST

START_TEST(secure_noise_is_no_handshake)
{
	static const char *const noises[] = { "GET / HTTP/1.0\r\n\r\n", "\x17\x03\x03\xff\xff" };
	struct stage stage;
	struct err err;

	make(&stage, 65536, "secure");
	ck_assert(
	    stream_secure(&stage.here.stream, stage.accepts, NULL, bytes_text(noises[_i]), &err));
	run_until(&stage, one_failed);
	ck_assert(strncmp(stage.here.why, "TLS handshake failed: ", 22) == 0);
	done(&stage);
}
END_TEST

static char plain[1000000], came[sizeof(plain)];
static size_t came_count;

static bool plain_came(struct stage *stage)
{
	ssize_t done = recv(stage->here.far, came + came_count, sizeof(came) - came_count, 0);

	if (done > 0)
		came_count += (size_t)done;
	return came_count == sizeof(came);
}

/* The 'S' that a client waits for, with a full socket. */
START_TEST(secure_what_is_unsent_goes_first)
{
	struct stage stage;
	struct err err;

	make(&stage, 65536, "secure");
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (char)(i * 7 + i / 251);
	ck_assert(stream_send(&stage.here.stream, bytes_of(plain, sizeof(plain))));
	ck_assert_uint_gt(stream_unsent(&stage.here.stream), 0);
	ck_assert(
	    stream_secure(&stage.here.stream, stage.accepts, NULL, (struct bytes){ 0 }, &err));
	close(stage.there.far);
	stage.there.far = -1; /* nothing is carried */
	came_count = 0;
	run_until(&stage, plain_came);
	ck_assert_mem_eq(came, plain, sizeof(plain));
	done(&stage);
}
END_TEST

START_TEST(secure_nothing_is_sent_in_plain_meanwhile)
{
	struct stage stage;

	make(&stage, 65536, "secure");
	begin(&stage);
	ck_assert(!stream_send(&stage.here.stream, bytes_text("a secret")));
	ck_assert_uint_eq(stream_unsent(&stage.here.stream), 0);
	done(&stage);
}
END_TEST

/* ---- bytes ---- */

static size_t expected;

static bool all_came(struct stage *stage) { return stage->here.got.count >= expected; }
static size_t partial;
static bool all_came_back(struct stage *stage) { return stage->there.got.count >= 8 * expected; }
static bool there_has_ended(struct stage *stage) { return stage->there.has_ended; }

static void fill(char *out, size_t count)
{
	for (size_t i = 0; i < count; i++)
		out[i] = (char)(i * 2654435761u >> 13);
}

static const struct {
	size_t count; /* bytes that are sent */
	size_t piece; /* in pieces of this size */
	size_t cut;
} loads[] = {
	{ 1, 1, 1 },
	{ 300, 7, 1 },
	{ 5000, 5000, 3 },
	{ 16384, 16384, 100 },
	{ 16385, 16385, 1000 },
	{ 40000, 333, 65536 },
	{ 3000000, 100000, 65536 },
	{ 1000000, 65536, 1460 },
};

START_TEST(secure_carries_all)
{
	char *sent = malloc(loads[_i].count);
	struct stage stage;

	make(&stage, loads[_i].cut, "secure");
	begin(&stage);
	run_until(&stage, both_secured);
	fill(sent, loads[_i].count);
	for (size_t at = 0; at < loads[_i].count; at += loads[_i].piece) {
		size_t left = loads[_i].count - at;

		ck_assert(stream_send(
		    &stage.there.stream,
		    bytes_of(sent + at, left < loads[_i].piece ? left : loads[_i].piece)));
	}
	expected = loads[_i].count;
	run_until(&stage, all_came);
	ck_assert_uint_eq(stage.here.got.count, expected);
	ck_assert_mem_eq(stage.here.got.at, sent, expected);
	free(sent);
	done(&stage);
}
END_TEST

/* Many small pieces form one record, and a long one the minimum number of records. */
START_TEST(secure_gathers_pieces)
{
	static char text[40000];
	struct iovec pieces[100];
	struct stage stage;
	char wire[65536];
	ssize_t count;
	size_t records = 0;

	make(&stage, 65536, "secure");
	begin(&stage);
	run_until(&stage, both_secured);
	for (size_t i = 0; i < COUNT_OF(pieces); i++)
		pieces[i] = (struct iovec){ text + i, 100 };
	ck_assert(stream_sendv(&stage.there.stream, pieces, COUNT_OF(pieces)));
	pieces[0] = (struct iovec){ text, 10 };
	pieces[1] = (struct iovec){ text, sizeof(text) };
	ck_assert(stream_sendv(&stage.there.stream, pieces, 2));
	count = recv(stage.there.far, wire, sizeof(wire), MSG_PEEK);
	for (ssize_t at = 0; at < count; records++)
		at += 5 + (((unsigned char)wire[at + 3] << 8) | (unsigned char)wire[at + 4]);
	ck_assert_uint_eq(records, 1 + 3);
	expected = 10000 + 10 + sizeof(text);
	run_until(&stage, all_came);
	done(&stage);
}
END_TEST

static bool here_ended(struct stage *stage) { return stage->here.has_ended; }

START_TEST(secure_good_bye_is_the_end)
{
	struct stage stage;

	make(&stage, 65536, "secure");
	begin(&stage);
	run_until(&stage, both_secured);
	ck_assert(stream_send(&stage.there.stream, bytes_text("last words")));
	stream_close(&stage.there.stream);
	run_until(&stage, here_ended);
	ck_assert_uint_eq(stage.here.got.count, 10);
	ck_assert_int_eq(stage.here.stream.error, 0);
	done(&stage);
}
END_TEST

START_TEST(secure_broken_record_is_the_end)
{
	struct stage stage;

	make(&stage, 65536, "secure");
	begin(&stage);
	run_until(&stage, both_secured);
	ck_assert_int_eq(send(stage.here.far,
	                      "\x17\x03\x03\0\x20"
	                      "0123456789abcdef0123456789abcdef",
	                      37, 0),
	                 37);
	run_until(&stage, here_ended);
	ck_assert_int_ne(stage.here.stream.error, 0);
	ck_assert_uint_eq(stage.here.got.count, 0);
	done(&stage);
}
END_TEST

/* ---- sets ---- */

/* Puts a key update into the engine's output, as if the far end had asked for it. */
static void update_keys(struct tls *tls, struct buf *wire)
{
	if (tls_is_own(tls)) {
		struct tls_keyed keyed = { 0 };

		ck_assert(tls_records_update(&tls->records, &keyed, false, wire));
		tls_keyed_done(&keyed);
		if (tls->slot)
			tls->slot->keyed.out.is_keyed = false;
		return;
	}
	tls->engine->in = (struct bytes){ 0 };
	tls->engine->out = wire;
	ck_assert_int_eq(SSL_key_update(tls->engine->ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
	ck_assert_int_eq(SSL_do_handshake(tls->engine->ssl), 1);
	tls->engine->out = NULL;
}

/* Many key updates: the connection is closed at the limit. */
START_TEST(secure_key_updates_are_limited)
{
	struct buf wire = { 0 };
	struct stage stage;

	make(&stage, 65536, "secure");
	begin(&stage);
	run_until(&stage, both_secured);
	for (int i = 0; i < 1000; i++)
		update_keys(stage.there.stream.tls, &wire);
	ck_assert_int_eq(send(stage.here.far, wire.at, wire.count, 0), (ssize_t)wire.count);
	run_until(&stage, here_ended);
	ck_assert_uint_eq(stage.here.stream.tls->records.update_count, TLS_UPDATES_MAX + 1);
	ck_assert_int_eq(stream_tls_fault(&stage.here.stream), CLOSE_TLS_KEY_UPDATES);
	ck_assert_uint_eq(stage.here.got.count, 0);
	buf_free(&wire);
	done(&stage);
}
END_TEST

/* With data between them, the number of key updates is not limited. */
START_TEST(secure_key_updates_with_data)
{
	static char data[TLS_UPDATE_BYTES];
	struct buf wire = { 0 };
	struct stage stage;
	struct tls *tls;

	make(&stage, 65536, "secure");
	begin(&stage);
	run_until(&stage, both_secured);
	tls = stage.there.stream.tls;
	for (size_t i = 1; i <= 2 * TLS_UPDATES_MAX; i++) {
		update_keys(tls, &wire);
		ck_assert(tls_seal(tls, bytes_of(data, sizeof(data)), &wire));
		ck_assert_int_eq(send(stage.here.far, wire.at, wire.count, 0), (ssize_t)wire.count);
		buf_clear(&wire);
		expected = i * sizeof(data);
		run_until(&stage, all_came);
	}
	ck_assert(!stage.here.has_ended);
	ck_assert_uint_le(stage.here.stream.tls->records.update_count, 1);
	buf_free(&wire);
	done(&stage);

	*(tls = calloc(1, sizeof(*tls))) = (struct tls){ .records.update_count = 5 };
	tls_forgive_updates(tls, 2 * TLS_UPDATE_PERIOD);
	ck_assert_uint_eq(tls->records.update_count, 3);
	tls_forgive_updates(tls, 2 * TLS_UPDATE_PERIOD + 1);
	ck_assert_uint_eq(tls->records.update_count, 3);
	tls_forgive_updates(tls, 60 * TLS_UPDATE_PERIOD);
	ck_assert_uint_eq(tls->records.update_count, 0);
	free(tls);
}
END_TEST

/* Moves an end to another loop. The wire and the other end stay. */
static void move(struct end *end, struct loop *loop, struct stream_pool *pool)
{
	const struct tls_slots *slots = end->stream.pool->tls_slots;
	struct stream_parcel parcel;

	ck_assert(stream_detach(&end->stream, &parcel));
	ck_assert_ptr_nonnull(parcel.tls);
	ck_assert_ptr_null(parcel.tls->slot);
	for (size_t i = 0; i < TLS_SLOTS; i++)
		ck_assert_ptr_ne(slots->slots[i].tls, parcel.tls);
	ck_assert(stream_attach(&end->stream, loop, pool, &parcel, &ops));
	ck_assert(stream_is_encrypted(&end->stream));
	stream_want(&end->stream, WANT_INPUT);
}

static bool a_part_came(struct stage *stage) { return stage->carried[1] >= partial; }

/* There and back, each time with a part of a record in the engine. */
START_TEST(secure_moves_to_another_loop)
{
	static char data[30000];
	struct loop *loops[2];
	struct stream_pool other;
	struct stage stage;
	struct err err;

	make(&stage, 65536, _i ? "tlsv1.2" : "tlsv1.3");
	stream_pool_init(&other, 4096);
	loops[0] = stage.loop;
	loops[1] = loop_new(&err);
	begin(&stage);
	run_until(&stage, both_secured);
	for (int round = 1; round <= 8; round++) {
		memset(data, 'a' + round, sizeof(data));
		stage.cut = 3001;
		partial = stage.carried[1] + 10000;
		ck_assert(stream_send(&stage.there.stream, bytes_of(data, sizeof(data))));
		run_until(&stage, a_part_came);
		stage.cut = 65536;
		stage.loop = loops[round % 2];
		move(&stage.here, stage.loop, round % 2 ? &other : &stage.pool);
		expected = sizeof(data);
		run_until(&stage, all_came);
		ck_assert_uint_eq(stage.here.got.count, sizeof(data));
		ck_assert_mem_eq(stage.here.got.at, data, sizeof(data));
		buf_clear(&stage.here.got);
		ck_assert(stream_send(&stage.here.stream, bytes_of(data, sizeof(data))));
	}
	ck_assert_ptr_eq(stage.loop, loops[0]);
	run_until(&stage, all_came_back);
	ck_assert(!stage.here.has_ended && !stage.there.has_ended);
	ck_assert_uint_eq(other.buffers.used_count, 0);
	ck_assert_uint_eq(other.tls_slots->slot_count, 1); /* the same one each time */
	ck_assert_ptr_null(other.tls_slots->slots[0].tls);
	stream_pool_done(&other);
	loop_free(&loops[1]);
	done(&stage);
}
END_TEST

/* What a take-over does: the connection goes on from its record, at a new stream. */
static void go_on(struct end *end, struct loop *loop, struct stream_pool *pool,
                  struct tls_context *context)
{
	struct buf record = { 0 }, unsent = { 0 };
	struct bytes kept = stream_unsent_bytes(&end->stream);
	bool is_same, accepts = end->stream.tls->records.accepts;
	struct record in;
	int fd;

	ck_assert(stream_can_move(&end->stream));
	buf_add(&unsent, kept.at, kept.count);
	stream_write_tls(&end->stream, &record);
	fd = stream_take_socket(&end->stream);
	ck_assert_ptr_null(end->stream.tls);
	in = (struct record){ .rest = buf_bytes(&record) };
	ck_assert(stream_read_tls(NULL, &in, accepts, context, &is_same));
	ck_assert(record_is_whole(&in));
	in = (struct record){ .rest = buf_bytes(&record) };
	stream_open(&end->stream, loop, pool, fd, &ops);
	ck_assert(stream_read_tls(&end->stream, &in, accepts, context, &is_same));
	ck_assert(is_same && stream_is_encrypted(&end->stream));
	ck_assert(stream_send_unsent(&end->stream, buf_bytes(&unsent)));
	stream_want(&end->stream, WANT_INPUT);
	buf_free(&record);
	buf_free(&unsent);
}

/* Another connection has its slot now, and has just used it. */
static void give_slot(struct tls *from, struct tls *to)
{
	to->slot = from->slot;
	from->slot = NULL;
	to->slot->tls = to;
	to->slot->used_at = INT64_MAX;
}

/* A connection that has just used its slot keeps it as long as there can be another one. */
START_TEST(secure_slots_are_for_the_busy)
{
	struct tls *others = calloc(TLS_SLOTS, sizeof(*others)), *tls, *far;
	unsigned int count = 0, gone = 0;
	struct tls_slots *slots;
	struct stage stage;

	make(&stage, 65536, "tlsv1.3");
	begin(&stage);
	run_until(&stage, both_secured);
	tls = stage.here.stream.tls;
	far = stage.there.stream.tls;
	slots = stage.pool.tls_slots;
	for (unsigned int i = 0; i < TLS_SLOTS; i++)
		others[i].records.cipher = TLS_AES_128_GCM;
	if (far->slot)
		give_slot(far, &others[count++]);
	while (count < TLS_SLOTS) {
		ck_assert(stream_send(&stage.here.stream, bytes_text("x")));
		ck_assert_uint_eq(slots->slot_count, count + 1);
		give_slot(tls, &others[count++]);
	}
	others[7].slot->used_at = loop_now(stage.loop) - TLS_SLOT_BUSY - 1;
	ck_assert(stream_send(&stage.here.stream, bytes_text("x")));
	ck_assert_ptr_null(others[7].slot);
	give_slot(tls, &others[7]);
	ck_assert(stream_send(&stage.here.stream, bytes_text("x")));
	ck_assert_uint_eq(slots->slot_count, TLS_SLOTS);
	ck_assert_ptr_nonnull(tls->slot);
	for (unsigned int i = 0; i < TLS_SLOTS; i++) {
		gone += !others[i].slot;
		if (others[i].slot)
			others[i].slot->tls = NULL;
	}
	ck_assert_uint_eq(gone, 1);
	done(&stage);
	free(others);
}
END_TEST

/* Its header was in an earlier record than its body. */
static void begin_key_update(struct tls_records *records)
{
	records->is_key_update = records->message = 1;
}

static bool is_in_key_update(const struct tls_records *records)
{
	return records->is_key_update && records->message == 1 && !records->header_count;
}

/*
 * With a part of a record that was read, and with output that the socket did not accept; and within
 * a message.
 */
START_TEST(secure_moves_to_another_process)
{
	static char data[3000000];
	struct stream_pool other;
	struct stage stage;
	struct tls *tls;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 31 + i / 1000);
	make(&stage, 65536, "tlsv1.3");
	stream_pool_init(&other, 4096);
	begin(&stage);
	run_until(&stage, both_secured);
	ck_assert_int_eq(stream_can_move(&stage.here.stream), (own_roles & 1u << TLS_ACCEPTS) != 0);
	if (stream_can_move(&stage.here.stream)) {
		ck_assert(stream_send(&stage.here.stream, bytes_of(data, sizeof(data))));
		ck_assert_uint_gt(stream_unsent(&stage.here.stream), 0);
		stage.cut = 3001;
		partial = stage.carried[1] + 10000;
		ck_assert(stream_send(&stage.there.stream, bytes_of(data, 30000)));
		run_until(&stage, a_part_came);
		stage.cut = 65536;
		go_on(&stage.here, stage.loop, &other, stage.accepts);
		expected = 30000;
		run_until(&stage, all_came);
		ck_assert_uint_eq(stage.here.got.count, expected);
		ck_assert_mem_eq(stage.here.got.at, data, expected);
		update_keys(stage.here.stream.tls, &stage.here.got);
		ck_assert(stream_send_unsent(&stage.here.stream,
		                             bytes_skip(buf_bytes(&stage.here.got), expected)));
		go_on(&stage.here, stage.loop, &stage.pool, stage.accepts);
		ck_assert(stream_send(&stage.here.stream, bytes_text("and more")));
		expected = (sizeof(data) + 8) / 8;
		run_until(&stage, all_came_back);
		ck_assert_uint_eq(stage.there.got.count, sizeof(data) + 8);
		ck_assert_mem_eq(stage.there.got.at, data, sizeof(data));
		ck_assert(!stage.here.has_ended && !stage.there.has_ended);
		begin_key_update(&stage.here.stream.tls->records);
		go_on(&stage.here, stage.loop, &other, stage.accepts);
		ck_assert(is_in_key_update(&stage.here.stream.tls->records));
	}
	tls = tls_new(&stage.pool.tls, NULL, ""); /* the new process has no TLS */
	ck_assert_ptr_null(tls->name);
	tls_free(&stage.pool.tls, &tls);
	stream_close(&stage.here.stream);
	stream_pool_done(&other);
	done(&stage);
}
END_TEST

START_TEST(secure_parcel_ends_encrypted)
{
	struct stream_parcel parcel;
	struct stage stage;

	make(&stage, 65536, "secure");
	begin(&stage);
	ck_assert(!stream_detach(&stage.here.stream, &parcel));
	run_until(&stage, both_secured);
	ck_assert(stream_detach(&stage.here.stream, &parcel));
	stream_parcel_end(&parcel, bytes_text("goodbye"));
	run_until(&stage, there_has_ended);
	ck_assert_uint_eq(stage.there.got.count, 7);
	ck_assert_mem_eq(stage.there.got.at, "goodbye", 7);
	done(&stage);
}
END_TEST

/* The peer has ended TLS: what cannot be encrypted is not sent. */
START_TEST(secure_parcel_that_has_ended_says_nothing)
{
	struct stream_parcel parcel;
	struct stage stage;
	char back[16];

	make(&stage, 65536, "secure");
	begin(&stage);
	run_until(&stage, both_secured);
	stream_close(&stage.there.stream);
	run_until(&stage, here_ended);
	ck_assert(stream_detach(&stage.here.stream, &parcel));
	stream_parcel_end(&parcel, bytes_text("goodbye"));
	ck_assert_int_eq(recv(stage.here.far, back, sizeof(back), 0), 0);
	done(&stage);
}
END_TEST

START_TEST(secure_sets_are_told_apart)
{
	struct tls_context *one = make_context(TLS_ACCEPTS, "secure");
	struct tls_context *same = make_context(TLS_ACCEPTS, "secure");
	struct tls_context *other = make_context(TLS_ACCEPTS, "tlsv1.3");

	ck_assert(tls_context_same(one, same));
	ck_assert(!tls_context_same(one, other));
	ck_assert(!tls_context_same(one, NULL));
	ck_assert(tls_context_same(NULL, NULL));
	tls_context_unref(&one);
	tls_context_unref(&same);
	tls_context_unref(&other);
	ck_assert_ptr_null(other);
}
END_TEST

static void with_openssl(void) { own_roles = 0; }
static void accepts_own(void) { own_roles = 1u << TLS_ACCEPTS; }
static void connects_own(void) { own_roles = 1u << TLS_CONNECTS; }
static void both_own(void) { own_roles = 1u << TLS_ACCEPTS | 1u << TLS_CONNECTS; }

static void add_tests(Suite *suite, const char *name, void (*set_roles)(void))
{
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, 60);
	tcase_add_unchecked_fixture(tcase, make_certificate, drop_certificate);
	tcase_add_unchecked_fixture(tcase, set_roles, NULL);
	/* Several runs, because the effect of a cut depends on random bytes. */
	tcase_add_loop_test(tcase, secure_handshake_in_pieces, 0, 10 * COUNT_OF(cuts));
	tcase_add_test(tcase, secure_servers_need_not_ask_for_another_group);
	tcase_add_loop_test(tcase, secure_only_the_cheap_step_is_for_the_loop, 0, COUNT_OF(steps));
	tcase_add_loop_test(tcase, secure_far_end_goes_amid_the_handshake, 0, 12);
	tcase_add_test(tcase, secure_close_amid_the_handshake);
	tcase_add_loop_test(tcase, secure_noise_is_no_handshake, 0, 2);
	tcase_add_test(tcase, secure_what_is_unsent_goes_first);
	tcase_add_test(tcase, secure_nothing_is_sent_in_plain_meanwhile);
	tcase_add_loop_test(tcase, secure_carries_all, 0, COUNT_OF(loads));
	tcase_add_test(tcase, secure_gathers_pieces);
	tcase_add_test(tcase, secure_good_bye_is_the_end);
	tcase_add_test(tcase, secure_broken_record_is_the_end);
	tcase_add_test(tcase, secure_key_updates_are_limited);
	tcase_add_test(tcase, secure_key_updates_with_data);
	tcase_add_loop_test(tcase, secure_moves_to_another_loop, 0, 2);
	tcase_add_test(tcase, secure_slots_are_for_the_busy);
	tcase_add_test(tcase, secure_moves_to_another_process);
	tcase_add_test(tcase, secure_parcel_ends_encrypted);
	tcase_add_test(tcase, secure_parcel_that_has_ended_says_nothing);
	tcase_add_test(tcase, secure_sets_are_told_apart);
	suite_add_tcase(suite, tcase);
}

int main(void)
{
	Suite *suite = suite_create("net/stream_secure");

	add_tests(suite, "OpenSSL", with_openssl);
	add_tests(suite, "accepting: own records", accepts_own);
	add_tests(suite, "connecting: own records", connects_own);
	add_tests(suite, "own records", both_own);
	return unit_run(suite);
}
