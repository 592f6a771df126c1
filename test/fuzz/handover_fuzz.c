/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the hand-over: messages of any type with any body. Valid objects are accepted, with a
 * socket if they need one, and continue; nothing may crash, leak or remain.
 *
 * The input: a letter, a length of two bytes, a body; and again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/engine.h"
#include "pgweir/client/handover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SOCKETS_MAX 16

struct play {
	struct engine engine;
	struct pools_arrival arrival;
	int far_ends[SOCKETS_MAX];
	size_t count;
};

static int make_socket(struct play *play)
{
	int fds[2];

	if (play->count == SOCKETS_MAX ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0)
		return -1;
	play->far_ends[play->count++] = fds[0];
	return fds[1];
}

static void give(struct play *play, char kind, struct bytes body)
{
	bool is_client = kind == HANDOVER_CLIENT;
	struct err err;
	int fd = -1;

	if (is_client ? !client_judge(play->engine.clients, body, &err)
	              : !pools_judge(play->engine.pools, kind, body, &err))
		return;
	if (is_client || kind == HANDOVER_SERVER)
		fd = make_socket(play);
	if (is_client)
		client_take(play->engine.clients, &play->arrival, body, &fd);
	else
		pools_take(play->engine.pools, &play->arrival, kind, body, &fd);
	if (fd >= 0)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct play *play = calloc(1, sizeof(*play));
	struct peer rest;

	engine_open(&play->engine, "pool_mode = transaction\nmax_prepared_statements = 10", "");
	play->arrival.first = play->engine.pools;
	while (size >= 3) {
		size_t count = load_be16(data + 1);
		char *body;

		if (count > size - 3)
			count = size - 3;
		body = malloc(count ? count : 1);
		memcpy(body, data + 3, count);
		give(play, (char)data[0], bytes_of(body, count));
		free(body);
		data += 3 + count;
		size -= 3 + count;
	}
	pools_take_end(play->engine.pools, &play->arrival);
	clients_start(play->engine.clients);
	engine_turn(&play->engine);
	while (play->count)
		close(play->far_ends[--play->count]);
	engine_turn(&play->engine);
	while ((rest = engine_server(&play->engine)).fd >= 0)
		peer_close(&rest);
	pools_arrival_done(&play->arrival);
	engine_close(&play->engine);
	free(play);
	return 0;
}
