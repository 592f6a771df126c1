/* SPDX-License-Identifier: ISC */
/*
 * Which messages must be complete before they are judged, and so are kept until then.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_WHOLE_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_WHOLE_PRIV_H

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

/* Maximum bytes of the names at the front of a message. PostgreSQL cuts a name after 63 bytes. */
#define WHOLE_NAMES_MAX ((size_t)16 * 1024)

enum whole {
	WHOLE_ENOUGH,  /* the received bytes are enough, or the message is complete */
	WHOLE_MORE,    /* more bytes must be received */
	WHOLE_TOO_LONG /* longer than allowed: refuse it */
};

/*
 * Judges a frame of a client whose statements are tracked. Needs no server. most:
 * max_statement_size.
 */
enum whole whole_judge(const struct frame *frame, struct bytes in, size_t most);

#endif
