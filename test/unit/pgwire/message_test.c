/* SPDX-License-Identifier: ISC */
/*
 * pgwire/message.c: the exact bytes of each message, from PostgreSQL's manual.
 */
#include "pgweir/pgwire/message.h"

#include "pgweir/pgwire/startup.h"

#include "../unit.h"

static void make_error(struct buf *buf)
{
	struct report report = { .severity = "FATAL",
		                 .verbatim = "FATAL",
		                 .sqlstate = "28P01",
		                 .text = "no",
		                 .detail = "d",
		                 .hint = "h" };

	message_error(buf, &report);
}

static void make_err(struct buf *buf)
{
	struct err err;

	err_set(&err, ERR_PASSWORD, "no");
	message_err(buf, "FATAL", &err);
}

static void make_err_with_a_way_out(struct buf *buf)
{
	struct err err;

	err_set(&err, ERR_PASSWORD, "no");
	err_detail(&err, "d");
	err_hint(&err, "h");
	message_err(buf, "FATAL", &err);
}

static void make_notice(struct buf *buf)
{
	struct report report = { .severity = "NOTICE", .sqlstate = "00000", .text = "hi" };

	message_notice(buf, &report);
}

static void make_negotiate(struct buf *buf)
{
	message_negotiate(buf, PROTOCOL_3_2, bytes_of("_pq_.a\0_pq_.b", 14));
}

static void make_bare_negotiate(struct buf *buf)
{
	message_negotiate(buf, PROTOCOL_3_0, bytes_of("", 0));
}

static void make_sasl(struct buf *buf)
{
	message_auth_sasl(buf, (const char *const[]){ "SCRAM-SHA-256" }, 1);
}

static void make_types(struct buf *buf)
{
	message_parameter_types(buf, (const uint32_t[]){ 23, 25 }, 2);
}

static void make_columns(struct buf *buf)
{
	struct message_column column = { .name = "a", .type = 25, .size = -1 };
	size_t at = message_columns_begin(buf, 1);

	message_column(buf, &column);
	message_end(buf, at);
}

static void make_row(struct buf *buf)
{
	size_t at = message_row_begin(buf, 3);

	message_row_text(buf, "ab");
	message_row_text(buf, NULL);
	message_row_bytes(buf, bytes_of("\0", 1));
	message_end(buf, at);
}

static void make_startup(struct buf *buf)
{
	size_t at = message_startup_begin(buf, PROTOCOL_3_2);

	message_startup_pair(buf, "user", "bo");
	message_startup_end(buf, at);
}

static void make_ready(struct buf *buf) { message_ready(buf, 'I'); }
static void make_parameter(struct buf *buf) { message_parameter(buf, "a", "b"); }
static void make_key(struct buf *buf) { message_key(buf, bytes_text("12345678")); }
static void make_complete(struct buf *buf) { message_complete(buf, "SHOW"); }
static void make_md5(struct buf *buf) { message_auth(buf, AUTH_MD5, bytes_text("salt")); }
static void make_continue(struct buf *buf)
{
	message_auth(buf, AUTH_SASL_CONTINUE, bytes_text("ab"));
}
static void make_final(struct buf *buf) { message_auth(buf, AUTH_SASL_FINAL, bytes_text("ab")); }
static void make_cancel(struct buf *buf) { message_cancel(buf, bytes_text("12345678")); }
static void make_password(struct buf *buf) { message_password(buf, "pw"); }
static void make_response(struct buf *buf) { message_sasl_response(buf, bytes_text("ab")); }
static void make_sync(struct buf *buf) { message_bare(buf, 'S'); }
static void make_ok(struct buf *buf) { message_auth(buf, AUTH_OK, bytes_of("", 0)); }
static void make_cleartext(struct buf *buf) { message_auth(buf, AUTH_CLEARTEXT, bytes_of("", 0)); }
static void make_query(struct buf *buf) { message_query(buf, "x"); }

static void make_initial(struct buf *buf)
{
	message_sasl_initial(buf, "SCRAM-SHA-256", bytes_text("n,,"));
}

#define MADE(name, function, text)                         \
	{                                                  \
		name, function, { text, sizeof(text) - 1 } \
	}

static const struct {
	const char *says;
	void (*make)(struct buf *buf);
	struct bytes out;
} cases[] = {
	MADE("ErrorResponse", make_error, "E\0\0\0\44SFATAL\0VFATAL\0C28P01\0Mno\0Dd\0Hh\0\0"),
	MADE("our own ErrorResponse", make_err, "E\0\0\0\27SFATAL\0C28P01\0Mno\0\0"),
	MADE("our own ErrorResponse with all fields", make_err_with_a_way_out,
	     "E\0\0\0\35SFATAL\0C28P01\0Mno\0Dd\0Hh\0\0"),
	MADE("NoticeResponse", make_notice, "N\0\0\0\30SNOTICE\0C00000\0Mhi\0\0"),
	MADE("ReadyForQuery", make_ready, "Z\0\0\0\5I"),
	MADE("ParameterStatus", make_parameter, "S\0\0\0\10a\0b\0"),
	MADE("BackendKeyData", make_key,
	     "K\0\0\0\14"
	     "12345678"),
	MADE("CommandComplete", make_complete, "C\0\0\0\11SHOW\0"),
	MADE("NegotiateProtocolVersion", make_negotiate,
	     "v\0\0\0\32\0\3\0\2\0\0\0\2_pq_.a\0_pq_.b\0"),
	MADE("NegotiateProtocolVersion without options", make_bare_negotiate,
	     "v\0\0\0\14\0\3\0\0\0\0\0\0"),
	MADE("AuthenticationOk", make_ok, "R\0\0\0\10\0\0\0\0"),
	MADE("AuthenticationCleartextPassword", make_cleartext, "R\0\0\0\10\0\0\0\3"),
	MADE("AuthenticationMD5Password", make_md5, "R\0\0\0\14\0\0\0\5salt"),
	MADE("AuthenticationSASL", make_sasl, "R\0\0\0\27\0\0\0\12SCRAM-SHA-256\0\0"),
	MADE("AuthenticationSASLContinue", make_continue, "R\0\0\0\12\0\0\0\13ab"),
	MADE("AuthenticationSASLFinal", make_final, "R\0\0\0\12\0\0\0\14ab"),
	MADE("ParameterDescription", make_types, "t\0\0\0\16\0\2\0\0\0\27\0\0\0\31"),
	MADE("RowDescription", make_columns,
	     "T\0\0\0\32\0\1a\0\0\0\0\0\0\0\0\0\0\31\377\377\377\377\377\377\0\0"),
	MADE("DataRow", make_row, "D\0\0\0\25\0\3\0\0\0\2ab\377\377\377\377\0\0\0\1\0"),
	MADE("StartupMessage", make_startup, "\0\0\0\21\0\3\0\2user\0bo\0\0"),
	MADE("SSLRequest", message_tls_request, "\0\0\0\10\4\322\26\57"),
	MADE("CancelRequest", make_cancel,
	     "\0\0\0\20\4\322\26\56"
	     "12345678"),
	MADE("PasswordMessage", make_password, "p\0\0\0\7pw\0"),
	MADE("SASLInitialResponse", make_initial, "p\0\0\0\31SCRAM-SHA-256\0\0\0\0\3n,,"),
	MADE("SASLResponse", make_response, "p\0\0\0\6ab"),
	MADE("Query", make_query, "Q\0\0\0\6x\0"),
	MADE("Sync", make_sync, "S\0\0\0\4"),
};

START_TEST(message_bytes)
{
	struct buf buf = { 0 };

	cases[_i].make(&buf);
	ck_assert_msg(bytes_equal(buf_bytes(&buf), cases[_i].out), "%s", cases[_i].says);
	buf_free(&buf);
}
END_TEST

/* After another message, the length is still its own. */
START_TEST(message_behind_another)
{
	struct buf buf = { 0 };

	message_bare(&buf, 'S');
	cases[_i].make(&buf);
	ck_assert_msg(bytes_equal(bytes_skip(buf_bytes(&buf), 5), cases[_i].out), "%s",
	              cases[_i].says);
	buf_free(&buf);
}
END_TEST

/* What the compiler puts together is what the builders do. */
START_TEST(message_static_is_as_built)
{
	MESSAGE_STATIC(query, 'Q', "SELECT 1");
	static const struct {
		MESSAGE_FIXED(sizeof("BEGIN")) complete;
		MESSAGE_FIXED(1) ready;
	} answer = { MESSAGE_FIXED_INIT('C', sizeof("BEGIN"), "BEGIN"),
		     MESSAGE_FIXED_INIT('Z', 1, { 'T' }) };
	struct buf built = { 0 };

	message_query(&built, "SELECT 1");
	ck_assert(bytes_equal(MESSAGE_BYTES(query), buf_bytes(&built)));
	buf_clear(&built);
	message_complete(&built, "BEGIN");
	message_ready(&built, 'T');
	ck_assert(bytes_equal(MESSAGE_BYTES(answer), buf_bytes(&built)));
	buf_free(&built);
}
END_TEST

START_TEST(message_into_a_broken_buffer)
{
	for (size_t limit = 1; limit < cases[_i].out.count; limit++) {
		struct buf buf = { .limit = limit };

		cases[_i].make(&buf);
		ck_assert_msg(!buf_ok(&buf), "%s", cases[_i].says);
		buf_free(&buf);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/message");
	TCase *tests = tcase_create("message");

	tcase_add_loop_test(tests, message_bytes, 0, COUNT_OF(cases));
	tcase_add_test(tests, message_static_is_as_built);
	tcase_add_loop_test(tests, message_behind_another, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, message_into_a_broken_buffer, 0, COUNT_OF(cases));
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
