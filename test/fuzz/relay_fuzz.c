/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the whole engine: clients and servers that send anything, in any order and in
 * any pieces, after a valid login or instead of one. Nothing may crash, leak or remain,
 * and ready events are handled without waiting.
 */
#include <stdlib.h>
#include <string.h>

#include "../lib/engine.h"
#include "pgweir/pgwire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEERS 3 /* clients, and as many servers */

static const char *const modes[] = {
	"pool_mode = session\nserver_reset_query = DISCARD ALL",
	"pool_mode = transaction\ndefault_pool_size = 1",
	"pool_mode = statement\ndefault_pool_size = 2\nserver_round_robin = 1",
	"pool_mode = transaction\nmax_db_connections = 1\nserver_check_delay = 0\n"
	"server_check_query = select 1\nserver_reset_query_always = 1\nserver_reset_query = x",
	"pool_mode = transaction\ndefault_pool_size = 2\nserver_lifetime = 0",
	"pool_mode = session\ndefault_pool_size = 1\ndisable_pqexec = 1\nsbuf_loopcnt = 1\n"
	"max_packet_size = 1024\nlogin_notify_message = hello",
	"pool_mode = transaction\ndefault_pool_size = 1\nmax_prepared_statements = 2",
	"pool_mode = transaction\ndefault_pool_size = 1\nlate_begin = 1",
	"pool_mode = transaction\ndefault_pool_size = 2\nlate_begin = 1\n"
	"max_prepared_statements = 0\nserver_lifetime = 0",
};

struct play {
	struct engine engine;
	struct peer peers[2 * PEERS]; /* clients, then servers */
	const uint8_t *data;
	size_t left;
};

static unsigned int take(struct play *play)
{
	if (play->left == 0)
		return 0;
	play->left--;
	return *play->data++;
}

static void drain(struct play *play, struct peer *peer)
{
	if (peer->fd >= 0 && strchr(peer_hear(&play->engine, peer), '.'))
		peer_close(peer);
}

/* A Parse, Bind, Describe or Close of one of three names or none, with one of four texts. */
static void named_message(struct play *play, struct buf *out)
{
	unsigned int what = take(play);
	const char names[] = { 's', (char)('0' + what / 4 % 4), 0 };
	const char *name = what / 4 % 4 == 3 ? "" : names; /* the unnamed statement */
	const char text[] = { 't', (char)('0' + what / 16 % 4), 0 };
	const char type = "PBDC"[what % 4];
	size_t at = message_begin(out, type);

	if (type == 'B')
		buf_add_cstr(out, "");
	if (type == 'D' || type == 'C')
		buf_add_byte(out, 'S');
	buf_add_cstr(out, name);
	if (type == 'P')
		buf_add_cstr(out, text);
	if (type == 'P' || type == 'B')
		buf_add_be16(out, 0);
	if (type == 'B')
		buf_add_be32(out, 0);
	message_end(out, at);
}

/* The same names in SQL, by a Query or by a Parse without a name. */
static void sql_message(struct play *play, struct buf *out)
{
	static const char *const texts[] = { "PREPARE s%u (int) AS SELECT 1", "EXECUTE s%u (1)",
		                             "DEALLOCATE s%u", "EXECUTE s%u; SELECT 1" };
	unsigned int what = take(play);
	char type = "QP"[what % 2];
	size_t at = message_begin(out, type);

	if (type == 'P')
		buf_add_byte(out, 0);
	buf_add_text(out, texts[what / 2 % 3 + (what > 250)]);
	for (size_t i = at; i + 1 < out->count; i++) { /* the number of the name */
		if (out->at[i] == '%' && out->at[i + 1] == 'u')
			memcpy(out->at + i, (const char[]){ (char)('0' + what / 8 % 4), ' ' }, 2);
	}
	buf_add_byte(out, 0);
	if (type == 'P')
		buf_add_be16(out, 0);
	message_end(out, at);
}

/* Statements that begin or end transactions, or look similar. */
static void block_message(struct play *play, struct buf *out)
{
	static const char *const texts[] = { "BEGIN",
		                             "begin read only;",
		                             "START TRANSACTION",
		                             "BEGIN ISOLATION LEVEL SERIALIZABLE",
		                             "BEGIN; SELECT 1",
		                             "COMMIT",
		                             "rollback -- now",
		                             "COMMIT AND CHAIN" };
	size_t at = message_begin(out, 'Q');

	buf_add_cstr(out, texts[take(play) % (sizeof(texts) / sizeof(texts[0]))]);
	message_end(out, at);
}

/* A message, in one piece or in two with some turns between. */
static void say_message(struct play *play, struct peer *peer, bool is_cut)
{
	static const char clients[] = "QPBDECSHFdcfXQSQSnnnnnqqqbbbbbb",
			  servers[] = "RSKZzyCxTD123nstIGHWVNAEdcZZC!?";
	struct buf out = { 0 };
	size_t cut;
	char type = peer->is_server ? servers[take(play) % (sizeof(servers) - 1)]
	                            : clients[take(play) % (sizeof(clients) - 1)];

	if (!peer->is_server && type == 'n')
		named_message(play, &out);
	else if (!peer->is_server && type == 'q')
		sql_message(play, &out);
	else if (!peer->is_server && type == 'b')
		block_message(play, &out);
	else
		peer_message(peer, &out, type);
	cut = is_cut ? take(play) % out.count : 0;
	if (cut) {
		peer_say_bytes(peer, bytes_of(out.at, cut));
		engine_turn(&play->engine);
	}
	peer_say_bytes(peer, bytes_of(out.at + cut, out.count - cut));
	buf_free(&out);
}

static void say_raw(struct play *play, struct peer *peer)
{
	size_t count = take(play) % 64;

	if (count > play->left)
		count = play->left;
	if (count)
		peer_say_bytes(peer, bytes_of(play->data, count));
	play->data += count;
	play->left -= count;
}

static void begin(struct play *play, struct peer *peer, bool in_order)
{
	static const char *const users[] = { "u0", "u1", "u2", "nobody" };
	static const char *const databases[] = { "d0", "d1", "d2", "pgbouncer" };
	unsigned int who = take(play);

	if (peer->is_server) {
		*peer = engine_server(&play->engine);
		if (peer->fd >= 0 && in_order)
			peer_say(peer, "RSKZ");
		return;
	}
	*peer = engine_client(&play->engine);
	if (in_order)
		peer_start(peer, users[who % 4], databases[(who >> 2) % 4]);
}

static void act(struct play *play)
{
	unsigned int what = take(play);
	struct peer *peer = &play->peers[what % (2 * PEERS)];

	if (peer->fd < 0) {
		begin(play, peer, what & 0x80 || what & 0x40);
		return;
	}
	switch (what / (2 * PEERS) % 8) {
	case 0:
		say_raw(play, peer);
		break;
	case 1:
		say_message(play, peer, true);
		break;
	case 2:
		if (take(play) % 4 == 0)
			peer_close(peer);
		break;
	case 3:
		engine_turn(&play->engine);
		break;
	case 4:
		drain(play, peer);
		break;
	default:
		say_message(play, peer, false);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct play *play = calloc(1, sizeof(*play));
	struct peer rest;

	play->data = data;
	play->left = size;
	engine_open(&play->engine, modes[take(play) % (sizeof(modes) / sizeof(modes[0]))], "");
	for (size_t i = 0; i < 2 * PEERS; i++)
		play->peers[i] = (struct peer){ .fd = -1, .is_server = i >= PEERS };
	while (play->left)
		act(play);
	for (size_t i = 0; i < 2 * PEERS; i++)
		drain(play, &play->peers[i]);
	for (size_t i = 0; i < 2 * PEERS; i++)
		peer_close(&play->peers[i]);
	engine_turn(&play->engine);
	while ((rest = engine_server(&play->engine)).fd >= 0)
		peer_close(&rest);
	engine_close(&play->engine);
	free(play);
	return 0;
}
