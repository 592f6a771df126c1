/* SPDX-License-Identifier: ISC */
/* Between the relay and the judging of what clients say. */
#ifndef PGWEIR_CLIENT_RELAY_JUDGE_PRIV_H
#define PGWEIR_CLIENT_RELAY_JUDGE_PRIV_H

#include "../batch_priv.h"

#include "pgweir/client/client.h"

enum judgement {
	JUDGE_SEND,  /* it goes to the server */
	JUDGE_DROP,  /* it goes nowhere */
	JUDGE_MORE,  /* not before more of it has come */
	JUDGE_WAIT,  /* not now: it stays. With a server, for what gather.waits_for says */
	JUDGE_LEAVE, /* the client takes its leave */
	JUDGE_END    /* the client is done with: it was told why */
};

/*
 * Judges frames until something stops it, and gathers what is to be sent. *in goes
 * forward to what is left.
 */
enum judgement judge_all(struct client *client, struct bytes *in, struct batch *batch);

#endif
