/* SPDX-License-Identifier: ISC */
/*
 * The interface between the relay and judge.c, which decides what to do with client messages.
 */
#ifndef PGWEIR_CLIENT_RELAY_JUDGE_PRIV_H
#define PGWEIR_CLIENT_RELAY_JUDGE_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/client.h"

enum judgement {
	JUDGE_SEND, /* send it to the server */
	JUDGE_DROP, /* drop it */
	JUDGE_MORE, /* more bytes of the frame are needed */
	/*
	 * cannot be handled now: it stays in the input buffer. With a server: until batch.waits_for
	 */
	JUDGE_WAIT,
	JUDGE_LEAVE, /* the client has sent Terminate */
	JUDGE_END    /* the client was refused or closed */
};

/*
 * Handles frames until one of them stops it, and collects in `batch` what must be sent. Advances
 * *in to the rest.
 */
enum judgement judge_all(struct client *client, struct bytes *in, struct batch *batch);

#endif
