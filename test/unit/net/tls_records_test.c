/* SPDX-License-Identifier: ISC */
/*
 * net/tls_records.c: the traces of RFC 8448, and a peer of the test's own, which can also say what
 * no peer may say.
 */
#include "../../../src/net/tls_priv.h"

#include <stdlib.h>
#include <string.h>

#define ERR_STATE OPENSSL_ERR_STATE
#include <openssl/evp.h>
#undef ERR_STATE

#include "../unit.h"

enum { ALERT = 21, HANDSHAKE = 22, DATA = 23 };

struct peers {
	struct tls_records we, peer;
	struct tls_keyed ours, theirs;
	struct buf wire, answer, got;
};

static unsigned char from_hex(char c) { return (unsigned char)(c <= '9' ? c - '0' : c - 'a' + 10); }

static size_t hex(const char *text, unsigned char *out)
{
	size_t count = 0;

	while (*text) {
		if (*text == ' ') {
			text++;
			continue;
		}
		out[count++] = (unsigned char)(from_hex(text[0]) << 4 | from_hex(text[1]));
		text += 2;
	}
	return count;
}

static void begin(struct peers *peers, enum tls_cipher cipher, bool accepts)
{
	*peers = (struct peers){ .we = { .cipher = (uint8_t)cipher, .accepts = accepts },
		                 .peer = { .cipher = (uint8_t)cipher, .accepts = !accepts } };
	for (unsigned char i = 0; i < tls_secret_size(cipher); i++) {
		peers->we.in.secret[i] = peers->peer.out.secret[i] = i;
		peers->we.out.secret[i] = peers->peer.in.secret[i] = (unsigned char)(200 - i);
	}
	ck_assert(tls_records_begin(&peers->we));
	ck_assert(tls_records_begin(&peers->peer));
}

static void end(struct peers *peers)
{
	tls_keyed_done(&peers->ours);
	tls_keyed_done(&peers->theirs);
	buf_free(&peers->wire);
	buf_free(&peers->answer);
	buf_free(&peers->got);
}

/* Adds a record to the wire, written without the code under test. `inner` is encrypted as it is. */
static void say_raw(struct peers *peers, const void *inner, size_t count)
{
	static const struct {
		const EVP_CIPHER *(*cipher)(void);
	} rows[] = {
		{ NULL }, { EVP_aes_128_gcm }, { EVP_aes_256_gcm }, { EVP_chacha20_poly1305 }
	};
	struct tls_way *way = &peers->peer.out;
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	unsigned char *at = (unsigned char *)buf_reserve(&peers->wire, 5 + count + 16);
	unsigned char nonce[12];
	int done;

	memcpy(nonce, way->iv, 12);
	for (int i = 0; i < 8; i++)
		nonce[4 + i] ^= (unsigned char)(way->number >> (56 - 8 * i));
	way->number++;
	at[0] = 23;
	at[1] = at[2] = 3;
	store_be16(at + 3, (uint16_t)(count + 16));
	EVP_EncryptInit_ex(context, rows[peers->peer.cipher].cipher(), NULL, way->key, nonce);
	EVP_EncryptUpdate(context, NULL, &done, at, 5);
	if (count)
		EVP_EncryptUpdate(context, at + 5, &done, inner, (int)count);
	EVP_EncryptFinal_ex(context, at + 5 + count, &done);
	EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, at + 5 + count);
	EVP_CIPHER_CTX_free(context);
	peers->wire.count += 5 + count + 16;
}

static void say(struct peers *peers, int type, const void *content, size_t count, size_t zeros)
{
	unsigned char *inner = calloc(1, count + 1 + zeros);

	if (count)
		memcpy(inner, content, count);
	inner[count] = (unsigned char)type;
	say_raw(peers, inner, count + 1 + zeros);
	free(inner);
}

#define SAY(type, text) say(&peers, type, text, sizeof(text) - 1, 0)

/* Gives the wire to us, in pieces. */
static enum tls_end hear_in(struct peers *peers, size_t piece)
{
	static char at[400000];
	enum tls_end result = TLS_GOES_ON;
	struct bytes rest = { 0 };
	size_t heard = 0, count;

	while (result == TLS_GOES_ON && heard < peers->wire.count) {
		heard = piece < peers->wire.count - heard ? heard + piece : peers->wire.count;
		rest = bytes_of(peers->wire.at + (peers->wire.count - peers->wire.count), 0);
		rest = bytes_of(peers->wire.at, heard);
		result =
		    tls_records_open(&peers->we, &peers->ours, &rest, at, &count, &peers->answer);
		buf_add(&peers->got, at, count);
		buf_drop(&peers->wire, heard - rest.count);
		heard = rest.count;
	}
	return result;
}

static enum tls_end hear(struct peers *peers) { return hear_in(peers, SIZE_MAX / 2); }

/* The peer reads what we answered. Returns the last two bytes of an alert's record; 0: none. */
static unsigned int alert_of(struct peers *peers)
{
	struct bytes in = buf_bytes(&peers->answer);
	static unsigned char inner[20000];
	EVP_CIPHER_CTX *context;
	unsigned int alert = 0;
	int done;

	while (in.count) {
		size_t body = load_be16(in.at + 3);
		unsigned char nonce[12];
		struct tls_way *way = &peers->peer.in;

		memcpy(nonce, way->iv, 12);
		for (int i = 0; i < 8; i++)
			nonce[4 + i] ^= (unsigned char)(way->number >> (56 - 8 * i));
		way->number++;
		context = EVP_CIPHER_CTX_new();
		EVP_DecryptInit_ex(context, EVP_aes_128_gcm(), NULL, way->key, nonce);
		EVP_DecryptUpdate(context, NULL, &done, (const unsigned char *)in.at, 5);
		EVP_DecryptUpdate(context, inner, &done, (const unsigned char *)in.at + 5,
		                  (int)body - 16);
		EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16,
		                    (void *)(in.at + 5 + body - 16));
		ck_assert_int_eq(EVP_DecryptFinal_ex(context, inner, &done), 1);
		EVP_CIPHER_CTX_free(context);
		if (inner[body - 17] == ALERT)
			alert = load_be16(inner);
		in = bytes_skip(in, 5 + body);
	}
	return alert;
}

/* ---- RFC 8448, section 3 ---- */

static const char client_secret[] =
    "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
static const char server_secret[] =
    "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";
static const char client_data[] =
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e"
    "2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";
static const char client_end[] = "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3";
static const char server_data[] =
    "17030300de3a6b8f90414a97d6959c3487680de5134a2b240e6cffac116e95d41d6af8f6b580dcf3d11d63c758db28"
    "9a015940252f55713e061dc13e078891a38efbcf5753ad8ef170ad3c7353d16d9da773b9ca7f2b9fa1b6c0d4a3d03f"
    "75e09c30ba1e62972ac46f75f7b981be63439b2999ce13064615139891d5e4c5b406f16e3fc181a77ca475840025db"
    "2f0a77f81b5ab05b94c01346755f69232c86519d86cbeeac87aac347d143f9605d64f650db4d023e70e952ca49fe51"
    "37121c74bc2697687e248746d6df353005f3bce18696129c8153556b3b6c6779b37bf15985684f"
    "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59"
    "a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d"
    "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9";

static void load_trace(struct peers *peers)
{
	*peers = (struct peers){ .we = { .cipher = TLS_AES_128_GCM } };
	ck_assert_uint_eq(hex(client_secret, peers->we.out.secret), 32);
	ck_assert_uint_eq(hex(server_secret, peers->we.in.secret), 32);
	ck_assert(tls_records_begin(&peers->we));
}

START_TEST(records_write_the_trace)
{
	unsigned char expected[100], plain[50], key[16], iv[12];
	struct peers peers;

	for (unsigned char i = 0; i < 50; i++)
		plain[i] = i;
	load_trace(&peers);
	hex("17422dda596ed5d9acd890e3c63f5051", key);
	hex("5b78923dee08579033e523d9", iv);
	ck_assert_mem_eq(peers.we.out.key, key, 16);
	ck_assert_mem_eq(peers.we.out.iv, iv, 12);
	ck_assert(tls_records_seal(&peers.we, &peers.ours, bytes_of(plain, 50), &peers.answer));
	ck_assert_uint_eq(peers.answer.count, hex(client_data, expected));
	ck_assert_mem_eq(peers.answer.at, expected, peers.answer.count);
	buf_clear(&peers.answer);
	tls_records_goodbye(&peers.we, &peers.ours, &peers.answer);
	ck_assert_uint_eq(peers.answer.count, hex(client_end, expected));
	ck_assert_mem_eq(peers.answer.at, expected, peers.answer.count);
	end(&peers);
}
END_TEST

/* A ticket, data and the end, at every cut. */
START_TEST(records_read_the_trace)
{
	unsigned char wire[512];
	size_t size = hex(server_data, wire);

	for (size_t piece = 1; piece <= size; piece++) {
		struct peers peers;

		load_trace(&peers);
		buf_add(&peers.wire, wire, size);
		ck_assert_int_eq(hear_in(&peers, piece), TLS_ENDED);
		ck_assert_uint_eq(peers.got.count, 50);
		for (int i = 0; i < 50; i++)
			ck_assert_int_eq(peers.got.at[i], i);
		ck_assert_uint_eq(peers.answer.count, 0);
		ck_assert_uint_eq(peers.we.update_count, 1);
		end(&peers);
	}
}
END_TEST

/* ---- data ---- */

START_TEST(records_carry_all_sizes)
{
	static const size_t sizes[] = { 1, 2, 100, 1023, 1024, 16383, 16384, 16385, 32768, 100000 };
	static const size_t pieces[] = { 1, 7, 5000, 16384, 400000 };
	static char data[100000];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 + i / 256);
	for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(pieces); i++) {
		size_t size = sizes[i / COUNT_OF(pieces)], piece = pieces[i % COUNT_OF(pieces)];
		struct peers peers;

		if (piece < 5000 && size > 16385)
			continue;
		begin(&peers, (enum tls_cipher)_i, i % 2);
		ck_assert(tls_records_seal(&peers.peer, &peers.theirs, bytes_of(data, size),
		                           &peers.wire));
		ck_assert_uint_eq(peers.wire.count, size + (size + 16383) / 16384 * 22);
		ck_assert_int_eq(hear_in(&peers, piece), TLS_GOES_ON);
		ck_assert_uint_eq(peers.got.count, size);
		ck_assert_mem_eq(peers.got.at, data, size);
		ck_assert_uint_eq(peers.wire.count, 0);
		end(&peers);
	}
}
END_TEST

/* No byte of a record can be changed: header, content, tag. */
START_TEST(records_notice_each_changed_bit)
{
	for (size_t bit = 0; bit < (5 + 30 + 1 + 16) * 8; bit++) {
		struct peers peers;
		enum tls_end result;

		begin(&peers, (enum tls_cipher)_i, true);
		SAY(DATA, "123456789012345678901234567890");
		SAY(DATA, "never read");
		peers.wire.at[bit / 8] ^= (char)(1 << bit % 8);
		result = hear(&peers);
		ck_assert_uint_eq(peers.got.count, 0);
		/* A greater length may need more than there is. */
		if (bit / 8 != 3 && bit / 8 != 4)
			ck_assert_int_eq(result, TLS_BROKEN);
		ck_assert(result == TLS_BROKEN || !peers.answer.count);
		ck_assert(result != TLS_BROKEN || peers.answer.count == 5 + 2 + 1 + 16);
		end(&peers);
	}
}
END_TEST

/* A record cannot come twice, be left out, or change places with another. */
START_TEST(records_have_an_order)
{
	for (int what = 0; what < 3; what++) {
		struct peers peers;
		struct buf first = { 0 };

		begin(&peers, TLS_AES_128_GCM, true);
		SAY(DATA, "one");
		buf_add(&first, peers.wire.at, peers.wire.count);
		if (what == 0)
			buf_add(&peers.wire, first.at, first.count);
		else
			buf_clear(&peers.wire);
		if (what)
			SAY(DATA, "two");
		if (what == 2)
			buf_add(&peers.wire, first.at, first.count);
		ck_assert_int_eq(hear(&peers), TLS_BROKEN);
		ck_assert_uint_eq(peers.got.count, what ? 0 : 3);
		ck_assert_uint_eq(alert_of(&peers), 0x0200 | 20);
		buf_free(&first);
		end(&peers);
	}
}
END_TEST

START_TEST(records_have_padding)
{
	struct peers peers;

	begin(&peers, TLS_AES_128_GCM, true);
	say(&peers, DATA, "abc", 3, 1000);
	say(&peers, DATA, "", 0, 500);
	say(&peers, DATA, "de", 2, 16384 - 2);
	say(&peers, DATA, "\0\0", 2, 3);
	ck_assert_int_eq(hear(&peers), TLS_GOES_ON);
	ck_assert_uint_eq(peers.got.count, 7);
	ck_assert_mem_eq(peers.got.at, "abcde\0\0", 7);
	end(&peers);
}
END_TEST

/* Empty records are limited in a row, not in all. */
START_TEST(records_may_be_empty)
{
	struct peers peers;

	begin(&peers, TLS_AES_128_GCM, true);
	for (int i = 1; i <= 5 * TLS_EMPTY_MAX; i++) {
		SAY(DATA, "");
		if (i % TLS_EMPTY_MAX == 0)
			SAY(DATA, "x");
	}
	ck_assert_int_eq(hear(&peers), TLS_GOES_ON);
	ck_assert_uint_eq(peers.got.count, 5);
	end(&peers);
}
END_TEST

/* What was decrypted before its tag was found wrong is wiped. */
START_TEST(records_leave_nothing_of_a_bad_one)
{
	char at[64] = "";
	struct peers peers;
	struct bytes in;
	size_t count;

	begin(&peers, (enum tls_cipher)_i, true);
	SAY(DATA, "not authentic");
	peers.wire.at[peers.wire.count - 1] ^= 1;
	in = buf_bytes(&peers.wire);
	ck_assert_int_eq(tls_records_open(&peers.we, &peers.ours, &in, at, &count, &peers.answer),
	                 TLS_BROKEN);
	ck_assert_uint_eq(count, 0);
	for (size_t i = 0; i < sizeof(at); i++)
		ck_assert_int_eq(at[i], 0);
	end(&peers);
}
END_TEST

/* ---- what is refused ---- */

#define TICKET "\4\0\0\5ticke"
#define UPDATE "\x18\0\0\1\0"

static void say_empty(struct peers *peers)
{
	for (int i = 0; i <= TLS_EMPTY_MAX; i++)
		say(peers, i % 2 ? ALERT : DATA, "\1\x5a", i % 2 ? 2 : 0, 0);
}

static void say_zeros(struct peers *peers) { say_raw(peers, "\0\0\0\0", 4); }
static void say_too_much(struct peers *peers) { say(peers, DATA, "", 0, 16385); }
static void say_too_long(struct peers *peers) { buf_add(&peers->wire, "\x17\3\3\x41\1", 5); }
static void say_too_short(struct peers *peers) { buf_add(&peers->wire, "\x17\3\3\0\x10", 5); }
static void say_in_plain(struct peers *peers) { buf_add(&peers->wire, "\x14\3\3\0\1\1", 6); }
static void say_alert_in_plain(struct peers *peers) { buf_add(&peers->wire, "\x15", 1); }
static void say_end_of_numbers(struct peers *peers)
{
	peers->we.in.number = peers->peer.out.number = UINT64_MAX;
	say(peers, DATA, "x", 1, 0);
}

static const struct {
	int type;
	const char *content;
	size_t count;
	unsigned int alert;
	bool is_from_server;
	void (*say)(struct peers *peers);
} refused[] = {
	{ HANDSHAKE, "", 0, 10, false, NULL },
	{ ALERT, "", 0, 10, false, NULL },
	{ ALERT, "\1", 1, 50, false, NULL },
	{ ALERT, "\1\0\1", 3, 50, false, NULL },
	{ 20, "\1", 1, 10, false, NULL },
	{ 24, "\1", 1, 10, false, NULL },
	{ 255, "\1", 1, 10, false, NULL },
	{ HANDSHAKE, TICKET, 9, 10, false, NULL },          /* from a client */
	{ HANDSHAKE, "\4\xff\xff\xff", 4, 50, true, NULL }, /* too long a ticket */
	{ HANDSHAKE, "\1\0\0\0", 4, 10, false, NULL },      /* ClientHello: renegotiation */
	{ HANDSHAKE, "\x0d\0\0\0", 4, 10, true, NULL },     /* CertificateRequest */
	{ HANDSHAKE, "\x14\0\0\0", 4, 10, true, NULL },     /* Finished */
	{ HANDSHAKE, "\x18\0\0\1\2", 5, 47, false, NULL },
	{ HANDSHAKE, "\x18\0\0\2\0\0", 6, 50, false, NULL },
	{ HANDSHAKE, "\x18\0\0\0", 4, 50, false, NULL },
	{ HANDSHAKE, UPDATE UPDATE, 10, 10, false, NULL }, /* the key changes within a record */
	{ HANDSHAKE, UPDATE "\x18", 6, 10, false, NULL },
	{ 0, NULL, 0, 10, false, say_empty },
	{ 0, NULL, 0, 10, false, say_zeros },
	{ 0, NULL, 0, 22, false, say_too_much },
	{ 0, NULL, 0, 22, false, say_too_long },
	{ 0, NULL, 0, 20, false, say_too_short },
	{ 0, NULL, 0, 10, false, say_in_plain },
	{ 0, NULL, 0, 10, false, say_alert_in_plain },
	{ 0, NULL, 0, 20, false, say_end_of_numbers },
};

START_TEST(records_refuse)
{
	struct peers peers;

	begin(&peers, TLS_AES_128_GCM, !refused[_i].is_from_server);
	SAY(DATA, "before");
	ck_assert_int_eq(hear(&peers), TLS_GOES_ON);
	if (refused[_i].say)
		refused[_i].say(&peers);
	else
		say(&peers, refused[_i].type, refused[_i].content, refused[_i].count, 0);
	ck_assert_int_eq(hear(&peers), TLS_BROKEN);
	ck_assert_uint_eq(peers.got.count, 6);
	ck_assert_uint_eq(alert_of(&peers), 0x0200 | refused[_i].alert);
	end(&peers);
}
END_TEST

START_TEST(records_know_alerts)
{
	struct peers peers;

	begin(&peers, TLS_AES_128_GCM, true);
	SAY(ALERT, "\1\x5a"); /* user_canceled */
	SAY(DATA, "last");
	SAY(ALERT, "\1\0");
	SAY(DATA, "behind the end");
	ck_assert_int_eq(hear(&peers), TLS_ENDED);
	ck_assert_uint_eq(peers.got.count, 4);
	ck_assert_uint_eq(peers.answer.count, 0);
	end(&peers);

	begin(&peers, TLS_AES_128_GCM, true);
	SAY(ALERT, "\2\x14");
	ck_assert_int_eq(hear(&peers), TLS_BROKEN);
	ck_assert_uint_eq(peers.answer.count, 0); /* an alert is not answered */
	end(&peers);
}
END_TEST

/* ---- messages of the handshake ---- */

START_TEST(records_ignore_tickets)
{
	for (size_t cut = 0; cut <= 22; cut++) {
		static const char tickets[] = TICKET "\4\0\0\0" TICKET;
		struct peers peers;

		begin(&peers, TLS_AES_128_GCM, false);
		if (cut)
			say(&peers, HANDSHAKE, tickets, cut, 0);
		if (cut < 22)
			say(&peers, HANDSHAKE, tickets + cut, 22 - cut, 0);
		SAY(DATA, "data");
		ck_assert_int_eq(hear(&peers), TLS_GOES_ON);
		ck_assert_uint_eq(peers.got.count, 4);
		ck_assert_uint_eq(peers.we.update_count, 3);
		end(&peers);
	}
}
END_TEST

START_TEST(records_allow_nothing_within_a_message)
{
	for (int cut = 1; cut < 9; cut++) {
		for (int type = ALERT; type <= DATA; type += 2) {
			struct peers peers;

			begin(&peers, TLS_AES_128_GCM, false);
			say(&peers, HANDSHAKE, TICKET, (size_t)cut, 0);
			say(&peers, type, "\1\0", 2, 0);
			ck_assert_int_eq(hear(&peers), TLS_BROKEN);
			ck_assert_uint_eq(alert_of(&peers), 0x0200 | 10);
			end(&peers);
		}
	}
}
END_TEST

/* Records may cut a key update anywhere, with nothing between its parts or behind it. */
START_TEST(records_change_keys_by_a_message_in_parts)
{
	static const struct {
		int type;
		const char *between;
	} rows[] = { { 0, "" }, { DATA, "1" }, { DATA, "" }, { ALERT, "\1\x5a" } };

	for (unsigned int cuts = 0; cuts < 1u << 4; cuts++) {
		struct peers peers;
		size_t begin_at = 0;

		begin(&peers, (enum tls_cipher)_i, cuts % 2);
		for (size_t at = 1; at <= 5; at++) {
			if (at < 5 && !(cuts & 1u << (at - 1)))
				continue;
			say(&peers, HANDSHAKE, &"\x18\0\0\1\1"[begin_at], at - begin_at, 0);
			begin_at = at;
		}
		ck_assert_int_eq(hear(&peers), TLS_GOES_ON);
		ck_assert_uint_eq(peers.we.update_count, 1);
		ck_assert_uint_eq(peers.we.in.number, 0);
		ck_assert_uint_eq(peers.answer.count, 5 + 5 + 1 + 16);
		end(&peers);
	}
	for (size_t row = 0; row < COUNT_OF(rows) * 4; row++) {
		size_t cut = 1 + row % 4, kind = row / 4;
		struct peers peers;

		begin(&peers, TLS_AES_128_GCM, true);
		say(&peers, HANDSHAKE, UPDATE, cut, 0);
		if (rows[kind].type)
			say(&peers, rows[kind].type, rows[kind].between, strlen(rows[kind].between),
			    0);
		else
			say(&peers, HANDSHAKE, &(UPDATE UPDATE)[cut], 6 - cut, 0);
		ck_assert_int_eq(hear(&peers), TLS_BROKEN);
		ck_assert_uint_eq(alert_of(&peers), 0x0200 | 10);
		ck_assert_uint_eq(peers.we.in.number, 2);
		end(&peers);
	}
}
END_TEST

/* Both sides change their keys, and ask each other to, in the midst of data. */
START_TEST(records_change_keys)
{
	struct peers peers;
	struct bytes in;
	size_t count;
	char at[100];

	begin(&peers, (enum tls_cipher)_i, true);
	for (int round = 0; round < 20; round++) {
		SAY(DATA, "before");
		ck_assert(tls_records_update(&peers.peer, &peers.theirs, round % 2, &peers.wire));
		ck_assert_uint_eq(peers.peer.out.number, 0);
		ck_assert(
		    tls_records_seal(&peers.peer, &peers.theirs, bytes_text("after"), &peers.wire));
		ck_assert_int_eq(hear_in(&peers, 1 + (size_t)round), TLS_GOES_ON);
		ck_assert_uint_eq(peers.got.count, 11);
		ck_assert_mem_eq(peers.got.at, "beforeafter", 11);
		ck_assert_uint_eq(peers.answer.count, round % 2 ? 5 + 5 + 1 + 16 : 0);
		ck_assert(
		    tls_records_seal(&peers.we, &peers.ours, bytes_text("reply"), &peers.answer));
		in = buf_bytes(&peers.answer);
		ck_assert_int_eq(
		    tls_records_open(&peers.peer, &peers.theirs, &in, at, &count, &peers.wire),
		    TLS_GOES_ON);
		ck_assert_uint_eq(count, 5);
		ck_assert_mem_eq(at, "reply", 5);
		buf_clear(&peers.answer);
		buf_clear(&peers.got);
	}
	ck_assert_uint_eq(peers.we.update_count, 20);
	end(&peers);
}
END_TEST

START_TEST(records_limit_key_updates)
{
	struct peers peers;

	begin(&peers, TLS_AES_128_GCM, true);
	for (int i = 0; i < 1000; i++)
		ck_assert(tls_records_update(&peers.peer, &peers.theirs, true, &peers.wire));
	ck_assert_int_eq(hear(&peers), TLS_BROKEN);
	ck_assert(peers.we.is_flooded);
	ck_assert_uint_eq(peers.we.update_count, TLS_UPDATES_MAX + 1);
	ck_assert_uint_le(peers.answer.count, (TLS_UPDATES_MAX + 2) * 27);
	end(&peers);
}
END_TEST

/* Our key is changed before its limit, and the peer can follow. */
START_TEST(records_change_keys_in_time)
{
	struct peers peers;

	begin(&peers, TLS_AES_256_GCM, true);
	peers.peer.out.number = peers.we.in.number = TLS_KEY_RECORDS - 1;
	for (int i = 0; i < 3; i++)
		ck_assert(
		    tls_records_seal(&peers.peer, &peers.theirs, bytes_text("abc"), &peers.wire));
	ck_assert_uint_eq(peers.peer.out.number, 2);
	ck_assert_int_eq(hear(&peers), TLS_GOES_ON);
	ck_assert_uint_eq(peers.got.count, 9);
	ck_assert_uint_eq(peers.we.in.number, 2);
	ck_assert_uint_eq(peers.we.update_count, 1);
	end(&peers);
}
END_TEST

/* A connection goes on with other contexts, or in another process. */
START_TEST(records_need_no_contexts)
{
	struct peers peers, other;

	begin(&peers, (enum tls_cipher)_i, true);
	begin(&other, TLS_CHACHA20, true);
	for (int i = 0; i < 4; i++) {
		SAY(DATA, "abc");
		ck_assert_int_eq(hear(&peers), TLS_GOES_ON);
		ck_assert_uint_eq(peers.got.count, 3 * (size_t)(i + 1));
		say(&other, DATA, "de", 2, 0);
		tls_keyed_done(&other.ours);
		other.ours = peers.ours;
		tls_keyed_forget(&other.ours);
		ck_assert_int_eq(hear(&other), TLS_GOES_ON);
		peers.ours = other.ours;
		tls_keyed_forget(&peers.ours);
		other.ours = (struct tls_keyed){ 0 };
	}
	ck_assert_uint_eq(other.got.count, 8);
	end(&peers);
	end(&other);
}
END_TEST

START_TEST(records_need_memory)
{
	struct peers peers;

	begin(&peers, TLS_AES_256_GCM, true);
	peers.wire.limit = 10;
	ck_assert(!tls_records_seal(&peers.we, &peers.ours, bytes_text("abc"), &peers.wire));
	ck_assert_uint_eq(peers.wire.count, 0);
	end(&peers);
}
END_TEST

START_TEST(records_know_ciphers)
{
	struct tls_records none = { 0 };

	ck_assert_int_eq(tls_cipher_of(0x1301), TLS_AES_128_GCM);
	ck_assert_int_eq(tls_cipher_of(0x1303), TLS_CHACHA20);
	ck_assert_int_eq(tls_cipher_of(0x1304), TLS_CIPHER_NONE);
	ck_assert_int_eq(tls_cipher_of(0), TLS_CIPHER_NONE);
	ck_assert_uint_eq(tls_secret_size(TLS_CIPHER_NONE), 0);
	ck_assert_uint_eq(tls_secret_size((enum tls_cipher)77), 0);
	ck_assert(!tls_records_begin(&none));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net/tls_records");
	TCase *tcase = tcase_create("records");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, records_write_the_trace);
	tcase_add_test(tcase, records_read_the_trace);
	tcase_add_loop_test(tcase, records_carry_all_sizes, TLS_AES_128_GCM, TLS_CIPHERS);
	tcase_add_loop_test(tcase, records_notice_each_changed_bit, TLS_AES_128_GCM, TLS_CIPHERS);
	tcase_add_test(tcase, records_have_an_order);
	tcase_add_test(tcase, records_have_padding);
	tcase_add_test(tcase, records_may_be_empty);
	tcase_add_loop_test(tcase, records_leave_nothing_of_a_bad_one, TLS_AES_128_GCM,
	                    TLS_CIPHERS);
	tcase_add_loop_test(tcase, records_refuse, 0, COUNT_OF(refused));
	tcase_add_test(tcase, records_know_alerts);
	tcase_add_test(tcase, records_ignore_tickets);
	tcase_add_test(tcase, records_allow_nothing_within_a_message);
	tcase_add_loop_test(tcase, records_change_keys, TLS_AES_128_GCM, TLS_CIPHERS);
	tcase_add_loop_test(tcase, records_change_keys_by_a_message_in_parts, TLS_AES_128_GCM,
	                    TLS_CIPHERS);
	tcase_add_test(tcase, records_limit_key_updates);
	tcase_add_test(tcase, records_change_keys_in_time);
	tcase_add_loop_test(tcase, records_need_no_contexts, TLS_AES_128_GCM, TLS_CIPHERS);
	tcase_add_test(tcase, records_need_memory);
	tcase_add_test(tcase, records_know_ciphers);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
