/* SPDX-License-Identifier: ISC */
/*
 * Which messages must be understood whole, so that they are kept until all of them is there.
 */
#ifndef PGWEIR_CLIENT_STATEMENTS_WHOLE_PRIV_H
#define PGWEIR_CLIENT_STATEMENTS_WHOLE_PRIV_H

#include "pgweir/client/client.h"
#include "pgweir/pgwire/frame.h"

/* The longest names at the front of a message; PostgreSQL cuts them at 63 bytes. */
#define WHOLE_NAMES_MAX ((size_t)16 * 1024)

enum whole {
	WHOLE_ENOUGH,  /* what has come will do, or all has */
	WHOLE_MORE,    /* more of it must come */
	WHOLE_TOO_LONG /* more than may be kept: it is refused */
};

/*
 * Judges a frame of a client whose statements are followed; it needs no server for that.
 * `most`: max_statement_size.
 */
enum whole whole_judge(const struct frame *frame, struct bytes in, size_t most);

#endif
